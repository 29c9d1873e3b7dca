"""The one function that runs a stage: look up, claim, run, prove, record.

The command line, Airflow, Prefect and whatever else only decide when and where it is called.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from provender.catalog import ArtifactRecord, ClaimRecord, StageRecord, claimed
from provender.catalog.leases import stand_aside
from provender.engine.plan import Step
from provender.engine.session import Session
from provender.errors import ProvenderError, StoreError
from provender.stages import beam, examples, register
from provender.stages.site import Progress

Call = Callable[[str, Mapping[str, Any], Progress], dict[str, Any]]
"""Runs an operation somewhere: in this process, or in a worker."""

Tell = Callable[[Mapping[str, Any]], None]
"""Is told what happens: a mapping with ``event`` and ``stage`` (see `provender.engine.build`)."""


MADE = "made"
"""Kind of the files that a builder's step left: their digests are those of their bytes."""


def execute(
    session: Session, step: Step, *, run_id: str | None, call: Call, tell: Tell
) -> StageRecord:
    """Runs one stage, or waits for whoever is running it and takes their result.

    Args:
        session: the build.
        step: a step whose fingerprint is known.
        run_id: the run it belongs to.
        call: where the operation runs.
        tell: is told of start, progress, waiting and end.

    Returns:
        The execution that stands for the stage now.

    Raises:
        ProvenderError: what the operation raised; it is recorded before.
    """
    if step.tree is None:
        raise StoreError(f"{step.key} cannot run before its inputs are known.", where=step.key)
    catalog = session.catalog

    def waiting(held: ClaimRecord) -> None:
        tell({"event": "wait", "stage": step.key, "holder": str(held.owner)})

    with claimed(catalog, f"stage/{step.tree.digest}", on_wait=waiting, note=step.key) as claim:
        stand_aside(catalog, None, waiting)
        newest = catalog.find_stage(step.tree.digest)
        seen = step.record.id if step.record else None
        if newest is not None and newest.id != seen:
            # Finished by another process since the decision was made.
            tell({"event": "reused", "stage": step.key})
            return newest
        return _run(session, step, run_id, call, tell, claim.check)


def _run(
    session: Session,
    step: Step,
    run_id: str | None,
    call: Call,
    tell: Tell,
    still_ours: Callable[[], None],
) -> StageRecord:
    facts, catalog = session.facts, session.catalog
    if step.tree is None:
        raise AssertionError
    where = (run_id, facts.name, facts.config, step.key, step.tree.digest)
    started = datetime.now(UTC)
    reasons, tree = [dict(each) for each in step.reasons], step.tree.to_json()
    stage_id = catalog.start_stage(*where, reason=reasons, tree=tree)
    tell({"event": "start", "stage": step.key, "reasons": reasons})

    def progress(said: Mapping[str, Any]) -> None:
        tell({"event": "progress", "stage": step.key, **said})

    try:
        result = call(step.op, step.args, progress)
        outputs = outputs_of(session, step, result)
        still_ours()
    except BaseException as error:
        doc = (
            error.to_json()
            if isinstance(error, ProvenderError)
            else {"type": type(error).__name__, "message": str(error) or type(error).__name__}
        )
        catalog.record_stage(
            *where, id=stage_id, state="failed", reason=reasons, started=started, error=doc
        )
        tell({"event": "failed", "stage": step.key, "error": doc})
        raise
    record = catalog.record_stage(
        *where,
        id=stage_id,
        state="succeeded",
        reason=reasons,
        tree=tree,
        result=result,
        outputs=outputs,
        inputs=[each for each in step.inputs if each],
        started=started,
    )
    tell({"event": "done", "stage": step.key, "seconds": record.seconds, "result": result})
    return record


def outputs_of(session: Session, step: Step, result: Mapping[str, Any]) -> list[ArtifactRecord]:
    """The files a stage left, as they lie there now.

    Raises:
        StoreError: the stage says that it wrote a file which is not there.
    """
    if step.op in ("shard", "iterator", "piece"):
        digests = (result["sha256"], result["index_sha256"])
        names = ("shard", "index")
        return [
            _stored(session, rel, name, digest)
            for rel, name, digest in zip(result["files"], names, digests, strict=True)
        ]
    if step.op == "splits" and result["plan"]:
        return [_stored(session, result["plan"], "plan", result["plan"].split("/")[2])]
    if step.op == "prepare":
        return [
            _stored(session, each["rel"], name, each["sha256"])
            for name, each in result["files"].items()
        ]
    if step.op == "download":
        return [
            ArtifactRecord(
                digest=each["sha256"],
                size=each["size"],
                uri=f"objects/{each['object']}",
                kind="download",
                name=each["url"],
            )
            for each in result["records"]
        ]
    if step.op == "part":
        return _run_files(session, step, result)
    if step.op == "order":
        return _content(session, step, result)
    if step.op in ("make", "join"):
        return _made_files(session, step, result)
    if step.op == "beam":
        return [
            ArtifactRecord(
                digest=result["digest"],
                size=result["bytes"],
                uri=beam.rel(step.args["fingerprint"]),
                kind="examples",
                name="content",
            )
        ]
    return []


def _stored(session: Session, rel: str, name: str, digest: str) -> ArtifactRecord:
    found = session.work.store.stat(rel)
    if found is None:
        raise StoreError(
            f"{rel} was written, but is not in the store.",
            where=session.work.store.path(rel),
            hint="Is something else cleaning the store?",
        )
    return ArtifactRecord(
        digest=digest, size=found.size, uri=rel, token=found.token, kind=name, name=name
    )


def _run_files(session: Session, step: Step, result: Mapping[str, Any]) -> list[ArtifactRecord]:
    args = step.args
    folder = examples.runs_dir(session.work, args["fingerprint"], args["parts"])
    return [
        _local(session, folder / f"{run['name']}{suffix}", size, digest)
        for run in result["runs"]
        for suffix, (size, digest) in run["files"].items()
    ]


def _made_files(session: Session, step: Step, result: Mapping[str, Any]) -> list[ArtifactRecord]:
    """The files of a step or of a part of it; of a step its content as one digest, too."""
    of_part = step.op == "make"
    parts = step.args["parts"] if of_part else result["parts"]
    folder = examples.runs_dir(session.work, step.args["fingerprint"], parts)
    files = [
        replace(_local(session, folder / name, size, digest), kind=MADE, name=name)
        for name, (size, digest) in result["files"].items()
    ]
    if of_part:
        return files
    uri = str(folder.relative_to(session.work.building))
    content = ArtifactRecord(
        digest=result["digest"], size=result["bytes"], uri=uri, kind="examples", name="content"
    )
    return [content, *files]


def _local(session: Session, path: Path, size: int, digest: str) -> ArtifactRecord:
    uri = str(path.relative_to(session.work.building))
    return ArtifactRecord(
        digest=digest, size=size, uri=uri, token=local_token(path), kind="run", name=path.name
    )


def local_token(path: Path) -> str:
    """What changes when a file of this machine is written anew.

    Raises:
        StoreError: the file is not there.
    """
    try:
        found = path.stat()
    except OSError as error:
        message = f"{path.name} was written, but cannot be looked at: {error.strerror}."
        raise StoreError(
            message, where=str(path), hint="Is something else cleaning up there?"
        ) from error
    return f"{found.st_mtime_ns}:{found.st_ino}"


def _content(session: Session, step: Step, result: Mapping[str, Any]) -> list[ArtifactRecord]:
    """The split's content as one digest, and the files that its shards are cut from."""
    folder = examples.runs_dir(session.work, step.args["fingerprint"], result["parts"])
    split = ArtifactRecord(
        digest=result["digest"],
        size=result["bytes"],
        uri=str(folder.relative_to(session.work.building)),
        kind="examples",
        name="content",
    )
    # Equal examples may lie in files of other sizes: how keys are grouped depends on the clock.
    files = [
        _local(session, folder / name, size, f"{result['digest']}/{name}/{size}")
        for name, size in result["files"].items()
    ]
    return [split, *files]


def shard_files(record: StageRecord) -> dict[str, ArtifactRecord]:
    """Name in a version's folder -> artifact, for both files of a shard."""
    names = {"shard": record.result["name"], "index": register.index_name(record.result["name"])}
    return {names[each.name]: each for each in record.outputs}
