"""One example by its number: `provender.data_source` beside `tfds.data_source`.

    python benchmarks/random_access.py [--rows 50000] [--reads 4000] [--rounds 3]

The same examples (a text of 1 KB and a label; PNG images of 32 x 32 x 3 with a label) lie as TFRecord
with Provender's offset index, and as ArrayRecord, the format that TFDS needs for this. Each reader runs
in a process of its own, over files in the page cache, theirs and ours in turn. The same random numbers
are read one by one, and in lists of 64 (`__getitems__`, which loaders call). Microseconds of CPU and of
wall time a row, without imports; medians over the rounds. The ratio is of CPU time. What decodes PNG
is named: Provender uses kornia-rs where it is installed, TFDS OpenCV.
"""

from __future__ import annotations

import argparse
import json
import random
import statistics
import subprocess
import sys
import tempfile
import time
from importlib.util import find_spec
from pathlib import Path
from typing import Any

BUILDERS = """
import numpy as np
import tensorflow_datasets as tfds

F = tfds.features


class _Base(tfds.core.GeneratorBasedBuilder, skip_registration=True):
    VERSION = tfds.core.Version("1.0.0")

    def _split_generators(self, dl_manager):
        return {"train": self._generate_examples(@ROWS@)}


class RandomText(_Base, skip_registration=True):
    def _info(self):
        return tfds.core.DatasetInfo(builder=self, features=F.FeaturesDict(
            {"text": F.Text(), "label": F.ClassLabel(num_classes=10)}))

    def _generate_examples(self, count):
        body = "the quick brown fox jumps over the lazy dog " * 24
        for i in range(count):
            yield i, {"text": f"{i} {body}"[:1000], "label": i % 10}


class RandomImages(_Base, skip_registration=True):
    def _info(self):
        return tfds.core.DatasetInfo(builder=self, features=F.FeaturesDict(
            {"image": F.Image(shape=(32, 32, 3)), "label": F.ClassLabel(num_classes=10)}))

    def _generate_examples(self, count):
        rng = np.random.default_rng(0)
        for i in range(count // 5):
            yield i, {"image": rng.integers(0, 255, (32, 32, 3), np.uint8), "label": i % 10}
"""


def source_of(reader: str, home: str, name: str) -> Any:
    if reader == "provender":
        import provender

        settings = provender.load_settings(cwd=home, environ={"HOME": home})
        return provender.data_source(name, split="train", settings=settings)
    import tensorflow_datasets as tfds

    return tfds.builder_from_directory(f"{home}/theirs/{name}/1.0.0").as_data_source(split="train")


def measured(read: Any, rows: int) -> dict[str, float]:
    wall, cpu = time.perf_counter(), time.process_time()
    read()
    wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
    return {"cpu": cpu / rows * 1e6, "wall": wall / rows * 1e6}


def read(reader: str, home: str, name: str, reads: int) -> None:
    """Reads random rows in this process and prints what they took."""
    source = source_of(reader, home, name)
    numbers = random.Random(7).choices(range(len(source)), k=reads)
    warm = [source[number] for number in numbers[:64]]
    assert len(warm) == 64

    def singly() -> None:
        for number in numbers:
            source[number]

    def in_lists() -> None:
        for at in range(0, len(numbers), 64):
            source.__getitems__(numbers[at : at + 64])

    print(json.dumps({"one": measured(singly, reads), "list": measured(in_lists, reads)}))


def prepare(home: str, rows: int) -> None:
    """Builds both versions twice: here as TFRecord, by TFDS as ArrayRecord."""
    import tensorflow_datasets as tfds

    import provender
    from provender.builders.load import load_class

    file = Path(home) / "random_builders.py"
    file.write_text(BUILDERS.replace("@ROWS@", str(rows)))
    settings = provender.load_settings(cwd=home, environ={"HOME": home})
    for name in ("RandomText", "RandomImages"):
        provender.build(f"{file}:{name}", settings=settings, num_shards=4)
        theirs = load_class(f"{file}:{name}")(data_dir=f"{home}/theirs", file_format="array_record")
        config = tfds.download.DownloadConfig(num_shards=4)
        theirs.download_and_prepare(download_config=config)


def run(reader: str, home: str, name: str, reads: int) -> dict[str, dict[str, float]]:
    command = [sys.executable, __file__, "--read", reader, home, name, "--reads", str(reads)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"{reader} of {name}:\n{done.stderr[-2000:]}")
    found: dict[str, dict[str, float]] = json.loads(done.stdout.splitlines()[-1])
    return found


def main() -> None:
    """Prepares, reads with both readers in turn, and prints a table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=50_000)
    parser.add_argument("--reads", type=int, default=4_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--read", nargs=3, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.read:
        read(*args.read, args.reads)
        return
    for who, package in (("Provender", "kornia_rs"), ("TFDS", "cv2")):
        print(f"{who} decodes PNG by {package if find_spec(package) else 'Pillow'}")
    with tempfile.TemporaryDirectory() as home:
        prepare(home, args.rows)
        for name in ("random_text", "random_images"):
            runs: dict[str, list[dict[str, dict[str, float]]]] = {"tfds": [], "provender": []}
            for _ in range(args.rounds):
                for reader, found in runs.items():
                    found.append(run(reader, home, name, args.reads))
            print(f"\n{name}\n{'':14}{'us CPU/row':>12}{'us wall/row':>12}{'ours is':>10}")
            for way, title in (("one", "one by one"), ("list", "lists of 64")):
                cpu = {
                    reader: statistics.median(each[way]["cpu"] for each in found)
                    for reader, found in runs.items()
                }
                for reader, found in runs.items():
                    wall = statistics.median(each[way]["wall"] for each in found)
                    print(
                        f"{title if reader == 'tfds' else '':14}{cpu[reader]:12.1f}{wall:12.1f}"
                        f"{cpu[reader] / cpu['provender']:9.1f}x  {reader}"
                    )


if __name__ == "__main__":
    main()
