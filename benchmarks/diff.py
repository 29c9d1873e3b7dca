"""Comparing two versions example by example: time, processor and memory of a fresh process each.

    python benchmarks/diff.py [--examples 1000000] [--naive] [--json]

Both versions hold so many examples of a key, about 200 bytes of text and a label, in shards of
100,000; in the second, one in a thousand is gone, two are new and three are changed. Every way is
checked to find exactly that. ``--naive`` adds what one would write by hand: a dictionary from key to
parsed example.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

SHARD = 100_000
FEATURES = {
    "pythonClassName": "tensorflow_datasets.core.features.features_dict.FeaturesDict",
    "featuresDict": {
        "features": {
            "id": {"pythonClassName": "Text", "text": {}},
            "label": {"pythonClassName": "ClassLabel", "classLabel": {"numClasses": "10"}},
            "text": {"pythonClassName": "Text", "text": {}},
        }
    },
}

COMPARE = """
import json, resource, sys, time
from provender.catalog import Catalog
from provender.questions.diff import diff
from provender.store import Store

home, key = sys.argv[1:]
catalog, store = Catalog.open(f"sqlite:///{home}/catalog.db"), Store.open(home + "/store")
versions = {each.version: each for each in catalog.versions()}
began, cpu = time.monotonic(), time.process_time()
found = diff(
    catalog, store, versions["1.0.0"], versions["1.1.0"], examples=True, key=key or None, samples=3
)
counts = {each: found.examples.count(each) for each in ("added", "removed", "changed", "same")}
print(json.dumps({
    "wall": time.monotonic() - began, "cpu": time.process_time() - cpu,
    "peak_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024, "counts": counts,
}))
"""

NAIVE = """
import glob, json, resource, sys, time
from provender.records import iter_records
from provender.training.wire import parse_example

home, _ = sys.argv[1:]
began, cpu = time.monotonic(), time.process_time()


def read(number):
    found = {}
    for path in sorted(glob.glob(f"{home}/store/datasets/bench/{number}/*.tfrecord*")):
        for _, payload in iter_records(path):
            example = parse_example(payload)
            found[example["id"][0]] = example
    return found


one, other = read("1.0.0"), read("1.1.0")
both = one.keys() & other.keys()
changed = sum(one[key] != other[key] for key in both)
counts = {
    "added": len(other) - len(both), "removed": len(one) - len(both),
    "changed": changed, "same": len(both) - changed,
}
print(json.dumps({
    "wall": time.monotonic() - began, "cpu": time.process_time() - cpu,
    "peak_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024, "counts": counts,
}))
"""


def example(number: int, changed: bool) -> bytes:
    from provender.records import protobuf

    text = f"{'new' if changed else 'old'} text of example {number} ".encode() * 6
    entries = (
        protobuf.entry(b"id", protobuf.bytes_feature([b"id-%d" % number])),
        protobuf.entry(b"label", protobuf.int64_feature(protobuf.varint(number % 10))),
        protobuf.entry(b"text", protobuf.bytes_feature([text])),
    )
    joined = b"".join(entries)
    return protobuf.example_prefix(len(joined)) + joined


def make(home: Path, examples: int) -> None:
    """Writes both versions and puts them on record, as a build does."""
    from provender.catalog import Catalog, ShardRecord, SplitRecord
    from provender.records import write_records
    from provender.stages.register import index_name

    catalog = Catalog.open(f"sqlite:///{home}/catalog.db")
    for number in ("1.0.0", "1.1.0"):
        second = number == "1.1.0"
        numbers = range(examples + (examples // 500 if second else 0))
        if second:
            numbers = [i for i in numbers if i % 1000 or i >= examples]  # type: ignore[assignment]
        folder = home / "store" / "datasets" / "bench" / number
        (folder / ".provender" / "index").mkdir(parents=True)
        shards = []
        count = -(-len(numbers) // SHARD)
        for i in range(count):
            part = numbers[i * SHARD : (i + 1) * SHARD]
            path = folder / f"bench-train.tfrecord-{i:05d}-of-{count:05d}"
            made = write_records(
                (example(n, second and n % 1000 in (1, 2, 3) and n < examples) for n in part),
                path,
                index_path=folder / index_name(path.name),
            )
            shards.append(
                ShardRecord(
                    "train", i, count, path.name, made.size, made.sha256, made.crc32c, len(part)
                )
            )
        info = {"name": "train", "shardLengths": [str(each.examples) for each in shards]}
        size = sum(each.size for each in shards)
        catalog.register_version(
            "bench", None, number, f"fp-{number}",
            path=f"datasets/bench/{number}", uri=str(folder),
            splits=[SplitRecord("train", len(numbers), size, count)], shards=shards,
            features=FEATURES, info={"dataset_info": {"splits": [info]}},
        )  # fmt: skip
    catalog.close()


def run(script: str, home: Path, key: str) -> dict[str, Any]:
    """Runs a way in a fresh process."""
    done = subprocess.run(
        [sys.executable, "-c", script, str(home), key], capture_output=True, text=True, check=False
    )
    if done.returncode:
        sys.exit(done.stderr[-3000:])
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def main() -> None:
    """Measures and prints."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--examples", type=int, default=1_000_000)
    parser.add_argument("--naive", action="store_true", help="also by a plain dictionary")
    parser.add_argument("--json", action="store_true")
    args = parser.parse_args()
    n = args.examples
    gone, new, changed = -(-n // 1000), n // 500, 3 * (n // 1000)
    keyed = {"added": new, "removed": gone, "changed": changed, "same": n - gone - changed}
    plain = {**keyed, "added": new + changed, "removed": gone + changed, "changed": 0}
    with tempfile.TemporaryDirectory(prefix="provender-bench-") as place:
        make(Path(place), n)
        ways = {"by content": (COMPARE, "", plain), "by key": (COMPARE, "id", keyed)}
        if args.naive:
            ways["a dictionary, by key"] = (NAIVE, "id", keyed)
        rows = {}
        for name, (script, key, wanted) in ways.items():
            rows[name] = run(script, Path(place), key)
            assert rows[name]["counts"] == wanted, (name, rows[name]["counts"], wanted)
    if args.json:
        print(json.dumps(rows))
        return
    print(f"two versions of {n:,} examples; load {os.getloadavg()[0]:.1f}")
    print(f"{'':24}{'wall s':>9}{'CPU s':>9}{'us CPU/ex':>11}{'peak MB':>9}")
    for name, row in rows.items():
        micros = row["cpu"] / (2 * n) * 1e6
        print(f"{name:24}{row['wall']:9.1f}{row['cpu']:9.1f}{micros:11.2f}{row['peak_mb']:9.0f}")


if __name__ == "__main__":
    main()
