"""Running a flow from a terminal: ``python flows/prepare_dataset.py xsum``."""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Sequence
from typing import Any

from provender.errors import ProvenderError

_PATIENCE = "PREFECT_SERVER_EPHEMERAL_STARTUP_TIMEOUT_SECONDS"


def prefer_patience() -> None:
    """Gives a temporary server the time that its start takes on a small machine.

    Prefect gives up after 20 seconds by default. To be called before Prefect is imported.
    """
    os.environ.setdefault(_PATIENCE, "180")


def main(name: str, args: Sequence[str] | None = None) -> int:
    """Runs one flow of this package.

    Args:
        name: of the flow's function, e.g. ``prepare_dataset``.
        args: the command line; by default the program's own.

    Returns:
        The exit code: 0, or that of the error which ended the flow.
    """
    asked = _asked(name, args)
    prefer_patience()
    if not os.environ.get("PREFECT_API_URL"):
        print(  # noqa: T201 - this is a command
            "No PREFECT_API_URL is set: unless a profile names a server, a temporary one is "
            "started, which takes up to half a minute.",
            file=sys.stderr,
        )
    from provender.orchestration import prefect as flows

    run = getattr(flows, name)
    try:
        given = {} if name == "retention" else {"task_runner": flows.runner_of(asked.runner)}
        state = run.with_options(**given)(**_parameters(asked), return_state=True)
    except ProvenderError as error:
        print(error, file=sys.stderr)  # noqa: T201
        return error.exit_code
    result = state.result(raise_on_failure=False)
    if isinstance(result, BaseException):
        print(result, file=sys.stderr)  # noqa: T201
        return result.exit_code if isinstance(result, ProvenderError) else 1
    print(json.dumps({"state": state.name, "message": state.message, "result": result}, indent=2))  # noqa: T201
    return 0 if state.is_completed() else 1


def _asked(name: str, args: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog=f"{name}.py", epilog="Other parameters: --set NAME=JSON, e.g. --set num_shards=4."
    )
    if name == "prepare_dataset":
        parser.add_argument("dataset", help="what to build, e.g. digits or xsum:1.1.0")
    if name == "backfill":
        parser.add_argument("dataset", help="a dataset of provender.toml that is cut by time")
        parser.add_argument("first", help="its first piece, e.g. 2026-11-01")
        parser.add_argument("last", help="its last piece, which is included")
    if name != "retention":
        parser.add_argument("--runner", help="threads[:N], processes[:N] or dask:tcp://host:8786")
    parser.add_argument("--set", action="append", default=[], metavar="NAME=JSON", dest="given")
    asked = parser.parse_args(args)
    for each in asked.given:
        if "=" not in each:
            parser.error(f"--set {each}: give NAME=JSON")
    return asked


def _parameters(asked: argparse.Namespace) -> dict[str, Any]:
    found: dict[str, Any] = {
        name: getattr(asked, name) for name in ("dataset", "first", "last") if hasattr(asked, name)
    }
    for each in asked.given:
        name, _, text = each.partition("=")
        try:
            found[name] = json.loads(text)
        except json.JSONDecodeError:
            found[name] = text
    return found
