"""Typed answers that put several records together."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any, Literal

from provender.catalog.answers import SplitSummary, VersionSummary
from provender.catalog.records import Lineage, LineageEdge, LineageNode, RunRecord, full_name
from provender.questions.rows import Rows

if TYPE_CHECKING:
    import pandas as pd

Document = Mapping[str, Any]
Direction = Literal["up", "down", "both"]


@dataclass(frozen=True, slots=True)
class VersionDetails:
    """One version in full.

    Attributes:
        summary: what lists show of it.
        path: its folder relative to the store's root.
        description: what its builder says it is; empty where it says nothing.
        licence: its licence, as the builder gives it; empty where it gives none.
        homepages: addresses that the builder names as its home.
        builder: the class that built it, ``module:Class`` or ``file.py:Class``; empty where that
            is not on record.
        features: features.json as a document.
        info: what was registered beside it, dataset_info.json under ``dataset_info``.
        successor: name of the version to use instead, or None.
        removed: when its files were removed from the store, or None.
    """

    summary: VersionSummary
    path: str
    description: str
    licence: str
    homepages: tuple[str, ...]
    builder: str
    features: Document
    info: Document
    successor: str | None
    removed: datetime | None

    @property
    def id(self) -> str:
        """The version's id."""
        return self.summary.id

    @property
    def name(self) -> str:
        """``dataset[/config]:version``, as people write it."""
        return self.summary.name

    @property
    def status(self) -> str:
        """``published``, ``trial``, ``retracted`` or ``replaced``."""
        return self.summary.status

    @property
    def splits(self) -> Rows[SplitSummary]:
        """Its splits in the order they are to be shown."""
        return Rows(self.summary.splits, SplitSummary)

    @property
    def examples(self) -> int:
        """Number of examples over all splits."""
        return self.summary.examples

    @property
    def bytes(self) -> int:
        """Size of all shard files, in bytes."""
        return self.summary.bytes


@dataclass(frozen=True, slots=True)
class Input:
    """A file from outside that a version was made from.

    Attributes:
        kind: ``download`` or ``manual``.
        name: its address, or its path below the manual folder.
        digest: sha256 of its content, hex.
        size: bytes.
    """

    kind: str
    name: str
    digest: str
    size: int


@dataclass(frozen=True, slots=True)
class StageRun:
    """One stage in a run, or of a dataset, and why it ran.

    Attributes:
        key: which stage, e.g. ``shards/train/00003``.
        state: ``hit`` where a run reused an earlier execution; else that of the execution.
        why: reasons as sentences; those for which the execution ran, whoever reused it later.
        reason: the same as documents, one a cause.
        error: message of what ended it, or None.
        outputs: number of artifacts that it made.
        bytes: their size.
        run_id: the run that executed it, or None.
    """

    id: str
    dataset: str
    config: str
    key: str
    stage: str
    state: str
    why: tuple[str, ...]
    reason: tuple[Document, ...]
    started: datetime
    finished: datetime | None
    seconds: float | None
    attempts: int
    host: str
    error: str | None
    outputs: int
    bytes: int
    fingerprint: str
    run_id: str | None

    @property
    def name(self) -> str:
        """``dataset[/config]:key``, as lineage shows it."""
        return f"{full_name(self.dataset, self.config)}:{self.key}"


@dataclass(frozen=True, slots=True)
class RunDetails:
    """One run in full.

    Attributes:
        record: the run.
        stages: its stages in order: what it reused first (state ``hit``), then what it executed.
        version: the version that it made, or found ready; None where there is none.
    """

    record: RunRecord
    stages: Rows[StageRun]
    version: VersionSummary | None

    @property
    def id(self) -> str:
        """The run's id."""
        return self.record.id

    def to_frame(self) -> pd.DataFrame:
        """Its stages as a pandas frame."""
        return self.stages.to_frame()


@dataclass(frozen=True, slots=True)
class NamedEdge:
    """An edge with the names of its ends; ``via`` is the digest of what was handed over."""

    child: str
    parent: str
    child_kind: str
    parent_kind: str
    child_id: str
    parent_id: str
    via: str | None


@dataclass(frozen=True, slots=True)
class LineageGraph:
    """What something was made from (``up``), what was made from it (``down``), or both.

    Attributes:
        direction: as asked.
        depth: how many steps away at most, or None for all.
        nodes: the start first. A node of kind ``missing`` is named by an edge, but the catalog
            has nothing else about it.
        edges: all between the nodes that lead away from the start.
    """

    direction: Direction
    depth: int | None
    nodes: Rows[LineageNode]
    edges: Rows[LineageEdge]

    @property
    def start(self) -> LineageNode:
        """The node that was asked about."""
        return self.nodes[0]

    def to_frame(self) -> pd.DataFrame:
        """The edges as a pandas frame, with the names of both ends."""
        known = {node.id: node for node in self.nodes}
        named = [
            NamedEdge(
                child=known[edge.child].name,
                parent=known[edge.parent].name,
                child_kind=known[edge.child].kind,
                parent_kind=known[edge.parent].kind,
                child_id=edge.child,
                parent_id=edge.parent,
                via=edge.via,
            )
            for edge in self.edges
            if edge.child in known and edge.parent in known
        ]
        return Rows(named, NamedEdge).to_frame()


def joined(graphs: Iterable[Lineage | LineageGraph]) -> Lineage:
    """Several graphs of one start as one."""
    nodes: dict[str, LineageNode] = {}
    edges: dict[tuple[str, str, str | None], LineageEdge] = {}
    for graph in graphs:
        nodes |= {node.id: node for node in graph.nodes if node.id not in nodes}
        edges |= {(edge.child, edge.parent, edge.via): edge for edge in graph.edges}
    return Lineage(tuple(nodes.values()), tuple(edges.values()))
