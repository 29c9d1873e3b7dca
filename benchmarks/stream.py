"""Streaming beside `datasets`: rows a second, times to a row, memory; one run, the same rows.

    python benchmarks/stream.py [--rows 1000000] [--rounds 3] [--folder DIR] [--only parquet]

The rows (a number, a text of 90 characters, a fraction, a small number) lie in ten parquet files
with row groups of 10,000, in ten JSON lines files, and in a published version (TFRecord). Readers
take turns, each in a process of its own over files in the page cache; what is shown is the median
over the rounds, rows a second of wall time (by CPU: of CPU time, which other programs disturb
less), and the ratio. `datasets` sleeps five seconds when a
stream is left; that is switched off for its rows and measured on its own line.
"""

from __future__ import annotations

import argparse
import itertools
import json
import resource
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from stream_data import FILES, write_files

HERE = Path(__file__).parent
READERS = (
    "datasets parquet",
    "provender parquet",
    "datasets json",
    "provender json",
    "provender version",
)

BUILDER = """
import glob
import pyarrow.parquet as pq
import numpy as np
import tensorflow_datasets as tfds

F = tfds.features


class StreamRows(tfds.core.GeneratorBasedBuilder, skip_registration=True):
    VERSION = tfds.core.Version("1.0.0")

    def _info(self):
        return tfds.core.DatasetInfo(builder=self, disable_shuffling=True, features=F.FeaturesDict({
            "id": F.Scalar(np.int64), "text": F.Text(), "score": F.Scalar(np.float32),
            "label": F.Scalar(np.int64)}))

    def _split_generators(self, dl_manager):
        return {"train": self._generate_examples()}

    def _generate_examples(self):
        for name in sorted(glob.glob("@FOLDER@/p-*.parquet")):
            for batch in pq.ParquetFile(name).iter_batches():
                for row in batch.to_pylist():
                    yield row["id"], row
"""


def add_length(row: dict[str, Any]) -> dict[str, Any]:
    return {"length": len(row["text"])}


def add_lengths(batch: dict[str, list[Any]]) -> dict[str, Any]:
    return {"length": [len(text) for text in batch["text"]]}


def loader(reader: str, folder: str) -> Callable[[], Any]:
    """What opens the stream of a reader."""
    who, kind = reader.split()
    if kind == "version":
        from provender.data import load_dataset as load

        settings = home_settings(Path(folder))
        return lambda: load("stream_rows", split="train", streaming=True, settings=settings)
    files = sorted(map(str, Path(folder).glob("p-*.parquet" if kind == "parquet" else "j-*.jsonl")))
    if who == "datasets":
        from datasets import config, load_dataset

        config.SLEEP_TIME_ON_THREADS_SHUTDOWN = 0
    else:
        from provender.data import load_dataset
    return lambda: load_dataset(kind, data_files=files, split="train", streaming=True)


def home_settings(folder: Path) -> Any:
    """Settings of a home of its own."""
    import provender

    home = str(folder / "home")
    return provender.load_settings(cwd=home, environ={"HOME": home})


def measure(reader: str, folder: str, rows: int, part: int) -> dict[str, float]:
    """All figures of one reader, in this process."""
    found: dict[str, float] = {}
    began = time.perf_counter()
    load = loader(reader, folder)
    next(iter(load()))
    found["import, first row ms"] = (time.perf_counter() - began) * 1e3
    began = time.perf_counter()
    next(iter(load()))
    found["first row ms"] = (time.perf_counter() - began) * 1e3
    streams: dict[str, Callable[[], Any]] = {
        "plain": load,
        "shuffle 10k": lambda: load().shuffle(seed=1, buffer_size=10_000),
        "map": lambda: load().map(add_length),
        "map batched": lambda: load().map(add_lengths, batched=True),
        "numpy": lambda: load().with_format("numpy"),
        "shuffle 10k, map": lambda: load().shuffle(seed=1, buffer_size=10_000).map(add_length),
        "interleave drawn": lambda: interleaved(reader, load()),
    }
    for name, make in streams.items():
        took = time.process_time()
        found[name] = rate(iter(make()), part)
        found[f"{name}, by CPU"] = part / (time.process_time() - took)
    for name, make in {
        "iter(1000)": load,
        "arrow iter(1000)": lambda: load().with_format("arrow"),
        "shuffle 10k, iter(1000)": lambda: load().shuffle(seed=1, buffer_size=10_000),
    }.items():
        took = time.process_time()
        found[name] = rate(make().iter(1000), rows // 1000) * 1000
        found[f"{name}, by CPU"] = rows / (time.process_time() - took)
    if reader.startswith("provender") and "json" not in reader:
        found["global shuffle"] = rate(iter(load().shuffle(seed=1, buffer_size="global")), part)
    times(found, load, streams, rows)
    return found


def rate(rows: Iterator[Any], most: int) -> float:
    """Rows a second."""
    began = time.perf_counter()
    count = sum(1 for _ in itertools.islice(rows, most))
    return count / (time.perf_counter() - began)


def interleaved(reader: str, stream: Any) -> Any:
    if reader.startswith("datasets"):
        from datasets import interleave_datasets
    else:
        from provender.data import interleave_datasets
    halves = [stream.shard(2, 0), stream.shard(2, 1)]
    return interleave_datasets(halves, probabilities=[0.7, 0.3], seed=1)


def times(found: dict[str, float], load: Callable[[], Any], streams: Any, rows: int) -> None:
    """Times to a row: after skip, after a resume; and of leaving."""
    far = rows * 9 // 10
    for name in ("map", "shuffle 10k"):
        began = time.perf_counter()
        next(iter(streams[name]().skip(far)))
        found[f"{name}, skip {far:,} ms"] = (time.perf_counter() - began) * 1e3
    for name in ("plain", "map", "shuffle 10k"):
        stream = streams[name]()
        iterator = iter(stream)
        for _ in itertools.islice(iterator, rows // 4):
            pass
        state = json.loads(json.dumps(stream.state_dict()))
        found[f"{name}, state bytes"] = len(json.dumps(state))
        began = time.perf_counter()
        iterator.close()
        found[f"{name}, leaving ms"] = (time.perf_counter() - began) * 1e3
        fresh = streams[name]()
        fresh.state_dict()
        began = time.perf_counter()
        fresh.load_state_dict(state)
        next(iter(fresh))
        found[f"{name}, resume ms"] = (time.perf_counter() - began) * 1e3


def memory(folder: str, rows: int) -> float:
    """Growth in MB of a shuffled and mapped stream over five times the rows."""
    stream = loader("provender parquet", folder)().repeat(5)
    stream = stream.shuffle(seed=1, buffer_size=10_000).map(add_length)
    base = 0.0
    for count, _ in enumerate(stream):
        if count == rows // 5:
            base = peak()
    return peak() - base


def peak() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


@contextmanager
def version_of(folder: Path) -> Iterator[None]:
    """Builds the version, once."""
    home = folder / "home"
    if not (home / "done").exists():
        home.mkdir(exist_ok=True)
        (home / "rows.py").write_text(BUILDER.replace("@FOLDER@", str(folder)))
        import provender

        provender.build(f"{home / 'rows.py'}:StreamRows", settings=home_settings(folder))
        (home / "done").touch()
    yield


def asked(arguments: list[str]) -> Any:
    done = subprocess.run(
        [sys.executable, __file__, *arguments], capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise SystemExit(done.stderr)
    return json.loads(done.stdout.splitlines()[-1])


def show(results: dict[str, dict[str, float]]) -> None:
    """One line a figure; the last columns say how many times better than `datasets`."""
    names = list(dict.fromkeys(name for found in results.values() for name in found))
    readers = list(results)
    print(f"{'':32}" + "".join(f"{reader:>20}" for reader in readers) + "   ratios")
    for name in names:
        cells, ratios = "", []
        for reader in readers:
            value = results[reader].get(name)
            cells += f"{'-' if value is None else f'{value:,.0f}' if value >= 10 else f'{value:.2f}':>20}"
        for kind in ("parquet", "json"):
            theirs = results.get(f"datasets {kind}", {}).get(name)
            ours = results.get(f"provender {kind}", {}).get(name)
            if theirs and ours and not name.endswith("bytes"):
                better = theirs / ours if name.endswith("ms") else ours / theirs
                ratios.append(f"{kind} {better:.1f}x")
        print(f"{name:32}{cells}   {', '.join(ratios)}")


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--part", type=int, default=200_000, help="rows of the row-wise figures")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--folder", default="/tmp/provender-stream-bench")
    parser.add_argument("--only", default="", help="readers whose name holds this")
    parser.add_argument("--measure", help=argparse.SUPPRESS)
    parser.add_argument("--memory", action="store_true", help="growth over 5 x rows, ours, parquet")
    given = parser.parse_args()
    if given.measure:
        print(json.dumps(measure(given.measure, given.folder, given.rows, given.part)))
        return
    folder = Path(given.folder).absolute()
    write_files(folder, given.rows)
    if given.memory:
        print(
            f"memory growth over {5 * given.rows:,} rows: {memory(str(folder), given.rows):.0f} MB"
        )
        return
    readers = [reader for reader in READERS if given.only in reader]
    rounds: dict[str, list[dict[str, float]]] = {reader: [] for reader in readers}
    with version_of(folder):
        for _ in range(given.rounds):
            for reader in readers:
                options = ["--measure", reader, "--folder", str(folder)]
                rounds[reader].append(
                    asked([*options, "--rows", str(given.rows), "--part", str(given.part)])
                )
    show(
        {
            reader: {name: statistics.median(each[name] for each in found) for name in found[0]}
            for reader, found in rounds.items()
        }
    )
    print(f"{given.rows:,} rows in {FILES} files, median of {given.rounds}")


if __name__ == "__main__":
    main()
