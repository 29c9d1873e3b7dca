"""Splits transformed together, and datasets put together."""

from __future__ import annotations

from typing import Any

import pytest

from provender.data import (
    ClassLabel,
    Dataset,
    DatasetDict,
    Features,
    Value,
    concatenate_datasets,
    interleave_datasets,
)
from provender.data.errors import ColumnError, ColumnLengthError, FeatureTypeError
from provender.errors import SettingsError, UnknownReference


@pytest.fixture
def splits() -> DatasetDict:
    return DatasetDict(
        {
            "train": Dataset.from_dict({"a": [3, 1, 2], "t": ["x", "y", "z"]}, split="train"),
            "test": Dataset.from_dict({"a": [9], "t": ["q"]}, split="test"),
        }
    )


def test_every_transform_goes_over_all_splits(splits: DatasetDict) -> None:
    made = (
        splits.map(lambda row: {"b": row["a"] + 1})
        .filter(lambda row: row["a"] != 1)
        .rename_column("t", "text")
        .remove_columns("a")
        .sort("b")
        .cast_column("b", Value("int8"))
        .class_encode_column("text")
        .flatten_indices()
    )
    assert isinstance(made, DatasetDict)
    assert made.num_rows == {"train": 2, "test": 1}
    assert made["train"].features == Features(
        {"text": ClassLabel(names=["x", "z"]), "b": Value("int8")}
    )
    assert made["train"]["b"][:] == [3, 4]
    assert made.column_names["test"] == ["text", "b"]
    assert made["test"].split == "test"
    with splits.formatted_as("numpy"):
        assert splits.format["train"]["type"] == "numpy"
    assert splits.shuffle(seeds={"train": 1, "test": None}).num_rows == splits.num_rows
    assert splits.shuffle(seed=4)["train"]["a"][:] == splits["train"].shuffle(seed=4)["a"][:]
    assert splits.unique("a")["test"] == [9]
    assert splits.select_columns(["t"]).shape["train"] == (3, 1)


def test_a_split_that_is_not_there(splits: DatasetDict) -> None:
    with pytest.raises(UnknownReference, match="Did you mean 'train'"):
        splits["trian"]
    with pytest.raises(KeyError):
        splits["trian"]
    with pytest.raises(UnknownReference, match=r"ds\['train'\]\[0\]"):
        splits[0]
    with pytest.raises(TypeError, match="not a Dataset"):
        DatasetDict({"x": 5}).map(lambda row: row)  # type: ignore[dict-item]


def test_how_it_is_shown(splits: DatasetDict) -> None:
    assert repr(splits) == (
        "DatasetDict({\n    train: Dataset({\n        features: ['a', 't'],\n"
        "        num_rows: 3\n    })\n    test: Dataset({\n        features: ['a', 't'],\n"
        "        num_rows: 1\n    })\n})"
    )


def numbers(count: int, **more: Any) -> Dataset:
    return Dataset.from_dict({"a": list(range(count)), **more})


def test_what_cannot_be_put_together() -> None:
    with pytest.raises(FeatureTypeError, match="'a'"):
        concatenate_datasets([numbers(2), Dataset.from_dict({"a": ["x"]})])
    with pytest.raises(ColumnLengthError, match=r"\[2, 3\]"):
        concatenate_datasets([numbers(2), numbers(3).rename_column("a", "b")], axis=1)
    with pytest.raises(ColumnError, match="more than one column 'a'"):
        concatenate_datasets([numbers(2), numbers(2)], axis=1)
    with pytest.raises(SettingsError, match="no dataset"):
        concatenate_datasets([])
    with pytest.raises(SettingsError, match="axis"):
        concatenate_datasets([numbers(2)], axis=2)
    with pytest.raises(SettingsError, match="Choose a split: 'train'"):
        concatenate_datasets([DatasetDict({"train": numbers(2)})])
    with pytest.raises(SettingsError, match="mixed"):
        concatenate_datasets([numbers(2), numbers(2).to_iterable_dataset()])
    with pytest.raises(SettingsError, match="sum up to 1"):
        interleave_datasets([numbers(2), numbers(2)], probabilities=[0.5, 0.6])
    with pytest.raises(SettingsError, match="3 probabilities for 2"):
        interleave_datasets([numbers(2), numbers(2)], probabilities=[0.5, 0.2, 0.3])
    with pytest.raises(SettingsError, match="Did you mean 'all_exhausted'"):
        interleave_datasets([numbers(2), numbers(2)], stopping_strategy="all_exhaust")


def test_streams_are_put_together_as_streams() -> None:
    streams = [numbers(3).to_iterable_dataset(), numbers(2).to_iterable_dataset()]
    assert [row["a"] for row in concatenate_datasets(streams)] == [0, 1, 2, 0, 1]
    assert [row["a"] for row in interleave_datasets(streams)] == [0, 0, 1, 1]


def test_datasets_without_rows_and_the_only_one() -> None:
    one = numbers(3)
    assert concatenate_datasets([one])._fingerprint == one._fingerprint
    assert concatenate_datasets([one, one])._fingerprint != one._fingerprint
    assert len(concatenate_datasets([one.select([]), one.select([])])) == 0
    assert interleave_datasets([one, one.select([])]).num_rows == 0


def test_lineage_and_formats_are_joined() -> None:
    one = numbers(3).map(lambda row: {"b": 1})
    two = numbers(4).map(lambda row: {"b": 2})
    both = concatenate_datasets([one.with_format("numpy"), two.with_format("numpy")])
    assert set(both._lineage) == {one._fingerprint, two._fingerprint}
    assert both.format["type"] == "numpy"
    assert concatenate_datasets([one.with_format("numpy"), two]).format["type"] is None
    assert len(both.cache_files) == len(one.cache_files) + len(two.cache_files)
