"""What travels between an orchestrator's tasks: small JSON documents, never a password."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from provender.builders.spec import BuilderSpec
from provender.engine.session import Options

CACHED, RAN, REUSED, ABSENT = "cached", "ran", "reused", "absent"


@dataclass(frozen=True)
class RunDoc:
    """One build, as every task of it is told.

    Attributes:
        run_id: of the run's row in the catalog.
        dataset: ``name[/config]``.
        version: the number that is built.
        spec: the builder.
        options: what was asked for, as `Options.to_json` gives it.
        started: ISO time of the run's begin, UTC.
        orchestrator: what the orchestrator calls the run.
        settings: the provender.toml to read, or None for the nearest one or none.
        store: the store that is built into, without secrets: every task checks that it is its own.
    """

    run_id: str
    dataset: str
    version: str
    spec: BuilderSpec
    options: Mapping[str, Any]
    started: str
    orchestrator: Mapping[str, Any]
    settings: str | None
    store: str

    @property
    def name(self) -> str:
        """``name[/config]:version``."""
        return f"{self.dataset}:{self.version}"

    def asked(self) -> Options:
        """The options as values."""
        lists = ("force", "allow")
        given: dict[str, Any] = {k: tuple(v) if k in lists else v for k, v in self.options.items()}
        return Options(**given)

    def to_json(self) -> dict[str, Any]:
        """A JSON-ready dict that `from_json` reads."""
        return {**self.__dict__, "spec": self.spec.to_json()}

    @classmethod
    def from_json(cls, doc: Mapping[str, Any]) -> RunDoc:
        """Reads what `to_json` wrote."""
        return cls(**{**doc, "spec": BuilderSpec.from_json(doc["spec"])})


@dataclass(frozen=True)
class Unit:
    """What one task of a mapped stage does: some parts of splits, or some shards.

    Attributes:
        stage: ``examples`` or ``shards``.
        spans: ``(split, first, stop, of)``: items ``first`` to ``stop - 1`` of ``of``.
    """

    stage: str
    spans: tuple[tuple[str, int, int, int], ...]

    @property
    def label(self) -> str:
        """How the task is shown: ``train-00002``, ``train-00002…00005``, ``train``."""
        return ", ".join(_span_text(self.stage, *span) for span in self.spans)

    def to_json(self) -> dict[str, Any]:
        """A JSON-ready dict that `from_json` reads; it holds the label too."""
        return {"stage": self.stage, "spans": [list(s) for s in self.spans], "label": self.label}

    @classmethod
    def from_json(cls, doc: Mapping[str, Any]) -> Unit:
        """Reads what `to_json` wrote."""
        return cls(doc["stage"], tuple((s, int(a), int(b), int(n)) for s, a, b, n in doc["spans"]))


def _span_text(stage: str, split: str, first: int, stop: int, of: int) -> str:
    if (first, stop) == (0, of) and not (stage == "shards" and of == 1):
        return split
    return f"{split}-{first:05d}" + (f"…{stop - 1:05d}" if stop - first > 1 else "")


@dataclass(frozen=True)
class Outcome:
    """How one stage stands now.

    Attributes:
        stage: stage key, e.g. ``shards/train/00003``.
        state: `CACHED` (nothing to do), `RAN`, `REUSED` (another process did it meanwhile), or
            `ABSENT` where the dataset has no such stage.
        fingerprint: of the stage, None where it is absent.
        why: why it ran; for one that is cached, which run made it, and when.
        seconds: that the work took here.
        counts: ``examples``, ``bytes`` and the like, as the stage tells them.
        execution: id of the stage's row in the catalog.
        waited_for: whoever was waited for, or None.
    """

    stage: str
    state: str
    fingerprint: str | None = None
    why: tuple[str, ...] = ()
    seconds: float = 0.0
    counts: Mapping[str, int] = field(default_factory=dict)
    execution: str | None = None
    waited_for: str | None = None

    @property
    def hit(self) -> bool:
        """Whether nothing was done here."""
        return self.state != RAN

    def to_json(self) -> dict[str, Any]:
        """A JSON-ready dict that `from_json` reads."""
        return {**asdict(self), "why": list(self.why)}

    @classmethod
    def from_json(cls, doc: Mapping[str, Any]) -> Outcome:
        """Reads what `to_json` wrote."""
        return cls(**{**doc, "why": tuple(doc["why"])})


def state_of(outcomes: Sequence[Outcome]) -> str:
    """One word for several outcomes: ``cached``, ``ran``, ``reused``, ``2 of 5 cached``."""
    states = [each.state for each in outcomes if each.state != ABSENT] or [ABSENT]
    if len(set(states)) == 1:
        return states[0]
    hits = sum(state != RAN for state in states)
    return f"{hits} of {len(states)} cached" if hits else RAN


@dataclass(frozen=True)
class Published:
    """The version that stands at the end.

    Attributes:
        name: ``name[/config]:version``.
        dataset: ``name[/config]``.
        version: its number.
        fingerprint: of the version.
        status: ``published`` or ``trial``.
        path: where its files are.
        splits: split -> examples.
        bytes: size of all shards.
        changed: whether this run made it.
        changed_splits: splits whose files differ from those of the version before.
        outcome: of the run: ``succeeded``, ``cached`` or ``reused``.
        run_id: the run.
    """

    name: str
    dataset: str
    version: str
    fingerprint: str
    status: str
    path: str
    splits: Mapping[str, int]
    bytes: int
    changed: bool
    changed_splits: tuple[str, ...]
    outcome: str
    run_id: str

    def to_json(self) -> dict[str, Any]:
        """A JSON-ready dict that `from_json` reads."""
        return {**asdict(self), "changed_splits": list(self.changed_splits)}

    @classmethod
    def from_json(cls, doc: Mapping[str, Any]) -> Published:
        """Reads what `to_json` wrote."""
        return cls(**{**doc, "changed_splits": tuple(doc["changed_splits"])})
