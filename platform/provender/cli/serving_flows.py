"""``serve-flows``: Prefect's deployments of the project, registered and run."""

from __future__ import annotations

from collections.abc import Mapping
from importlib.util import find_spec
from typing import Annotated, Any

import typer

from provender.cli.commands import command
from provender.cli.invocation import Invocation
from provender.errors import SettingsError


def register(app: typer.Typer) -> None:
    """Adds the command."""
    command(app, "serve-flows", "provender serve-flows", "provender serve-flows --port 4300")(
        serve_flows
    )


def serve_flows(
    call: Invocation,
    host: Annotated[
        str,
        typer.Option("--host", metavar="ADDRESS", help="Where a server is started, if need be."),
    ] = "127.0.0.1",
    port: Annotated[
        int, typer.Option("--port", min=1, max=65535, help="The port of such a server.")
    ] = 4200,
    limit: Annotated[
        int, typer.Option("--limit", min=1, metavar="N", help="Most flow runs at the same time.")
    ] = 4,
) -> None:
    """Register the project's Prefect deployments and run what is asked of them, until interrupted.

    Uses the Prefect server that PREFECT_API_URL or Prefect's profile names. Where none is named,
    one is started on a loopback address and stopped in the end; its database stays in the home folder.
    """
    if find_spec("prefect") is None:
        raise SettingsError(
            "Prefect is not installed.",
            where="provender serve-flows",
            hint="pip install 'provender[prefect]'",
        )
    from provender.orchestration.prefect.serving import serve
    from provender.settings import load_settings

    # One table that makes no sense keeps no other dataset from being served.
    settings = load_settings(
        store=call.store_url, catalog=call.catalog_url, file=call.config_file, only=()
    )

    def tell(about: Mapping[str, Any]) -> None:
        if call.json:
            problems = [error.to_json() for error in about["problems"]]
            call.out.document({**about, "problems": problems})
        elif not call.quiet:
            pages = about["url"].removesuffix("/api")
            call.out.line(
                f"{pages} ({'started for this' if about['started'] else 'as configured'})"
            )
            for name in about["deployments"]:
                call.out.line(f"  {name}")
            for error in about["problems"]:
                call.out.aside(f"Not served: {error}")
            call.out.remark("Ctrl-C ends it.")
        call.out.stream.flush()

    serve(settings, host=host, port=port, limit=limit, tell=tell)
