"""Small programs run in fresh processes, with a count of how often their functions ran."""

from __future__ import annotations

import atexit
import functools
import json
import os
import subprocess
import sys
import textwrap
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

PLATFORM = Path(__file__).parents[3] / "platform"

LOADED = ("pyarrow", "provender.catalog.catalog", "provender.data.dataset.core")
"""What programs find loaded: all use it, and it is half a second."""

HEAD = """
import json, os, sys, time
from provender import data
from provender.data import Dataset

def called(times=1):
    fd = os.open(os.environ["CALLS"], os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    os.write(fd, b"." * times)
    os.close(fd)

def tell(**facts):
    print("TOLD " + json.dumps(facts))
"""


DATA = """
ds = Dataset.from_parquet(os.environ.get("DATA", "data.parquet"))
"""
MAP = """
def double(row):
    called()
    return {"b": row["a"] * 2}

out = ds.map(double)
tell(rows=len(out), last=out[-1], fingerprint=out._fingerprint)
"""

NUMBERS = MAP.replace("last=out[-1]", "last=int(out[-1]['b'])")


def changed(text: str, old: str, new: str) -> str:
    assert old in text
    return text.replace(old, new)


@dataclass
class Lab:
    """A folder with a home, a cache and programs.

    Attributes:
        folder: where everything lies.
        env: more environment for the programs.
        obedient: programs of their own interpreters obey permissions even where root runs them.
    """

    folder: Path
    env: dict[str, str] = field(default_factory=dict)
    obedient: bool = False

    @property
    def home(self) -> Path:
        return self.folder / "home"

    @property
    def cache(self) -> Path:
        return Path(self.env.get("PROVENDER_CACHE", str(self.home / "cache")))

    def write(self, text: str, name: str = "program.py") -> Path:
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(textwrap.dedent(text))
        return path

    def environment(self) -> dict[str, str]:
        kept = {key: value for key, value in os.environ.items() if not key.startswith("PROVENDER")}
        return {
            **kept,
            "PYTHONPATH": str(PLATFORM),
            "PROVENDER_HOME": str(self.home),
            "PROVENDER_CACHE": str(self.home / "cache"),
            "PROVENDER_STORE": str(self.home / "store"),
            "CALLS": str(self.folder / "calls"),
            **self.env,
        }

    def start(self, text: str | None = None, name: str = "program.py") -> subprocess.Popen[str]:
        """Starts a program; `HEAD` is put before its text."""
        if text is not None:
            self.write(HEAD + textwrap.dedent(text), name)
        return subprocess.Popen(
            [sys.executable, str(self.folder / name)],
            cwd=self.folder,
            env=self.environment(),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            preexec_fn=_obey_permissions if self.obedient else None,
        )

    def run(
        self,
        text: str | None = None,
        name: str = "program.py",
        *,
        fails: bool = False,
        fresh: bool = False,
    ) -> Ran:
        """Runs a program to its end, in a fork of a process that has the libraries loaded.

        Args:
            text: the program, without `HEAD`; by default the one that was run before.
            name: its file.
            fails: it must end with an error.
            fresh: run it in an interpreter of its own.
        """
        before = self.calls()
        if fresh:
            process = self.start(text, name)
            out, err = process.communicate(timeout=120)
            code = process.returncode
        else:
            if text is not None:
                self.write(HEAD + textwrap.dedent(text), name)
            code, out, err = zygote(*LOADED).run(
                self.folder / name, self.folder, self.environment(), self.folder
            )
        assert (code != 0) == fails, f"exit {code}\n{out}\n{err}"
        return Ran(self.calls() - before, told(out), out, err)

    def calls(self) -> int:
        """How often functions ran so far."""
        path = self.folder / "calls"
        return path.stat().st_size if path.exists() else 0

    def wait_for_calls(self, count: int, seconds: float = 60) -> None:
        until = time.monotonic() + seconds
        while self.calls() < count:
            assert time.monotonic() < until, f"only {self.calls()} calls"
            time.sleep(0.005)

    def segments(self) -> list[Path]:
        return sorted((self.cache / "entries").glob("*/*/*.arrow"))


def _obey_permissions() -> None:
    """Gives up what lets root write where nobody may; in effect from the next exec on."""
    import ctypes

    drop, override, search = 24, 1, 2
    prctl = ctypes.CDLL(None, use_errno=True).prctl
    prctl(drop, override, 0, 0, 0)
    prctl(drop, search, 0, 0, 0)


class Zygote:
    """See `tests.data.dataset.zygote`.

    Args:
        modules: what it loads ahead.
    """

    def __init__(self, *modules: str) -> None:
        self._process = subprocess.Popen(
            [sys.executable, str(Path(__file__).with_name("zygote.py")), *modules],
            env={**os.environ, "PYTHONPATH": str(PLATFORM)},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def run(
        self, path: Path, cwd: Path, env: Mapping[str, str], outputs: Path
    ) -> tuple[int, str, str]:
        """Runs a program to its end; gives its exit code and what it wrote.

        Args:
            outputs: the folder for the files ``out.txt`` and ``err.txt``.
        """
        out, err = outputs / "out.txt", outputs / "err.txt"
        request = {
            "path": str(path),
            "cwd": str(cwd),
            "env": dict(env),
            "out": str(out),
            "err": str(err),
        }
        assert self._process.stdin is not None and self._process.stdout is not None
        self._process.stdin.write(json.dumps(request) + "\n")
        self._process.stdin.flush()
        answer = json.loads(self._process.stdout.readline())
        return answer["exit"], out.read_text(), err.read_text()

    def close(self) -> None:
        assert self._process.stdin is not None and self._process.stdout is not None
        self._process.stdin.close()
        self._process.stdout.close()
        self._process.wait()


@functools.cache
def zygote(*modules: str) -> Zygote:
    """One of them for the session, with these modules loaded ahead."""
    made = Zygote(*modules)
    atexit.register(made.close)
    return made


@dataclass(frozen=True)
class Ran:
    """What a program did."""

    calls: int
    told: dict[str, Any]
    out: str
    err: str


def told(out: str) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for line in out.splitlines():
        if line.startswith("TOLD "):
            found.update(json.loads(line[5:]))
    return found
