"""Backup and restore of the database itself: what a copy holds, and when there is none."""

from __future__ import annotations

import shutil
import sqlite3
import subprocess
import sys
import threading
from pathlib import Path

import pytest
from tests.catalog import pg_server as postgres

from provender.catalog import Catalog, SplitRecord, copies, db
from provender.catalog.engine import make_engine, parse_url
from provender.errors import CatalogError, InputError, MissingPath, SettingsError


@pytest.fixture(autouse=True)
def _postgres_programs(monkeypatch):
    monkeypatch.setenv("PATH", str(postgres.programs()), prepend=":")


def test_a_copy_has_everything(url, catalog, publish, empty_url, tmp_path, rows):
    first = publish()
    publish("1.1.0")
    catalog.set_alias("toy", "", "golden", first.id)
    catalog.add_tags(first.id, ["checked"])
    catalog.record_consumption(first.id, "job-1")
    first = catalog.version_by_id(first.id)
    before = rows()
    file = tmp_path / "deep" / "copy.backup"
    assert copies.backup(url, file) == db.head_revision()
    assert file.stat().st_mode & 0o777 == 0o600
    assert [each.name for each in file.parent.iterdir()] == ["copy.backup"]
    publish("1.2.0")  # not in the copy

    assert copies.restore(empty_url, file) == db.head_revision()
    assert db.check(empty_url) == []
    with Catalog.open(empty_url) as other:
        tables = " UNION ALL ".join(f"SELECT '{name}', count(*) FROM {name}" for name in before)
        assert dict(other.sql(tables).rows) == before
        assert other.version_by_id(first.id) == first
        assert other.search("checked")[0].version_id == first.id
        assert [each.job for each in other.consumptions(version_id=first.id)] == ["job-1"]
        # And it goes on counting where the first one was.
        other.register_version(
            "toy", "", "2.0.0", "fp-new", path="p", uri="/p", splits=[], shards=[], features={}, info={}
        )  # fmt: skip
        other.set_alias("toy", "", "golden", None)


def test_a_copy_is_of_one_moment(url, catalog, tmp_path, empty_url):
    """Versions and their splits are written in one transaction; a copy has both or neither."""
    done, begun = threading.Event(), threading.Event()

    def write():
        number = 0
        while not done.is_set():
            number += 1
            catalog.register_version(
                "busy", "", f"{number}.0.0", f"fp-{number}", path="p", uri="/p",
                splits=[SplitRecord("train", 1, 1, 1), SplitRecord("test", 1, 1, 1)],
                shards=[], features={}, info={},
            )  # fmt: skip
            begun.set()

    writer = threading.Thread(target=write)
    writer.start()
    try:
        assert begun.wait(60)
        files = [tmp_path / f"{number}.backup" for number in range(3)]
        for file in files:
            copies.backup(url, file)
    finally:
        done.set()
        writer.join()
    copies.restore(empty_url, files[-1])
    with Catalog.open(empty_url) as other:
        counts = other.sql(
            "SELECT (SELECT count(*) FROM version), (SELECT count(*) FROM split_stat)"
        ).rows[0]
        assert counts[0] > 0 and counts[1] == 2 * counts[0]
        assert counts[0] < len(catalog.versions("busy"))


def test_nothing_is_overwritten(url, catalog, publish, tmp_path):
    publish()
    file = tmp_path / "copy.backup"
    file.write_text("precious")
    with pytest.raises(SettingsError, match="there already"):
        copies.backup(url, file)
    assert file.read_text() == "precious"
    copies.backup(url, tmp_path / "other.backup")
    with pytest.raises(CatalogError, match="already"):
        copies.restore(url, tmp_path / "other.backup")
    assert len(catalog.versions("toy")) == 1


def test_an_older_copy_is_brought_up_to_date(empty_url, request, backend, tmp_path):
    from tests.catalog.test_migrations import move

    move(empty_url, "0001", "upgrade")
    file = tmp_path / "old.backup"
    assert copies.backup(empty_url, file) == "0001"
    new = f"sqlite:///{tmp_path}/new.db"
    if backend == "postgresql":
        new = request.getfixturevalue("pg_server").new_database()
    assert copies.restore(new, file) == "0001"
    assert db.upgrade(new) == ("0001", db.head_revision())
    Catalog.open(new).close()


def set_revision(url, revision):
    engine = make_engine(parse_url(url))
    with engine.begin() as conn:
        conn.exec_driver_sql(f"UPDATE alembic_version SET version_num = '{revision}'")
    engine.dispose()


def test_a_newer_copy_is_refused(url, catalog, empty_url, backend, tmp_path):
    set_revision(url, "9999")
    try:
        file = tmp_path / "new.backup"
        copies.backup(url, file)
        with pytest.raises(CatalogError, match="9999") as caught:
            copies.restore(empty_url, file)
        assert "pip install --upgrade provender" in str(caught.value.hint)
    finally:
        set_revision(url, db.head_revision())
    if backend == "sqlite":
        assert not Path(parse_url(empty_url).database).exists()
    else:
        assert db.is_empty(empty_url)


def test_there_must_be_a_catalog(empty_url, backend, tmp_path):
    with pytest.raises(CatalogError, match=r"no catalog|empty"):
        copies.backup(empty_url, tmp_path / "none.backup")
    assert list(tmp_path.glob("*.backup")) == []
    if backend == "sqlite":
        assert not Path(parse_url(empty_url).database).exists()


@pytest.mark.parametrize("content", [b"", b"no copy", b"SQLite format 3\x00 and then rubbish"])
def test_what_is_no_copy(content, tmp_path):
    file = tmp_path / "file"
    file.write_bytes(content)
    with pytest.raises(InputError):
        copies.restore(tmp_path / "catalog.db", file)
    with pytest.raises(MissingPath):
        copies.restore(tmp_path / "catalog.db", tmp_path / "nowhere")
    assert [each.name for each in tmp_path.iterdir()] == ["file"]


def test_another_kind_of_database(pg_server, tmp_path):
    here = tmp_path / "catalog.db"
    Catalog.open(here).close()
    copies.backup(here, tmp_path / "copy.backup")
    with pytest.raises(InputError, match="in sqlite"):
        copies.restore(pg_server.new_database(), tmp_path / "copy.backup")


def test_another_programs_file(tmp_path):
    file = tmp_path / "other.db"
    with sqlite3.connect(file) as conn:
        conn.execute("CREATE TABLE alembic_version (version_num TEXT)")
    conn.close()
    with pytest.raises(InputError, match="no catalog"):
        copies.restore(tmp_path / "catalog.db", file)


def test_a_log_without_its_catalog_is_in_the_way(tmp_path):
    """SQLite would apply it to the restored file."""
    here = tmp_path / "catalog.db"
    Catalog.open(here).close()
    copies.backup(here, tmp_path / "copy.backup")
    here.unlink()
    (tmp_path / "catalog.db-wal").write_bytes(b"left behind")
    with pytest.raises(CatalogError) as caught:
        copies.restore(here, tmp_path / "copy.backup")
    assert str(caught.value.where).endswith("-wal") and not here.exists()


def test_a_damaged_catalog_gives_no_copy(tmp_path):
    here = tmp_path / "catalog.db"
    with Catalog.open(here) as catalog:
        for number in range(300):
            catalog.begin_run("build", f"toy-{number}", None, None, {"text": "x" * 500})
    with here.open("r+b") as file:
        file.seek(here.stat().st_size // 2)
        file.write(b"\x00" * 3 * 4096)
    with pytest.raises(CatalogError, match=r"damaged|malformed"):
        copies.backup(here, tmp_path / "copy.backup")
    assert not list(tmp_path.glob("*copy.backup*"))


# PostgreSQL's programs -----------------------------------------------------------------------------


def test_a_missing_program_is_named(pg_server, tmp_path, monkeypatch):
    url = pg_server.new_database()
    Catalog.open(url).close()
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(CatalogError, match="pg_dump is not installed") as caught:
        copies.backup(url, tmp_path / "copy.backup")
    assert "postgresql-client" in str(caught.value.hint)


def test_an_older_program_says_what_helps(pg_server, tmp_path, monkeypatch):
    old = Path("/usr/lib/postgresql/15/bin/pg_dump")
    if not old.exists():
        pytest.skip("no PostgreSQL 15 here to be too old")
    url = pg_server.new_database()
    Catalog.open(url).close()
    monkeypatch.setenv("PATH", str(old.parent))
    with pytest.raises(CatalogError, match="server version mismatch") as caught:
        copies.backup(url, tmp_path / "copy.backup")
    assert "put their folder first in PATH" in str(caught.value.hint)
    assert not (tmp_path / "copy.backup").exists()


def test_no_password_is_on_the_command_line(pg_server, tmp_path, monkeypatch):
    """The program is called by one in between, which writes down how."""
    url = pg_server.new_database()
    Catalog.open(url).close()
    real = shutil.which("pg_dump")
    spy = tmp_path / "bin" / "pg_dump"
    spy.parent.mkdir()
    spy.write_text(f'#!/bin/sh\nps -ww -o args= $$ > {tmp_path}/seen\nexec {real} "$@"\n')
    spy.chmod(0o755)
    monkeypatch.setenv("PATH", str(spy.parent), prepend=":")
    secret = url.replace("postgres@", "postgres:s3cret@")
    copies.backup(secret, tmp_path / "copy.backup")
    seen = (tmp_path / "seen").read_text()
    assert "service=provender" in seen and "s3cret" not in seen


def test_the_commands_themselves(url, publish, tmp_path):
    publish()
    program = [str(Path(sys.executable).with_name("provender")), "db"]
    home = {"HOME": str(tmp_path), "PATH": str(postgres.programs())}
    file = tmp_path / "copy.backup"
    made = subprocess.run(
        [*program, "backup", file, "--catalog", url], env=home, capture_output=True, text=True
    )
    assert made.returncode == 0 and f"revision {db.head_revision()}" in made.stdout, made.stderr
    again = subprocess.run(
        [*program, "restore", file, "--catalog", url], env=home, capture_output=True, text=True
    )
    assert again.returncode == 7 and "already" in again.stderr
