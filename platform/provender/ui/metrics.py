"""`/metrics` and `/health`: what monitoring reads.

Everything is counted in the catalog, so it does not matter which process did the work, and any number
of these servers say the same. No name of a dataset is a label: there may be ten thousand.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from fastapi import APIRouter, Request
from fastapi.responses import JSONResponse, PlainTextResponse, Response

from provender import __version__
from provender.errors import ProvenderError
from provender.ui.parameters import Viewing

if TYPE_CHECKING:
    from provender.catalog import Catalog
    from provender.catalog.measuring import Figures

router = APIRouter(include_in_schema=False)

FRESH = 10.0
"""Seconds that figures are good for at the least."""
SHARE = 20.0
"""They are good for so many times the time that counting took: at most a twentieth goes into it."""

_RUNNING = "running"
_ABSENT = "Metrics need prometheus-client: pip install 'provender[metrics]'\n"


@dataclass(frozen=True)
class Counted:
    """Figures with what counting them cost.

    Attributes:
        figures: the figures.
        database: the catalog's kind of database.
        seconds: wall time that counting took.
        at: when it was done, in seconds since the epoch.
    """

    figures: Figures
    database: str
    seconds: float
    at: float


class Meter:
    """Counts when it is asked, and not again before that is worth it.

    Args:
        clock: seconds that never go back.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._due = float("-inf")
        self._last: Counted | None = None

    def read(self, catalog: Catalog) -> Counted:
        """The figures, counted now or a moment ago. Whoever comes meanwhile waits for the same.

        Raises:
            CatalogError: the catalog does not answer; figures of an earlier time are not shown.
        """
        with self._lock:
            began = self._clock()
            if self._last is None or began >= self._due:
                figures = catalog.figures()
                ended = self._clock()
                seconds = ended - began
                self._due = ended + max(FRESH, SHARE * seconds)
                kind = catalog.url.partition(":")[0].partition("+")[0]
                self._last = Counted(figures, kind, seconds, time.time())
            return self._last


@router.get("/metrics")
def metrics(at: Viewing) -> Response:
    """The figures in the text format of Prometheus."""
    try:
        from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, generate_latest
    except ModuleNotFoundError:
        return PlainTextResponse(_ABSENT, 501)
    try:
        counted = at.request.app.state.meter.read(at.library.catalog)
    except ProvenderError as error:
        return PlainTextResponse(f"# {error.message}\n", 503)
    registry = CollectorRegistry()
    registry.register(_Collector(counted))
    return Response(generate_latest(registry), media_type=CONTENT_TYPE_LATEST)


@router.get("/health")
def health(request: Request) -> Response:
    """200 where the catalog answers, 503 where it does not. Says nothing else to anybody."""
    try:
        request.app.state.library().catalog.ping()
    except ProvenderError:
        return JSONResponse({"status": "the catalog is away"}, 503)
    return JSONResponse({"status": "ok"})


class _Collector:
    """What prometheus-client asks for the families when it writes them."""

    def __init__(self, counted: Counted) -> None:
        self._counted = counted

    def collect(self) -> Iterator[Any]:
        """Every family of metrics."""
        figures = self._counted.figures
        yield from _work(figures)
        yield from _runs(figures)
        yield from _holdings(figures)
        yield from _now(figures)
        yield from _about(self._counted)


def _counter(name: str, says: str, labels: tuple[str, ...], values: Mapping[Any, float]) -> Any:
    from prometheus_client.core import CounterMetricFamily

    return _filled(CounterMetricFamily(name, says, labels=labels), values)


def _gauge(name: str, says: str, labels: tuple[str, ...], values: Mapping[Any, float]) -> Any:
    from prometheus_client.core import GaugeMetricFamily

    return _filled(GaugeMetricFamily(name, says, labels=labels), values)


def _filled(family: Any, values: Mapping[Any, float]) -> Any:
    for labels, value in sorted(values.items()):
        family.add_metric([labels] if isinstance(labels, str) else list(labels), value)
    return family


def _work(found: Figures) -> Iterator[Any]:
    ended = {key: count for key, count in found.stages.items() if key[1] != _RUNNING}
    yield _counter(
        "provender_stage_executions",
        "Stages that ran to an end, by kind and state.",
        ("stage", "state"),
        ended,
    )
    yield _counter(
        "provender_hits",
        "What was reused instead of made: a stage, or a whole version by a run with nothing to do.",
        ("what",),
        {"stage": found.stage_hits, "version": found.version_hits},
    )
    yield _counter(
        "provender_misses",
        "Stages that had to be made, whether or not that succeeded.",
        (),
        {(): sum(ended.values())},
    )
    yield _counter(
        "provender_artifact_bytes",
        "Bytes of everything that stages made, the same content counted once.",
        (),
        {(): found.artifact_bytes},
    )
    yield _counter(
        "provender_checks", "Checks of versions, by their result.", ("state",), dict(found.checks)
    )
    yield _counter(
        "provender_reads", "Reads of versions that jobs put on record.", (), {(): found.reads}
    )


def _runs(found: Figures) -> Iterator[Any]:
    ended = [each for each in found.runs if each.outcome != _RUNNING]
    yield _counter(
        "provender_runs",
        "Runs that came to an end, by kind and outcome.",
        ("kind", "outcome"),
        {(each.kind, each.outcome): each.count for each in ended},
    )
    yield _gauge(
        "provender_run_last_end_timestamp_seconds",
        "When the last run of this kind and outcome ended.",
        ("kind", "outcome"),
        {(each.kind, each.outcome): each.ended.timestamp() for each in ended if each.ended},
    )
    running = [each for each in found.runs if each.outcome == _RUNNING]
    yield _gauge(
        "provender_runs_running",
        "Runs that began and did not end, those of processes that were killed included.",
        ("kind",),
        {each.kind: each.count for each in running},
    )
    yield _gauge(
        "provender_oldest_running_run_timestamp_seconds",
        "When the first of the runs that did not end began.",
        ("kind",),
        {each.kind: each.oldest.timestamp() for each in running},
    )


def _holdings(found: Figures) -> Iterator[Any]:
    versions = {**found.versions, "removed": found.removed}
    yield _gauge(
        "provender_versions",
        "Versions by status; `removed` has those whose files were removed from the store.",
        ("status",),
        versions,
    )
    yield _gauge(
        "provender_version_bytes",
        "Size of the shard files of versions, by status.",
        ("status",),
        dict(found.version_bytes),
    )
    yield _gauge(
        "provender_version_examples",
        "Examples of versions, by status.",
        ("status",),
        dict(found.version_examples),
    )
    yield _gauge(
        "provender_download_bytes",
        "Size of the downloads on record, each URL once.",
        (),
        {(): found.download_bytes},
    )


def _now(found: Figures) -> Iterator[Any]:
    running: dict[str, float] = {}
    for (stage, state), count in found.stages.items():
        if state == _RUNNING:
            running[stage] = count
    yield _gauge("provender_stages_running", "Stages that run now.", ("stage",), running)
    yield _gauge(
        "provender_claims",
        "Claims that live processes hold now: builds, stages, removals.",
        ("kind",),
        dict(found.claims),
    )
    yield _gauge("provender_leases", "Readers that hold a version now.", (), {(): found.leases})


def _about(counted: Counted) -> Iterator[Any]:
    yield _gauge(
        "provender_info",
        "This program and its catalog.",
        ("version", "database"),
        {(__version__, counted.database): 1},
    )
    yield _gauge(
        "provender_metrics_seconds",
        "Wall time that counting these figures took.",
        (),
        {(): counted.seconds},
    )
    yield _gauge(
        "provender_metrics_timestamp_seconds",
        "When these figures were counted.",
        (),
        {(): counted.at},
    )
