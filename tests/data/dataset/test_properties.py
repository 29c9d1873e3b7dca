"""Random chains of transforms against lists of dicts."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from provender.data import Dataset, concatenate_datasets, disable_caching, interleave_datasets
from provender.data.dataset.tables import Rows
from provender.data.dataset.turns import turns

Row = dict[str, Any]
Step = Callable[[Dataset, list[Row]], tuple[Dataset, list[Row]]]

rows_of = st.lists(
    st.fixed_dictionaries(
        {
            "a": st.integers(-5, 5),
            "s": st.one_of(st.none(), st.text("abc", max_size=3)),
            "v": st.lists(st.integers(0, 9), max_size=3),
        }
    ),
    min_size=1,
    max_size=30,
)


def select(data: st.DataObject) -> Step:
    def step(ds: Dataset, rows: list[Row]) -> tuple[Dataset, list[Row]]:
        if not rows:
            return ds.select([]), []
        numbers = data.draw(st.lists(st.integers(-len(rows), len(rows) - 1), max_size=40))
        return ds.select(numbers), [rows[each] for each in numbers]

    return step


def part(data: st.DataObject) -> Step:
    def step(ds: Dataset, rows: list[Row]) -> tuple[Dataset, list[Row]]:
        start = data.draw(st.integers(0, len(rows)))
        stop = data.draw(st.integers(start, len(rows)))
        return ds.take(stop).skip(start), rows[start:stop]

    return step


def shuffle(data: st.DataObject) -> Step:
    def step(ds: Dataset, rows: list[Row]) -> tuple[Dataset, list[Row]]:
        seed = data.draw(st.integers(0, 99))
        order = np.random.default_rng(seed).permutation(len(rows))
        return ds.shuffle(seed=seed), [rows[each] for each in order]

    return step


def sort(data: st.DataObject) -> Step:
    def step(ds: Dataset, rows: list[Row]) -> tuple[Dataset, list[Row]]:
        reverse = data.draw(st.booleans())
        ordered = sorted(rows, key=lambda row: -row["a"] if reverse else row["a"])
        return ds.sort("a", reverse=reverse), ordered

    return step


def keep(data: st.DataObject) -> Step:
    least = data.draw(st.integers(-5, 5))
    return lambda ds, rows: (
        ds.filter(lambda row: row["a"] >= least),
        [row for row in rows if row["a"] >= least],
    )


def change(data: st.DataObject) -> Step:
    add = data.draw(st.integers(-2, 2))

    def both(row: Row) -> Row:
        return {"a": row["a"] + add, "v": [*row["v"], add]}

    return lambda ds, rows: (ds.map(both), [{**row, **both(row)} for row in rows])


def in_place(data: st.DataObject) -> Step:
    def edit(row: Row) -> Row:
        row["v"].append(1)
        if row["a"] > 0:
            row["a"] = 0
        return row

    def model(row: Row) -> Row:
        return {**row, "v": [*row["v"], 1], "a": min(row["a"], 0)}

    return lambda ds, rows: (ds.map(edit), [model(row) for row in rows])


def grow(data: st.DataObject) -> Step:
    size = data.draw(st.integers(1, 7))
    times = data.draw(st.integers(0, 2))

    def repeat(batch: dict[str, list[Any]]) -> dict[str, list[Any]]:
        return {name: [x for x in values for _ in range(times)] for name, values in batch.items()}

    return lambda ds, rows: (
        ds.map(repeat, batched=True, batch_size=size, remove_columns=ds.column_names),
        [row for row in rows for _ in range(times)],
    )


def double(data: st.DataObject) -> Step:
    return lambda ds, rows: (
        concatenate_datasets([ds, ds.select(range(0, len(ds), 2))]),
        rows + rows[::2],
    )


def shard(data: st.DataObject) -> Step:
    count = data.draw(st.integers(1, 4))
    index = data.draw(st.integers(0, count - 1))
    return lambda ds, rows: (ds.shard(count, index, contiguous=False), rows[index::count])


def flat(data: st.DataObject) -> Step:
    return lambda ds, rows: (ds.flatten_indices(), rows)


def column(data: st.DataObject) -> Step:
    def step(ds: Dataset, rows: list[Row]) -> tuple[Dataset, list[Row]]:
        ds = ds.remove_columns("s").add_column("s", [row["s"] for row in rows][::-1])
        made = [{**row, "s": other["s"]} for row, other in zip(rows, rows[::-1], strict=True)]
        return ds, made

    return step


STEPS = [select, part, shuffle, sort, keep, change, in_place, grow, double, shard, flat, column]


@settings(
    max_examples=25, deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)  # fmt: skip
@given(rows=rows_of, steps=st.lists(st.sampled_from(STEPS), max_size=6), data=st.data())
def test_chains(rows: list[Row], steps: list[Any], data: st.DataObject) -> None:
    disable_caching()
    ds = Dataset.from_list(rows)
    ds = ds.cast_column("s", __import__("provender").data.Value("string"))
    for make in steps:
        if not rows:
            return  # functions are not called without rows, so columns that they add are not there
        ds, rows = make(data)(ds, rows)
        assert len(ds) == len(rows)
    if not rows:
        return
    assert sorted(ds.column_names) == ["a", "s", "v"]
    assert ds.to_list() == [{name: row[name] for name in ds.column_names} for row in rows]
    assert list(ds) == ds.to_list()
    assert [row for batch in ds.iter(7) for row in _rows(batch)] == ds.to_list()
    assert [ds[at] for at in range(len(ds))] == ds.to_list()
    assert ds["a"][:] == [row["a"] for row in rows]
    for _ in range(2):
        key = slice(
            *(data.draw(st.one_of(st.none(), st.integers(-35, 35))) for _ in range(2)),
            data.draw(st.sampled_from([None, 1, 2, -1, -3])),
        )
        assert _rows(ds[key]) == ds.to_list()[key]


def _rows(batch: dict[str, list[Any]]) -> list[Row]:
    names = list(batch)
    return [dict(zip(names, values, strict=True)) for values in zip(*batch.values(), strict=True)]


@settings(max_examples=200, deadline=None)
@given(data=st.data())
def test_taking_rows(data: st.DataObject) -> None:
    import pyarrow as pa

    sizes = data.draw(st.lists(st.integers(0, 20), min_size=1, max_size=6))
    total = sum(sizes)
    parts = np.split(np.arange(total), np.cumsum(sizes)[:-1])
    table = pa.concat_tables(
        [
            pa.table(
                {"a": each, "t": [str(x) for x in each]},
                schema=pa.schema({"a": pa.int64(), "t": pa.string()}),
            )
            for each in parts
        ]
    )
    numbers = data.draw(st.lists(st.integers(0, max(total - 1, 0)), max_size=50)) if total else []
    taken = Rows(table).take(np.asarray(numbers, np.int64))
    assert taken["a"].to_pylist() == numbers
    assert taken["t"].to_pylist() == [str(each) for each in numbers]
    if numbers:
        piece, at = Rows(table).locate(numbers[0])
        assert piece["a"][at].as_py() == numbers[0]


@settings(max_examples=100, deadline=None)
@given(
    lengths=st.lists(st.integers(1, 30), min_size=1, max_size=4),
    seed=st.integers(0, 1000),
    drawn=st.booleans(),
)
def test_turns(lengths: list[int], seed: int, drawn: bool) -> None:
    chances = None
    if drawn:
        weights = np.random.default_rng(seed).random(len(lengths)) + 0.1
        chances = list(weights / weights.sum())
    starts = np.cumsum([0, *lengths])
    once = turns(lengths, chances, seed, "all_exhausted_without_replacement").tolist()
    assert sorted(once) == list(range(sum(lengths)))
    every = turns(lengths, chances, seed, "all_exhausted").tolist()
    assert set(every) == set(range(sum(lengths)))
    first = turns(lengths, chances, seed, "first_exhausted").tolist()
    ended = [set(range(starts[at], starts[at + 1])) <= set(first) for at in range(len(lengths))]
    assert any(ended)
    for rows in (once, every, first):
        for at, length in enumerate(lengths):
            own = [row - starts[at] for row in rows if starts[at] <= row < starts[at + 1]]
            assert own == [each % length for each in range(len(own))]


def test_equal_prints_mean_equal_rows() -> None:
    """No two different ones among many short chains have one fingerprint."""
    ds = Dataset.from_dict({"a": list(range(12)), "b": list(range(12))})
    steps: dict[str, Callable[[Dataset], Dataset]] = {
        "same": lambda each: each,
        "half": lambda each: each.select(range(len(each) // 2)),
        "other half": lambda each: each.skip(len(each) // 2),
        "reversed": lambda each: each.select(range(len(each) - 1, -1, -1)),
        "shuffled": lambda each: each.shuffle(seed=3),
        "sorted": lambda each: each.sort("a", reverse=True),
        "less": lambda each: each.remove_columns("b") if "b" in each.features else each,
        "named": lambda each: each.rename_column("a", "c") if "a" in each.features else each,
        "item": lambda each: each.add_item({"a": 0}),
        "twice": lambda each: interleave_datasets([each, each]),
    }
    seen: dict[str, Any] = {}
    for one in steps.values():
        for other in steps.values():
            try:
                made = other(one(ds))
            except (KeyError, ValueError):
                continue
            content = (made.column_names, made.to_list())
            assert seen.setdefault(made._fingerprint, content) == content
    assert len(seen) > 50


@pytest.mark.parametrize("strategy", ["all_exhausted", "all_exhausted_without_replacement"])
def test_draws_that_would_never_end_are_refused(strategy: str) -> None:
    from provender.errors import SettingsError

    ds = Dataset.from_dict({"a": [1, 2]})
    with pytest.raises(SettingsError, match="never end"):
        interleave_datasets([ds, ds], probabilities=[1.0, 0.0], stopping_strategy=strategy)
