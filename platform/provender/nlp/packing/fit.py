"""Best fit: which examples share a row.

An example goes into the open row that it fills best, the one with the fewest tokens left over. If
none has room, the fullest open row is closed and a new one takes its place, so the memory and the
time for one example do not grow with the data. Placing the longest of a buffer first (best fit
decreasing) comes close to the fewest rows there can be.

A row has room if its tokens, its mask slots and its number of segments all do.
"""

from __future__ import annotations

import bisect
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from provender import errors

if TYPE_CHECKING:
    import numpy as np

    Array = np.ndarray[Any, np.dtype[np.int64]]


@dataclass(frozen=True)
class Room:
    """What one row holds at most.

    Args:
        tokens: the row's length.
        segments: examples in a row.
        masks: mask slots; 0 where examples have none.
    """

    tokens: int
    segments: int
    masks: int = 0

    def __post_init__(self) -> None:
        if self.tokens < 1 or self.segments < 1 or self.masks < 0:
            raise errors.SettingsError(
                f"A packed row cannot have {self.tokens} tokens, {self.segments} segments and "
                f"{self.masks} mask slots.",
                hint="Give 1 or more tokens and segments, and 0 or more mask slots.",
            )


@dataclass(frozen=True)
class Layout:
    """Where every example of a buffer lies; all arrays are int64 of shape [examples].

    Args:
        row: the packed row. Rows are numbered by the first of their examples to arrive, so that
            neighbouring rows are no longer or shorter than others.
        segment: number within the row, from 1 (0 marks padding in segment ids).
        token: position of the example's first token.
        mask: the example's first mask slot.
        rows: number of packed rows.
    """

    row: Array
    segment: Array
    token: Array
    mask: Array
    rows: int


class BestFit:
    """The open rows, by number of the slot each is kept in.

    Args:
        room: what a row holds.
        open_rows: rows that are open at a time.

    Raises:
        SettingsError: `open_rows` is below 1.
    """

    def __init__(self, room: Room, open_rows: int) -> None:
        check_open_rows(open_rows)
        self.room = room
        # A slot that was never used is a row with no tokens left: the first to be replaced.
        self._by_left = [(0, slot) for slot in range(open_rows)]
        self._masks = [0] * open_rows
        self._segments = [0] * open_rows

    def place(self, tokens: int, masks: int = 0) -> tuple[int, bool]:
        """Takes one example.

        Returns:
            The slot it goes to, and whether a new row begins there (what was in the slot is closed).

        Raises:
            SettingsError: no row has room for it.
        """
        if tokens > self.room.tokens or masks > self.room.masks:
            raise too_large(self.room, tokens, masks)
        tokens = max(1, tokens)
        at = bisect.bisect_left(self._by_left, (tokens, -1))
        while at < len(self._by_left):
            left, slot = self._by_left[at]
            if self._segments[slot] > 0 and self._masks[slot] >= masks:
                del self._by_left[at]
                self._keep(slot, left - tokens, self._masks[slot] - masks, self._segments[slot] - 1)
                return slot, False
            at += 1
        _, slot = self._by_left.pop(0)
        self._keep(slot, self.room.tokens - tokens, self.room.masks - masks, self.room.segments - 1)
        return slot, True

    def _keep(self, slot: int, left: int, masks: int, segments: int) -> None:
        bisect.insort(self._by_left, (left, slot))
        self._masks[slot] = masks
        self._segments[slot] = segments


def lay_out(
    tokens: Sequence[int] | Array,
    masks: Sequence[int] | Array | None,
    room: Room,
    *,
    open_rows: int | None = None,
    decreasing: bool = True,
) -> Layout:
    """Packs one buffer of examples.

    Args:
        tokens: length of each example.
        masks: mask slots that each uses; None where examples have none.
        room: what a row holds.
        open_rows: rows open at a time; None leaves all of the buffer's open. With `decreasing` a
            number packs badly: short examples come last, when most rows are closed.
        decreasing: place the longest first; otherwise in the order of arrival.

    Raises:
        SettingsError: an example that no row has room for, or `open_rows` below 1.
    """
    import numpy as np

    # An example without a token still is a segment with a label, so it takes one token of padding.
    length = np.maximum(1, np.asarray(tokens, np.int64))
    used = np.zeros_like(length) if masks is None else np.asarray(masks, np.int64)
    order = np.argsort(-length, kind="stable") if decreasing else np.arange(len(length))
    fit = BestFit(room, max(1, len(length)) if open_rows is None else open_rows)
    row = np.empty_like(length)
    in_slot: dict[int, int] = {}
    rows = 0
    for each, need, slots in zip(
        order.tolist(), length[order].tolist(), used[order].tolist(), strict=True
    ):
        slot, opened = fit.place(need, slots)
        if opened:
            in_slot[slot], rows = rows, rows + 1
        row[each] = in_slot[slot]
    first = np.full(rows, len(length), np.int64)
    np.minimum.at(first, row, np.arange(len(length)))
    number = np.empty(rows, np.int64)
    number[np.argsort(first)] = np.arange(rows)
    row = number[row]
    by_row = np.argsort(row, kind="stable")
    sizes = np.bincount(row, minlength=rows)
    start = np.repeat(np.cumsum(sizes) - sizes, sizes)

    def before(amount: Array) -> Array:
        """Sum of `amount` over the examples that come earlier in the same row."""
        running = np.cumsum(amount[by_row]) - amount[by_row]
        found = np.empty_like(amount)
        found[by_row] = running - running[start] if len(running) else running
        return found

    return Layout(row, before(np.ones_like(row)) + 1, before(length), before(used), rows)


def check_open_rows(open_rows: int) -> None:
    """Refuses a number of open rows that nothing can be packed with.

    Raises:
        SettingsError: it is below 1.
    """
    if open_rows < 1:
        raise errors.SettingsError(
            f"There must be 1 open row or more, but open_rows is {open_rows}.",
            hint="64 is the usual value; more packs a little better and takes longer.",
        )


def too_large(room: Room, tokens: int, masks: int) -> errors.SettingsError:
    """The error for an example that no row has room for."""
    return errors.SettingsError(
        f"An example of {tokens} tokens and {masks} masked positions fits no packed row: a row has "
        f"{room.tokens} tokens and {room.masks} mask slots.",
        hint="Raise the rows' length or mask slots, or make the records shorter.",
        facts={"tokens": tokens, "masks": masks},
    )
