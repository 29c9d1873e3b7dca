"""A small transform on the cache's own interface, and child processes that run it."""

from __future__ import annotations

import subprocess
import sys
import textwrap
from collections.abc import Callable, Sequence
from pathlib import Path

import pyarrow as pa

from provender.data.cache import Entry, Recipe, TransformCache

FP = "ab" * 20
OTHER = "cd" * 20
RECIPE = Recipe("map", "double", dataset="numbers")
ROOT = Path(__file__).parents[3]


def doubled(start: int, stop: int) -> pa.Table:
    """What the transform makes of the input rows [start, stop)."""
    return pa.table({"x": pa.array(range(2 * start, 2 * stop, 2), pa.int64())})


def compute(
    cache: TransformCache,
    fingerprint: str = FP,
    total: int = 400,
    *,
    align: int = 1,
    step: int = 5,
    recipe: Recipe = RECIPE,
    before: Callable[[int], object] = lambda row: None,
    calls: list[int] | None = None,
    fresh: bool = False,
) -> Entry:
    """Doubles the numbers below ``total``, in steps, as a transform would.

    Args:
        cache: the cache.
        fingerprint: of the result.
        total: input rows.
        align: as for `units`.
        step: rows after which the position is marked.
        recipe: what it is made from.
        before: called with each input row before it is computed.
        calls: takes the input rows that were computed.
        fresh: compute it although it is there.
    """
    found = None if fresh else cache.find(fingerprint)
    if found is not None:
        return found
    with cache.writing(fingerprint, recipe, fresh=fresh) as work:
        if work.entry is None:
            for start, stop in work.missing(total, align):
                with work.segment(start, stop) as out:
                    for first in range(start, stop, step):
                        last = min(first + step, stop)
                        for row in range(first, last):
                            before(row)
                            if calls is not None:
                                calls.append(row)
                        out.write(doubled(first, last))
                        out.mark(last)
            work.commit(None, total, schema=doubled(0, 0).schema)
        assert work.entry is not None
        return work.entry


def is_right(entry: Entry | None, total: int = 400) -> bool:
    return entry is not None and entry.table().equals(doubled(0, total).cast(entry.schema))


def program(text: str) -> list[str]:
    """A command that runs a program with this module's names at hand."""
    head = (
        f"import sys; sys.path.insert(0, {str(ROOT)!r})\nfrom tests.data.cache.programs import *\n"
    )
    return [sys.executable, "-c", head + textwrap.dedent(text)]


def run(text: str, *args: object, code: int = 0, env: dict[str, str] | None = None) -> str:
    """Runs a program to its end and returns what it printed."""
    done = subprocess.run(
        [*program(text), *map(str, args)], capture_output=True, text=True, timeout=120, env=env
    )
    assert done.returncode == code, done.stdout + done.stderr
    return done.stdout


def start(text: str, *args: object) -> subprocess.Popen[str]:
    """Starts a program."""
    return subprocess.Popen(
        [*program(text), *map(str, args)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def pieces(entry: Entry) -> Sequence[Path]:
    return sorted(entry.folder.glob("*.arrow"))
