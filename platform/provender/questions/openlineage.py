"""The catalog's history as OpenLineage events.

The events follow the specification 2-0-2 (https://openlineage.io/spec/2-0-2/OpenLineage.json) and the
facets named in `_FACETS`. A run of Provender is a run of the job ``<kind>.<dataset>``; the
version that it made is its output, a dataset that is named after its folder, with the number in the
version facet; its inputs are the files from outside and the versions that it was made from. A stage
is a run whose parent is that run. A job that reads a version is a run that started; when it ended,
the catalog does not know.

What OpenLineage has no facet for is kept in facets whose names begin with ``provender_``; their schema
is that of a facet with further properties.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from importlib import metadata
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, urlsplit

from provender.catalog.records import full_name
from provender.catalog.words import description_of
from provender.questions.reasons import inputs_of
from provender.questions.schema import fields_of

if TYPE_CHECKING:
    from provender.catalog import Catalog, Lineage, Reading, RunRecord, StageRecord, VersionRecord

Event = dict[str, Any]

SPEC = "https://openlineage.io/spec/2-0-2/OpenLineage.json#/$defs/{}"
_FACETS = {
    "schema": "1-2-0/SchemaDatasetFacet",
    "version": "1-0-1/DatasetVersionDatasetFacet",
    "dataSource": "1-0-1/DatasourceDatasetFacet",
    "documentation": "1-1-0/DocumentationDatasetFacet",
    "datasetType": "1-0-1/DatasetTypeDatasetFacet",
    "tags": "1-0-0/TagsDatasetFacet",
    "outputStatistics": "1-0-2/OutputStatisticsOutputDatasetFacet",
    "parent": "1-2-0/ParentRunFacet",
    "errorMessage": "1-0-1/ErrorMessageRunFacet",
    "processing_engine": "1-1-1/ProcessingEngineRunFacet",
    "jobType": "2-0-4/JobTypeJobFacet",
}
_ENDS = {
    "succeeded": "COMPLETE",
    "cached": "COMPLETE",
    "ok": "COMPLETE",
    "failed": "FAIL",
    "refused": "FAIL",
    "died": "FAIL",
}
_UNFINISHED = ("running", "waiting")


class Exporter:
    """Makes events of what one catalog holds.

    Args:
        catalog: the catalog.
        namespace: the namespace of all jobs.
        stages: whether every stage is a run of its own.
    """

    def __init__(self, catalog: Catalog, namespace: str = "provender", *, stages: bool = False):
        self._catalog = catalog
        self._namespace = namespace
        self._stages = stages

    def history(
        self, since: datetime | None = None, until: datetime | None = None
    ) -> Iterator[Event]:
        """The events of every run and read in a span of time, runs first, oldest first.

        Args:
            since: what began at this time or later.
            until: what began before this time.
        """
        for run in self._catalog.all_runs(since, until):
            yield from self.of_run(run)
        for read in self._catalog.all_readings(since, until):
            yield self.of_read(read)

    def of_run(self, run: RunRecord) -> Iterator[Event]:
        """The events of one run: its start, its stages where asked for, and its end."""
        about = self._run_about(run)
        job = self._job(f"{run.kind}.{full_name(run.dataset, run.config)}", run.kind.upper())
        yield self._event("START", run.started, run.id, about, job)
        if self._stages:
            for stage in self._catalog.stages(run_id=run.id, limit=None)[::-1]:
                yield from self.of_stage(stage, (run.id, job))
        if run.outcome in _UNFINISHED or run.finished is None:
            return
        error = run.summary.get("error")
        message = error.get("message") if isinstance(error, Mapping) else None
        kind = _ENDS.get(run.outcome, "ABORT")
        if kind != "COMPLETE" and message:
            about = about | {"errorMessage": self._error(str(message))}
        every = ("published", "trial", "retracted", "replaced")
        made = [
            self._catalog.version_by_id(each.id)
            for each in self._catalog.version_summaries(include=every, run_id=run.id)
        ]
        inputs = [each for version in made for each in self._inputs(version)]
        yield self._event(
            kind,
            run.finished,
            run.id,
            about,
            job,
            _distinct(inputs),
            [self._version(version, output=True) for version in made],
        )

    def of_stage(
        self, stage: StageRecord, parent: tuple[str, Mapping[str, Any]] | None = None
    ) -> Iterator[Event]:
        """The events of one execution of a stage."""
        about: dict[str, Any] = {
            "processing_engine": self._engine(),
            "provender_stage": self._own(
                "RunFacet",
                fingerprint=stage.fingerprint,
                state=stage.state,
                attempts=stage.attempts,
                host=stage.host,
                reason=list(stage.reason),
            ),
        }
        if parent is not None:
            id, job = parent
            named = {"namespace": job["namespace"], "name": job["name"]}
            about["parent"] = self._facet("parent", run={"runId": _uuid(id)}, job=named)
        job = self._job(f"{full_name(stage.dataset, stage.config)}.{stage.key}", "STAGE")
        yield self._event("START", stage.started, stage.id, about, job)
        if stage.state in _UNFINISHED or stage.finished is None:
            return
        kind = _ENDS.get(stage.state, "ABORT")
        if kind != "COMPLETE" and stage.error and stage.error.get("message"):
            about = about | {"errorMessage": self._error(str(stage.error["message"]))}
        yield self._event(kind, stage.finished, stage.id, about, job, *self.around_stage(stage))

    def of_read(self, read: Reading) -> Event:
        """The event of a job that began to read a version."""
        about = {
            "provender_read": self._own(
                "RunFacet",
                splits=list(read.splits),
                host=read.host,
                user=read.user,
                facts=dict(read.facts),
            )
        }
        version = self._catalog.version_by_id(read.version_id)
        job = self._job(read.job, "JOB")
        return self._event("START", read.started, read.id, about, job, [self._version(version)])

    def of_graph(self, graph: Lineage) -> Iterator[Event]:
        """The events that made the versions and stages of a graph, those of the oldest first."""
        versions = [node.id for node in graph.nodes if node.kind == "version"]
        for id in reversed(versions):
            version = self._catalog.version_by_id(id)
            if version.run_id is None:
                continue
            run = self._catalog.run(version.run_id)
            yield from Exporter(self._catalog, self._namespace).of_run(run)
        for node in graph.nodes:
            if node.kind == "stage":
                yield from self.of_stage(self._catalog.stage(node.id))

    def around_stage(self, stage: StageRecord) -> tuple[list[Event], list[Event]]:
        """What an execution of a stage read, and what it made."""
        made = [self._artifact(each.digest, each.uri, each.size) for each in stage.outputs]
        return self._stage_inputs(stage), made

    def around_version(self, version: VersionRecord) -> tuple[list[Event], list[Event]]:
        """What a version was made from, and the version."""
        return _distinct(self._inputs(version)), [self._version(version, output=True)]

    # Parts of events. --------------------------------------------------------------------------

    def _event(
        self,
        kind: str,
        when: datetime,
        run_id: str,
        about: Mapping[str, Any],
        job: Mapping[str, Any],
        inputs: Sequence[Event] = (),
        outputs: Sequence[Event] = (),
    ) -> Event:
        return {
            "eventType": kind,
            "eventTime": when.astimezone(UTC).isoformat().replace("+00:00", "Z"),
            "producer": producer(),
            "schemaURL": SPEC.format("RunEvent"),
            "run": {"runId": _uuid(run_id), "facets": dict(about)},
            "job": dict(job),
            "inputs": list(inputs),
            "outputs": list(outputs),
        }

    def _facet(self, facet: str, /, **values: Any) -> Event:
        place, _, kind = _FACETS[facet].partition("/")
        url = f"https://openlineage.io/spec/facets/{place}/{kind}.json#/$defs/{kind}"
        return {"_producer": producer(), "_schemaURL": url, **values}

    def _own(self, facet: str, /, **values: Any) -> Event:
        known = {name: value for name, value in values.items() if value is not None}
        return {"_producer": producer(), "_schemaURL": SPEC.format(facet), **known}

    def _job(self, name: str, kind: str) -> Event:
        facet = self._facet(
            "jobType", processingType="BATCH", integration="PROVENDER", jobType=kind
        )
        return {"namespace": self._namespace, "name": name, "facets": {"jobType": facet}}

    def _engine(self) -> Event:
        return self._facet(
            "processing_engine", version=metadata.version("provender"), name="provender"
        )

    def _error(self, message: str) -> Event:
        return self._facet("errorMessage", message=message, programmingLanguage="PYTHON")

    def _run_about(self, run: RunRecord) -> dict[str, Any]:
        return {
            "processing_engine": self._engine(),
            "provender_run": self._own(
                "RunFacet",
                outcome=run.outcome,
                host=run.host,
                user=run.user,
                parameters=dict(run.params),
                orchestrator=dict(run.orchestrator) if run.orchestrator else None,
                reusedVersionId=run.reused_version_id,
            ),
        }

    def _version(self, version: VersionRecord, *, output: bool = False) -> Event:
        namespace, name = place_of(version.uri, drop=version.version)
        facets: dict[str, Any] = {
            "version": self._facet("version", datasetVersion=version.version),
            "dataSource": self._facet(
                "dataSource",
                name=full_name(version.dataset, version.config),
                uri=address_of(version.uri),
            ),
            "datasetType": self._facet("datasetType", datasetType="FILE", subType="TFRECORD"),
            "schema": self._facet("schema", fields=fields_of(version.features)),
            "provender_version": self._own(
                "DatasetFacet",
                versionId=version.id,
                fingerprint=version.fingerprint,
                status=version.status,
                aliases=list(version.aliases),
                successorId=version.successor_id,
            ),
        }
        if text := description_of(version.info):
            facets["documentation"] = self._facet("documentation", description=text)
        tags = self._catalog.tags(version_id=version.id)
        if tags:
            marks = [{"key": each.tag, "value": "true", "source": "USER"} for each in tags]
            facets["tags"] = self._facet("tags", tags=marks)
        made: Event = {"namespace": namespace, "name": name, "facets": facets}
        if output:
            made["outputFacets"] = {
                "outputStatistics": self._facet(
                    "outputStatistics",
                    rowCount=version.examples,
                    size=version.bytes,
                    fileCount=sum(split.shards for split in version.splits),
                )
            }
        return made

    def _inputs(self, version: VersionRecord) -> list[Event]:
        """The files from outside and the nearest versions that a version was made from."""
        found = []
        for each in inputs_of(self._catalog, version.id):
            if each.kind == "download":
                namespace, name = place_of(each.name)
            else:
                namespace, name = f"{self._namespace}:manual", each.name
            facts = self._own("DatasetFacet", sha256=each.digest, size=each.size, kind=each.kind)
            found.append(
                {"namespace": namespace, "name": name, "facets": {"provender_input": facts}}
            )
        nearest = _nearest(self._catalog.lineage(version.id, "up"))
        return [*found, *(self._version(self._catalog.version_by_id(id)) for id in nearest)]

    def _stage_inputs(self, stage: StageRecord) -> list[Event]:
        graph = self._catalog.lineage(stage.id, "up", 1)
        kinds = {node.id: node.kind for node in graph.nodes}
        found = []
        for edge in graph.edges:
            if edge.child != stage.id:
                continue
            if edge.via:
                found.append(self._artifact(edge.via))
            elif kinds.get(edge.parent) == "version":
                found.append(self._version(self._catalog.version_by_id(edge.parent)))
            elif kinds.get(edge.parent) == "stage":
                # Nothing was named that was handed over: all that the other stage left.
                outputs = self._catalog.stage(edge.parent).outputs
                found += [self._artifact(each.digest) for each in outputs]
        return _distinct(found)

    def _artifact(self, digest: str, uri: str | None = None, size: int | None = None) -> Event:
        facts = self._own("DatasetFacet", digest=digest, uri=uri, size=size)
        return {
            "namespace": self._namespace,
            "name": f"artifact/{digest}",
            "facets": {"provender_artifact": facts},
        }


def producer() -> str:
    """The URI by which events name their producer."""
    return f"urn:x-provender:{metadata.version('provender')}"


def address_of(place: str) -> str:
    """A place as the URI that OpenLineage demands: with a scheme, and percent-encoded.

    Args:
        place: an absolute local path, or a URL as the store writes it, which encodes nothing.
    """
    scheme, mark, rest = place.partition("://")
    return f"{scheme}://{quote(rest)}" if mark else f"file://{quote(place)}"


def place_of(uri: str, drop: str = "") -> tuple[str, str]:
    """The namespace and name that OpenLineage gives to what lies at a place.

    Args:
        uri: a local path, or a URL such as ``gs://bucket/key``.
        drop: a last part of the path that is left out.

    Returns:
        ``("file", "/path")``, or ``("gs://bucket", "key")``.
    """
    path = uri.rstrip("/")
    if drop and path.endswith(f"/{drop}"):
        path = path[: -len(drop) - 1]
    if "://" not in path:
        return "file", path
    split = urlsplit(path)
    # Never a user name or password: the catalog holds none, and events travel.
    host = split.netloc.rpartition("@")[2]
    name = split.path.lstrip("/") or "/"
    return f"{split.scheme}://{host}", f"{name}?{split.query}" if split.query else name


def _uuid(id: str) -> str:
    return str(uuid.UUID(hex=id))


def _distinct(found: Iterable[Event]) -> list[Event]:
    return list({(each["namespace"], each["name"]): each for each in found}.values())


def _nearest(graph: Lineage) -> list[str]:
    """The versions above the start that are reached without passing another version."""
    above: dict[str, list[str]] = {}
    for edge in graph.edges:
        above.setdefault(edge.child, []).append(edge.parent)
    versions = {node.id for node in graph.nodes if node.kind == "version"}
    start = graph.nodes[0].id
    seen, todo, found = {start}, [start], []
    while todo:
        for parent in above.get(todo.pop(), ()):
            if parent in seen:
                continue
            seen.add(parent)
            if parent in versions:
                found.append(parent)
            else:
                todo.append(parent)
    return sorted(found)
