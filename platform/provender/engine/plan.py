"""What a build would do: values, and their texts made last."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from provender.catalog import StageRecord, VersionRecord
from provender.errors import ConflictError
from provender.fingerprint import Change, Tree

_LEVELS = {
    kind: level
    for level, kinds in enumerate(
        (
            ("manual",),
            ("download", "prepare"),
            ("splits",),
            ("examples",),
            ("shards",),
            ("register",),
        )
    )
    for kind in kinds
}

HIT = "hit"
RUN = "run"
WAIT = "wait"


@dataclass(frozen=True)
class Step:
    """One stage in a plan.

    Attributes:
        key: stage key, e.g. ``shards/train/00003``.
        op: name of the operation that would run.
        state: `HIT`, `RUN`, or `WAIT` where what it depends on is not known yet.
        tree: fingerprint tree, None while waiting.
        reasons: why it runs or waits; empty for a hit.
        record: the execution that a hit reuses.
        args: the operation's arguments, JSON-ready.
        inputs: content digests of what it reads, for lineage.
    """

    key: str
    op: str
    state: str
    tree: Tree | None = None
    reasons: tuple[Mapping[str, Any], ...] = ()
    record: StageRecord | None = None
    args: Mapping[str, Any] = field(default_factory=dict)
    inputs: tuple[str, ...] = ()

    @property
    def kind(self) -> str:
        """The stage's kind: its key up to the first slash."""
        return self.key.partition("/")[0]

    @property
    def fingerprint(self) -> str | None:
        """The stage's fingerprint, None while waiting."""
        return self.tree.digest if self.tree else None

    def to_json(self) -> dict[str, Any]:
        """The step for ``--json``."""
        return {
            "stage": self.key,
            "state": self.state,
            "fingerprint": self.fingerprint,
            "why": [reason_text(each) for each in self.reasons],
            "reasons": [dict(each) for each in self.reasons],
        }


@dataclass(frozen=True)
class Plan:
    """All stages of a build, in order, as far as they are known.

    Attributes:
        steps: the stages; those below a stage that has to run may be missing or waiting.
        version: the version in the catalog that the build would give, if it is there already.
        conflict: why the build must be refused, or None.
    """

    steps: tuple[Step, ...]
    version: VersionRecord | None = None
    conflict: ConflictError | None = None

    @property
    def ready(self) -> tuple[Step, ...]:
        """The steps that can run now: those of the first kind of stage that has any to run."""
        running = [step for step in self.steps if step.state == RUN]
        first = min((_LEVELS[step.kind] for step in running), default=0)
        return tuple(step for step in running if _LEVELS[step.kind] == first)

    @property
    def done(self) -> bool:
        """Whether there is nothing to do."""
        return all(step.state == HIT for step in self.steps)

    def to_json(self) -> dict[str, Any]:
        """The plan for ``--json``."""
        return {
            "done": self.done,
            "version": self.version.name if self.version else None,
            "conflict": self.conflict.to_json() if self.conflict else None,
            "steps": [step.to_json() for step in self.steps],
        }


def reason_text(reason: Mapping[str, Any]) -> str:
    """One reason as a sentence a person reads.

    Args:
        reason: ``kind`` and what that kind carries; see `provender.engine.decide`.
    """
    return _DIGEST.sub(r"\1…", _reason(reason))


_DIGEST = re.compile(r"'?\b([0-9a-f]{12})[0-9a-f]{20,}\b'?")
"""Digests are shown by their first twelve digits; the reason's data has them whole."""


def _reason(reason: Mapping[str, Any]) -> str:
    kind = reason["kind"]
    if kind == "first":
        return "never run before"
    if kind == "forced":
        return "forced"
    if kind == "waits":
        return f"waits for {reason['on']}"
    if kind == "missing":
        return f"{reason['what']} is gone"
    if kind == "damaged":
        return f"{reason['what']} changed on disk: {reason['old']} -> {reason['new']}"
    if kind == "failed":
        return f"the last try failed: {reason['error']}"
    if kind == "unfinished":
        return "the last try did not finish"
    if kind == "not kept":
        return f"the result is not kept: {reason['why']}"
    if kind == "upstream":
        return f"{reason['path'][0]} changed upstream: {reason['old']} -> {reason['new']}"
    return str(Change.from_json(reason))
