"""What only a store in a bucket does."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from provender.store import Store, publish_directory


def test_listings_go_on_over_pages(gcs_env):
    from provender.store.gcs_bucket import Bucket

    url = gcs_env.bucket()
    store = Store.open(url)
    rels = [f"d/{i}" for i in range(7)] + ["d/sub/8"]
    for rel in rels:
        store.write(rel, b"")
    bucket = Bucket(store.fs, url.removeprefix("gs://"))
    assert [blob.name for blob in bucket.list("d/", None, page=3)] == rels
    found = [item if isinstance(item, str) else item.name for item in bucket.list("d/", "/", 2)]
    assert sorted(found) == [*rels[:-1], "d/sub/"]


def test_identities_of_a_folder_take_one_request(proxied):
    proxy, store = proxied
    identities = {f"d/{i}": store.write(f"d/{i}", b"x") for i in range(20)}
    proxy.log.clear()
    assert store.stat_many(identities) == identities
    assert len(proxy.log) == 1


def test_placeholders_of_consoles_are_no_files(gcs_store):
    gcs_store.write("d/f", b"")
    fs = gcs_store.fs
    fs.pipe_file(f"{gcs_store.path('d')}/", b"")
    fs.pipe_file(f"{gcs_store.path('empty')}/", b"")
    assert [(e.rel, e.is_dir) for e in gcs_store.list()] == [("d", True), ("empty", True)]
    assert [e.rel for e in gcs_store.list("d")] == ["d/f"]
    assert [e.rel for e in gcs_store.list(recursive=True)] == ["d/f"]


def test_an_object_and_a_folder_of_one_name(gcs_store):
    gcs_store.write("d", b"1")
    gcs_store.write("d/f", b"2")
    assert [(e.rel, e.is_dir) for e in gcs_store.list()] == [("d", False), ("d", True)]
    assert gcs_store.remove_tree("d") == 1
    assert gcs_store.read("d") == b"1"


def test_a_neighbour_with_the_same_beginning_is_left_alone(gcs_env):
    bucket = gcs_env.bucket()
    store, neighbour = Store.open(f"{bucket}/pre"), Store.open(f"{bucket}/prefix")
    neighbour.write("f", b"1")
    store.write("v/f", b"1")
    store.write("v2/f", b"2")
    assert [e.rel for e in store.list(recursive=True)] == ["v/f", "v2/f"]
    assert store.remove_tree("v") == 1
    assert store.read("v2/f") == b"2"
    assert neighbour.read("f") == b"1"


def test_publishing_copies_on_the_server(proxied):
    proxy, store = proxied
    store.write("building/s", b"x" * 100_000)
    proxy.log.clear()
    publish_directory(store, {"s": "building/s", "dataset_info.json": b"{}"}, "v")
    assert [line for line in proxy.log if "rewriteTo" in line]
    assert not [line for line in proxy.log if "alt=media" in line]
    uploads = [line for line in proxy.log if line.startswith("POST /upload")]
    assert len(uploads) == 1
    assert "ifGenerationMatch=0" in uploads[0]


def test_scratch_of_a_remote_store(gcs_env, tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    scratch = Store.open("gs://b/x").scratch
    assert scratch.is_dir()
    assert scratch.parent == tmp_path / "provender"
    assert scratch == Store.open("gs://b/x/").scratch != Store.open("gs://b/y").scratch
    chosen = Store.open("gs://b/x", scratch=str(tmp_path / "mine")).scratch
    assert chosen == tmp_path / "mine"


def test_a_fresh_process_speaks_to_an_emulator_quickly(gcs_env):
    """Also when nobody has told gcsfs not to ask for the bucket's layout."""
    url = gcs_env.bucket()
    script = """
import os, sys, time
from provender.store import Store
store = Store.open(sys.argv[1])
store.write("f", b"1")
before = time.monotonic()
assert store.read("f") == b"1" and store.list() and store.exists("f")
assert store.fs.ls(store.path()) and store.fs.exists(store.path("f"))
assert time.monotonic() - before < 5
"""
    env = {
        "STORAGE_EMULATOR_HOST": gcs_env.endpoint,
        "PYTHONPATH": str(Path(__file__).parents[2] / "platform"),
    }
    subprocess.run([sys.executable, "-c", script, url], check=True, env=env, timeout=60)
