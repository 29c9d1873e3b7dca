"""More rows than there are, generators that are none, and splits that functions are told."""

from __future__ import annotations

import functools
from pathlib import Path
from typing import Any

import pytest

from provender.data import Dataset, DatasetDict
from provender.data.dataset.dictionary import SplitMissing
from provender.errors import SettingsError


@pytest.fixture
def ds() -> Dataset:
    return Dataset.from_dict({"a": list(range(5))})


def test_taking_more_than_there_is(ds: Dataset) -> None:
    assert ds.take(9)["a"][:] == [0, 1, 2, 3, 4]
    assert ds.take(9)._fingerprint == ds.take(5)._fingerprint
    assert ds.take(0)["a"][:] == []
    assert ds.shuffle(seed=1).take(9)["a"][:] == ds.shuffle(seed=1)["a"][:]
    assert len(ds.skip(9)) == 0
    assert ds.skip(9).column_names == ["a"]
    assert ds.skip(2)["a"][:] == [2, 3, 4]


@pytest.mark.parametrize("method", ["take", "skip"])
def test_fewer_than_none(ds: Dataset, method: str) -> None:
    with pytest.raises(SettingsError, match="not -1"):
        getattr(ds, method)(-1)


@pytest.mark.parametrize("method", ["shuffle", "train_test_split"])
def test_a_generator_that_is_none(ds: Dataset, method: str) -> None:
    with pytest.raises(SettingsError, match=r"numpy\.random\.Generator, not 3 \(int\)") as caught:
        getattr(ds, method)(generator=3)
    assert "seed=3" in str(caught.value.hint)


@pytest.fixture
def splits(ds: Dataset) -> DatasetDict:
    return DatasetDict({"train": ds, "test": ds.take(2)})


def test_the_name_of_the_split_comes_last(splits: DatasetDict) -> None:
    def told(row: Any, number: int, split: str, *, more: str = "") -> dict[str, Any]:
        return {"s": f"{split} {number}{more}"}

    made = splits.map(told, with_indices=True, with_split=True, fn_kwargs={"more": "!"})
    assert made["train"]["s"][:] == [f"train {at}!" for at in range(5)]
    assert made["test"]["s"][:] == ["test 0!", "test 1!"]
    again = splits.map(told, with_indices=True, with_split=True, fn_kwargs={"more": "!"})
    assert again["test"]._fingerprint == made["test"]._fingerprint
    assert made["train"].take(2)._fingerprint != made["test"]._fingerprint
    part = splits.map(
        functools.partial(told, more="?"), with_indices=True, with_split=True, num_proc=2
    )
    assert part["test"]["s"][:] == ["test 0?", "test 1?"]


def test_the_name_of_the_split_for_an_asynchronous_function(splits: DatasetDict) -> None:
    async def told(batch: Any, split: str) -> dict[str, Any]:
        return {"s": [split] * len(batch["a"])}

    assert splits.map(told, batched=True, with_split=True)["test"]["s"][:] == ["test", "test"]


def test_a_file_for_each_split(splits: DatasetDict, tmp_path: Path) -> None:
    files = {"train": str(tmp_path / "a.arrow"), "test": None}
    made = splits.map(lambda row: {"b": 1}, cache_file_names=files)
    assert Dataset.from_file(files["train"] or "").to_list() == made["train"].to_list()
    splits.filter(lambda row: True, cache_file_names={"test": str(tmp_path / "b.arrow")})
    assert (tmp_path / "b.arrow").exists()
    with pytest.raises(SplitMissing, match="tets"):
        splits.map(lambda row: {"b": 1}, cache_file_names={"tets": "x"})
