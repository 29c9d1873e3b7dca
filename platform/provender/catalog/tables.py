"""The tables, as SQLAlchemy Core sees them. ``migrations/`` creates exactly these.

Lineage is one edge table for all kinds of nodes, so that ancestors are one recursive query over
one index. An edge names the execution that made the input as it was known when the child was
recorded: the lineage of an old version does not change when the same bytes are made again.
"""

from __future__ import annotations

from sqlalchemy import (
    JSON,
    BigInteger,
    Column,
    Float,
    ForeignKey,
    Index,
    Integer,
    MetaData,
    Table,
    Text,
    UniqueConstraint,
    text,
)

from provender.catalog.columns import Sequence, UtcTime

# Constraints need names that are the same everywhere, or a later migration cannot drop them.
metadata = MetaData(
    naming_convention={
        "ix": "ix_%(table_name)s_%(column_0_N_name)s",
        "uq": "uq_%(table_name)s_%(column_0_N_name)s",
        "fk": "fk_%(table_name)s_%(column_0_N_name)s_%(referred_table_name)s",
        "pk": "pk_%(table_name)s",
    }
)

dataset = Table(
    "dataset",
    metadata,
    Column("id", Text, primary_key=True),
    Column("name", Text, nullable=False),
    Column("config", Text, nullable=False),
    Column("created_at", UtcTime, nullable=False),
    UniqueConstraint("name", "config"),
)

run = Table(
    "run",
    metadata,
    Column("seq", Sequence, primary_key=True, autoincrement=True),
    Column("id", Text, nullable=False, unique=True),
    Column("kind", Text, nullable=False),
    Column("dataset", Text, nullable=False),
    Column("config", Text, nullable=False),
    Column("version", Text),
    Column("params", JSON, nullable=False),
    Column("orchestrator", JSON(none_as_null=True)),
    Column("host", Text, nullable=False),
    Column("pid", BigInteger, nullable=False),
    Column("process_start", Text, nullable=False),
    Column("user_name", Text, nullable=False),
    Column("outcome", Text, nullable=False),
    Column("summary", JSON, nullable=False),
    Column("reused_version_id", Text),
    Column("started_at", UtcTime, nullable=False),
    Column("finished_at", UtcTime),
    Index("ix_run_dataset_config_seq", "dataset", "config", "seq"),
    Index(
        "ix_run_running",
        "host",
        sqlite_where=text("outcome = 'running'"),
    ),
)

version = Table(
    "version",
    metadata,
    Column("id", Text, primary_key=True),
    Column("dataset_id", Text, ForeignKey("dataset.id"), nullable=False),
    Column("version", Text, nullable=False),
    Column("fingerprint", Text, nullable=False, unique=True),
    Column("status", Text, nullable=False),
    Column("path", Text, nullable=False),
    Column("uri", Text, nullable=False),
    Column("features", JSON, nullable=False),
    Column("info", JSON, nullable=False),
    Column("run_id", Text),
    Column("created_at", UtcTime, nullable=False, index=True),
    Column("retracted_at", UtcTime),
    Column("retracted_by", Text),
    Column("retract_reason", Text),
    Column("successor_id", Text, ForeignKey("version.id")),
    Column("removed_at", UtcTime),
    Index("ix_version_dataset_id_created_at", "dataset_id", "created_at"),
    Index("ix_version_dataset_id_status", "dataset_id", "status"),
    Index("ix_version_run_id", "run_id"),
    Index(
        "uq_version_published",
        "dataset_id",
        "version",
        unique=True,
        sqlite_where=text("status = 'published'"),
    ),
    Index(
        "uq_version_trial",
        "dataset_id",
        "version",
        unique=True,
        sqlite_where=text("status = 'trial'"),
    ),
)

split_stat = Table(
    "split_stat",
    metadata,
    Column("version_id", Text, ForeignKey("version.id"), primary_key=True),
    Column("split", Text, primary_key=True),
    Column("position", Integer, nullable=False),
    Column("examples", BigInteger, nullable=False),
    Column("bytes", BigInteger, nullable=False),
    Column("shards", Integer, nullable=False),
    Column("statistics", JSON, nullable=False),
)

shard = Table(
    "shard",
    metadata,
    Column("version_id", Text, ForeignKey("version.id"), primary_key=True),
    Column("split", Text, primary_key=True),
    Column("shard_index", Integer, primary_key=True, autoincrement=False),
    Column("shard_count", Integer, nullable=False),
    Column("name", Text, nullable=False),
    Column("size", BigInteger, nullable=False),
    Column("sha256", Text, nullable=False),
    Column("crc32c", Text, nullable=False),
    Column("examples", BigInteger, nullable=False),
    Column("token", Text, nullable=False),
    Column("stage_id", Text),
)

alias = Table(
    "alias",
    metadata,
    Column("dataset_id", Text, ForeignKey("dataset.id"), primary_key=True),
    Column("name", Text, primary_key=True),
    Column("version_id", Text, ForeignKey("version.id"), nullable=False, index=True),
    Column("set_at", UtcTime, nullable=False),
    Column("set_by", Text, nullable=False),
)

alias_history = Table(
    "alias_history",
    metadata,
    Column("seq", Sequence, primary_key=True, autoincrement=True),
    Column("dataset_id", Text, ForeignKey("dataset.id"), nullable=False, index=True),
    Column("name", Text, nullable=False),
    Column("version_id", Text, ForeignKey("version.id")),
    Column("at", UtcTime, nullable=False),
    Column("by", Text, nullable=False),
    Column("run_id", Text),
    Index("ix_alias_history_dataset_id_name", "dataset_id", "name", "seq"),
)

tag = Table(
    "tag",
    metadata,
    Column("version_id", Text, ForeignKey("version.id"), primary_key=True),
    Column("name", Text, primary_key=True),
    Column("set_at", UtcTime, nullable=False),
    Column("set_by", Text, nullable=False),
    Index("ix_tag_name", "name"),
)

# One row a distinct text of a dataset. The databases' full-text index `search_index` stands over
# `words`; its form differs from one to the other, so only the migration knows it.
search_part = Table(
    "search_part",
    metadata,
    Column("seq", Sequence, primary_key=True, autoincrement=True),
    Column("dataset_id", Text, nullable=False),
    Column("field", Text, nullable=False),
    Column("digest", Text, nullable=False),
    Column("text", Text, nullable=False),
    Column("words", Text, nullable=False),
    Column("version_id", Text),
    Column("noted_at", UtcTime, nullable=False),
    UniqueConstraint("dataset_id", "field", "digest"),
)

stage_execution = Table(
    "stage_execution",
    metadata,
    # The database's own order, not a clock: hosts disagree about the time, and the newest
    # execution of a fingerprint must be the one recorded last.
    Column("seq", Sequence, primary_key=True, autoincrement=True),
    Column("id", Text, nullable=False, unique=True),
    Column("run_id", Text, index=True),
    Column("dataset", Text, nullable=False),
    Column("config", Text, nullable=False),
    Column("key", Text, nullable=False),
    Column("stage", Text, nullable=False),
    Column("fingerprint", Text, nullable=False),
    Column("state", Text, nullable=False),
    Column("reason", JSON, nullable=False),
    Column("result", JSON, nullable=False),
    Column("attempts", Integer, nullable=False),
    Column("host", Text, nullable=False),
    Column("pid", BigInteger, nullable=False),
    Column("process_start", Text, nullable=False),
    Column("error", JSON(none_as_null=True)),
    Column("started_at", UtcTime, nullable=False),
    Column("finished_at", UtcTime),
    Index("ix_stage_execution_fingerprint", "fingerprint", "state", "seq"),
    Index("ix_stage_execution_key", "dataset", "config", "key", "state", "seq"),
    Index(
        "ix_stage_execution_running",
        "host",
        sqlite_where=text("state = 'running'"),
    ),
)

artifact = Table(
    "artifact",
    metadata,
    Column("digest", Text, primary_key=True),
    Column("size", BigInteger, nullable=False),
    Column("first_seen_at", UtcTime, nullable=False),
)

stage_output = Table(
    "stage_output",
    metadata,
    Column("stage_id", Text, ForeignKey("stage_execution.id"), primary_key=True),
    Column("name", Text, primary_key=True),
    Column("position", Integer, nullable=False),
    Column("digest", Text, ForeignKey("artifact.digest"), nullable=False, index=True),
    Column("uri", Text, nullable=False),
    Column("token", Text, nullable=False),
    Column("kind", Text, nullable=False),
    Column("facts", JSON, nullable=False),
)

lineage = Table(
    "lineage",
    metadata,
    Column("child_id", Text, primary_key=True),
    Column("parent_id", Text, primary_key=True),
    # Empty where no artifact was handed over: a key column cannot be NULL.
    Column("via", Text, primary_key=True),
    Column("child_kind", Text, nullable=False),
    Column("parent_kind", Text, nullable=False),
    Index("ix_lineage_parent_id_child_id", "parent_id", "child_id"),
    Index("ix_lineage_via_child_id", "via", "child_id"),
    sqlite_with_rowid=False,
)

run_hit = Table(
    "run_hit",
    metadata,
    Column("run_id", Text, ForeignKey("run.id"), primary_key=True),
    Column("stage_id", Text, ForeignKey("stage_execution.id"), primary_key=True),
    Column("at", UtcTime, nullable=False),
    sqlite_with_rowid=False,
)

fingerprint = Table(
    "fingerprint",
    metadata,
    Column("fingerprint", Text, primary_key=True),
    Column("name", Text, nullable=False),
    Column("tree", JSON, nullable=False),
    Column("recorded_at", UtcTime, nullable=False),
)

lease = Table(
    "lease",
    metadata,
    Column("key", Text, primary_key=True),
    Column("host", Text, nullable=False),
    Column("pid", BigInteger, nullable=False),
    Column("process_start", Text, nullable=False),
    Column("note", Text, nullable=False),
    Column("acquired_at", UtcTime, nullable=False),
    Column("heartbeat_at", UtcTime, nullable=False),
    Column("expires_at", UtcTime, nullable=False),
)

check_result = Table(
    "check_result",
    metadata,
    Column("seq", Sequence, primary_key=True, autoincrement=True),
    Column("run_id", Text, nullable=False, index=True),
    Column("dataset", Text, nullable=False),
    Column("config", Text, nullable=False),
    Column("version", Text, nullable=False),
    Column("name", Text, nullable=False),
    Column("scope", Text, nullable=False),
    Column("state", Text, nullable=False),
    Column("measured", Float),
    Column("bound", Float),
    Column("message", Text, nullable=False),
    Column("allowed_by", Text),
    Column("allow_reason", Text),
    Column("at", UtcTime, nullable=False),
    Index("ix_check_result_dataset_config", "dataset", "config"),
)

consumption = Table(
    "consumption",
    metadata,
    Column("seq", Sequence, primary_key=True, autoincrement=True),
    Column("id", Text, nullable=False, unique=True),
    Column("version_id", Text, ForeignKey("version.id"), nullable=False, index=True),
    Column("job", Text, nullable=False, index=True),
    Column("splits", JSON, nullable=False),
    Column("host", Text, nullable=False),
    Column("user_name", Text, nullable=False),
    Column("facts", JSON, nullable=False),
    Column("started_at", UtcTime, nullable=False),
)

download = Table(
    "download",
    metadata,
    Column("url", Text, primary_key=True),
    Column("sha256", Text, nullable=False, index=True),
    Column("size", BigInteger, nullable=False),
    Column("filename", Text, nullable=False),
    Column("identity", Text, nullable=False),
    Column("facts", JSON, nullable=False),
    Column("fetched_at", UtcTime, nullable=False),
)


def is_described(name: str | None, *_: object) -> bool:
    """Whether something in the database is to be compared with the tables here.

    The full-text index is not: SQLite keeps it in tables of its own making, and neither database
    can tell SQLAlchemy what it stands over.
    """
    return not (name or "").startswith("search_index")


def described() -> MetaData:
    """The tables with their partial indexes told to PostgreSQL's dialect too.

    Naming an option of a dialect imports it, 0.1 s that only migrations have a use for.
    """
    for table in metadata.tables.values():
        for index in table.indexes:
            where = index.dialect_options["sqlite"].get("where")
            if where is not None:
                index.dialect_options["postgresql"]["where"] = where
    return metadata
