"""Verifying finds every way in which a version can be wrong, and names the file."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path

import pytest

from provender.catalog import Catalog
from provender.store import Store
from provender.training.contents import MANIFEST, MARKER, index_name
from provender.upkeep import verify

SHARD = "notes-train.tfrecord-00001-of-00003"


def states(report) -> dict[str, str]:
    return {each.name: each.state for each in report.problems}


def test_a_fresh_version_is_right(notes):
    seen: list[tuple[int, int]] = []
    report = verify(
        notes.catalog, notes.store, notes.version, progress=lambda *each: seen.append(each)
    )
    assert report.ok
    assert report.problems == []
    sizes = sum(p.stat().st_size for p in notes.path("").rglob("*") if p.is_file())
    assert report.bytes_read == sizes
    assert seen[-1] == (sizes, sizes)
    assert [done for done, _ in seen] == sorted(done for done, _ in seen)
    names = {each.name for each in report.files}
    assert {SHARD, index_name(SHARD), MANIFEST, MARKER, "features.json"} <= names
    assert len(names) == len(report.files)


def test_a_quick_look_reads_nothing(notes):
    report = verify(notes.catalog, notes.store, notes.version, deep=False)
    assert report.ok
    assert report.bytes_read == 0


def test_the_report_is_json(notes):
    doc = json.loads(json.dumps(verify(notes.catalog, notes.store, notes.version).to_json()))
    assert doc["ok"] is True
    assert doc["version"] == "notes:1.0.0"
    assert doc["files"][0].keys() == {"name", "state", "detail"}


@pytest.mark.parametrize("at", [3, 10, 40, -1])
def test_a_flipped_bit_in_a_shard(copied, flip, at):
    flip(copied.path(SHARD), at)
    report = verify(copied.catalog, copied.store, copied.version)
    assert not report.ok
    assert states(report) == {SHARD: "damaged"}
    [check] = report.problems
    assert "sha256" in check.detail
    assert "crc32c" in check.detail
    assert "record" in check.detail
    quick = verify(copied.catalog, copied.store, copied.version, deep=False)
    assert SHARD not in states(quick) or states(quick)[SHARD] == "changed"


def test_the_damaged_record_is_named(copied, flip):
    from provender.records import read_offsets

    offsets = read_offsets(copied.path(index_name(SHARD)))
    flip(copied.path(SHARD), int(offsets[7]) + 20)
    [check] = verify(copied.catalog, copied.store, copied.version).problems
    assert f"record 7 at byte {int(offsets[7]):,}" in check.detail


@pytest.mark.parametrize("name", ["features.json", "label.labels.txt", MARKER, MANIFEST])
def test_a_flipped_bit_in_metadata(copied, flip, name):
    flip(copied.path(name), 5)
    assert states(verify(copied.catalog, copied.store, copied.version))[name] == "damaged"


def test_a_truncated_shard(copied):
    path = copied.path(SHARD)
    os.truncate(path, path.stat().st_size - 9)
    for deep in (True, False):
        report = verify(copied.catalog, copied.store, copied.version, deep=deep)
        assert states(report)[SHARD] == "damaged"


def test_deleted_and_extra_files(copied):
    copied.path(SHARD).unlink()
    copied.path("features.json").unlink()
    copied.path("notes-train.tfrecord-00009-of-00010").write_bytes(b"?")
    (copied.path(".provender") / "more").mkdir()
    (copied.path(".provender") / "more" / "x").write_bytes(b"?")
    for deep in (True, False):
        report = verify(copied.catalog, copied.store, copied.version, deep=deep)
        found = {n: s for n, s in states(report).items() if s != "changed"}
        assert found == {
            SHARD: "missing",
            "features.json": "missing",
            "notes-train.tfrecord-00009-of-00010": "extra",
            ".provender/more/x": "extra",
        }


def test_a_whole_version_that_is_gone(copied):
    shutil.rmtree(copied.path(""))
    report = verify(copied.catalog, copied.store, copied.version)
    assert {each.state for each in report.files} == {"missing"}


def test_an_index_of_another_shard(copied):
    other = copied.path(index_name("notes-train.tfrecord-00000-of-00003"))
    shutil.copy(other, copied.path(index_name(SHARD)))
    report = verify(copied.catalog, copied.store, copied.version)
    assert states(report) == {SHARD: "damaged", index_name(SHARD): "damaged"}
    assert "offset index" in next(e.detail for e in report.problems if e.name == SHARD)


def test_an_index_entry_that_is_off(copied, flip):
    flip(copied.path(index_name(SHARD)), 16 + 8 * 5)
    report = verify(copied.catalog, copied.store, copied.version)
    assert "record 5 begins at byte" in next(e.detail for e in report.problems if e.name == SHARD)


def test_a_manifest_that_the_catalog_does_not_agree_with(copied):
    """The manifest is as published, but the catalog's row of a shard was changed."""
    import sqlalchemy as sa

    copied.catalog.close()
    engine = sa.create_engine(copied.settings.catalog)
    with engine.begin() as conn:
        conn.execute(
            sa.text("UPDATE shard SET sha256 = :x WHERE name = :n"), {"x": "0" * 64, "n": SHARD}
        )
    engine.dispose()
    with Catalog.open(copied.settings.catalog) as catalog:
        [check] = verify(catalog, copied.store, copied.version).problems
    assert check.name == SHARD
    assert "the catalog and the manifest name different sha256" in check.detail


def test_a_copied_store_is_right_once_it_is_read(copied):
    for path in copied.path("").rglob("*"):
        if path.is_file():
            os.utime(path)
    quick = verify(copied.catalog, copied.store, copied.version, deep=False)
    assert set(states(quick).values()) == {"changed"}
    assert not quick.ok
    assert verify(copied.catalog, copied.store, copied.version).ok


def test_on_an_object_store(notes, gcs_bucket):
    """The version of a local store, brought to gs:// file by file; identities are other ones."""
    store = Store.open(f"{gcs_bucket}/data")
    for path in sorted(notes.path("").rglob("*")):
        if path.is_file():
            store.put(path, notes.rel(str(path.relative_to(notes.path("")))))
    assert verify(notes.catalog, store, notes.version).ok
    data = bytearray(store.read(notes.rel(SHARD)))
    data[30] ^= 1
    store.write(notes.rel(SHARD), bytes(data))
    store.remove(notes.rel(MARKER))
    report = verify(notes.catalog, store, notes.version)
    assert states(report) == {SHARD: "damaged", MARKER: "missing"}


def test_a_file_that_cannot_be_read(copied):
    if os.geteuid() == 0:
        # Root reads everything; a folder in place of the file cannot be read by anybody.
        path: Path = copied.path(SHARD)
        path.unlink()
        path.mkdir()
        (path / "x").write_bytes(b"")
        report = verify(copied.catalog, copied.store, copied.version)
        assert states(report) == {SHARD: "missing", f"{SHARD}/x": "extra"}
        return
    copied.path(SHARD).chmod(0)
    assert states(verify(copied.catalog, copied.store, copied.version)) == {SHARD: "unreadable"}
