"""`publish`: from rows to a version, through the engine."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from provender.builders.spec import BuilderSpec
from provender.data.publishing.checks import check_columns, check_reference, check_splits
from provender.data.publishing.origins import parents_of
from provender.data.publishing.rows import remove_rows, write_rows
from provender.errors import ConflictError, SettingsError, SplitError

if TYPE_CHECKING:
    from provender.catalog import VersionRecord
    from provender.data.dataset import Dataset, DatasetDict
    from provender.engine.build import Built
    from provender.engine.execute import Tell
    from provender.engine.plan import Plan
    from provender.engine.session import Session
    from provender.settings import Settings

SOURCE = "provender.data.publishing.builder:Rows"
_OVERHEAD = 12
"""Bytes around one value in an example, besides its name: tags and lengths."""


@dataclass(frozen=True)
class Published:
    """What `publish` did.

    Attributes:
        version: the version that stands now.
        outcome: ``succeeded``; ``cached`` where it stood already and nothing was done; ``reused``
            where another process made it meanwhile.
        built: all that the engine says of the run.
    """

    version: VersionRecord
    outcome: str
    built: Built

    @property
    def is_hit(self) -> bool:
        """Whether nothing had to be done."""
        return self.outcome == "cached"

    def __str__(self) -> str:
        v = self.version
        what = {
            "cached": "is published already with these rows; nothing was done",
            "reused": "was published by another process meanwhile",
        }.get(self.outcome, f"is published, {v.examples:,} rows")
        return f"{v.name} {what}: {v.uri}"


def publish(
    dataset: Dataset | DatasetDict,
    name: str,
    *,
    version: str,
    config: str | None = None,
    split: str | None = None,
    description: str | None = None,
    num_shards: int | Mapping[str, int] | None = None,
    workers: int | None = None,
    settings: Settings | None = None,
    tell: Tell | None = None,
) -> Published:
    """Publishes a dataset as a TFDS version, with its lineage.

    Rows keep their order; row numbers are their keys. A version that holds these rows already is
    left alone.

    Args:
        dataset: rows of one split, or a DatasetDict of several.
        name: dataset name to publish under.
        version: number, ``x.y.z``.
        config: name of the config, or None.
        split: name of a single dataset's split; by default its own, else ``train``.
        description: what it is, for people; a short one is made up otherwise.
        num_shards: files of each split; by default as many as TFDS would choose for the size.
        workers: worker processes.
        settings: the project's settings; by default as provender.toml and the environment say.
        tell: is told what happens, see `provender.engine.build`; by default a progress bar.

    Returns:
        The version, and whether anything had to be done.

    Raises:
        FeatureTypeError: a column that tf.Example cannot hold (float64, nulls, times, ...); names
            the column and the way out.
        SplitError: a split has no rows, or a name that cannot be used.
        ConflictError: the number is published with other rows; what differs is said.
        UnknownReference: the name or the number cannot be used.
        StoreError, CatalogError: either cannot be reached.
    """
    from provender.engine.session import Options, open_catalog, open_session
    from provender.settings import load_settings

    splits = _splits(dataset, split)
    if isinstance(num_shards, Mapping) and (others := set(num_shards) - set(splits)):
        raise SplitError(
            f"num_shards names splits that are not there: {', '.join(sorted(others))}.",
            where="publish(num_shards=...)",
            hint=f"Splits: {', '.join(splits)}.",
        )
    check_reference(name, config, version)
    check_splits(splits)
    channels = check_columns(splits)
    settings = settings or load_settings()
    catalog = open_catalog(settings)
    promised = _promised(catalog.version(name, config, version)) if num_shards is None else {}
    shards = {
        each: _shards(rows, each, num_shards, promised.get(each)) for each, rows in splits.items()
    }
    spec = _spec(splits, shards, channels, name, version, config, description, settings)
    parents = parents_of(catalog, splits.values())
    options = Options(workers=workers)
    session = open_session(spec, settings, options, catalog=catalog)
    session.parents = parents
    folder = Path(spec.kwargs["folder"])
    built = _built(session, _Watch(tell, folder, splits, shards), splits)
    remove_rows(folder)
    made = Published(built.version, built.outcome, built)
    if made.is_hit and tell is None:
        from provender.data.dataset.progress import tell as say

        say(str(made))
    return made


def _splits(dataset: Any, split: str | None) -> dict[str, Dataset]:
    from provender.data.dataset import Dataset

    if isinstance(dataset, Dataset):
        return {split or dataset.split or "train": dataset}
    if split is not None:
        raise SettingsError(
            "A DatasetDict has its own split names.",
            where="publish(split=...)",
            hint=f"Publish one of them: datasets[{split!r}].publish(...), or leave split out.",
        )
    return dict(dataset)


def _spec(
    splits: Mapping[str, Dataset],
    shards: Mapping[str, int],
    channels: Mapping[str, int],
    name: str,
    version: str,
    config: str | None,
    description: str | None,
    settings: Settings,
) -> BuilderSpec:
    from provender.fingerprint import Hasher

    about = {
        each: {"fingerprint": rows.fingerprint, "rows": len(rows), "shards": shards[each]}
        for each, rows in splits.items()
    }
    first = next(iter(splits.values()))
    text = description or first.description or f"Rows published with Provender as {name}."
    kwargs = {
        "dataset": name,
        "number": version,
        "variant": config,
        "columns": first.features.to_dict(),
        "channels": dict(channels),
        "splits": about,
        "about": text,
    }
    kwargs["folder"] = str(settings.scratch / "publishing" / Hasher.hash(about))
    return BuilderSpec(SOURCE, kwargs=kwargs)


def _promised(version: VersionRecord | None) -> dict[str, int]:
    """Files that the splits of a published version have.

    The same rows published again without a number of files mean that version, not another layout.
    """
    if version is None or version.status != "published":
        return {}
    return {each.name: each.shards for each in version.splits}


def _shards(
    rows: Dataset, split: str, asked: int | Mapping[str, int] | None, promised: int | None
) -> int:
    """Files of a split: as asked for, else as it has, else the TFDS policy for its size in Arrow."""
    from provender.records.shards import shard_count

    requested = asked.get(split) if isinstance(asked, Mapping) else asked
    if promised is not None and promised <= len(rows):
        return promised
    share = len(rows) / max(rows.data.num_rows, 1)
    overhead = sum(len(name) + _OVERHEAD for name in rows.features)
    return shard_count(int(rows.data.nbytes * share) + overhead * len(rows), len(rows), requested)


class _Watch:
    """Watches a build: shows progress, and lays out rows once it is known which are needed.

    Args:
        tell: is told what happens, or None for a progress bar.
        folder: where workers read rows.
        splits: split -> rows.
        shards: split -> number of shards.
    """

    def __init__(
        self,
        tell: Tell | None,
        folder: Path,
        splits: Mapping[str, Dataset],
        shards: Mapping[str, int],
    ) -> None:
        from provender.data.dataset.progress import Progress

        self._tell = tell
        self._folder = folder
        self._splits = splits
        self._shards = shards
        self._bar = Progress("Publish", sum(len(rows) for rows in splits.values()))

    def __call__(self, event: Mapping[str, Any]) -> None:
        if event["event"] == "plan":
            self._lay_out(event["plan"])
        if self._tell is not None:
            self._tell(event)
        elif event["event"] == "done" and event["stage"].startswith("shards/"):
            self._bar.advance(event["result"].get("examples", 0))

    def __enter__(self) -> _Watch:
        if self._tell is None:
            self._bar.__enter__()
        return self

    def __exit__(self, *error: Any) -> None:
        if self._tell is None:
            self._bar.__exit__(*error)

    def _lay_out(self, plan: Plan) -> None:
        """Writes the rows of shards that are to be made. Nothing is written for a refused plan."""
        from provender.engine.plan import RUN
        from provender.store.files import locked

        wanted = {step.key for step in plan.steps if step.op == "iterator" and step.state == RUN}
        if plan.conflict is not None or not wanted:
            return
        self._folder.parent.mkdir(parents=True, exist_ok=True)
        with locked(f"{self._folder}.lock"):
            write_rows(self._folder, self._splits, self._shards, wanted)


def _built(session: Session, watch: _Watch, splits: Mapping[str, Dataset]) -> Built:
    from provender.engine.build import build

    try:
        with watch:
            return build(session, watch)
    except ConflictError as error:
        raise _other_rows(session, error, splits) from error


def _other_rows(
    session: Session, error: ConflictError, splits: Mapping[str, Dataset]
) -> ConflictError:
    """The conflict in terms of rows and columns, and what to do about it here."""
    facts = session.facts
    known = session.catalog.version(facts.name, facts.config, facts.version)
    if known is None or known.status != "published":
        return error
    before = (known.info.get("spec") or {}).get("kwargs", {}).get("splits") or {}
    lines = []
    for split in dict.fromkeys([*before, *splits]):
        if split not in splits:
            lines.append(f"no split {split!r} any more")
        elif split not in before:
            lines.append(f"a new split {split!r}")
        elif before[split]["fingerprint"] != splits[split].fingerprint:
            was, now = before[split]["rows"], len(splits[split])
            count = f"{was:,} -> {now:,} rows" if was != now else f"other {now:,} rows"
            lines.append(
                f"split {split!r}: {count} (fingerprint {before[split]['fingerprint'][:12]} -> "
                f"{splits[split].fingerprint[:12]})"
            )
    changes = error.facts.get("changes", [])
    said = "; ".join(lines) if lines else error.message.partition("else: ")[2].rstrip(".")
    return ConflictError(
        f"{known.name} is published with other content: {said or error.message}.",
        where=known.uri,
        hint="Publish under another number: publish(..., version=...), or free this one with "
        f"`provender retract {known.name} --reason WHY`.",
        facts={**error.facts, "rows": lines, "changes": changes},
    )
