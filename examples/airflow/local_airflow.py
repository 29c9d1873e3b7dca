"""Airflow on this machine, for looking at: SQLite, LocalExecutor, on loopback alone.

    python examples/airflow/local_airflow.py [FOLDER]

Makes a project with two datasets in FOLDER (by default demo/airflow), starts Airflow's servers for it,
prints the address and, at the first start, the password of ``admin``. Ctrl-C ends everything.

``airflow standalone`` is not used: it starts the scheduler before there is an API for its tasks, and
leaves its children alone when it ends.
"""

from __future__ import annotations

import json
import os
import secrets
import shutil
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
LIMIT = 300.0
"""Seconds that a server may take to answer; a busy machine takes most of a minute."""
PATIENCE = 20.0
"""Seconds that servers have to end by themselves."""

SERVERS: Mapping[str, Sequence[str]] = {
    "api-server": ("api-server",),
    "scheduler": ("scheduler", "--skip-serve-logs"),
    "dag-processor": ("dag-processor",),
    "triggerer": ("triggerer", "--skip-serve-logs"),
}
_DIRECT = urllib.request.build_opener(urllib.request.ProxyHandler({}))


class ServerEnded(Exception):
    """A server that should run does not."""


@dataclass
class LocalAirflow:
    """Airflow's servers, each in a process group of its own, so that none outlives the others.

    Attributes:
        project: folder with provender.toml and ``dags``; Airflow's own files are in its ``airflow``.
        port: of the API server, on 127.0.0.1.
        more: environment of the servers, besides what this class sets.
        running: the servers by name.
    """

    project: Path
    port: int
    more: Mapping[str, str] = field(default_factory=dict)
    running: dict[str, subprocess.Popen[bytes]] = field(default_factory=dict)

    @property
    def url(self) -> str:
        """The address of the pages."""
        return f"http://127.0.0.1:{self.port}"

    @property
    def home(self) -> Path:
        """Airflow's own folder."""
        return self.project / "airflow"

    @property
    def passwords(self) -> Path:
        """The file of Airflow's simple login."""
        return self.home / "passwords.json"

    def environment(self) -> dict[str, str]:
        """What all servers are told. Settings of another Airflow in the shell are not meant."""
        kept = {k: v for k, v in os.environ.items() if not k.startswith("AIRFLOW")}
        return {
            **kept,
            "PATH": f"{Path(sys.executable).parent}{os.pathsep}{kept.get('PATH', '')}",
            "NO_PROXY": "127.0.0.1",
            "AIRFLOW_HOME": str(self.home),
            "AIRFLOW__CORE__DAGS_FOLDER": str(self.project / "dags"),
            "AIRFLOW__CORE__PLUGINS_FOLDER": str(self.home / "plugins"),
            "AIRFLOW__CORE__LOAD_EXAMPLES": "False",
            "AIRFLOW__CORE__DAGS_ARE_PAUSED_AT_CREATION": "False",
            "AIRFLOW__CORE__PARALLELISM": "4",
            "AIRFLOW__CORE__SIMPLE_AUTH_MANAGER_USERS": "admin:admin",
            "AIRFLOW__CORE__SIMPLE_AUTH_MANAGER_PASSWORDS_FILE": str(self.passwords),
            "AIRFLOW__CORE__EXECUTION_API_SERVER_URL": f"{self.url}/execution/",
            "AIRFLOW__API__HOST": "127.0.0.1",
            "AIRFLOW__API__PORT": str(self.port),
            "AIRFLOW__API__BASE_URL": self.url,
            "AIRFLOW__API__SECRET_KEY": self._secret("secret_key"),
            "AIRFLOW__API_AUTH__JWT_SECRET": self._secret("jwt_secret"),
            "AIRFLOW__DAG_PROCESSOR__REFRESH_INTERVAL": "15",
            # Otherwise each skipped task holds its slot for five seconds.
            "AIRFLOW__WORKERS__MIN_HEARTBEAT_INTERVAL": "1",
            **self.more,
        }

    def _secret(self, name: str) -> str:
        path = self.home / name
        if not path.exists():
            write_private(path, secrets.token_hex(48))
        return path.read_text(encoding="utf-8")

    def make_password(self) -> str | None:
        """Makes the password of ``admin``, at random.

        Returns:
            It, or None where there is one already.
        """
        if self.passwords.exists():
            return None
        password = secrets.token_urlsafe(12)
        write_private(self.passwords, json.dumps({"admin": password}))
        return password

    def run(self, *command: str) -> None:
        """Runs one of Airflow's commands to its end.

        Raises:
            ServerEnded: it failed; the message holds what it said.
        """
        done = subprocess.run(
            ["airflow", *command], env=self.environment(), capture_output=True, text=True
        )
        if done.returncode:
            said = f"{done.stdout}\n{done.stderr}"[-4000:]
            raise ServerEnded(f"airflow {' '.join(command)} failed.\n{said}")

    def start(self, name: str, command: Sequence[str] | None = None) -> None:
        """Starts a server; what it says goes to ``airflow/NAME.log``.

        Args:
            name: one of `SERVERS`, or a name for another command.
            command: what to run after ``airflow``.
        """
        with (self.home / f"{name}.log").open("ab") as log:
            self.running[name] = subprocess.Popen(
                ["airflow", *(command or SERVERS[name])],
                env=self.environment(), stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                start_new_session=True,
            )  # fmt: skip

    def check(self) -> None:
        """Looks whether all servers run.

        Raises:
            ServerEnded: one does not; the message holds the end of its log.
        """
        for name, process in self.running.items():
            if (code := process.poll()) is not None:
                log = self.home / f"{name}.log"
                end = log.read_text(encoding="utf-8", errors="replace")[-4000:]
                raise ServerEnded(f"Airflow's {name} ended with code {code}; {log} ends:\n{end}")

    def wait(self, *parts: str, limit: float = LIMIT) -> None:
        """Waits until Airflow says of itself that these parts are healthy.

        Args:
            parts: as the health page names them, e.g. ``scheduler``.
            limit: seconds.

        Raises:
            ServerEnded: one does not run any more, or they are not healthy in time.
        """
        ends = time.monotonic() + limit
        while time.monotonic() < ends:
            self.check()
            with suppress(urllib.error.URLError, OSError, ValueError):
                found = self.ask("GET", "/api/v2/monitor/health")
                if all((found.get(part) or {}).get("status") == "healthy" for part in parts):
                    return
            time.sleep(0.5)
        raise ServerEnded(f"Airflow is not ready after {limit:.0f} s; its logs are in {self.home}.")

    def ask(self, method: str, path: str, doc: Any = None, token: str | None = None) -> Any:
        """One call of Airflow's API.

        Raises:
            urllib.error.HTTPError: it was refused.
        """
        headers = {"Content-Type": "application/json"}
        if token:
            headers["Authorization"] = f"Bearer {token}"
        data = json.dumps(doc).encode() if doc is not None else None
        request = urllib.request.Request(f"{self.url}{path}", data, headers, method=method)
        with _DIRECT.open(request, timeout=60) as answer:
            return json.load(answer)

    def sign_in(self) -> str:
        """Signs in as ``admin``, and gives the token for `ask`."""
        password = json.loads(self.passwords.read_text(encoding="utf-8"))["admin"]
        told = self.ask("POST", "/auth/token", {"username": "admin", "password": password})
        return str(told["access_token"])

    def wait_for_dags(self, *wanted: str, limit: float = LIMIT) -> None:
        """Waits until Airflow shows these DAGs, or an error of their files.

        Args:
            wanted: ids of the DAGs.
            limit: seconds.

        Raises:
            ServerEnded: a server does not run any more, or neither is there in time.
        """
        token = self.sign_in()
        ends = time.monotonic() + limit
        while time.monotonic() < ends:
            self.check()
            dags = self.ask("GET", "/api/v2/dags", token=token)["dags"]
            errors = self.ask("GET", "/api/v2/importErrors", token=token)["total_entries"]
            if errors or {each["dag_id"] for each in dags} >= set(wanted):
                return
            time.sleep(0.5)
        raise ServerEnded(f"No DAGs after {limit:.0f} s; Airflow's logs are in {self.home}.")

    def stop(self) -> None:
        """Ends all servers and whatever they have started."""
        for number, wait in ((signal.SIGTERM, PATIENCE), (signal.SIGKILL, PATIENCE)):
            groups = [each.pid for each in self.running.values() if _lives(each.pid)]
            for group in groups:
                with suppress(ProcessLookupError):
                    os.killpg(group, number)
            ends = time.monotonic() + wait
            while any(map(_lives, groups)) and time.monotonic() < ends:
                for process in self.running.values():
                    process.poll()
                time.sleep(0.1)


def _lives(group: int) -> bool:
    try:
        os.killpg(group, 0)
    except ProcessLookupError:
        return False
    return True


def write_private(path: Path, text: str) -> None:
    """Writes a file that its owner alone can read."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
        file.write(text)


def free_port(wanted: int) -> int:
    """The port that is wanted, or any other where something listens on it already."""
    for port in (wanted, 0):
        with socket.socket() as server:
            server.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            with suppress(OSError):
                server.bind(("127.0.0.1", port))
                return int(server.getsockname()[1])
    raise ServerEnded("There is no free port on 127.0.0.1.")


def make_project(folder: Path) -> None:
    """Writes the demonstration's project: Digits, and a small XSum with its manual file."""
    manual = folder / "store" / "manual" / "xsum"
    script = ROOT / "examples" / "xsum_demo" / "make_archive.py"
    subprocess.run([sys.executable, script, manual], check=True, capture_output=True)
    ids = (manual / "xsum-demo-split-ids.json").as_uri()
    text = Path(__file__).with_name("provender.toml").read_text(encoding="utf-8")
    (folder / "provender.toml").write_text(text.replace("SPLIT_IDS", ids), encoding="utf-8")
    (folder / "dags").mkdir(exist_ok=True)
    for path in (ROOT / "dags").glob("*.py"):
        shutil.copy(path, folder / "dags" / path.name)


@contextmanager
def ending() -> Iterator[None]:
    """Has a signal that ends programs raise KeyboardInterrupt once; later ones are not heard."""

    def end(number: int, _frame: Any) -> None:
        for each in numbers:
            signal.signal(each, signal.SIG_IGN)
        raise KeyboardInterrupt(number)

    numbers = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    before = {each: signal.signal(each, end) for each in numbers}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def main(arguments: Sequence[str]) -> int:
    """Runs until Ctrl-C; returns the exit code."""
    project = Path(arguments[0] if arguments else ROOT / "demo" / "airflow").resolve()
    project.mkdir(parents=True, exist_ok=True)
    airflow = LocalAirflow(project, free_port(int(os.environ.get("AIRFLOW_PORT", "8080"))))
    with ending():
        try:
            _serve(airflow)
        except KeyboardInterrupt:
            print("\nAirflow ends.", flush=True)
        except ServerEnded as error:
            print(f"error: {error}", file=sys.stderr)
            return 1
        finally:
            airflow.stop()
    return 0


def _serve(airflow: LocalAirflow) -> None:
    print(f"Setting up Airflow in {airflow.project} (half a minute)", flush=True)
    make_project(airflow.project)
    password = airflow.make_password()
    airflow.run("db", "migrate")
    airflow.start("api-server")
    airflow.wait("metadatabase")
    for name in ("scheduler", "dag-processor", "triggerer"):
        airflow.start(name)
    airflow.wait("metadatabase", "scheduler", "dag_processor")
    airflow.wait_for_dags("provender_digits", "provender_xsum")
    known = f"the one of the first start, in {airflow.passwords}"
    print(f"\n  {airflow.url}\n  user admin, password {password or known}\n")
    print("Ctrl-C ends it.", flush=True)
    while True:
        airflow.check()
        time.sleep(1)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
