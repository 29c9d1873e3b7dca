"""A server that breaks is started again; one that is told to stop is not."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

SUPERVISE = """
import sys
from provender.nlp.service import supervising
supervising._SHORTEST = 0.05
print("code", supervising.supervise([sys.executable, "-c", sys.argv[1], *sys.argv[2:]], print), flush=True)
"""

BREAKS_TWICE = """
import os, sys
from pathlib import Path
runs = Path(sys.argv[1])
done = runs.read_text() if runs.exists() else ""
runs.write_text(done + "x")
if len(done) == 0:
    os.kill(os.getpid(), 9)
sys.exit(3 if len(done) == 1 else int(sys.argv[2]))
"""

STOPS_WELL = """
import signal, sys, time
def stop(*_):
    print("drained", flush=True)
    sys.exit(0)
signal.signal(signal.SIGTERM, stop)
print("ready", flush=True)
time.sleep(60)
"""


def supervised(program: str, *arguments: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-c", SUPERVISE, program, *arguments]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True)


def test_it_is_started_until_it_ends_well(tmp_path: Path) -> None:
    out, _ = supervised(BREAKS_TWICE, str(tmp_path / "runs"), "0").communicate(timeout=60)
    lines = out.splitlines()
    assert "was killed by signal 9" in lines[0]
    assert "ended with code 3" in lines[1]
    assert lines[2:] == ["code 0"]
    assert (tmp_path / "runs").read_text() == "xxx"


def test_settings_that_make_no_sense_are_not_tried_again(tmp_path: Path) -> None:
    out, _ = supervised(BREAKS_TWICE, str(tmp_path / "runs"), "2").communicate(timeout=60)
    assert out.splitlines()[-1] == "code 2"
    assert (tmp_path / "runs").read_text() == "xxx"


def test_a_stop_is_passed_on_and_waited_for() -> None:
    process = supervised(STOPS_WELL)
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    process.send_signal(signal.SIGTERM)
    assert process.communicate(timeout=60)[0].splitlines() == ["drained", "code 0"]


def test_a_stop_between_two_runs() -> None:
    process = supervised("import sys; sys.exit(1)")
    assert process.stdout is not None
    for _ in range(4):
        assert "ended with code 1" in process.stdout.readline()
    process.send_signal(signal.SIGTERM)
    assert process.communicate(timeout=60)[0].splitlines()[-1] == "code 0"
