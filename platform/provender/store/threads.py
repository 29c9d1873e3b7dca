"""Doing many calls that wait on a network at once."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TypeVar

_WORKERS = 16

Item = TypeVar("Item")
Result = TypeVar("Result")


def parallel(act: Callable[[Item], Result], items: Iterable[Item]) -> list[Result]:
    """``[act(item) for item in items]`` with up to 16 calls at a time."""
    todo = list(items)
    if len(todo) < 2:
        return [act(item) for item in todo]
    from concurrent.futures import ThreadPoolExecutor

    with ThreadPoolExecutor(_WORKERS, thread_name_prefix="provender-store") as pool:
        return list(pool.map(act, todo))
