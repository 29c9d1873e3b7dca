"""Four files of 1,000 rows, and small functions over them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from provender.data import load_dataset
from provender.data.stream import IterableDataset

ROWS, FILES = 4000, 4
SOME = (0, 1, 7, 249, 250, 999, 1000, 2500, 3999, 4000)
Load = Callable[[], IterableDataset]


def loaded(kind: str, files: list[str]) -> IterableDataset:
    made: IterableDataset = load_dataset(kind, data_files=files, split="train", streaming=True)
    return made


def small(numbers: Any, shards: int = 1) -> IterableDataset:
    return IterableDataset.from_dict({"i": list(numbers)}, num_shards=shards)


def ids(ds: Any) -> list[int]:
    return [int(row["i"]) for row in ds]


def add_one(row: dict[str, Any]) -> dict[str, Any]:
    return {"j": row["i"] + 1}


def add_ones(batch: dict[str, list[Any]]) -> dict[str, Any]:
    return {"j": [value + 1 for value in batch["i"]]}


def both(batch: dict[str, list[Any]]) -> dict[str, Any]:
    return {"k": [value for each in batch["i"] for value in (each, -each)]}
