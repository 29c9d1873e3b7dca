"""Cutting pairs of segments to the room that an instance has."""

from __future__ import annotations

import numpy as np

from provender.nlp.pretraining.counter import Purpose, words
from provender.nlp.pretraining.options import Options

_BITS = 128
_MOST_BITS = 4096


def cut_pairs(
    options: Options,
    document: np.ndarray,
    instance: np.ndarray,
    epoch: int,
    first: np.ndarray,
    first_length: np.ndarray,
    second: np.ndarray,
    second_length: np.ndarray,
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Cuts pairs as if token by token: always from the longer segment (the second one of equals),
    from its front or its back by the toss of a coin.

    Args:
        options: room and seed.
        document: number of each pair's document; int64, like all that follow.
        instance: number of the pair.
        epoch: number of the pass.
        first: where the first segment begins.
        first_length: its tokens.
        second: where the second one begins.
        second_length: its tokens.

    Returns:
        The same four, cut.
    """
    new_first, new_second = lengths_after(first_length, second_length, options.room)
    found = []
    for purpose, begin, old, new in (
        (Purpose.CUT_FIRST, first, first_length, new_first),
        (Purpose.CUT_SECOND, second, second_length, new_second),
    ):
        gone = old - new
        begin = begin.copy()
        some = np.flatnonzero(gone)
        begin[some] += heads(
            options.random_seed, purpose, gone[some], instance[some], document[some], epoch
        )
        found += [begin, new]
    return found[0], found[1], found[2], found[3]


def lengths_after(
    first: np.ndarray, second: np.ndarray, room: int
) -> tuple[np.ndarray, np.ndarray]:
    """Lengths of two segments once the longer one was shortened until both fit.

    Args:
        first: tokens of the first segment.
        second: tokens of the second one.
        room: tokens that fit.
    """
    fits = first + second <= room
    shorter = np.minimum(first, second)
    # Either the longer one alone is cut, or both end at half the room.
    half = 2 * shorter > room
    new_first = np.where(half, room - room // 2, np.where(first > second, room - shorter, first))
    new_second = np.where(half, room // 2, np.where(first > second, second, room - shorter))
    return np.where(fits, first, new_first), np.where(fits, second, new_second)


def heads(
    seed: int,
    purpose: Purpose,
    tosses: np.ndarray,
    instance: np.ndarray,
    document: np.ndarray,
    epoch: int,
) -> np.ndarray:
    """How many of so many coins fall heads.

    One bit a coin up to 4,096; of more, the heads among 4,096 bits are scaled to the mean and
    the deviation of the number asked for, in whole numbers, so that every machine agrees.

    Args:
        seed: the seed.
        purpose: what is drawn.
        tosses: number of coins; int64.
        instance: number of the instance.
        document: number of the document.
        epoch: number of the pass.
    """
    found = np.zeros(len(tosses), np.int64)
    left = np.minimum(tosses, _MOST_BITS)
    active = np.arange(len(tosses))
    draw = 0
    while len(active):
        drawn = words(seed, purpose, draw, instance[active], document[active], epoch)
        for each in drawn:
            bits = np.clip(left[active], 0, 32).astype(np.uint64)
            kept = each.astype(np.uint64) & ((np.uint64(1) << bits) - np.uint64(1))
            found[active] += np.bitwise_count(kept)
            left[active] -= 32
        active = active[left[active] > 0]
        draw += 1
    many = np.flatnonzero(tosses > _MOST_BITS)
    if len(many):
        counts = tosses[many]
        roots = np.sqrt(counts.astype(np.float64)).astype(np.int64)
        found[many] = counts // 2 + (found[many] - _MOST_BITS // 2) * roots // 64
    return found
