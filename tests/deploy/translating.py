"""The services of docker-compose.yml as processes of this machine: all that differs, in one place.

`LISTENS`, `of_image` and `Machine` are the whole translation. Everything else is taken from the file
as Compose resolves it: what this module does not know (another host name, another port, a folder that
no volume has) stays as it is, and the process that needs it fails.
"""

from __future__ import annotations

import json
import os
import pwd
import re
import shutil
import subprocess
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import yaml
from examples.airflow.local_airflow import free_port
from tests.catalog import pg_server
from tests.deploy.conftest import ROOT, load
from tests.deploy.test_store_server import program as gcs_program

LOOPBACK = "127.0.0.1"
LISTENS: Mapping[str, int] = {
    "postgres": 5432,
    "redis": 6379,
    "gcs": 4443,
    "airflow-api": 8080,
    "prefect-server": 4200,
    "ui": 8420,
}
"""The port of each service inside its container; here each has a free one instead."""
PUBLISHED = {
    "gcs": "GCS_PORT",
    "airflow-api": "AIRFLOW_PORT",
    "prefect-server": "PREFECT_PORT",
    "ui": "PROVENDER_UI_PORT",
}
"""Variables of .env that move a port: the port outside is the one inside, for there is one loopback."""
HOME = "/home/provender"
CHECKED_OUT = ("docker-compose.yml", "deploy", "dags", "flows", "prefect.yaml")
_COPY = re.compile(r"^COPY (?!--from)(\S+) (/\S+)$", re.M)
_SYSTEM = "/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin"


@dataclass(frozen=True)
class Mount:
    """One volume of a service.

    Attributes:
        source: a folder or file of the checkout, or a volume's name.
        target: path in the container.
        named: whether the source is a volume's name.
    """

    source: str
    target: str
    named: bool


@dataclass
class Machine:
    """What stands for the containers' network and folders.

    Attributes:
        folder: temporary; the checkout, the containers' root and the logs are in it.
        ports: service -> its port on loopback.
        services: the file, as Compose resolves it with the secrets of .env.
        secrets: the values of .env.
        delivered: the files of the containers, besides those in volumes, before one is started.
    """

    folder: Path
    ports: dict[str, int] = field(default_factory=dict)
    services: dict[str, dict[str, Any]] = field(default_factory=dict)
    secrets: dict[str, str] = field(default_factory=dict)
    delivered: frozenset[Path] = frozenset()

    @property
    def checkout(self) -> Path:
        """A copy of the repository's files that Compose uses."""
        return self.folder / "checkout"

    @property
    def root(self) -> Path:
        """What stands for ``/`` of all containers."""
        return self.folder / "root"

    def account(self, service: str) -> dict[str, Any]:
        """Arguments of Popen by which PostgreSQL is not root; the others are who the tests are."""
        if os.geteuid() != 0 or self.image(service) != "postgres":
            return {}
        found = pwd.getpwnam("nobody")
        return {"user": found.pw_uid, "group": found.pw_gid, "extra_groups": []}

    def image(self, service: str) -> str:
        """The name of a service's image, without its tag."""
        return str(self.services[service]["image"]).rpartition(":")[0]

    def inside(self, path: str) -> Path:
        """A container's absolute path, here."""
        return self.root / path.lstrip("/")

    # What a container has ---------------------------------------------------------------------

    def check_out(self) -> None:
        """Copies what Compose needs, as a person has it who cloned the repository."""
        self.checkout.mkdir()
        for name in CHECKED_OUT:
            source, target = ROOT / name, self.checkout / name
            if source.is_dir():
                shutil.copytree(source, target, ignore=shutil.ignore_patterns("__pycache__"))
            else:
                shutil.copy(source, target)

    def resolve(self, compose: str) -> None:
        """Writes .env as ``make up`` does, and has Compose read the file with it."""
        env = self.checkout / ".env"
        load("fill_environment").complete(env)
        self.ports = {name: free_port(0) for name in LISTENS}
        with env.open("a", encoding="utf-8") as file:
            file.writelines(f"{name}={self.ports[who]}\n" for who, name in PUBLISHED.items())
        done = subprocess.run(
            [compose, "config"], cwd=self.checkout, capture_output=True, text=True, timeout=120,
            env={"PATH": os.environ["PATH"], "HOME": str(self.folder)},
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        self.services = json.loads(
            json.dumps(yaml.safe_load(done.stdout)["services"]).replace("$$", "$")
        )
        self.secrets = load("fill_environment").read(env)
        for name, each in self.services.items():
            for port in each.get("ports", ()):
                assert published(port) == (LOOPBACK, self.ports[name], LISTENS[name]), name

    def unpack(self) -> None:
        """Makes the folders that the image has, and those that are mounted over them."""
        for source, target in self._copied:
            _copy(self.checkout / source, self.inside(target))
        self.inside(HOME).mkdir(parents=True)
        self.inside("/tmp").mkdir()
        self.inside("/tmp").chmod(0o1777)
        sources: dict[str, str] = {}
        volumes: dict[str, Path] = {}
        for mount in self._mounts():
            first = sources.setdefault(mount.target, mount.source)
            assert first == mount.source, f"{mount.target} is not the same in all services"
            place = self.inside(mount.target)
            if not mount.named:
                _copy(Path(mount.source), place)
            elif mount.source not in volumes:
                place.mkdir(parents=True)
                volumes[mount.source] = place
            elif volumes[mount.source] != place and not place.exists():
                place.parent.mkdir(parents=True, exist_ok=True)
                place.symlink_to(volumes[mount.source])
        self.delivered = self.files()

    def files(self) -> frozenset[Path]:
        """What lies in the containers, besides their volumes and /tmp; relative to their root."""
        volumes = [self.inside("/tmp")]
        volumes += [self.inside(mount.target) for mount in self._mounts() if mount.named]
        return frozenset(
            path.relative_to(self.root)
            for path in self.root.rglob("*")
            if path.is_file() and not any(path.is_relative_to(each) for each in volumes)
        )

    def _mounts(self) -> Iterator[Mount]:
        for each in self.services.values():
            yield from map(mounted, each.get("volumes", ()))

    @cached_property
    def _copied(self) -> list[tuple[str, str]]:
        docker = (self.checkout / "deploy" / "Dockerfile").read_text(encoding="utf-8")
        return _COPY.findall(docker)

    @cached_property
    def _path(self) -> re.Pattern[str]:
        known = {mount.target for mount in self._mounts()} | {place for _, place in self._copied}
        return re.compile(rf"(^|=)({'|'.join(map(re.escape, sorted(known, reverse=True)))})(?=/|$)")

    # Its words, in the words of this machine --------------------------------------------------

    def text(self, value: str) -> str:
        """Paths and addresses of containers, as they are here."""
        value = self._path.sub(rf"\g<1>{self.root}\g<2>", value)
        for host, port in LISTENS.items():
            here = f"{LOOPBACK}:{self.ports[host]}"
            value = re.sub(rf"(?<=[/@]){host}:{port}(?!\d)", here, value)
        return value

    def words(self, service: str, words: Iterable[str]) -> list[str]:
        """A command or health check of a service: its own port is another one here."""
        found = []
        for word in words:
            if service in LISTENS:
                word = word.replace("0.0.0.0", LOOPBACK)
                word = re.sub(rf"(?<!\d){LISTENS[service]}(?!\d)", str(self.ports[service]), word)
            found.append(self.text(word))
        return found

    def environment(self, service: str) -> dict[str, str]:
        """The variables of a service's processes: the image's, and the file's; nothing of the test's."""
        given = self.services[service].get("environment") or {}
        return {
            "PATH": f"{Path(sys.executable).parent}:{_SYSTEM}",
            "PYTHONUNBUFFERED": "1",
            "LANG": "C.UTF-8",
            "HOME": str(self.inside(HOME)),
            "TMPDIR": str(self.inside("/tmp")),
            **{name: self.text(str(value)) for name, value in given.items()},
            **self._of_container(service),
        }

    def _of_container(self, service: str) -> dict[str, str]:
        if self.image(service) == "postgres":
            return {"PATH": f"{pg_server.programs()}:{_SYSTEM}", "PGHOST": str(self.inside("/tmp"))}
        return {}

    def command(self, service: str) -> list[str]:
        """What the container runs, the image's own part of it included."""
        given = self.words(service, self.services[service].get("command") or ())
        return of_image(self, service, given)

    def health_check(self, service: str) -> list[str] | None:
        """The service's own check, or None for one that ends."""
        test = (self.services[service].get("healthcheck") or {}).get("test")
        if test is None:
            return None
        kind, *words = self.words(service, test)
        if kind == "CMD-SHELL":
            return ["sh", "-c", *words]
        assert kind == "CMD", test
        # Programs that ask the usual port when none is named.
        port = str(self.ports.get(service))
        usual = {"pg_isready": ["--port", port], "redis-cli": ["-p", port]}
        return [words[0], *usual.get(words[0], ()), *words[1:]]


def of_image(machine: Machine, service: str, command: Sequence[str]) -> list[str]:
    """A command as the entry point of the service's image runs it; a free port, loopback alone."""
    image = machine.image(service)
    port = str(machine.ports.get(service))
    if image == "redis":
        return [*command, "--port", port, "--bind", LOOPBACK]
    if image == "fsouza/fake-gcs-server":
        data = str(machine.inside("/data"))
        return [str(gcs_program()), "-data", data, *command, f"-host={LOOPBACK}"]
    if image == "postgres":
        assert not command
        options = ["-p", port, "-h", LOOPBACK, "-k", str(machine.inside("/tmp")), "-F"]
        return [str(pg_server.programs() / "postgres"), "-D", str(cluster(machine)), *options]
    if service.startswith("airflow-worker"):
        # Each would serve its logs on port 8793 of all addresses; here one folder holds all logs.
        return [*command, "--skip-serve-logs"]
    return list(command)


def cluster(machine: Machine) -> Path:
    """The folder in which PostgreSQL's image keeps its data, below the volume."""
    return machine.inside("/var/lib/postgresql") / "18" / "docker"


def mounted(volume: Any) -> Mount:
    """A volume as Compose prints it: a text (version 1) or a table (version 2)."""
    if isinstance(volume, str):
        source, target = volume.split(":")[:2]
    else:
        source, target = volume["source"], volume["target"]
    return Mount(source, target, named=not source.startswith("/"))


def published(port: Any) -> tuple[str, int, int]:
    """The address, the port there, and the port in the container."""
    if isinstance(port, str):
        address, outside, inside = port.removesuffix("/tcp").split(":")
        return address, int(outside), int(inside)
    return port["host_ip"], int(port["published"]), int(port["target"])


def _copy(source: Path, target: Path) -> None:
    if source.is_dir():
        shutil.copytree(source, target, dirs_exist_ok=True)
    else:
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(source, target)
