"""Rows of several streams in turn, or drawn with weights.

Which stream gives the next row is drawn from a sequence that depends on seed, epoch and number of
the draw alone. So a position is that number. Weights may be others after a resume: they turn the
same random numbers into other choices from there on. Which weights held for which draws is part of
the position, since draws before it are often done again.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar

from provender.data.stream.block import Block, join
from provender.data.stream.concat import Several
from provender.data.stream.draws import Draws, key_of
from provender.data.stream.flow import Flow, Reader, State
from provender.data.stream.node import Node, Run, start
from provender.data.stream.seeds import Seed
from provender.errors import SettingsError

if TYPE_CHECKING:
    import numpy as np

STRATEGIES = ("first_exhausted", "all_exhausted", "all_exhausted_without_replacement")
_AT_ONCE = 1024


@dataclass(frozen=True, eq=False)
class Interleave(Several):
    """A row of one stream, a row of another.

    Attributes:
        seed: for the draws.
        weights: how likely each stream is; None: one after the other in turn.
        strategy: when it ends; see `check_strategy`.
        key: the draws' key, once the epoch is known.
        salt: tells divided parts apart, so that they do not all draw alike.
    """

    name: ClassVar[str] = "interleave"

    seed: Seed = None  # type: ignore[assignment]
    weights: tuple[float, ...] | None = None
    strategy: str = "first_exhausted"
    key: int = 0
    salt: tuple[Any, ...] = ()

    def parameters(self) -> Any:
        # The weights are left out: they may be changed at a resume.
        return (self.strategy, self.weights is not None, self.seed.parameters())

    def rows(self) -> int | None:
        counts = [each.rows() for each in self.parts]
        known = [count for count in counts if count is not None]
        if len(known) < len(counts):
            return None
        if self.strategy == "all_exhausted_without_replacement":
            return sum(
                count for count, weight in zip(known, self._weights(), strict=True) if weight > 0
            )
        if self.weights is not None or 0 in known:
            return None
        ends = [(count - 1) * len(known) + at + 1 for at, count in enumerate(known)]
        return min(ends) if self.strategy == "first_exhausted" else max(ends)

    def _weights(self) -> Sequence[float]:
        return self.weights if self.weights is not None else [1.0] * len(self.parts)

    def num_parts(self) -> int:
        return min(each.num_parts() for each in self.parts)

    def pick(self, parts: Sequence[int]) -> Node:
        groups = self.num_parts()
        children = []
        for each in self.parts:
            have = each.num_parts()
            children.append(each.pick([p for part in parts for p in range(part, have, groups)]))
        salt = self.salt if groups == 1 else (*self.salt, tuple(parts))
        return replace(self, parts=tuple(children), salt=salt)

    def permuted(self, key: int) -> Node:
        children = [each.permuted(key_of(key, at)) for at, each in enumerate(self.parts)]
        return replace(self, parts=tuple(children))

    def mixed(self, parts: int, run: int) -> Node:
        return replace(self, parts=tuple(each.mixed(parts, run) for each in self.parts))

    def refined(self, count: int) -> Node | None:
        finer = [made for each in self.parts if (made := each.refined(count)) is not None]
        return replace(self, parts=tuple(finer)) if len(finer) == len(self.parts) else None

    def resolved(self, run: Run) -> Node:
        made = super().resolved(run)
        assert isinstance(made, Interleave)
        return replace(made, key=key_of("interleave", self.seed.used(run), run.epoch))

    def open(self, run: Run, state: State) -> Flow:
        return InterleaveFlow(self, run, state)


class InterleaveFlow(Flow):
    """Running `Interleave`: its state is the number of draws, who is exhausted, all places.

    Where streams are drawn the state also has the weights, each with the first draw that they are
    for. Places that somebody above keeps share this list, so that a later change is in all of them.
    """

    exact = True

    def __init__(self, node: Interleave, run: Run, state: State) -> None:
        import numpy as np

        self._node = node
        self._run = run
        count = len(node.parts)
        self._draws = Draws(key_of(node.key, *node.salt))
        self._weights = np.array(node._weights(), np.float64)
        self._bounds = self._weights
        self._history: list[tuple[int, list[float]]] = []
        self._part = -1
        self._lock = threading.Lock()
        self._at = 0 if state is None else int(state["n"])
        self._exhausted = np.zeros(count, bool)
        if state is not None:
            self._exhausted[state["x"]] = True
        places = [None] * count if state is None else state["up"]
        self._readers = [
            Reader(start(part, run, place)) for part, place in zip(node.parts, places, strict=True)
        ]
        self._first = node.strategy == "first_exhausted"
        self._replaces = node.strategy == "all_exhausted"
        if node.weights is not None:
            name = f"{run.path} {node.salt}"
            found = (
                state["w"]
                if state is not None
                else run.resuming.history(node.seed, name, node.weights)
            )
            self._history = [(int(first), list(map(float, each))) for first, each in found]
            if not run.resuming.join(self, node.seed, name, self._history):
                self.settle()

    def settle(self) -> None:
        """From the next draw on the weights are the node's own."""
        own = list(self._node._weights())
        # A thread that reads ahead may be drawing.
        with self._lock:
            if self._history[-1][1] == own:
                return
            kept = [each for each in self._history if each[0] < self._at]
            self._history[:] = [*kept, (self._at, own)]
            self._part = -1

    def _until(self) -> int | None:
        """Takes up the weights of the next draw; returns the first draw that has others."""
        import numpy as np

        if not self._history:
            return None
        part = max(at for at, (first, _) in enumerate(self._history) if first <= self._at)
        if part != self._part:
            self._part = part
            self._weights = np.array(self._history[part][1], np.float64)
            self._bounds = np.cumsum(self._weights) / self._weights.sum()
        return self._history[part + 1][0] if part + 1 < len(self._history) else None

    def _over(self) -> bool:
        if self._first:
            return bool(self._exhausted.any())
        # A stream that is never drawn cannot hold up the end.
        return bool(self._exhausted[self._weights > 0].all())

    def _choices(self, count: int) -> np.ndarray:
        """Who gives the next rows."""
        import numpy as np

        if self._node.weights is None:
            return np.arange(self._at, self._at + count) % len(self._readers)
        drawn = self._draws.fractions(self._at, count)
        return np.minimum(np.searchsorted(self._bounds, drawn, "right"), len(self._readers) - 1)

    def _next(self, limit: int | None) -> Block | None:
        with self._lock:
            return self._some(_AT_ONCE if limit is None else min(limit, _AT_ONCE))

    def _some(self, most: int) -> Block | None:
        import numpy as np

        while self._readers:
            until = self._until()
            if self._over():
                break
            choices = self._choices(most if until is None else min(most, until - self._at))
            places = np.arange(len(choices))
            if not self._first and not self._replaces and self._exhausted.any():
                places = np.flatnonzero(~self._exhausted[choices])
            block = self._drawn(choices, places)
            if block is not None:
                return block
        return None

    def _drawn(self, choices: np.ndarray, places: np.ndarray) -> Block | None:
        """The rows for some draws, up to the first that exhausts a stream."""
        import numpy as np

        drawn = choices[places]
        ends = None
        for source in np.unique(drawn).tolist():
            mine = np.flatnonzero(drawn == source)
            have = self._readers[source].ensure(len(mine) + 1)
            if have <= len(mine):
                # Its last row is given by this draw; one without any row ends at its first draw.
                place = int(mine[max(have - 1, 0)])
                if ends is None or place < ends[0]:
                    ends = (place, source, have > 0)
        if ends is None:
            self._at += len(choices)
        else:
            self._at += int(places[ends[0]]) + 1
            drawn = drawn[: ends[0] + (1 if ends[2] else 0)]
        block = self._gathered(drawn) if len(drawn) else None
        if ends is not None:
            self._exhaust(ends[1])
        return block

    def _gathered(self, drawn: np.ndarray) -> Block:
        """One row of each stream drawn, in that order."""
        import numpy as np

        blocks = []
        for source, count in enumerate(np.bincount(drawn, minlength=len(self._readers)).tolist()):
            if count:
                blocks += self._readers[source].take(count)
        sources = np.argsort(drawn, kind="stable")
        order = np.empty(len(drawn), np.int64)
        order[sources] = np.arange(len(drawn))
        made = join(blocks).select(order)
        made.numbers = None
        return made

    def _exhaust(self, source: int) -> None:
        self._exhausted[source] = True
        if self._replaces and not self._over():
            self._readers[source].close()
            again = self._run.within(self._at)
            self._readers[source] = Reader(start(self._node.parts[source], again))

    def _state(self) -> State:
        import numpy as np

        state = {
            "n": self._at,
            "x": np.flatnonzero(self._exhausted).tolist(),
            "up": [reader.state() for reader in self._readers],
        }
        return {**state, "w": self._history} if self._history else state

    def close(self) -> None:
        for reader in self._readers:
            reader.close()


def check_strategy(strategy: str) -> str:
    """One of: ``first_exhausted`` (ends with the first stream that does), ``all_exhausted``
    (streams that end begin again until every one has ended once) and
    ``all_exhausted_without_replacement`` (every row exactly once).

    Raises:
        SettingsError: there is no such strategy.
    """
    if strategy not in STRATEGIES:
        import difflib

        near = difflib.get_close_matches(str(strategy), STRATEGIES, 1, 0.3)
        raise SettingsError(
            f"There is no stopping strategy {strategy!r}.",
            where="interleave_datasets(stopping_strategy=)",
            hint=f"Did you mean {near[0]!r}?" if near else f"There are: {', '.join(STRATEGIES)}.",
        )
    return strategy


def check_weights(weights: Sequence[float] | None, count: int) -> tuple[float, ...] | None:
    """Probabilities of `count` streams.

    Raises:
        SettingsError: they are not as many, one is negative or no number, or the sum is not 1.
    """
    if weights is None:
        return None
    import math

    where = "interleave_datasets(probabilities=)"
    values = tuple(float(weight) for weight in weights)
    if len(values) != count:
        raise SettingsError(
            f"There are {count} datasets and {len(values)} probabilities.",
            where=where,
            hint="Give one for each dataset, in the same order.",
        )
    if any(not math.isfinite(value) or value < 0 for value in values):
        raise SettingsError(
            f"A probability is negative or not a number: {list(values)}.",
            where=where,
            hint="Each is from 0 to 1.",
        )
    total = math.fsum(values)
    if abs(total - 1) > 1e-6:
        raise SettingsError(
            f"The probabilities sum to {total:.6g}, not to 1.",
            where=where,
            hint=f"Divide each by {total:.6g}." if total else "At least one must be above 0.",
            facts={"probabilities": list(values), "sum": total},
        )
    return values
