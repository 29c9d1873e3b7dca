"""From a GCS server to batches: the shard cache beside bare `gcsfs.cat_file` of the same objects.

    python benchmarks/remote.py [--rows 240000] [--rounds 3]

A version of text (1 KB a row) is built on a real server of Google's protocol on this machine
(fake-gcs-server), so the network is the CPU's: client, server, digests and parsing share its cores. Each
reader runs in a process of its own, in turn. Imports, the first connection, and what TensorFlow sets up
on its first pipelines (it reads the local copy first) are not counted; `benchmarks/load.py` has those.

"cache alone" brings all shards into an empty cache, two at once as a pipeline does: fetched, proven by
their sha256, on disk. "first pass" is `provender.load` with an empty cache, read to the end: the same, and
parsed in batches of 1024 meanwhile. "second pass" is the same process once more; "local store" is the same
version read from a local folder. "gcsfs.cat_file" only brings the objects into memory, one after the
other, and "2 at once" with as many in flight as the cache has. MB/s of shard bytes by wall time, and CPU
of the client; medians. A ratio is the median of those of single rounds, in which the two ran soon after one
another: on a machine that has other work, medians of each alone say less.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))

BUILDER = """
import tensorflow_datasets as tfds


class FarText(tfds.core.GeneratorBasedBuilder, skip_registration=True):
    VERSION = tfds.core.Version("1.0.0")

    def _info(self):
        return tfds.core.DatasetInfo(builder=self, features=tfds.features.FeaturesDict(
            {"text": tfds.features.Text(), "label": tfds.features.ClassLabel(num_classes=10)}))

    def _split_generators(self, dl_manager):
        return {"train": self._generate_examples(@ROWS@)}

    def _generate_examples(self, count):
        body = "the quick brown fox jumps over the lazy dog " * 24
        for i in range(count):
            yield i, {"text": f"{i} {body}"[:1000], "label": i % 10}
"""
READERS = ("2 at once", "cache alone", "gcsfs.cat_file", "provender", "local store")


def settings_of(home: str, store: str) -> Any:
    import provender

    environ = {"HOME": home, "PROVENDER_HOME": f"{home}/{'far' if '://' in store else 'near'}"}
    catalog = f"sqlite:///{home}/{'far' if '://' in store else 'near'}.db"
    return provender.load_settings(cwd=home, store=store, catalog=catalog, environ=environ)


def timed(act: Callable[[], int]) -> tuple[float, float, int]:
    wall, cpu = time.perf_counter(), time.process_time()
    found = act()
    return time.perf_counter() - wall, time.process_time() - cpu, found


def cat(bucket: str, at_once: int) -> dict[str, float]:
    from gcsfs.core import GCSFileSystem

    fs = GCSFileSystem(token="anon", project="test", use_listings_cache=False)
    names = [each for each in fs.find(f"{bucket}/datasets") if ".tfrecord-" in each]
    names = [each for each in names if not each.endswith(".offsets")]

    def every() -> int:
        if at_once == 1:
            return sum(len(fs.cat_file(name)) for name in names)
        with ThreadPoolExecutor(at_once) as pool:
            return sum(pool.map(lambda name: len(fs.cat_file(name)), names))

    seconds, cpu, size = timed(every)
    return {"first": size / seconds / 1e6, "first cpu": cpu / size * 1e9}


def hold(home: str, bucket: str) -> dict[str, float]:
    """Fills an empty cache with the shards."""
    import provender
    from provender.store import Store
    from provender.training.contents import contents_of
    from provender.training.shard_cache import ShardCache, ShardKey
    from provender.upkeep import find_version

    settings = settings_of(home, bucket)
    catalog = provender.catalog.Catalog.open(settings.catalog)
    version = find_version(catalog, provender.DatasetRef.parse("far_text"))
    store = Store.open(bucket, scratch=str(settings.scratch))
    files = [each for each in contents_of(store, version, catalog).values() if each.split]
    cache = ShardCache.current()

    def one(facts: Any) -> int:
        rel = f"{version.path}/{facts.name}"
        key = ShardKey(store.path(rel), facts.size, facts.sha256, facts.crc32c, facts.token)
        with cache.hold_from(store, rel, key):
            return int(facts.size)

    def every() -> int:
        with ThreadPoolExecutor(2) as pool:
            return sum(pool.map(one, files))

    store.list(version.path)  # connects, as the listing of `cat` does
    seconds, cpu, size = timed(every)
    return {"first": size / seconds / 1e6, "first cpu": cpu / size * 1e9}


def load(home: str, store: str, size: int) -> dict[str, float]:
    import provender
    from provender.store import Store

    settings = settings_of(home, store)

    def every(settings: Any = settings) -> int:
        data = provender.load("far_text", split="train", batch_size=1024, settings=settings)
        return sum(int(batch["label"].shape[0]) for batch in data)

    every(settings_of(home, f"{home}/store"))
    provender.load("far_text", split="train", batch_size=1024, settings=settings)
    Store.open(store, scratch=str(settings.scratch)).list("datasets")
    found, counts = {}, set()
    for turn in ("first", "second"):
        seconds, cpu, rows = timed(every)
        counts.add(rows)
        found |= {turn: size / seconds / 1e6, f"{turn} cpu": cpu / size * 1e9}
    assert len(counts) == 1
    return found


def read(reader: str, home: str, bucket: str, size: int) -> None:
    """Runs one reader in this process and prints MB/s."""
    if reader in ("provender", "cache alone"):
        with tempfile.TemporaryDirectory() as cache:
            os.environ["PROVENDER_SHARD_CACHE"] = cache
            found = hold(home, bucket) if reader == "cache alone" else load(home, bucket, size)
    elif reader == "local store":
        found = load(home, f"{home}/store", size)
    else:
        found = cat(bucket, 1 if reader == "gcsfs.cat_file" else 2)
    print(json.dumps(found))


def main() -> None:
    """Builds the version in both stores, runs every reader in turn, and prints a table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=240_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--read", nargs=4, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.read:
        reader, home, bucket, size = args.read
        read(reader, home, bucket, int(size))
        return
    from tests.store.gcs_server import start

    import provender

    with start() as server, tempfile.TemporaryDirectory() as home:
        os.environ.update(server.env())
        bucket = server.bucket()
        file = Path(home) / "far_builder.py"
        file.write_text(BUILDER.replace("@ROWS@", str(args.rows)))
        size = 0
        for store in (bucket, f"{home}/store"):
            settings = settings_of(home, store)
            built = provender.build(f"{file}:FarText", settings=settings, num_shards=8)
            size = built.version.bytes
        rates: dict[str, list[dict[str, float]]] = {reader: [] for reader in READERS}
        for _ in range(args.rounds):
            for reader, found in rates.items():
                command = [sys.executable, __file__, "--read", reader, home, bucket, str(size)]
                done = subprocess.run(command, capture_output=True, text=True, check=False)
                if done.returncode:
                    raise SystemExit(f"{reader}:\n{done.stderr[-3000:]}")
                found.append(json.loads(done.stdout.splitlines()[-1]))
        show(rates, size)


def show(rates: dict[str, list[dict[str, float]]], size: int) -> None:
    def middle(reader: str, key: str) -> float:
        return statistics.median(each[key] for each in rates[reader])

    def line(title: str, reader: str, turn: str, of: str = "") -> None:
        rate, cpu = middle(reader, turn), middle(reader, f"{turn} cpu")
        pairs = zip(rates[reader], rates[of or reader], strict=True)
        ratio = statistics.median(one[turn] / other[turn] for one, other in pairs)
        print(f"{title:26}{rate:8.0f}{cpu:12.2f}" + (f"   {ratio:.2f} of {of}" if of else ""))

    print(f"8 shards, {size / 1e6:.0f} MB\n{'':26}{'MB/s':>8}{'ms CPU/MB':>12}")
    line("gcsfs.cat_file", "gcsfs.cat_file", "first")
    line("2 at once", "2 at once", "first")
    line("cache alone", "cache alone", "first", "gcsfs.cat_file")
    line("provender, first pass", "provender", "first", "gcsfs.cat_file")
    line("provender, second pass", "provender", "second", "local store")
    line("local store", "local store", "second")


if __name__ == "__main__":
    main()
