"""Starts the bare process that a loader is checked in."""

from __future__ import annotations

import glob
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from provender.errors import SettingsError, WorkerDied
from provender.nlp.checking.findings import ERROR, Finding, Report
from provender.nlp.checking.naming import split_name

_LOG_LINES = 15


@dataclass(frozen=True)
class Asked:
    """What to check, and with what.

    Attributes:
        loader: a registered name, ``package.module:Class`` or ``file.py:Class``.
        config: the fields of its configuration.
        batches: how many batches to look at.
        code: folders that the loader's code may be imported from, besides installed packages.
        environ: variables that the process gets; credentials, say.
        timeout: seconds until the process is given up.
    """

    loader: str
    config: Mapping[str, Any]
    batches: int = 8
    code: Sequence[str] = ()
    environ: Mapping[str, str] = field(default_factory=dict)
    timeout: float = 600.0


def check_loader(asked: Asked) -> Report:
    """Runs a loader's `load` in a new process and looks at its first batches.

    The process has an empty working directory and home, an environment of the few variables that
    Python and TensorFlow need, and no state of this one. What works in it works on a TPU host.

    Raises:
        SettingsError: the loader's name or a number makes no sense.
        WorkerDied: the process ended without an answer.
    """
    if asked.batches < 1:
        raise SettingsError(
            f"{asked.batches} batches are to be looked at.",
            where="--batches",
            hint="Use 1 or more.",
        )
    where, kind = split_name(asked.loader)
    loader = f"{Path(where).absolute()}:{kind}" if where.endswith(".py") else asked.loader
    relative = [_relative(name, value) for name, value in relative_paths(asked.config)]
    report = _run(asked, loader)
    if not relative:
        return report
    return Report(
        report.loader,
        report.config,
        report.batches,
        report.rows,
        report.outputs,
        (*relative, *report.findings),
    )


def relative_paths(config: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Options, by name, with a path that means a file in this process's working directory only."""
    for name, value in config.items():
        for text in _texts(value):
            for part in text.split(","):
                path = part.strip()
                local = path and "://" not in path and not Path(path).is_absolute()
                if local and glob.glob(path):
                    yield name, path


def _texts(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        for each in value.values():
            yield from _texts(each)
    elif isinstance(value, (list, tuple)):
        for each in value:
            yield from _texts(each)


def _relative(name: str, path: str) -> Finding:
    return Finding(
        "config",
        ERROR,
        f"{path!r} is relative to this working directory; workers have another one",
        name,
        f"Write {os.path.abspath(path)}, or a gs:// address.",
    )


def _run(asked: Asked, loader: str) -> Report:
    with tempfile.TemporaryDirectory(prefix="provender-check-") as folder:
        place = Path(folder)
        request, result, log = place / "request.json", place / "result.json", place / "log"
        for each in ("home", "work"):
            (place / each).mkdir()
        code = [str(Path(each).absolute()) for each in asked.code]
        request.write_text(
            json.dumps(
                {
                    "loader": loader,
                    "config": dict(asked.config),
                    "batches": asked.batches,
                    "code": code,
                }
            ),
            encoding="utf-8",
        )
        command = [sys.executable, "-P", "-m", "provender.nlp.checking.bare", request, result]
        with log.open("wb") as output:
            try:
                done = subprocess.run(
                    [str(each) for each in command],
                    cwd=place / "work",
                    env=_environment(asked.environ, place),
                    stdin=subprocess.DEVNULL,
                    stdout=output,
                    stderr=subprocess.STDOUT,
                    timeout=asked.timeout,
                    check=False,
                )
            except subprocess.TimeoutExpired:
                return Report(findings=(_timeout(asked),))
        if not result.exists():
            raise _died(done.returncode, log)
        return Report.from_json(
            {
                key: value
                for key, value in json.loads(result.read_text(encoding="utf-8")).items()
                if key != "ok"
            }
        )


def _environment(given: Mapping[str, str], place: Path) -> dict[str, str]:
    return {
        "PATH": os.defpath,
        "LANG": "C.UTF-8",
        "HOME": str(place / "home"),
        "TMPDIR": str(place),
        "TF_CPP_MIN_LOG_LEVEL": "3",
        **given,
    }


def _timeout(asked: Asked) -> Finding:
    return Finding(
        "batches",
        ERROR,
        f"{asked.batches} batches were not ready after {asked.timeout:g} seconds",
        hint="Ask for fewer --batches or a longer --timeout; or the loader waits for something "
        "that is not there.",
    )


def _died(code: int, log: Path) -> WorkerDied:
    lines = log.read_text(encoding="utf-8", errors="replace").splitlines()[-_LOG_LINES:]
    return WorkerDied(
        f"The process that ran the loader ended with {code} and no answer.",
        where="provender.nlp.checking.bare",
        hint="Its last lines: " + (" | ".join(lines) if lines else "none"),
    )
