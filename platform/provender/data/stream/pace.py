"""How many rows are worth making before the first of them is given."""

from __future__ import annotations

import time

LONGEST = 0.02
"""Seconds that the making of a block should not exceed."""

MOST = 2048


class Pace:
    """Begins with one row and doubles as long as rows come quickly.

    A function that takes a second for a row gives its first row after a second; a plain stream
    soon comes in blocks that are large enough to be cheap.
    """

    def __init__(self) -> None:
        self.limit = 1
        self._since = 0.0

    def start(self) -> int:
        """How many rows to ask for now."""
        self._since = time.perf_counter()
        return self.limit

    def stop(self, rows: int) -> None:
        """Tells how many came."""
        took = time.perf_counter() - self._since
        if took > LONGEST:
            self.limit = max(1, min(self.limit, int(rows * LONGEST / took)))
        elif rows >= self.limit:
            self.limit = min(self.limit * 2, MOST)
