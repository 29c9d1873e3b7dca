"""A whole build next to TFDS: 200,000 examples of about 1 KB of text and a label, in one run.

    python benchmarks/build.py [--examples 200000] [--runs 3] [--large] [--json]

Each build runs in a fresh process. A build of ten examples, in the same way, says what starting
costs (imports, worker processes, catalog); it is shown beside the whole and taken off for the
figures per example. Processor seconds are user and system time of the process and all its
children; memory is the peak resident size of the largest worker process.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

FEW = 10

TEXTS = """
import numpy as np
import tensorflow_datasets as tfds

COUNT = {count}


class BenchText(tfds.core.GeneratorBasedBuilder):
    VERSION = tfds.core.Version("1.0.0")

    def _info(self):
        return tfds.core.DatasetInfo(
            builder=self,
            features=tfds.features.FeaturesDict(
                {{"text": tfds.features.Text(), "label": tfds.features.ClassLabel(num_classes=10)}}
            ),
        )

    def _split_generators(self, dl_manager):
        return {{"train": self._generate_examples(COUNT)}}

    def _generate_examples(self, count):
        rng = np.random.default_rng(7)
        words = [f"{{rng.integers(1 << 24):06x}}" for _ in range(2000)]
        sizes = rng.integers(140, 152, 997)
        pool = [" ".join(words[j] for j in rng.integers(0, 2000, size)) for size in sizes]
        for i in range(count):
            yield f"example_{{i}}", {{"text": pool[i % 997], "label": i % 10}}
"""

PROVENDER = """
import sys
from provender.engine.build import build
from provender.engine.session import Options, open_session
from provender.refs import DatasetRef
from provender.settings import load_settings

file, home, workers = sys.argv[1:]
settings = load_settings(store=home + "/store", cwd=home, environ={"HOME": home})
build(open_session(DatasetRef.parse(file), settings, Options(workers=int(workers))))
"""

TFDS = """
import importlib.util
import sys

import tensorflow_datasets as tfds

file, home, _ = sys.argv[1:]
path, _, cls = file.rpartition(":")
spec = importlib.util.spec_from_file_location("bench_builder", path)
module = importlib.util.module_from_spec(spec)
spec.loader.exec_module(module)
tfds.disable_progress_bar()
builder = tfds.builder(getattr(module, cls).name, data_dir=home + "/data")
builder.download_and_prepare()
"""


@dataclass(frozen=True)
class Cost:
    """What one process cost.

    Attributes:
        wall: seconds from start to end.
        cpu: user and system seconds, with children.
        worker_mb: peak resident size of its largest child process, or its own without children.
    """

    wall: float
    cpu: float
    worker_mb: float


class _Watch(threading.Thread):
    """Looks at the peak memory of a process and its descendants while they live."""

    def __init__(self, pid: int) -> None:
        super().__init__(daemon=True)
        self.pid = pid
        self.peaks: dict[int, int] = {}
        self.over = threading.Event()

    def run(self) -> None:
        while not self.over.wait(0.1):
            for pid in _family(self.pid):
                if peak := _peak_kb(pid):
                    self.peaks[pid] = peak

    def worker_mb(self) -> float:
        children = [peak for pid, peak in self.peaks.items() if pid != self.pid]
        return max(children or self.peaks.values(), default=0) / 1024


def _family(pid: int) -> list[int]:
    try:
        below = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    except OSError:
        return [pid]
    # Worker processes are started by threads, whose children are listed with the thread.
    for task in Path(f"/proc/{pid}/task").glob("*"):
        try:
            below += (task / "children").read_text().split()
        except OSError:
            continue
    return [pid, *{each for child in set(below) for each in _family(int(child))}]


def _peak_kb(pid: int) -> int:
    try:
        status = Path(f"/proc/{pid}/status").read_text()
    except OSError:
        return 0
    return next((int(li.split()[1]) for li in status.splitlines() if li.startswith("VmHWM")), 0)


def cost_of(script: str, *args: str) -> Cost:
    """Runs a script in a fresh interpreter and measures it."""
    environ = {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}
    environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
    with tempfile.TemporaryFile() as log:
        started = time.monotonic()
        process = subprocess.Popen(
            [sys.executable, "-c", script, *args], stdout=log, stderr=log, env=environ
        )
        watch = _Watch(process.pid)
        watch.start()
        _, status, usage = os.wait4(process.pid, 0)
        wall = time.monotonic() - started
        watch.over.set()
        watch.join()
        process.returncode = os.waitstatus_to_exitcode(status)
        if process.returncode:
            log.seek(0)
            sys.exit(log.read().decode(errors="replace")[-4000:])
    return Cost(wall, usage.ru_utime + usage.ru_stime, watch.worker_mb())


def median(costs: list[Cost]) -> Cost:
    """The median of each figure."""
    return Cost(*(statistics.median(getattr(c, f) for c in costs) for f in asdict(costs[0])))


@dataclass(frozen=True)
class Row:
    """One way to build: the whole, and the part that does not grow with the examples."""

    name: str
    examples: int
    whole: Cost
    start: Cost

    @property
    def net_wall(self) -> float:
        """Seconds beyond those of starting; not a number where noise is larger than the work."""
        return _positive(self.whole.wall - self.start.wall)

    @property
    def net_cpu(self) -> float:
        """Processor seconds beyond those of starting, or not a number."""
        return _positive(self.whole.cpu - self.start.cpu)

    @property
    def micros(self) -> float:
        """Processor microseconds an example, starting taken off."""
        return self.net_cpu / self.examples * 1e6

    def to_json(self) -> dict[str, Any]:
        return {**asdict(self), "net_wall": self.net_wall, "cpu_us_per_example": self.micros}


def _positive(seconds: float) -> float:
    return seconds if seconds > 0 else math.nan


WAYS: Mapping[str, tuple[str, int]] = {
    "TFDS": (TFDS, 1),
    "Provender, 1 process": (PROVENDER, 1),
    "Provender, 2 workers": (PROVENDER, 2),
}


def compare(
    source: str,
    cls: str,
    examples: int,
    runs: int,
    place: Path,
    ways: Mapping[str, tuple[str, int]],
) -> list[Row]:
    """Builds the same examples in each way, the ways taking turns.

    Args:
        source: text of the builder module, with a ``{count}``.
        cls: name of the builder class.
        examples: how many.
        runs: how often; the median counts.
        place: an empty folder for all files.
        ways: name -> script and number of workers.
    """
    files = {}
    for count in (FEW, examples):
        files[count] = place / f"bench_{cls.lower()}_{count}.py"
        files[count].write_text(source.format(count=count))
    found: dict[tuple[str, int], list[Cost]] = {}
    for run in range(runs):
        for count in (FEW, examples):
            for name, (script, workers) in ways.items():
                home = place / "home"
                home.mkdir()
                cost = cost_of(script, f"{files[count]}:{cls}", str(home), str(workers))
                found.setdefault((name, count), []).append(cost)
                shutil.rmtree(home)
                print(f"  run {run + 1}: {name}, {count:,}: {cost.wall:.1f} s", file=sys.stderr)
    return [
        Row(name, examples, median(found[name, examples]), median(found[name, FEW]))
        for name in ways
    ]


def table(rows: list[Row]) -> str:
    """The rows as text; ratios are those of the first row to each."""
    first = rows[0]
    head = (
        f"{'':24}{'wall s':>9}{'start s':>9}{'CPU s':>8}{'start':>7}"
        f"{'us CPU/ex':>11}{'x wall':>8}{'x net':>7}{'x CPU':>7}{'worker MB':>11}"
    )
    lines = [
        f"{row.name:24}{row.whole.wall:9.2f}{row.start.wall:9.2f}{row.whole.cpu:8.2f}"
        f"{row.start.cpu:7.2f}{row.micros:11.2f}"
        f"{first.whole.wall / row.whole.wall:8.2f}{first.net_wall / row.net_wall:7.2f}"
        f"{first.net_cpu / row.net_cpu:7.2f}{row.whole.worker_mb:11.0f}"
        for row in rows
    ]
    return "\n".join([head, *lines])


def in_place(work: Callable[[Path], list[Row]]) -> list[Row]:
    """Calls a function with a fresh folder, which is removed afterwards."""
    with tempfile.TemporaryDirectory(prefix="provender-bench-") as place:
        return work(Path(place))


def main() -> None:
    """Measures and prints."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--examples", type=int, default=200_000)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--large", action="store_true", help="also 2,000,000 examples, once")
    parser.add_argument("--json", action="store_true")
    args = parser.parse_args()
    rows = in_place(
        lambda place: compare(TEXTS, "BenchText", args.examples, args.runs, place, WAYS)
    )
    large: list[Row] = []
    if args.large:
        ways = {name: way for name, way in WAYS.items() if name == "Provender, 2 workers"}
        large = in_place(lambda place: compare(TEXTS, "BenchText", 2_000_000, 1, place, ways))
    if args.json:
        print(
            json.dumps({"rows": [r.to_json() for r in rows], "large": [r.to_json() for r in large]})
        )
        return
    print(
        f"{args.examples:,} examples of about 1 KB of text; median of {args.runs}; load {os.getloadavg()[0]:.1f}"
    )
    print(table(rows))
    if large:
        print("\n2,000,000 examples")
        print(table(large))


if __name__ == "__main__":
    main()
