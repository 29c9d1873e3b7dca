"""The door: nobody passes without Airflow's login, and the pages are made when the first one does."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.responses import Response
    from starlette.types import ASGIApp, Receive, Scope, Send

    from provender.errors import ProvenderError

_LOG = logging.getLogger(__name__)
USER = "provender_user"
"""Where the request's state holds who came in."""


class Entrance:
    """An ASGI application in front of another, which it makes for the first visitor.

    Args:
        make: makes the application; raises `ProvenderError` where the project's settings make no
            sense, and is then asked again at the next visit.
    """

    def __init__(self, make: Callable[[], ASGIApp]) -> None:
        self._make = make
        self._lock = threading.Lock()
        self._app: ASGIApp | None = None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answers a request."""
        if scope["type"] == "websocket":
            await send({"type": "websocket.close", "code": 1000})
            return
        if scope["type"] != "http":
            return
        from starlette.concurrency import run_in_threadpool
        from starlette.requests import Request

        from provender.errors import ProvenderError

        request = Request(scope, receive)
        app: ASGIApp | None
        try:
            app = await _refusal(request)
            if app is None:
                app = await run_in_threadpool(self._made)
        except ProvenderError as error:
            _LOG.exception("Provender's pages cannot be shown.")
            app = _closed(error)
        await app(scope, receive, send)

    def _made(self) -> ASGIApp:
        with self._lock:
            if self._app is None:
                self._app = self._make()
            return self._app


async def _refusal(request: Request) -> Response | None:
    """What somebody is told whom Airflow does not know; None lets the request pass."""
    from airflow.api_fastapi.core_api.security import bearer_scheme, get_user
    from fastapi import HTTPException

    try:
        user = await get_user(request, None, await bearer_scheme(request))
    except HTTPException as error:
        return _text("Sign in to Airflow, then come back.", error.status_code)
    setattr(request.state, USER, user)
    return None


def _closed(error: ProvenderError) -> Response:
    return _text(f"Provender's pages cannot be shown.\n\n{error}", 503)


def _text(message: str, status: int) -> Response:
    from starlette.responses import PlainTextResponse

    from provender.ui.guard import security_headers

    return PlainTextResponse(f"{message}\n", status, dict(security_headers(["'self'"])))
