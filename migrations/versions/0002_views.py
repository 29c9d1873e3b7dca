"""The documented views; ``provender.catalog.views`` says what their columns mean."""

from __future__ import annotations

from alembic import op

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None

# What the two databases spell differently.
SQLITE = {
    "aliases": "(SELECT group_concat(name, ',') FROM "
    "(SELECT a.name FROM alias a WHERE a.version_id = v.id ORDER BY a.name))",
    "seconds": "(julianday(s.finished_at) - julianday(s.started_at)) * 86400.0",
    "error": "json_extract(s.error, '$.message')",
    "splits": "c.splits",
    "facts": "c.facts",
}
POSTGRESQL = {
    "aliases": "(SELECT string_agg(a.name, ',' ORDER BY a.name) FROM alias a "
    "WHERE a.version_id = v.id)",
    "seconds": "CAST(EXTRACT(EPOCH FROM s.finished_at - s.started_at) AS double precision)",
    "error": "s.error ->> 'message'",
    "splits": "CAST(c.splits AS text)",
    "facts": "CAST(c.facts AS text)",
}

# "name" or "name/config", as people write it.
_DATASET = "{0}.name || CASE WHEN {0}.config = '' THEN '' ELSE '/' || {0}.config END"
_STAGE = (
    "{0}.dataset || CASE WHEN {0}.config = '' THEN '' ELSE '/' || {0}.config END || ':' || {0}.key"
)

COMMON = {
    "child_dataset": _DATASET.format("cd"),
    "child_stage": _STAGE.format("cs"),
    "parent_dataset": _DATASET.format("pd"),
    "parent_stage": _STAGE.format("ps"),
}

VERSIONS = """
CREATE VIEW v_versions AS
SELECT d.name AS dataset, d.config, v.version, v.status,
       {aliases} AS aliases,
       (SELECT count(*) FROM split_stat p WHERE p.version_id = v.id) AS splits,
       (SELECT CAST(coalesce(sum(p.examples), 0) AS bigint)
          FROM split_stat p WHERE p.version_id = v.id) AS examples,
       (SELECT CAST(coalesce(sum(p.bytes), 0) AS bigint)
          FROM split_stat p WHERE p.version_id = v.id) AS bytes,
       (SELECT CAST(coalesce(sum(p.shards), 0) AS bigint)
          FROM split_stat p WHERE p.version_id = v.id) AS shards,
       v.path, v.uri, v.fingerprint, v.created_at, v.retracted_at, v.retracted_by,
       v.retract_reason, v.successor_id, v.run_id, v.id AS version_id
  FROM version v
  JOIN dataset d ON d.id = v.dataset_id
"""

LINEAGE = """
CREATE VIEW v_lineage AS
SELECT l.child_kind, l.child_id,
       CASE l.child_kind WHEN 'version' THEN {child_dataset} || ':' || cv.version
                         ELSE {child_stage} END AS child_name,
       l.parent_kind, l.parent_id,
       CASE l.parent_kind WHEN 'version' THEN {parent_dataset} || ':' || pv.version
                          WHEN 'stage' THEN {parent_stage}
                          ELSE l.parent_id END AS parent_name,
       nullif(l.via, '') AS via
  FROM lineage l
  LEFT JOIN version cv ON cv.id = l.child_id
  LEFT JOIN dataset cd ON cd.id = cv.dataset_id
  LEFT JOIN stage_execution cs ON cs.id = l.child_id
  LEFT JOIN version pv ON pv.id = l.parent_id
  LEFT JOIN dataset pd ON pd.id = pv.dataset_id
  LEFT JOIN stage_execution ps ON ps.id = l.parent_id
"""

STAGE_RUNS = """
CREATE VIEW v_stage_runs AS
SELECT s.dataset, s.config, s.key, s.stage, s.state, {seconds} AS seconds, s.attempts,
       (SELECT count(*) FROM stage_output o WHERE o.stage_id = s.id) AS outputs,
       (SELECT CAST(coalesce(sum(a.size), 0) AS bigint) FROM stage_output o
          JOIN artifact a ON a.digest = o.digest WHERE o.stage_id = s.id) AS bytes,
       {error} AS error, s.host, s.pid, s.started_at, s.finished_at, s.fingerprint, s.run_id,
       s.id AS stage_id
  FROM stage_execution s
"""

CACHE_HITS = """
CREATE VIEW v_cache_hits AS
SELECT r.id AS run_id, r.kind AS run_kind, s.dataset, s.config, s.key,
       {seconds} AS seconds_saved, h.at AS hit_at, s.id AS stage_id, NULL AS version_id,
       s.run_id AS produced_by
  FROM run_hit h
  JOIN run r ON r.id = h.run_id
  JOIN stage_execution s ON s.id = h.stage_id
UNION ALL
SELECT r.id, r.kind, r.dataset, r.config, NULL, NULL, r.started_at, NULL, r.reused_version_id,
       v.run_id
  FROM run r
  LEFT JOIN version v ON v.id = r.reused_version_id
 WHERE r.reused_version_id IS NOT NULL
"""

CONSUMPTION = """
CREATE VIEW v_consumption AS
SELECT c.job, d.name AS dataset, d.config, v.version, v.status, {splits} AS splits, c.host,
       c.user_name, c.started_at, {facts} AS facts, v.id AS version_id, c.id AS consumption_id
  FROM consumption c
  JOIN version v ON v.id = c.version_id
  JOIN dataset d ON d.id = v.dataset_id
"""


def upgrade() -> None:
    """Creates the views."""
    words = SQLITE if op.get_bind().dialect.name == "sqlite" else POSTGRESQL
    for view in (VERSIONS, LINEAGE, STAGE_RUNS, CACHE_HITS, CONSUMPTION):
        op.get_bind().exec_driver_sql(view.format(**COMMON, **words))


def downgrade() -> None:
    """Drops the views."""
    for view in ("v_consumption", "v_cache_hits", "v_stage_runs", "v_lineage", "v_versions"):
        op.execute(f"DROP VIEW {view}")
