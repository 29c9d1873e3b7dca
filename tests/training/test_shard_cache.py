"""The local shard cache: one download a host, proven, within its limit, and never in the way."""

from __future__ import annotations

import hashlib
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import google_crc32c
import pytest

from provender.errors import DamageError, DiskFull, SettingsError
from provender.training import shard_cache
from provender.training.shard_cache import CacheFull, ShardCache, ShardKey


def key_of(data: bytes, source: str = "gs://b/x", **changes: Any) -> ShardKey:
    facts = {
        "size": len(data),
        "sha256": hashlib.sha256(data).hexdigest(),
        "crc32c": f"{google_crc32c.value(data):08x}",
    }
    return ShardKey(source, **{**facts, **changes})


class Origin:
    """Brings bytes, and counts how often."""

    def __init__(self, data: bytes) -> None:
        self.data = data
        self.fetched = 0

    def __call__(self, path: Path) -> None:
        self.fetched += 1
        path.write_bytes(self.data)


@pytest.fixture
def cache(tmp_path: Path) -> ShardCache:
    return ShardCache(tmp_path / "shards", limit=1000)


def test_a_shard_is_fetched_once(cache) -> None:
    origin = Origin(b"abc" * 100)
    key = key_of(origin.data)
    for _ in range(3):
        with cache.hold(key, origin) as held:
            assert held.path.read_bytes() == origin.data
    assert origin.fetched == 1
    assert cache.size == 300


def test_equal_content_is_kept_once_whatever_it_is_called(cache) -> None:
    origin = Origin(b"abc")
    cache.hold(key_of(b"abc", "gs://one/x"), origin).close()
    cache.hold(key_of(b"abc", "gs://two/y"), origin).close()
    assert origin.fetched == 1
    by_version = key_of(b"abc", "gs://one/x", sha256=None, token="1")
    cache.hold(by_version, origin).close()
    cache.hold(key_of(b"abc", "gs://one/x", sha256=None, token="2"), origin).close()
    assert origin.fetched == 3


def test_the_ones_used_longest_ago_make_room(cache) -> None:
    origins = [Origin(bytes([number]) * 300) for number in range(4)]
    keys = [key_of(origin.data) for origin in origins]
    for key, origin in zip(keys[:3], origins, strict=False):
        cache.hold(key, origin).close()
        time.sleep(0.01)
    cache.hold(keys[0], origins[0]).close()  # used again: the second is now the oldest
    time.sleep(0.01)
    cache.hold(keys[3], origins[3]).close()
    assert cache.size == 900
    for number in (0, 2, 3, 1):
        cache.hold(keys[number], origins[number]).close()
    assert [origin.fetched for origin in origins] == [1, 2, 1, 1]


def test_what_is_open_stays(cache) -> None:
    origins = [Origin(bytes([number]) * 400) for number in range(3)]
    first = cache.hold(key_of(origins[0].data), origins[0])
    second = cache.hold(key_of(origins[1].data), origins[1])
    with pytest.raises(CacheFull, match="no room for 400 bytes"):
        cache.hold(key_of(origins[2].data), origins[2])
    assert first.path.read_bytes() == origins[0].data
    first.close()
    with cache.hold(key_of(origins[2].data), origins[2]):
        assert not first.path.exists()
        assert second.path.exists()
    second.close()
    assert cache.clear() == 800
    assert cache.size == 0


def test_a_process_that_dies_gives_back_what_it_held(cache) -> None:
    data = b"x" * 800
    script = (
        "import sys, time\nfrom pathlib import Path\n"
        "from provender.training.shard_cache import ShardCache, ShardKey\n"
        f"cache = ShardCache(Path({str(cache.folder)!r}), 1000)\n"
        f"held = cache.hold(ShardKey('s', 800, {hashlib.sha256(data).hexdigest()!r}), "
        "lambda path: path.write_bytes(b'x' * 800))\n"
        "print('held', flush=True)\ntime.sleep(60)\n"
    )
    process = subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    with process.stdout:
        assert process.stdout.readline() == "held\n"
        other = Origin(b"y" * 800)
        with pytest.raises(CacheFull):
            cache.hold(key_of(other.data), other)
        process.send_signal(signal.SIGKILL)
        process.wait()
    cache.hold(key_of(other.data), other).close()
    assert cache.size == 800


def test_processes_download_each_shard_once(cache, tmp_path) -> None:
    script = (
        "import hashlib, os, sys, time\nfrom pathlib import Path\n"
        "from provender.training.shard_cache import ShardCache, ShardKey\n"
        f"cache = ShardCache(Path({str(cache.folder)!r}), 100000)\n"
        "def fetch(data):\n"
        "    def into(path):\n"
        f"        with open({str(tmp_path / 'log')!r}, 'a') as log: log.write('x\\n')\n"
        "        time.sleep(0.02); path.write_bytes(data)\n"
        "    return into\n"
        "for number in range(6):\n"
        "    data = bytes([number]) * 5000\n"
        "    key = ShardKey(f's{number}', 5000, hashlib.sha256(data).hexdigest())\n"
        "    with cache.hold(key, fetch(data)) as held: assert held.path.read_bytes() == data\n"
    )
    running = [subprocess.Popen([sys.executable, "-c", script]) for _ in range(4)]
    assert [process.wait(timeout=60) for process in running] == [0, 0, 0, 0]
    assert (tmp_path / "log").read_text() == "x\n" * 6


def test_damage_on_the_disk_is_noticed_and_mended(cache) -> None:
    origin = Origin(b"abc" * 100)
    key = key_of(origin.data)
    with cache.hold(key, origin) as held:
        path = held.path
    path.write_bytes(b"abd" * 100)
    with cache.hold(key, origin) as held:
        assert held.path.read_bytes() == origin.data
    os.utime(path, ns=(1, 1))  # it only looks different
    cache.hold(key, origin).close()
    path.write_bytes(b"short")
    cache.hold(key, origin).close()
    assert origin.fetched == 3


def test_damage_whose_time_was_set_back_is_noticed(cache) -> None:
    origin = Origin(b"abc" * 100)
    key = key_of(origin.data)
    with cache.hold(key, origin) as held:
        before = held.path.stat()
        held.path.write_bytes(b"abd" + origin.data[3:])
        os.utime(held.path, ns=(before.st_atime_ns, before.st_mtime_ns))
    with cache.hold(key, origin) as held:
        assert held.path.read_bytes() == origin.data
    assert origin.fetched == 2


@pytest.mark.parametrize("known", ["sha256", "crc32c"])
def test_wrong_bytes_from_the_store_are_refused(cache, known: str) -> None:
    origin = Origin(b"bad" * 100)
    other = {"sha256": "crc32c", "crc32c": "sha256"}[known]
    with pytest.raises(DamageError, match=f"another {known}"):
        cache.hold(key_of(b"god" * 100, **{other: None}), origin)
    assert origin.fetched == 2
    with pytest.raises(DamageError, match="300 bytes instead of 301"):
        cache.hold(ShardKey("gs://b/x", 301), origin)
    assert cache.size == 0


def test_a_failed_download_is_tried_anew_and_its_error_passes(cache) -> None:
    def broken(path: Path) -> None:
        raise ConnectionError("cut")

    origin = Origin(b"abc")
    with pytest.raises(ConnectionError):
        cache.hold(key_of(b"abc"), broken)
    cache.hold(key_of(b"abc"), origin).close()
    assert origin.fetched == 1


@pytest.mark.parametrize(
    "error",
    [OSError(28, "No space left on device"), DiskFull("full", where="x")],
    ids=["os", "own"],
)
def test_a_full_disk_is_told_and_leaves_nothing(cache, error: Exception) -> None:
    def full(path: Path) -> None:
        path.with_name(f"{path.name}.part").write_bytes(b"half")
        path.with_name(f"{path.name}.part.json").write_text("{}")
        raise error

    with pytest.raises(CacheFull):
        cache.hold(key_of(b"abc"), full)
    assert [p for p in cache.folder.rglob("*") if ".part" in p.name] == []


def test_a_folder_that_cannot_be_written(tmp_path) -> None:
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(CacheFull, match="cannot be written"):
        ShardCache(tmp_path / "file" / "shards").hold(key_of(b"abc"), Origin(b"abc"))


def test_a_folder_that_cannot_be_made() -> None:
    with pytest.raises(CacheFull, match="cannot be written: No such file"):
        ShardCache(Path("/proc/nothing/shards")).hold(key_of(b"abc"), Origin(b"abc"))


def test_a_folder_that_is_removed_under_a_download(cache) -> None:
    def fetch(path: Path) -> None:
        shutil.rmtree(cache.folder)
        path.write_bytes(b"abc")

    with pytest.raises(CacheFull, match="folder was removed"):
        cache.hold(key_of(b"abc"), fetch)
    cache.hold(key_of(b"abc"), Origin(b"abc")).close()

    def missing(path: Path) -> None:
        raise FileNotFoundError(path)

    with pytest.raises(FileNotFoundError):
        cache.hold(key_of(b"def"), missing)


def test_a_disk_without_locks(cache, monkeypatch) -> None:
    def refuse(fd: int, how: int) -> None:
        raise OSError(95, "not supported")

    monkeypatch.setattr(shard_cache.fcntl, "flock", refuse)
    with pytest.raises(CacheFull, match="no locks"):
        cache.hold(key_of(b"abc"), Origin(b"abc"))


def test_a_shard_larger_than_the_cache(cache) -> None:
    with pytest.raises(CacheFull, match="larger than the whole cache"):
        cache.hold(key_of(b"x" * 1001), Origin(b"x" * 1001))


def test_parts_that_nobody_goes_on_with_are_removed(cache) -> None:
    folder = cache.folder / "ab"
    folder.mkdir(parents=True)
    for name, age in (("old", 8 * 86_400), ("new", 0)):
        (folder / f"{name}.part").write_bytes(b"half")
        (folder / f"{name}.part.json").write_text('{"size": 400}')
        os.utime(folder / f"{name}.part", (time.time() - age, time.time() - age))
    cache.hold(key_of(b"x" * 500), Origin(b"x" * 500)).close()
    assert not (folder / "old.part").exists()
    assert (folder / "new.part").exists()
    # The new one will take 400 bytes, so 500 more do not fit beside 500.
    with (
        cache.hold(key_of(b"x" * 500), Origin(b"")),
        pytest.raises(CacheFull, match="no room"),
    ):
        cache.hold(key_of(b"y" * 500), Origin(b"y" * 500))


def test_waiting_for_another_process_can_be_given_up(cache) -> None:
    begun, go = threading.Event(), threading.Event()

    def slow(path: Path) -> None:
        begun.set()
        go.wait(30)
        path.write_bytes(b"abc")

    thread = threading.Thread(target=lambda: cache.hold(key_of(b"abc"), slow).close())
    thread.start()
    begun.wait(30)
    with pytest.raises(Exception, match="given up"):
        cache.hold(key_of(b"abc"), Origin(b"abc"), cancelled=lambda: True)
    go.set()
    thread.join()


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("500", 500),
        ("20GB", 20 * 10**9),
        ("1.5 tb", 1_500_000_000_000),
        ("64MiB", 64 << 20),
        ("2K", 2000),
    ],
)
def test_sizes(text: str, size: int, monkeypatch) -> None:
    monkeypatch.setenv("PROVENDER_SHARD_CACHE_LIMIT", text)
    assert ShardCache.current().limit == size


def test_what_is_no_size(monkeypatch, tmp_path) -> None:
    monkeypatch.setenv("PROVENDER_SHARD_CACHE_LIMIT", "much")
    with pytest.raises(SettingsError, match="'much'"):
        ShardCache.current()
    monkeypatch.setenv("PROVENDER_SHARD_CACHE", str(tmp_path))
    monkeypatch.setenv("PROVENDER_SHARD_CACHE_LIMIT", "1MB")
    assert (ShardCache.current().folder, ShardCache.current().limit) == (tmp_path, 10**6)


def test_the_warning_comes_once(monkeypatch) -> None:
    monkeypatch.setattr(shard_cache, "_warned", set())
    with pytest.warns(RuntimeWarning, match="streamed from their store"):
        shard_cache.warn_once(CacheFull("no room"))
    shard_cache.warn_once(CacheFull("no room"))


def test_from_a_store(tmp_path, cache) -> None:
    from provender.store import Store

    store = Store.open(str(tmp_path / "store"))
    store.write("a/b", b"abc")
    make: Callable[[], Any] = lambda: cache.hold_from(store, "a/b", key_of(b"abc"))  # noqa: E731
    with make() as held:
        assert held.path.read_bytes() == b"abc"
    store.remove("a/b")
    with make() as held:
        assert held.path.read_bytes() == b"abc"
    with pytest.raises(FileNotFoundError):
        cache.hold_from(store, "a/c", key_of(b"abd"))


def test_what_a_store_hashes_is_not_read_again(cache, monkeypatch) -> None:
    from provender.store import Store

    store = Store.open("memory://hashed-once")
    store.write("a/b", b"abc" * 100)
    monkeypatch.setattr(shard_cache, "_mismatch", lambda *args: pytest.fail("it was read again"))
    with cache.hold_from(store, "a/b", key_of(b"abc" * 100)) as held:
        assert held.path.read_bytes() == b"abc" * 100


def test_a_damaged_store_is_asked_twice_and_refused(cache, monkeypatch) -> None:
    from provender.store import Store

    store, asked = Store.open("memory://damaged"), []
    store.write("a/b", b"abd" * 100)
    fetch = store.fetch
    monkeypatch.setattr(store, "fetch", lambda *a, **k: asked.append(a) or fetch(*a, **k))
    with pytest.raises(DamageError, match="another sha256"):
        cache.hold_from(store, "a/b", key_of(b"abc" * 100))
    assert len(asked) == 2
    kept = [each.name for each in cache.folder.rglob("*") if each.is_file()]
    assert [name for name in kept if not name.endswith(".lock")] == []
