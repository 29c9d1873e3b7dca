"""Progress: bars with the time left on a terminal, a line for each step elsewhere."""

from __future__ import annotations

import io
import time
from typing import Any

import pytest

from provender.cli.invocation import Invocation
from provender.cli.nlp.steps import _Pace, steps


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_a_line_for_each_step_that_is_finished(capsys: pytest.CaptureFixture[str]) -> None:
    with steps(Invocation()) as tell:
        for done in range(3):
            tell("plan", done, 2, "parts")
        tell("write", 500, 1000, "examples")
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 1
    assert lines[0].startswith("plan  2 parts  ")


def test_a_line_a_minute_for_what_takes_long(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    now = 1000.0
    monkeypatch.setattr(time, "monotonic", lambda: now)
    with steps(Invocation()) as tell:
        tell("write", 0, 1000, "examples")
        for done in range(1, 1001):
            now += 0.5
            tell("write", done, 1000, "examples")
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "write  120 examples of 1,000 examples  2 examples/s, 7 min 20 s left"
    assert len(lines) == 1000 * 0.5 // 60 + 1
    assert lines[-1] == "write  1,000 examples  8 min 20 s"


@pytest.mark.parametrize("silent", [{"json": True}, {"quiet": True}])
def test_nothing_where_nobody_reads(silent: Any, capsys: pytest.CaptureFixture[str]) -> None:
    with steps(Invocation(**silent)) as tell:
        tell("plan", 2, 2, "parts")
    assert capsys.readouterr().out == ""


def test_a_bar_on_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    shown = Terminal()
    monkeypatch.setenv("TERM", "xterm-256color")
    call = Invocation()
    call.out._out = shown
    with steps(call) as tell:
        tell("tokenize", 0, 4 << 20, "bytes")
        time.sleep(0.3)
        tell("tokenize", 1 << 20, 4 << 20, "bytes")
        time.sleep(0.3)
    assert "1.0 MiB of 4.0 MiB" in shown.getvalue()
    assert "left" in shown.getvalue()


def test_time_left_counts_only_what_this_run_did(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 100.0
    monkeypatch.setattr(time, "monotonic", lambda: now)
    pace = _Pace(80)
    assert pace.text(80, 100, "examples") == ""
    now = 105.0
    assert pace.text(90, 100, "examples") == "2 examples/s, 5.0 s left"
    now = 110.0
    assert pace.text(100, 100, "examples") == "10.0 s"
