"""How long to wait before the next try."""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from dataclasses import dataclass

_SLICE_SECONDS = 0.2
# A server may ask for hours; somebody is waiting, so a longer wish is reported as a failure.
LONGEST_REQUESTED_WAIT = 300.0


@dataclass(frozen=True, slots=True)
class Backoff:
    """Exponential waits with jitter, so that many clients do not come back at once.

    Attributes:
        retries: tries after the first; the count starts again whenever bytes arrive.
        base: seconds before the first retry, doubled for each further one.
        cap: the longest wait in seconds that is chosen here.
    """

    retries: int = 6
    base: float = 0.5
    cap: float = 30.0

    def delay(self, failures: int, requested: float | None = None) -> float | None:
        """Seconds to wait after that many failures in a row; None when it is time to give up.

        Args:
            failures: at least 1.
            requested: the server's Retry-After, which is waited for in full.
        """
        if failures > self.retries:
            return None
        if requested is not None:
            return requested if requested <= LONGEST_REQUESTED_WAIT else None
        ceiling = min(self.cap, self.base * 2.0 ** (failures - 1))
        return ceiling * random.uniform(0.5, 1.0)  # noqa: S311 - spreading load, not a secret


class Cancelled(Exception):
    """The work was given up because its result is no longer wanted."""


def sleep(seconds: float, cancelled: Callable[[], bool] | None) -> None:
    """Sleeps, and wakes early when cancelled.

    Raises:
        Cancelled: ``cancelled`` said so.
    """
    end = time.monotonic() + seconds
    while (left := end - time.monotonic()) > 0:
        if cancelled and cancelled():
            raise Cancelled
        time.sleep(min(left, _SLICE_SECONDS))
