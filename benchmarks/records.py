"""What it costs to turn examples into shards: Provender's record path next to TFDS, in one run.

    python benchmarks/records.py [--examples 200000] [--rounds 3] [--skip-tfds] [--large 2000000]

Each measurement runs in a process of its own and prints CPU microseconds per example (user and
system time, best of the rounds, the generator's own time taken off) and the peak resident memory.
The examples have about 1 KB of text and a label.
"""

from __future__ import annotations

import argparse
import json
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np


class Texts:
    """The examples: ``(key, {"text": about 1 KB, "label": 0 to 9})``."""

    def __init__(self, count: int) -> None:
        self.count = count
        rng = np.random.default_rng(7)
        words = [f"{rng.integers(1 << 24):06x}" for _ in range(2000)]
        sizes = rng.integers(140, 152, 997)
        self._pool = [" ".join(words[j] for j in rng.integers(0, 2000, size)) for size in sizes]

    def __iter__(self) -> Iterator[tuple[str, dict[str, Any]]]:
        pool, length = self._pool, len(self._pool)
        for i in range(self.count):
            yield f"example_{i}", {"text": pool[i % length], "label": i % 10}


def features() -> Any:
    from tensorflow_datasets.core import features as f

    return f.FeaturesDict({"text": f.Text(), "label": f.ClassLabel(num_classes=10)})


def best(run: Any, rounds: int) -> float:
    """CPU seconds of the quickest of some rounds."""
    found = []
    for _ in range(rounds):
        start = time.process_time()
        run()
        found.append(time.process_time() - start)
    return min(found)


def steps(texts: Texts, rounds: int) -> dict[str, float]:
    """CPU seconds of each step alone, over all examples, in batches of 256."""
    import hashlib

    import google_crc32c
    import xxhash

    from provender.records import KeyHasher, compile_encoder
    from provender.records.tfrecord import frame_joined

    pairs = list(texts)
    encode = compile_encoder(features())
    hasher = KeyHasher("train")
    keys = [[key for key, _ in pairs[i : i + 256]] for i in range(0, len(pairs), 256)]
    values = [[value for _, value in pairs[i : i + 256]] for i in range(0, len(pairs), 256)]
    payloads = [[encode(value) for value in batch] for batch in values]
    framed = [frame_joined(batch)[0] for batch in payloads]
    return {
        "key hash": best(lambda: [hasher.digests(batch, 0) and None for batch in keys], rounds),
        "encode": best(lambda: [[encode(v) for v in batch] and None for batch in values], rounds),
        "checksum and frame": best(lambda: [frame_joined(b) and None for b in payloads], rounds),
        "chunk digest (xxh3)": best(lambda: [xxhash.xxh3_128(b).digest() for b in framed], rounds),
        "sha256": best(lambda: [hashlib.sha256(b).digest() for b in framed], rounds),
        "crc32c of the file": best(lambda: [google_crc32c.value(b) for b in framed], rounds),
    }


def provender(texts: Texts, home: Path) -> dict[str, float]:
    """CPU seconds of the whole path, by stage."""
    from provender.records import (
        KeyHasher,
        RunWriter,
        compile_encoder,
        plan_order,
        shard_bounds,
        shard_count,
        shard_name,
        write_shard,
    )

    encode = compile_encoder(features())
    marks = [time.process_time()]
    writer = RunWriter(home, 0, 1, hasher=KeyHasher("train"), encode=encode)
    result = writer.write_part(iter(texts))
    marks.append(time.process_time())
    order = plan_order(home, [result])
    marks.append(time.process_time())
    count = shard_count(order.payload_bytes, order.examples)
    for i, (start, end) in enumerate(shard_bounds(order.examples, count)):
        write_shard(order, start, end, home / shard_name("bench", "train", i, count))
    marks.append(time.process_time())
    names = ("runs", "order", "shards")
    return {name: marks[i + 1] - marks[i] for i, name in enumerate(names)}


def tfds_build(texts: Texts, home: Path) -> dict[str, float]:
    """CPU seconds of ``download_and_prepare``, TensorFlow being imported already."""
    import tensorflow  # noqa: F401
    import tensorflow_datasets as tfds

    class Bench(tfds.core.GeneratorBasedBuilder, skip_registration=True):
        VERSION = tfds.core.Version("1.0.0")
        name = "bench"
        pkg_dir_path = home

        def _info(self) -> Any:
            return tfds.core.DatasetInfo(builder=self, features=features())

        def _split_generators(self, dl_manager: Any) -> Any:
            return {"train": self._generate_examples()}

        def _generate_examples(self) -> Any:
            yield from texts

    builder = Bench(data_dir=home)
    tfds.disable_progress_bar()
    start = time.process_time()
    builder.download_and_prepare()
    return {"download_and_prepare": time.process_time() - start}


def measure(what: str, count: int, rounds: int) -> dict[str, Any]:
    """Runs inside the child process; returns microseconds per example and peak memory."""
    texts = Texts(count)
    generate = best(lambda: [None for _ in texts], 3)
    if what == "steps":
        found = {"generate": generate, **steps(texts, rounds)}
    else:
        run = provender if what == "provender" else tfds_build
        attempts = []
        for _ in range(rounds):
            home = Path(tempfile.mkdtemp(prefix="records-bench-"))
            try:
                attempts.append(run(texts, home))
            finally:
                shutil.rmtree(home)
        found = min(attempts, key=lambda attempt: sum(attempt.values()))
        first = next(iter(found))
        found[first] -= generate
        found["whole path"] = sum(found.values())
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    return {"us": {k: v / count * 1e6 for k, v in found.items()}, "peak_mb": peak}


def child(what: str, count: int, rounds: int) -> dict[str, Any]:
    """Measures in a fresh process, so that memory and caches are its own."""
    command = [sys.executable, __file__, "--child", what]
    command += ["--examples", str(count), "--rounds", str(rounds)]
    output = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout
    found: dict[str, Any] = json.loads(output.splitlines()[-1])
    return found


def report(title: str, found: dict[str, Any]) -> None:
    print(f"\n{title}: peak memory {found['peak_mb']:.0f} MB")
    for name, value in found["us"].items():
        print(f"  {name:<24}{value:8.2f} us/example")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--examples", type=int, default=200_000)
    parser.add_argument("--large", type=int, default=2_000_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--skip-tfds", action="store_true")
    parser.add_argument("--child", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child:
        print(json.dumps(measure(options.child, options.examples, options.rounds)))
        return
    report(
        f"steps alone, {options.examples:,} examples",
        child("steps", options.examples, options.rounds),
    )
    ours = child("provender", options.examples, options.rounds)
    report(f"provender, {options.examples:,} examples", ours)
    if not options.skip_tfds:
        theirs = child("tfds", options.examples, options.rounds)
        report(f"tfds, {options.examples:,} examples", theirs)
        ratio = theirs["us"]["whole path"] / ours["us"]["whole path"]
        print(f"\nprovender needs {ratio:.1f} times less CPU than tfds")
    if options.large:
        report(f"provender, {options.large:,} examples", child("provender", options.large, 1))


if __name__ == "__main__":
    main()
