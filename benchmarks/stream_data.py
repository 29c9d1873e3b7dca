"""The rows that the stream benchmarks read: one set of rows as parquet, JSON lines and a version."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

FILES = 10
GROUP = 10_000


def rows_of(file: int, rows: int) -> pa.Table:
    """One file's rows: a running number, a text of 90 characters, a fraction, a small number."""
    rng = np.random.default_rng(file)
    first = file * rows
    letters = rng.integers(97, 123, (rows, 90), dtype=np.uint8)
    texts = [bytes(each).decode() for each in letters]
    return pa.table(
        {
            "id": pa.array(np.arange(first, first + rows), pa.int64()),
            "text": pa.array(texts, pa.string()),
            "score": pa.array(rng.random(rows), pa.float64()),
            "label": pa.array(rng.integers(0, 10, rows), pa.int64()),
        }
    )


def write_files(folder: Path, total: int) -> None:
    """Writes ``p-*.parquet`` and ``j-*.jsonl``, unless they are there."""
    done = folder / f"done-{total}"
    if done.exists():
        return
    folder.mkdir(parents=True, exist_ok=True)
    for file in range(FILES):
        table = rows_of(file, total // FILES)
        pq.write_table(table, folder / f"p-{file:02d}.parquet", row_group_size=GROUP)
        with open(folder / f"j-{file:02d}.jsonl", "w") as out:
            out.writelines(json.dumps(row) + "\n" for row in table.to_pylist())
    done.touch()
