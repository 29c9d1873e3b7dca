"""Bytes come in order however many ranges are on their way, and nothing is left behind."""

from __future__ import annotations

import os
import threading
import time
from typing import Any

import pytest

from provender.store import relay
from provender.store.relay import Relay

DATA = os.urandom(1_000_003)
BLOCK = 100_000


class Ranges:
    """Ranges of `DATA` that come in small pieces; counts how many are open at once."""

    def __init__(self, fails_at: int | None = None, ends_at: int = len(DATA)) -> None:
        self.fails_at = fails_at
        self.ends_at = ends_at
        self.open = self.most = 0
        self.spans: list[tuple[int, int]] = []
        self.lock = threading.Lock()

    def __call__(self, start: int, length: int) -> Any:
        with self.lock:
            self.spans.append((start, length))
            self.open += 1
            self.most = max(self.most, self.open)
        return _Range(self, start, start + length)


class _Range:
    def __init__(self, ranges: Ranges, at: int, end: int) -> None:
        self.ranges, self.at, self.end = ranges, at, min(end, ranges.ends_at)

    def readinto(self, buffer: memoryview) -> int:
        time.sleep(0.0005)
        if self.ranges.fails_at is not None and self.at >= self.ranges.fails_at:
            raise ConnectionError("cut")
        count = max(min(len(buffer), 30_000, self.end - self.at), 0)
        buffer[:count] = DATA[self.at : self.at + count]
        self.at += count
        return count

    def close(self) -> None:
        with self.ranges.lock:
            self.ranges.open -= 1


def run(ranges: Ranges, start: int = 0, **options: Any) -> tuple[int, bytes]:
    got = bytearray()
    end = Relay(ranges, start, len(DATA), BLOCK, got.extend, **options).run()
    assert ranges.open == 0
    assert [each for each in threading.enumerate() if each.name == "provender-read"] == []
    return end, bytes(got)


@pytest.mark.parametrize("start", [0, 1, 99_999, 950_000, len(DATA)])
@pytest.mark.parametrize("at_once", [True, False])
def test_all_bytes_in_order(start: int, at_once: bool) -> None:
    ranges = Ranges()
    assert run(ranges, start, at_once=at_once) == (len(DATA), DATA[start:])
    assert sum(length for _, length in ranges.spans) == len(DATA) - start


@pytest.mark.parametrize(("waits", "most"), [(False, 1), (True, 2)])
def test_several_ranges_are_asked_for_where_one_is_waited_for(
    waits: bool, most: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(relay, "in_flight", lambda: 2)
    monkeypatch.setattr(relay._Clock, "waits", lambda self: waits)
    ranges = Ranges()
    assert run(ranges)[1] == DATA
    assert ranges.most == most


def test_a_thread_that_sleeps_waits_and_one_that_works_does_not() -> None:
    clock = relay._Clock()
    time.sleep(0.05)
    assert clock.waits()
    clock = relay._Clock()
    while time.thread_time() - clock._worked < 0.05:
        pass
    clock._begun = time.perf_counter() - 0.09  # however long others had the processor meanwhile
    assert not clock.waits()


@pytest.mark.parametrize("fails_at", [0, 30_000, 150_000, 990_000])
def test_what_a_range_raises_is_raised(fails_at: int) -> None:
    with pytest.raises(ConnectionError, match="cut"):
        run(Ranges(fails_at), at_once=True)


def test_what_the_taker_raises_is_raised() -> None:
    def full(block: memoryview) -> None:
        raise OSError(28, "No space left on device")

    ranges = Ranges()
    with pytest.raises(OSError, match="No space"):
        Relay(ranges, 0, len(DATA), BLOCK, full, at_once=True).run()
    assert ranges.open == 0


@pytest.mark.parametrize("ends_at", [0, 50_000, 123_456, 200_000])
def test_a_file_that_is_shorter_ends_early(ends_at: int) -> None:
    assert run(Ranges(ends_at=ends_at), at_once=True) == (ends_at, DATA[:ends_at])
