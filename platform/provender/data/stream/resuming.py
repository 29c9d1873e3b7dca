"""What a pass must know while it goes to the place that it begins at."""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from typing import Any, Protocol

History = list[tuple[int, list[float]]]
"""Weights, each with the first draw that they are for."""


class Settling(Protocol):
    """A running operator that goes on otherwise once its pass is where it begins."""

    def settle(self) -> None:
        """The rows before the place were made again; what is new begins here."""


class Resuming:
    """The first part of a pass: rows up to the place are made once more, as they were made then.

    The place may lie before rows that are drawn from several streams. So a position tells with
    which weights they were drawn: for each such operator ``{"now": weights, "then": {which of its
    runs: history}}``, the latter only for runs in which they changed.

    Args:
        weights: that, by the seed of the operator.

    Attributes:
        failed: an error came up while rows were made again, so it is not one of the place.
    """

    def __init__(self, weights: Mapping[Any, Mapping[str, Any]] | None = None) -> None:
        self._now = {seed: each["now"] for seed, each in (weights or {}).items()}
        self._then: dict[tuple[Any, str], Any] = {
            (seed, name): history
            for seed, each in (weights or {}).items()
            for name, history in each.get("then", {}).items()
        }
        self.failed = False
        self._lock = threading.Lock()
        self._waiting: list[Settling] = []
        self._settled = False

    def history(self, seed: Any, name: str, own: Sequence[float]) -> Sequence[Any]:
        """The weights for a run that begins: those of then, as long as rows are made again."""
        known = self._then.get((seed, name))
        if known is not None:
            return list(known)
        return [(0, own if self._settled else self._now.get(seed, own))]

    def join(self, flow: Settling, seed: Any, name: str, history: History) -> bool:
        """Has `flow` told when the place is reached; False if it is already."""
        with self._lock:
            if self._settled:
                return False
            self._waiting.append(flow)
            self._then[seed, name] = history
        return True

    def told(self, seed: Any, own: Sequence[float]) -> dict[str, Any]:
        """What a position taken now tells of an operator."""
        changed = {
            name: history
            for (each, name), history in list(self._then.items())
            if each is seed and len(history) > 1
        }
        return {"now": list(own), "then": changed} if changed else {"now": list(own)}

    def advance(self, flow: Any, rows: int) -> None:
        """Goes on by rows that were given before the position was taken."""
        try:
            flow.advance(rows)
        except Exception:
            self.failed = True
            raise

    def settle(self) -> None:
        """The place is reached."""
        with self._lock:
            self._settled = True
            flows, self._waiting = self._waiting, []
        for flow in flows:
            flow.settle()
