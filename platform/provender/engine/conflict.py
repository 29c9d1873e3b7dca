"""A version number is a promise: what would break it is refused, with the difference."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from provender.catalog import VersionRecord
from provender.engine.plan import HIT, WAIT, Step, reason_text
from provender.engine.session import Session
from provender.errors import ConflictError
from provender.fingerprint import Hasher, Tree
from provender.stages import prepare, register

_CONTENT = ("examples/", "shards/", prepare.KEY, register.KEY)
"""Stages that say what a version holds. Download and planning may run again: their output is
compared by content, and nothing changes where it comes out equal."""


def published_version(session: Session) -> VersionRecord | None:
    """The published version that has the number this build is for, if any."""
    facts = session.facts
    version = session.catalog.version(facts.name, facts.config, facts.version)
    return version if version is not None and version.status == "published" else None


def find_conflict(
    session: Session, steps: Iterable[Step], version: VersionRecord | None
) -> ConflictError | None:
    """Says whether the plan would put other content under a published number.

    Args:
        session: the build.
        steps: the plan's steps.
        version: the published version of that number, or None.

    Returns:
        The error to raise before any work is done, or None.
    """
    if version is None:
        return None
    known = version.info.get("stages", {})
    steps = [step for step in steps if step.key.startswith(_CONTENT)]
    shards_known = {key for key in known if key.startswith("shards/")}
    shards_now = {step.key for step in steps if step.key.startswith("shards/")}
    changes: list[dict[str, Any]] = []
    for step in steps:
        if step.state == WAIT or step.tree is None or known.get(step.key) == step.fingerprint:
            continue
        if step.state == HIT and step.key != register.KEY:
            # Other code that is known to give this content; the register step has the last word.
            continue
        changes += _difference(session, step, known.get(step.key))
    waiting = any(step.state == WAIT for step in steps)
    if not waiting and shards_known and shards_now != shards_known and not changes:
        changes.append(
            {
                "kind": "changed",
                "path": ["number of shards"],
                "old": str(len(shards_known)),
                "new": str(len(shards_now)),
            }
        )
    if not changes:
        return None
    unique = {reason_text(each): each for each in changes}
    lines = list(unique)
    shown = "; ".join(lines[:5]) + (f"; and {len(lines) - 5} more" if lines[5:] else "")
    return ConflictError(
        f"{version.name} is published, and this build would give something else: {shown}.",
        where=version.uri,
        hint=f"Raise VERSION in the builder, or `provender retract {version.name} --reason WHY` "
        "to free the number, or build with --trial to look at the result first.",
        facts={"version": version.name, "changes": list(unique.values())},
    )


def retracted_content(session: Session, last: Step) -> ConflictError | None:
    """Says whether the very content that a build would publish was taken back.

    Args:
        session: the build.
        last: the register step.

    Returns:
        The error to raise before any work is done, or None.
    """
    if last.fingerprint is None or last.state == WAIT:
        return None
    version = session.catalog.version_by_fingerprint(last.fingerprint)
    if version is None or version.status != "retracted":
        return None
    return ConflictError(
        f"This is the content of {version.name}, which {version.retracted_by} retracted: "
        f"{version.retract_reason}",
        where=version.uri,
        hint=f"`provender retract {version.name} --undo` publishes it again, if that was a mistake. "
        "Otherwise mend the builder first.",
        facts={"version": version.name, "reason": version.retract_reason},
    )


def _difference(session: Session, step: Step, old: str | None) -> list[dict[str, Any]]:
    tree = session.catalog.tree(old) if old else None
    if tree is None or step.tree is None:
        return [{"kind": "changed", "path": [step.key], "old": None, "new": "new"}]
    return [change.to_json() for change in Hasher.explain(Tree.from_json(tree), step.tree)]
