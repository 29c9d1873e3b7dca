"""Several streams as one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from provender.data.stream.columns import Align
from provender.data.stream.concat import Beside, Concat
from provender.data.stream.dataset import IterableDataset
from provender.data.stream.interleave import Interleave, check_strategy, check_weights
from provender.data.stream.node import Node
from provender.data.stream.seeds import seed_of
from provender.errors import SettingsError


def concatenate_streams(
    datasets: Sequence[IterableDataset],
    *,
    info: Any = None,
    split: str | None = None,
    axis: int = 0,
) -> IterableDataset:
    """Streams one after another (axis 0), or their columns side by side (axis 1).

    Columns that one of the streams lacks are None in its rows. Where the columns of a stream are
    not known (after a `map`, of a generator) they are found by making its first rows, as
    `IterableDataset.features` does.

    Args:
        datasets: the streams.
        info: what is known of the result.
        split: name of its split.
        axis: 0 or 1.

    Raises:
        SettingsError: there are none, or the axis is another.
        FeatureTypeError: a column has types that do not go together.
        ColumnError: two streams side by side have a column of one name.
    """
    streams = _checked(datasets, "concatenate_datasets")
    if axis not in (0, 1):
        raise SettingsError(
            f"There is no axis {axis}.", where="concatenate_datasets", hint="0 or 1."
        )
    if axis == 1:
        node: Node = Beside(tuple(each._node for each in streams))
        node.features()
    else:
        node = Concat(_aligned(streams))
    return _combined(streams, node, info, split)


def interleave_streams(
    datasets: Sequence[IterableDataset],
    probabilities: Sequence[float] | None = None,
    seed: int | None = None,
    info: Any = None,
    split: str | None = None,
    stopping_strategy: str = "first_exhausted",
) -> IterableDataset:
    """Rows of several streams, in turn or drawn.

    Columns that one of them lacks are None in its rows, as in `concatenate_streams`.

    Args:
        datasets: the streams.
        probabilities: how likely each of them gives the next row; None: in turn.
        seed: for the draws; with the epoch it decides all of them.
        info: what is known of the result.
        split: name of its split.
        stopping_strategy: "first_exhausted", "all_exhausted" or
            "all_exhausted_without_replacement".

    Raises:
        SettingsError: probabilities that do not sum to 1, no streams, an unknown strategy.
        FeatureTypeError: a column has types that do not go together.
    """
    streams = _checked(datasets, "interleave_datasets")
    strategy = check_strategy(stopping_strategy)
    weights = check_weights(probabilities, len(streams))
    # In turn nothing is drawn; a fixed seed keeps the position free of one.
    used = seed_of(0 if weights is None and seed is None else seed, None)
    node = Interleave(_aligned(streams), used, weights, strategy)
    return _combined(streams, node, info, split)


def _checked(datasets: Sequence[IterableDataset], where: str) -> list[IterableDataset]:
    streams = list(datasets)
    if not streams:
        raise SettingsError(
            "There are no datasets to combine.", where=where, hint="Give at least one."
        )
    for each in streams:
        if not isinstance(each, IterableDataset):
            raise SettingsError(
                f"{type(each).__name__} is not a stream.",
                where=where,
                hint="Combine streams with streams: ds.to_iterable_dataset().",
            )
    return streams


def _combined(
    streams: Sequence[IterableDataset], node: Node, info: Any, split: str | None
) -> IterableDataset:
    first = streams[0]
    made = first._derived(node)
    made._format = (
        first._format if all(s._format == first._format for s in streams) else type(first._format)()
    )
    made._info, made._split = info or first._info, split or first._split
    for each in streams[1:]:
        made._seeds = {**made._seeds, **each._seeds}
    result: IterableDataset = made
    return result


def _aligned(streams: Sequence[IterableDataset]) -> tuple[Node, ...]:
    """The chains, each with the columns of all.

    A stream without rows, or with rows that fit into no table, adds no columns.
    """
    from provender.data.features import unify

    if len(streams) == 1:
        return (streams[0]._node,)
    known = [each.features for each in streams]
    features = [each for each in known if each is not None]
    if not features:
        return tuple(each._node for each in streams)
    together = features[0]
    for each in features[1:]:
        together = unify(together, each)
    exact = [each._plan.features() is not None for each in streams]
    return tuple(
        stream._node
        if all(exact) and own is not None and dict(own) == dict(together)
        else Align(stream._node, target=together)
        for stream, own in zip(streams, known, strict=True)
    )
