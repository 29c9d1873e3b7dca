"""What only a local store does."""

from __future__ import annotations

import errno
import os
import resource
import stat
import subprocess
import sys

import pytest

from provender.errors import DiskFull, StoreError
from provender.store import Store, publish_directory


def test_cheap_paths_import_nothing_heavy(tmp_path):
    script = """
import sys
from provender.store import Store
store = Store.open(sys.argv[1])
store.write("d/f", b"1")
assert store.stat("d/f") and store.exists("d") and store.read("d/f") == b"1"
assert store.stat_many(["d/f"]) and store.list("d")
heavy = {"fsspec", "gcsfs", "aiohttp", "numpy", "tensorflow", "pandas", "google_crc32c", "httpx"}
assert not heavy & set(sys.modules), heavy & set(sys.modules)
"""
    subprocess.run([sys.executable, "-c", script, str(tmp_path)], check=True)


@pytest.mark.parametrize("scheme", ["", "file://", "local://"])
def test_urls_are_not_decoded(tmp_path, scheme):
    folder = tmp_path / "a %41#b?c=[d]*"
    store = Store.open(f"{scheme}{folder}/")
    store.write("f", b"1")
    assert store.url == str(folder)
    assert (folder / "f").read_bytes() == b"1"
    assert store.local("f") == folder / "f"
    assert store.path() == str(folder)


def test_relative_and_home_paths(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    assert Store.open("st/../store").url == str(tmp_path / "store")
    assert Store.open("~/store").url == str(tmp_path / "home" / "store")


def test_opening_and_reading_make_no_folder(tmp_path):
    store = Store.open(str(tmp_path / "none"))
    assert store.list() == []
    assert store.stat("f") is None
    assert store.free_bytes() > 0
    assert store.sweep(0) == 0
    assert os.listdir(tmp_path) == []


def test_rename_and_link_keep_the_token_and_a_byte_copy_does_not(local_store, tmp_path):
    first = local_store.write("a", b"1")
    assert local_store.copy("a", "b") == first
    assert local_store.move("a", "c") == first
    assert local_store.stat("b") == first
    local_store.fetch("b", tmp_path / "x")
    assert local_store.put(tmp_path / "x", "b") != first
    published = publish_directory(local_store, {"s": "c", "dataset_info.json": b""}, "v")
    assert published.identities["s"] == first


def test_a_change_in_place_changes_the_token(local_store):
    first = local_store.write("a", b"1")
    with open(local_store.local("a"), "r+b") as file:
        file.write(b"2")
    os.utime(local_store.local("a"), ns=(0, 12345))
    assert local_store.stat("a") != first


def test_files_get_the_usual_permissions(local_store):
    before = os.umask(0o027)
    try:
        local_store.write("a", b"")
        local_store.create("b", b"")
    finally:
        os.umask(before)
    for name in "ab":
        assert stat.S_IMODE(local_store.local(name).stat().st_mode) == 0o640


def test_links_to_files_and_folders(local_store, tmp_path):
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside" / "f").write_bytes(b"1")
    local_store.write("d/own", b"")
    root = local_store.local("d")
    (root / "file").symlink_to(tmp_path / "outside" / "f")
    (root / "folder").symlink_to(tmp_path / "outside")
    (root / "dangling").symlink_to(tmp_path / "nothing")
    (root / "cycle").symlink_to(root)
    assert [e.name for e in local_store.list("d")] == ["cycle", "file", "folder", "own"]
    assert [e.name for e in local_store.list("d", recursive=True)] == ["file", "own"]
    assert local_store.read("d/folder/f") == b"1"
    local_store.remove_tree("d")
    assert (tmp_path / "outside" / "f").read_bytes() == b"1"


def test_without_hard_links_files_are_copied(local_store, monkeypatch):
    def refuse(*_: str) -> None:
        raise OSError(errno.EPERM, "Operation not permitted")

    monkeypatch.setattr(os, "link", refuse)
    first = local_store.create("a", b"1")
    with pytest.raises(FileExistsError):
        local_store.create("a", b"2")
    assert local_store.copy("a", "b") != first
    files = {"s": "a", "dataset_info.json": b""}
    assert publish_directory(local_store, files, "v").created
    assert not publish_directory(local_store, files, "v").created
    assert local_store.read("v/s") == local_store.read("b") == b"1"


def test_publishing_does_not_take_a_foreign_folder(local_store):
    local_store.write("v/strange", b"")
    with pytest.raises(StoreError, match="no version"):
        publish_directory(local_store, {"dataset_info.json": b""}, "v")
    assert [entry.name for entry in local_store.list("v")] == ["strange"]


def test_obstacles_are_explained(local_store):
    local_store.write("file", b"")
    local_store.write("folder/f", b"")
    with pytest.raises(StoreError, match="Not a directory") as caught:
        local_store.write("file/below", b"")
    assert "move it away" in caught.value.hint
    with pytest.raises(StoreError, match="directory"):
        local_store.write("folder", b"")
    with pytest.raises(StoreError, match="too long") as caught:
        local_store.write("n" * 300, b"")
    assert "255" in caught.value.hint
    assert local_store.list("", recursive=True)[0].rel == "file"


def test_long_names_work(local_store):
    name = "n" * 255
    local_store.write(name, b"1")
    local_store.create(f"d/{name}", b"1")
    local_store.copy(name, f"e/{name}")
    assert local_store.read(f"e/{name}") == b"1"


def test_full_disk(small_disk, tmp_path):
    store = Store.open(str(small_disk / "store"))
    (tmp_path / "big").write_bytes(bytes(2 << 20))
    store.write("kept", b"kept")
    for act in (
        lambda: store.write("f", bytes(2 << 20)),
        lambda: store.create("f", bytes(2 << 20)),
        lambda: store.put(tmp_path / "big", "f"),
        lambda: publish_directory(store, {"dataset_info.json": bytes(2 << 20)}, "v"),
    ):
        with pytest.raises(DiskFull, match="2,097,152 bytes") as caught:
            act()
        assert caught.value.facts["bytes"] == 2 << 20
        assert caught.value.where.startswith(store.path())
        assert store.stat("f") is None
        assert os.listdir(small_disk / "store" / ".incoming") == []
    assert [entry.rel for entry in store.list(recursive=True)] == ["kept"]
    assert store.free_bytes() > 900_000
    other = Store.open(str(tmp_path / "other"))
    other.put(tmp_path / "big", "f")
    with pytest.raises(DiskFull):
        other.fetch("f", small_disk / "out")
    assert os.listdir(small_disk) == ["store"]
    remote = Store.open("memory://full-disk")
    remote.put(tmp_path / "big", "f")
    with pytest.raises(DiskFull, match="2,097,152 bytes"):
        remote.fetch("f", small_disk / "out")
    assert not (small_disk / "out").exists()


def test_another_file_system_below_the_root(small_disk, tmp_path):
    store = Store.open(str(tmp_path))
    first = store.write("f", b"1")
    assert store.create("disk/created", b"2") == store.stat("disk/created")
    assert store.write("disk/written", b"3") == store.stat("disk/written")
    assert store.copy("f", "disk/copied") == store.stat("disk/copied") != first
    assert store.move("f", "disk/moved") == store.stat("disk/moved")
    assert store.stat("f") is None
    with pytest.raises(StoreError, match="Invalid cross-device link") as caught:
        publish_directory(store, {"dataset_info.json": b""}, "disk/v")
    assert "one file system" in caught.value.hint
    assert len(store.list("disk")) == 4


def test_limit_on_file_sizes(local_store, processes):
    def write() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))
        local_store.write("small", bytes(1000))
        try:
            local_store.write("f", bytes(1001))
        except DiskFull as exc:
            if "1,001 bytes" in str(exc):
                return
        raise AssertionError

    assert processes.wait(processes.fork(write)) == 0
    assert [entry.name for entry in local_store.list()] == ["small"]


def test_a_folder_that_may_not_be_written(local_store, processes):
    local_store.write("f", b"1")
    root = local_store.local()
    for folder in root.parents:
        if folder.stat().st_uid == os.getuid() and os.getuid() == 0 and "pytest" in str(folder):
            folder.chmod(0o755)
    (root / ".incoming").chmod(0o555)

    def write() -> None:
        if os.getuid() == 0:
            os.setuid(65534)
        try:
            local_store.write("g", b"")
        except StoreError as exc:
            if "Permission denied" in str(exc) and "permissions" in exc.hint:
                return
        raise AssertionError

    assert processes.wait(processes.fork(write)) == 0
