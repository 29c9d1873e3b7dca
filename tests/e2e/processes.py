"""Builds in processes of their own: started, listened to, killed."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from tests.e2e.conftest import Project

PROVENDER = Path(sys.executable).with_name("provender")
PROGRAM = Path(__file__).with_name("build_program.py")


def environment(project: Project, **extra: str) -> dict[str, str]:
    """The environment in which a process finds the settings that the project has here."""
    kept = {k: v for k, v in os.environ.items() if not k.startswith("PROVENDER_")}
    return {
        **kept,
        "HOME": str(project.settings.home.parent),
        "PROVENDER_HOME": str(project.settings.home),
        "PROVENDER_STORE": project.settings.store,
        "PROVENDER_CATALOG": project.settings.catalog,
        **extra,
    }


def start(project: Project, *args: str, log: Path) -> subprocess.Popen[bytes]:
    """Starts the console script as the leader of a session of its own."""
    with log.open("wb") as file:
        return subprocess.Popen(
            [str(PROVENDER), *args],
            stdout=file,
            stderr=file,
            cwd=project.root,
            env=environment(project),
            start_new_session=True,
        )


def kill(process: subprocess.Popen[Any]) -> None:
    """Ends a session's processes with SIGKILL, all at once; they may have ended already."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait(30)


def command(
    project: Project, *args: str, code: int = 0, **extra: str
) -> subprocess.CompletedProcess[str]:
    """Runs the console script to its end."""
    done = subprocess.run(
        [str(PROVENDER), *args],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
        cwd=project.root,
        env=environment(project, **extra),
    )
    assert done.returncode == code, (done.returncode, done.stdout[-2000:], done.stderr[-4000:])
    return done


class Builder:
    """A running `build_program.py`, and what it has said so far."""

    def __init__(self, project: Project, ref: str, log: Path, **options: Any) -> None:
        job = {
            "ref": ref,
            "store": project.settings.store,
            "catalog": project.settings.catalog,
            "options": options,
        }
        self._log = log
        with log.open("wb") as file:
            self.process = subprocess.Popen(
                [sys.executable, str(PROGRAM), json.dumps(job)],
                stdout=file,
                stderr=subprocess.STDOUT,
                cwd=project.root,
                env=environment(project),
                start_new_session=True,
            )

    @property
    def said(self) -> list[dict[str, Any]]:
        lines = self._log.read_text(encoding="utf-8").split("\n")[:-1]
        return [json.loads(line) for line in lines if line.startswith("{")]

    def events(self, kind: str) -> list[dict[str, Any]]:
        return [each for each in self.said if each.get("event") == kind]

    def result(self, timeout: float = 120) -> dict[str, Any]:
        """What the build came to."""
        code = self.process.wait(timeout)
        assert code == 0, self._log.read_text(encoding="utf-8")[-4000:]
        return self.said[-1]


@contextlib.contextmanager
def builders(project: Project, count: int, ref: str, **options: Any) -> Iterator[list[Builder]]:
    """So many processes that all build one thing; none outlives the block."""
    made = [
        Builder(project, ref, project.root / f"builder-{i}.log", **options) for i in range(count)
    ]
    try:
        yield made
    finally:
        for each in made:
            kill(each.process)


def wait_until(true: Callable[[], Any], what: str, seconds: float = 90, pause: float = 0.02) -> Any:
    """Waits until something holds, and gives it."""
    deadline = time.monotonic() + seconds
    while not (found := true()):
        assert time.monotonic() < deadline, f"{what}: not within {seconds} s"
        time.sleep(pause)
    return found
