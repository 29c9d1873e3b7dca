"""A hit proves its artifacts: what memory promises must still lie in the store.

Proofs run from the version backwards, and only as far as something would be read: a finished
version does not need its runs, and a finished split does not need its downloads.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from provender.catalog import StageRecord, VersionRecord
from provender.engine.execute import MADE, local_token
from provender.engine.plan import HIT, RUN, WAIT, Step
from provender.engine.session import Session
from provender.stages import beam, download, examples, prepare, register, shards, splits
from provender.stages.steps import key as step_key

Steps = dict[str, Step]


def prove(
    session: Session, steps: Steps, finished: Mapping[str, Any] | None
) -> VersionRecord | None:
    """Turns hits whose artifacts are gone or changed into runs, in place.

    Args:
        session: the build.
        steps: stage key -> step, as the forward pass left them.
        finished: what the register step joins, or None while that is not known.

    Returns:
        The version that the plan leads to, if the catalog has it.
    """
    version = None
    last = steps[register.KEY]
    if finished is not None and last.fingerprint:
        version = session.catalog.version_by_fingerprint(last.fingerprint)
        if version is not None and version.status not in ("published", "trial"):
            version = None
    if version is not None and last.state == HIT:
        _prove_version(session, steps, version)
    elif last.state == HIT:
        steps[register.KEY] = _rerun(last, {"kind": "missing", "what": "its version's catalog row"})
    if steps[register.KEY].state != HIT and version is None:
        _prove_shards(session, steps)
    _prove_examples(session, steps)
    _prove_pieces(session, steps)
    _prove_made(session, steps)
    _prove_inputs(session, steps)
    return version


def _rerun(step: Step, reason: Mapping[str, Any]) -> Step:
    return replace(step, state=RUN, reasons=(*step.reasons, reason))


def _wait(steps: Steps, key: str, on: str) -> None:
    step = steps.get(key)
    if step is not None and step.state != WAIT:
        steps[key] = replace(step, state=WAIT, reasons=(*step.reasons, {"kind": "waits", "on": on}))


def _prove_version(session: Session, steps: Steps, version: VersionRecord) -> None:
    """Every file of the version: size and identity; content where the identity moved."""
    store = session.work.store
    by_name = {each.name: each for each in session.catalog.shards(version.id)}
    wanted: dict[str, Mapping[str, Any]] = dict(version.info.get("files", {}))
    for name, each in by_name.items():
        wanted[name] = {"size": each.size, "token": each.token, "sha256": each.sha256}
    rels = {name: f"{version.path}/{name}" for name in wanted}
    found = store.stat_many(list(rels.values()))
    fresh: dict[tuple[str, int], str] = {}
    for name, rel in rels.items():
        reason = check_file(session, rel, found.get(rel), wanted[name])
        shard = by_name.get(name)
        if reason is None:
            token = getattr(found.get(rel), "token", "")
            if shard is not None and token != shard.token:
                fresh[shard.split, shard.index] = token
            continue
        steps[register.KEY] = _rerun(steps[register.KEY], reason)
        owner = name.removeprefix(f"{register.INDEX_FOLDER}/").removesuffix(shards.INDEX_SUFFIX)
        shard = shard or by_name.get(owner)
        key = shards.key(shard.split, shard.index) if shard else prepare.KEY
        if key in steps and steps[key].state == HIT and not _has_spare(session, steps[key], rel):
            steps[key] = _rerun(steps[key], reason)
    for key, step in list(steps.items()):
        if key.startswith(("shards/", prepare.KEY)) and step.state != HIT:
            _wait(steps, register.KEY, key)
    if fresh:
        session.catalog.set_shard_tokens(version.id, fresh)


def _has_spare(session: Session, step: Step, damaged: str) -> bool:
    """Whether the stage's outputs lie, intact, somewhere else than in the damaged version."""
    for artifact in step.record.outputs if step.record else ():
        wanted = {"size": artifact.size, "token": artifact.token, "sha256": artifact.digest}
        found = session.work.store.stat(artifact.uri)
        if artifact.uri == damaged or check_file(session, artifact.uri, found, wanted):
            return False
    return bool(step.record and step.record.outputs)


def check_file(
    session: Session, rel: str, found: Any, wanted: Mapping[str, Any]
) -> dict[str, Any] | None:
    """Compares one file with what was recorded.

    A file whose identity moved while its size did not (a store that was copied elsewhere) is
    read once more; equal content counts as proven.

    Args:
        session: the build.
        rel: store path.
        found: identity now, or None.
        wanted: ``size``, ``token`` and, where known, ``sha256``.

    Returns:
        A reason, or None for a file that is what it should be.
    """
    if found is None:
        return {"kind": "missing", "what": rel}
    if found.size != wanted["size"]:
        sizes = {"old": f"{wanted['size']} bytes", "new": f"{found.size} bytes"}
        return {"kind": "damaged", "what": rel, **sizes}
    if found.token == wanted["token"]:
        return None
    if wanted.get("sha256"):
        digest = session.work.store.digest(rel).sha256
        if digest == wanted["sha256"]:
            return None
        return {
            "kind": "damaged",
            "what": rel,
            "old": f"sha256 {wanted['sha256'][:16]}",
            "new": f"sha256 {digest[:16]}",
        }
    return {"kind": "damaged", "what": rel, "old": wanted["token"], "new": found.token}


def _prove_shards(session: Session, steps: Steps) -> None:
    """Shards that a new version would be made of: under construction, or in another version."""
    hits = {
        key: step
        for key, step in steps.items()
        if step.state == HIT and step.record and key.startswith(("shards/", prepare.KEY))
    }
    rels = {a.uri for step in hits.values() if step.record for a in step.record.outputs}
    found = session.work.store.stat_many(sorted(rels))
    for key, step in hits.items():
        for artifact in step.record.outputs if step.record else ():
            wanted = {"size": artifact.size, "token": artifact.token, "sha256": artifact.digest}
            reason = check_file(session, artifact.uri, found.get(artifact.uri), wanted)
            if reason is not None:
                steps[key] = _rerun(step, reason)
                _wait(steps, register.KEY, key)
                break


def _prove_examples(session: Session, steps: Steps) -> None:
    """Runs are read only where a shard has to be written."""
    for key, step in list(steps.items()):
        if not key.startswith("shards/") or step.op != "shard" or step.state != RUN:
            continue
        above = examples.key(step.args["split"])
        if steps[above].state == HIT and (reason := missing_run(session, steps[above].record)):
            steps[above] = _rerun(steps[above], reason)
        if steps[above].state != HIT:
            _wait(steps, key, above)
            _wait(steps, register.KEY, above)


def _prove_pieces(session: Session, steps: Steps) -> None:
    """What a Beam pipeline wrote is read only where a shard has to get its place."""
    for key, step in list(steps.items()):
        if step.op != "piece" or step.state != RUN:
            continue
        above = examples.key(step.args["split"])
        if steps[above].state == HIT and (reason := beam.missing_piece(session.work, step.args)):
            steps[above] = _rerun(steps[above], reason)
        if steps[above].state != HIT:
            _wait(steps, key, above)
            _wait(steps, register.KEY, above)


def _prove_made(session: Session, known: Steps) -> None:
    """What a builder's steps left is read where a later step or a shard has to be made."""
    order = [step_key(step) for step in session.facts.steps]
    later = [each for each in known.values() if each.op == "iterator"]
    for key in reversed(order):
        step = known.get(key)
        is_read = any(each.state != HIT for each in later)
        if step is not None and step.state == HIT and is_read:
            reason = missing_run(session, step.record)
            if reason is not None:
                known[key] = _rerun(step, reason)
        if step is not None:
            later.append(known[key])
    lost = next((key for key in order if key in known and known[key].state == RUN), None)
    if lost is None:
        return
    for each in [*order[order.index(lost) + 1 :], *(k for k in known if k.startswith("shards/"))]:
        if each in known and known[each].state == RUN:
            _wait(known, each, lost)
    _wait(known, register.KEY, lost)


def missing_run(session: Session, record: StageRecord | None) -> dict[str, Any] | None:
    """A reason if a file that a finished split is read from is gone, None if all are there."""
    for artifact in record.outputs if record else ():
        if artifact.kind not in ("run", MADE):
            continue
        path = session.work.building / artifact.uri
        try:
            found = path.stat()
        except OSError:
            return {"kind": "missing", "what": str(path)}
        if found.st_size != artifact.size:
            sizes = {"old": f"{artifact.size} bytes", "new": f"{found.st_size} bytes"}
            return {"kind": "damaged", "what": str(path), **sizes}
        token = local_token(path)
        if artifact.token and token != artifact.token:
            if artifact.kind == MADE and session.sha256(path) == artifact.digest:
                continue  # moved here, or made again by another machine: the same bytes
            # Running the stage again reads the runs, and makes only those anew that are damaged.
            return {"kind": "damaged", "what": str(path), "old": artifact.token, "new": token}
    return None


def _prove_inputs(session: Session, steps: Steps) -> None:
    """Downloads and the plan are read only where examples are generated or splits planned."""
    generating = [
        step
        for key, step in steps.items()
        if step.state == RUN and (key.startswith("examples/") or step.op == "iterator")
    ]
    plan = steps.get(splits.KEY)
    if plan is None:
        return
    if generating and plan.state == HIT and plan.record is not None:
        rel = plan.record.result.get("plan")
        if rel and session.work.store.stat(rel) is None:
            plan = steps[splits.KEY] = _rerun(plan, {"kind": "missing", "what": rel})
    fetch = steps[download.KEY]
    needed = (generating or plan.state == RUN) and fetch.state == HIT
    if needed and (lost := missing_object(session, fetch.record)) is not None:
        steps[download.KEY] = _rerun(fetch, {"kind": "missing", "what": lost})
        for key, step in list(steps.items()):
            if key != download.KEY and step.state == RUN:
                _wait(steps, key, download.KEY)
        return
    if plan.state == RUN:
        for step in generating:
            _wait(steps, step.key, splits.KEY)


def missing_object(session: Session, record: StageRecord | None) -> str | None:
    """The first download that is not, whole, on this machine or in the store, or None."""
    from provender.builders.download import DigestMemory

    digests = DigestMemory(session.work.objects_dir / ".digests")
    for each in record.result["records"] if record else ():
        local: Path = session.work.objects_dir / each["object"]
        if local.is_file() and digests.digest(local).sha256 == each["sha256"]:
            continue
        if session.work.store.is_local:
            return each["object"]
        found = session.work.store.stat(f"objects/{each['object']}")
        if found is None or found.size != each["size"]:
            return each["object"]
    return None
