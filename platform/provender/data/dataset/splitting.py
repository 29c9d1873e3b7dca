"""How many rows go to train and test, and which where classes keep their shares."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from provender.errors import SettingsError


def sizes(count: int, test_size: float | None, train_size: float | None) -> tuple[int, int]:
    """Rows of train and of test.

    Args:
        count: rows there are.
        test_size, train_size: numbers of rows, or parts between 0 and 1; None for what is left, and
            a quarter for test where both are None.

    Raises:
        SettingsError: they make no sense together or with so many rows.
    """
    if test_size is None and train_size is None:
        test_size = 0.25
    for name, size in (("test_size", test_size), ("train_size", train_size)):
        _check(name, size, count)
    if (
        isinstance(test_size, float)
        and isinstance(train_size, float)
        and test_size + train_size > 1
    ):
        raise SettingsError(
            f"test_size and train_size are {test_size + train_size} together, more than 1.",
            where="train_test_split",
            hint="Make one of them smaller.",
        )
    n_test = None if test_size is None else _rows(test_size, count, math.ceil)
    n_train = None if train_size is None else _rows(train_size, count, math.floor)
    n_test = count - n_train if n_test is None and n_train is not None else n_test
    assert n_test is not None
    n_train = count - n_test if n_train is None else n_train
    if n_train + n_test > count:
        raise SettingsError(
            f"test_size and train_size ask for {n_train + n_test:,} rows, there are {count:,}.",
            where="train_test_split",
            hint="Make one of them smaller.",
        )
    if n_train == 0:
        raise SettingsError(
            f"Of {count} rows none would be left for train "
            f"(test_size={test_size}, train_size={train_size}).",
            where="train_test_split",
            hint="Make test_size smaller.",
        )
    return n_train, n_test


def _check(name: str, size: float | None, count: int) -> None:
    if size is None:
        return
    if isinstance(size, bool) or not isinstance(size, int | float):
        message = f"{name} must be a number, not {size!r}."
        raise SettingsError(message, where=name)
    good = 0 < size < 1 if isinstance(size, float) else 0 < size < count
    if not good:
        raise SettingsError(
            f"{name} cannot be {size} with {count:,} rows.",
            where=name,
            hint=f"Give a part between 0 and 1, or a number of rows from 1 to {count - 1}.",
        )


def _rows(size: float, count: int, rounded: Callable[[float], int]) -> int:
    return rounded(size * count) if isinstance(size, float) else int(size)


def stratified(
    labels: np.ndarray, n_train: int, n_test: int, generator: np.random.Generator, column: str
) -> tuple[np.ndarray, np.ndarray]:
    """Row numbers of train and test in which every class has its share, in random order.

    Shares are those that a draw without replacement most likely gives; ties are broken at random.
    Random numbers are drawn in the order in which scikit-learn's StratifiedShuffleSplit, and HF
    Datasets after it, draw them.

    Args:
        labels: class of each row, shape ``[rows]``.
        n_train, n_test: how many rows.
        generator: where chance comes from.
        column: the labels' column, for errors.

    Raises:
        SettingsError: a class has only one row, or there are more classes than rows in a part.
    """
    classes, inverse = np.unique(labels, return_inverse=True)
    counts = np.bincount(inverse)
    if counts.min() < 2:
        rare = classes[counts.argmin()]
        raise SettingsError(
            f"The class {rare} of column {column!r} has only one row, which cannot be in both parts.",
            where="stratify_by_column",
            hint="Leave such classes out first, with filter.",
        )
    for name, rows in (("train", n_train), ("test", n_test)):
        if rows < len(classes):
            raise SettingsError(
                f"{name} would have {rows} rows, fewer than the {len(classes)} classes.",
                where="stratify_by_column",
                hint=f"Make {name}_size larger.",
            )
    members = np.split(np.argsort(inverse, kind="stable"), np.cumsum(counts)[:-1])
    in_train = _shares(counts, n_train, generator)
    in_test = _shares(counts - in_train, n_test, generator)
    train, test = [], []
    for own, first, second in zip(members, in_train, in_test, strict=True):
        mixed = own[generator.permutation(len(own))]
        train.append(mixed[:first])
        test.append(mixed[first : first + second])
    return (
        generator.permutation(np.concatenate(train)),
        generator.permutation(np.concatenate(test)),
    )


def _shares(counts: np.ndarray, draws: int, generator: np.random.Generator) -> np.ndarray:
    """The likeliest number of each class among so many draws without replacement."""
    exact = draws * counts / counts.sum()
    shares = np.floor(exact)
    left = int(draws - shares.sum())
    rest = exact - shares
    for value in np.unique(rest)[::-1]:
        if left <= 0:
            break
        (tied,) = np.nonzero(rest == value)
        lucky = generator.choice(tied, size=min(len(tied), left), replace=False)
        shares[lucky] += 1
        left -= len(lucky)
    return shares.astype(np.int64)
