"""``ui``: the web pages."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from provender.cli.commands import command
from provender.cli.invocation import Invocation
from provender.errors import SettingsError
from provender.loopback import is_loopback

if TYPE_CHECKING:
    import socket

TOKEN_VARIABLE = "PROVENDER_UI_TOKEN"  # noqa: S105 - the name of a variable


def register(app: typer.Typer) -> None:
    """Adds the commands of this group."""
    command(app, "ui", "provender ui --open", "provender ui --host 0.0.0.0 --token-file token")(ui)


def ui(
    call: Invocation,
    host: Annotated[
        str, typer.Option("--host", metavar="ADDRESS", help="The address to listen on.")
    ] = "127.0.0.1",
    port: Annotated[
        int,
        typer.Option(
            "--port", min=0, max=65535, help="The port, up to 65535; 0 takes any free one."
        ),
    ] = 8420,
    open_browser: Annotated[
        bool, typer.Option("--open", help="Show the pages in the browser of this machine.")
    ] = False,
    token_file: Annotated[
        str | None,
        typer.Option(
            "--token-file",
            metavar="FILE",
            help=f"File that holds the token which visitors must know; or set {TOKEN_VARIABLE}.",
        ),
    ] = None,
) -> None:
    """Show the catalog as web pages, until interrupted. Nothing can be changed there.

    On a loopback address everyone on this machine may look. On any other address visitors need a
    token; where none is given one is made at random and printed once.
    """
    try:
        import uvicorn

        from provender.ui import create_app
        from provender.ui.guard import LOOPBACK_HOSTS
    except ModuleNotFoundError as error:
        raise SettingsError(
            f"The web pages need {error.name}, which is not installed.",
            where="provender ui",
            hint="pip install 'provender[ui]'",
        ) from error

    token, is_new = _token(host, token_file)
    hosts = (*LOOPBACK_HOSTS, host.lower()) if is_loopback(host) else ()
    _check_catalog(call)
    app = create_app(call.settings, token=token, hosts=hosts)
    listener = _listen(host, port)
    address = _address(host, listener.getsockname()[1])
    if call.json:
        call.out.document({"url": address, **({"token": token} if is_new else {})})
    else:
        call.out.line(address)
        if is_new:
            call.out.line(f"token: {token}")
        call.out.remark("Ctrl-C ends it.")
    call.out.stream.flush()
    if open_browser:
        import webbrowser

        webbrowser.open(address)
    config = uvicorn.Config(
        app, log_level="info" if call.verbose else "warning", server_header=False, lifespan="off"
    )
    try:
        uvicorn.Server(config).run(sockets=[listener])
    except KeyboardInterrupt:
        pass  # that is how it ends
    finally:
        listener.close()


def _token(host: str, file: str | None) -> tuple[str | None, bool]:
    """The token, and whether it was made just now."""
    given = os.environ.get(TOKEN_VARIABLE)
    if file is not None:
        try:
            given = Path(file).expanduser().read_text(encoding="utf-8").strip()
        except (OSError, UnicodeDecodeError) as error:
            why = getattr(error, "strerror", None) or "it is not UTF-8 text"
            raise SettingsError(f"The token cannot be read: {why}.", where=file) from error
        if not given:
            raise SettingsError("The token file is empty.", where=file)
    if given:
        return given, False
    if is_loopback(host):
        return None, False
    import secrets

    return secrets.token_urlsafe(32), True


def _check_catalog(call: Invocation) -> None:
    """Says at once, and not on a page, where the catalog cannot be read."""
    from provender.ui.opening import open_read_only

    open_read_only(call.settings.catalog).close()


def _listen(host: str, port: int) -> socket.socket:
    """An open socket; the port is taken before the address is printed."""
    import socket

    try:
        family, _, _, _, place = socket.getaddrinfo(
            host.strip("[]"), port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
        listener = socket.socket(family, socket.SOCK_STREAM)
        try:
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            listener.bind(place)
            listener.listen(128)
        except OSError:
            listener.close()
            raise
    except OSError as error:
        raise SettingsError(
            f"Cannot listen there: {error.strerror or error}.",
            where=_address(host, port),
            hint="Give another --port; --port 0 takes any free one.",
        ) from error
    return listener


def _address(host: str, port: int) -> str:
    shown = host.strip("[]")
    return f"http://[{shown}]:{port}/" if ":" in shown else f"http://{shown}:{port}/"
