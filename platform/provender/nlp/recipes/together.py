"""Work that several processes need, done by all of them together, each piece once.

Nobody hands out the pieces. Whoever needs the result takes a piece that nobody is at, until all are
done; a lock of the system says who is at what, and lets go when a process dies. So it does not matter
which processes they are, how many, or who started them.
"""

from __future__ import annotations

import contextlib
import fcntl
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from provender.records.atomic import told_as_ours

Piece = tuple[Callable[[], bool], Callable[[], None]]
"""Whether it is done, and what does it."""


def do_together(locks: Path, step: str, pieces: Sequence[Piece]) -> None:
    """Does pieces that do not depend on each other; returns when all of them are done.

    Args:
        locks: folder of the lock files, the same for all who take part.
        step: name of the step, its own for each.
        pieces: the same for all, in one order.

    Raises:
        StoreError: a lock file cannot be made.
    """
    waiting = list(range(len(pieces)))
    patient = False
    while waiting:
        left = []
        for number in waiting:
            is_done, do = pieces[number]
            if is_done():
                continue
            # Where all that is left is in other hands, wait for one of them, and look again.
            with _lock(locks / f"{step}-{number:06d}", wait=patient) as ours:
                if not ours:
                    left.append(number)
                elif not is_done():
                    do()
            patient = False
        patient = len(left) == len(waiting)
        waiting = left


@contextlib.contextmanager
def _lock(file: Path, *, wait: bool) -> Iterator[bool]:
    """Holds a lock; gives False where another holds it and is not waited for."""
    with told_as_ours(file), file.open("wb") as opened:
        try:
            fcntl.flock(opened, fcntl.LOCK_EX if wait else fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            yield False
            return
        yield True
