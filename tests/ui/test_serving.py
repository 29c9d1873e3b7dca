"""``provender ui``: where it listens, whom it lets in, and what it says when it cannot."""

from __future__ import annotations

import json
import os
import socket
import subprocess
from pathlib import Path

import httpx
import pytest
from tests.ui.serving import PROGRAM, served
from tests.ui.world import World

from provender.cli.serving import is_loopback


def run(home: Path, *options: str, **environment: str) -> subprocess.CompletedProcess[str]:
    env = {**os.environ, "HOME": str(home), "PROVENDER_HOME": str(home), **environment}
    return subprocess.run(
        [PROGRAM, "ui", *options], cwd=home, env=env, capture_output=True, text=True, timeout=60
    )


def test_on_loopback_without_a_token(world: World) -> None:
    with served(world.home) as said:
        assert said["url"].startswith("http://127.0.0.1:") and "token" not in said
        assert httpx.get(said["url"]).status_code == 200
        rebound = httpx.get(said["url"], headers={"host": "evil.example"})
        assert rebound.status_code == 421
        head = httpx.head(said["url"])
        assert head.status_code == 200 and head.content == b"" and "server" not in head.headers


def test_on_other_addresses_with_a_token_made_at_random(world: World) -> None:
    with served(world.home, "--host", "0.0.0.0") as said:
        url = said["url"].replace("0.0.0.0", "127.0.0.1") + "api/datasets"
        assert len(said["token"]) >= 43
        assert httpx.get(url).status_code == 401
        bearer = {"authorization": f"Bearer {said['token']}"}
        assert httpx.get(url, headers=bearer).status_code == 200


def test_with_a_token_of_ones_own(world: World, tmp_path: Path) -> None:
    file = tmp_path / "token"
    file.write_text("a token of my own, long enough\n")
    with served(world.home, "--token-file", str(file)) as said:
        assert "token" not in said
        assert httpx.get(said["url"] + "api/runs").status_code == 401
        bearer = {"authorization": "Bearer a token of my own, long enough"}
        assert httpx.get(said["url"] + "api/runs", headers=bearer).status_code == 200
    with served(world.home, environment={"PROVENDER_UI_TOKEN": "from the environment"}) as said:
        assert httpx.get(said["url"] + "api/runs").status_code == 401


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (["--token-file", "nowhere"], "cannot be read"),
        (["--token-file", "empty"], "empty"),
        (["--token-file", "short"], "16 characters"),
        (["--host", "no.such.host.invalid"], "Cannot listen there"),
        (["--port", "70000"], "70000"),
    ],
    ids=["missing", "empty", "short", "host", "port"],
)
def test_what_cannot_be_is_told(world: World, options: list[str], says: str) -> None:
    (world.home / "empty").touch()
    (world.home / "short").write_text("abc")
    done = run(world.home, *options)
    assert done.returncode == 2, done.stderr
    assert says in done.stderr and "Traceback" not in done.stderr


def test_a_port_that_is_taken(world: World) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        done = run(world.home, "--port", str(taken.getsockname()[1]))
    assert done.returncode == 2 and "--port 0" in done.stderr


def test_without_a_catalog(tmp_path: Path) -> None:
    done = run(tmp_path, "--json")
    assert done.returncode == 7
    assert json.loads(done.stdout)["error"]["message"] == "There is no catalog yet."
    assert not (tmp_path / "catalog.db").exists()


@pytest.mark.parametrize(
    ("host", "is_it"),
    [
        ("127.0.0.1", True),
        ("127.9.9.9", True),
        ("localhost", True),
        ("::1", True),
        ("[::1]", True),
        ("0.0.0.0", False),
        ("::", False),
        ("10.0.0.1", False),
        ("example.org", False),
        ("", False),
        ("localhost.example.org", False),
    ],
)
def test_which_addresses_only_this_machine_reaches(host: str, is_it: bool) -> None:
    assert is_loopback(host) is is_it
