"""What questions to the catalog are answered with: plain values, none of which knows the database.

They are lighter than `provender.catalog.records`: a list of a hundred thousand versions must not
carry a hundred thousand feature documents. Every ``id`` is 32 hex digits, every time an aware UTC
datetime, every size a number of bytes.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal

from provender.catalog.records import full_name

Document = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class DatasetSummary:
    """A dataset (with config) that has versions.

    Attributes:
        published: number of published versions; ``trial`` and ``retracted`` likewise.
        latest: number of the version that alias ``latest`` points to, or None.
        latest_id: its id, or None.
        examples: its number of examples, 0 where there is none.
        bytes: the size of its shard files.
        updated: when the newest version of any status was registered, or None.
    """

    dataset: str
    config: str
    created: datetime
    published: int
    trial: int
    retracted: int
    latest: str | None
    latest_id: str | None
    examples: int
    bytes: int
    updated: datetime | None

    @property
    def name(self) -> str:
        """``dataset[/config]``, as people write it."""
        return full_name(self.dataset, self.config)


@dataclass(frozen=True, slots=True)
class SplitSummary:
    """One split's counts; ``bytes`` counts its shard files."""

    name: str
    examples: int
    bytes: int
    shards: int


@dataclass(frozen=True, slots=True)
class VersionSummary:
    """A version as lists show it.

    Attributes:
        status: ``published``, ``trial``, ``retracted`` or ``replaced``.
        successor_id: the version to use instead, once retracted or replaced.
    """

    id: str
    dataset: str
    config: str
    version: str
    status: str
    splits: tuple[SplitSummary, ...]
    aliases: tuple[str, ...]
    tags: tuple[str, ...]
    fingerprint: str
    uri: str
    run_id: str | None
    created: datetime
    retracted: datetime | None
    retracted_by: str | None
    retract_reason: str | None
    successor_id: str | None

    @property
    def name(self) -> str:
        """``dataset[/config]:version``, as people write it."""
        return f"{full_name(self.dataset, self.config)}:{self.version}"

    @property
    def examples(self) -> int:
        """Number of examples over all splits."""
        return sum(split.examples for split in self.splits)

    @property
    def bytes(self) -> int:
        """Size of all shard files."""
        return sum(split.bytes for split in self.splits)


@dataclass(frozen=True, slots=True)
class TagRecord:
    """A tag on a version; unlike an alias it may be on many versions at once."""

    tag: str
    version_id: str
    name: str
    status: str
    set_at: datetime
    set_by: str


@dataclass(frozen=True, slots=True)
class Match:
    """Where a search found its words.

    Attributes:
        field: ``name``, ``alias``, ``tag``, ``feature``, ``split``, ``licence``, ``job``, ``url``
            or ``description``.
        text: the words' surroundings, at most some 200 characters.
        version_id: the newest version that says so, or None where it is true of the dataset.
        version: its number, or None.
    """

    field: str
    text: str
    version_id: str | None
    version: str | None


@dataclass(frozen=True, slots=True)
class SearchHit:
    """A dataset that a search found, best first.

    Attributes:
        version_id: the version to look at: the newest one that the best match speaks of, else
            the one that ``latest`` points to, else the newest; None where there is none.
        version: its number, or None.
        status: its status, or None.
        score: higher is better; only comparable within one search.
        matches: where the words were found, best first.
    """

    dataset: str
    config: str
    version_id: str | None
    version: str | None
    status: str | None
    score: float
    matches: tuple[Match, ...]

    @property
    def name(self) -> str:
        """``dataset[/config][:version]``, as people write it."""
        name = full_name(self.dataset, self.config)
        return f"{name}:{self.version}" if self.version else name


@dataclass(frozen=True, slots=True)
class Reading:
    """One job reading one version, with what became of that version.

    Attributes:
        name: the version, ``dataset[/config]:version``.
        status: its status today.
        facts: what the job left: model, checkpoint, orchestrator ids ...
    """

    id: str
    job: str
    version_id: str
    name: str
    status: str
    retract_reason: str | None
    fingerprint: str
    splits: tuple[str, ...]
    host: str
    user: str
    facts: Document
    started: datetime


@dataclass(frozen=True, slots=True)
class Consumer:
    """Something that depends on a version: a job that read it, or a version made from it.

    Attributes:
        kind: ``job``, ``version`` (of another dataset, made from it) or ``stage`` (a transform).
        name: the job's name, or the version's or stage's.
        id: of the version or stage; empty for a job.
        through: name of the version that it read or was made from: the one asked for, or one
            that was itself made from that.
        through_id: its id.
        reads: how often the job read it; 0 for a version or stage.
        splits: the splits that it read, over all reads.
        users: who ran it.
        hosts: where it ran.
        first: when it first read, or was made.
        last: when it last did.
    """

    kind: Literal["job", "version", "stage"]
    name: str
    id: str
    through: str
    through_id: str
    reads: int
    splits: tuple[str, ...]
    users: tuple[str, ...]
    hosts: tuple[str, ...]
    first: datetime | None
    last: datetime | None


@dataclass(frozen=True, slots=True)
class AsOf:
    """What a reference meant at a point in time.

    Attributes:
        ref: the reference, as it was asked for.
        at: the time asked for.
        version: the version it meant.
        status: the status that version had then; ``version.status`` is today's.
        how: ``alias``, ``number`` or ``newest``: what decided.
        alias: the alias that decided, or None.
        since: since when it had meant that version.
        until: when it ceased to, or None where it still means it.
        set_by: who had moved the alias there; empty where no alias decided.
    """

    ref: str
    at: datetime
    version: VersionSummary
    status: str
    how: Literal["alias", "number", "newest"]
    alias: str | None
    since: datetime
    until: datetime | None
    set_by: str
