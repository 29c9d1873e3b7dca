"""docker-compose.yml: what Compose says of it, and what must hold for each service."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
from tests.deploy.conftest import DEPLOY, ROOT, load

FILE = ROOT / "docker-compose.yml"
COMPOSE = shutil.which("docker-compose")
OWN_IMAGE = "provender:${PROVENDER_TAG:-local}"
TAKES_TASKS = "/opt/provender/deploy/takes_tasks.py"
VARIABLE = re.compile(r"\$\{([A-Z_]+)([^}]*)\}")
Services = dict[str, dict[str, Any]]


def check(environment: Path) -> subprocess.CompletedProcess[str]:
    if COMPOSE is None:
        pytest.skip("no docker-compose here: apt-get install docker-compose")
    kept = {key: os.environ[key] for key in ("PATH", "HOME") if key in os.environ}
    return subprocess.run(
        [COMPOSE, "-f", str(FILE), "--env-file", str(environment), "config", "-q"],
        cwd=environment.parent, env=kept, capture_output=True, text=True, timeout=60,
    )  # fmt: skip


def test_compose_takes_it_with_what_make_up_writes(tmp_path: Path) -> None:
    path = tmp_path / ".env"
    load("fill_environment").complete(path)
    done = check(path)
    assert done.returncode == 0, done.stderr


def test_compose_refuses_it_without_any_one_secret(tmp_path: Path) -> None:
    fill = load("fill_environment")
    path = tmp_path / "env"
    path.touch()
    bare = check(path)
    assert bare.returncode != 0 and "make up writes it to .env" in bare.stderr
    # The others by the text itself: one start of Compose a variable would take a minute.
    text = FILE.read_text(encoding="utf-8")
    for name in fill.wanted():
        assert f"${{{name}:?" in text, name


def test_every_variable_is_written_or_has_a_harmless_default() -> None:
    wanted = set(load("fill_environment").wanted())
    template = (DEPLOY / "environment.template").read_text(encoding="utf-8")
    for name, rest in VARIABLE.findall(FILE.read_text(encoding="utf-8")):
        if name in wanted:
            assert rest == "" or rest.startswith(":?"), f"{name} has a default"
        else:
            assert rest.startswith(":-"), name
            assert name == "PROVENDER_TAG" or f"# {name}=" in template, name


def test_only_loopback_is_published(services: Services) -> None:
    published = [port for each in services.values() for port in each.get("ports", ())]
    assert published and all(port.startswith("127.0.0.1:") for port in published)
    assert not any(each.get("network_mode") == "host" for each in services.values())
    assert not any(each.get("privileged") for each in services.values())


def test_every_service_has_a_health_check(services: Services) -> None:
    for name, each in services.items():
        if each.get("restart") == "no":
            waited = [
                other
                for other in services.values()
                if other.get("depends_on", {}).get(name, {}).get("condition")
                == "service_completed_successfully"
            ]
            assert waited, f"nobody waits for {name}"
            continue
        health = each["healthcheck"]
        assert health["test"][0] in ("CMD", "CMD-SHELL") and len(health["test"]) > 1, name
        assert health["retries"] > 0 and health["interval"] and health["timeout"], name
        assert each["restart"] == "unless-stopped", name


def test_every_service_has_limits(services: Services) -> None:
    for name, each in services.items():
        assert re.fullmatch(r"\d+[mg]", each["mem_limit"]), name
        assert 0 < each["cpus"] <= 2, name


def test_workers_are_asked_by_name(services: Services) -> None:
    """A worker that hangs must not be well because another one answers."""
    for name in ("worker-1", "worker-2"):
        each = services[f"airflow-{name}"]
        assert f"{name}@provender" in each["command"]
        assert each["healthcheck"]["test"][-2:] == [TAKES_TASKS, f"{name}@provender"]


def test_nobody_works_as_root(services: Services) -> None:
    """PostgreSQL's image begins as root, to own its volume, and drops it by itself."""
    docker = (DEPLOY / "Dockerfile").read_text(encoding="utf-8")
    users = re.findall(r"^USER (\S+)$", docker, re.M)
    assert users == ["10001:10001"]
    for name, each in services.items():
        if name == "postgres":
            continue
        if each["image"] == OWN_IMAGE:
            assert "user" not in each, name
        else:
            assert each["user"] in ("10001:10001", "redis"), name


def test_no_secret_is_written_down(services: Services) -> None:
    told = re.compile(r"PASSWORD|SECRET|TOKEN|KEY$|AUTH_STRING|REDISCLI_AUTH|PGPASSWORD")
    for name, each in services.items():
        for key, value in (each.get("environment") or {}).items():
            if told.search(key) and not key.endswith(("_FILE", "_USERS")):
                assert VARIABLE.fullmatch(str(value)), f"{name}: {key}"
            if "://" in str(value) and "@" in str(value):
                password = str(value).partition("://")[2].partition("@")[0].partition(":")[2]
                assert not password or VARIABLE.match(password), f"{name}: {key}"


def test_a_service_gets_no_secrets_that_it_has_no_use_for(services: Services) -> None:
    def names(service: str) -> set[str]:
        return {name for name, _ in VARIABLE.findall(str(services[service]))}

    assert "AIRFLOW_FERNET_KEY" not in names("ui") | names("prefect-worker") | names(
        "prefect-server"
    )
    assert "PROVENDER_UI_TOKEN" not in names("airflow-api") | names("prefect-worker")
    assert "POSTGRES_PASSWORD" not in set().union(*(names(s) for s in services if s != "postgres"))
    assert not names("gcs-folder") - {"PROVENDER_TAG"}


def test_the_scheduler_waits_until_the_api_answers(services: Services) -> None:
    for name in ("scheduler", "dag-processor", "triggerer", "worker-1", "worker-2"):
        needs = services[f"airflow-{name}"]["depends_on"]
        assert needs["airflow-api"] == {"condition": "service_healthy"}
    for name, each in services.items():
        for other in each.get("depends_on", {}):
            assert other in services, name


def test_what_is_mounted_is_there(services: Services) -> None:
    doc_volumes = {"postgres", "gcs", "work"}
    for name, each in services.items():
        for volume in each.get("volumes", ()):
            source, _, rest = volume.partition(":")
            if source.startswith("./"):
                assert (ROOT / source).exists(), f"{name}: {source}"
                assert rest.endswith(":ro"), f"{name} could write to {source}"
            else:
                assert source in doc_volumes, name


def test_programs_that_are_started_are_there(services: Services) -> None:
    for name, each in services.items():
        words = [*each.get("command", ()), *each.get("healthcheck", {}).get("test", ())]
        for word in words:
            if word.startswith("/opt/provender/deploy/"):
                assert (DEPLOY / word.removeprefix("/opt/provender/deploy/")).is_file(), name
