"""Random chains of operators, for property tests."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from hypothesis import strategies as st
from tests.data.stream.exact import KINDS, make_source

from provender.data.stream import (
    IterableDataset,
    concatenate_streams,
    interleave_streams,
    split_dataset_by_node,
)

Step = tuple[Any, ...]


def twice(row: dict[str, Any]) -> dict[str, Any]:
    return {"i": row["i"] * 2}


def numbered(row: dict[str, Any], index: int) -> dict[str, Any]:
    return {"i": row["i"] * 1000 + index}


def doubled(batch: dict[str, list[Any]]) -> dict[str, list[Any]]:
    return {name: [value for value in values for _ in range(2)] for name, values in batch.items()}


def thinned(batch: dict[str, list[Any]]) -> dict[str, list[Any]]:
    return {name: list(values)[::3] for name, values in batch.items()}


def not_third(row: dict[str, Any]) -> bool:
    return bool(row["i"] % 3)


def even_place(row: dict[str, Any], index: int) -> bool:
    return index % 2 == 0


def most(batch: dict[str, list[Any]]) -> list[bool]:
    return [value % 5 != 1 for value in batch["i"]]


def other() -> IterableDataset:
    return IterableDataset(make_source("uncounted", 11, 2)).map(twice)


APPLY: dict[str, Callable[..., IterableDataset]] = {
    "map": lambda ds: ds.map(twice),
    "map numbered": lambda ds: ds.map(numbered, with_indices=True),
    "map doubled": lambda ds, size: ds.map(doubled, batched=True, batch_size=size),
    "map thinned": lambda ds, size, drop: ds.map(
        thinned, batched=True, batch_size=size, drop_last_batch=drop
    ),
    "filter": lambda ds: ds.filter(not_third),
    "filter numbered": lambda ds: ds.filter(even_place, with_indices=True),
    "filter batched": lambda ds, size: ds.filter(most, batched=True, batch_size=size),
    "shuffle": lambda ds, seed, size, inputs: ds.shuffle(
        seed=seed, buffer_size=size, max_buffer_input_shards=inputs
    ),
    "take": lambda ds, count: ds.take(count),
    "skip": lambda ds, count: ds.skip(count),
    "repeat": lambda ds, times: ds.repeat(times),
    "batch and back": lambda ds, size, drop: ds.batch(size, drop_last_batch=drop).unbatch(),
    "rename": lambda ds: ds.rename_column("t", "u").rename_column("u", "t"),
    "cast": lambda ds: ds.cast_column("i", _int64()),
    "concatenate": lambda ds: concatenate_streams([ds, other()]),
    "interleave": lambda ds, strategy: interleave_streams(
        [ds, other()], stopping_strategy=strategy
    ),
    "interleave drawn": lambda ds, weight, strategy: interleave_streams(
        [ds, other()], [weight, 1 - weight], seed=3, stopping_strategy=strategy
    ),
    "node": lambda ds, rank, world: split_dataset_by_node(ds, rank, world),
    "node equal": lambda ds, equal: split_dataset_by_node(ds, 1, 3, equal=equal),
    "prefetch": lambda ds, memory: ds.prefetch(memory),
}


def _int64() -> Any:
    from provender.data.features import Value

    return Value("int64")


_small = st.integers(1, 9)
_strategy = st.sampled_from(
    ["first_exhausted", "all_exhausted", "all_exhausted_without_replacement"]
)
steps = st.one_of(
    st.tuples(
        st.sampled_from(["map", "map numbered", "filter", "filter numbered", "rename", "cast"])
    ),
    st.tuples(st.just("map doubled"), _small),
    st.tuples(st.just("map thinned"), _small, st.booleans()),
    st.tuples(st.just("filter batched"), _small),
    st.tuples(st.just("shuffle"), st.integers(0, 3), st.integers(0, 20), st.integers(1, 3)),
    st.tuples(st.just("take"), st.integers(0, 40)),
    st.tuples(st.just("skip"), st.integers(0, 20)),
    st.tuples(st.just("repeat"), st.integers(0, 2)),
    st.tuples(st.just("batch and back"), _small, st.booleans()),
    st.tuples(st.just("concatenate")),
    st.tuples(st.just("interleave"), _strategy),
    st.tuples(st.just("interleave drawn"), st.sampled_from([0.0, 0.3, 0.5]), _strategy),
    st.tuples(st.just("node"), st.integers(0, 1), st.just(2)),
    st.tuples(st.just("node equal"), st.sampled_from(["drop", "pad"])),
    st.tuples(st.just("prefetch"), st.sampled_from([1, 1 << 20])),
)

chains = st.tuples(
    st.sampled_from(KINDS), st.integers(0, 40), st.integers(1, 5), st.lists(steps, max_size=5)
)


def build(chain: Any) -> IterableDataset:
    """The stream of a chain."""
    kind, total, shards, operators = chain
    stream = IterableDataset(make_source(kind, total, shards))
    for name, *arguments in operators:
        stream = APPLY[name](stream, *arguments)
    return stream
