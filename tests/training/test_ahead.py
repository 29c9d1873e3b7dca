"""Work begun before it is needed."""

from __future__ import annotations

import threading
import time

import pytest

from provender.errors import StoreError
from provender.training.feed import ahead as module
from provender.training.feed.ahead import AHEAD, Ahead, Calls


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


def test_the_end_waits_for_calls_and_answers_no_more() -> None:
    calls, inside, done = Calls(), threading.Event(), []

    def slow() -> None:
        inside.set()
        time.sleep(0.3)
        done.append(True)

    threading.Thread(target=calls.counted(slow)).start()
    assert inside.wait(10)
    calls.end()
    assert done == [True]
    with pytest.raises(StoreError, match="The process ends"):
        calls.counted(slow)()
    calls.end()
    assert done == [True]


def test_the_end_waits_for_no_download(monkeypatch: pytest.MonkeyPatch) -> None:
    calls, gate = Calls(), threading.Event()
    monkeypatch.setattr(module, "CALLS", calls)
    ahead: Ahead[int, bool] = Ahead(lambda key: gate.wait(60))
    ahead.begin(1)
    said: list[str] = []

    def take() -> None:
        try:
            ahead.take(1)
        except StoreError as error:
            said.append(error.message)

    taker = threading.Thread(target=calls.counted(take))
    taker.start()
    time.sleep(0.05)
    calls.end()
    taker.join(10)
    gate.set()
    assert said == ["The process ends, so nothing more is read."]
