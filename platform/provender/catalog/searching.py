"""Full-text search over everything that people call things by.

What can be found is kept as one row a distinct text (`search_part`): a dataset whose nightly
versions all have the same description and features has them once. The rows are written in the
transaction that registers, tags or reads a version, and the database's own full-text index (FTS5 in
SQLite, GIN over a tsvector in PostgreSQL) follows by itself. Which results are best is decided here,
alike for both databases.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from provender.catalog import tables as t
from provender.catalog.answers import SearchHit
from provender.catalog.columns import utc_now
from provender.catalog.ranking import Part, best_first
from provender.catalog.records import full_name
from provender.catalog.session import Session, insert_missing, select_in
from provender.catalog.words import MARK, part, storable, texts_of, words_of

_PART = t.search_part
_COLUMNS = (
    _PART.c.seq,
    _PART.c.dataset_id,
    _PART.c.field,
    _PART.c.text,
    _PART.c.words,
    _PART.c.version_id,
)
MOST_WORDS = 8
"""Further words of a question are not looked at."""
_MOST_PARTS = 2000
_MOST_DATASETS = 300

_MATCHES = {
    "sqlite": "SELECT p.seq, p.dataset_id, p.field, p.text, p.words, p.version_id "
    "FROM search_index i JOIN search_part p ON p.seq = i.rowid "
    "WHERE search_index MATCH :word ORDER BY i.rowid DESC LIMIT :most",
    "postgresql": "SELECT p.seq, p.dataset_id, p.field, p.text, p.words, p.version_id "
    "FROM search_part p WHERE array_to_tsvector(string_to_array(p.words, ' ')) "
    "@@ CAST(:word AS tsquery) LIMIT :most",
}


class Searching(Session):
    """The part of the catalog that finds things by their words."""

    def search(self, text: str, *, limit: int = 20) -> list[SearchHit]:
        """Datasets that have all the words, best first.

        A word also finds longer ones that begin with it. Words are looked for in the names,
        aliases, tags, features, splits, licences, job names, addresses and descriptions of all
        versions; they may stand in different places of one dataset.

        Args:
            text: up to eight words.
            limit: at most so many datasets.

        Returns:
            The hits. Where a question consists of words that thousands of texts hold, only the
            newest of those texts, and all names, aliases and tags, are ranked.
        """
        text = storable(text)
        words = words_of(text)[:MOST_WORDS]
        if not words:
            return []

        def work(conn: Connection) -> list[SearchHit]:
            parts = _parts(conn, words, text)
            about = _about(conn, {each.dataset for each in parts})
            return _resolved(conn, best_first(parts, words, about, text, limit))

        return self._read(work)


def _parts(conn: Connection, words: Sequence[str], text: str) -> list[Part]:
    """The texts that speak for the datasets worth ranking."""
    found: dict[int, Part] = {}
    exact: list[set[str]] = []
    common: list[set[str]] = []
    for word in words:
        strong = _matching(conn, MARK + word)
        every = _matching(conn, word)
        # The marked words are all there even where the others were too many to count.
        matched = {each.seq: each for each in (*strong, *every)}
        found |= matched
        datasets = {each.dataset for each in matched.values()}
        (common if len(every) == _MOST_PARTS else exact).append(datasets)
    named = _called(conn, text)
    chosen = set.intersection(*exact) if exact else set.intersection(*common)
    if not exact and not chosen:
        chosen = set.union(*common)
    if common:
        # Whether the common words are there too is only known from the datasets' own texts.
        chosen = set(sorted(chosen | named)[:_MOST_DATASETS]) | named
        found |= {each.seq: each for each in _own(conn, chosen)}
    return [each for each in found.values() if each.dataset in chosen]


def _matching(conn: Connection, word: str) -> list[Part]:
    dialect = conn.dialect.name
    # Words hold no quotes: they are letters and digits only.
    term = f'"{word}" *' if dialect == "sqlite" else f"'{word}':*"
    rows = conn.execute(sa.text(_MATCHES[dialect]), {"word": term, "most": _MOST_PARTS})
    return [Part(*row) for row in rows]


def _called(conn: Connection, text: str) -> set[str]:
    """Datasets whose name is exactly what was asked for."""
    name = text.strip().partition(":")[0].partition("@")[0].partition("/")[0]
    query = sa.select(t.dataset.c.id).where(t.dataset.c.name == name).limit(_MOST_DATASETS)
    return {row.id for row in conn.execute(query)}


def _own(conn: Connection, datasets: Iterable[str]) -> list[Part]:
    def of_datasets(batch: Sequence[str]) -> sa.Select[Any]:
        here = sa.select(*_COLUMNS).where(_PART.c.dataset_id.in_(batch))
        return here.limit(_MOST_PARTS * 10)

    return [Part(*row) for row in select_in(conn, of_datasets, datasets)]


def _resolved(conn: Connection, hits: Sequence[SearchHit]) -> list[SearchHit]:
    """The hits with the versions that they speak of."""
    ids = {m.version_id for hit in hits for m in hit.matches if m.version_id}
    numbers = {row.id: row for row in select_in(conn, _numbers, sorted(ids))}
    return [_with_versions(conn, hit, numbers) for hit in hits]


def _numbers(batch: Sequence[str]) -> sa.Select[Any]:
    columns = (t.version.c.id, t.version.c.version, t.version.c.status)
    return sa.select(*columns).where(t.version.c.id.in_(batch))


def _with_versions(conn: Connection, hit: SearchHit, numbers: Mapping[str, Any]) -> SearchHit:
    matches = tuple(
        replace(match, version=numbers[match.version_id].version)
        if match.version_id is not None and match.version_id in numbers
        else replace(match, version_id=None)
        for match in hit.matches
    )
    best = matches[0].version_id if matches else None
    row = numbers[best] if best else _shown(conn, hit)
    if row is None:
        return replace(hit, matches=matches)
    return replace(hit, matches=matches, version_id=row.id, version=row.version, status=row.status)


def _shown(conn: Connection, hit: SearchHit) -> Any:
    """The version that ``latest`` points to, else the newest one."""
    key = sa.select(t.dataset.c.id).where(
        t.dataset.c.name == hit.dataset, t.dataset.c.config == hit.config
    )
    columns = (t.version.c.id, t.version.c.version, t.version.c.status)
    pointed = (
        sa.select(*columns)
        .join(t.alias, t.alias.c.version_id == t.version.c.id)
        .where(t.alias.c.dataset_id == key.scalar_subquery(), t.alias.c.name == "latest")
    )
    newest = sa.select(*columns).where(t.version.c.dataset_id == key.scalar_subquery())
    newest = newest.order_by(t.version.c.created_at.desc()).limit(1)
    return conn.execute(pointed).first() or conn.execute(newest).first()


def _about(conn: Connection, datasets: Iterable[str]) -> dict[str, tuple[str, str]]:
    def of_ids(batch: Sequence[str]) -> sa.Select[Any]:
        named = sa.select(t.dataset.c.id, t.dataset.c.name, t.dataset.c.config)
        return named.where(t.dataset.c.id.in_(batch))

    return {row.id: (row.name, row.config) for row in select_in(conn, of_ids, datasets)}


def dataset_of(conn: Connection, version_id: str) -> str:
    """The key of a version's dataset."""
    query = sa.select(t.version.c.dataset_id).where(t.version.c.id == version_id)
    found: str = conn.execute(query).scalar_one()
    return found


def note(
    conn: Connection, dataset_id: str, version_id: str | None, texts: Mapping[str, Iterable[str]]
) -> None:
    """Lets texts be found.

    Args:
        conn: a writing transaction.
        dataset_id: key of the dataset that they tell of.
        version_id: the version that says so; it takes the place of an older one that did.
        texts: field (one of `FIELDS`) -> texts.
    """
    made = [part(field, text) for field, every in texts.items() for text in every]
    rows = {
        (each["field"], each["digest"]): {
            **each,
            "dataset_id": dataset_id,
            "version_id": version_id,
            "noted_at": utc_now(),
        }
        for each in made
        if each is not None
    }
    if not rows:
        return
    ours = sa.select(_PART.c.seq, _PART.c.field, _PART.c.digest, _PART.c.version_id).where(
        _PART.c.dataset_id == dataset_id,
        _PART.c.digest.in_([digest for _, digest in rows]),
    )
    known = {(row.field, row.digest): row for row in conn.execute(ours)}
    # In order, so that two transactions that note the same texts cannot deadlock.
    insert_missing(conn, _PART, [rows[key] for key in sorted(rows) if key not in known])
    older = sorted(
        row.seq for key, row in known.items() if key in rows and row.version_id != version_id
    )
    if older and version_id is not None:
        moved = _PART.update().where(_PART.c.seq.in_(older))
        conn.execute(moved.values(version_id=version_id, noted_at=utc_now()))


def forget(
    conn: Connection, dataset_id: str, field: str, text: str, version_id: str | None
) -> None:
    """Lets a text be found no longer, or only through the version that still says so.

    Args:
        conn: a writing transaction.
        dataset_id: key of the dataset that it told of.
        field: one of `FIELDS`.
        text: the text.
        version_id: the newest version that still says so, or None.
    """
    made = part(field, text)
    if made is None:
        return
    place = (
        _PART.c.dataset_id == dataset_id,
        _PART.c.field == field,
        _PART.c.digest == made["digest"],
    )
    if version_id is None:
        conn.execute(_PART.delete().where(*place))
    else:
        conn.execute(_PART.update().where(*place).values(version_id=version_id))


def note_version(
    conn: Connection,
    dataset_id: str,
    version_id: str,
    *,
    dataset: str,
    config: str,
    features: Mapping[str, Any],
    info: Mapping[str, Any],
    splits: Iterable[str],
) -> None:
    """Lets a version be found by what it says of itself and by what it was downloaded from.

    Args:
        conn: the registering transaction, lineage already written.
        dataset_id: key of its dataset.
        version_id: the version.
        dataset: dataset name.
        config: builder config.
        features: features.json as a document.
        info: what is registered beside it.
        splits: split names.
    """
    texts = texts_of(features, info, splits)
    texts["url"] += _downloads(conn, version_id)
    note(conn, dataset_id, None, {"name": [full_name(dataset, config)]})
    note(conn, dataset_id, version_id, texts)


def _downloads(conn: Connection, version_id: str) -> list[str]:
    """The addresses that a version's download stage fetched."""
    made = t.stage_output
    query = (
        sa.select(made.c.name)
        .join(t.lineage, t.lineage.c.parent_id == made.c.stage_id)
        .where(t.lineage.c.child_id == version_id, made.c.kind == "download")
        .order_by(made.c.name)
        .distinct()
        .limit(500)
    )
    return [row.name for row in conn.execute(query)]
