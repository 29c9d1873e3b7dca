"""Several datasets as one: one after another, side by side, or in turns.

Both functions take map-style datasets, streams, or dicts of them by split.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from provender.errors import SettingsError

if TYPE_CHECKING:
    import numpy as np

STRATEGIES = ("first_exhausted", "all_exhausted", "all_exhausted_without_replacement")


def concatenate_datasets(
    dsets: Sequence[Any], info: Any = None, split: Any = None, axis: int = 0
) -> Any:
    """Datasets one after another, or side by side.

    Args:
        dsets: all map-style, or all streams.
        info: what is known about the result; by default what the datasets have in common.
        split: name of the result's split.
        axis: 0 to put rows under one another: a column that a dataset lacks is None there; 1 to
            put columns beside one another: all must have as many rows, and no name comes twice.

    Raises:
        FeatureTypeError: a column has types that do not go together.
        ColumnLengthError: with axis 1, the datasets differ in length.
        ColumnError: with axis 1, a name comes twice.
        SettingsError: there is nothing to put together, or not of one kind.
    """
    dsets = _checked(dsets, "concatenate_datasets")
    if axis not in (0, 1):
        raise SettingsError(f"axis must be 0 or 1, not {axis!r}.", where="concatenate_datasets")
    if _are_streams(dsets):
        from provender.data.stream import concatenate_streams

        return concatenate_streams(dsets, info=info, split=split, axis=axis)
    from provender.data.dataset.joining import beside, under

    return (beside if axis else under)(dsets, info, split)


def interleave_datasets(
    datasets: Sequence[Any],
    probabilities: Sequence[float] | None = None,
    seed: int | None = None,
    info: Any = None,
    split: Any = None,
    stopping_strategy: str = "first_exhausted",
) -> Any:
    """Rows of several datasets in turns, or drawn from them at random.

    Args:
        datasets: all map-style, or all streams.
        probabilities: chance of each dataset to give the next row; without them they take turns.
        seed: decides the draws.
        info, split: as for `concatenate_datasets`.
        stopping_strategy: ``first_exhausted`` ends with the first dataset that has no row left;
            ``all_exhausted`` when all have given every row, beginning anew those that are short;
            ``all_exhausted_without_replacement`` likewise, but each row comes once.

    Raises:
        SettingsError: an argument makes no sense, or the draws would never end.
        FeatureTypeError: a column has types that do not go together.
    """
    datasets = _checked(datasets, "interleave_datasets")
    if stopping_strategy not in STRATEGIES:
        import difflib

        near = difflib.get_close_matches(str(stopping_strategy), STRATEGIES, 1)
        raise SettingsError(
            f"There is no stopping strategy {stopping_strategy!r}.",
            where="stopping_strategy",
            hint=f"Did you mean {near[0]!r}?" if near else f"There are: {', '.join(STRATEGIES)}.",
        )
    check_probabilities(probabilities, len(datasets))
    if _are_streams(datasets):
        from provender.data.stream import interleave_streams

        return interleave_streams(
            datasets,
            probabilities=probabilities,
            seed=seed,
            info=info,
            split=split,
            stopping_strategy=stopping_strategy,
        )
    from provender.data.dataset.joining import under
    from provender.data.dataset.turns import turns

    # Rows are counted over all datasets, those without rows included.
    rows = turns([len(each) for each in datasets], probabilities, seed, stopping_strategy)
    return under(datasets, info, split).select(rows)


def check_probabilities(probabilities: Sequence[float] | np.ndarray | None, count: int) -> None:
    """Raises where probabilities are not one for each dataset, or are none.

    Raises:
        SettingsError: saying which.
    """
    if probabilities is None:
        return
    if len(probabilities) != count:
        raise SettingsError(
            f"There are {len(probabilities)} probabilities for {count} datasets.",
            where="probabilities",
            hint="Give one for each dataset.",
        )
    total = float(sum(probabilities))
    if any(each < 0 for each in probabilities) or abs(total - 1) > 1e-6:
        raise SettingsError(
            f"The probabilities {list(probabilities)} do not sum up to 1, but to {total:g}."
            if all(each >= 0 for each in probabilities)
            else f"A probability cannot be negative: {list(probabilities)}.",
            where="probabilities",
        )


def _checked(datasets: Sequence[Any], where: str) -> list[Any]:
    from provender.data.dataset import DatasetDict

    if isinstance(datasets, Mapping):
        message = "Give a list of datasets, not a dict."
        raise SettingsError(message, where=where, hint="list(splits.values()), for example.")
    datasets = list(datasets)
    if not datasets:
        raise SettingsError("There is no dataset in the list.", where=where)
    for at, each in enumerate(datasets):
        if isinstance(each, DatasetDict | Mapping):
            raise SettingsError(
                f"Number {at} of the list is a dict of splits.",
                where=where,
                hint=f"Choose a split: {', '.join(map(repr, each))}.",
            )
    kinds = {_is_stream(each) for each in datasets}
    if len(kinds) > 1:
        raise SettingsError(
            "Map-style datasets and streams are mixed.",
            where=where,
            hint="Make streams of all: ds.to_iterable_dataset().",
        )
    return datasets


def _are_streams(datasets: Sequence[Any]) -> bool:
    return _is_stream(datasets[0])


def _is_stream(each: Any) -> bool:
    from provender.data.dataset import Dataset

    if isinstance(each, Dataset):
        return False
    from provender.data.stream import IterableDataset

    if isinstance(each, IterableDataset):
        return True
    raise SettingsError(
        f"A {type(each).__name__} is not a dataset.",
        where="datasets",
        hint="Give Dataset or IterableDataset objects.",
    )
