"""Work begun before it is needed."""

from __future__ import annotations

import threading

import pytest

from provender.training.feed.ahead import AHEAD, Ahead


def test_work_runs_before_it_is_taken_and_once() -> None:
    done: list[int] = []
    ready = threading.Event()

    def work(key: int) -> int:
        done.append(key)
        ready.set()
        return key * 2

    ahead = Ahead(work)
    ahead.begin(4)
    ahead.begin(4)
    assert ready.wait(10)
    assert ahead.take(4) == 8
    assert done == [4]
    assert ahead.take(4) == 8, "what was not begun is done when it is taken"
    assert done == [4, 4]


def test_few_are_done_at_once() -> None:
    gate, lock, busy, most = threading.Event(), threading.Lock(), [0], [0]
    full = threading.Event()

    def work(key: int) -> int:
        with lock:
            busy[0] += 1
            most[0] = max(most[0], busy[0])
            if busy[0] == AHEAD:
                full.set()
        assert gate.wait(10)
        with lock:
            busy[0] -= 1
        return key

    ahead = Ahead(work)
    for key in range(6):
        ahead.begin(key)
    assert full.wait(10)
    gate.set()
    assert [ahead.take(key) for key in range(6)] == list(range(6))
    assert most[0] == AHEAD


def test_an_error_is_raised_where_the_result_is_taken() -> None:
    def work(key: int) -> int:
        message = f"no {key}"
        raise OSError(message)

    ahead = Ahead(work)
    ahead.begin(3)
    with pytest.raises(OSError, match="no 3"):
        ahead.take(3)
