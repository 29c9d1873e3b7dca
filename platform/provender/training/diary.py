"""Which job reads what, told to the catalog without training ever waiting for it.

An event is first a line in a file of this process, under ``<home>/consumption``, and then a row in
the catalog, written by a thread of its own. While the catalog cannot be reached the lines stay, and
whoever comes next on this host sends what a dead process left. Every event carries an id made here,
so that one sent twice is kept once.
"""

from __future__ import annotations

import atexit
import fcntl
import json
import logging
import os
import threading
import uuid
from collections.abc import Iterator, Mapping
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from provender.errors import ProvenderError
from provender.training.leasing import lease

if TYPE_CHECKING:
    from provender.catalog import Catalog
    from provender.catalog.leases import Lease

_LOG = logging.getLogger("provender.training")
_LONGEST_PAUSE = 60.0
_LAST_WORDS = 3.0
"""Seconds that the end of the process waits for events on their way."""


class Diary:
    """The events of one process.

    Args:
        folder: where unsent events are kept.
        catalog: URL of the catalog.
    """

    def __init__(self, folder: Path, catalog: str) -> None:
        self.folder = folder
        self.catalog = catalog
        self.readings: list[tuple[str, str]] = []
        self._leased: dict[str, Lease] = {}
        self._lock = threading.Lock()
        self._news = threading.Event()
        self._idle = threading.Event()
        self._idle.set()
        self._file: IO[str] | None = None
        self._unsent: list[dict[str, Any]] = []
        self._thread: threading.Thread | None = None
        self._pid = os.getpid()
        self._over = False

    def opened(self, version_id: str, job: str, splits: list[str], facts: Mapping[str, Any]) -> str:
        """Notes that a job begins to read a version, and gives the note's id.

        The version is leased until the process ends, so that nobody removes it meanwhile.
        """
        id = uuid.uuid4().hex
        if version_id not in self._leased:
            self._leased[version_id] = lease(self.catalog, version_id, f"training: {job}")
        self.readings.append((id, job))
        self._add(
            {
                "kind": "opened",
                "id": id,
                "version_id": version_id,
                "job": job,
                "splits": splits,
                "facts": dict(facts),
                "at": datetime.now(UTC).isoformat(),
            }
        )
        return id

    def position(self, id: str, facts: Mapping[str, Any]) -> None:
        """Notes where a reader is."""
        self._add({"kind": "position", "id": id, "facts": dict(facts)})

    def flush(self, timeout: float | None = None) -> bool:
        """Waits until everything is in the catalog; whether it is."""
        return self._idle.wait(timeout)

    def _add(self, event: dict[str, Any]) -> None:
        with self._lock:
            if self._pid != os.getpid():
                self._after_fork()
            self._write(event)
            self._unsent.append(event)
            self._idle.clear()
            if self._thread is None:
                self._thread = threading.Thread(
                    target=self._serve, name="provender-diary", daemon=True
                )
                self._thread.start()
                atexit.register(self._last_words)
        self._news.set()

    def _after_fork(self) -> None:
        """A forked child has neither the thread nor the right to the parent's file."""
        self._pid, self._file, self._thread, self._unsent = os.getpid(), None, None, []
        self._leased = {}

    def _write(self, event: Mapping[str, Any]) -> None:
        try:
            if self._file is None:
                self.folder.mkdir(parents=True, exist_ok=True)
                path = self.folder / f"{self._pid}-{uuid.uuid4().hex[:8]}.jsonl"
                self._file = path.open("a", encoding="utf-8")
                fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            self._file.write(json.dumps(event) + "\n")
            self._file.flush()
        except OSError as error:
            # The thread still has the event; only its survival of this process is lost.
            _LOG.warning("Cannot keep consumption events in %s: %s", self.folder, error)

    def _serve(self) -> None:
        pause = 1.0
        told = False
        while not self._over:
            self._news.wait()
            self._news.clear()
            try:
                self._send_all()
                pause = 1.0
            except (ProvenderError, OSError) as error:
                if not told:
                    told = True
                    _LOG.warning(
                        "What this job reads is not in the catalog yet: %s. It is kept in %s and "
                        "sent later.",
                        error,
                        self.folder,
                    )
                threading.Event().wait(pause)
                pause = min(pause * 2, _LONGEST_PAUSE)
                self._news.set()

    def _send_all(self) -> None:
        from provender.catalog import Catalog

        with Catalog.open(self.catalog) as catalog:
            while True:
                with self._lock:
                    batch = list(self._unsent)
                for event in batch:
                    _send(catalog, event)
                with self._lock:
                    del self._unsent[: len(batch)]
                    if not self._unsent:
                        self._forget()
                        self._idle.set()
                        break
            for path, lines in _orphans(self.folder):
                for event in lines:
                    _send(catalog, event)
                path.unlink(missing_ok=True)

    def _forget(self) -> None:
        """Everything in the file is sent."""
        if self._file is not None:
            with suppress(OSError):
                Path(self._file.name).unlink(missing_ok=True)
            self._file.close()
            self._file = None

    def _last_words(self) -> None:
        if self._pid == os.getpid():
            self._idle.wait(_LAST_WORDS)
            self._over = True


def _send(catalog: Catalog, event: Mapping[str, Any]) -> None:
    from provender.errors import UnknownReference

    if event["kind"] == "position":
        catalog.add_consumption_facts(event["id"], event["facts"])
        return
    try:
        catalog.record_consumption(
            event["version_id"],
            event["job"],
            splits=event["splits"],
            facts=event["facts"],
            id=event["id"],
            started_at=datetime.fromisoformat(event["at"]),
        )
    except UnknownReference:
        # Another catalog stands at the address now; the event has no place in it.
        _LOG.warning("The catalog does not know the version that %s read.", event["job"])


def _orphans(folder: Path) -> Iterator[tuple[Path, list[dict[str, Any]]]]:
    """The files of processes that are gone, each with the events in it."""
    for path in sorted(folder.glob("*.jsonl")):
        try:
            with path.open(encoding="utf-8") as file:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                yield path, [each for line in file if (each := _parsed(line))]
        except OSError:
            continue  # its process lives, or another one is sending it


def _parsed(line: str) -> dict[str, Any] | None:
    try:
        found: dict[str, Any] = json.loads(line)
    except ValueError:
        return None  # the last line of a killed process
    return found


_diaries: dict[tuple[Path, str], Diary] = {}


def diary(home: Path, catalog: str) -> Diary:
    """This process's diary for a catalog."""
    key = (home / "consumption", catalog)
    return _diaries.setdefault(key, Diary(*key))


def record_position(job: str | None = None, **facts: Any) -> None:
    """Notes, at a checkpoint, how far this process has read.

    Args:
        job: only what this job reads; by default everything that this process reads under a job.
        **facts: JSON-ready: ``step``, ``examples``, ``epoch``, ``checkpoint`` ...
    """
    position = {"position": {**facts, "at": datetime.now(UTC).isoformat()}}
    for each in _diaries.values():
        for id, name in each.readings:
            if job is None or job == name:
                each.position(id, position)
