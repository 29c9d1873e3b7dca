"""Masking whole words and runs of words: grams, chosen at random until the row's budget is spent.

Of each size of gram there is a list of all grams of a row. A step draws a size, with weights 1/size
among the lists that are not used up, then one of its grams that was not drawn before; it is taken
if it fits into what is left of the budget and shares no word with one taken before. All rows take
their steps together.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from provender.nlp.pretraining.counter import Purpose, below
from provender.nlp.pretraining.masking import Chosen, Rows
from provender.nlp.pretraining.options import Options


def choose_grams(rows: Rows, options: Options, continues: np.ndarray) -> Chosen:
    """Chooses whole words, or runs of up to ``options.max_ngram_size`` words of one segment.

    Args:
        rows: instances.
        options: how many tokens to choose, and the longest run.
        continues: whether each token of the vocabulary continues a word; bool, by id.
    """
    found = _Words.of(rows, continues)
    first = _choose(rows, options, found)
    # A token is to be predicted if its word belongs to a gram that was taken.
    row, position = found.token_row, found.token_position
    begin = first[row, found.token_word]
    taken = begin >= 0
    row, position, begin = row[taken], position[taken], begin[taken]
    return Chosen.of(row, position, position == begin, len(rows))


@dataclass(frozen=True)
class _Words:
    """The words of rows.

    Attributes:
        first: words of each first segment; int64.
        second: words of each second segment.
        starts: position at which each word begins, and after a row's last word anything; int64 of
            shape (n, words).
        ends: position after each word.
        token_row: row of each token of text, in order.
        token_position: its position.
        token_word: number of its word in the row.
    """

    first: np.ndarray
    second: np.ndarray
    starts: np.ndarray
    ends: np.ndarray
    token_row: np.ndarray
    token_position: np.ndarray
    token_word: np.ndarray

    @classmethod
    def of(cls, rows: Rows, continues: np.ndarray) -> _Words:
        columns = np.arange(rows.ids.shape[1])
        separator = rows.first[:, None] + 1
        text = (columns > 0) & (columns != separator)
        text &= columns < (rows.first + rows.second + 2)[:, None]
        begins = text & ~continues[rows.ids]
        # What continues a word whose beginning was cut off is a word, too.
        begins[:, 1] = True
        begins[np.arange(len(rows)), rows.first + 2] = True
        begins &= text
        number = np.cumsum(begins, axis=1) - 1
        counts = number[:, -1] + 1
        first = np.take_along_axis(number, separator, 1)[:, 0] + 1
        row, position = np.nonzero(begins)
        starts = np.zeros((len(rows), int(counts.max(initial=1))), np.int64)
        ends = np.zeros_like(starts)
        starts[row, number[row, position]] = position
        token_row, token_position = np.nonzero(text)
        token_word = number[token_row, token_position]
        # Tokens come in order, so the last one of a word is what remains.
        ends[token_row, token_word] = token_position + 1
        return cls(first, counts - first, starts, ends, token_row, token_position, token_word)


def _choose(rows: Rows, options: Options, found: _Words) -> np.ndarray:
    """Where the gram begins that took each word, or -1; int64 of the shape of ``found.starts``."""
    lists = _Lists.of(found, options.max_ngram_size or 1)
    budget = options.predictions[rows.first + rows.second + 3].copy()
    taken = np.full(found.starts.shape, -1, np.int64)
    active = np.arange(len(rows))
    step = 0
    while len(active):
        random = rows.draw_at(
            options.random_seed, Purpose.CHOOSE, active, np.full(len(active), step)
        )
        kind = lists.draw_size(active, random[0])
        word = lists.draw_gram(active, kind, random[1])
        _take(found, budget, taken, active, kind, word)
        active = active[(budget[active] > 0) & lists.has_more(active)]
        step += 1
    return taken


@dataclass(frozen=True)
class _Lists:
    """The grams of rows by size, each list in an order that is shuffled as it is drawn from.

    Attributes:
        weights: of the sizes; int64 of shape (sizes,). A gram of ``k`` words is of kind ``k - 1``.
        first: words of each row's first segment.
        in_first: grams that lie in the first segment; int64 of shape (n, sizes).
        totals: grams in all.
        drawn: how many were drawn.
        order: numbers of grams; int16 of shape (n, sizes, words).
    """

    weights: np.ndarray
    first: np.ndarray
    in_first: np.ndarray
    totals: np.ndarray
    drawn: np.ndarray
    order: np.ndarray

    @classmethod
    def of(cls, found: _Words, largest: int) -> _Lists:
        sizes = np.arange(1, largest + 1)
        # No gram lies in two segments: [SEP] is between.
        in_first = np.maximum(found.first[:, None] - sizes + 1, 0)
        totals = in_first + np.maximum(found.second[:, None] - sizes + 1, 0)
        count, words = found.starts.shape
        order = np.broadcast_to(np.arange(words, dtype=np.int16), (count, largest, words)).copy()
        weights = math.lcm(*sizes.tolist()) // sizes
        return cls(weights, found.first, in_first, totals, np.zeros_like(totals), order)

    def has_more(self, active: np.ndarray) -> np.ndarray:
        """Whether rows have grams left that were not drawn."""
        more: np.ndarray = (self.drawn[active] < self.totals[active]).any(axis=1)
        return more

    def draw_size(self, active: np.ndarray, random: np.ndarray) -> np.ndarray:
        """Draws a kind for each active row, among those that have grams left."""
        weights = self.weights * (self.drawn[active] < self.totals[active])
        sums = np.cumsum(weights, axis=1)
        kind: np.ndarray = (below(random, sums[:, -1])[:, None] >= sums).sum(axis=1)
        return kind

    def draw_gram(self, active: np.ndarray, kind: np.ndarray, random: np.ndarray) -> np.ndarray:
        """Draws a gram of its kind for each active row, and gives its first word."""
        drawn = self.drawn[active, kind]
        at = drawn + below(random, self.totals[active, kind] - drawn)
        gram = self.order[active, kind, at].astype(np.int64)
        self.order[active, kind, at] = self.order[active, kind, drawn]
        self.drawn[active, kind] += 1
        in_first = self.in_first[active, kind]
        return np.where(gram < in_first, gram, gram - in_first + self.first[active])


def _take(
    found: _Words,
    budget: np.ndarray,
    taken: np.ndarray,
    active: np.ndarray,
    kind: np.ndarray,
    word: np.ndarray,
) -> None:
    """Takes the grams drawn, where they fit the budget and none of their words is taken."""
    begin = found.starts[active, word]
    size = found.ends[active, word + kind] - begin
    good = size <= budget[active]
    reach = range(int(kind.max()) + 1)
    for step in reach:
        inside = np.minimum(step, kind)
        good &= taken[active, word + inside] < 0
    row, begin, word, kind = active[good], begin[good], word[good], kind[good]
    for step in reach:
        taken[row, word + np.minimum(step, kind)] = begin
    budget[row] -= size[good]
