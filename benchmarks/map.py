"""Transforms of a million rows side by side with `datasets`: CPU and wall seconds, import apart.

    python benchmarks/map.py [--rows 1000000] [--only "map batched" ...] [--rounds 1]

Both libraries get the same Parquet file, which both have converted to Arrow before. Every
measurement runs in a process of its own, in a cache of its own: it imports the library, opens the
data, then runs the call; a new process then asks for the same (a hit in a new process). ``CPU`` is
the call's alone, ``process`` that of the whole process with import and opening; worker processes
count. The two libraries alternate, so that load on the machine hits both alike. Medians over the
rounds; a ratio above 1 means that Provender is faster.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any


def row_function(row: dict) -> dict:
    return {"length": len(row["text"]), "twice": row["i"] * 2}


def batch_function(batch: dict) -> dict:
    return {
        "length": [len(text) for text in batch["text"]],
        "twice": [i * 2 for i in batch["i"]],
    }


def in_place(row: dict) -> dict:
    row["i"] = row["i"] + 1
    return row


def numpy_function(batch: dict) -> dict:
    return {"half": batch["f"] / 2}


def read_rows(ds: Any) -> int:
    return sum(1 for _ in ds)


def read_batches(ds: Any) -> int:
    return sum(len(batch["i"]) for batch in ds.iter(1000))


def random_rows(ds: Any) -> int:
    import numpy as np

    return sum(len(ds[int(at)]) for at in np.random.default_rng(0).integers(0, len(ds), 10_000))


CALLS: dict[str, Callable[[Any], Any]] = {
    "map": lambda ds: ds.map(row_function),
    "map in place": lambda ds: ds.map(in_place),
    "map batched": lambda ds: ds.map(batch_function, batched=True),
    "map batched, 2 processes": lambda ds: ds.map(batch_function, batched=True, num_proc=2),
    "map, 2 processes": lambda ds: ds.map(row_function, num_proc=2),
    "map batched, numpy": lambda ds: ds.with_format("numpy").map(numpy_function, batched=True),
    "filter": lambda ds: ds.filter(lambda row: row["j"] % 3 == 0),
    "filter batched": lambda ds: ds.filter(
        lambda batch: [j % 3 == 0 for j in batch["j"]], batched=True
    ),
    "shuffle": lambda ds: ds.shuffle(seed=1),
    "shuffle, read 100k rows": lambda ds: read_rows(ds.shuffle(seed=1).select(range(100_000))),
    "shuffle, read batches": lambda ds: read_batches(ds.shuffle(seed=1)),
    "select 100k": lambda ds: ds.select(range(0, len(ds), 10)),
    "sort by text": lambda ds: ds.sort("text"),
    "sort by number": lambda ds: ds.sort("j"),
    "read rows": read_rows,
    "read batches": read_batches,
    "read 100k rows, numpy": lambda ds: read_rows(ds.select(range(100_000)).with_format("numpy")),
    "random rows, 10k": random_rows,
    "train_test_split": lambda ds: ds.train_test_split(test_size=0.1, seed=1),
    "unique": lambda ds: ds.unique("j"),
}


def make_data(path: Path, rows: int) -> None:
    import numpy as np
    import pyarrow as pa
    import pyarrow.parquet as pq

    generator = np.random.default_rng(0)
    with pq.ParquetWriter(
        path,
        pa.schema({"i": pa.int64(), "text": pa.string(), "f": pa.float64(), "j": pa.int64()}),
    ) as writer:
        for start in range(0, rows, 10_000):
            n = min(10_000, rows - start)
            numbers = generator.integers(0, 1000, n)
            texts = [
                f"{number:04d} " + "word " * 16 + str(start + at)
                for at, number in enumerate(numbers)
            ]
            writer.write_table(
                pa.table(
                    {
                        "i": np.arange(start, start + n),
                        "text": texts,
                        "f": generator.random(n),
                        "j": numbers,
                    }
                )
            )


def child(library: str, name: str, path: str) -> None:
    """Runs one call and prints CPU and wall seconds of it, and CPU seconds of the process."""
    if library == "datasets":
        import datasets

        datasets.disable_progress_bars()
        ds = datasets.load_dataset("parquet", data_files=path, split="train")
    else:
        from provender.data import Dataset

        ds = Dataset.from_parquet(path)
    begun, cpu = time.perf_counter(), cpu_seconds()
    if name:
        CALLS[name](ds)
    elif library == "provender":
        # Makes the catalog, which a user has.
        ds.select([0]).map(lambda row: {"x": 1})
    now = cpu_seconds()
    print(json.dumps([now - cpu, time.perf_counter() - begun, now]))


def cpu_seconds() -> float:
    """Of this process and of the children that ended."""
    children = resource.getrusage(resource.RUSAGE_CHILDREN)
    return time.process_time() + children.ru_utime + children.ru_stime


def measure(library: str, name: str, path: Path, home: Path) -> dict[str, float]:
    ready = home / library
    if not ready.exists():
        ready.mkdir()
        run(library, "", path, ready)
    folder = home / "now"
    shutil.copytree(ready, folder)
    try:
        cpu, wall, process = run(library, name, path, folder)
        hit_cpu, hit, _ = run(library, name, path, folder)
    finally:
        shutil.rmtree(folder)
    return {"cpu": cpu, "wall": wall, "process": process, "hit": hit, "hit cpu": hit_cpu}


def run(library: str, name: str, path: Path, folder: Path) -> list[float]:
    env = {
        **os.environ,
        "HF_DATASETS_CACHE": str(folder / "hf"),
        "HF_HUB_OFFLINE": "1",
        "PROVENDER_HOME": str(folder / "home"),
        "PROVENDER_CACHE": str(folder / "cache"),
        "PROVENDER_STORE": str(folder / "store"),
    }
    words = [sys.executable, __file__, "--child", library, name, str(path)]
    done = subprocess.run(words, env=env, capture_output=True, text=True)
    if done.returncode:
        raise SystemExit(done.stderr)
    return json.loads(done.stdout.strip().splitlines()[-1])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--only", nargs="*", default=list(CALLS))
    parser.add_argument("--child", nargs=3, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.child:
        child(*args.child)
        return
    print(f"{args.rows:,} rows; seconds: datasets / provender (ratio)\n")
    print(f"{'':26s}{'CPU':>26s}{'process':>26s}{'wall':>26s}{'hit in a new process':>28s}")
    with tempfile.TemporaryDirectory() as name:
        home = Path(name)
        path = home / "data.parquet"
        make_data(path, args.rows)
        for call in args.only:
            found: dict[str, list[dict[str, float]]] = {"datasets": [], "provender": []}
            for _ in range(args.rounds):
                for library, results in found.items():
                    results.append(measure(library, call, path, home))
            theirs, ours = (
                {
                    key: statistics.median(each[key] for each in found[library])
                    for key in found[library][0]
                }
                for library in ("datasets", "provender")
            )
            columns = [
                f"{theirs[key]:8.3f} /{ours[key]:8.3f} ({theirs[key] / max(ours[key], 1e-6):6.1f})"
                for key in ("cpu", "process", "wall", "hit")
            ]
            print(f"{call:26s}" + "".join(f"{each:>26s}" for each in columns), flush=True)


if __name__ == "__main__":
    main()
