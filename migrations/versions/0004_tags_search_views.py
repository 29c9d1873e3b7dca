"""Tags, full-text search, and views that tell more.

The search index of versions that are there already is filled here, with this module's own copy of
how texts are cut into words: a migration imports nothing from the package, which moves on.
"""

from __future__ import annotations

import hashlib
import re
import unicodedata
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from typing import Any

import sqlalchemy as sa
from alembic import op

revision = "0004"
down_revision = "0003"
branch_labels = None
depends_on = None

TEXT = sa.Text()
TIME = sa.DateTime(timezone=True)
# SQLite numbers rows by itself only for a column declared exactly INTEGER PRIMARY KEY.
SEQUENCE = sa.BigInteger().with_variant(sa.Integer(), "sqlite")


def upgrade() -> None:
    """Creates the tables, the index and the views, and fills the index."""
    op.create_table(
        "tag",
        sa.Column("version_id", TEXT, nullable=False),
        sa.Column("name", TEXT, nullable=False),
        sa.Column("set_at", TIME, nullable=False),
        sa.Column("set_by", TEXT, nullable=False),
        sa.ForeignKeyConstraint(["version_id"], ["version.id"], name="fk_tag_version_id_version"),
        sa.PrimaryKeyConstraint("version_id", "name", name="pk_tag"),
    )
    op.create_index("ix_tag_name", "tag", ["name"])
    op.create_table(
        "search_part",
        sa.Column("seq", SEQUENCE, autoincrement=True, nullable=False),
        sa.Column("dataset_id", TEXT, nullable=False),
        sa.Column("field", TEXT, nullable=False),
        sa.Column("digest", TEXT, nullable=False),
        sa.Column("text", TEXT, nullable=False),
        sa.Column("words", TEXT, nullable=False),
        sa.Column("version_id", TEXT, nullable=True),
        sa.Column("noted_at", TIME, nullable=False),
        sa.PrimaryKeyConstraint("seq", name="pk_search_part"),
        sa.UniqueConstraint(
            "dataset_id", "field", "digest", name="uq_search_part_dataset_id_field_digest"
        ),
    )
    op.create_index("ix_version_dataset_id_status", "version", ["dataset_id", "status"])
    op.create_index("ix_version_run_id", "version", ["run_id"])
    op.create_index(
        "ix_alias_history_dataset_id_name", "alias_history", ["dataset_id", "name", "seq"]
    )
    # Filled before the index is made: both databases build it faster from what is there.
    _fill()
    for statement in INDEX[op.get_bind().dialect.name]:
        op.get_bind().exec_driver_sql(statement)
    _views(NEW, drop=("v_versions", "v_stage_runs"))


def downgrade() -> None:
    """Drops them, and puts the older views back."""
    _views(OLD, drop=tuple(NEW))
    if op.get_bind().dialect.name == "sqlite":
        for name in ("insert", "delete", "update"):
            op.execute(f"DROP TRIGGER search_part_{name}")
        op.execute("DROP TABLE search_index")
    else:
        op.execute("DROP INDEX search_index")
    op.drop_index("ix_alias_history_dataset_id_name", "alias_history")
    op.drop_index("ix_version_run_id", "version")
    op.drop_index("ix_version_dataset_id_status", "version")
    op.drop_table("search_part")
    op.drop_index("ix_tag_name", "tag")
    op.drop_table("tag")


INDEX = {
    "sqlite": (
        "CREATE VIRTUAL TABLE search_index USING fts5(words, content='search_part', "
        "content_rowid='seq', tokenize=\"unicode61 remove_diacritics 0 tokenchars '='\", "
        "prefix='2 3')",
        "INSERT INTO search_index(search_index) VALUES ('rebuild')",
        "CREATE TRIGGER search_part_insert AFTER INSERT ON search_part BEGIN "
        "INSERT INTO search_index(rowid, words) VALUES (new.seq, new.words); END",
        "CREATE TRIGGER search_part_delete AFTER DELETE ON search_part BEGIN "
        "INSERT INTO search_index(search_index, rowid, words) "
        "VALUES ('delete', old.seq, old.words); END",
        "CREATE TRIGGER search_part_update AFTER UPDATE OF words ON search_part BEGIN "
        "INSERT INTO search_index(search_index, rowid, words) "
        "VALUES ('delete', old.seq, old.words); "
        "INSERT INTO search_index(rowid, words) VALUES (new.seq, new.words); END",
    ),
    "postgresql": (
        "CREATE INDEX search_index ON search_part "
        "USING gin (array_to_tsvector(string_to_array(words, ' ')))",
    ),
}

# What the two databases spell differently.
SQLITE = {
    "aliases": "(SELECT group_concat(name, ',') FROM "
    "(SELECT a.name FROM alias a WHERE a.version_id = v.id ORDER BY a.name))",
    "tags": "(SELECT group_concat(name, ',') FROM "
    "(SELECT g.name FROM tag g WHERE g.version_id = v.id ORDER BY g.name))",
    "seconds": "(julianday(s.finished_at) - julianday(s.started_at)) * 86400.0",
    "error": "json_extract(s.error, '$.message')",
    "reason": "s.reason",
}
POSTGRESQL = {
    "aliases": "(SELECT string_agg(a.name, ',' ORDER BY a.name) FROM alias a "
    "WHERE a.version_id = v.id)",
    "tags": "(SELECT string_agg(g.name, ',' ORDER BY g.name) FROM tag g WHERE g.version_id = v.id)",
    "seconds": "CAST(EXTRACT(EPOCH FROM s.finished_at - s.started_at) AS double precision)",
    "error": "s.error ->> 'message'",
    "reason": "CAST(s.reason AS text)",
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
       v.retract_reason, v.successor_id, v.run_id, v.id AS version_id{more}
  FROM version v
  JOIN dataset d ON d.id = v.dataset_id
"""

STAGE_RUNS = """
CREATE VIEW v_stage_runs AS
SELECT s.dataset, s.config, s.key, s.stage, s.state, {seconds} AS seconds, s.attempts,
       (SELECT count(*) FROM stage_output o WHERE o.stage_id = s.id) AS outputs,
       (SELECT CAST(coalesce(sum(a.size), 0) AS bigint) FROM stage_output o
          JOIN artifact a ON a.digest = o.digest WHERE o.stage_id = s.id) AS bytes,
       {error} AS error, s.host, s.pid, s.started_at, s.finished_at, s.fingerprint, s.run_id,
       s.id AS stage_id{more}
  FROM stage_execution s
"""

SPLITS = """
CREATE VIEW v_splits AS
SELECT d.name AS dataset, d.config, v.version, v.status, p.split, p.position, p.examples, p.bytes,
       p.shards, v.id AS version_id
  FROM split_stat p
  JOIN version v ON v.id = p.version_id
  JOIN dataset d ON d.id = v.dataset_id
"""

ALIAS_HISTORY = """
CREATE VIEW v_alias_history AS
SELECT d.name AS dataset, d.config, h.name AS alias, v.version, h.at AS moved_at,
       h.by AS moved_by, h.run_id, h.version_id, h.seq AS move
  FROM alias_history h
  JOIN dataset d ON d.id = h.dataset_id
  LEFT JOIN version v ON v.id = h.version_id
"""

NEW = {
    "v_versions": (VERSIONS, ",\n       {tags} AS tags, v.removed_at"),
    "v_stage_runs": (STAGE_RUNS, ", {reason} AS reason"),
    "v_splits": (SPLITS, ""),
    "v_alias_history": (ALIAS_HISTORY, ""),
}
OLD = {"v_versions": (VERSIONS, ""), "v_stage_runs": (STAGE_RUNS, "")}


def _views(views: Mapping[str, tuple[str, str]], drop: tuple[str, ...]) -> None:
    words = SQLITE if op.get_bind().dialect.name == "sqlite" else POSTGRESQL
    for name in drop:
        op.execute(f"DROP VIEW {name}")
    for text, more in views.values():
        op.get_bind().exec_driver_sql(text.format(more=more.format(**words), **words))


# Filling the index. -----------------------------------------------------------------------------

_VERSION = sa.table(
    "version",
    sa.column("id"),
    sa.column("dataset_id"),
    sa.column("features", sa.JSON()),
    sa.column("info", sa.JSON()),
    sa.column("created_at"),
)
_DATASET = sa.table("dataset", sa.column("id"), sa.column("name"), sa.column("config"))
_PART = sa.table(
    "search_part",
    *(sa.column(n) for n in ("dataset_id", "field", "digest", "text", "words", "version_id")),
    sa.column("noted_at", TIME),
)
_WORD = re.compile(r"[^\W_]+")
_HUMP = re.compile(r"[A-Z]+(?=[A-Z][a-z])|[A-Z]?[a-z]+|[A-Z]+|\d+")


def _fill() -> None:
    conn = op.get_bind()
    now = datetime.now(UTC)
    now = now.replace(tzinfo=None) if conn.dialect.name == "sqlite" else now
    waiting: list[dict[str, Any]] = []
    for dataset in conn.execute(sa.select(_DATASET)).all():
        parts: dict[tuple[str, str], dict[str, Any]] = {}
        for field, text, version_id in _texts(conn, dataset):
            row = _part(field, text)
            if row is not None:
                row |= {"dataset_id": dataset.id, "version_id": version_id, "noted_at": now}
                parts[field, row["digest"]] = row
        waiting += parts.values()
        if len(waiting) > 5000:
            conn.execute(_PART.insert(), waiting)
            waiting = []
    if waiting:
        conn.execute(_PART.insert(), waiting)


def _texts(conn: Any, dataset: Any) -> Iterator[tuple[str, str, str | None]]:
    """Field, text and version of all that a dataset's versions say; the newest come last."""
    name = f"{dataset.name}/{dataset.config}" if dataset.config else dataset.name
    yield "name", name, None
    query = sa.select(_VERSION).where(_VERSION.c.dataset_id == dataset.id)
    for version in conn.execute(query.order_by(_VERSION.c.created_at)).all():
        for field, text in _said(version.features or {}, version.info or {}):
            yield field, text, version.id
    for field, statement in SAID_ELSEWHERE.items():
        for row in conn.execute(sa.text(statement), {"dataset": dataset.id}):
            yield field.partition(" ")[0], row.said, row.version_id


SAID_ELSEWHERE = {
    "split": "SELECT p.split AS said, v.id AS version_id FROM version v "
    "JOIN split_stat p ON p.version_id = v.id WHERE v.dataset_id = :dataset "
    "ORDER BY v.created_at",
    "alias": "SELECT name AS said, version_id FROM alias WHERE dataset_id = :dataset",
    "job": "SELECT c.job AS said, v.id AS version_id FROM version v "
    "JOIN consumption c ON c.version_id = v.id WHERE v.dataset_id = :dataset ORDER BY c.seq",
    "url": "SELECT DISTINCT o.name AS said, v.id AS version_id, v.created_at FROM version v "
    "JOIN lineage l ON l.child_id = v.id JOIN stage_output o ON o.stage_id = l.parent_id "
    "WHERE v.dataset_id = :dataset AND o.kind = 'download' ORDER BY v.created_at",
}


def _said(features: Mapping[str, Any], info: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    about = info.get("dataset_info")
    about = about if isinstance(about, Mapping) else info
    terms = about.get("redistributionInfo")
    licence = terms.get("license") if isinstance(terms, Mapping) else about.get("license")
    for field, text in (("description", about.get("description")), ("licence", licence)):
        if isinstance(text, str) and text.strip():
            yield field, text.strip()
    place = about.get("location")
    urls = place.get("urls") if isinstance(place, Mapping) else None
    for url in (urls if isinstance(urls, list) else [])[:500]:
        if isinstance(url, str):
            yield "url", url
    for count, name in enumerate(_features(features)):
        if count == 500:
            break
        yield "feature", name


def _features(features: Mapping[str, Any]) -> Iterator[str]:
    if "featuresDict" not in features and "pythonClassName" not in features:
        yield from map(str, features)
        return
    stack: list[tuple[str, Mapping[str, Any]]] = [("", features)]
    while stack:
        prefix, doc = stack.pop()
        inner = doc.get("sequence")
        if isinstance(inner, Mapping) and isinstance(inner.get("feature"), Mapping):
            stack.append((prefix, inner["feature"]))
        known = doc.get("featuresDict")
        named = known.get("features") if isinstance(known, Mapping) else None
        below = []
        for name, about in named.items() if isinstance(named, Mapping) else ():
            path = f"{prefix}/{name}" if prefix else str(name)
            yield path
            if isinstance(about, Mapping):
                below.append((path, about))
        stack += reversed(below)


def _part(field: str, text: str) -> dict[str, Any] | None:
    text = text.replace("\x00", "").encode("utf-8", "ignore").decode("utf-8")[:20_000]
    found = list(_words(text))
    if field in ("name", "alias", "tag"):
        found += [f"={each}" for each in found]
    if not found:
        return None
    digest = hashlib.blake2b(text.encode(), digest_size=16).hexdigest()
    return {"field": field, "digest": digest, "text": text, "words": " ".join(found)}


def _words(text: str) -> dict[str, None]:
    if not text.isascii():
        apart = unicodedata.normalize("NFKD", text)
        text = "".join(each for each in apart if not unicodedata.combining(each))
        text = text.encode("utf-8", "ignore").decode("utf-8")
    found: dict[str, None] = {}
    for whole in _WORD.findall(text):
        found[whole.lower()[:64]] = None
        parts = _HUMP.findall(whole) if whole.isascii() else ()
        if len(parts) > 1 and not whole.isupper():
            for part in parts:
                if len(part) > 1:
                    found[part.lower()[:64]] = None
    return found
