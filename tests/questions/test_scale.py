"""The generator behind the figures on the page: what it makes is a catalog like any other."""

from __future__ import annotations

import importlib.util
import sqlite3
import sys
from pathlib import Path

import pytest

from provender.catalog import Catalog, db
from provender.questions import Questions

PLACE = Path(__file__).parents[2] / "benchmarks" / "catalog.py"


@pytest.fixture(scope="module")
def bench():
    spec = importlib.util.spec_from_file_location("bench_catalog", PLACE)
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


def test_a_small_world(bench, tmp_path):
    world = bench.World(500, 100)
    file = tmp_path / "catalog.db"
    _, rows = bench.load_sqlite(world, file)
    assert db.check(file) == []
    with sqlite3.connect(file) as conn:
        assert conn.execute("PRAGMA foreign_key_check").fetchall() == []
        assert conn.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
        conn.execute("INSERT INTO search_index(search_index, rank) VALUES ('integrity-check', 1)")
    with Catalog.open(file) as catalog:
        ask = Questions(catalog)
        edges, stages = ask.sql(
            "SELECT (SELECT count(*) FROM lineage), (SELECT count(*) FROM stage_execution)"
        ).rows[0]
        assert stages == 500 * bench.STAGES
        assert 28 * 500 <= edges <= 30 * 500
        assert rows > edges + stages
        for name, question in bench.questions(world, ask).items():
            if name != "search, nothing":
                assert question(), name
        deep = bench.identifier("version", 500 - world.breadth // 2 - 1)
        # Fifty generations lie behind it, two steps each.
        far = [len(ask.lineage(deep, "up", depth).nodes) for depth in (2, 50, 98, 100, 200)]
        assert far == sorted(far)
        assert far[1] < far[2]
        # The catalog goes on from what was loaded.
        catalog.record_stage(None, "fresh", "", "download", "f", state="succeeded")
        catalog.add_tags(deep, ["checked"])
        assert ask.search("checked")[0].version_id == deep
