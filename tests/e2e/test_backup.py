"""The catalog's backup is taken while a build runs, and restored; the store stays as it went on."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from tests.catalog import pg_server
from tests.e2e.conftest import Project
from tests.e2e.processes import builders, command, wait_until

from provender.catalog import Catalog

GATED = """
import pathlib
import time

import tensorflow_datasets as tfds

GATE = pathlib.Path("{gate}")


class Gated(tfds.core.GeneratorBasedBuilder):
    VERSION = tfds.core.Version("1.0.0")

    def _info(self):
        return tfds.core.DatasetInfo(
            builder=self, features=tfds.features.FeaturesDict({{"text": tfds.features.Text()}})
        )

    def _split_generators(self, dl_manager):
        return {{"train": self._generate_examples()}}

    def _generate_examples(self):
        GATE.with_suffix(".reached").touch()
        while not GATE.exists():
            time.sleep(0.02)
        for number in range(20):
            yield number, {{"text": f"line {{number}}"}}
"""


@pytest.fixture(scope="module")
def database() -> Iterator[Any]:
    with pg_server.start() as server:
        yield server


@pytest.fixture(params=[pytest.param("sqlite", marks=pytest.mark.slow), "postgresql"])
def places(
    request: pytest.FixtureRequest, pairs: Project, monkeypatch: pytest.MonkeyPatch
) -> tuple[Project, Project]:
    """The project with its catalog, and the same with one that is not there yet."""
    if request.param == "sqlite":
        return pairs, _with(pairs, f"sqlite:///{pairs.root}/restored/catalog.db")
    server = request.getfixturevalue("database")
    monkeypatch.setenv("PATH", str(pg_server.programs()), prepend=":")
    return _with(pairs, server.new_database()), _with(pairs, server.new_database())


def _with(project: Project, catalog: str) -> Project:
    return Project(project.root, replace(project.settings, catalog=catalog))


def test_backup_during_a_build_and_restore(places: tuple[Project, Project]) -> None:
    project, restored = places
    file, gate = project.root / "copies" / "catalog.backup", project.root / "gate"
    project.write("gated.py", GATED.format(gate=gate))
    first = project.build(num_shards=2)
    with builders(project, 1, "gated.py:Gated", workers=1) as (running,):
        wait_until(gate.with_suffix(".reached").exists, "the build reads examples", 60)
        said = json.loads(command(project, "db", "backup", str(file), "--json").stdout)
        assert said["bytes"] == file.stat().st_size > 0
        assert file.stat().st_mode & 0o777 == 0o600
        assert running.process.poll() is None
        gate.touch()
        assert running.result()["outcome"] == "succeeded"

    command(restored, "db", "restore", str(file))
    assert "current" in command(restored, "db", "status").stdout
    assert json.loads(command(restored, "db", "check", "--json").stdout)["differences"] == []
    names = [each["name"] for each in json.loads(command(restored, "versions", "--json").stdout)]
    assert names == ["pairs:1.0.0"]
    command(restored, "verify", "pairs:1.0.0")
    shown = command(restored, "head", "pairs:1.0.0", "--split", "test", "-n", "1").stdout
    assert "test line" in shown
    # What was at work then is told to be gone, and what was built since is taken in again.
    shards = list(
        (Path(project.settings.store) / "datasets" / "gated" / "1.0.0").glob("*.tfrecord*")
    )
    written = {each: each.stat().st_mtime_ns for each in shards}
    found = json.loads(command(restored, "doctor", "--fix", "--json").stdout)
    assert {"unregistered", "dead_run"} <= {each["kind"] for each in found}
    with Catalog.open(restored.settings.catalog) as catalog:
        assert {each.outcome for each in catalog.runs()} == {"succeeded", "died"}
        assert catalog.version_by_id(first.version.id).fingerprint == first.version.fingerprint
    again = restored.build("gated.py:Gated")
    assert again.version.status == "published" and again.version.examples == 20
    assert written and written == {each: each.stat().st_mtime_ns for each in shards}
    command(restored, "verify", "gated:1.0.0")
