"""Comparing two versions by what is on record of them; see `examples` for their contents."""

from __future__ import annotations

import difflib
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from provender.engine.plan import reason_text
from provender.errors import ProvenderError, UnknownReference
from provender.fingerprint import Hasher, Tree
from provender.questions.diff.values import (
    Cause,
    FeatureChange,
    MetadataChange,
    SplitChange,
    VersionDiff,
)
from provender.questions.schema import fields_of
from provender.stages import statistics
from provender.statistics import Drift, drift

if TYPE_CHECKING:
    from provender.catalog import Catalog, ShardRecord, VersionRecord
    from provender.questions.asking import Questions
    from provender.store import Store

Progress = Callable[[int, int], None]
_CAUSES = ("download", "manual", "splits", "examples", "prepare", "register")
_UNTOLD = ("splits", "downloadSize")
_NO_CAUSE = ("split ", "sizes", "content of the split")
_MOST_CAUSES = 50


def diff_versions(questions: Questions, a: str, b: str, **options: Any) -> VersionDiff:
    """Compares two versions by their references; the options are those of `diff`."""
    from provender.settings import load_settings
    from provender.store import Store

    catalog = questions.raw
    before, after = (catalog.version_by_id(questions._id(each)) for each in (a, b))
    settings = questions._settings or load_settings()
    entry = settings.datasets.get(after.dataset)
    if options.get("examples") and options.get("key") is None and entry is not None:
        options["key"] = entry.key
    store = Store.open(settings.store, scratch=str(settings.scratch))
    return diff(catalog, store, before, after, **options)


def diff(
    catalog: Catalog,
    store: Store,
    a: VersionRecord,
    b: VersionRecord,
    *,
    examples: bool = False,
    key: str | None = None,
    samples: int = 3,
    splits: Sequence[str] | None = None,
    compute: bool = False,
    progress: Progress | None = None,
) -> VersionDiff:
    """Compares two versions.

    Args:
        catalog: where they are recorded.
        store: where they lie; read for examples, and for statistics that are to be made.
        a: the older one, usually.
        b: the newer one.
        examples: compare their examples too.
        key: feature that tells which examples are the same one; without it, examples are matched
            by their whole content, and a changed one is one removed and one added.
        samples: examples shown of each kind and split.
        splits: only these splits' examples.
        compute: make the statistics of a version that has none, by reading it.
        progress: told the examples read, and those to read in all.

    Raises:
        UnknownReference: there is no such feature or split.
        DamageError: a shard is missing or damaged.
        StoreError: the store cannot be read, or a version is kept in another file format.
    """
    notes: list[str] = []
    found = VersionDiff(
        a=a.name,
        b=b.name,
        a_id=a.id,
        b_id=b.id,
        features=tuple(_features(a, b)),
        splits=tuple(_splits(a, b, catalog.shards(a.id), catalog.shards(b.id))),
        metadata=tuple(_metadata(a, b)),
        drift=tuple(_drifts(catalog, store, a, b, compute, notes)),
        causes=tuple(_causes(catalog, a, b, notes)),
    )
    compared = None
    if examples:
        from provender.questions.diff.examples import Sides, compare

        _check_splits(a, b, splits)
        sides = Sides(catalog, store, a, b, key)
        compared = compare(sides, samples=samples, splits=splits, progress=progress)
    fields = {name: getattr(found, name) for name in found.__dataclass_fields__}
    return VersionDiff(**{**fields, "notes": tuple(notes), "examples": compared})


def _check_splits(a: VersionRecord, b: VersionRecord, wanted: Sequence[str] | None) -> None:
    known = [each.name for version in (a, b) for each in version.splits]
    for name in wanted or ():
        if name not in known:
            near = difflib.get_close_matches(name, known, 1)
            there = f"There are: {', '.join(dict.fromkeys(known))}."
            raise UnknownReference(
                f"Neither version has a split {name!r}.",
                where=f"{a.name}, {b.name}",
                hint=f"Did you mean {near[0]!r}?" if near else there,
            )


# -- features and splits ------------------------------------------------------------------------------


def _features(a: VersionRecord, b: VersionRecord) -> Iterator[FeatureChange]:
    before, after = (dict(_flat(fields_of(each.features), "")) for each in (a, b))
    for name in [*before, *(each for each in after if each not in before)]:
        old, new = before.get(name), after.get(name)
        if old != new:
            change = "added" if old is None else "removed" if new is None else "changed"
            yield FeatureChange(name, change, old, new)


def _flat(fields: Sequence[Mapping[str, Any]], above: str) -> Iterator[tuple[str, str]]:
    for each in fields:
        name = f"{above}{each['name']}"
        yield name, str(each["type"])
        yield from _flat(each.get("fields") or (), f"{name}/")


def _splits(
    a: VersionRecord,
    b: VersionRecord,
    ours: Sequence[ShardRecord],
    theirs: Sequence[ShardRecord],
) -> Iterator[SplitChange]:
    before, after = ({each.name: each for each in version.splits} for version in (a, b))
    for name in [*before, *(each for each in after if each not in before)]:
        one, other = before.get(name), after.get(name)
        contents = [Counter(s.sha256 for s in side if s.split == name) for side in (ours, theirs)]
        equal = (contents[0] & contents[1]).total()
        if one is None or other is None:
            change = "added" if one is None else "removed"
        else:
            same = contents[0] == contents[1] and (contents[0] or a.fingerprint == b.fingerprint)
            change = "same" if same else "changed"
        numbers = {
            what: tuple(getattr(each, what) if each else 0 for each in (one, other))
            for what in ("examples", "bytes", "shards")
        }
        yield SplitChange(name, change, equal_shards=equal, **numbers)  # type: ignore[arg-type]


def _metadata(a: VersionRecord, b: VersionRecord) -> Iterator[MetadataChange]:
    before, after = (dict(_leaves(each.info.get("dataset_info") or {}, ())) for each in (a, b))
    for path in sorted(before.keys() | after.keys()):
        if path[0] in _UNTOLD or before.get(path) == after.get(path):
            continue
        yield MetadataChange("/".join(path), before.get(path), after.get(path))


def _leaves(doc: Any, path: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], Any]]:
    if isinstance(doc, Mapping) and doc:
        for name, inner in doc.items():
            yield from _leaves(inner, (*path, str(name)))
    elif path:
        yield path, doc


# -- figures and causes -------------------------------------------------------------------------------


def _drifts(
    catalog: Catalog,
    store: Store,
    a: VersionRecord,
    b: VersionRecord,
    compute: bool,
    notes: list[str],
) -> Iterator[Drift]:
    sides = []
    for version in (a, b):
        figures = catalog.statistics(version.id)
        if not all(figures.values()) and compute:
            try:
                figures = statistics.compute(store, catalog, version)
            except ProvenderError as error:
                notes.append(f"{version.name} has no statistics: {error.message}")
        elif not any(figures.values()):
            notes.append(
                f"{version.name} has no statistics yet: `provender stats {version.name} --compute` "
                "makes them."
            )
        sides.append(figures)
    before, after = sides
    for split in before:
        if before[split] and after.get(split):
            yield from drift(before[split], after[split], split)


def _causes(
    catalog: Catalog, a: VersionRecord, b: VersionRecord, notes: list[str]
) -> Iterator[Cause]:
    """What differs in the fingerprints of stages that both versions went through."""
    ours, theirs = a.info.get("stages") or {}, b.info.get("stages") or {}
    moved = [
        key
        for key in ours
        if key in theirs and ours[key] != theirs[key] and key.partition("/")[0] in _CAUSES
    ]
    trees = catalog.trees([side[key] for key in moved for side in (ours, theirs)])
    found: dict[str, tuple[list[str], dict[str, Any]]] = {}
    for key in moved:
        old, new = trees.get(ours[key]), trees.get(theirs[key])
        if old is None or new is None:
            continue
        for change in Hasher.explain(Tree.from_json(old), Tree.from_json(new)):
            doc = change.to_json()
            if str(doc["path"][0] if doc["path"] else "").startswith(_NO_CAUSE):
                continue
            stages, _ = found.setdefault(reason_text(doc), ([], doc))
            stages.append(key)
    if len(found) > _MOST_CAUSES:
        notes.append(f"Of {len(found):,} causes the first {_MOST_CAUSES} are listed.")
    for text, (stages, doc) in list(found.items())[:_MOST_CAUSES]:
        yield Cause(tuple(stages), text, doc)
