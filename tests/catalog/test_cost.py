"""What using the catalog costs: what gets imported, and how long a no-op takes."""

from __future__ import annotations

import json
import subprocess
import sys
import time

import pytest

from provender import catalog as package
from provender.catalog import Catalog

HEAVY = ("sqlalchemy", "sqlalchemy.orm", "alembic", "psycopg", "tensorflow", "pandas", "numpy")


def imported_by(code, *args):
    """Which heavy packages a fresh interpreter holds after running the code."""
    script = (
        f"import sys, json\n{code}\nprint(json.dumps([m for m in {HEAVY!r} if m in sys.modules]))"
    )
    done = subprocess.run(
        [sys.executable, "-c", script, *args],
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    return json.loads(done.stdout)


def test_the_package_and_its_records_import_nothing():
    code = "import provender.catalog\nfrom provender.catalog import StageRecord, claimed, this_process, VIEWS"
    assert imported_by(code) == []


def test_creating_and_opening_sqlite(tmp_path):
    code = (
        "from provender.catalog import Catalog\n"
        "c = Catalog.open(sys.argv[1]); c.find_stages(['x']); c.runs(); c.versions()\n"
        "c.record_noop_run('build', 'toy', None, None, {}, {}, None); c.close()"
    )
    path = str(tmp_path / "catalog.db")
    # Creating may load Alembic, which loads the ORM; opening what is current may not.
    assert "alembic" in imported_by(code, path)
    assert imported_by(code, path) == ["sqlalchemy"]


def test_opening_postgresql_needs_no_alembic(pg_server):
    url = pg_server.new_database()
    Catalog.open(url).close()
    code = "from provender.catalog import Catalog\nCatalog.open(sys.argv[1]).runs()"
    assert imported_by(code, url) == ["sqlalchemy", "psycopg"]


def test_every_public_name_is_there():
    assert sorted(package.__all__) == package.__all__
    for name in package.__all__:
        assert getattr(package, name) is not None
    assert set(dir(package)) == set(package.__all__)
    with pytest.raises(AttributeError):
        package.nothing


def test_no_op_timing(url, capsys):
    """Prints, and asserts nothing: open, ask for 20 stages, note the run."""
    with Catalog.open(url) as catalog:
        for number in range(20):
            catalog.record_stage(None, "toy", None, f"s/{number}", f"fp{number}", state="succeeded")
    laps = []
    for _ in range(5):
        began = time.perf_counter()
        with Catalog.open(url) as catalog:
            catalog.find_stages([f"fp{number}" for number in range(20)])
            catalog.record_noop_run("build", "toy", None, "1.0.0", {}, {}, None)
        laps.append((time.perf_counter() - began) * 1000)
    with capsys.disabled():
        print(f" no-op: first {laps[0]:.1f} ms, best {min(laps):.1f} ms ", end="")
