"""A dispatcher or a worker, from its start to its stop.

The server lives as long as the process, which has to end after these functions return.
"""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from provender.errors import SettingsError
from provender.nlp.service.addresses import (
    Guard,
    answers,
    claim_port,
    is_wildcard,
    joined,
    parsed,
)
from provender.nlp.service.status import Status, StatusServer

_ROUND = 2.0
"""Seconds between looks for new network addresses."""


@dataclass(frozen=True)
class Place:
    """Where a server is reached.

    Attributes:
        host: the address that others may use; a wildcard opens all of them.
        port: gRPC port, 0 for any.
        http_port: port of the health page, 0 for any.
    """

    host: str = "127.0.0.1"
    port: int = 0
    http_port: int = 0


@dataclass(frozen=True)
class DispatcherOptions:
    """How a dispatcher runs.

    Attributes:
        place: where.
        work_dir: folder or URL that TensorFlow can write, for the journal; None keeps none, and
            a restart forgets all jobs.
        job_timeout: seconds without a reader after which a job is forgotten.
    """

    place: Place = Place()
    work_dir: str | None = None
    job_timeout: float = 300.0


@dataclass(frozen=True)
class WorkerOptions:
    """How a worker runs.

    Attributes:
        dispatcher: its address, ``host:port``.
        place: where.
        address: host under which trainers reach the worker; None: the place's.
        heartbeat: seconds between heartbeats.
        wait: seconds to wait for the dispatcher at the start.
        drain: seconds that tasks may take to end when the worker is told to stop.
    """

    dispatcher: str
    place: Place = Place()
    address: str | None = None
    heartbeat: float = 5.0
    wait: float = 60.0
    drain: float = 30.0


Ready = Callable[[str, str], None]
"""Is told the gRPC address and the URL of the health page as soon as the server serves."""


def run_dispatcher(options: DispatcherOptions, ready: Ready) -> None:
    """Runs a dispatcher until the process is told to stop.

    Args:
        options: how.
        ready: see `Ready`.

    Raises:
        SettingsError: a port is taken, or the work directory cannot be used.
    """
    place = options.place
    port = claim_port(place.port, "--port")
    folder = _work_dir(options.work_dir)
    with _guarded(port, place.host) as guard, _stop_asked() as stop:
        service = _service()
        server = _kept(
            service.DispatchServer(
                service.DispatcherConfig(
                    port=port,
                    work_dir=folder,
                    fault_tolerant_mode=folder is not None,
                    job_gc_timeout_ms=_milliseconds(options.job_timeout),
                    job_gc_check_interval_ms=_milliseconds(options.job_timeout / 5),
                )
            )
        )
        address = joined(_named(place.host), port)
        status = Status("dispatcher", address, lambda: _number(server, "workers"))
        with _told(status, place, f"grpc://{address}", ready):
            _until(stop, guard)
            status.stopping.set()


def run_worker(options: WorkerOptions, ready: Ready) -> None:
    """Runs a worker until the process is told to stop, and lets its tasks end then.

    Args:
        options: how.
        ready: see `Ready`.

    Raises:
        SettingsError: a port is taken, or no dispatcher answers.
    """
    place = options.place
    host, dispatcher_port = parsed(options.dispatcher, "--dispatcher")
    port = claim_port(place.port, "--port")
    address = joined(options.address or _named(place.host), port)
    with _guarded(port, place.host) as guard, _stop_asked() as stop:
        if not _awaited(host, dispatcher_port, options.wait, stop):
            return
        service = _service()
        server = _kept(
            service.WorkerServer(
                service.WorkerConfig(
                    dispatcher_address=joined(host, dispatcher_port),
                    worker_address=address,
                    port=port,
                    heartbeat_interval_ms=_milliseconds(options.heartbeat),
                )
            )
        )

        def numbers() -> Mapping[str, float]:
            reachable = float(answers(host, dispatcher_port))
            return {**_number(server, "tasks"), "dispatcher_reachable": reachable}

        def trouble() -> str | None:
            if answers(host, dispatcher_port):
                return None
            return f"no dispatcher answers at {joined(host, dispatcher_port)}"

        status = Status("worker", address, numbers, trouble)
        with _told(status, place, f"grpc://{address}", ready):
            _until(stop, guard)
            status.stopping.set()
            _drain(server, options.drain)


def _service() -> Any:
    import tensorflow as tf

    return tf.data.experimental.service


_servers: list[Any] = []


def _kept(server: Any) -> Any:
    """Keeps a server from being stopped by TensorFlow when nothing refers to it any more.

    Stopping waits for calls under way, for up to an hour where the dispatcher is gone, and holds
    Python's lock meanwhile, so that not even a signal ends it. Nothing is lost without: journals
    are written before calls are answered, and readers take a broken connection as a restart.
    """
    _servers.append(server)
    return server


def _milliseconds(seconds: float) -> int:
    return max(1, round(seconds * 1000))


def _named(host: str) -> str:
    """The name by which others reach a host that listens on every address."""
    import socket

    return socket.gethostname() if is_wildcard(host) else host


def _number(server: Any, what: str) -> dict[str, float]:
    # There is no public way to ask; a TensorFlow without this one has the number left out.
    ask = getattr(server, f"_num_{what}", None)
    return {} if ask is None else {what: float(ask())}


def _work_dir(given: str | None) -> str | None:
    if given is None or "://" in given:
        return given
    path = Path(given).absolute()
    try:
        path.mkdir(parents=True, exist_ok=True)
        probe = path / ".provender-probe"
        probe.touch()
        probe.unlink()
    except OSError as error:
        raise SettingsError(
            f"The work directory cannot be written: {error.strerror or error}.",
            where="--work-dir",
            hint="Name a folder that outlives the dispatcher and that it may write.",
        ) from error
    return str(path)


@contextmanager
def _guarded(port: int, host: str) -> Iterator[Guard]:
    guard = Guard(port, host)
    try:
        yield guard
    finally:
        guard.close()


@contextmanager
def _stop_asked() -> Iterator[threading.Event]:
    """An event that SIGTERM and SIGINT set; the second signal ends the process."""
    stop = threading.Event()
    before = {}

    def ask(number: int, frame: Any) -> None:
        del frame
        if stop.is_set():
            raise SystemExit(128 + number)
        stop.set()

    for number in (signal.SIGTERM, signal.SIGINT):
        before[number] = signal.signal(number, ask)
    try:
        yield stop
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


@contextmanager
def _told(status: Status, place: Place, address: str, ready: Ready) -> Iterator[None]:
    page = StatusServer(status, place.host, place.http_port)
    try:
        ready(address, page.url)
        yield
    finally:
        page.close()


def _until(stop: threading.Event, guard: Guard) -> None:
    while not stop.wait(_ROUND):
        guard.refresh()


def _awaited(host: str, port: int, seconds: float, stop: threading.Event) -> bool:
    """Waits for the dispatcher; False if the process is told to stop meanwhile."""
    end = time.monotonic() + seconds
    while not answers(host, port):
        if time.monotonic() >= end:
            raise SettingsError(
                f"No dispatcher answers at {joined(host, port)} after {seconds:g} s.",
                where="--dispatcher",
                hint="Start one: `provender data-service dispatcher --port "
                f"{port}`, or wait longer with --wait.",
            )
        if stop.wait(min(0.5, max(end - time.monotonic(), 0.01))):
            return False
    return True


def _drain(server: Any, seconds: float) -> None:
    """Waits until the worker has no task left, as long as is allowed."""
    end = time.monotonic() + seconds
    while time.monotonic() < end and _number(server, "tasks").get("tasks"):
        time.sleep(0.1)
