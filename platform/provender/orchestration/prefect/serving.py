"""Serving the deployments: a Prefect server where none is named, limits, and the runs themselves."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import httpx

from provender.errors import SettingsError
from provender.loopback import is_loopback
from provender.orchestration.prefect.starting import prefer_patience
from provender.settings import Settings

DOWNLOADS = 4
"""Downloads that may run at once, in all flow runs together, where nobody has set another limit."""

_START_SECONDS = 180.0
_AUTHENTICATION = "PREFECT_SERVER_API_AUTH_STRING"

Tell = Callable[[Mapping[str, Any]], None]


def api_url() -> str | None:
    """The server that this environment or Prefect's profile names, or None."""
    prefer_patience()
    from prefect.settings import PREFECT_API_URL

    found = PREFECT_API_URL.value()
    return str(found) if found else None


def serve(settings: Settings, *, host: str, port: int, limit: int, tell: Tell) -> None:
    """Registers the deployments and runs what is asked of them, until it is stopped.

    Args:
        settings: the project's settings.
        host: where a server is started, if none is named.
        port: likewise.
        limit: most flow runs at once.
        tell: is told once what is served: ``url``, ``started`` (whether the server was),
            ``deployments``, and ``problems``: the errors of datasets that have none.

    Raises:
        SettingsError: a server for other machines would have no password, or it does not start.
    """
    url = api_url()
    if url is not None:
        _serve(settings, limit, tell, {"url": url, "started": False})
        return
    from prefect.settings import PREFECT_API_URL, temporary_settings

    with _server(host, port, settings.home / "prefect") as url, temporary_settings(
        {PREFECT_API_URL: url}
    ):  # fmt: skip
        # The runs are processes of their own.
        os.environ["PREFECT_API_URL"] = url
        _serve(settings, limit, tell, {"url": url, "started": True})


def _serve(settings: Settings, limit: int, tell: Tell, about: Mapping[str, Any]) -> None:
    from prefect.runner import Runner

    from provender.orchestration.prefect.deploying import deployments

    made = deployments(settings)
    ensure_limit()
    runner = Runner(limit=limit)
    for each in made.found:
        runner.add_deployment(each)
    names = [f"{each.flow_name}/{each.name}" for each in made.found]
    tell({**about, "deployments": names, "problems": made.problems})
    # That is how it ends.
    with suppress(KeyboardInterrupt, _stopped()):
        asyncio.run(runner.start())


def _stopped() -> type[BaseException]:
    from prefect.exceptions import TerminationSignal

    found: type[BaseException] = TerminationSignal
    return found


def ensure_limit() -> None:
    """Limits how many downloads run at once, unless somebody has set a limit already."""
    from prefect import get_client
    from prefect.exceptions import ObjectNotFound

    from provender.orchestration.prefect.stages import DOWNLOAD_TAG

    with get_client(sync_client=True) as client:
        try:
            client.read_concurrency_limit_by_tag(DOWNLOAD_TAG)
        except ObjectNotFound:
            client.create_concurrency_limit(DOWNLOAD_TAG, DOWNLOADS)


@contextmanager
def _server(host: str, port: int, folder: Path) -> Iterator[str]:
    """Starts a Prefect server whose database is kept in a folder, and stops it in the end."""
    if not is_loopback(host) and not os.environ.get(_AUTHENTICATION):
        raise SettingsError(
            f"A Prefect server on {host} would let everyone in.",
            where="--host",
            hint=f"Set {_AUTHENTICATION} to user:password, or leave out --host.",
        )
    folder.mkdir(parents=True, exist_ok=True)
    shown = f"http://{host}:{port}"
    environ = {
        **os.environ,
        "PREFECT_HOME": str(folder),
        "PREFECT_SERVER_UI_API_URL": f"{shown}/api",
        "PREFECT_SERVER_ANALYTICS_ENABLED": "false",
        "DO_NOT_TRACK": "1",
    }
    command = [sys.executable, "-m", "prefect", "server", "start", "--host", host]
    with tempfile.TemporaryFile() as log:
        process = subprocess.Popen(
            [*command, "--port", str(port)],
            env=environ, stdout=log, stderr=log, start_new_session=True,
        )  # fmt: skip
        try:
            _wait(f"{shown}/api/health", process, log)
            yield f"{shown}/api"
        finally:
            _stop(process)


def _wait(url: str, process: subprocess.Popen[bytes], log: Any) -> None:
    deadline = time.monotonic() + _START_SECONDS
    while time.monotonic() < deadline and process.poll() is None:
        try:
            if httpx.get(url, timeout=5).status_code == 200:
                return
        except httpx.HTTPError:
            pass
        time.sleep(0.25)
    log.seek(0)
    said = log.read().decode(errors="replace").strip().splitlines()
    raise SettingsError(
        "The Prefect server did not start.",
        where=url,
        hint="Is the port taken? Give another --port, or set PREFECT_API_URL to a server that runs.",
        facts={"log": said[-20:]},
    )


def _stop(process: subprocess.Popen[bytes]) -> None:
    for kind in (signal.SIGTERM, signal.SIGKILL):
        try:
            os.killpg(process.pid, kind)
            process.wait(10)
            return
        except ProcessLookupError:
            return
        except subprocess.TimeoutExpired:
            continue
