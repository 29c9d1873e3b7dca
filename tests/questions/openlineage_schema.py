"""What OpenLineage 2-0-2 and its facets demand of events, as JSON Schema.

Not the published files but their constraints, written anew: every property that Provender sends, its
type and format, and what is required, as openlineage.io publishes them under the addresses that
stand here (Apache-2.0). Descriptions, examples and kinds of events that Provender never sends are
left out. A facet is looked up by its ``_schemaURL``, so that naming one which does not exist is a
fault, too.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import Any
from uuid import UUID

from jsonschema import Draft202012Validator, FormatChecker
from referencing import Registry, Resource
from referencing.jsonschema import DRAFT202012

BASE = "https://openlineage.io/spec/2-0-2/OpenLineage.json"
FACETS = "https://openlineage.io/spec/facets/{}.json"
TEXT = {"type": "string"}
URI = {"type": "string", "format": "uri"}
UUID_ = {"type": "string", "format": "uuid"}
WHOLE = {"type": "integer"}


def some(*required: str, **properties: Any) -> dict[str, Any]:
    """An object; what is named first is required."""
    return {"type": "object", "properties": properties, "required": list(required)}


def core(kind: str) -> dict[str, str]:
    return {"$ref": f"{BASE}#/$defs/{kind}"}


def both(kind: str, more: Mapping[str, Any]) -> dict[str, Any]:
    return {"type": "object", "allOf": [core(kind), more]}


def bag(kind: str) -> dict[str, Any]:
    return {"type": "object", "additionalProperties": core(kind)}


def listed(of: Mapping[str, Any]) -> dict[str, Any]:
    return {"type": "array", "items": of}


_DELETED = some(_deleted={"type": "boolean"})
_STATES = ["START", "RUNNING", "COMPLETE", "ABORT", "FAIL", "OTHER"]
_NAMED = some("namespace", "name", namespace=TEXT, name=TEXT)
_CORE = {
    "BaseFacet": some("_producer", "_schemaURL", _producer=URI, _schemaURL=URI),
    "RunFacet": {"allOf": [core("BaseFacet")], "type": "object"},
    "JobFacet": both("BaseFacet", _DELETED),
    "DatasetFacet": both("BaseFacet", _DELETED),
    "InputDatasetFacet": {"allOf": [core("BaseFacet")], "type": "object"},
    "OutputDatasetFacet": {"allOf": [core("BaseFacet")], "type": "object"},
    "Run": some("runId", runId=UUID_, facets=bag("RunFacet")),
    "Job": {"allOf": [_NAMED, some(facets=bag("JobFacet"))]},
    "Dataset": {"allOf": [_NAMED, some(facets=bag("DatasetFacet"))]},
    "InputDataset": both("Dataset", some(inputFacets=bag("InputDatasetFacet"))),
    "OutputDataset": both("Dataset", some(outputFacets=bag("OutputDatasetFacet"))),
    "BaseEvent": some(
        *("eventTime", "producer", "schemaURL"),
        eventTime={"type": "string", "format": "date-time"},
        producer=URI,
        schemaURL=URI,
    ),
    "RunEvent": both(
        "BaseEvent",
        some(
            *("run", "job"),
            eventType={"type": "string", "enum": _STATES},
            run=core("Run"),
            job=core("Job"),
            inputs=listed(core("InputDataset")),
            outputs=listed(core("OutputDataset")),
        ),
    ),
}
_FIELD = {"$ref": "#/$defs/Field"}
_OWN = {
    "1-2-0/SchemaDatasetFacet": ("DatasetFacet", some(fields=listed(_FIELD))),
    "1-0-1/DatasetVersionDatasetFacet": (
        "DatasetFacet",
        some("datasetVersion", datasetVersion=TEXT),
    ),
    "1-0-1/DatasourceDatasetFacet": ("DatasetFacet", some(name=TEXT, uri=URI)),
    "1-1-0/DocumentationDatasetFacet": (
        "DatasetFacet",
        some("description", description=TEXT, contentType=TEXT),
    ),
    "1-0-1/DatasetTypeDatasetFacet": (
        "DatasetFacet",
        some("datasetType", datasetType=TEXT, subType=TEXT),
    ),
    "1-0-0/TagsDatasetFacet": (
        "DatasetFacet",
        some(tags=listed(some("key", "value", key=TEXT, value=TEXT, source=TEXT, field=TEXT))),
    ),
    "1-0-2/OutputStatisticsOutputDatasetFacet": (
        "OutputDatasetFacet",
        some(rowCount=WHOLE, size=WHOLE, fileCount=WHOLE),
    ),
    "1-2-0/ParentRunFacet": (
        "RunFacet",
        some("run", "job", run=some("runId", runId=UUID_), job=_NAMED),
    ),
    "1-0-1/ErrorMessageRunFacet": (
        "RunFacet",
        some(
            *("message", "programmingLanguage"),
            message=TEXT,
            programmingLanguage=TEXT,
            stackTrace=TEXT,
        ),
    ),
    "1-1-1/ProcessingEngineRunFacet": (
        "RunFacet",
        some("version", version=TEXT, name=TEXT, openlineageAdapterVersion=TEXT),
    ),
    "2-0-4/JobTypeJobFacet": (
        "JobFacet",
        some(
            *("processingType", "integration"), processingType=TEXT, integration=TEXT, jobType=TEXT
        ),
    ),
}
_FIELDS = some("name", name=TEXT, type=TEXT, description=TEXT, fields=listed(_FIELD))


def _documents() -> Iterator[tuple[str, dict[str, Any]]]:
    yield BASE, {"$id": BASE, "$defs": _CORE}
    for place, (kind, more) in _OWN.items():
        address = FACETS.format(place)
        found = {place.partition("/")[2]: both(kind, more), "Field": _FIELDS}
        yield address, {"$id": address, "$defs": found}


_REGISTRY: Registry[Any] = Registry().with_resources(
    (address, Resource.from_contents(document, DRAFT202012)) for address, document in _documents()
)
_FORMATS = FormatChecker(())
_SAID = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:[A-Za-z0-9._~:/?#\[\]@!$&'()*+,;=%-]*")


@_FORMATS.checks("uri")
def _is_uri(value: object) -> bool:
    """RFC 3986: a scheme, then nothing that would have to be percent-encoded."""
    if not isinstance(value, str):
        return True
    return bool(_SAID.fullmatch(value)) and not re.search(r"%(?![0-9A-Fa-f]{2})", value)


@_FORMATS.checks("uuid", raises=ValueError)
def _is_uuid(value: object) -> bool:
    return not isinstance(value, str) or str(UUID(value)) == value.lower()


@_FORMATS.checks("date-time", raises=ValueError)
def _is_time(value: object) -> bool:
    """RFC 3339: a date, a time, and an offset."""
    if not isinstance(value, str):
        return True
    return "T" in value and datetime.fromisoformat(value).tzinfo is not None


def faults(event: Mapping[str, Any]) -> list[str]:
    """What in an event, or in one of its facets, is not as its own schema wants it."""
    found = list(_faults("event", event, event["schemaURL"]))
    for where, facet in _facets(event):
        found += _faults(where, facet, facet.get("_schemaURL", ""))
    return found


def _faults(where: str, document: Mapping[str, Any], address: str) -> Iterator[str]:
    if address.partition("#")[0] not in _REGISTRY:
        yield f"{where}: no schema is published as {address!r}"
        return
    checker = Draft202012Validator({"$ref": address}, registry=_REGISTRY, format_checker=_FORMATS)
    for each in checker.iter_errors(document):
        yield f"{where}{each.json_path[1:]}: {each.message}"


def _facets(event: Mapping[str, Any]) -> Iterator[tuple[str, Mapping[str, Any]]]:
    parts = [("run", event["run"]), ("job", event["job"])]
    parts += [(f"inputs[{i}]", each) for i, each in enumerate(event.get("inputs", ()))]
    parts += [(f"outputs[{i}]", each) for i, each in enumerate(event.get("outputs", ()))]
    for where, part in parts:
        for kind in ("facets", "inputFacets", "outputFacets"):
            for name, facet in part.get(kind, {}).items():
                yield f"{where}.{kind}.{name}", facet
