"""Which job reads what, told to the catalog without training ever waiting for it.

An event is first a line in a file of this process, under ``<home>/consumption``, and then a row in
the catalog, written by a thread of its own. While the catalog cannot be reached the lines stay, and
whoever comes next on this host sends what a dead process left. Every event carries an id made here,
so that one sent twice is kept once, and the host that it happened on: hosts may share a home, whose
locks between hosts are not to be relied upon, so what another host left is taken up after a day.
"""

from __future__ import annotations

import atexit
import fcntl
import json
import logging
import math
import os
import socket
import threading
import time
import uuid
from collections.abc import Iterator, Mapping
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from provender.catalog.processes import host_identity
from provender.training.leasing import lease

if TYPE_CHECKING:
    from provender.catalog import Catalog
    from provender.catalog.leases import Lease

_LOG = logging.getLogger("provender.training")
_LONGEST_PAUSE = 60.0
_LAST_WORDS = 3.0
"""Seconds that the end of the process waits for events on their way."""

_STRANGERS_SECONDS = 86_400.0
"""How long the file of another host is left alone after its last change."""


class Diary:
    """The events of one process.

    Args:
        folder: where unsent events are kept.
        catalog: URL of the catalog.
    """

    def __init__(self, folder: Path, catalog: str) -> None:
        self.folder = folder
        self.catalog = catalog
        self._readings: dict[tuple[str, ...], str] = {}
        self._over = False
        self._begin()
        os.register_at_fork(after_in_child=self._begin)

    def _begin(self) -> None:
        """With nothing sent and nothing to send.

        A forked child has neither the thread nor the right to the parent's file, and its locks may
        be held by threads that it does not have.
        """
        self._leased: dict[str, Lease] = {}
        self._lock = threading.Lock()
        self._news = threading.Event()
        self._idle = threading.Event()
        self._idle.set()
        self._file: IO[str] | None = None
        self._unsent: list[dict[str, Any]] = []
        self._thread: threading.Thread | None = None
        self._pid = os.getpid()

    def opened(self, version_id: str, job: str, splits: list[str], facts: Mapping[str, Any]) -> str:
        """Notes that a job begins to read a version, and gives the note's id.

        The version is leased until the process ends, so that nobody removes it meanwhile.
        """
        id = uuid.uuid4().hex
        if version_id not in self._leased:
            self._leased[version_id] = lease(self.catalog, version_id, f"training: {job}")
        # What is opened anew for every pass or evaluation has one position, not one a time.
        self._readings[job, version_id, *splits, str(facts.get("pipeline"))] = id
        self._add(
            {
                "kind": "opened",
                "id": id,
                "version_id": version_id,
                "job": job,
                "splits": splits,
                "facts": dict(facts),
                "host": host_identity(),
                "at": datetime.now(UTC).isoformat(),
            }
        )
        return id

    def position(self, id: str, facts: Mapping[str, Any]) -> None:
        """Notes where a reader is."""
        self._add({"kind": "position", "id": id, "facts": dict(facts)})

    def readings(self, job: str | None = None) -> list[str]:
        """The notes of what is read, the newest where something was opened again; of a job, or all."""
        return [id for (name, *_), id in self._readings.items() if job in (None, name)]

    def flush(self, timeout: float | None = None) -> bool:
        """Waits until everything is in the catalog; whether it is."""
        return self._idle.wait(timeout)

    def _add(self, event: dict[str, Any]) -> None:
        event = _as_json(event)
        with self._lock:
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

    def _write(self, event: Mapping[str, Any]) -> None:
        try:
            if self._file is None:
                self._file = self._new_file()
            self._file.write(json.dumps(event) + "\n")
            self._file.flush()
        except OSError as error:
            # The thread still has the event; only its survival of this process is lost.
            _LOG.warning("Cannot keep consumption events in %s: %s", self.folder, error)

    def _new_file(self) -> IO[str]:
        """A file of this process's own, locked where the disk has locks."""
        self.folder.mkdir(parents=True, exist_ok=True)
        while True:
            path = self.folder / f"{_host()}-{self._pid}-{uuid.uuid4().hex[:8]}.jsonl"
            file = path.open("x", encoding="utf-8")
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:  # taken for one that a dead process left
                file.close()
                continue
            except OSError as error:
                _LOG.debug("no lock for %s: %s", path, error)
            if path.exists():
                return file
            file.close()

    def _serve(self) -> None:
        pause = 1.0
        told = False
        while not self._over:
            self._news.wait()
            self._news.clear()
            try:
                self._send_all()
                pause = 1.0
            except Exception as error:  # noqa: BLE001 - whatever it is, training goes on, and so does this
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
            host=event.get("host"),
            started_at=datetime.fromisoformat(event["at"]),
        )
    except UnknownReference:
        # Another catalog stands at the address now; the event has no place in it.
        _LOG.warning("The catalog does not know the version that %s read.", event["job"])


def _orphans(folder: Path) -> Iterator[tuple[Path, list[dict[str, Any]]]]:
    """The files of processes that are gone, each with the events in it."""
    for path in sorted(folder.glob("*.jsonl")):
        try:
            host = path.name.rpartition("-")[0].rpartition("-")[0]
            if host != _host() and time.time() - path.stat().st_mtime < _STRANGERS_SECONDS:
                continue
            with path.open(encoding="utf-8") as file:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                yield path, [each for line in file if (each := _parsed(line))]
        except OSError:
            continue  # its process lives, or another one is sending it


def _host() -> str:
    """This machine's name, as part of a file's."""
    return socket.gethostname().replace("/", "_")


def _as_json(value: Any) -> Any:
    """A value as JSON has it: steps are often NumPy's numbers or tensors, and losses may be NaN.

    Whatever else a caller hands over becomes text: a checkpoint is no time to fail.
    """
    if value is None or isinstance(value, bool | int | str):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else str(value)
    if isinstance(value, Mapping):
        return {str(name): _as_json(each) for name, each in value.items()}
    if isinstance(value, list | tuple | set | frozenset):
        return [_as_json(each) for each in value]
    for name in ("numpy", "tolist"):
        if callable(plain := getattr(value, name, None)):
            with suppress(Exception):
                return _as_json(plain())
    return str(value)


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
        **facts: ``step``, ``examples``, ``epoch``, ``checkpoint`` ...; numbers of NumPy and tensors
            too. What JSON does not know is kept as text.
    """
    position = {"position": {**facts, "at": datetime.now(UTC).isoformat()}}
    for each in list(_diaries.values()):
        for id in each.readings(job):
            each.position(id, position)
