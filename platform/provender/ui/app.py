"""The application: pages, JSON API, and the guard around both."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import TYPE_CHECKING

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import HTMLResponse, RedirectResponse, Response
from starlette.exceptions import HTTPException
from starlette.staticfiles import StaticFiles
from starlette.types import Scope

from provender import __version__
from provender.errors import CatalogError, ProvenderError, SettingsError, UnknownReference
from provender.ui import api, metrics
from provender.ui.guard import Guard, Rules, local_target, security_headers
from provender.ui.links import STATIC
from provender.ui.pages import datasets, diff, jobs, lineage, runs, searching, versions
from provender.ui.parameters import Viewing
from provender.ui.view import Authorize, View, environment

if TYPE_CHECKING:
    from provender.catalog import Catalog
    from provender.settings import Settings
    from provender.store import Store
    from provender.ui.reading import Library

_PAGES = (datasets, versions, lineage, runs, diff, searching, jobs)
_TITLES = {
    400: "That does not make sense",
    403: "Not for you",
    404: "Not there",
    405: "These pages only read",
    500: "Something broke",
    503: "The catalog is away",
}


def create_app(
    source: Settings | Catalog | None = None,
    *,
    store: Store | None = None,
    root_path: str = "",
    authorize: Authorize | None = None,
    token: str | None = None,
    hosts: Sequence[str] = (),
    frame_ancestors: Sequence[str] = (),
) -> FastAPI:
    """Makes the application. It opens the catalog at the first visit, and only to read it.

    It can be mounted below any path of another ASGI application: all its links begin with the
    path that the request came through.

    Args:
        source: settings, or a catalog that is open already; by default the project's settings.
        store: where versions lie, for examples and images; by default what the settings say.
        root_path: the prefix that a proxy in front strips from paths. A mount tells its own.
        authorize: called with the request and None for every page, and with the request and a
            dataset's name for what concerns a dataset; False is answered with 403, and lists
            leave such datasets out. It may raise its own `HTTPException`.
        token: what visitors must know, as a Bearer token or by signing in; None for nobody asks.
        hosts: names that requests may be addressed to; any where empty.
        frame_ancestors: sites that may show the pages in a frame, in the words of CSP.

    Returns:
        A FastAPI application.

    Raises:
        SettingsError: the token is too short.
    """
    app = FastAPI(
        title="Provender",
        version=__version__,
        description=api.DESCRIPTION,
        root_path=root_path.rstrip("/"),
        openapi_url="/api/openapi.json",
        docs_url=None,
        redoc_url=None,
        dependencies=[],
    )
    app.state.authorize = authorize
    app.state.token = token is not None
    app.state.library = _Opener(source, store)
    app.state.meter = metrics.Meter()
    app.add_middleware(Guard, rules=Rules(token, tuple(hosts), tuple(frame_ancestors)))
    app.mount("/static", _Static(directory=STATIC), name="static")
    app.include_router(api.router)
    app.include_router(metrics.router)
    for page in _PAGES:
        app.include_router(page.router)
    app.get("/login", include_in_schema=False)(_login)
    _answer_errors(app, security_headers(frame_ancestors))
    return app


class _Opener:
    """Opens the library when it is first asked for, and again after a failure."""

    def __init__(self, source: Settings | Catalog | None, store: Store | None) -> None:
        self._source = source
        self._store = store
        self._lock = threading.Lock()
        self._library: Library | None = None

    def __call__(self) -> Library:
        with self._lock:
            if self._library is None:
                self._library = self._open()
            return self._library

    def _open(self) -> Library:
        from provender.catalog import Catalog
        from provender.settings import load_settings
        from provender.ui.opening import open_read_only
        from provender.ui.reading import Library

        if isinstance(self._source, Catalog):
            store = self._store or _store_of(load_settings())
            return Library(self._source, store)
        settings = self._source or load_settings()
        store = self._store or _store_of(settings)
        return Library(open_read_only(settings.catalog), store)


def _store_of(settings: Settings) -> Store:
    from provender.store import Store

    return Store.open(settings.store, scratch=str(settings.scratch))


class _Static(StaticFiles):
    """Files that came with the program; their addresses change when they do."""

    async def get_response(self, path: str, scope: Scope) -> Response:
        answer = await super().get_response(path, scope)
        if answer.status_code in (200, 304):
            answer.headers["Cache-Control"] = "public, max-age=31536000, immutable"
        return answer


def _login(at: Viewing, next: str = "/", wrong: bool = False) -> Response:
    if not at.request.app.state.token:
        return RedirectResponse(at.link.home(), 303)
    html = (
        environment()
        .get_template("login.html")
        .render(link=at.link, next=local_target(next), wrong=wrong)
    )
    return HTMLResponse(html, 401 if wrong else 200)


def _answer_errors(app: FastAPI, headers: Sequence[tuple[str, str]]) -> None:
    """Every error becomes a page that says what, where and what next; JSON below ``/api``."""

    def told(request: Request, status: int, error: ProvenderError) -> Response:
        return View(request).problem(status, _TITLES.get(status, "That did not work"), error)

    @app.exception_handler(ProvenderError)
    def known(request: Request, error: ProvenderError) -> Response:
        if isinstance(error, UnknownReference):
            return told(request, 404, error)
        if isinstance(error, CatalogError):
            return told(request, 503, error)
        return told(request, 400 if isinstance(error, SettingsError) else 500, error)

    @app.exception_handler(RequestValidationError)
    def invalid(request: Request, error: RequestValidationError) -> Response:
        first = error.errors()[0]
        place = ".".join(map(str, first.get("loc", ())[1:]))
        return told(request, 400, SettingsError(f"{place}: {first.get('msg')}.", where=place))

    @app.exception_handler(HTTPException)
    def refused(request: Request, error: HTTPException) -> Response:
        messages = {404: "There is no page at this address.", 405: "Nothing can be sent here."}
        said = str(error.detail)
        message = messages.get(error.status_code, said) if said in _PLAIN else said
        kind = UnknownReference if error.status_code == 404 else ProvenderError
        answer = told(request, error.status_code, kind(message))
        for name, value in (error.headers or {}).items():
            answer.headers[name] = value
        return answer

    @app.exception_handler(Exception)
    def broken(request: Request, error: Exception) -> Response:
        # The traceback goes to the server's log; visitors get no inner details.
        answer = told(
            request,
            500,
            ProvenderError("The page could not be made.", hint="The server's log says why."),
        )
        for name, value in headers:
            answer.headers[name] = value
        return answer


_PLAIN = ("Not Found", "Method Not Allowed")
