"""Datasets, and the versions of one."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query
from fastapi.responses import RedirectResponse, Response

from provender.catalog.records import full_name
from provender.ui.parameters import PageNumber, Viewing
from provender.ui.view import View

router = APIRouter(include_in_schema=False)
_NEWEST = 8
_MOVES = 30


@router.get("/")
def datasets(at: Viewing, page: PageNumber = 1) -> Response:
    """All datasets, and below the first of them the newest versions."""
    found = at.library.datasets(page)
    newest = at.library.newest(_NEWEST) if page == 1 else []
    return at.page(
        "datasets.html",
        page=at.seen(found),
        newest=[each for each in newest if at.sees(each.dataset)],
    )


@router.get("/datasets/{name}")
def dataset(at: Viewing, name: str, config: str = "", page: PageNumber = 1) -> Response:
    """One dataset."""
    return _dataset(at, name, config, page, None)


@router.get("/dataset")
def odd_dataset(
    at: Viewing,
    name: str = "",
    config: str = "",
    of: Annotated[str | None, Query(max_length=64)] = None,
    page: PageNumber = 1,
) -> Response:
    """One dataset whose name does not fit into a path, given as it is or by one of its versions."""
    if of is not None:
        version = at.library.version(of)
        name, config = version.dataset, version.config
    elif not name:
        return RedirectResponse(at.link.home(), 303)
    return _dataset(at, name, config, page, of)


def _dataset(at: View, name: str, config: str, page: int, of: str | None) -> Response:
    at.check(name)
    summary = at.library.dataset(name, config)
    versions = at.library.versions(name, config, page)
    return at.page(
        "dataset.html",
        dataset=name,
        config=config,
        name=full_name(name, config),
        summary=summary,
        configs=at.library.configs(name),
        page=versions,
        most=max((each.examples for each in versions.items), default=0),
        moves=at.library.moves(name, config, _MOVES) if page == 1 else [],
        address=lambda number: at.link.dataset(name, config, of, page=number),
    )
