"""How fast training reads a version: `provender.load` beside `tfds` and bare tf.data.

Three versions: text (200,000 x 1 KB and a label), images (20,000 PNG of 32 x 32 x 3) and nested
ragged values (50,000). Each reader runs in a process of its own over files in the page cache;
examples a second of wall time and microseconds of CPU an example, without imports, median of 3.
Last (alone with ``--cold``), a process from its start to its first batch, imports included, beside one that
does nothing but import TensorFlow: all in turn, medians of 7 at least, files in the page cache. The
whole process is shown too: taking down what was imported costs any TensorFlow program its time.
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
from pathlib import Path

BUILDERS = """
import numpy as np
import tensorflow_datasets as tfds

F = tfds.features


class _Base(tfds.core.GeneratorBasedBuilder, skip_registration=True):
    VERSION = tfds.core.Version("1.0.0")
    COUNT = 0

    def _split_generators(self, dl_manager):
        return {"train": self._generate_examples(self.COUNT)}


class BenchText(_Base, skip_registration=True):
    COUNT = @TEXT@

    def _info(self):
        return tfds.core.DatasetInfo(builder=self, features=F.FeaturesDict(
            {"text": F.Text(), "label": F.ClassLabel(num_classes=10)}),
            supervised_keys=("text", "label"))

    def _generate_examples(self, count):
        body = "the quick brown fox jumps over the lazy dog " * 24
        for i in range(count):
            yield i, {"text": f"{i} {body}"[:1000], "label": i % 10}


class BenchImages(_Base, skip_registration=True):
    COUNT = @IMAGES@

    def _info(self):
        return tfds.core.DatasetInfo(builder=self, features=F.FeaturesDict(
            {"image": F.Image(shape=(32, 32, 3)), "label": F.ClassLabel(num_classes=10)}))

    def _generate_examples(self, count):
        rng = np.random.default_rng(0)
        for i in range(count):
            yield i, {"image": rng.integers(0, 255, (32, 32, 3), np.uint8), "label": i % 10}


class BenchNested(_Base, skip_registration=True):
    COUNT = @NESTED@

    def _info(self):
        return tfds.core.DatasetInfo(builder=self, features=F.FeaturesDict({
            "tokens": F.Sequence(F.Sequence(F.Scalar(np.int64))),
            "objects": F.Sequence({"box": F.BBoxFeature(), "name": F.Text()}),
        }))

    def _generate_examples(self, count):
        for i in range(count):
            yield i, {
                "tokens": [[i, 1, 2][: n % 4] for n in range(i % 7)],
                "objects": [
                    {"box": F.BBox(0.0, 0.1, 0.5, 1.0), "name": f"o{n}"} for n in range(i % 5)
                ],
            }
"""

# What every program of `COLD` ends with: when it was so far, and the CPU time until then.
READY = """
import os, time
print(time.time(), sum(os.times()[:2]), flush=True)
"""
COLD = {
    "import tensorflow": "import tensorflow",
    "provender": """
import sys, provender
settings = provender.load_settings(cwd=sys.argv[2], environ={"HOME": sys.argv[2]})
next(iter(provender.load(sys.argv[3], split="train", batch_size=256, settings=settings)))
""",
    "tfds batch_size=256": """
import sys, tensorflow_datasets as tfds
builder = tfds.builder_from_directory(sys.argv[1])
next(iter(builder.as_dataset(split="train", batch_size=256)))
""",
}

# `padded_batch`, which TFDS's batch_size uses, takes no ragged values, nor does a bare spec.
NESTED_READERS = ("provender", "tfds .batch(256)")
READERS = ("provender", "tfds batch_size=256", "tfds .batch(256)", "bare parse_example")


def read(folder: str, home: str, name: str, reader: str) -> None:
    """Reads a version once in this process and prints what it took."""
    import tensorflow as tf
    import tensorflow_datasets as tfds

    start = time.perf_counter()
    config = tfds.ReadConfig(try_autocache=False)
    if reader == "provender":
        import provender

        settings = provender.load_settings(cwd=home, environ={"HOME": home})
        data = provender.load(name, split="train", batch_size=256, settings=settings)
    elif reader == "bare parse_example":
        features = tfds.builder_from_directory(folder).info.features
        spec = {
            key: each
            for key, each in features.tf_example_spec.items()
            if isinstance(each, tf.io.FixedLenFeature)
        }
        files = sorted(str(each) for each in Path(folder).glob("*.tfrecord*"))
        data = tf.data.TFRecordDataset(files).batch(256)
        data = data.map(lambda records: tf.io.parse_example(records, spec))
    elif reader == "tfds batch_size=256":
        builder = tfds.builder_from_directory(folder)
        data = builder.as_dataset(split="train", batch_size=256, read_config=config)
    else:
        builder = tfds.builder_from_directory(folder)
        data = builder.as_dataset(split="train", read_config=config).ragged_batch(256)
    iterator = iter(data)
    first = next(iterator)
    ready = time.perf_counter() - start
    examples = int(tf.nest.flatten(first, expand_composites=False)[0].shape[0] or 0)
    wall, cpu = time.perf_counter(), time.process_time()
    for batch in iterator:
        examples += int(tf.nest.flatten(batch, expand_composites=False)[0].shape[0] or 0)
    print(
        json.dumps(
            {
                "wall": time.perf_counter() - wall,
                "cpu": time.process_time() - cpu,
                "examples": examples,
                "first": ready,
            }
        )
    )


def main() -> None:
    """Builds the versions, runs every reader three times, and prints a table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--scale", type=float, default=1.0, help="share of the examples")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--cold", action="store_true", help="only the first batch of text")
    parser.add_argument("--read", nargs=4, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.read:
        read(*args.read)
        return
    import provender

    with tempfile.TemporaryDirectory() as home:
        file = Path(home) / "bench_builders.py"
        source = BUILDERS
        for mark, count in (("TEXT", 200_000), ("IMAGES", 20_000), ("NESTED", 50_000)):
            source = source.replace(f"@{mark}@", str(int(count * args.scale)))
        file.write_text(source)
        settings = provender.load_settings(cwd=home, environ={"HOME": home})
        for cls in ("BenchText",) if args.cold else ("BenchText", "BenchImages", "BenchNested"):
            built = provender.build(f"{file}:{cls}", settings=settings)
            folder, name = f"{settings.store}/{built.version.path}", built.version.dataset
            if cls == "BenchText":
                cold = _cold_processes(max(args.rounds, 7), folder, home, name)
            if args.cold:
                break
            rows = {}
            for reader in READERS if cls != "BenchNested" else NESTED_READERS:
                runs = [_run(folder, home, name, reader) for _ in range(args.rounds)]
                rows[reader] = {key: statistics.median(run[key] for run in runs) for key in runs[0]}
            _show(cls, rows)
        _show_cold(cold)


Cold = tuple[float, float, float, float]


def _cold_processes(rounds: int, folder: str, home: str, name: str) -> dict[str, list[Cold]]:
    runs: dict[str, list[Cold]] = {each: [] for each in COLD}
    # The first process of each reads files from the disk, so it does not count.
    for number in range(rounds + 1):
        for each, program in COLD.items():
            found = _cold(program + READY, folder, home, name)
            if number:
                runs[each].append(found)
    return runs


def _cold(program: str, *args: str) -> Cold:
    """Wall and CPU seconds until a process was ready, and until it had ended."""
    begun = time.time()
    process = subprocess.Popen(
        [sys.executable, "-c", program, *args],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    assert process.stdout is not None
    said = process.stdout.read()
    _, status, used = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise SystemExit(f"a cold process ended with {process.returncode}:\n{program}")
    ready, cpu = map(float, said.splitlines()[-1].split())
    return ready - begun, cpu, time.time() - begun, used.ru_utime + used.ru_stime


def _run(folder: str, home: str, name: str, reader: str) -> dict[str, float]:
    done = subprocess.run(
        [sys.executable, __file__, "--read", folder, home, name, reader],
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        raise SystemExit(f"{reader} of {name}:\n{done.stderr[-2000:]}")
    found: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return found


def _show(name: str, rows: dict[str, dict[str, float]]) -> None:
    ours = rows["provender"]
    print(f"\n{name}, {ours['examples']:,.0f} examples, batches of 256")
    print(f"{'':24}{'examples/s':>12}{'us CPU/ex':>12}{'first batch s':>15}{'ours is':>10}")
    for reader, row in rows.items():
        rate = row["examples"] / row["wall"]
        ratio = (ours["examples"] / ours["wall"]) / rate
        print(
            f"{reader:24}{rate:12,.0f}{row['cpu'] / row['examples'] * 1e6:12.2f}"
            f"{row['first']:15.2f}{ratio:9.1f}x"
        )


def _show_cold(cold: dict[str, list[Cold]]) -> None:
    print("\ncold process: to its first batch" + " " * 32 + "to its end")
    titles = ("wall s", "least", "most", "CPU s", "wall s", "CPU s")
    print(f"{'':24}" + "".join(f"{title:>8}" for title in titles))
    for name, runs in cold.items():
        first, cpu, end, cpu_end = (statistics.median(each) for each in zip(*runs, strict=True))
        most, least = max(run[0] for run in runs), min(run[0] for run in runs)
        values = (first, least, most, cpu, end, cpu_end)
        print(f"{name:24}" + "".join(f"{value:8.2f}" for value in values))


if __name__ == "__main__":
    main()
