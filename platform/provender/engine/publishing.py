"""The end of a build: a version goes into the store and the catalog, or is mended there."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from provender.catalog import (
    ArtifactRecord,
    Catalog,
    ShardRecord,
    SplitRecord,
    StageRecord,
    VersionRecord,
)
from provender.engine import proof
from provender.engine.execute import Call, shard_files
from provender.engine.plan import Step
from provender.engine.session import Session
from provender.errors import DamageError
from provender.stages import prepare, register, shards, statistics
from provender.stages.site import silent

_KEPT = ("datasets/",)
"""Where a shard that is part of a published version lies; from anywhere else it is moved."""

ASIDE = {"trial": "building/replaced", "replaced": "building/replaced", "retracted": "retracted"}
"""Status of a version whose place is taken -> folder that its files move to."""


def catalog_version(
    session: Session, plan: Mapping[str, Step], record: StageRecord, run_id: str | None
) -> VersionRecord:
    """Commits a published directory to the catalog, in one transaction.

    Args:
        session: the build.
        plan: stage key -> step; all hits but the register step.
        record: the register stage's execution.
        run_id: the run it belongs to.

    Returns:
        The version; the same one when it is committed twice.
    """
    result, last = record.result, plan[register.KEY]
    facts, store = session.facts, session.work.store
    by_split = last.args.get("splits", {})
    shard_rows = [
        ShardRecord(
            split=split,
            index=i,
            count=len(each),
            name=shard["name"],
            size=shard["size"],
            sha256=shard["sha256"],
            crc32c=shard["crc32c"],
            examples=shard["examples"],
            token=result["files"][shard["name"]]["token"],
            stage_id=_stage_id(plan, shards.key(split, i)),
        )
        for split, each in by_split.items()
        for i, shard in enumerate(each)
    ]
    names = {each.name for each in shard_rows}
    # Memory learns first where the files lie now. Killed after that, what is left under
    # construction belongs to nothing, and is swept.
    leftovers = _settle(session, plan, result)
    version = session.catalog.register_version(
        facts.name,
        facts.config,
        facts.version,
        record.fingerprint,
        status="trial" if session.options.is_trial else "published",
        path=result["target"],
        uri=store.path(result["target"]),
        splits=_splits(last, _statistics(session, result)),
        shards=shard_rows,
        features=result["features"],
        info={
            "dataset_info": result["info"],
            "spec": facts.spec.to_json(),
            "stages": {key: step.fingerprint for key, step in plan.items()},
            "files": {n: each for n, each in result["files"].items() if n not in names},
        },
        tree=last.tree.to_json() if last.tree else None,
        run_id=run_id,
        aliases=_aliases(session),
        lineage_inputs=[
            *session.parents,
            *(step.record.id for step in plan.values() if step.record),
        ],
    )
    _clear(session, leftovers)
    return version


def make_room(session: Session, step: Step) -> Step:
    """Moves aside the version that a trial, or a rebuilt retracted number, takes the place of.

    Its shards may be what the new version is made of, so they are moved, not removed; the step
    that comes back reads them where they lie now.

    Args:
        session: the build.
        step: the register step.
    """
    target = step.args["target"]
    for version in session.catalog.versions(
        session.facts.name, ("trial", "replaced", "retracted"), config=session.facts.config
    ):
        if version.path != target or version.fingerprint == step.fingerprint:
            continue
        aside = f"{ASIDE[version.status]}/{version.fingerprint}"
        _move_folder(session, target, aside)
        session.catalog.relocate(version.id, aside, session.work.store.path(aside))
        step = replace(step, args=_redirected(step.args, target, aside))
    return step


def _move_folder(session: Session, source: str, target: str) -> None:
    """Moves a version's folder, its marker first, so that nobody takes the rest for a version.

    Moving again after a crash moves what was left, if anything was.
    """
    store = session.work.store
    here, there = store.local(source), store.local(target)
    if here is not None and there is not None:
        if here.is_dir():
            store.remove_tree(target)
            there.parent.mkdir(parents=True, exist_ok=True)
            here.rename(there)
        return
    names = [each.rel for each in store.list(source, recursive=True)]
    for rel in sorted(names, key=lambda each: not each.endswith(f"/{register.MARKER}")):
        store.move(rel, f"{target}{rel.removeprefix(source)}")


def _redirected(args: Mapping[str, Any], old: str, new: str) -> dict[str, Any]:
    def moved(rel: str) -> str:
        return f"{new}{rel.removeprefix(old)}" if rel.startswith(f"{old}/") else rel

    if "files" in args:
        files = {n: {**each, "rel": moved(each["rel"])} for n, each in args["files"].items()}
        return {**args, "files": files}
    splits = {
        name: [{**each, "files": [moved(rel) for rel in each["files"]]} for each in shards]
        for name, shards in args["splits"].items()
    }
    return {**args, "splits": splits}


def clear_aside(session: Session) -> None:
    """Removes the files of trials that were replaced."""
    session.work.store.remove_tree(ASIDE["trial"])


def _stage_id(plan: Mapping[str, Step], key: str) -> str | None:
    step = plan.get(key)
    return step.record.id if step and step.record else None


def _aliases(session: Session) -> tuple[str, ...] | None:
    """None for the usual aliases; none at all for a number below one that is published.

    A fix of an old line, published after a newer version, must not become ``latest``.
    """
    facts = session.facts
    others = session.catalog.versions(facts.name, ("published",), config=facts.config)
    newer = any(_number(each.version) > _number(facts.version) for each in others)
    return () if newer else None


def _number(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in version.split("."))


def _statistics(session: Session, result: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """The figures that lie in the published version, by split."""
    if statistics.FILE not in result["files"]:
        return {}
    return statistics.read_document(
        session.work.store.read(f"{result['target']}/{statistics.FILE}")
    )


def _splits(last: Step, figures: Mapping[str, Mapping[str, Any]]) -> list[SplitRecord]:
    if "prepared" in last.args:
        return [
            SplitRecord(name=name, examples=each["examples"], bytes=each["bytes"], shards=0)
            for name, each in last.args["prepared"].items()
        ]
    return [
        SplitRecord(
            name=name,
            examples=sum(shard["examples"] for shard in each),
            bytes=sum(shard["size"] for shard in each),
            shards=len(each),
            statistics=figures.get(name, {}),
        )
        for name, each in last.args["splits"].items()
    ]


def _settle(session: Session, plan: Mapping[str, Step], result: Mapping[str, Any]) -> set[str]:
    """Tells memory that the shards lie in the version now; gives the folders they were made in."""
    moves: list[tuple[str, str, str, str]] = []
    leftovers: set[str] = set()
    for key, step in plan.items():
        if not key.startswith(("shards/", prepare.KEY)) or step.record is None:
            continue
        for name, output in _files(key, step.record).items():
            if not output.uri.startswith(_KEPT) and name in result["files"]:
                token = result["files"][name]["token"]
                moves.append((step.record.id, output.name, f"{result['target']}/{name}", token))
                if output.uri.startswith(("building/shards/", "building/prepared/")):
                    leftovers.add("/".join(output.uri.split("/")[:3]))
        if step.op == "piece":
            leftovers.add(step.args["piece"]["files"][0].rpartition("/")[0])
    session.catalog.update_artifacts(moves)
    return leftovers


def _clear(session: Session, folders: set[str]) -> None:
    for folder in folders:
        session.work.store.remove_tree(folder)


def _files(key: str, record: StageRecord) -> dict[str, ArtifactRecord]:
    """Name in a version's folder -> artifact, for what a stage gave to it."""
    if key == prepare.KEY:
        return {each.name: each for each in record.outputs}
    return shard_files(record)


def mend(
    session: Session, plan: Mapping[str, Step], version: VersionRecord, call: Call
) -> dict[str, Any]:
    """Puts back what is missing or damaged in a published version, byte for byte.

    Args:
        session: the build.
        plan: stage key -> step; the shards that were damaged have been made again.
        version: the version.
        call: where the builder is loaded, to write its metadata again.

    Returns:
        The register stage's result, with the identities of the files put back.

    Raises:
        DamageError: what was made again is not what was published.
    """
    store, last = session.work.store, plan[register.KEY]
    known = {each.name: each for each in session.catalog.shards(version.id)}
    listed: dict[str, Mapping[str, Any]] = dict(version.info["files"])
    listed |= {
        name: {"size": each.size, "token": each.token, "sha256": each.sha256}
        for name, each in known.items()
    }
    sources = _sources(plan, version, session.catalog, call)
    done: dict[str, Any] = {}
    tokens: dict[tuple[str, int], str] = {}
    for name, wanted in listed.items():
        rel = f"{version.path}/{name}"
        if proof.check_file(session, rel, store.stat(rel), wanted) is None:
            continue
        source = sources[name]
        digest = _sha256(session, source)
        if wanted.get("sha256") and digest != wanted["sha256"]:
            raise DamageError(
                f"{name} was made again, but is not what was published.",
                where=store.path(rel),
                hint="The builder is not deterministic. Publish a new version.",
                facts={"published": wanted["sha256"], "made": digest},
            )
        found = store.write(rel, source) if isinstance(source, bytes) else store.copy(source, rel)
        done[name] = {"size": found.size, "token": found.token}
        if name in known:
            tokens[known[name].split, known[name].index] = found.token
    session.catalog.set_shard_tokens(version.id, tokens)
    result = {
        "target": version.path,
        "files": {**listed, **done},
        "features": dict(version.features),
        "info": version.info["dataset_info"],
        "mended": sorted(done),
    }
    _clear(session, _settle(session, plan, result))
    return {**result, "files": done, "fingerprint": last.fingerprint}


def _sources(
    plan: Mapping[str, Step], version: VersionRecord, catalog: Catalog, call: Call
) -> dict[str, str | bytes]:
    """Where each file of the version can be had from: a store path, or its bytes."""
    last = plan[register.KEY]
    made = plan.get(prepare.KEY)
    if made is not None and made.record is not None:
        return {name: each.uri for name, each in _files(prepare.KEY, made.record).items()}
    found: dict[str, str | bytes] = {}
    known = {}
    if statistics.FILE in version.info["files"]:
        figures = statistics.document(catalog.statistics(version.id))
        known[statistics.FILE] = base64.b64encode(figures).decode()
    made_again = call("metadata", {**last.args, "known": known}, silent)
    for name, data in made_again["files"].items():
        found[name] = base64.b64decode(data)
    for key, step in plan.items():
        if key.startswith("shards/") and step.record is not None:
            found.update({name: each.uri for name, each in shard_files(step.record).items()})
    return found


def _sha256(session: Session, source: str | bytes) -> str:
    if isinstance(source, bytes):
        return hashlib.sha256(source).hexdigest()
    return session.work.store.digest(source).sha256
