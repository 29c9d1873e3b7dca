"""Versions on a remote store, by every route, from a real GCS server."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import fsspec
import pytest

from provender.errors import DamageError, StoreError, UnknownReference
from provender.store import Store
from provender.training.contents import contents_of
from provender.training.feed.loading import feed
from provender.training.feed.options import FeedOptions

SPLIT = "train[40:290]+test"


@dataclass
class Remote:
    store: Any
    version: Any
    catalog: Any
    home: Path
    proxy: Any

    def texts(self, **options: Any) -> list[str]:
        found = feed(
            self.store, self.version, SPLIT, FeedOptions(batch_size=32, **options), "",
            self.catalog, self.home,
        )  # fmt: skip
        return [text.decode() for batch in found for text in batch["text"].numpy()]


@pytest.fixture
def remote(copied: Any, gcs_server: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """The version on a bucket that is spoken to through a proxy that counts and breaks."""
    from dataclasses import replace

    from tests.store.fault_proxy import start

    from provender.training import pull

    with start(gcs_server.endpoint) as proxy:
        for key, value in gcs_server.env().items():
            monkeypatch.setenv(key, value)
        monkeypatch.setenv("STORAGE_EMULATOR_HOST", proxy.endpoint)
        monkeypatch.delenv("PROVENDER_SHARD_CACHE", raising=False)
        bucket = gcs_server.bucket()
        pull(copied.store, copied.version, f"{bucket}/datasets")
        store = Store.open(bucket, scratch=str(tmp_path / "scratch"))
        tokens = {
            (each.split, each.index): store.stat(f"{copied.version.path}/{each.name}").token
            for each in copied.catalog.shards(copied.version.id)
        }
        copied.catalog.set_shard_tokens(copied.version.id, tokens)
        version = replace(copied.version, uri=f"{bucket}/{copied.version.path}")
        proxy.log.clear()
        yield Remote(store, version, copied.catalog, tmp_path / "reader", proxy)


@pytest.fixture
def expected(notes: Any) -> list[str]:
    data = feed(notes.store, notes.version, SPLIT, FeedOptions(batch_size=270))
    return [text.decode() for batch in data for text in batch["text"].numpy()]


def shard_reads(remote: Remote) -> list[str]:
    return [each for each in remote.proxy.log if ".tfrecord-" in each and "alt=media" in each]


@pytest.mark.parametrize("route", ["auto", "cache", "stream"])
def test_each_route_gives_the_examples_in_order(
    remote: Remote, expected: list[str], route: str
) -> None:
    assert remote.texts(route=route) == expected


@pytest.mark.parametrize("drop", [False, True])
def test_batches_cross_files_and_passes_on_every_route(remote: Remote, drop: bool) -> None:
    def batches(route: str) -> list[list[bytes]]:
        options = FeedOptions(
            batch_size=37, repeat=2, start=5, drop_remainder=drop, route=route, columns=("text",)
        )
        found = feed(
            remote.store, remote.version, SPLIT, options, "", remote.catalog, remote.home
        )  # fmt: skip
        return [batch["text"].numpy().tolist() for batch in found]

    cached = batches("cache")
    assert [len(each) for each in cached[:-1]] == [37] * (len(cached) - 1)
    assert sum(map(len, cached)) == (2 * 270 - 5) // 37 * 37 if drop else 2 * 270 - 5
    assert batches("stream") == cached


def test_a_second_pass_asks_the_store_for_no_shard(remote: Remote, expected: list[str]) -> None:
    assert remote.texts() == expected
    remote.proxy.log.clear()
    assert remote.texts() == expected
    assert shard_reads(remote) == []


def test_missing_credentials_are_told_before_the_first_batch(
    remote: Remote, expected: list[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """But what is all in the cache needs none."""
    everything = "train+test"

    def load(route: str, url: str = remote.store.url) -> list[bytes]:
        store = Store.open(url, scratch=str(tmp_path / "other"))
        options = FeedOptions(batch_size=300, route=route)
        data = feed(store, remote.version, everything, options, "", remote.catalog, remote.home)
        return [text for batch in data for text in batch["text"].numpy()]

    with monkeypatch.context() as bare:
        without_credentials(bare, tmp_path)
        for route in ("cache", "stream"):
            began = time.monotonic()
            with pytest.raises(StoreError, match="there are no Google Cloud credentials"):
                load(route)
            assert time.monotonic() - began < 5
        with pytest.raises(StoreError, match="there are no Google Cloud credentials"):
            load("native", "gs://a-copy-elsewhere")
    found = load("cache")
    with monkeypatch.context() as bare:
        without_credentials(bare, tmp_path)
        assert load("cache") == found and len(found) == len(expected) + 50


def without_credentials(bare: pytest.MonkeyPatch, home: Path) -> None:
    from provender.store import gcs_filesystem

    for name in ("STORAGE_EMULATOR_HOST", "GOOGLE_APPLICATION_CREDENTIALS", "CLOUDSDK_CONFIG"):
        bare.delenv(name, raising=False)
    bare.setenv("HOME", str(home))
    bare.setattr(fsspec.config, "conf", {})
    bare.setattr(gcs_filesystem, "_PRODUCT_NAME", str(home / "product_name"))


def test_a_shuffled_interleaved_read_through_the_cache(remote: Remote, expected: list[str]) -> None:
    found = remote.texts(shuffle=50, shuffle_files=True, cycle_length=2, seed=5)
    assert sorted(found) == sorted(expected)
    assert found != expected


@pytest.mark.parametrize("route", ["cache", "stream"])
def test_reads_outlive_refusals_and_cut_connections(
    remote: Remote, expected: list[str], route: str
) -> None:
    from tests.store.fault_proxy import Fault

    remote.proxy.faults += [
        Fault("status", r"tfrecord-", times=2, status=503),
        Fault("cut answer", r"tfrecord-", times=2),
        Fault("status", r"tfrecord-", times=1, status=429),
    ]
    assert remote.texts(route=route) == expected
    assert not any(each.times for each in remote.proxy.faults)


def test_a_cache_without_room_streams_and_says_so_once(
    remote: Remote, expected: list[str], monkeypatch: Any, caplog: Any
) -> None:
    monkeypatch.setenv("PROVENDER_SHARD_CACHE_LIMIT", "1000")
    assert remote.texts(route="cache") == expected
    assert sum("streamed instead" in each.message for each in caplog.records) == 1


@pytest.mark.parametrize("route", ["cache", "stream"])
def test_a_shard_that_was_replaced_is_refused(remote: Remote, route: str) -> None:
    import tensorflow as tf

    names = [
        n for n, f in contents_of(remote.store, remote.version, remote.catalog).items() if f.split
    ]
    other = remote.store.read(f"{remote.version.path}/{names[1]}")
    remote.store.write(f"{remote.version.path}/{names[0]}", other)
    with pytest.raises(tf.errors.OpError, match="DamageError"):
        remote.texts(route=route)


def test_a_replaced_shard_is_refused_before_tensorflow_opens_it(remote: Remote) -> None:
    facts = contents_of(remote.store, remote.version, remote.catalog)
    rel = f"{remote.version.path}/{next(name for name, each in facts.items() if each.split)}"
    remote.store.write(rel, remote.store.read(rel))  # equal bytes, another generation
    with pytest.raises(DamageError, match="not the file that was published"):
        remote.texts(route="native")


def test_a_disk_that_is_full_is_streamed_past(
    remote: Remote, expected: list[str], monkeypatch: Any, caplog: Any, small_disk: Path
) -> None:
    (small_disk / "filler").write_bytes(bytes(1 << 20)[: (1 << 20) - (12 << 10)])
    monkeypatch.setenv("PROVENDER_SHARD_CACHE", str(small_disk / "shards"))
    assert remote.texts(route="cache") == expected
    assert sum("streamed instead" in each.message for each in caplog.records) == 1


def test_a_retracted_version_says_who_when_why_and_what_replaces_it(
    copied: Any, engine: Any
) -> None:
    import provender

    other = copied.file.read_text().replace('"1.0.0"', '"1.0.1"').replace("note", "entry")
    copied.file.write_text(other)
    newer = engine.make(copied.file, copied.settings)
    copied.catalog.retract(copied.version.id, "leaked labels", "ada", newer.id)
    with pytest.raises(UnknownReference) as caught:
        provender.load("notes:1.0.0", split="train", settings=copied.settings)
    for said in ("ada", "leaked labels", f"{datetime.now(UTC):%Y-%m-%d}", "notes:1.0.1"):
        assert said in str(caught.value)


def test_a_stream_goes_on_from_a_checkpoint(
    remote: Remote, expected: list[str], tmp_path: Path
) -> None:
    import tensorflow as tf

    def start() -> Any:
        options = FeedOptions(batch_size=10, route="stream")
        return iter(feed(remote.store, remote.version, SPLIT, options, "", remote.catalog))

    first = start()
    for _ in range(11):
        next(first)
    saved = tf.train.Checkpoint(iterator=first).save(str(tmp_path / "at"))
    second = start()
    tf.train.Checkpoint(iterator=second).restore(saved)
    rest = [text.decode() for batch in second for text in batch["text"].numpy()]
    assert rest == expected[110:]


def test_a_version_without_indexes_cannot_be_streamed(remote: Remote) -> None:
    import tensorflow as tf

    for entry in list(remote.store.list(f"{remote.version.path}/.provender/index")):
        remote.store.remove(entry.rel)
    with pytest.raises(tf.errors.OpError, match="route='cache'"):
        remote.texts(route="stream")


PROGRAM = """
import json, sys
import provender

settings = provender.load_settings(store=sys.argv[1], catalog=sys.argv[2])
data = provender.load("notes:1.0.0", split="train", batch_size=64, settings=settings)
print(json.dumps(sum(len(batch["label"]) for batch in data)))
"""


@pytest.mark.slow
def test_processes_of_a_host_fetch_each_shard_once(
    remote: Remote, copied: Any, tmp_path: Path
) -> None:
    bucket = remote.version.uri.removesuffix(f"/{remote.version.path}")
    command = [sys.executable, "-c", PROGRAM, bucket, copied.settings.catalog]
    environment = {**os.environ, "PROVENDER_HOME": str(tmp_path / "host")}
    processes = [
        subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        for _ in range(4)
    ]
    for each in processes:
        out, err = each.communicate(timeout=200)
        assert each.returncode == 0, err.decode()[-2000:]
        assert json.loads(out) == 300
    assert len(shard_reads(remote)) == 3  # three shards of the split


def test_a_store_that_tensorflow_cannot_open(notes: Any) -> None:
    from provender.training import pull

    pull(notes.store, notes.version, "memory://elsewhere/datasets")
    with pytest.raises(StoreError, match="local files and gs://"):
        feed(Store.open("memory://elsewhere"), notes.version, "test", FeedOptions(route="native"))


@pytest.mark.parametrize("change", ["cut", "gone"])
def test_a_local_shard_that_is_not_whole_is_named(copied: Any, change: str) -> None:
    name = next(
        n for n, f in contents_of(copied.store, copied.version).items() if f.split == "train"
    )
    shard = copied.path(name)
    if change == "cut":
        shard.write_bytes(shard.read_bytes()[:-5])
    else:
        shard.unlink()
    with pytest.raises(DamageError, match=name) as found:
        feed(copied.store, copied.version, "train", FeedOptions())
    assert "verify" in found.value.hint


def test_a_damaged_record_is_never_an_example(copied: Any, flip: Any) -> None:
    import tensorflow as tf

    from provender.training.feed.ranges import RecordRanges

    name = next(
        n for n, f in contents_of(copied.store, copied.version).items() if f.split == "train"
    )
    flip(copied.path(name), 60)
    with pytest.raises(DamageError, match="record 0"):
        RecordRanges(copied.store, copied.version.path).read(name, 0, 5)
    with pytest.raises(tf.errors.DataLossError):
        list(feed(copied.store, copied.version, "train", FeedOptions(batch_size=8)))
