"""Who may look, and what browsers are told: host check, token, response headers.

One ASGI layer around the application, so that nothing (static files, error pages, the JSON API)
goes past it.
"""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import re
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import parse_qs, quote

from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, RedirectResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from provender.errors import SettingsError

LOOPBACK_HOSTS = ("127.0.0.1", "localhost", "[::1]")
LOGIN, LOGOUT = "/login", "/logout"
HEALTH = "/health"
COOKIE = "provender_session"
SHORTEST_TOKEN = 16
_SESSION_SECONDS = 12 * 3600
_FORM_BYTES = 4096
_WRONG_TOKEN_SECONDS = 0.5
_HOST = re.compile(r"(?P<name>\[[0-9a-f:.]+\]|[^:\[\]/]+)(?::\d+)?")
_STATIC = "/static/"


@dataclass(frozen=True)
class Rules:
    """What the guard asks of a request.

    Attributes:
        token: what a visitor must know; None lets everyone in who reaches the address.
        hosts: names that the ``Host`` header may hold, without port; empty allows any. A page of
            another site that has its own name resolve to 127.0.0.1 is stopped by this.
        frame_ancestors: sites that may show the pages in a frame, e.g. ``'self'``.
    """

    token: str | None = None
    hosts: Sequence[str] = ()
    frame_ancestors: Sequence[str] = ()

    def __post_init__(self) -> None:
        if self.token is not None and len(self.token) < SHORTEST_TOKEN:
            raise SettingsError(
                f"A token needs {SHORTEST_TOKEN} characters or more, this one has {len(self.token)}.",
                where="token",
                hint='python -c "import secrets; print(secrets.token_urlsafe(32))" makes one.',
            )


class Guard:
    """The layer.

    Args:
        app: what it guards.
        rules: what it asks.
    """

    def __init__(self, app: ASGIApp, rules: Rules) -> None:
        self._app = app
        self._rules = rules
        self._headers = security_headers(rules.frame_ancestors)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return

        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(raw=message["headers"])
                for name, value in self._headers:
                    headers.setdefault(name, value)
                message["headers"] = headers.raw
            await send(message)

        if scope["method"] == "HEAD":
            # The server leaves the body out, for it sees the scope that it made itself.
            scope = {**scope, "method": "GET"}
        answer = await self._answer(scope, receive)
        await (answer or self._app)(scope, receive, send_with_headers)

    async def _answer(self, scope: Scope, receive: Receive) -> Response | None:
        """The guard's own answer; None lets the request pass."""
        headers = Headers(scope=scope)
        if self._rules.hosts and _host_name(headers.get("host", "")) not in self._rules.hosts:
            return PlainTextResponse("This address is not served here.\n", 421)
        path = route_path(scope)
        if scope["method"] == "POST" and path in (LOGIN, LOGOUT):
            return await self._sign(scope, receive, path)
        if self._rules.token is None or _is_open(path) or self._is_known(headers, scope):
            return None
        if path.startswith("/api") or "text/html" not in headers.get("accept", ""):
            body = {
                "error": {
                    "type": "Unauthorized",
                    "message": "A token is needed.",
                    "hint": "Send the header `Authorization: Bearer TOKEN`.",
                }
            }
            return JSONResponse(body, 401, {"WWW-Authenticate": 'Bearer realm="provender"'})
        wanted = quote(
            path + (f"?{scope['query_string'].decode('latin-1')}" if scope["query_string"] else "")
        )
        return RedirectResponse(f"{prefix(scope)}{LOGIN}?next={wanted}", 303)

    def _is_known(self, headers: Headers, scope: Scope) -> bool:
        assert self._rules.token is not None
        kind, _, given = headers.get("authorization", "").partition(" ")
        if kind.lower() == "bearer":
            return _same(given.strip(), self._rules.token)
        return is_session(Request(scope).cookies.get(COOKIE, ""), self._rules.token)

    async def _sign(self, scope: Scope, receive: Receive, path: str) -> Response:
        """Signs a visitor in who knows the token, or out."""
        root = prefix(scope)
        if path == LOGOUT or self._rules.token is None:
            answer = RedirectResponse(f"{root}{LOGIN if self._rules.token else '/'}", 303)
            answer.delete_cookie(COOKIE, path=root or "/", httponly=True, samesite="strict")
            return answer
        form = await _form(Request(scope, receive))
        if form is None:
            return PlainTextResponse("The form is too long.\n", 413)
        target = local_target(form.get("next", ""))
        if not _same(form.get("token", "").strip(), self._rules.token):
            # Guessing 256 bits is hopeless anyway; this is for tokens that people made up.
            await asyncio.sleep(_WRONG_TOKEN_SECONDS)
            return RedirectResponse(f"{root}{LOGIN}?wrong=1&next={quote(target)}", 303)
        answer = RedirectResponse(f"{root}{target}", 303)
        answer.set_cookie(
            COOKIE,
            new_session(self._rules.token),
            max_age=_SESSION_SECONDS,
            path=root or "/",
            secure=scope.get("scheme") == "https",
            httponly=True,
            samesite="strict",
        )
        return answer


def _is_open(path: str) -> bool:
    """Whether a path may be seen without a token: the door, what it is painted with, the pulse."""
    return path in (LOGIN, LOGOUT, HEALTH) or path.startswith(_STATIC)


def prefix(scope: Scope) -> str:
    """Where the application is mounted, e.g. ``/provender``; empty at the root."""
    return str(scope.get("root_path", "")).rstrip("/")


def route_path(scope: Scope) -> str:
    """The path below the mount."""
    path: str = scope["path"]
    root = prefix(scope)
    if root and (path == root or path.startswith(f"{root}/")):
        path = path[len(root) :]
    return path or "/"


def local_target(text: str) -> str:
    """Where to go after signing in: a path of these pages, never another site."""
    if not text.startswith("/") or text.startswith(("//", "/\\")) or not text.isprintable():
        return "/"
    return text


def new_session(token: str, now: float | None = None) -> str:
    """A cookie value that proves knowledge of the token without holding it."""
    ends = str(int((time.time() if now is None else now) + _SESSION_SECONDS))
    return f"{ends}.{_signature(token, ends)}"


def is_session(value: str, token: str) -> bool:
    """Whether a cookie value was made by `new_session` with this token and has not run out."""
    ends, _, signature = value.partition(".")
    if not _same(signature, _signature(token, ends)):
        return False
    return ends.isdigit() and int(ends) > time.time()


def _signature(token: str, ends: str) -> str:
    return hmac.new(token.encode(), f"session:{ends}".encode(), hashlib.sha256).hexdigest()


def _same(given: str, wanted: str) -> bool:
    """Equality in constant time, whatever the lengths."""
    first, second = (
        hashlib.sha256(each.encode("utf-8", "replace")).digest() for each in (given, wanted)
    )
    return hmac.compare_digest(first, second)


def _host_name(header: str) -> str:
    """The ``Host`` header without its port, in small letters."""
    found = _HOST.fullmatch(header.strip().lower())
    return found["name"].rstrip(".") if found else ""


async def _form(request: Request) -> dict[str, str] | None:
    """The fields of a form; None where it is longer than any honest one."""
    body = b""
    async for chunk in request.stream():
        body += chunk
        if len(body) > _FORM_BYTES:
            return None
    fields: dict[str, list[str]] = parse_qs(body.decode("utf-8", "replace"), max_num_fields=8)
    return {name: values[0] for name, values in fields.items()}


def security_headers(frame_ancestors: Iterable[str] = ()) -> list[tuple[str, str]]:
    """What browsers are told with every answer: nothing from elsewhere, nothing inline, no frames.

    Args:
        frame_ancestors: sites that may show the pages in a frame.
    """
    ancestors = list(frame_ancestors)
    policy = {
        "default-src": "'none'",
        "script-src": "'self'",
        "style-src": "'self'",
        "img-src": "'self'",
        "form-action": "'self'",
        "base-uri": "'none'",
        "frame-ancestors": " ".join(ancestors) or "'none'",
    }
    found: list[tuple[str, Any]] = [
        ("Content-Security-Policy", "; ".join(f"{name} {value}" for name, value in policy.items())),
        ("X-Content-Type-Options", "nosniff"),
        ("Referrer-Policy", "same-origin"),
        ("Cross-Origin-Opener-Policy", "same-origin"),
        ("Cross-Origin-Resource-Policy", "same-origin"),
        ("Permissions-Policy", "camera=(), geolocation=(), microphone=()"),
        ("Cache-Control", "no-store"),
    ]
    if not ancestors:
        found.append(("X-Frame-Options", "DENY"))
    return found
