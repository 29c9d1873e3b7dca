"""What goes wrong says where and what next, and never hangs."""

from __future__ import annotations

import threading
import time
import warnings
from collections.abc import Callable, Iterator
from itertools import islice
from typing import Any

import pytest
from tests.data.stream.exact import make_source

from provender.data.errors import (
    ColumnError,
    ColumnLengthError,
    FeatureTypeError,
    FormatError,
    TransformError,
)
from provender.data.features import Value
from provender.data.stream import IterableDataset, concatenate_streams
from provender.errors import SettingsError

pytestmark = pytest.mark.timeout(60)


def stream(total: int = 100, shards: int = 4) -> IterableDataset:
    return IterableDataset(make_source("table", total, shards))


@pytest.mark.parametrize(
    "function,batched,message",
    [
        (lambda row: None, False, "returned nothing (None)"),
        (lambda row: 7, False, "returned int"),
        (lambda row: [1], False, "returned list"),
        (lambda batch: None, True, "returned nothing (None)"),
        (lambda batch: [1], True, "returned list"),
        (lambda batch: {"i": 3}, True, "returned int for the column 'i', not a list"),
        (lambda batch: {"i": "abc"}, True, "returned str for the column 'i'"),
    ],
    ids=["none", "int", "list", "batch none", "batch list", "no list", "text"],
)
def test_a_map_that_returns_no_rows(
    function: Callable[..., Any], batched: bool, message: str
) -> None:
    with pytest.raises(TransformError) as caught:
        list(stream().skip(5).map(function, batched=batched))
    assert message in str(caught.value)
    assert "row 0" in str(caught.value)
    assert "Return a dict" in str(caught.value)


def test_the_number_of_the_row_is_named() -> None:
    def sometimes(row: dict[str, Any]) -> Any:
        return {} if row["i"] < 77 else None

    with pytest.raises(TransformError, match="row 77"):
        list(stream().map(sometimes))


def test_an_error_of_the_function_is_its_own_and_says_for_which_row() -> None:
    def broken(row: dict[str, Any]) -> dict[str, Any]:
        return {"x": 1 / (row["i"] - 42)}

    rows = []
    with pytest.raises(ZeroDivisionError) as caught:
        rows.extend(stream().map(broken))
    assert len(rows) == 42
    assert "called for row 42 of this pass" in "".join(caught.value.__notes__)
    rows = []
    with pytest.raises(ZeroDivisionError) as caught:
        rows.extend(stream().filter(lambda row: 1 / (row["i"] - 42) != 0))
    assert len(rows) == 42
    assert "In filter" in "".join(caught.value.__notes__)


def test_rows_before_an_error_are_given_and_the_stream_goes_on_after_it_is_mended() -> None:
    broken = {42}

    def change(row: dict[str, Any]) -> dict[str, Any]:
        if row["i"] in broken:
            raise RuntimeError("not now")
        return {}

    for ds in (stream().map(change), stream().filter(lambda row: change(row) == {})):
        broken.add(42)
        rows = []
        with pytest.raises(RuntimeError):
            rows.extend(row["i"] for row in ds)
        broken.clear()
        ds.load_state_dict(ds.state_dict())
        assert rows + [row["i"] for row in ds] == list(range(100))


def test_batches_of_other_length_than_the_columns_kept() -> None:
    with pytest.raises(ColumnLengthError, match="remove_columns=\\['i', 't'\\]"):
        list(stream().map(lambda batch: {"n": [1]}, batched=True))


@pytest.mark.parametrize("answer", [None, [True], 5, "yes"], ids=str)
def test_a_batched_filter_needs_an_answer_for_every_row(answer: Any) -> None:
    with pytest.raises(TransformError, match="True or False"):
        list(stream().filter(lambda batch: answer, batched=True))


def test_types_that_change_on_the_way_name_column_and_row() -> None:
    ds = stream().map(lambda row: {"x": row["i"] if row["i"] < 30 else "text"})
    with pytest.raises(FeatureTypeError) as caught:
        list(ds.with_format("arrow").iter(50))
    assert "'x'" in str(caught.value)
    declared = stream().map(
        lambda row: {"x": "text"},
        features={"i": Value("int64"), "t": Value("string"), "x": Value("int64")},
    )
    with pytest.raises(FeatureTypeError, match="'x'"):
        list(declared)


@pytest.mark.parametrize(
    "change",
    [
        lambda ds: ds.rename_column("tt", "u"),
        lambda ds: ds.remove_columns(["tt"]),
        lambda ds: ds.select_columns("tt"),
        lambda ds: ds.cast_column("tt", Value("string")),
        lambda ds: ds.map(lambda t: {}, input_columns="tt"),
        lambda ds: ds.map(lambda row: {}, remove_columns="tt"),
        lambda ds: ds.filter(lambda t: True, input_columns=["tt"]),
        lambda ds: ds["tt"],
    ],
    ids=["rename", "remove", "select", "cast", "map", "map remove", "filter", "column"],
)
def test_a_column_that_is_not_there_is_named_at_once(change: Any) -> None:
    with pytest.raises(ColumnError, match="Did you mean 't'"):
        change(stream())


def test_columns_that_are_found_missing_while_reading() -> None:
    unknown = stream().map(lambda row: {"n": 1})
    with pytest.raises(ColumnError, match="no column 'm'"):
        list(unknown.remove_columns("m"))
    with pytest.raises(ColumnError, match="two columns 'i'"):
        stream().rename_column("t", "i")
    with pytest.raises(ColumnError, match="already a column 't'"):
        stream().add_column("t", [1])
    with pytest.raises(ColumnError, match="has 3 values"):
        list(stream().add_column("n", [1, 2, 3]))
    with pytest.raises(ColumnError, match="a column 'i'"):
        concatenate_streams([stream(), stream()], axis=1)


def test_formats_that_do_not_exist() -> None:
    with pytest.raises(FormatError, match="numpy"):
        stream().with_format("nunpy")


def test_rows_cannot_be_put_together() -> None:
    with pytest.raises(FeatureTypeError, match="'i'"):
        concatenate_streams([stream(), stream().cast_column("i", Value("string"))])
    with pytest.raises(SettingsError, match="not a stream"):
        concatenate_streams([stream(), [1, 2]])  # type: ignore[list-item]
    with pytest.raises(ColumnLengthError, match="one length"):
        list(IterableDataset.from_list([{"a": [1, 2], "b": [1]}]).unbatch())
    with pytest.raises(TransformError, match="needs a list in every column"):
        list(IterableDataset.from_list([{"a": [1, 2], "b": 1}]).unbatch())


def test_a_function_without_a_fingerprint_warns_and_its_position_still_loads() -> None:
    generator = (n for n in range(3))

    def change(row: dict[str, Any]) -> dict[str, Any]:
        return {"g": generator is not None}

    ds = stream().map(change)
    next(iter(ds))
    with pytest.warns(UserWarning, match="no fingerprint"):
        state = ds.state_dict()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        fresh = stream().map(change)
        fresh.load_state_dict(state)
    assert next(iter(fresh))["i"] == 1


def test_reading_ahead_stays_within_its_memory_and_ends_when_left() -> None:
    made: list[int] = []

    def note(row: dict[str, Any]) -> dict[str, Any]:
        made.append(row["i"])
        return {}

    ds = stream(100_000).map(note).prefetch(memory=20_000)
    iterator = iter(ds)
    next(iterator)
    deadline = time.monotonic() + 5
    while len(made) < 30 and time.monotonic() < deadline:
        time.sleep(0.01)
    time.sleep(0.1)
    count = len(made)
    assert 1 < count < 2000
    time.sleep(0.1)
    assert len(made) == count, "it goes on although its memory is full"
    iterator.close()  # type: ignore[attr-defined]
    time.sleep(0.05)
    assert not [t for t in threading.enumerate() if t.name == "provender-prefetch"]
    fresh = stream(100_000).map(note).prefetch(memory=20_000)
    fresh.load_state_dict(ds.state_dict())
    assert [row["i"] for row in islice(iter(fresh), 3)] == [1, 2, 3]


def test_an_error_in_the_thread_that_reads_ahead_is_raised_where_it_belongs() -> None:
    def broken(row: dict[str, Any]) -> dict[str, Any]:
        return {"x": 1 / (row["i"] - 42)}

    rows = []
    with pytest.raises(ZeroDivisionError):
        rows.extend(stream().map(broken).prefetch())
    assert len(rows) == 42


def test_a_generator_that_yields_no_dicts() -> None:
    def generate() -> Iterator[Any]:
        yield {"a": 1}
        yield 5

    with pytest.raises(Exception, match="Row 1 is int"):
        list(IterableDataset.from_generator(generate))
