"""The transform cache side by side with the Arrow files of `datasets`.

    python benchmarks/cache.py [--rows 1000000] [--rounds 7]

The same table (an int64, a float64, a text of about 100 characters, an int64; 139 MB for 1 million
rows) is written into both, then opened in new processes, theirs and ours in turn, so that load on
the machine hits both alike. Imports are not counted: what is measured is from the first call to a
table whose rows can be read. Medians over the rounds, wall and CPU time in milliseconds.

What the two do differs: `datasets` maps the file and trusts it. Provender looks at every file's identity and,
where it is not the one that was proven before, reads and digests all of it ("first open"). Writing includes
the digest. Neither waits for the disk (no fsync).
"""

from __future__ import annotations

import argparse
import importlib
import json
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

FINGERPRINT = "5a" * 20


def table(rows: int) -> Any:
    import numpy as np
    import pyarrow as pa

    numbers = np.arange(rows)
    texts = [f"{'lorem ipsum dolor sit amet ' * 4}{number}" for number in range(rows)]
    columns = {"id": numbers, "score": numbers / 7, "text": texts, "label": numbers % 10}
    return pa.table(columns)


def measured(act: Callable[[], int], rows: int) -> dict[str, float]:
    wall, cpu = time.perf_counter(), time.process_time()
    found = act()
    wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
    assert found == rows, (found, rows)
    return {"wall": wall * 1000, "cpu": cpu * 1000}


def open_ours(folder: str) -> Callable[[], int]:
    for name in ("pyarrow.ipc", "xxhash", "provender.data.cache.folder"):
        importlib.import_module(name)
    from provender.data.cache import TransformCache

    def act() -> int:
        found = TransformCache(folder).find(FINGERPRINT)
        assert found is not None
        return int(found.table().num_rows)

    return act


def open_theirs(folder: str) -> Callable[[], int]:
    import datasets

    return lambda: len(datasets.Dataset.from_file(f"{folder}/theirs.arrow"))


def write_ours(folder: str, rows: int) -> Callable[[], int]:
    from provender.data.cache import Recipe, TransformCache

    importlib.import_module("xxhash")
    whole = table(rows)
    shutil.rmtree(folder, ignore_errors=True)

    def act() -> int:
        with TransformCache(folder).writing(FINGERPRINT, Recipe("map")) as work:
            for start, stop in work.missing(rows, 1000):
                with work.segment(start, stop) as out:
                    for at in range(start, stop, 1000):
                        out.write(whole.slice(at, min(1000, stop - at)))
                        out.mark(min(at + 1000, stop))
            return int(work.commit(None, rows).rows)

    return act


def write_theirs(folder: str, rows: int) -> Callable[[], int]:
    from datasets.arrow_writer import ArrowWriter

    whole = table(rows)
    Path(folder).mkdir(exist_ok=True)

    def act() -> int:
        with ArrowWriter(path=f"{folder}/theirs.arrow", writer_batch_size=1000) as writer:
            for at in range(0, rows, 1000):
                writer.write_table(whole.slice(at, 1000))
            count, _ = writer.finalize()
        return int(count)

    return act


def child(what: str, folder: str, rows: int) -> None:
    act = {
        "open ours": lambda: open_ours(folder),
        "open theirs": lambda: open_theirs(folder),
        "write ours": lambda: write_ours(folder, rows),
        "write theirs": lambda: write_theirs(folder, rows),
    }[what]()
    print(json.dumps(measured(act, rows)))


def one(what: str, folder: Path, rows: int) -> dict[str, float]:
    command = [sys.executable, __file__, "--child", what, "--folder", str(folder)]
    done = subprocess.run([*command, "--rows", str(rows)], capture_output=True, text=True)
    if done.returncode:
        raise SystemExit(done.stderr)
    return json.loads(done.stdout.splitlines()[-1])


def shown(name: str, ours: list[dict[str, float]], theirs: list[dict[str, float]]) -> None:
    cells = []
    for key in ("wall", "cpu"):
        mine, other = (statistics.median(each[key] for each in found) for found in (ours, theirs))
        cells.append(f"{mine:9.2f} {other:9.2f} {other / mine:7.2f}x")
    print(f"{name:28}" + "   ".join(cells))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--child", help=argparse.SUPPRESS)
    parser.add_argument("--folder", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.child:
        child(given.child, given.folder, given.rows)
        return
    with tempfile.TemporaryDirectory() as base:
        ours, theirs = Path(base, "ours"), Path(base, "theirs")
        print(f"{'milliseconds':28}{'wall ours':>9} {'datasets':>9} {'ratio':>8}   ", end="")
        print(f"{'cpu ours':>9} {'datasets':>9} {'ratio':>8}")
        written = [
            (one("write ours", ours, given.rows), one("write theirs", theirs, given.rows))
            for _ in range(min(given.rounds, 3))
        ]
        shown("write", *map(list, zip(*written, strict=True)))
        time.sleep(2.1)  # a file younger than that is not remembered as proven
        first, again = [], []
        for _ in range(given.rounds):
            for memo in ours.rglob("proven.json"):
                memo.unlink()
            pairs = [(one("open ours", ours, given.rows), one("open theirs", theirs, given.rows))]
            first += pairs
            again += [(one("open ours", ours, given.rows), one("open theirs", theirs, given.rows))]
        shown("first open (reads all)", *map(list, zip(*first, strict=True)))
        shown("open, proven before", *map(list, zip(*again, strict=True)))
        size = sum(each.stat().st_size for each in ours.rglob("*.arrow"))
        print(f"{given.rows:,} rows, {size / 1e6:.0f} MB")


if __name__ == "__main__":
    main()
