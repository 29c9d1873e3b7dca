"""Revisions: first use, migrations, catalogs of another age, catalogs of others."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import sqlalchemy as sa

from provender.catalog import Catalog, db
from provender.catalog.engine import make_engine, parse_url
from provender.catalog.revisions import REVISIONS
from provender.errors import CatalogError


def execute(url, *statements):
    engine = make_engine(parse_url(url))
    with engine.begin() as conn:
        for statement in statements:
            conn.exec_driver_sql(statement)
    engine.dispose()


def migrate(url, revision):
    from alembic import command

    engine = make_engine(parse_url(url))
    with engine.begin() as conn:
        move = command.downgrade if revision in (*REVISIONS[:-1], "base") else command.upgrade
        move(db.alembic_config(conn), revision)
    engine.dispose()


def tables(url):
    engine = make_engine(parse_url(url))
    with engine.connect() as conn:
        found = set(sa.inspect(conn).get_table_names()) | set(sa.inspect(conn).get_view_names())
    engine.dispose()
    return found


def test_the_packaged_revisions_are_those_of_the_scripts():
    from alembic.script import ScriptDirectory

    scripts = ScriptDirectory.from_config(db.alembic_config())
    newest_first = [script.revision for script in scripts.walk_revisions()]
    assert tuple(reversed(newest_first)) == REVISIONS
    assert scripts.get_current_head() == db.head_revision()


def test_first_use_creates_what_the_tables_say(empty_url):
    assert db.current_revision(empty_url) is None
    Catalog.open(empty_url).close()
    assert db.current_revision(empty_url) == db.head_revision()
    assert db.check(empty_url) == []


def test_check_tells_the_difference(url, backend):
    extra = f"extra_{backend}"
    execute(url, f"CREATE TABLE {extra} (id integer)")
    try:
        [difference] = db.check(url)
        assert extra in difference
    finally:
        execute(url, f"DROP TABLE {extra}")


def test_down_and_up_again(empty_url):
    assert db.upgrade(empty_url) == (None, db.head_revision())
    full = tables(empty_url)
    migrate(empty_url, "base")
    assert tables(empty_url) == {"alembic_version"}
    migrate(empty_url, "head")
    assert tables(empty_url) == full
    assert db.upgrade(empty_url) == (db.head_revision(), db.head_revision())
    assert db.check(empty_url) == []


def test_an_older_catalog(empty_url, backend):
    """SQLite is brought up to date unasked; PostgreSQL, which others may use, on request."""
    Catalog.open(empty_url).close()
    migrate(empty_url, REVISIONS[0])
    if backend == "postgresql":
        with pytest.raises(CatalogError, match="older than this code") as caught:
            Catalog.open(empty_url)
        assert "provender db upgrade" in caught.value.hint
        assert db.upgrade(empty_url) == (REVISIONS[0], db.head_revision())
    with Catalog.open(empty_url) as catalog:
        assert catalog.runs() == []
        assert catalog.sql("SELECT * FROM v_versions").rows == ()
    assert db.current_revision(empty_url) == db.head_revision()


def test_a_newer_catalog_is_refused(empty_url):
    Catalog.open(empty_url).close()
    execute(empty_url, "UPDATE alembic_version SET version_num = '9999'")
    before = tables(empty_url)
    for use in (Catalog.open, db.upgrade):
        with pytest.raises(CatalogError, match="9999, which this code does not know"):
            use(empty_url)
    assert tables(empty_url) == before
    assert db.current_revision(empty_url) == "9999"


def test_a_database_of_others_is_left_alone(empty_url, tmp_path):
    (tmp_path / "state").mkdir()
    execute(empty_url, "CREATE TABLE customers (id integer)")
    with pytest.raises(CatalogError, match="another program"):
        Catalog.open(empty_url)
    assert tables(empty_url) == {"customers"}


def test_a_failing_migration_leaves_no_trace(empty_url, monkeypatch, tmp_path):
    scripts = tmp_path / "scripts"
    shutil.copytree(db.script_location(), scripts, ignore=shutil.ignore_patterns("__pycache__"))
    script = scripts / "versions" / "0002_views.py"
    script.write_text(script.read_text().replace("VIEW v_consumption AS", "VIEW v_versions AS"))
    monkeypatch.setattr(db, "script_location", lambda: scripts)
    with pytest.raises(CatalogError):
        Catalog.open(empty_url)
    assert tables(empty_url) == set()
    monkeypatch.undo()
    Catalog.open(empty_url).close()


def test_tensorflow_first_does_not_take_sqlite_away(tmp_path: Path) -> None:
    program = (
        "import sys, tensorflow\n"
        "from provender.catalog import Catalog\n"
        "with Catalog.open(sys.argv[1]) as catalog: print(catalog.search('x'))"
    )
    done = subprocess.run(
        [sys.executable, "-c", program, str(tmp_path / "catalog.db")],
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr[-2000:]
