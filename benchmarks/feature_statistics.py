"""What statistics cost: an example of several kinds, and a whole build with and without them.

    python benchmarks/feature_statistics.py [--examples 200000] [--runs 3] [--build] [--json]

The first table times `Collection.add` alone on records in memory, in processor microseconds an
example. The second encodes and writes the runs of a dataset (about 1 KB of text and a label) with and
without statistics in one process, the two taking turns, so that noise touches both; medians. With
``--build`` whole builds follow in fresh processes, likewise.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np

from provender.records import protobuf
from provender.statistics import Collection, Schema, record_ids

WITHOUT = """
from provender.stages import statistics as collected
collected.summarizer = lambda schema: None
collected.of_runs = lambda folder, results, schema: None
"""


def record(entries: dict[str, bytes]) -> bytes:
    """A tf.train.Example of map entries, by name."""
    joined = b"".join(protobuf.entry(name.encode(), value) for name, value in entries.items())
    return protobuf.example_prefix(len(joined)) + joined


def text(value: bytes) -> bytes:
    return protobuf.bytes_feature([value])


def whole(*values: int) -> bytes:
    return protobuf.int64_feature(protobuf.packed_varints(np.array(values, np.int64)))


def real(values: np.ndarray) -> bytes:
    return protobuf.float_feature(protobuf.packed_floats(values.astype(np.float32)))


TEXT = {"text": {}}
LABEL = {"classLabel": {"numClasses": "10"}}
FLOATS = {"tensor": {"shape": {"dimensions": ["768"]}, "dtype": "float32", "encoding": "none"}}
FLOAT = {"tensor": {"shape": {}, "dtype": "float32", "encoding": "none"}}
INTS = {"sequence": {"feature": {"tensor": {"shape": {}, "dtype": "int64"}}, "length": "-1"}}
IMAGE = {"image": {"shape": {"dimensions": ["-1", "-1", "3"]}, "dtype": "uint8"}}


def kinds(count: int) -> dict[str, tuple[dict[str, Any], list[bytes]]]:
    """Name -> features.json and records."""
    rng = np.random.default_rng(7)
    words = [f"{rng.integers(1 << 24):06x}" for _ in range(2000)]
    pool = [
        " ".join(words[j] for j in rng.integers(0, 2000, n)) for n in rng.integers(140, 152, 997)
    ]
    foreign = [each.replace("a", "ä").replace("e", "語") for each in pool]
    vectors = rng.standard_normal((64, 768))
    png = (
        b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR" + (300).to_bytes(4) + (200).to_bytes(4) + b"\x08\x02\0\0\0"
    )
    picture = png + bytes(20_000)
    tokens = rng.integers(0, 30_000, (64, 128))
    return {
        "1 KB of ASCII text, a label": (
            {"text": TEXT, "label": LABEL},
            [
                record({"label": whole(i % 10), "text": text(pool[i % 997].encode())})
                for i in range(count)
            ],
        ),
        "1 KB of other text, a label": (
            {"text": TEXT, "label": LABEL},
            [
                record({"label": whole(i % 10), "text": text(foreign[i % 997].encode())})
                for i in range(count)
            ],
        ),
        "ten floats": (
            {f"x{i}": FLOAT for i in range(10)},
            [
                record({f"x{j}": real(vectors[i % 64, j : j + 1] * i) for j in range(10)})
                for i in range(count)
            ],
        ),
        "128 token ids": (
            {"ids": INTS},
            [record({"ids": whole(*tokens[i % 64].tolist())}) for i in range(count)],
        ),
        "768 floats": (
            {"vector": FLOATS},
            [record({"vector": real(vectors[i % 64])}) for i in range(count // 4)],
        ),
        "a PNG of 20 KB": (
            {"image": IMAGE},
            [record({"image": text(picture + i.to_bytes(4))}) for i in range(count // 10)],
        ),
    }


def cost(features: dict[str, Any], records: list[bytes]) -> tuple[float, int]:
    """Processor microseconds an example, and bytes of the collection."""
    sizes = np.fromiter(map(len, records), np.int64)
    buffer = np.frombuffer(b"".join(records), np.uint8)
    ids = record_ids(np.arange(len(records)), np.arange(len(records)))
    schema = Schema({"featuresDict": {"features": features}})
    found = []
    for _ in range(5):
        collection = Collection(schema)
        began = time.process_time()
        collection.add(buffer, np.cumsum(sizes) - sizes, sizes, ids)
        found.append(time.process_time() - began)
    return statistics.median(found) / len(records) * 1e6, len(collection.to_bytes())


def encoding(examples: int, runs: int) -> dict[str, float]:
    """Processor microseconds an example of encoding and writing runs, without and with statistics."""
    import tensorflow_datasets as tfds

    from provender.records import KeyHasher, RunWriter, compile_encoder
    from provender.stages.statistics import schema_of, summarizer

    features = tfds.features.FeaturesDict(
        {"text": tfds.features.Text(), "label": tfds.features.ClassLabel(num_classes=10)}
    )
    rng = np.random.default_rng(7)
    words = [f"{rng.integers(1 << 24):06x}" for _ in range(2000)]
    pool = [
        " ".join(words[j] for j in rng.integers(0, 2000, n)) for n in rng.integers(140, 152, 997)
    ]
    ways = {"without statistics": None, "with statistics": summarizer(schema_of(features))}
    found: dict[str, list[float]] = {name: [] for name in ways}
    for _ in range(runs):
        for name, summarize in ways.items():
            with tempfile.TemporaryDirectory(prefix="provender-bench-") as place:
                writer = RunWriter(
                    place, 0, 1,
                    hasher=KeyHasher("train"), encode=compile_encoder(features), summarize=summarize,
                )  # fmt: skip
                pairs = (
                    (f"example_{i}", {"text": pool[i % 997], "label": i % 10})
                    for i in range(examples)
                )
                began = time.process_time()
                writer.write_part(pairs)
                found[name].append((time.process_time() - began) / examples * 1e6)
    return {name: statistics.median(each) for name, each in found.items()}


def building() -> ModuleType:
    """The benchmark of builds, which has what is needed to run one."""
    path = Path(__file__).with_name("build.py")
    spec = importlib.util.spec_from_file_location("bench_build", path)
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    sys.modules["bench_build"] = module
    spec.loader.exec_module(module)
    return module


def builds(examples: int, runs: int) -> list[Any]:
    """One process building with statistics, and without."""
    bench = building()
    ways = {
        "without statistics": (WITHOUT + bench.PROVENDER, 1),
        "with statistics": (bench.PROVENDER, 1),
    }
    work: Callable[[Path], list[Any]] = lambda place: bench.compare(  # noqa: E731
        bench.TEXTS, "BenchText", examples, runs, place, ways
    )
    return list(bench.in_place(work))


def main() -> None:
    """Measures and prints."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--examples", type=int, default=200_000)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--build", action="store_true", help="also whole builds")
    parser.add_argument("--json", action="store_true")
    args = parser.parse_args()
    alone = {name: cost(*each) for name, each in kinds(20_000).items()}
    parts = encoding(args.examples, args.runs)
    rows = builds(args.examples, args.runs) if args.build else []
    if args.json:
        print(
            json.dumps(
                {"alone": alone, "encoding": parts, "builds": [row.to_json() for row in rows]}
            )
        )
        return
    print(f"load {os.getloadavg()[0]:.1f}")
    print(f"{'collecting alone':32}{'us CPU/ex':>11}{'kept bytes':>12}")
    for name, (micros, size) in alone.items():
        print(f"{name:32}{micros:11.2f}{size:12,}")
    plain, more = parts.values()
    print(f"\nencoding {args.examples:,} examples of about 1 KB of text, median of {args.runs}")
    for name, micros in parts.items():
        print(f"{name:32}{micros:11.2f}")
    print(f"{'':32}{more - plain:11.2f} more, {more / plain:.2f} x")
    if rows:
        without, with_them = rows
        print(
            f"\n{args.examples:,} examples of about 1 KB of text, 1 process, median of {args.runs}"
        )
        for row in rows:
            print(f"{row.name:32}{row.whole.wall:9.2f} s wall{row.whole.cpu:9.2f} s CPU")
        more = (with_them.whole.cpu - without.whole.cpu) / args.examples * 1e6
        print(f"{'':32}{more:9.2f} us CPU an example more")
        print(f"{'':32}{with_them.whole.wall / without.whole.wall:9.2f} x wall")


if __name__ == "__main__":
    main()
