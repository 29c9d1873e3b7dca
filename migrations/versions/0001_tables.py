"""The tables of the catalog.

A migration is a record of what was done: it keeps its own copy of the schema and imports
nothing from the package, whose tables move on.
"""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None

TEXT = sa.Text()
JSON = sa.JSON()
INT = sa.Integer()
BIG = sa.BigInteger()
TIME = sa.DateTime(timezone=True)
# SQLite numbers rows by itself only for a column declared exactly INTEGER PRIMARY KEY.
SEQUENCE = sa.BigInteger().with_variant(sa.Integer(), "sqlite")


def upgrade() -> None:
    """Creates all tables."""
    _create_work()
    _create_versions()
    _create_names()


def downgrade() -> None:
    """Drops all tables, those that refer to others first."""
    for table in (
        "consumption",
        "lease",
        "alias_history",
        "alias",
        "shard",
        "split_stat",
        "version",
        "dataset",
        "download",
        "lineage",
        "fingerprint",
        "run_hit",
        "stage_output",
        "artifact",
        "stage_execution",
        "run",
    ):
        op.drop_table(table)


def _where(condition: str) -> dict[str, Any]:
    return {"sqlite_where": sa.text(condition), "postgresql_where": sa.text(condition)}


def _create_work() -> None:
    """Runs, stage executions and what they left behind."""
    op.create_table(
        "run",
        sa.Column("seq", SEQUENCE, autoincrement=True, nullable=False),
        sa.Column("id", TEXT, nullable=False),
        sa.Column("kind", TEXT, nullable=False),
        sa.Column("dataset", TEXT, nullable=False),
        sa.Column("config", TEXT, nullable=False),
        sa.Column("version", TEXT, nullable=True),
        sa.Column("params", JSON, nullable=False),
        sa.Column("orchestrator", JSON, nullable=True),
        sa.Column("host", TEXT, nullable=False),
        sa.Column("pid", BIG, nullable=False),
        sa.Column("process_start", TEXT, nullable=False),
        sa.Column("user_name", TEXT, nullable=False),
        sa.Column("outcome", TEXT, nullable=False),
        sa.Column("summary", JSON, nullable=False),
        sa.Column("reused_version_id", TEXT, nullable=True),
        sa.Column("started_at", TIME, nullable=False),
        sa.Column("finished_at", TIME, nullable=True),
        sa.PrimaryKeyConstraint("seq", name="pk_run"),
        sa.UniqueConstraint("id", name="uq_run_id"),
    )
    op.create_index("ix_run_dataset_config_seq", "run", ["dataset", "config", "seq"])
    op.create_index("ix_run_running", "run", ["host"], **_where("outcome = 'running'"))
    op.create_table(
        "stage_execution",
        sa.Column("seq", SEQUENCE, autoincrement=True, nullable=False),
        sa.Column("id", TEXT, nullable=False),
        sa.Column("run_id", TEXT, nullable=True),
        sa.Column("dataset", TEXT, nullable=False),
        sa.Column("config", TEXT, nullable=False),
        sa.Column("key", TEXT, nullable=False),
        sa.Column("stage", TEXT, nullable=False),
        sa.Column("fingerprint", TEXT, nullable=False),
        sa.Column("state", TEXT, nullable=False),
        sa.Column("reason", JSON, nullable=False),
        sa.Column("result", JSON, nullable=False),
        sa.Column("attempts", INT, nullable=False),
        sa.Column("host", TEXT, nullable=False),
        sa.Column("pid", BIG, nullable=False),
        sa.Column("process_start", TEXT, nullable=False),
        sa.Column("error", JSON, nullable=True),
        sa.Column("started_at", TIME, nullable=False),
        sa.Column("finished_at", TIME, nullable=True),
        sa.PrimaryKeyConstraint("seq", name="pk_stage_execution"),
        sa.UniqueConstraint("id", name="uq_stage_execution_id"),
    )
    op.create_index(
        "ix_stage_execution_fingerprint", "stage_execution", ["fingerprint", "state", "seq"]
    )
    op.create_index(
        "ix_stage_execution_key", "stage_execution", ["dataset", "config", "key", "state", "seq"]
    )
    op.create_index("ix_stage_execution_run_id", "stage_execution", ["run_id"])
    op.create_index(
        "ix_stage_execution_running", "stage_execution", ["host"], **_where("state = 'running'")
    )
    op.create_table(
        "artifact",
        sa.Column("digest", TEXT, nullable=False),
        sa.Column("size", BIG, nullable=False),
        sa.Column("first_seen_at", TIME, nullable=False),
        sa.PrimaryKeyConstraint("digest", name="pk_artifact"),
    )
    op.create_table(
        "stage_output",
        sa.Column("stage_id", TEXT, nullable=False),
        sa.Column("name", TEXT, nullable=False),
        sa.Column("position", INT, nullable=False),
        sa.Column("digest", TEXT, nullable=False),
        sa.Column("uri", TEXT, nullable=False),
        sa.Column("token", TEXT, nullable=False),
        sa.Column("kind", TEXT, nullable=False),
        sa.Column("facts", JSON, nullable=False),
        sa.ForeignKeyConstraint(
            ["digest"], ["artifact.digest"], name="fk_stage_output_digest_artifact"
        ),
        sa.ForeignKeyConstraint(
            ["stage_id"], ["stage_execution.id"], name="fk_stage_output_stage_id_stage_execution"
        ),
        sa.PrimaryKeyConstraint("stage_id", "name", name="pk_stage_output"),
    )
    op.create_index("ix_stage_output_digest", "stage_output", ["digest"])
    op.create_table(
        "run_hit",
        sa.Column("run_id", TEXT, nullable=False),
        sa.Column("stage_id", TEXT, nullable=False),
        sa.Column("at", TIME, nullable=False),
        sa.ForeignKeyConstraint(["run_id"], ["run.id"], name="fk_run_hit_run_id_run"),
        sa.ForeignKeyConstraint(
            ["stage_id"], ["stage_execution.id"], name="fk_run_hit_stage_id_stage_execution"
        ),
        sa.PrimaryKeyConstraint("run_id", "stage_id", name="pk_run_hit"),
        sqlite_with_rowid=False,
    )
    op.create_table(
        "fingerprint",
        sa.Column("fingerprint", TEXT, nullable=False),
        sa.Column("name", TEXT, nullable=False),
        sa.Column("tree", JSON, nullable=False),
        sa.Column("recorded_at", TIME, nullable=False),
        sa.PrimaryKeyConstraint("fingerprint", name="pk_fingerprint"),
    )
    op.create_table(
        "lineage",
        sa.Column("child_id", TEXT, nullable=False),
        sa.Column("parent_id", TEXT, nullable=False),
        sa.Column("via", TEXT, nullable=False),
        sa.Column("child_kind", TEXT, nullable=False),
        sa.Column("parent_kind", TEXT, nullable=False),
        sa.PrimaryKeyConstraint("child_id", "parent_id", "via", name="pk_lineage"),
        sqlite_with_rowid=False,
    )
    op.create_index("ix_lineage_parent_id_child_id", "lineage", ["parent_id", "child_id"])
    op.create_index("ix_lineage_via_child_id", "lineage", ["via", "child_id"])
    op.create_table(
        "download",
        sa.Column("url", TEXT, nullable=False),
        sa.Column("sha256", TEXT, nullable=False),
        sa.Column("size", BIG, nullable=False),
        sa.Column("filename", TEXT, nullable=False),
        sa.Column("identity", TEXT, nullable=False),
        sa.Column("facts", JSON, nullable=False),
        sa.Column("fetched_at", TIME, nullable=False),
        sa.PrimaryKeyConstraint("url", name="pk_download"),
    )
    op.create_index("ix_download_sha256", "download", ["sha256"])


def _create_versions() -> None:
    """Datasets, versions and their parts."""
    op.create_table(
        "dataset",
        sa.Column("id", TEXT, nullable=False),
        sa.Column("name", TEXT, nullable=False),
        sa.Column("config", TEXT, nullable=False),
        sa.Column("created_at", TIME, nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_dataset"),
        sa.UniqueConstraint("name", "config", name="uq_dataset_name_config"),
    )
    op.create_table(
        "version",
        sa.Column("id", TEXT, nullable=False),
        sa.Column("dataset_id", TEXT, nullable=False),
        sa.Column("version", TEXT, nullable=False),
        sa.Column("fingerprint", TEXT, nullable=False),
        sa.Column("status", TEXT, nullable=False),
        sa.Column("path", TEXT, nullable=False),
        sa.Column("uri", TEXT, nullable=False),
        sa.Column("features", JSON, nullable=False),
        sa.Column("info", JSON, nullable=False),
        sa.Column("run_id", TEXT, nullable=True),
        sa.Column("created_at", TIME, nullable=False),
        sa.Column("retracted_at", TIME, nullable=True),
        sa.Column("retracted_by", TEXT, nullable=True),
        sa.Column("retract_reason", TEXT, nullable=True),
        sa.Column("successor_id", TEXT, nullable=True),
        sa.ForeignKeyConstraint(
            ["dataset_id"], ["dataset.id"], name="fk_version_dataset_id_dataset"
        ),
        sa.ForeignKeyConstraint(
            ["successor_id"], ["version.id"], name="fk_version_successor_id_version"
        ),
        sa.PrimaryKeyConstraint("id", name="pk_version"),
        sa.UniqueConstraint("fingerprint", name="uq_version_fingerprint"),
    )
    op.create_index("ix_version_created_at", "version", ["created_at"])
    op.create_index("ix_version_dataset_id_created_at", "version", ["dataset_id", "created_at"])
    op.create_index(
        "uq_version_published",
        "version",
        ["dataset_id", "version"],
        unique=True,
        **_where("status = 'published'"),
    )
    op.create_index(
        "uq_version_trial",
        "version",
        ["dataset_id", "version"],
        unique=True,
        **_where("status = 'trial'"),
    )
    op.create_table(
        "split_stat",
        sa.Column("version_id", TEXT, nullable=False),
        sa.Column("split", TEXT, nullable=False),
        sa.Column("position", INT, nullable=False),
        sa.Column("examples", BIG, nullable=False),
        sa.Column("bytes", BIG, nullable=False),
        sa.Column("shards", INT, nullable=False),
        sa.Column("statistics", JSON, nullable=False),
        sa.ForeignKeyConstraint(
            ["version_id"], ["version.id"], name="fk_split_stat_version_id_version"
        ),
        sa.PrimaryKeyConstraint("version_id", "split", name="pk_split_stat"),
    )
    op.create_table(
        "shard",
        sa.Column("version_id", TEXT, nullable=False),
        sa.Column("split", TEXT, nullable=False),
        sa.Column("shard_index", INT, autoincrement=False, nullable=False),
        sa.Column("shard_count", INT, nullable=False),
        sa.Column("name", TEXT, nullable=False),
        sa.Column("size", BIG, nullable=False),
        sa.Column("sha256", TEXT, nullable=False),
        sa.Column("crc32c", TEXT, nullable=False),
        sa.Column("examples", BIG, nullable=False),
        sa.Column("token", TEXT, nullable=False),
        sa.Column("stage_id", TEXT, nullable=True),
        sa.ForeignKeyConstraint(["version_id"], ["version.id"], name="fk_shard_version_id_version"),
        sa.PrimaryKeyConstraint("version_id", "split", "shard_index", name="pk_shard"),
    )


def _create_names() -> None:
    """Aliases, claims and readers."""
    op.create_table(
        "alias",
        sa.Column("dataset_id", TEXT, nullable=False),
        sa.Column("name", TEXT, nullable=False),
        sa.Column("version_id", TEXT, nullable=False),
        sa.Column("set_at", TIME, nullable=False),
        sa.Column("set_by", TEXT, nullable=False),
        sa.ForeignKeyConstraint(["dataset_id"], ["dataset.id"], name="fk_alias_dataset_id_dataset"),
        sa.ForeignKeyConstraint(["version_id"], ["version.id"], name="fk_alias_version_id_version"),
        sa.PrimaryKeyConstraint("dataset_id", "name", name="pk_alias"),
    )
    op.create_index("ix_alias_version_id", "alias", ["version_id"])
    op.create_table(
        "alias_history",
        sa.Column("seq", SEQUENCE, autoincrement=True, nullable=False),
        sa.Column("dataset_id", TEXT, nullable=False),
        sa.Column("name", TEXT, nullable=False),
        sa.Column("version_id", TEXT, nullable=True),
        sa.Column("at", TIME, nullable=False),
        sa.Column("by", TEXT, nullable=False),
        sa.Column("run_id", TEXT, nullable=True),
        sa.ForeignKeyConstraint(
            ["dataset_id"], ["dataset.id"], name="fk_alias_history_dataset_id_dataset"
        ),
        sa.ForeignKeyConstraint(
            ["version_id"], ["version.id"], name="fk_alias_history_version_id_version"
        ),
        sa.PrimaryKeyConstraint("seq", name="pk_alias_history"),
    )
    op.create_index("ix_alias_history_dataset_id", "alias_history", ["dataset_id"])
    op.create_table(
        "lease",
        sa.Column("key", TEXT, nullable=False),
        sa.Column("host", TEXT, nullable=False),
        sa.Column("pid", BIG, nullable=False),
        sa.Column("process_start", TEXT, nullable=False),
        sa.Column("note", TEXT, nullable=False),
        sa.Column("acquired_at", TIME, nullable=False),
        sa.Column("heartbeat_at", TIME, nullable=False),
        sa.Column("expires_at", TIME, nullable=False),
        sa.PrimaryKeyConstraint("key", name="pk_lease"),
    )
    op.create_table(
        "consumption",
        sa.Column("seq", SEQUENCE, autoincrement=True, nullable=False),
        sa.Column("id", TEXT, nullable=False),
        sa.Column("version_id", TEXT, nullable=False),
        sa.Column("job", TEXT, nullable=False),
        sa.Column("splits", JSON, nullable=False),
        sa.Column("host", TEXT, nullable=False),
        sa.Column("user_name", TEXT, nullable=False),
        sa.Column("facts", JSON, nullable=False),
        sa.Column("started_at", TIME, nullable=False),
        sa.ForeignKeyConstraint(
            ["version_id"], ["version.id"], name="fk_consumption_version_id_version"
        ),
        sa.PrimaryKeyConstraint("seq", name="pk_consumption"),
        sa.UniqueConstraint("id", name="uq_consumption_id"),
    )
    op.create_index("ix_consumption_job", "consumption", ["job"])
    op.create_index("ix_consumption_version_id", "consumption", ["version_id"])
