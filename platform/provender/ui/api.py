"""The JSON API: the same answers as the pages, for programs. Its schema is ``/api/openapi.json``."""

from __future__ import annotations

from typing import Annotated, Any, Generic, TypeVar

from fastapi import APIRouter, Query
from fastapi.responses import Response
from pydantic import BaseModel, Field

from provender.catalog import RunRecord, StageRecord
from provender.catalog.records import LineageEdge, LineageNode
from provender.questions import (
    DatasetSummary,
    Input,
    Reading,
    SearchHit,
    StageRun,
    VersionSummary,
)
from provender.questions.diff import Cause, FeatureChange, MetadataChange, SplitChange
from provender.statistics import Drift
from provender.ui.pages.jobs import seen
from provender.ui.pages.lineage import Depth, dataset_of
from provender.ui.pages.versions import Position
from provender.ui.parameters import PageNumber, Text, Viewing
from provender.ui.reading import EXAMPLES, Direction, Page
from provender.ui.schemas import document, model_of
from provender.ui.view import Json

DESCRIPTION = (
    "What the catalog knows: datasets, versions, lineage, runs, readers. Every request only "
    "reads. Times are ISO 8601 in UTC, sizes bytes, ids 32 hex digits. Lists come in pages: "
    "`page` counts from 1, `more` says whether there is a next one."
)
T = TypeVar("T")

DatasetDoc = model_of(DatasetSummary)
VersionDoc = model_of(VersionSummary)
RunDoc = model_of(RunRecord)
StageRunDoc = model_of(StageRun)
StageDoc = model_of(StageRecord)
ReadingDoc = model_of(Reading)
HitDoc = model_of(SearchHit)
NodeDoc = model_of(LineageNode)
EdgeDoc = model_of(LineageEdge)
InputDoc = model_of(Input)
FeatureChangeDoc = model_of(FeatureChange)
SplitChangeDoc = model_of(SplitChange)
MetadataChangeDoc = model_of(MetadataChange)
CauseDoc = model_of(Cause)
DriftDoc = model_of(Drift)


class Problem(BaseModel):
    """What was wrong, where, and what to do next."""

    type: str
    message: str
    where: str | None = None
    hint: str | None = None
    facts: dict[str, Any] = Field(default_factory=dict)


class Refusal(BaseModel):
    """The body of every answer that is not 200."""

    error: Problem


class Listing(BaseModel, Generic[T]):
    """One page of a list."""

    items: list[T]
    page: int
    more: bool


class DatasetVersions(BaseModel):
    """A dataset and a page of its versions, newest first."""

    dataset: DatasetDoc  # type: ignore[valid-type]
    versions: Listing[VersionDoc]  # type: ignore[valid-type]


class VersionInFull(BaseModel):
    """A version with its documents."""

    version: VersionDoc  # type: ignore[valid-type]
    path: str
    description: str
    licence: str
    homepages: list[str]
    builder: str
    successor: str | None
    removed: str | None
    features: dict[str, Any]
    info: dict[str, Any]
    statistics: dict[str, dict[str, Any]]
    inputs: list[InputDoc]  # type: ignore[valid-type]
    upstream: list[NodeDoc]  # type: ignore[valid-type]


class FileDoc(BaseModel):
    """A file of a version."""

    name: str
    size: int
    sha256: str | None
    crc32c: str | None
    split: str | None
    examples: int | None


class ExamplesDoc(BaseModel):
    """Some examples of a split; ``values`` is null for a record too large to read here."""

    split: str
    first: int
    total: int
    note: str
    examples: list[dict[str, Any]]


class GraphDoc(BaseModel):
    """A piece of the lineage; ``cut`` is the number of nodes after which reading stopped, or 0."""

    start: str
    nodes: list[NodeDoc]  # type: ignore[valid-type]
    edges: list[EdgeDoc]  # type: ignore[valid-type]
    cut: int


class RunInFull(BaseModel):
    """A run with what it reused (state ``hit``) and what it executed."""

    run: RunDoc  # type: ignore[valid-type]
    version: VersionDoc | None  # type: ignore[valid-type]
    stages: list[StageRunDoc]  # type: ignore[valid-type]


class DiffDoc(BaseModel):
    """What differs between two versions; ``a`` is the one before."""

    same: bool
    a: str
    b: str
    a_id: str
    b_id: str
    features: list[FeatureChangeDoc]  # type: ignore[valid-type]
    splits: list[SplitChangeDoc]  # type: ignore[valid-type]
    metadata: list[MetadataChangeDoc]  # type: ignore[valid-type]
    drift: list[DriftDoc]  # type: ignore[valid-type]
    causes: list[CauseDoc]  # type: ignore[valid-type]
    notes: list[str]
    examples: None


_REFUSALS: dict[int | str, dict[str, Any]] = {
    400: {"model": Refusal, "description": "A parameter makes no sense"},
    401: {"model": Refusal, "description": "A token is needed"},
    403: {"model": Refusal, "description": "Not for this visitor"},
    404: {"model": Refusal, "description": "No such thing; the hint says what there is"},
    503: {"model": Refusal, "description": "The catalog cannot be read"},
}
router = APIRouter(prefix="/api", tags=["catalog"], responses=_REFUSALS)


@router.get("", include_in_schema=False)
def index(at: Viewing) -> Response:
    """The API as a page for people, made from its own schema."""
    schema = at.request.app.openapi()
    calls = [
        {
            "path": path.removeprefix("/api"),
            "summary": call.get("description") or call.get("summary", ""),
            "parameters": call.get("parameters", []),
        }
        for path, methods in schema["paths"].items()
        for call in methods.values()
    ]
    return at.page("api.html", calls=calls, about=DESCRIPTION)


@router.get("/datasets", response_model=Listing[DatasetDoc])  # type: ignore[valid-type]
def datasets(at: Viewing, page: PageNumber = 1) -> Response:
    """All datasets by name."""
    return _listing(at.seen(at.library.datasets(page)))


@router.get("/datasets/{name}", response_model=DatasetVersions)
def dataset(at: Viewing, name: str, config: Text = "", page: PageNumber = 1) -> Response:
    """One dataset, with its versions, newest first."""
    at.check(name)
    found = at.library.dataset(name, config)
    versions = at.library.versions(name, config, page)
    return Json({"dataset": document(found), "versions": _page(versions)})


@router.get("/resolve", response_model=VersionDoc)
def resolve(at: Viewing, ref: Text) -> Response:
    """The version that a reference means: name, name:1.0.0, name/config, name@alias."""
    found = at.library.summary(at.library.find(ref))
    at.check(found.dataset)
    return Json(document(found))


@router.get("/versions/{id}", response_model=VersionInFull)
def version(at: Viewing, id: str) -> Response:
    """One version with its features, statistics and origin."""
    found = at.library.details(id)
    at.check(found.summary.dataset)
    inputs, upstream = at.library.inputs(found.id, 1_000)
    answer = {
        "version": document(found.summary),
        "path": found.path,
        "description": found.description,
        "licence": found.licence,
        "homepages": list(found.homepages),
        "builder": found.builder,
        "successor": found.successor,
        "removed": found.removed,
        "features": found.features,
        "info": found.info,
        "statistics": at.library.statistics(id),
        "inputs": [document(each) for each in inputs.items],
        "upstream": [document(each) for each in upstream if all(map(at.sees, dataset_of(each)))],
    }
    return Json(answer)


@router.get("/versions/{id}/files", response_model=Listing[FileDoc])
def files(at: Viewing, id: str, page: PageNumber = 1) -> Response:
    """The files of a version."""
    found = at.library.version(id)
    at.check(found.dataset)
    listed, _ = at.library.files(found, page)
    names = FileDoc.model_fields
    rows = [{name: getattr(each, name) for name in names} for each in listed.items]
    return Json({"items": rows, "page": listed.number, "more": listed.more})


@router.get("/versions/{id}/examples", response_model=ExamplesDoc)
def examples(
    at: Viewing,
    id: str,
    split: Text,
    first: Position = 0,
    count: Annotated[int, Query(ge=1, le=100)] = EXAMPLES,
) -> Response:
    """Examples of a split, decoded; images and other bytes by their sizes."""
    found = at.library.version(id)
    at.check(found.dataset)
    sample = at.library.examples(found, split, first, count)
    rows = [
        {
            "number": each.number,
            "size": each.size,
            "values": None
            if each.fields is None
            else {field.name: field.value for field in each.fields},
        }
        for each in sample.examples
    ]
    return Json(
        {
            "split": sample.split,
            "first": sample.first,
            "total": sample.total,
            "note": sample.note,
            "examples": rows,
        }
    )


@router.get("/versions/{id}/consumers", response_model=Listing[ReadingDoc])  # type: ignore[valid-type]
def consumers(at: Viewing, id: str, page: PageNumber = 1) -> Response:
    """Reads of a version that are on record, newest first."""
    found = at.library.version(id)
    at.check(found.dataset)
    return _listing(at.library.readings(page, version_id=found.id))


@router.get("/lineage/{id:path}", response_model=GraphDoc)
def lineage(at: Viewing, id: str, direction: Direction = "up", depth: Depth = 3) -> Response:
    """The lineage around a version, a stage execution or an artifact."""
    graph = at.library.lineage(id, direction, depth)
    at.check(*dataset_of(graph.start))
    nodes = [each for each in graph.nodes if all(map(at.sees, dataset_of(each)))]
    known = {each.id for each in nodes}
    edges = [each for each in graph.edges if each.child in known and each.parent in known]
    return Json(
        {
            "start": graph.start.id,
            "nodes": [document(each) for each in nodes],
            "edges": [document(each) for each in edges],
            "cut": graph.cut,
        }
    )


@router.get("/runs", response_model=Listing[RunDoc])  # type: ignore[valid-type]
def runs(at: Viewing, dataset: Text = "", config: Text = "", page: PageNumber = 1) -> Response:
    """Runs, newest first."""
    if dataset:
        at.check(dataset)
    found = at.library.runs(page, dataset or None, config if dataset else None)
    return _listing(at.seen(found))


@router.get("/runs/{id}", response_model=RunInFull)
def run(at: Viewing, id: str) -> Response:
    """One run with its stages and the reason of each, by its id or the first digits of it."""
    found = at.library.run_details(id)
    at.check(found.record.dataset)
    return Json(
        {
            "run": document(found.record),
            "version": document(found.version) if found.version else None,
            "stages": [document(each) for each in found.stages],
        }
    )


@router.get("/stages/{id}", response_model=StageDoc)
def stage(at: Viewing, id: str) -> Response:
    """One execution of a stage."""
    found = at.library.stage(id)
    at.check(found.dataset)
    return Json(document(found))


@router.get("/diff", response_model=DiffDoc)
def diff(at: Viewing, a: Text, b: Text) -> Response:
    """What differs between two versions, given by reference or id."""
    before, after = (at.library.version(at.library.find(each)) for each in (a, b))
    at.check(before.dataset, after.dataset)
    return Json(at.library.diff(before, after).to_json())


@router.get("/search", response_model=Listing[HitDoc])  # type: ignore[valid-type]
def search(at: Viewing, q: Text, limit: Annotated[int, Query(ge=1, le=100)] = 20) -> Response:
    """Datasets that have all the words, best first."""
    return _listing(at.seen(at.library.search(q, limit)))


@router.get("/jobs", response_model=Listing[ReadingDoc])  # type: ignore[valid-type]
def jobs(at: Viewing, name: Text = "", page: PageNumber = 1) -> Response:
    """Reads by all jobs, or by one, newest first."""
    return _listing(seen(at, at.library.readings(page, job=name or None)))


def _listing(page: Page[Any]) -> Response:
    return Json(_page(page))


def _page(page: Page[Any]) -> dict[str, Any]:
    return {
        "items": [document(each) for each in page.items],
        "page": page.number,
        "more": page.more,
    }
