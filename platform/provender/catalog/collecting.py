"""Large answers made without the garbage collector going through them again and again."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def uncollected() -> Iterator[None]:
    """Keeps the cyclic garbage collector from running while a large answer is put together.

    It runs by the number of objects that were made and not yet freed, so that an answer of tens
    of thousands of them, none of which is garbage, makes it go through all objects of the process
    several times: a third of the processor time of a long lineage. What is in no cycle is still freed
    at once.

    The switch is that of the process. Threads that are in here together may turn it on early for
    one another, which costs time and nothing else; it is never left off, since only who found it
    on turns it on.
    """
    found_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if found_on:
            gc.enable()
