"""What is made from something without a lasting fingerprint leaves nothing behind either."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from provender.data import Dataset, concatenate_datasets
from provender.data.cache import TransformCache
from provender.data.dataset import ordering

DERIVED = {
    "map": lambda ds, other: ds.map(lambda row: {"c": row["a"]}),
    "filter": lambda ds, other: ds.filter(lambda row: row["a"] > 3),
    "after a rename": lambda ds, other: ds.rename_column("b", "c").map(lambda row: {"d": 1}),
    "after a shuffle": lambda ds, other: ds.shuffle(seed=1).map(lambda row: {"d": 1}),
    "joined behind": lambda ds, other: concatenate_datasets([other, ds]).map(lambda row: {"d": 1}),
    "joined beside": lambda ds, other: concatenate_datasets(
        [ds, other.rename_columns({"a": "x", "b": "y"})], axis=1
    ).map(lambda row: {"d": 1}),
    "sort": lambda ds, other: ds.sort("b", reverse=True),
    "used by a function": lambda ds, other: other.map(lambda row: {"d": ds[0]["a"]}),
}


class Calls:
    """What a function was called with; no part of its fingerprint."""

    def __init__(self) -> None:
        self.rows: list[int] = []

    def __fingerprint__(self) -> str:
        return "calls"


def entries() -> set[str]:
    folder = TransformCache.current().folder
    return {each.parent.name for each in folder.glob("entries/*/*/manifest.json")}


@pytest.fixture
def both(monkeypatch: pytest.MonkeyPatch) -> tuple[Dataset, Dataset]:
    """One without a lasting fingerprint, and an ordinary one of the same columns."""
    monkeypatch.setattr(ordering, "CACHED_SORT", 10)
    lines = (line for line in "ab")
    ds = Dataset.from_dict({"a": list(range(20))})

    def unhashable(row: Any) -> dict[str, Any]:
        next(lines, None)
        return {"b": row["a"] % 7}

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        passing = ds.map(unhashable)
    return passing, ds.map(lambda row: {"b": 0})


@pytest.mark.parametrize("name", DERIVED)
@pytest.mark.filterwarnings("ignore::UserWarning")
def test_nothing_is_left_of_what_was_derived(both: tuple[Dataset, Dataset], name: str) -> None:
    before = entries()
    made = DERIVED[name](*both)
    assert len(made) > 0
    made.to_list()
    assert entries() == before


def test_it_is_found_again_in_the_same_process(both: tuple[Dataset, Dataset]) -> None:
    calls = Calls()

    def function(row: Any) -> dict[str, Any]:
        calls.rows.append(row["a"])
        return {"c": 1}

    passing, _ = both
    first = passing.map(function)
    calls.rows.clear()
    second = passing.map(function)
    assert calls.rows == []
    assert second._fingerprint == first._fingerprint
    assert passing.map(function, load_from_cache_file=False).to_list() == first.to_list()
    assert calls.rows == list(range(20))


def test_a_fingerprint_that_the_user_vouches_for_lasts(both: tuple[Dataset, Dataset]) -> None:
    passing, _ = both
    before = entries()
    named = passing.map(lambda row: {"c": 1}, new_fingerprint="mine")
    named.map(lambda row: {"d": 1})
    assert len(entries() - before) == 2


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_of_a_generator_without_a_fingerprint() -> None:
    numbers = (each for each in range(5))

    def generate() -> Iterator[dict[str, Any]]:
        yield from ({"a": each} for each in numbers)

    Dataset.from_generator(generate).map(lambda row: {"b": 1})
    assert entries() == set()


def test_lasting_ones_are_kept_as_ever() -> None:
    ds = Dataset.from_dict({"a": np.arange(20)})
    concatenate_datasets([ds, ds]).map(lambda row: {"b": 1}).filter(lambda row: row["a"] > 3)
    assert len(entries()) == 2
