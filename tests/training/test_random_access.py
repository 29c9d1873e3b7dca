"""Examples by number, equal to what TFDS gives one by one."""

from __future__ import annotations

import pickle
import random
from typing import Any

import numpy as np
import pytest
import tensorflow_datasets as tfds

from provender.errors import DamageError, UnknownReference
from provender.training import shard_cache
from provender.training.feed import ranges
from provender.training.random_access import DataSource

PLAIN = ["text", "label", "number", "half", "flag", "big", "grid", "open", "box"]


def plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: plain(each) for name, each in value.items()}
    if isinstance(value, np.ndarray):
        if value.dtype == object:
            return [plain(each) for each in value]
        return (value.dtype.name, value.shape, value.tolist())
    if isinstance(value, list):
        return [plain(each) for each in value]
    return (type(value).__name__, value)


def theirs(odd: Any, split: str, columns: list[str]) -> list[Any]:
    """TFDS's own NumPy decoding of the same records."""
    builder = tfds.builder_from_directory(odd.store.path(odd.version.path))
    from provender.records import iter_records

    files = builder.info.splits[split].filepaths
    return [
        {
            name: each
            for name, each in plain(builder.info.features.deserialize_example_np(record)).items()
            if name in columns
        }
        for file in files
        for _, record in iter_records(str(file))
    ]


@pytest.mark.parametrize(
    "columns", [PLAIN, [*PLAIN, "packed", "image", "tags", "inner"]], ids=["plain", "more"]
)
def test_examples_equal_those_of_tfds(odd: Any, columns: list[str]) -> None:
    source = DataSource(odd.store, odd.version, "train", columns)
    expected = theirs(odd, "train", columns)
    assert [plain(each) for each in source] == expected
    numbers = random.Random(4).choices(range(7), k=20)
    assert [plain(source[n]) for n in numbers] == [expected[n] for n in numbers]
    assert [plain(each) for each in source.__getitems__(numbers)] == [expected[n] for n in numbers]


def test_it_is_a_sequence(notes: Any) -> None:
    source = DataSource(notes.store, notes.version, "train[250:]+test[:10]")
    assert len(source) == 60
    assert source[-1] == source[59] == list(source)[59]
    assert source[48:52] == [source[n] for n in (48, 49, 50, 51)]
    assert source[np.int64(3)]["text"] == source[3]["text"]
    for beyond in (60, -61):
        with pytest.raises(IndexError, match="of 60"):
            source[beyond]
    assert "60 examples" in repr(source)


def test_it_travels_to_worker_processes(notes: Any) -> None:
    source = DataSource(notes.store, notes.version, "test", ["label"])
    _ = source[0]
    copy = pickle.loads(pickle.dumps(source))
    assert list(copy) == list(source)


def test_a_remote_version_comes_through_the_cache(
    notes: Any, gcs_bucket: str, tmp_path: Any, monkeypatch: Any
) -> None:
    from provender.store import Store
    from provender.training import pull

    monkeypatch.delenv("PROVENDER_SHARD_CACHE", raising=False)
    pull(notes.store, notes.version, f"{gcs_bucket}/datasets")
    store = Store.open(gcs_bucket, scratch=str(tmp_path / "scratch"))
    with DataSource(store, notes.version, "train", home=tmp_path) as source:
        assert source[123] == DataSource(notes.store, notes.version, "train")[123]
    assert list((tmp_path / "shards").rglob("*.proof"))
    # Where the cache has no room, records are read in the store.
    monkeypatch.setenv("PROVENDER_SHARD_CACHE_LIMIT", "10")
    monkeypatch.setattr(shard_cache, "_warned", set())
    monkeypatch.setattr(ranges, "_BLOCK_BYTES", 2000)
    expected = list(DataSource(notes.store, notes.version, "train[30:]+test"))
    with DataSource(store, notes.version, "train[30:]+test", home=tmp_path / "other") as source:
        with pytest.warns(RuntimeWarning, match="larger than the whole cache"):
            assert source[123] == expected[123]
        assert list(source) == expected
        assert list(pickle.loads(pickle.dumps(source))[280:]) == expected[280:]


def test_a_damaged_record_is_named(copied: Any, flip: Any) -> None:
    source = DataSource(copied.store, copied.version, "train")
    flip(copied.path(source._pieces[0].name), 60)
    with pytest.raises(DamageError, match="record 0"):
        source[0]
    assert source[5]["text"]


def test_through_the_public_door(notes: Any) -> None:
    import provender

    found = provender.data_source("notes", settings=notes.settings)
    assert {name: len(each) for name, each in found.items()} == {"train": 300, "test": 20}
    with pytest.raises(UnknownReference, match="Did you mean 'text'"):
        provender.data_source("notes", split="test", columns=["txt"], settings=notes.settings)
