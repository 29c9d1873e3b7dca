"""Which rows of several datasets come when they take turns. Pure functions of lengths and a seed.

Draws are made in the blocks in which HF Datasets makes them, so the same seed gives the same rows.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from provender.errors import SettingsError

_BLOCK = 1000


def turns(
    lengths: Sequence[int],
    probabilities: Sequence[float] | None,
    seed: int | None,
    strategy: str,
) -> np.ndarray:
    """Row numbers, counted over all datasets one after another.

    Args:
        lengths: rows of each dataset.
        probabilities: chance of each to be drawn; None to take turns in order.
        seed: decides the draws.
        strategy: ``first_exhausted``, ``all_exhausted`` or ``all_exhausted_without_replacement``.

    Raises:
        SettingsError: the draws would never end.
    """
    sizes = np.asarray(lengths, np.int64)
    starts = np.concatenate([[0], np.cumsum(sizes)[:-1]])
    if probabilities is None:
        return _in_order(sizes, starts, strategy)
    return _drawn(sizes, starts, np.asarray(probabilities, np.float64), seed, strategy)


def _in_order(sizes: np.ndarray, starts: np.ndarray, strategy: str) -> np.ndarray:
    if strategy == "first_exhausted":
        rounds = np.arange(sizes.min())[:, None]
        return (rounds + starts[None, :]).reshape(-1)
    rounds = np.arange(sizes.max())[:, None]
    if strategy == "all_exhausted":
        if not sizes.all():
            _refuse(np.flatnonzero(sizes == 0), "has no rows, so it cannot be begun anew")
        return (rounds % sizes[None, :] + starts[None, :]).reshape(-1)
    rows = rounds + starts[None, :]
    return rows[rounds < sizes[None, :]]


def _drawn(
    sizes: np.ndarray,
    starts: np.ndarray,
    chances: np.ndarray,
    seed: int | None,
    strategy: str,
) -> np.ndarray:
    drawable = chances > 0
    once = strategy == "all_exhausted_without_replacement"
    if not once and (drawable & (sizes == 0)).any():
        _refuse(np.flatnonzero(drawable & (sizes == 0)), "has no rows, but would be drawn")
    if strategy == "all_exhausted" and not drawable.all():
        _refuse(np.flatnonzero(~drawable), "has probability 0, so it would never be exhausted")
    if once and (~drawable & (sizes > 0)).any():
        _refuse(
            np.flatnonzero(~drawable & (sizes > 0)),
            "has probability 0, so it would never be exhausted",
        )
    generator = np.random.default_rng(seed)
    needed = sizes.copy()
    blocks: list[np.ndarray] = []
    counts = np.zeros(len(sizes), np.int64)
    while not _is_over(counts, needed, drawable, strategy):
        block = generator.choice(len(sizes), size=_BLOCK, p=chances)
        blocks.append(block)
        counts += np.bincount(block, minlength=len(sizes))
    draws = np.concatenate(blocks) if blocks else np.zeros(0, np.int64)
    turn = np.empty(len(draws), np.int64)
    ends = []
    for source in range(len(sizes)):
        at = np.flatnonzero(draws == source)
        turn[at] = np.arange(len(at))
        if drawable[source] and 0 < sizes[source] <= len(at):
            ends.append(int(at[sizes[source] - 1]))
    if once:
        kept = turn < sizes[draws]
        return turn[kept] + starts[draws[kept]]
    last = (min(ends) if strategy == "first_exhausted" else max(ends)) + 1
    draws, turn = draws[:last], turn[:last]
    return turn % sizes[draws] + starts[draws]


def _is_over(counts: np.ndarray, needed: np.ndarray, drawable: np.ndarray, strategy: str) -> bool:
    reached = (counts >= needed)[drawable]
    if strategy == "first_exhausted":
        return bool(reached.any())
    return bool(reached.all())


def _refuse(which: np.ndarray, why: str) -> None:
    shown = ", ".join(str(int(each)) for each in which)
    raise SettingsError(
        f"The draws would never end: dataset {shown} of the list {why}.",
        where="interleave_datasets",
        hint="Leave it out, or choose stopping_strategy='first_exhausted'.",
        facts={"datasets": [int(each) for each in which]},
    )
