"""What a task tells OpenLineage: the datasets it read and wrote, and whether it had to work."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import attr
from airflow.providers.openlineage.extractors import OperatorLineage
from openlineage.client.event_v2 import InputDataset, OutputDataset
from openlineage.client.facet_v2 import (
    DatasetFacet,
    RunFacet,
    dataset_type_dataset,
    dataset_version_dataset,
    datasource_dataset,
    documentation_dataset,
    output_statistics_output_dataset,
    schema_dataset,
    symlinks_dataset,
    tags_dataset,
)

from provender.catalog import Catalog
from provender.orchestration.airflow.names import SCHEME
from provender.orchestration.airflow.telling import SHOWN, Told
from provender.questions.openlineage import Event, Exporter, producer


@attr.define
class CacheRunFacet(RunFacet):
    """Whether the task had to work, and why.

    Attributes:
        state: ``cached``, ``ran``, ``reused``, ``2 of 5 cached``.
        runId: the run in Provender's catalog.
        stages: the stages with their states and reasons, at most `SHOWN`.
    """

    state: str
    runId: str  # noqa: N815 - a name of the event, which has the style of OpenLineage
    stages: list[dict[str, Any]]


@attr.define
class ContentDatasetFacet(DatasetFacet):
    """What Provender knows of a dataset that OpenLineage has no facet for.

    Attributes:
        facts: fingerprint, digests and the like.
    """

    facts: dict[str, Any]


_FIELDS = {
    "version": dataset_version_dataset.DatasetVersionDatasetFacet,
    "dataSource": datasource_dataset.DatasourceDatasetFacet,
    "datasetType": dataset_type_dataset.DatasetTypeDatasetFacet,
    "documentation": documentation_dataset.DocumentationDatasetFacet,
}


def lineage_of(told: Told) -> OperatorLineage:
    """What the stages of a task read and wrote, as the catalog has recorded it.

    Args:
        told: what the task told; its run and settings are known.

    Raises:
        ProvenderError: the catalog is away. The task itself is over by then.
    """
    if told.run is None or told.settings is None:
        raise AssertionError
    with Catalog.open(told.settings.catalog) as catalog:
        exporter = Exporter(catalog)
        if told.published is not None:
            inputs, outputs = _of_version(catalog, exporter, told)
        else:
            inputs, outputs = _of_stages(catalog, exporter, told)
    cache = CacheRunFacet(
        state=told.state,
        runId=told.run.run_id,
        stages=[
            {"stage": e.stage, "state": e.state, "fingerprint": e.fingerprint, "why": list(e.why)}
            for e in told.outcomes[:SHOWN]
        ],
        producer=producer(),
    )
    return OperatorLineage(
        inputs=[
            InputDataset(each["namespace"], each["name"], facets=_facets(each)) for each in inputs
        ],
        outputs=[_output(each) for each in outputs],
        run_facets={"provender_cache": cache},
    )


def _of_version(
    catalog: Catalog, exporter: Exporter, told: Told
) -> tuple[Iterable[Event], Iterable[Event]]:
    assert told.published is not None
    version = catalog.version_by_fingerprint(told.published.fingerprint)
    return exporter.around_version(version) if version else ((), ())


def _of_stages(
    catalog: Catalog, exporter: Exporter, told: Told
) -> tuple[Iterable[Event], Iterable[Event]]:
    inputs: dict[tuple[str, str], Event] = {}
    outputs: dict[tuple[str, str], Event] = {}
    for outcome in told.outcomes[:SHOWN]:
        if outcome.execution is None:
            continue
        read, made = exporter.around_stage(catalog.stage(outcome.execution))
        inputs |= {(each["namespace"], each["name"]): each for each in read}
        outputs |= {(each["namespace"], each["name"]): each for each in made}
    return inputs.values(), outputs.values()


def _output(event: Event) -> OutputDataset:
    counted = event.get("outputFacets", {}).get("outputStatistics")
    facets: dict[str, Any] = {}
    if counted:
        statistics = output_statistics_output_dataset.OutputStatisticsOutputDatasetFacet
        facets["outputStatistics"] = statistics(**_plain(counted), producer=producer())
    return OutputDataset(
        event["namespace"], event["name"], facets=_facets(event), outputFacets=facets
    )


def _facets(event: Event) -> dict[str, DatasetFacet]:
    """The facets of a dataset, as the client's types."""
    found: dict[str, DatasetFacet] = {}
    for name, facet in event.get("facets", {}).items():
        values = _plain(facet)
        if name in _FIELDS:
            found[name] = _FIELDS[name](**values, producer=producer())
        elif name == "schema":
            found[name] = schema_dataset.SchemaDatasetFacet(
                fields=[_field(each) for each in values["fields"]], producer=producer()
            )
        elif name == "tags":
            marks = [tags_dataset.TagsDatasetFacetFields(**each) for each in values["tags"]]
            found[name] = tags_dataset.TagsDatasetFacet(tags=marks, producer=producer())
        else:
            found[name] = ContentDatasetFacet(facts=values, producer=producer())
    if "dataSource" in event.get("facets", {}):
        known = symlinks_dataset.Identifier(
            SCHEME, event["facets"]["dataSource"]["name"], "DATASET"
        )
        found["symlinks"] = symlinks_dataset.SymlinksDatasetFacet([known], producer=producer())
    return found


def _field(doc: Mapping[str, Any]) -> schema_dataset.SchemaDatasetFacetFields:
    below = [_field(each) for each in doc.get("fields", ())]
    values = {key: doc[key] for key in ("name", "type", "description") if key in doc}
    return schema_dataset.SchemaDatasetFacetFields(**values, fields=below)


def _plain(facet: Mapping[str, Any]) -> dict[str, Any]:
    """A facet without what every facet has: its producer and schema."""
    return {key: value for key, value in facet.items() if not key.startswith("_")}
