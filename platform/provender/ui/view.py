"""One visit: the request, who may see what, and how a page is made of a template."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined, Template
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, Response

from provender import __version__
from provender.errors import ProvenderError, UnknownReference
from provender.ui import plots, text, units
from provender.ui.guard import prefix
from provender.ui.links import Links

if TYPE_CHECKING:
    from provender.ui.reading import Library, Page

_LONGEST, _MOST = 1_000, 50

Authorize = Callable[[Request, str | None], bool]
"""Says whether a visitor may look: at the pages as such (None), or at a dataset by its name."""


class View:
    """What a page function works with; made anew for each request.

    Args:
        request: the request.
    """

    def __init__(self, request: Request) -> None:
        self.request = request
        self.link = Links(prefix(request.scope))
        self._authorize: Authorize | None = request.app.state.authorize
        self._seen: dict[str, bool] = {}

    @property
    def library(self) -> Library:
        """What there is to read; opened by the first visit that asks.

        Raises:
            CatalogError: the catalog cannot be opened, or needs another revision of the code.
        """
        found: Library = self.request.app.state.library()
        return found

    def sees(self, dataset: str) -> bool:
        """Whether the visitor may see what concerns a dataset."""
        if self._authorize is None:
            return True
        if dataset not in self._seen:
            self._seen[dataset] = self.allows(dataset)
        return self._seen[dataset]

    def allows(self, dataset: str | None) -> bool:
        """What ``authorize`` says; True where there is none.

        Raises:
            TypeError: it answers neither True nor False: a coroutine, say, which as a truth value
                would let everyone in.
        """
        if self._authorize is None:
            return True
        answer = self._authorize(self.request, dataset)
        if not isinstance(answer, bool):
            if inspect.iscoroutine(answer):
                answer.close()
            message = f"authorize must answer True or False, not {type(answer).__name__}"
            raise TypeError(message)
        return answer

    def seen(self, page: Page[Any]) -> Page[Any]:
        """A page without the rows that concern datasets which are not for this visitor."""
        if self._authorize is None:
            return page
        kept = [each for each in page.items if self.sees(each.dataset)]
        return replace(page, items=kept)

    def check(self, *datasets: str) -> None:
        """Ends the visit with 403 where a dataset is not for this visitor."""
        if not all(map(self.sees, datasets)):
            raise HTTPException(403, "You may not look at this dataset.")

    def page(self, template: str | Template, *, status: int = 200, **facts: Any) -> HTMLResponse:
        """A page.

        Args:
            template: name of the template; pages that are added to these bring their own.
            status: HTTP status.
            facts: what the template needs.
        """
        made = environment().get_template(template)
        html = made.render(
            link=self.link,
            token=self.request.app.state.token,
            path=str(self.request.url.path),
            version_of_program=__version__,
            **facts,
        )
        return HTMLResponse(html.encode("utf-8", "replace"), status)

    def problem(self, status: int, title: str, error: ProvenderError) -> Response:
        """An error as a page, or as JSON below ``/api``."""
        error = self.discreet(error)
        if self.wants_json:
            return Json({"error": _bounded(error.to_json())}, status)
        return self.page(
            "problem.html",
            status=status,
            title=title,
            error=error,
            near=list(error.facts.get("near") or ()),
        )

    def discreet(self, error: ProvenderError) -> ProvenderError:
        """An error without the names of what is not for this visitor."""
        if self._authorize is None or not isinstance(error, UnknownReference):
            return error
        names = map(str, error.facts.get("near") or ())
        near = [each for each in names if self.sees(re.split("[/:@]", each)[0])]
        return UnknownReference(error.message, where=error.where, facts={"near": near})

    @property
    def wants_json(self) -> bool:
        """Whether the answer is read by a program."""
        return self.request.url.path.startswith(f"{self.link.root}/api")


class Json(JSONResponse):
    """JSON that can always be written: no NaN, no lone surrogates."""

    def render(self, content: Any) -> bytes:
        """The document as bytes."""
        return super().render(text.encodable(content))


def _bounded(value: Any) -> Any:
    """An error's facts may name everything that exists; an answer says some of it."""
    if isinstance(value, str):
        return value if len(value) <= _LONGEST else value[:_LONGEST] + "…"
    if isinstance(value, dict):
        return {str(key)[:_LONGEST]: _bounded(each) for key, each in list(value.items())[:_MOST]}
    if isinstance(value, (list, tuple)):
        return [_bounded(each) for each in value[:_MOST]]
    return value


def view(request: Request) -> View:
    """The dependency that gives page functions their `View`, once the visitor may look at all."""
    made = View(request)
    if not made.allows(None):
        raise HTTPException(403, "You may not look at these pages.")
    return made


@lru_cache
def environment() -> Environment:
    """The templates, with everything that is printed escaped."""
    made = Environment(
        loader=FileSystemLoader(Path(__file__).parent / "templates"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    made.filters.update(
        txt=text.shown,
        prose=text.prose,
        told=text.told,
        attr=text.plain,
        size=units.size,
        count=units.count,
        number=units.number,
        seconds=units.seconds,
        moment=units.moment,
        day=units.day,
    )
    made.globals.update(counted=units.counted, web_address=text.web_address, plots=plots)
    return made
