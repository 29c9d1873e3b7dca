"""The other files of deploy/: secrets, image, Kubernetes, the project, and `make up`."""

from __future__ import annotations

import base64
import fnmatch
import json
import os
import re
import stat
import subprocess
import sys
import tomllib
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import pytest
import yaml
from tests.deploy.conftest import DEPLOY, ROOT, load

from provender.settings import load_settings

HELM = sorted((DEPLOY / "helm").glob("*.yaml"))


# Secrets -----------------------------------------------------------------------------------------


def test_secrets_are_random_and_for_their_owner_alone(tmp_path: Path) -> None:
    fill = load("fill_environment")
    one, two = tmp_path / "one", tmp_path / "two"
    assert fill.complete(one) == fill.wanted() and fill.complete(two)
    first, second = fill.read(one), fill.read(two)
    assert list(first) == fill.wanted()
    assert not set(first.values()) & set(second.values())
    assert len(set(first.values())) == len(first)
    assert stat.S_IMODE(one.stat().st_mode) == 0o600
    assert len(base64.urlsafe_b64decode(first["AIRFLOW_FERNET_KEY"])) == 32
    assert re.fullmatch(r"provender:\w{40}", first["PREFECT_AUTH"])
    assert len(first["AIRFLOW_JWT_SECRET"]) >= 64, "RFC 7518 asks for as much as the digest has"
    assert len(first["PROVENDER_UI_TOKEN"]) >= 16
    # They become parts of URLs and of a service file.
    assert all(re.fullmatch(r"[\w:=-]+", value) for value in first.values())


def test_what_is_there_stays(tmp_path: Path) -> None:
    fill = load("fill_environment")
    path = tmp_path / ".env"
    path.write_text("# mine\nREDIS_PASSWORD=mine\nAIRFLOW_PORT=9090\nPOSTGRES_PASSWORD=\n")
    path.chmod(0o644)
    added = fill.complete(path)
    assert "REDIS_PASSWORD" not in added and "POSTGRES_PASSWORD" in added
    assert path.read_text().startswith("# mine\nREDIS_PASSWORD=mine\nAIRFLOW_PORT=9090\n")
    assert fill.read(path)["REDIS_PASSWORD"] == "mine" and fill.read(path)["POSTGRES_PASSWORD"]
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    before = path.read_bytes()
    assert fill.complete(path) == [] and path.read_bytes() == before


def test_a_last_line_without_an_end_stays_whole(tmp_path: Path) -> None:
    fill = load("fill_environment")
    path = tmp_path / ".env"
    path.write_text("REDIS_PASSWORD=mine")
    fill.complete(path)
    assert fill.read(path)["REDIS_PASSWORD"] == "mine"
    assert set(fill.read(path)) == set(fill.wanted())


def test_secrets_stay_out_of_the_repository_and_the_image() -> None:
    ignored = subprocess.run(
        ["git", "check-ignore", "-q", ".env"], cwd=ROOT, capture_output=True, check=False
    )
    if ignored.returncode == 128:
        pytest.skip("no git repository here")
    assert ignored.returncode == 0
    rules = (ROOT / ".dockerignore").read_text(encoding="utf-8").splitlines()
    assert "*" in rules and "!.env" not in rules and "**/.env" in rules
    assert "=" not in "".join(
        line.rstrip("=")
        for line in (DEPLOY / "environment.template").read_text().splitlines()
        if not line.startswith("#")
    )


# The image ---------------------------------------------------------------------------------------


def copied() -> list[str]:
    text = (DEPLOY / "Dockerfile").read_text(encoding="utf-8")
    lines = re.findall(r"^COPY (?!--from)(.+)$", text, re.M)
    return [source for line in lines for source in line.split()[:-1]]


def test_what_the_image_copies_is_there_and_not_ignored() -> None:
    rules = (ROOT / ".dockerignore").read_text(encoding="utf-8").splitlines()
    kept = {rule[1:] for rule in rules if rule.startswith("!")}
    assert copied()
    for source in map(Path, copied()):
        assert (ROOT / source).exists(), source
        assert source.parts[0] in kept, f"{source} is kept from the build"
        assert not any(
            fnmatch.fnmatch(source.name, rule.removeprefix("**/"))
            for rule in rules[1:]
            if rule.startswith("**/")
        )


def test_extras_of_the_image_exist_and_are_locked() -> None:
    text = (DEPLOY / "Dockerfile").read_text(encoding="utf-8")
    (asked,) = re.findall(r"'\.\[([\w,]+)\]'", text)
    doc = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    extras = doc["project"]["optional-dependencies"]
    assert set(asked.split(",")) <= set(extras)
    locked = set(re.findall(r"^([\w.-]+)==", (ROOT / "requirements.lock").read_text(), re.M))
    for extra in asked.split(","):
        for requirement in extras[extra]:
            name = re.split(r"[\[<>=!~ ]", requirement)[0]
            assert name in locked, name
    make = (ROOT / "Makefile").read_text(encoding="utf-8")
    (set_up,) = re.findall(r"^EXTRAS := (.*)$", make, re.M)
    assert set(asked.split(",")) <= set(set_up.split(","))
    (uv,) = re.findall(r"^UV_VERSION := (.*)$", make, re.M)
    assert f"uv=={uv}" in text


# Kubernetes --------------------------------------------------------------------------------------


@pytest.mark.parametrize("path", HELM, ids=lambda path: path.name)
def test_helm_values_hold_no_secret(path: Path) -> None:
    doc = yaml.safe_load(path.read_text(encoding="utf-8"))
    assert isinstance(doc, dict)
    assert not re.search(r"(?i)^\s*(password|token|secret\w*key)\s*:\s*\S", path.read_text(), re.M)
    assert doc.get("postgresql", {"enabled": False}) == {"enabled": False}


def variables(entries: list[dict[str, Any]]) -> dict[str, Any]:
    return {each["name"]: each.get("value", each.get("valueFrom")) for each in entries}


def test_kubernetes_has_what_compose_has(services: dict[str, dict[str, Any]]) -> None:
    values = yaml.safe_load((DEPLOY / "helm" / "airflow-values.yaml").read_text())
    pod = yaml.safe_load((DEPLOY / "kubernetes" / "pod-template.yaml").read_text())
    (container,) = pod["spec"]["containers"]
    chart, task = variables(values["env"]), variables(container["env"])
    compose = services["airflow-worker-1"]["environment"]
    same = (
        *("AIRFLOW__CORE__DAGS_FOLDER", "AIRFLOW__PROVENDER__SETTINGS"),
        "AIRFLOW__WORKERS__MIN_HEARTBEAT_INTERVAL",
    )
    for name in same:
        assert chart[name] == task[name] == compose[name], name
    for name in ("PROVENDER_STORE", "PROVENDER_CATALOG", "PROVENDER_SCRATCH"):
        assert chart[name] == task[name], name
    assert re.match(r"postgresql\+psycopg://[^:@]+@", chart["PROVENDER_CATALOG"]), "no password"
    assert task["AIRFLOW__CORE__EXECUTION_API_SERVER_URL"].endswith(":8080/execution/")
    assert task["AIRFLOW__CORE__FERNET_KEY"]["secretKeyRef"]["key"] == "fernet-key"
    assert {"name": "provender-catalog"} in [each["secretRef"] for each in container["envFrom"]]
    assert values["executor"] == "KubernetesExecutor"
    locked = re.search(r"^apache-airflow==(\S+)", (ROOT / "requirements.lock").read_text(), re.M)
    assert locked and values["airflowVersion"] == locked[1]


def test_the_pod_is_what_airflow_and_a_cautious_cluster_ask_for() -> None:
    pod = yaml.safe_load((DEPLOY / "kubernetes" / "pod-template.yaml").read_text())
    spec = pod["spec"]
    (container,) = spec["containers"]
    assert (pod["kind"], container["name"], spec["restartPolicy"]) == ("Pod", "base", "Never")
    assert spec["securityContext"]["runAsNonRoot"] and spec["securityContext"]["runAsUser"] == 10001
    assert container["securityContext"]["allowPrivilegeEscalation"] is False
    assert (
        container["resources"]["requests"]["memory"] and container["resources"]["limits"]["memory"]
    )
    mounted = {each["name"] for each in container["volumeMounts"]}
    assert mounted <= {each["name"] for each in spec["volumes"]}


# The project, and the programs -------------------------------------------------------------------


def test_the_project_loads_without_its_folder_of_datasets(tmp_path: Path) -> None:
    text = (DEPLOY / "project" / "provender.toml").read_text(encoding="utf-8")
    file = tmp_path / "provender.toml"
    file.write_text(text)
    found = load_settings(file=file, environ={"HOME": str(tmp_path)})
    assert list(found.datasets) == ["digits"]
    (tmp_path / "datasets").mkdir()
    (tmp_path / "datasets" / "more.toml").write_text('[datasets.more]\nbuilder = "digits"\n')
    found = load_settings(file=file, environ={"HOME": str(tmp_path)})
    assert sorted(found.datasets) == ["digits", "more"]


def test_a_health_check_is_what_the_answer_says() -> None:
    parts = {
        "scheduler": {"status": "healthy"},
        "triggerer": {"status": None},
        "dag_processor": None,
    }

    class Answers(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200 if self.path in ("/well", "/text") else 503)
            self.end_headers()
            self.wfile.write(json.dumps(parts).encode() if self.path != "/text" else b"well")

        def log_message(self, *_: object) -> None: ...

    def code(path: str, *part: str) -> int:
        url = f"http://127.0.0.1:{server.server_port}{path}"
        return load("answers").main([url, *part])

    with HTTPServer(("127.0.0.1", 0), Answers) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        try:
            assert (code("/well"), code("/ill")) == (0, 1)
            assert [code("/well", part) for part in (*parts, "other")] == [0, 1, 1, 1]
            assert (code("/ill", "scheduler"), code("/text", "scheduler")) == (1, 1)
        finally:
            server.shutdown()
    assert code("/gone") == code("/gone", "scheduler") == 1


@pytest.mark.parametrize(("status", "code"), [("READY", 0), ("NOT_READY", 1), (None, 1)])
def test_flows_are_served_or_not(status: str | None, code: int) -> None:
    asked: list[str | None] = []

    class Prefect(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            asked.append(self.headers["Authorization"])
            body = json.dumps([{"status": status}] if status else []).encode()
            self.send_response(200)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None: ...

    with HTTPServer(("127.0.0.1", 0), Prefect) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        environment = {
            "PREFECT_API_URL": f"http://127.0.0.1:{server.server_port}/api",
            "PREFECT_API_AUTH_STRING": "ada:secret",
        }
        done = subprocess.run(
            [sys.executable, DEPLOY / "served.py"], env=environment, capture_output=True
        )
        server.shutdown()
    assert done.returncode == code, done.stderr
    assert asked == [f"Basic {base64.b64encode(b'ada:secret').decode()}"]


def test_make_up_fills_builds_and_starts(tmp_path: Path) -> None:
    """With a `docker` that writes down what it is asked for."""
    (tmp_path / "deploy").symlink_to(DEPLOY)
    (tmp_path / "Makefile").symlink_to(ROOT / "Makefile")
    program = tmp_path / "bin" / "docker"
    program.parent.mkdir()
    program.write_text(f'#!/bin/sh\necho "$@" >> {tmp_path}/asked\n')
    program.chmod(0o755)
    environment = {
        **os.environ,
        "PATH": f"{program.parent}:{os.environ['PATH']}",
        "AIRFLOW_PORT": "9090",
    }
    for target in ("up", "down"):
        done = subprocess.run(
            ["make", target], cwd=tmp_path, env=environment, capture_output=True, text=True
        )
        assert done.returncode == 0, done.stderr
        if target == "up":
            assert (
                "http://127.0.0.1:9090/" in done.stdout and "http://127.0.0.1:8420/" in done.stdout
            )
            secrets = load("fill_environment").read(tmp_path / ".env").values()
            assert not any(secret in done.stdout for secret in secrets)
    assert stat.S_IMODE((tmp_path / ".env").stat().st_mode) == 0o600
    assert (tmp_path / "asked").read_text().splitlines() == [
        "compose version",
        "compose build init",
        "compose up --detach --wait --wait-timeout 900",
        "compose down",
    ]


def test_make_up_says_what_is_missing(tmp_path: Path) -> None:
    (tmp_path / "deploy").symlink_to(DEPLOY)
    (tmp_path / "Makefile").symlink_to(ROOT / "Makefile")
    program = tmp_path / "bin" / "docker"
    program.parent.mkdir()
    program.write_text("#!/bin/sh\nexit 1\n")
    program.chmod(0o755)
    environment = {**os.environ, "PATH": f"{program.parent}:{os.environ['PATH']}"}
    done = subprocess.run(
        ["make", "up"], cwd=tmp_path, env=environment, capture_output=True, text=True
    )
    assert done.returncode != 0 and "Compose 2 is needed" in done.stderr
    assert not (tmp_path / ".env").exists()
