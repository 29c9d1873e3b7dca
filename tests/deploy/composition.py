"""docker-compose.yml without a Docker engine: every service's command as a process of this machine.

    with composition("docker-compose", {}) as running:
        running.up()

What Compose's ``up --wait`` and ``down`` do is done here: the order of the file and its conditions,
its health checks, its one-shot services, a signal and a time to end. What differs is in
`tests.deploy.translating`. Not done: images, limits, restarts, separate file systems and networks.
"""

from __future__ import annotations

import ctypes
import os
import re
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import psutil
from tests.deploy.translating import Machine, cluster

PATIENCE = 600.0
"""Seconds until all services are well; a busy machine takes some minutes."""
SLOWNESS = 4
"""So much longer than in the file may a health check take: two processors run all services here."""
PAUSE = 2.0
"""Seconds between two checks of a service. The file's intervals spare a machine that runs for months."""
_GRACE = 10.0
_PR_SET_CHILD_SUBREAPER = 36
_SECONDS = {"h": 3600, "m": 60, "s": 1}
_BYTES = {"": 1, "m": 2**20, "g": 2**30}

Descendants = Callable[[], list[psutil.Process]]


class NotWell(AssertionError):
    """A service ended that should run, failed that should succeed, or is not well in time."""


class Service:
    """One service of the file.

    Args:
        machine: what it runs on.
        name: as the file has it.
    """

    def __init__(self, machine: Machine, name: str) -> None:
        self.name = name
        self.doc: dict[str, Any] = machine.services[name]
        self.log = machine.folder / "logs" / f"{name}.log"
        self.environment = machine.environment(name)
        self.process: subprocess.Popen[bytes] | None = None
        self.well = False
        self.killed = False
        self._machine = machine
        self._check = machine.health_check(name)
        self._next = 0.0

    @property
    def needs(self) -> dict[str, str]:
        """Service -> the condition on which this one waits for it."""
        found = self.doc.get("depends_on") or {}
        return {name: each["condition"] for name, each in found.items()}

    @property
    def ends(self) -> bool:
        """Whether it runs once, and then ends."""
        return self._check is None

    def start(self) -> None:
        """Starts its command; what it says goes to its log."""
        folder = self.doc.get("working_dir")
        if self._machine.image(self.name) == "postgres":
            _initialize(self._machine, self.name, self.environment, self.log)
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(
                self._machine.command(self.name),
                cwd=self._machine.text(folder) if folder else self._machine.inside("/tmp"),
                env=self.environment, stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                start_new_session=True, **self._machine.account(self.name),
            )  # fmt: skip

    def fulfils(self, condition: str) -> bool:
        """Whether a service that waits for this one may start."""
        if self.process is None:
            return False
        if condition == "service_completed_successfully":
            if (code := self.process.poll()) is not None and code != 0:
                raise NotWell(f"{self.name} failed with code {code}: {self.said()}")
            return code == 0
        assert condition == "service_healthy", condition
        return self.is_well()

    def is_well(self) -> bool:
        """Runs its health check, at most every few seconds, until it was well once."""
        self.assert_up()
        if not self.well and time.monotonic() >= self._next:
            self.well = self.check()
            self._next = time.monotonic() + PAUSE
        return self.well

    def check(self) -> bool:
        """Runs the health check of the file, whatever it said before."""
        assert self._check is not None
        limit = seconds(self.doc["healthcheck"]["timeout"]) * SLOWNESS
        with self.log.with_suffix(".health").open("ab") as log:
            try:
                done = subprocess.run(
                    self._check, env=self.environment, cwd=self._machine.inside("/tmp"),
                    stdin=subprocess.DEVNULL, stdout=log, stderr=log, timeout=limit,
                    **self._machine.account(self.name),
                )  # fmt: skip
            except subprocess.TimeoutExpired:
                return False
        return done.returncode == 0

    def assert_up(self) -> None:
        """Raises NotWell where it does not run any more."""
        if self.process is not None and not self.ends and (code := self.process.poll()) is not None:
            raise NotWell(f"{self.name} ended with code {code}: {self.said()}")

    def said(self) -> str:
        """The end of its log and of what its checks said."""
        return "\n".join(
            f"{path.name} ends:\n{path.read_text(errors='replace')[-3000:]}"
            for path in (self.log, self.log.with_suffix(".health"))
            if path.exists()
        )

    def ask_to_end(self) -> None:
        """The image's signal to its first process."""
        if self.process is None or self.process.returncode is not None:
            return
        # PostgreSQL's image asks for SIGINT: connections are ended, not waited for.
        asked = signal.SIGINT if self._machine.image(self.name) == "postgres" else signal.SIGTERM
        self.process.send_signal(asked)

    def end(self) -> None:
        """Waits for as long as the file grants; then it is killed, and what it left behind."""
        if self.process is None or self.process.returncode is not None:
            return
        try:
            self.process.wait(seconds(self.doc.get("stop_grace_period"), _GRACE))
        except subprocess.TimeoutExpired:
            self.killed = True
        with suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()

    def memory(self) -> int:
        """Bytes that its processes have, what several share counted once."""
        assert self.process is not None
        first = psutil.Process(self.process.pid)
        total = 0
        for each in (first, *first.children(recursive=True)):
            with suppress(psutil.NoSuchProcess):
                total += each.memory_full_info().pss
        return total

    @property
    def memory_limit(self) -> int:
        """Bytes that the file grants."""
        found = re.fullmatch(r"(\d+)([mg]?)", str(self.doc["mem_limit"]))
        assert found, self.doc["mem_limit"]
        return int(found[1]) * _BYTES[found[2]]


class Composition:
    """All services.

    Args:
        machine: with the file resolved and the folders made.
        descendants: tells all processes that began since.
    """

    def __init__(self, machine: Machine, descendants: Descendants) -> None:
        self.machine = machine
        self._descendants = descendants
        self.services = {name: Service(machine, name) for name in machine.services}

    def up(self) -> None:
        """Starts each service when what it waits for is ready, and waits until all are well.

        Raises:
            NotWell: one ended or failed, or not all are well in time.
        """
        ends = time.monotonic() + PATIENCE
        waiting = dict(self.services)
        while waiting:
            for name, each in list(waiting.items()):
                if all(self.services[of].fulfils(on) for of, on in each.needs.items()):
                    each.start()
                    del waiting[name]
            self._in_time(ends, waiting)
        while ill := {name: each for name, each in self.services.items() if not _is_done(each)}:
            self._in_time(ends, ill)

    def _in_time(self, ends: float, behind: dict[str, Service]) -> None:
        self.check()
        if time.monotonic() > ends:
            said = "\n".join(each.said() for each in behind.values())
            raise NotWell(f"{', '.join(behind)}: not well after {PATIENCE:.0f} s.\n{said}")
        time.sleep(0.2)

    def check(self) -> None:
        """Raises NotWell where a service ended that should run."""
        for each in self.services.values():
            each.assert_up()

    def run(self, service: str, *command: str) -> subprocess.CompletedProcess[str]:
        """A command beside a service's own, as ``docker compose exec`` runs it."""
        folder = self.machine.text(self.services[service].doc["working_dir"])
        return subprocess.run(
            self.machine.words(service, command), env=self.services[service].environment,
            cwd=folder, capture_output=True, text=True, timeout=240,
            **self.machine.account(service),
        )  # fmt: skip

    def down(self) -> None:
        """Stops all of them, each before what it waits for, and at once those that nobody needs."""
        stopped: set[str] = set()
        while len(stopped) < len(self.services):
            needed = {
                of
                for name, each in self.services.items()
                if name not in stopped
                for of in each.needs
            }
            ending = [self.services[name] for name in set(self.services) - stopped - needed]
            for each in ending:
                each.ask_to_end()
            for each in ending:
                each.end()
                stopped.add(each.name)

    def left_behind(self) -> list[psutil.Process]:
        """The processes of the services that run; none after `down`."""
        found = []
        for each in self._descendants():
            with suppress(psutil.NoSuchProcess):
                if each.status() != psutil.STATUS_ZOMBIE:
                    found.append(each)
        return found


def _is_done(service: Service) -> bool:
    if service.ends:
        return service.fulfils("service_completed_successfully")
    return service.is_well()


@contextmanager
def composition(compose: str, datasets: Mapping[str, str]) -> Iterator[Composition]:
    """The services of docker-compose.yml, none of them started; all that are get stopped in the end.

    Args:
        compose: path of the program docker-compose.
        datasets: name -> text of files that a person puts into ``deploy/project/datasets``.
    """
    # Not pytest's folder: PostgreSQL's user works there, and a socket's path may hold 107 bytes.
    folder = Path(tempfile.mkdtemp(prefix="provender-up-", dir="/tmp"))
    folder.chmod(0o755)
    machine = Machine(folder)
    try:
        machine.check_out()
        place = machine.checkout / "deploy" / "project" / "datasets"
        place.mkdir()
        for name, text in datasets.items():
            (place / name).write_text(text)
        machine.resolve(compose)
        (folder / "logs").mkdir()
        machine.unpack()
        with adopting() as descendants:
            found = Composition(machine, descendants)
            try:
                yield found
            finally:
                found.down()
                for each in found.left_behind():
                    with suppress(psutil.NoSuchProcess):
                        each.kill()
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@contextmanager
def adopting() -> Iterator[Descendants]:
    """Makes processes whose parent ended children of this one, so that none is lost sight of.

    Gives a function: the processes that began within the block and their descendants, zombies too.
    """
    prctl = ctypes.CDLL(None, use_errno=True).prctl
    me = psutil.Process()
    # Servers of other tests' fixtures, which go on.
    before = set(me.children())

    def descendants() -> list[psutil.Process]:
        found = [each for each in me.children() if each not in before]
        for each in list(found):
            with suppress(psutil.NoSuchProcess):
                found += each.children(recursive=True)
        return found

    if prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0):
        raise OSError(ctypes.get_errno(), "prctl")
    try:
        yield descendants
    finally:
        for each in descendants():
            with suppress(ChildProcessError):
                os.waitpid(each.pid, os.WNOHANG)
        prctl(_PR_SET_CHILD_SUBREAPER, 0, 0, 0, 0)


def seconds(text: str | None, default: float = 0.0) -> float:
    """A duration of the file, e.g. ``2m`` or ``1m30s``."""
    if text is None:
        return default
    parts = re.findall(r"([\d.]+)([hms])", text)
    assert "".join(number + unit for number, unit in parts) == text, text
    return sum(float(number) * _SECONDS[unit] for number, unit in parts)


def _initialize(machine: Machine, service: str, environment: dict[str, str], log: Path) -> None:
    """What the entry point of PostgreSQL's image does with an empty volume.

    The superuser's password, passwords for all who come by network, and the scripts of
    ``docker-entrypoint-initdb.d`` beside a server that only a socket reaches.
    """
    data, account = cluster(machine), machine.account(service)
    data.mkdir(parents=True)
    if account:
        os.chown(data, account["user"], account["group"])
    password = machine.inside("/tmp") / "password"
    password.write_text(environment["POSTGRES_PASSWORD"])
    password.chmod(0o644)
    made = ["initdb", "-D", str(data), "--username=postgres", f"--pwfile={password}", "--no-sync"]
    served = ["pg_ctl", "-D", str(data), "-w", "-l", str(data / "first.log")]
    options = f"-c listen_addresses= -F -k {machine.inside('/tmp')}"
    scripts = sorted(machine.inside("/docker-entrypoint-initdb.d").glob("*.sh"))
    own = {**environment, "PGPASSWORD": environment["POSTGRES_PASSWORD"]}
    with log.open("ab") as said:
        for command in (
            [*made, "--auth-local=trust", "--auth-host=scram-sha-256"],
            [*served, "-o", options, "start"],
            # As the image: run where it may be, else read by its shell.
            *(
                [str(each)] if os.access(each, os.X_OK) else ["bash", "-euo", "pipefail", str(each)]
                for each in scripts
            ),
            [*served, "-m", "fast", "stop"],
        ):
            subprocess.run(
                command, env=own, cwd=machine.inside("/tmp"), stdout=said, stderr=said,
                stdin=subprocess.DEVNULL, check=True, timeout=120, **account,
            )  # fmt: skip
    password.unlink()
