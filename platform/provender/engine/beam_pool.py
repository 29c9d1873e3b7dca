"""One build's other Python: the one that has Apache Beam.

Beam pins protobuf and pyarrow below what the rest uses, so it lives in an environment of its own,
with Provender in it. Whatever loads the builder runs there, in one child process that speaks the JSON
of `provender.engine.worker`; deciding, claiming and recording stay here.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from provender.builders.spec import BuilderSpec
from provender.engine.operations import IN_BEAM
from provender.engine.pool import Worker
from provender.errors import SettingsError, WorkerDied
from provender.stages.site import Progress, Site, Workplace, silent

_NO_PROVENDER = "No module named"


class BeamPool:
    """Runs what loads the builder in a child process, with the interface of `pool.Pool`.

    Args:
        work: the place of work of this process.
        python: the Python that has Beam; this one where None.
    """

    workers = 1
    """Pipelines run one after the other; each is parallel by itself."""

    def __init__(self, work: Workplace, python: str | None) -> None:
        self.work = work
        self.python = python
        self._worker: Worker | None = None
        self._lock = threading.Lock()

    def start(self) -> None:
        """Starts the child, so that it imports the builder while this process plans."""
        with self._lock:
            if self._worker is None:
                self._worker = started(self.work.site, self.python)

    def takes(self, op: str) -> bool:
        """Whether an operation belongs in the other Python."""
        return op in IN_BEAM

    def call(self, op: str, args: Mapping[str, Any], progress: Progress) -> dict[str, Any]:
        """Runs one operation in the child.

        Raises:
            ProvenderError: what the operation raised.
            SettingsError: the Python cannot run Provender.
            WorkerDied: the child ended without an answer. Running the same pipeline again is left
                to the user: it may have cost hours.
        """
        self.start()
        if self._worker is None:
            raise AssertionError
        try:
            return self._worker.call(op, args, progress)
        except WorkerDied as error:
            raise _explained(error, self.python) from error

    def close(self) -> None:
        """Ends the child; a pipeline that runs in it ends with it."""
        with self._lock:
            if self._worker is not None:
                self._worker.close()
                self._worker = None


def started(site: Site, python: str | None) -> Worker:
    """A child process of a Python.

    Raises:
        SettingsError: there is no such program.
    """
    try:
        return Worker(site, set(), python)
    except OSError as error:
        raise SettingsError(
            f"{python} cannot be started: {error.strerror}.",
            where="beam.python",
            hint="Name the Python of an environment that has Apache Beam and Provender.",
        ) from error


def survey_elsewhere(site: Site, python: str, spec: BuilderSpec, checksums: Path) -> dict[str, Any]:
    """`provender.builders.facts.survey` in another Python.

    Args:
        site: the place of work; the builder's name need not be known yet.
        python: the Python.
        spec: the builder.
        checksums: the project's folder of checksum files.

    Raises:
        ProvenderError: what the survey raised there.
        SettingsError: the Python cannot run Provender, or has no Beam.
    """
    worker = started(replace(site, spec=spec, checksums=str(checksums)), python)
    try:
        return worker.call("survey", {}, silent)
    except WorkerDied as error:
        raise _explained(error, python) from error
    finally:
        worker.close()


def _explained(error: WorkerDied, python: str | None) -> WorkerDied | SettingsError:
    log = error.facts.get("log") or [""]
    if error.facts.get("exit_code") != 1 or _NO_PROVENDER not in log[-1]:
        return error
    return SettingsError(
        f"{python} cannot run Provender: {log[-1].rpartition(': ')[2]}.",
        where="beam.python",
        hint="Install it there: pip install 'provender[beam]'.",
        facts=error.facts,
    )
