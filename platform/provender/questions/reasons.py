"""What stages did in a run, and why: put together from what runs left in the catalog."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from provender.engine.plan import reason_text
from provender.errors import UnknownReference
from provender.questions.answers import Input, RunDetails, StageRun
from provender.questions.finding import dataset_of, listed, version_id_of
from provender.questions.rows import Rows
from provender.refs import DatasetRef

if TYPE_CHECKING:
    from provender.catalog import Catalog, RunRecord, StageRecord

_INPUT_STAGES = ("manual", "download")


def stage_run(record: StageRecord, state: str | None = None) -> StageRun:
    """An execution as an answer; ``state`` is given where it is not the execution's own."""
    error = record.error or {}
    return StageRun(
        id=record.id,
        dataset=record.dataset,
        config=record.config,
        key=record.key,
        stage=record.stage,
        state=state or record.state,
        why=tuple(reason_text(each) for each in record.reason),
        reason=record.reason,
        started=record.started,
        finished=record.finished,
        seconds=record.seconds,
        attempts=record.attempts,
        host=record.host,
        error=str(error["message"]) if error.get("message") else None,
        outputs=len(record.outputs),
        bytes=sum(each.size for each in record.outputs),
        fingerprint=record.fingerprint,
        run_id=record.run_id,
    )


def stages_of_run(catalog: Catalog, run_id: str) -> list[StageRun]:
    """What a run reused, then what it executed, in order."""
    hits = [stage_run(each, "hit") for each in catalog.hits(run_id)]
    own = [stage_run(each) for each in catalog.stages(run_id=run_id, limit=None)]
    return [*hits, *own[::-1]]


def run_details(catalog: Catalog, run: RunRecord) -> RunDetails:
    """A run with its stages and its version."""
    stages = Rows(stages_of_run(catalog, run.id), StageRun)
    if run.reused_version_id:
        version = catalog.summaries_by_id([run.reused_version_id]).get(run.reused_version_id)
    else:
        every = ("published", "trial", "retracted", "replaced")
        version = next(iter(catalog.version_summaries(include=every, run_id=run.id, limit=1)), None)
    return RunDetails(run, stages, version)


def why(catalog: Catalog, what: str, stage: str | None, run: str | None) -> list[StageRun]:
    """See `provender.questions.Questions.why`."""
    if len(what) == 32 and all(digit in "0123456789abcdef" for digit in what):
        return _of_id(catalog, what, stage)
    name, key = _split(what)
    found = _of_ref(catalog, name, run)
    wanted = key or stage
    if wanted is None:
        return found
    chosen = [each for each in found if _matches(each.key, wanted)]
    if not chosen:
        kinds = list(dict.fromkeys(each.key for each in found))
        raise UnknownReference(
            f"There is no stage {wanted!r}.", where=what, hint=f"There are: {listed(kinds)}."
        )
    return chosen


def _of_id(catalog: Catalog, id: str, stage: str | None) -> list[StageRun]:
    if catalog.summaries_by_id([id]):
        return _of_version(catalog, id)
    found = stage_run(catalog.stage(id))
    return [found] if stage is None or _matches(found.key, stage) else []


def _split(what: str) -> tuple[str, str | None]:
    """``xsum:shards/train/00003``, as lineage names stages, in its two parts."""
    name, colon, key = what.partition(":")
    if colon and not key.replace(".", "").isdigit() and "." not in name and ".py:" not in what:
        return name, key
    return what, None


def _of_ref(catalog: Catalog, ref: str, run: str | None) -> list[StageRun]:
    if run is not None:
        return stages_of_run(catalog, catalog.run(run).id)
    asked = DatasetRef.parse(ref)
    if asked.version or asked.alias:
        return _of_version(catalog, version_id_of(catalog, ref))
    last = catalog.last_stages(*_dataset(catalog, asked, ref))
    return _in_order(stage_run(each) for each in last.values())


def _dataset(catalog: Catalog, ref: DatasetRef, text: str) -> tuple[str, str]:
    """A dataset whose builds all failed has runs and stages, but no version."""
    if not ref.target and not catalog.configs(ref.name):
        configs = sorted({run.config for run in catalog.runs(ref.name)})
        if ref.config in configs:
            return ref.name, str(ref.config)
        if ref.config is None and len(configs) == 1:
            return ref.name, configs[0]
    return dataset_of(catalog, text)


def _of_version(catalog: Catalog, version_id: str) -> list[StageRun]:
    """The stages of the run that made a version; of one without a run, those behind it."""
    (version,) = catalog.summaries_by_id([version_id]).values()
    if version.run_id is not None:
        found = stages_of_run(catalog, version.run_id)
        if found:
            return found
    graph = catalog.lineage(version_id, "up")
    behind = [node.id for node in graph.nodes if node.kind == "stage"]
    return _in_order(stage_run(catalog.stage(id)) for id in behind)


def _in_order(found: Iterable[StageRun]) -> list[StageRun]:
    return sorted(found, key=lambda each: (each.started, each.key))


def _matches(key: str, stage: str) -> bool:
    return key == stage or key.startswith(f"{stage.rstrip('/')}/")


def inputs_of(catalog: Catalog, version_id: str) -> list[Input]:
    """What came from outside: every download and manual file behind a version."""
    graph = catalog.lineage(version_id, "up")
    found: dict[tuple[str, str], Input] = {}
    for node in graph.nodes:
        if node.kind != "stage" or node.name.rpartition(":")[2] not in _INPUT_STAGES:
            continue
        stage = catalog.stage(node.id)
        for each in stage.outputs:
            found[each.name, each.digest] = Input(stage.stage, each.name, each.digest, each.size)
        files = stage.result.get("files", {}) if stage.stage == "manual" else {}
        for name, about in files.items():
            found[name, about["sha256"]] = Input("manual", name, about["sha256"], about["size"])
    return list(found.values())
