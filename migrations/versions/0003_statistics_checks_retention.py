"""Results of checks, when a version's files were removed, and the view of statistics."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"
branch_labels = None
depends_on = None

TEXT = sa.Text()
TIME = sa.DateTime(timezone=True)
FLOAT = sa.Float()
# SQLite numbers rows by itself only for a column declared exactly INTEGER PRIMARY KEY.
SEQUENCE = sa.BigInteger().with_variant(sa.Integer(), "sqlite")

# What the two databases spell differently.
SQLITE = {
    "each": "json_each(p.statistics, '$.features') f",
    "text": "json_extract(f.value, '$.{0}')",
    "inner": "json_extract(f.value, '$.{0}.{1}')",
}
POSTGRESQL = {
    "each": "json_each(p.statistics -> 'features') f",
    "text": "f.value ->> '{0}'",
    "inner": "f.value #>> '{{{0},{1}}}'",
}


def upgrade() -> None:
    """Creates the table, the column and the view."""
    op.create_table(
        "check_result",
        sa.Column("seq", SEQUENCE, autoincrement=True, nullable=False),
        sa.Column("run_id", TEXT, nullable=False),
        sa.Column("dataset", TEXT, nullable=False),
        sa.Column("config", TEXT, nullable=False),
        sa.Column("version", TEXT, nullable=False),
        sa.Column("name", TEXT, nullable=False),
        sa.Column("scope", TEXT, nullable=False),
        sa.Column("state", TEXT, nullable=False),
        sa.Column("measured", FLOAT, nullable=True),
        sa.Column("bound", FLOAT, nullable=True),
        sa.Column("message", TEXT, nullable=False),
        sa.Column("allowed_by", TEXT, nullable=True),
        sa.Column("allow_reason", TEXT, nullable=True),
        sa.Column("at", TIME, nullable=False),
        sa.PrimaryKeyConstraint("seq", name="pk_check_result"),
    )
    op.create_index("ix_check_result_run_id", "check_result", ["run_id"])
    op.create_index("ix_check_result_dataset_config", "check_result", ["dataset", "config"])
    op.add_column("version", sa.Column("removed_at", TIME, nullable=True))
    op.get_bind().exec_driver_sql(_statistics())


def downgrade() -> None:
    """Drops them."""
    op.execute("DROP VIEW v_statistics")
    views = _views_of_version()
    for name in views:
        op.execute(f"DROP VIEW {name}")
    with op.batch_alter_table("version") as table:
        table.drop_column("removed_at")
    for text in views.values():
        op.get_bind().exec_driver_sql(text)
    op.drop_index("ix_check_result_dataset_config", "check_result")
    op.drop_index("ix_check_result_run_id", "check_result")
    op.drop_table("check_result")


def _views_of_version() -> dict[str, str]:
    """The views that SQLite cannot keep while the table they read is rebuilt, newest first."""
    if op.get_bind().dialect.name != "sqlite":
        return {}
    query = "SELECT name, sql FROM sqlite_master WHERE type = 'view' ORDER BY rowid DESC"
    return {row.name: row.sql for row in op.get_bind().exec_driver_sql(query)}


def _statistics() -> str:
    words = SQLITE if op.get_bind().dialect.name == "sqlite" else POSTGRESQL

    def whole(name: str) -> str:
        return f"CAST({words['text'].format(name)} AS bigint)"

    def number(group: str, name: str) -> str:
        return f"CAST({words['inner'].format(group, name)} AS double precision)"

    distinct = words["inner"].format("distinct", "count")
    return f"""
CREATE VIEW v_statistics AS
SELECT d.name AS dataset, d.config, v.version, v.status, p.split, f.key AS feature,
       {words["text"].format("kind")} AS kind, {whole("examples")} AS examples,
       {whole("missing")} AS missing, {whole("empty")} AS empty,
       CAST({distinct} AS bigint) AS distinct_values,
       {number("numbers", "min")} AS minimum, {number("numbers", "max")} AS maximum,
       {number("numbers", "mean")} AS mean, {number("numbers", "std")} AS std,
       {number("bytes", "mean")} AS mean_bytes, {number("length", "mean")} AS mean_length,
       v.id AS version_id
  FROM split_stat p
  JOIN version v ON v.id = p.version_id
  JOIN dataset d ON d.id = v.dataset_id
  CROSS JOIN {words["each"]}
"""  # noqa: S608 - made of this module's own texts
