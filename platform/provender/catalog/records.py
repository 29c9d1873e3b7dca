"""What the catalog gives back: plain values, none of which knows the database.

Every ``id`` is 32 hex digits, every time an aware UTC datetime, every size a number of bytes.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING, Any

from provender.catalog.processes import Owner

if TYPE_CHECKING:
    import pandas as pd

Document = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class ArtifactRecord:
    """One output of a stage: content (``digest``, ``size``) and where a copy of it lies.

    Attributes:
        digest: content digest, hex; equal content has an equal digest wherever it lies.
        size: bytes.
        uri: where this copy is.
        token: the store's identity of this copy (mtime and inode, generation, etag).
        kind: what it is, e.g. ``file``, ``run``, ``shard``, ``plan``.
        name: unique among the outputs of one stage.
        facts: anything else worth keeping, JSON-ready.
    """

    digest: str
    size: int
    uri: str
    token: str = ""
    kind: str = "file"
    name: str = ""
    facts: Document = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class StageRecord:
    """One execution of one stage.

    Attributes:
        key: which stage, e.g. ``shards/train/00003``.
        state: ``running``, ``succeeded``, ``cached``, ``failed``, ``skipped`` or ``waiting``.
        reason: why it ran, one JSON document per cause.
        error: ``ProvenderError.to_json`` of what ended it, or None.
        process_start: start time of the process that ran it, see `Owner`.
    """

    id: str
    run_id: str | None
    dataset: str
    config: str
    key: str
    fingerprint: str
    state: str
    reason: tuple[Document, ...]
    result: Document
    outputs: tuple[ArtifactRecord, ...]
    started: datetime
    finished: datetime | None
    attempts: int
    host: str
    pid: int
    process_start: str
    error: Document | None

    @property
    def stage(self) -> str:
        """The kind of stage: the key up to its first slash."""
        return self.key.partition("/")[0]

    @property
    def seconds(self) -> float | None:
        """Wall time in seconds, None while it runs."""
        return (self.finished - self.started).total_seconds() if self.finished else None

    def output(self, name: str) -> ArtifactRecord | None:
        """The output of that name, or None."""
        return next((found for found in self.outputs if found.name == name), None)


@dataclass(frozen=True, slots=True)
class RunRecord:
    """One command, task or call that asked for something.

    Attributes:
        outcome: ``running`` until the run is finished.
        orchestrator: ids of the Airflow or Prefect run that asked, or None.
        reused_version_id: the version a no-op run found ready, or None.
    """

    id: str
    kind: str
    dataset: str
    config: str
    version: str | None
    params: Document
    orchestrator: Document | None
    host: str
    pid: int
    process_start: str
    user: str
    outcome: str
    summary: Document
    reused_version_id: str | None
    started: datetime
    finished: datetime | None

    @property
    def seconds(self) -> float | None:
        """Wall time in seconds, None while it runs."""
        return (self.finished - self.started).total_seconds() if self.finished else None


@dataclass(frozen=True, slots=True)
class SplitRecord:
    """One split of a version; ``bytes`` counts its shard files.

    ``statistics`` is written when a version is registered. Reading versions leaves it empty, for
    it is large: `Catalog.statistics` gives it.
    """

    name: str
    examples: int
    bytes: int
    shards: int
    statistics: Document = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class ShardRecord:
    """One shard file of a version.

    Attributes:
        index: position of the shard in its split, from 0.
        count: number of shards of the split.
        name: file name inside the version's folder.
        token: the store's identity of the published file.
        stage_id: the execution that wrote it; becomes a lineage edge.
    """

    split: str
    index: int
    count: int
    name: str
    size: int
    sha256: str
    crc32c: str
    examples: int
    token: str = ""
    stage_id: str | None = None


@dataclass(frozen=True, slots=True)
class VersionRecord:
    """One version of a dataset: what a number stands for.

    Attributes:
        status: ``published``, ``trial``, ``retracted`` or ``replaced`` (a trial that a later
            trial of the same number took the place of).
        path: the version's folder relative to the store's root.
        uri: the same, absolute.
        successor_id: the version to use instead, once retracted or replaced.
        removed: when its files were removed from the store, or None.
    """

    id: str
    dataset: str
    config: str
    version: str
    fingerprint: str
    status: str
    path: str
    uri: str
    splits: tuple[SplitRecord, ...]
    aliases: tuple[str, ...]
    features: Document
    info: Document
    run_id: str | None
    created: datetime
    retracted: datetime | None = None
    retracted_by: str | None = None
    retract_reason: str | None = None
    successor_id: str | None = None
    removed: datetime | None = None

    @property
    def examples(self) -> int:
        """Number of examples over all splits."""
        return sum(split.examples for split in self.splits)

    @property
    def bytes(self) -> int:
        """Size of all shard files, in bytes."""
        return sum(split.bytes for split in self.splits)

    @property
    def name(self) -> str:
        """``dataset[/config]:version``, as people write it."""
        return f"{full_name(self.dataset, self.config)}:{self.version}"


@dataclass(frozen=True, slots=True)
class DatasetRecord:
    """A dataset (with config) that has versions; counts are by status.

    Attributes:
        latest: number of the version that alias ``latest`` points to, or None.
    """

    dataset: str
    config: str
    created: datetime
    published: int
    trial: int
    retracted: int
    latest: str | None


@dataclass(frozen=True, slots=True)
class AliasRecord:
    """Where an alias points now."""

    name: str
    version_id: str
    version: str
    set_at: datetime
    set_by: str


@dataclass(frozen=True, slots=True)
class AliasChange:
    """One move of an alias; ``version`` is None where the alias was removed."""

    name: str
    version_id: str | None
    version: str | None
    at: datetime
    by: str
    run_id: str | None


@dataclass(frozen=True, slots=True)
class ClaimRecord:
    """Who holds a key, and until when."""

    key: str
    owner: Owner
    acquired: datetime
    heartbeat: datetime
    expires: datetime


@dataclass(frozen=True, slots=True)
class LeaseRecord:
    """A reader's promise that it still needs a version's files.

    Attributes:
        id: the lease, 32 hex digits.
        version_id: the version.
        purpose: what reads it, e.g. ``pull`` or ``training job-7``.
        owner: the process.
    """

    id: str
    version_id: str
    purpose: str
    owner: Owner
    acquired: datetime
    heartbeat: datetime
    expires: datetime


@dataclass(frozen=True, slots=True)
class CheckRecord:
    """What one check found when a build was about to publish.

    Attributes:
        version: number that was to be published.
        name: e.g. ``min_examples``, or the name of the project's function.
        scope: split, or split/feature; empty for the whole version.
        state: ``passed``, ``failed``, ``allowed`` (failed, and somebody said why that is right)
            or ``skipped`` (there was nothing to compare with; the message says what).
        measured: the number found, None where there is none.
        bound: the number asked for, None where there is none.
        allowed_by: who overrode it, None unless ``allowed``.
    """

    run_id: str
    dataset: str
    config: str
    version: str
    name: str
    scope: str
    state: str
    measured: float | None
    bound: float | None
    message: str
    allowed_by: str | None
    allow_reason: str | None
    at: datetime


@dataclass(frozen=True, slots=True)
class ConsumptionRecord:
    """One job reading one version."""

    id: str
    version_id: str
    name: str
    job: str
    splits: tuple[str, ...]
    host: str
    user: str
    facts: Document
    started: datetime


@dataclass(frozen=True, slots=True)
class DownloadRecord:
    """What a URL last gave.

    Attributes:
        identity: cheap identity of the upstream file (etag, last-modified, generation).
        filename: the name upstream gave it.
    """

    url: str
    sha256: str
    size: int
    filename: str
    identity: str
    facts: Document
    fetched: datetime


@dataclass(frozen=True, slots=True)
class LineageNode:
    """A version, a stage execution, or an artifact that came from outside.

    Attributes:
        kind: ``version``, ``stage`` or ``artifact``; ``missing`` where an edge names something of
            which nothing else is on record.
        name: ``xsum:1.0.0``, ``xsum:shards/train/00003``, or the artifact's digest.
        facts: ``fingerprint`` and ``status`` or ``state`` and ``run_id``.
    """

    id: str
    kind: str
    name: str
    facts: Document


@dataclass(frozen=True, slots=True)
class LineageEdge:
    """``child`` was made from ``parent``; ``via`` is the digest of what was handed over."""

    child: str
    parent: str
    via: str | None


@dataclass(frozen=True, slots=True)
class Lineage:
    """The part of the graph that was asked for.

    Attributes:
        nodes: the start first.
        edges: all between them that lead away from the start.
        whole: False where reading stopped before the depth that was asked for.
    """

    nodes: tuple[LineageNode, ...]
    edges: tuple[LineageEdge, ...]
    whole: bool = True


@dataclass(frozen=True, slots=True)
class SqlResult:
    """Rows of a read-only statement; ``truncated`` says that ``limit`` cut them off."""

    columns: tuple[str, ...]
    rows: tuple[tuple[Any, ...], ...]
    truncated: bool

    def to_frame(self) -> pd.DataFrame:
        """The rows as a pandas frame, types as the database gave them; loads pandas."""
        import pandas as pd

        return pd.DataFrame.from_records(list(self.rows), columns=list(self.columns))


def full_name(dataset: str, config: str | None) -> str:
    """``dataset`` or ``dataset/config``."""
    return f"{dataset}/{config}" if config else dataset
