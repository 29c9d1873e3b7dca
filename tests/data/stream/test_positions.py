"""What positions promise where something else changes: weights, epochs, what functions reach."""

from __future__ import annotations

import json
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from itertools import islice
from typing import Any

import pytest
from tests.data.stream.exact import make_source, walked

from provender.data.stream import (
    IterableDataset,
    concatenate_streams,
    interleave_streams,
    split_dataset_by_node,
)
from provender.errors import ConflictError

pytestmark = pytest.mark.timeout(120)

Weights = tuple[float, float]
SIZE = 60


def numbers(total: int = SIZE, first: int = 0) -> IterableDataset:
    rows = [{"i": number} for number in range(first, first + total)]
    return IterableDataset.from_list(rows, num_shards=3)


def drawn(weights: Weights) -> IterableDataset:
    return interleave_streams(
        [numbers(), numbers(first=1000)],
        list(weights),
        seed=1,
        stopping_strategy="all_exhausted_without_replacement",
    )


def same(row: dict[str, Any]) -> dict[str, Any]:
    return row


def all_of(batch: dict[str, Any]) -> list[bool]:
    return [True] * len(batch["i"])


ABOVE: dict[str, Callable[[Weights], IterableDataset]] = {
    "nothing": drawn,
    "map": lambda w: drawn(w).map(same),
    "batches": lambda w: drawn(w).filter(all_of, batched=True, batch_size=16),
    "shuffle": lambda w: drawn(w).shuffle(seed=3, buffer_size=20),
    "prefetch": lambda w: drawn(w).map(same).prefetch(2000),
    "later": lambda w: concatenate_streams([numbers(first=2000), drawn(w)]).shuffle(
        seed=3, buffer_size=20
    ),
    "inner": lambda w: interleave_streams(
        [drawn(w), numbers(first=2000)], stopping_strategy="all_exhausted_without_replacement"
    ),
    "repeat": lambda w: drawn(w).repeat(2).shuffle(seed=3, buffer_size=20),
}


def ids(rows: Any) -> list[int]:
    return [int(row["i"]) for row in rows]


def gone_on(name: str, weights: Weights, state: str) -> IterableDataset:
    ds = ABOVE[name](weights)
    ds.load_state_dict(json.loads(state))
    return ds


@pytest.mark.parametrize("name", list(ABOVE))
def test_other_weights_at_a_resume_give_every_row_once(name: str) -> None:
    first, second, third = (0.5, 0.5), (0.9, 0.1), (0.2, 0.8)
    rows, states = walked(ABOVE[name](first))
    whole = Counter(ids(rows))
    for at in (1, 7, 33, 59, 75, 100, len(rows) - 3):
        rest, later = walked(gone_on(name, second, states[at]))
        assert Counter(ids(rows[:at]) + ids(rest)) == whole, f"changed after row {at}"
        for more in (0, 1, 5, 30):
            if more >= len(rest):
                continue
            own = ids(gone_on(name, second, later[more]))
            assert own == ids(rest[more:]), f"changed after row {at}, gone on {more} rows later"
            other = ids(gone_on(name, third, later[more]))
            assert Counter(ids(rows[:at]) + ids(rest[:more]) + other) == whole


@pytest.mark.parametrize("equal", [None, "drop"], ids=str)
def test_other_weights_and_another_number_of_nodes(equal: str | None) -> None:
    before = [
        split_dataset_by_node(drawn((0.5, 0.5)), rank, 2, strategy="examples", equal=equal)
        for rank in range(2)
    ]
    iterators = [iter(ds) for ds in before]
    given = [row for iterator in iterators for row in islice(iterator, 20)]
    state = json.dumps(before[0].state_dict())
    rest: list[int] = []
    for rank in range(4):
        ds = split_dataset_by_node(drawn((0.9, 0.1)), rank, 4, strategy="examples", equal=equal)
        ds.load_state_dict(json.loads(state))
        rest += ids(ds)
    assert Counter(ids(given) + rest) == Counter(ids(drawn((0.5, 0.5))))


def test_new_weights_hold_from_the_row_after_the_position() -> None:
    _, states = walked(drawn((0.5, 0.5)), 10)
    rest = ids(gone_on("nothing", (1.0, 0.0), states[10]))
    assert all(number < 1000 for number in rest)
    # The same random numbers choose: the weights of then give the rows of then.
    assert ids(gone_on("nothing", (0.5, 0.5), states[10])) == ids(drawn((0.5, 0.5)))[10:]


CALLS: list[int] = []
SEEN: Counter[str] = Counter()


def noting(row: dict[str, Any]) -> dict[str, Any]:
    CALLS.append(row["i"])
    SEEN["rows"] += 1
    return {"j": row["i"]}


class Caching:
    def __init__(self) -> None:
        self.cache: dict[int, int] = {}

    def __call__(self, row: dict[str, Any]) -> dict[str, Any]:
        return {"j": self.cache.setdefault(row["i"], row["i"] + 1)}

    def method(self, row: dict[str, Any]) -> dict[str, Any]:
        return self(row)


CACHING = Caching()


def generating() -> Iterator[dict[str, Any]]:
    for number in range(20):
        CALLS.append(number)
        yield {"i": number}


CHANGING: dict[str, Callable[[], IterableDataset]] = {
    "list and counter": lambda: numbers().map(noting),
    "callable": lambda: numbers().map(CACHING),
    "method": lambda: numbers(first=100).map(CACHING.method),
    "filter": lambda: numbers().filter(noting),
    "generator": lambda: IterableDataset.from_generator(generating),
}


@pytest.mark.parametrize("name", list(CHANGING))
def test_a_position_fits_though_calls_change_what_the_function_reaches(name: str) -> None:
    make = CHANGING[name]
    ds = make()
    whole, states = walked(ds)
    for at in (0, 5, len(whole)):
        fresh = make()
        fresh.load_state_dict(json.loads(states[at]))
        assert ids(fresh) == ids(whole[at:])


def test_columns_looked_up_first_do_not_change_the_chain() -> None:
    calls: list[int] = []

    def change(row: dict[str, Any]) -> dict[str, Any]:
        calls.append(1)
        return {"j": 1}

    ds = numbers().map(change)
    assert ds.column_names == ["i", "j"]
    assert calls
    assert ds.fingerprint == numbers().map(change).fingerprint


PROGRAM = """
import collections, json, random, sys
from itertools import islice
from provender.data.stream import IterableDataset

calls, seen, chance = [], collections.Counter(), random.Random(4)

def change(row):
    calls.append(row["i"])
    seen[row["i"] % 3] += 1
    chance.random()
    return {"j": row["i"] + STEP}

def generate():
    for number in range(20):
        calls.append(number)
        yield {"i": number}

ds = IterableDataset.from_generator(generate).map(change)
if len(sys.argv) > 1:
    ds.load_state_dict(json.loads(sys.argv[1]))
    print(json.dumps([row["i"] for row in ds]))
else:
    list(islice(iter(ds), 5))
    print(json.dumps(ds.state_dict()))
"""


def _run(code: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", code, *arguments],
        capture_output=True,
        text=True,
        check=False,
    )


def test_a_new_process_goes_on_though_calls_change_what_the_function_reaches() -> None:
    first = _run(PROGRAM.replace("STEP", "1"))
    assert first.returncode == 0, first.stderr
    then = _run(PROGRAM.replace("STEP", "1"), first.stdout)
    assert then.returncode == 0, then.stderr
    assert json.loads(then.stdout) == list(range(5, 20))
    other = _run(PROGRAM.replace("STEP", "2"), first.stdout)
    assert other.returncode != 0
    assert "its map is another function" in other.stderr


def test_another_object_with_other_contents_is_another_function() -> None:
    class Adding:
        def __init__(self, step: int) -> None:
            self.step = step

        def __call__(self, row: dict[str, Any]) -> dict[str, Any]:
            return {"j": row["i"] + self.step}

    ds = numbers().map(Adding(1))
    next(iter(ds))
    numbers().map(Adding(1)).load_state_dict(ds.state_dict())
    with pytest.raises(ConflictError, match="its map is another function"):
        numbers().map(Adding(2)).load_state_dict(ds.state_dict())


def test_after_a_pass_the_next_epoch_has_a_position_of_its_own() -> None:
    def make() -> IterableDataset:
        return numbers().shuffle(seed=1)

    ds = make()
    list(ds)
    ds.set_epoch(1)
    state = ds.state_dict()
    assert (state["epoch"], state["at"]) == (1, None)
    fresh = make()
    fresh.load_state_dict(state)
    assert ids(fresh) == ids(ds)
    assert len(ids(ds)) == SIZE


@pytest.mark.parametrize("batches", [False, True], ids=["rows", "batches"])
def test_a_pass_begins_where_its_iterator_is_made(batches: bool) -> None:
    ds = numbers()
    list(ds)
    iterator = ds.iter(7) if batches else iter(ds)
    fresh = numbers()
    fresh.load_state_dict(ds.state_dict())
    assert len(ids(fresh)) == SIZE
    assert next(iterator)
    fresh.load_state_dict(ds.state_dict())
    assert len(ids(fresh)) == SIZE - (7 if batches else 1)


def test_leaving_a_pass_for_another_epoch() -> None:
    ds = numbers().shuffle(seed=1)
    for _ in islice(ds, 10):
        pass
    ds.set_epoch(0)
    assert ds.state_dict()["at"] is not None
    ds.set_epoch(1)
    assert ds.state_dict()["at"] is None
    iterator = iter(ds)
    ds.set_epoch(2)
    assert ids(iterator) == ids(ds)
    assert ds.state_dict()["epoch"] == 2


def test_a_position_loaded_after_an_iterator_was_made_is_the_one_it_begins_at() -> None:
    ds = numbers()
    list(islice(ds, 10))
    fresh = numbers()
    iterator = iter(fresh)
    fresh.load_state_dict(ds.state_dict())
    assert ids(iterator) == list(range(10, SIZE))
    assert len(ids(fresh)) == SIZE


BROKEN = {
    "other fields": {"foo": 1},
    "a number": 5,
    "a text": "here",
    "a list": [1],
    "below": {"up": {"foo": 1}},
    "after": {"of": {"foo": 1}, "plus": 3},
}


@pytest.mark.parametrize("place", list(BROKEN))
@pytest.mark.parametrize("name", ["map", "shuffle", "batches", "inner", "node"])
def test_a_place_that_was_changed_is_refused(name: str, place: str) -> None:
    def make() -> IterableDataset:
        if name == "node":
            return split_dataset_by_node(numbers(), 0, 2, strategy="examples")
        return ABOVE[name]((0.5, 0.5))

    ds = make()
    ds.load_state_dict({**make().state_dict(), "at": BROKEN[place]})
    with pytest.raises(ConflictError, match="place in the position"):
        list(ds)


@pytest.mark.parametrize("missing", ["chain", "epoch", "split"])
def test_a_position_without_one_of_its_fields_is_refused(missing: str) -> None:
    state = numbers().state_dict()
    del state[missing]
    with pytest.raises(ConflictError, match=missing):
        numbers().load_state_dict(state)


def test_an_error_of_a_function_while_rows_are_made_again_is_its_own() -> None:
    fails = False

    def change(row: dict[str, Any]) -> bool:
        if fails:
            raise KeyError("mine")
        return True

    ds = numbers().filter(change).filter(all_of, batched=True, batch_size=16)
    list(islice(ds, 10))
    fresh = numbers().filter(change).filter(all_of, batched=True, batch_size=16)
    fresh.load_state_dict(ds.state_dict())
    fails = True
    with pytest.raises(KeyError, match="mine"):
        list(fresh)


@pytest.mark.parametrize("chain", ["", ".map(change)", ".prefetch()", ".shuffle(seed=1)"])
def test_an_iterator_that_lives_until_the_end_of_the_process_ends_quietly(chain: str) -> None:
    code = f"""
import os, sys
from provender.data.stream import IterableDataset

def change(row):
    return {{"j": row["i"]}}

def generate():
    for number in range(20_000):
        yield {{"i": number}}

iterator = iter(IterableDataset.from_generator(generate){chain})
next(iterator)
# Modules are emptied last import first: "os" holds it until the stream's own are empty.
os.kept = iterator
sys.kept = list(sys.modules.values())
del iterator
"""
    done = _run(code)
    assert (done.returncode, done.stderr) == (0, "")


def test_columns_of_streams_that_nobody_declared_are_filled() -> None:
    def one(name: str, value: Any) -> IterableDataset:
        return IterableDataset.from_generator(lambda: iter([{name: value}] * 2))

    both = concatenate_streams([one("a", 1), one("b", "x")])
    assert list(both) == [{"a": 1, "b": None}] * 2 + [{"a": None, "b": "x"}] * 2
    assert both.column_names == ["a", "b"]
    mapped = IterableDataset(make_source("table", 3, 1)).map(lambda row: {"n": row["i"]})
    rows = list(concatenate_streams([mapped, one("b", "x")]))
    assert rows[0] == {"i": 0, "t": "r0", "n": 0, "b": None}
    assert rows[3] == {"i": None, "t": None, "n": None, "b": "x"}
    turns = interleave_streams([mapped.select_columns("n"), one("b", "x")])
    assert list(turns)[:2] == [{"n": 0, "b": None}, {"n": None, "b": "x"}]


def test_a_column_of_which_only_none_was_seen_may_have_values_later() -> None:
    def late() -> Iterator[dict[str, Any]]:
        for number in range(200):
            yield {"i": number, "x": None if number < 150 else "late"}

    def arrow(table: Any) -> Any:
        return table

    late_ds = IterableDataset.from_generator(late)
    tables = late_ds.with_format("arrow").map(arrow, batched=True, batch_size=50)
    for stream in (late_ds, tables.with_format(None)):
        rows = list(concatenate_streams([stream, numbers(2)]))
        assert rows[0] == {"i": 0, "x": None}
        assert rows[199] == {"i": 199, "x": "late"}
        assert rows[200] == {"i": 0, "x": None}
