"""Where a catalog may live, what people are told, and what is never shown."""

from __future__ import annotations

import os
import pickle
import traceback

import pytest

from provender.catalog import Catalog, db
from provender.catalog.engine import masked, parse_url
from provender.errors import CatalogError


@pytest.mark.parametrize("name", ["a b.db", "100%.db", "ü#?.db", "[ab]*.db", "deep/er/c.db"])
def test_plain_paths_are_sqlite_files(tmp_path, name):
    path = tmp_path / name
    with Catalog.open(path) as catalog:
        catalog.begin_run("build", "toy", None, None)
    assert path.is_file()
    with Catalog.open(str(path)) as again:
        assert len(again.runs()) == 1


def test_relative_and_home_paths(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))
    assert parse_url("c.db").database == str(tmp_path / "c.db")
    assert parse_url("sqlite:///c.db").database == str(tmp_path / "c.db")
    assert parse_url("~/c.db").database == str(tmp_path / "c.db")
    assert parse_url("postgresql://h/d").drivername == "postgresql+psycopg"


@pytest.mark.parametrize(
    "url",
    [
        "gs://bucket/catalog.db",
        "mysql://u:hunter2@h/d",
        "sqlite://",
        "sqlite:///:memory:",
        "x://[",
        "http://u:hunter2@[h",
    ],
)
def test_other_places_are_refused(url, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(CatalogError) as caught:
        Catalog.open(url)
    assert "hunter2" not in shown(caught.value)
    assert os.listdir(tmp_path) == []


def shown(error):
    return "".join(traceback.format_exception(error)) + repr(error) + str(error.to_json())


@pytest.mark.parametrize(
    "url",
    [
        "postgresql+psycopg://ada:hunter2@127.0.0.1:1/d",
        "postgresql://ada@127.0.0.1:1/d?password=hunter2",
        "postgresql://ada:hunter2@no.such.host.invalid/d",
    ],
)
def test_the_password_is_never_shown(url):
    with pytest.raises(CatalogError) as caught:
        Catalog.open(url)
    assert "hunter2" not in shown(caught.value)
    assert "ada" in caught.value.where
    with pytest.raises(CatalogError) as caught:
        db.upgrade(url)
    assert "hunter2" not in shown(caught.value)
    assert "hunter2" not in masked(parse_url(url))


def test_the_catalogs_own_url_and_repr_are_masked(pg_server):
    url = pg_server.new_database().replace("postgres@", "postgres:hunter2@")
    with Catalog.open(url) as catalog:
        assert "hunter2" not in catalog.url + repr(catalog) + str(vars(catalog))
        assert "***" in catalog.url


def test_values_are_not_shown_in_errors(catalog):
    with pytest.raises(CatalogError) as caught:
        catalog.record_hits("no such run", ["secret-stage"])
    assert "secret-stage" not in str(caught.value) + str(caught.value.to_json())


def test_what_is_no_database(tmp_path):
    file = tmp_path / "catalog.db"
    file.write_bytes(b"not a database, but long enough to be looked at" * 50)
    with pytest.raises(CatalogError, match="not a database") as caught:
        Catalog.open(file)
    assert str(file) in caught.value.where
    blocked = tmp_path / "catalog.db" / "below"
    with pytest.raises(CatalogError, match="folder"):
        Catalog.open(blocked)


def test_errors_travel(url):
    with pytest.raises(CatalogError) as caught:
        Catalog.open("gs://bucket/x")
    assert str(pickle.loads(pickle.dumps(caught.value))) == str(caught.value)


def test_a_closed_catalog_can_be_used_again(catalog):
    catalog.close()
    assert catalog.runs() == []


def test_threads_share_a_catalog(catalog):
    from concurrent.futures import ThreadPoolExecutor

    def work(number):
        catalog.record_stage(None, "toy", None, f"s/{number}", f"fp{number}", state="succeeded")
        return catalog.find_stage(f"fp{number}").key

    with ThreadPoolExecutor(16) as pool:
        assert list(pool.map(work, range(64))) == [f"s/{number}" for number in range(64)]
