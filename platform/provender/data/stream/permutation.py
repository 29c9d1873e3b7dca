"""Permutations of ``range(n)`` that are computed place by place, not stored.

`Permutation` is exact: a Feistel network over the smallest power of two that holds n, walked again
where it leaves the range (Black and Rogaway, "Ciphers with arbitrary finite domains", CT-RSA 2002).
`BlockOrder` keeps neighbours together in blocks, so that they can be read in one piece: windows
take a block from each stretch of the data, and the rows of a window are permuted.
"""

from __future__ import annotations

from functools import cached_property

import numpy as np

from provender.data.stream.draws import Draws, key_of, order_of

_ROUNDS = 8
_SMALL = 1 << 16
_ATTEMPTS, _LEAN = 64, 0.002
"""Orders of windows that are tried, and the rank correlation with the file order that will do."""


def mixed(values: np.ndarray) -> np.ndarray:
    """Every bit of a 64-bit word spread over all (the finisher of SplitMix64)."""
    values = (values ^ (values >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    values = (values ^ (values >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return values ^ (values >> np.uint64(31))


class Permutation:
    """A permutation of ``range(n)``, a function of a key.

    Args:
        n: how many.
        key: which of them.
    """

    def __init__(self, n: int, key: int) -> None:
        self.n = n
        self._key = key
        bits = max(2, (n - 1).bit_length()) if n else 2
        self._widths = (bits // 2, bits - bits // 2)
        self._keys = Draws(key_of(key, "rounds")).words(0, _ROUNDS)

    @cached_property
    def _stored(self) -> np.ndarray:
        return order_of(self._key, self.n)

    def at(self, places: np.ndarray) -> np.ndarray:
        """What stands at places of the permutation, int64, shape as given."""
        places = np.asarray(places, np.int64)
        if self.n <= _SMALL:
            # Small ones are stored: a network over few bits is a poor one.
            return self._stored[places]
        values = self._walked(places.astype(np.uint64))
        outside = np.flatnonzero(values >= self.n)
        while len(outside):
            values[outside] = self._walked(values[outside])
            outside = outside[values[outside] >= self.n]
        return values.astype(np.int64)

    def _walked(self, values: np.ndarray) -> np.ndarray:
        narrow, wide = self._widths
        left = values >> np.uint64(wide)
        right = values & np.uint64((1 << wide) - 1)
        for number, key in enumerate(self._keys):
            # The halves swap; their widths do too where the number of bits is odd.
            width = narrow if number % 2 == 0 else wide
            fresh = (left ^ mixed(right + key)) & np.uint64((1 << width) - 1)
            left, right = right, fresh
        return (left << np.uint64(wide)) | right


class BlockOrder:
    """A permutation of ``range(n)`` in which rows stay near those of their block.

    The data are cut into blocks and these into as many stretches as a window holds blocks; every
    window takes one random block from each stretch, and its rows come in random order.

    Args:
        n: how many rows.
        block: rows of a block.
        window: rows of a window, at least two blocks.
        key: which permutation.
    """

    def __init__(self, n: int, block: int, window: int, key: int) -> None:
        self.n = n
        self.block = block
        self._key = key
        count = -(-n // block)
        most = max(2, min(window // block, count) // 2 * 2)
        # Of the widths that fit, the one that leaves the fewest windows a block short.
        fitting = [wide for wide in range(most, max(most // 2, 2) - 1, -1) if wide % 2 == 0]
        wide = min(fitting, key=lambda each: -count % each) if count > 1 else 1
        if window >= n:
            wide = max(count, 1)
        windows = -(-count // wide)
        order = np.full((windows, wide), -1, np.int64)
        for stretch in range(wide):
            have = np.full(windows, -1, np.int64)
            own = np.arange(count * stretch // wide, count * (stretch + 1) // wide)
            have[: len(own)] = own
            # Stretches go in pairs, one from its end where the other is from its beginning, so
            # that the windows have the same mean place in the data.
            chosen = order_of(key_of(key, "stretch", stretch // 2), windows)
            order[:, stretch] = have[chosen if stretch % 2 == 0 else windows - 1 - chosen]
        sizes = np.where(order < 0, 0, block)
        sizes[order == count - 1] -= count * block - n
        # Windows that lack rows lean to one end of the data; in the middle that leans nowhere.
        lacking = sizes.sum(axis=1) < wide * block
        whole, short = np.flatnonzero(~lacking), np.flatnonzero(lacking)
        turn = np.concatenate([whole[: len(whole) // 2], short, whole[len(whole) // 2 :]])
        if len(short):
            turn = self._upright(order, sizes, turn)
        order, sizes = order[turn], sizes[turn]
        self._blocks, self._sizes = order, sizes
        self._starts = np.concatenate([[0], np.cumsum(sizes.sum(axis=1))])
        self._last: tuple[int, Permutation] | None = None

    def _upright(self, order: np.ndarray, sizes: np.ndarray, turn: np.ndarray) -> np.ndarray:
        """An order of the windows that has next to no trace of where in the data they lie.

        Args:
            order: blocks of each window, shape ``[windows, wide]``.
            sizes: rows of them.
            turn: the order to begin with; of some random ones the best is taken if it leans.
        """
        rows = sizes.sum(axis=1)
        middles = ((order * self.block + sizes / 2) * sizes).sum(axis=1) / rows - self.n / 2
        best, least = turn, np.inf
        for attempt in range(_ATTEMPTS):
            own = rows[turn]
            when = np.cumsum(own) - own / 2 - self.n / 2
            # Spearman's correlation of the whole order, as far as the windows decide it.
            lean = abs(float((own * when * middles[turn]).sum())) * 12 / float(self.n) ** 3
            if lean < least:
                best, least = turn, lean
            if least < _LEAN:
                break
            turn = order_of(key_of(self._key, "turn", attempt), len(rows))
        return best

    def window_end(self, place: int) -> int:
        """The place after the last of the window that `place` is in."""
        return int(self._starts[np.searchsorted(self._starts, place, "right")])

    def at(self, places: np.ndarray) -> np.ndarray:
        """What stands at places of the permutation, int64, shape as given."""
        places = np.asarray(places, np.int64)
        windows = np.searchsorted(self._starts, places, "right") - 1
        values = np.empty(len(places), np.int64)
        for window in np.unique(windows).tolist():
            mine = windows == window
            within = self._within(window).at(places[mine] - self._starts[window])
            ends = np.cumsum(self._sizes[window])
            column = np.searchsorted(ends, within, "right")
            begins = ends - self._sizes[window]
            values[mine] = self._blocks[window][column] * self.block + within - begins[column]
        return values

    def _within(self, window: int) -> Permutation:
        if self._last is None or self._last[0] != window:
            size = int(self._starts[window + 1] - self._starts[window])
            self._last = (window, Permutation(size, key_of(self._key, "window", window)))
        return self._last[1]
