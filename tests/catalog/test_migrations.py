"""From one revision to the next, with a catalog that is in use."""

from __future__ import annotations

import pytest
from alembic import command
from tests.catalog.conftest import artifact

from provender.catalog import Catalog, db
from provender.catalog.engine import make_engine, parse_url
from provender.catalog.records import SplitRecord
from provender.errors import CatalogError


def move(url, revision, way):
    """Migrates a database to a revision."""
    engine = make_engine(parse_url(url))
    with engine.connect() as conn:
        if conn.dialect.name == "sqlite":
            conn.detach()
            conn.connection.dbapi_connection.execute("PRAGMA foreign_keys=OFF")
        with conn.begin():
            getattr(command, way)(db.alembic_config(conn), revision)
    engine.dispose()


def parts(catalog):
    """What can be found, and which version says so, without row numbers and times."""
    columns = "dataset_id, field, digest, text, words, version_id"
    found = catalog.sql(f"SELECT {columns} FROM search_part", None).rows
    return sorted(found, key=str)


def test_search_is_filled_for_versions_that_are_there(empty_url, publish_into):
    with Catalog.open(empty_url) as catalog:
        one, two = publish_into(catalog)
        kept = parts(catalog)
        assert len(kept) > 10
    move(empty_url, "0003", "downgrade")
    assert db.current_revision(empty_url) == "0003"
    db.upgrade(empty_url)
    assert db.check(empty_url) == []
    with Catalog.open(empty_url) as catalog:
        assert parts(catalog) == kept
        assert catalog.search("typo")[0].version_id == one
        assert catalog.search("golden")[0].version_id == two
        assert catalog.search("job-1")[0].version_id == one
        # And the index still follows.
        catalog.set_alias("toy", "", "fresh", two)
        assert catalog.search("fresh")[0].version_id == two
        catalog.set_alias("toy", "", "golden", None)
        assert catalog.search("golden") == []


@pytest.fixture
def publish_into():
    """Registers two versions with all that can be searched but tags, which older catalogs lack."""

    def register(catalog):
        ids = []
        for number, text in (("1.0.0", "With a typo."), ("1.1.0", "Größe, ﬁne; pixelValues.")):
            about = {
                "description": text,
                "redistributionInfo": {"license": "CC0"},
                "location": {"urls": ["https://example.org/a_b"]},
            }
            stage = catalog.record_stage(
                None, "toy", "", "download", f"d-{number}", state="succeeded",
                outputs=[artifact("sha", "https://data.example.org/x.zip", kind="download")],
            )  # fmt: skip
            ids.append(
                catalog.register_version(
                    "toy", "", number, f"fp-{number}", path="p", uri="/p",
                    splits=[SplitRecord("train", 1, 1, 1)], shards=[],
                    features={"featuresDict": {"features": {"text": {}, "topLeft": {}}}},
                    info={"dataset_info": about}, lineage_inputs=[stage.id],
                ).id
            )  # fmt: skip
        catalog.set_alias("toy", "", "golden", ids[1])
        catalog.record_consumption(ids[0], "job-1")
        return ids

    return register


def test_an_older_catalog_names_the_command_that_mends_it(empty_url, backend):
    Catalog.open(empty_url).close()
    move(empty_url, "0003", "downgrade")
    if backend == "sqlite":
        # Nobody else is at work in a file: it is migrated at once.
        Catalog.open(empty_url).close()
        assert db.current_revision(empty_url) == db.head_revision()
        return
    with pytest.raises(CatalogError, match="older than this code") as caught:
        Catalog.open(empty_url)
    assert "provender db upgrade" in caught.value.hint
    assert db.upgrade(empty_url) == ("0003", db.head_revision())
    Catalog.open(empty_url).close()


def test_a_newer_catalog_names_the_command_that_mends_it(empty_url):
    Catalog.open(empty_url).close()
    engine = make_engine(parse_url(empty_url))
    with engine.begin() as conn:
        conn.exec_driver_sql("UPDATE alembic_version SET version_num = '9999'")
    engine.dispose()
    with pytest.raises(CatalogError, match="9999") as caught:
        Catalog.open(empty_url)
    assert "pip install --upgrade provender" in caught.value.hint
