"""Which tokens of an instance are to be predicted, and what stands in their places.

Rows of instances are masked together: each step of what would be a loop over one row's tokens is a
numpy operation over all rows.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from provender.nlp.pretraining.counter import Purpose, below, threshold, words
from provender.nlp.pretraining.options import Options

_MASKED = threshold(0.8)
_KEPT = threshold(0.9)


@dataclass(frozen=True)
class Rows:
    """Instances that are masked together.

    Attributes:
        ids: tokens, uint16 or uint32 of shape (n, max_seq_length).
        first: tokens of each first segment, int64.
        second: tokens of each second segment, int64.
        document: numbers of documents; with the two that follow what random numbers depend on.
        instance: numbers of instances.
        epoch: numbers of passes.
    """

    ids: np.ndarray
    first: np.ndarray
    second: np.ndarray
    document: np.ndarray
    instance: np.ndarray
    epoch: np.ndarray

    def __len__(self) -> int:
        return len(self.first)

    def draw(self, seed: int, purpose: Purpose, count: int) -> np.ndarray:
        """Random words for each row: uint32 of shape (n, at least ``count``)."""
        draws = -(-count // 4)
        keys = (self.instance, self.document, self.epoch)
        columns = [each.astype(np.uint64)[:, None] for each in keys]
        shape = (len(self), draws)
        draw, *rest = np.broadcast_arrays(np.arange(draws, dtype=np.uint64)[None], *columns)
        found = words(seed, purpose, draw.ravel(), *(each.ravel() for each in rest))
        return found.reshape(4, *shape).transpose(1, 2, 0).reshape(len(self), 4 * draws)

    def draw_at(self, seed: int, purpose: Purpose, row: np.ndarray, draw: np.ndarray) -> np.ndarray:
        """Four random words for some draws of some rows: uint32 of shape (4, len(row))."""
        keys = (each[row] for each in (self.instance, self.document, self.epoch))
        return words(seed, purpose, draw, *keys)


@dataclass(frozen=True)
class Chosen:
    """Tokens to predict, in the order of rows and positions.

    Attributes:
        row: int64 of shape (m,).
        position: in the row.
        slot: number of the prediction within its row.
        lead: slot of the first token of its gram; a gram shares one decision.
        counts: predictions of each row.
    """

    row: np.ndarray
    position: np.ndarray
    slot: np.ndarray
    lead: np.ndarray
    counts: np.ndarray

    @classmethod
    def of(cls, row: np.ndarray, position: np.ndarray, begins: Any, rows: int) -> Chosen:
        """From rows and positions, sorted.

        Args:
            row: of each token.
            position: of each token.
            begins: whether each token is the first of its gram.
            rows: number of rows.
        """
        counts = np.bincount(row, minlength=rows)
        slot = np.arange(len(row)) - np.repeat(np.cumsum(counts) - counts, counts)
        lead = np.maximum.accumulate(np.where(begins, np.arange(len(row)), 0))
        return cls(row, position, slot, slot[lead], counts)


def choose_tokens(rows: Rows, options: Options) -> Chosen:
    """Chooses single tokens: of each row's text, every set of them with the same probability.

    Args:
        rows: instances.
        options: how many tokens to choose.
    """
    text = rows.first + rows.second
    counts = options.predictions[text + 3]
    most = int(counts.max(initial=0))
    random = rows.draw(options.random_seed, Purpose.CHOOSE, most)
    every = np.arange(len(rows))
    # The first steps of a Fisher-Yates shuffle; one column a row, so that a step is contiguous.
    order = np.repeat(np.arange(options.room, dtype=np.int16)[:, None], len(rows), axis=1)
    flat = order.reshape(-1)
    for step in range(most):
        other = step + below(random[:, step], np.maximum(text - step, 1))
        at = other * len(rows) + every
        drawn = flat[at]
        flat[at] = order[step]
        order[step] = drawn
    position = order[:most].T.astype(np.int64)
    position += 1 + (position >= rows.first[:, None])
    used = np.arange(most) < counts[:, None]
    position[~used] = options.max_seq_length
    position.sort(axis=1)
    row = np.repeat(every, counts)
    return Chosen.of(row, position[used], np.ones(len(row), bool), len(rows))


@dataclass(frozen=True)
class Replacing:
    """What masked tokens are replaced by.

    Attributes:
        mask: id of [MASK].
        others: ids to choose from at random; uint32.
    """

    mask: int
    others: np.ndarray


def replace_tokens(
    rows: Rows, chosen: Chosen, replacing: Replacing, options: Options
) -> np.ndarray:
    """Hides the chosen tokens: of grams, 80 % become [MASK], 10 % stay, 10 % become random tokens.

    Args:
        rows: instances; ``rows.ids`` is changed.
        chosen: tokens to predict.
        replacing: what may stand in their places.
        options: the seed.

    Returns:
        What the tokens were, of the type of the ids, shape (m,).
    """
    originals = rows.ids[chosen.row, chosen.position]
    decided = rows.draw(options.random_seed, Purpose.DECIDE, int(chosen.counts.max(initial=0)))
    decision = decided[chosen.row, chosen.lead]
    hidden = decision < _MASKED
    rows.ids[chosen.row[hidden], chosen.position[hidden]] = replacing.mask
    random = np.flatnonzero(decision >= _KEPT)
    row = chosen.row[random]
    drawn = rows.draw_at(options.random_seed, Purpose.REPLACE, row, chosen.slot[random])[0]
    others = replacing.others[below(drawn, len(replacing.others))]
    rows.ids[row, chosen.position[random]] = others
    return originals
