"""A version: what is in it, where it came from, who reads it."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Query
from fastapi.responses import RedirectResponse, Response
from markupsafe import Markup

from provender.catalog import VersionRecord
from provender.catalog.records import full_name
from provender.errors import ProvenderError, UnknownReference
from provender.ui import text, units
from provender.ui.describing import about, feature_rows
from provender.ui.examples import ExamplePage
from provender.ui.pages.lineage import dataset_of
from provender.ui.parameters import PageNumber, Text, Viewing
from provender.ui.reading import EXAMPLES
from provender.ui.statistics import split_cards
from provender.ui.view import View

router = APIRouter(include_in_schema=False)
_SAMPLE = 6
_INPUTS = 50
_READERS = 10
_LAST_EXAMPLE = 1 << 53

Id = Annotated[str, Query(max_length=64)]
Position = Annotated[int, Query(ge=0, le=_LAST_EXAMPLE)]


@router.get("/go")
def go(at: Viewing, ref: Text = "") -> Response:
    """Leads to what a reference means."""
    version_id = at.library.find(ref)
    return RedirectResponse(at.link.version(version_id), 303)


@router.get("/versions/{id}")
def version(at: Viewing, id: str) -> Response:
    """One version."""
    found = _version(at, id)
    said = about(found.info, found.version)
    sample, trouble = _sample(at, found, None, 0, _SAMPLE)
    inputs, upstream = at.library.inputs(found.id, _INPUTS)
    return at.page(
        "version.html",
        **_named(found),
        tag_names=at.library.tags(found.id),
        successor=at.library.successor(found),
        before=at.library.before(found),
        most=max((each.examples for each in found.splits), default=0),
        rows=feature_rows(found.features),
        statistics=split_cards(at.library.statistics(found.id)),
        sample=sample,
        trouble=trouble,
        step=EXAMPLES,
        description=said.description,
        citation=said.citation,
        notes=said.notes,
        licence=text.shown(said.licence, 200) if said.licence else "",
        homepage=_address(said.homepage, said.homepage_text),
        checks=at.library.checks(found),
        leases=at.library.leases(found.id),
        inputs=inputs,
        upstream=[each for each in upstream if all(map(at.sees, dataset_of(each)))],
        readers=at.library.readings(1, version_id=found.id, rows=_READERS),
        **_origin(at, found),
    )


@router.get("/versions/{id}/files")
def files(at: Viewing, id: str, page: PageNumber = 1) -> Response:
    """The files of a version."""
    found = _version(at, id)
    listed, total = at.library.files(found, page)
    return at.page(
        "files.html",
        **_named(found),
        page=listed,
        total=total,
        address=lambda number: at.link.version(found.id, "files", page=number),
    )


@router.get("/versions/{id}/examples")
def examples(at: Viewing, id: str, split: Text = "", first: Position = 0) -> Response:
    """Examples of one split."""
    found = _version(at, id)
    if split and split not in {each.name for each in found.splits}:
        names = ", ".join(each.name[:60] for each in found.splits[:20])
        message = f"{found.name} has no split {split!r}."
        raise UnknownReference(message, hint=f"It has: {names or 'none'}.")
    sample, trouble = _sample(at, found, split, first, EXAMPLES)
    return at.page("examples.html", **_named(found), sample=sample, trouble=trouble, step=EXAMPLES)


@router.get("/versions/{id}/image")
def image(
    at: Viewing, id: str, split: Text, feature: Text, example: Position, item: Position = 0
) -> Response:
    """An image of an example."""
    found = _version(at, id)
    data, kind = at.library.image(found, split, example, feature, item)
    # Only pictures of the kinds that `examples` knows come here; the sandbox is for the day when
    # a browser finds something else in one of them.
    headers = {
        "Content-Security-Policy": "default-src 'none'; sandbox",
        "Cache-Control": "private, max-age=86400",
        "Content-Disposition": "inline",
    }
    return Response(data, media_type=kind, headers=headers)


@router.get("/versions/{id}/consumers")
def consumers(at: Viewing, id: str, page: PageNumber = 1) -> Response:
    """Who read a version."""
    found = _version(at, id)
    return at.page(
        "consumers.html",
        **_named(found),
        page=at.library.readings(page, version_id=found.id),
        address=lambda number: at.link.version(found.id, "consumers", page=number),
    )


def _version(at: View, id: str) -> VersionRecord:
    found = at.library.version(id)
    at.check(found.dataset)
    return found


def _named(found: VersionRecord) -> dict[str, Any]:
    return {"version": found, "dataset_name": full_name(found.dataset, found.config)}


def _sample(
    at: View, version: VersionRecord, split: str | None, first: int, count: int
) -> tuple[ExamplePage | None, ProvenderError | None]:
    """Some examples; or, where they cannot be read, why not: the rest of the page stands."""
    name = split or next((each.name for each in version.splits), None)
    if name is None:
        return None, None
    try:
        return at.library.examples(version, name, first, count), None
    except ProvenderError as error:
        return None, error


def _origin(at: View, found: VersionRecord) -> dict[str, Any]:
    run = at.library.run_or_none(found.run_id)
    spec = found.info.get("spec") or {}
    who = ""
    if run is not None:
        who = Markup("{} on {}").format(text.shown(run.user, 60), text.shown(run.host, 60))
        if run.orchestrator:
            who += Markup(", {}").format(text.shown(run.orchestrator, 200))
    link = ""
    if run is not None:
        link = Markup('<a href="{}">{} <code>{}</code></a>, {}').format(
            at.link.run(run.id), text.shown(run.kind, 30), run.id[:8], units.seconds(run.seconds)
        )
    return {
        "built_by": who,
        "run_link": link,
        "builder": text.shown(spec.get("source") or "", 200),
        "folder": Markup("<code>{}</code>").format(text.shown(found.uri, 400)),
    }


def _address(address: str | None, shown: str) -> Markup | str:
    if address is None:
        return text.shown(shown, 200) if shown else ""
    return Markup('<a href="{}" rel="noreferrer noopener external">{}</a>').format(
        address, text.shown(address, 200)
    )
