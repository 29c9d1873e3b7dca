"""Pretraining examples as a published version, through the engine and with its lineage.

The version is fingerprinted by the bytes of text and vocabulary and by the options, so the same
command finds the version that stands, before a word is tokenized.
"""

from __future__ import annotations

import hashlib
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from provender.builders.spec import BuilderSpec
from provender.errors import SettingsError
from provender.nlp.pretraining.builder import WORK
from provender.nlp.pretraining.files import Source, matched
from provender.nlp.pretraining.options import Options
from provender.nlp.pretraining.pooling import Pool
from provender.nlp.pretraining.running import Tell, check, claimed, prepare
from provender.nlp.pretraining.work import Work
from provender.records.atomic import told_as_ours, write_json
from provender.records.shards import shard_count
from provender.refs import DatasetRef

if TYPE_CHECKING:
    from provender.catalog import VersionRecord
    from provender.settings import Settings

SOURCE = "provender.nlp.pretraining.builder:Examples"
_BLOCK = 1 << 20
_BYTES_PER_TOKEN = 4
"""Of text, roughly: so the number of shards is known before anything is tokenized."""
_RECORD_BYTES_PER_TOKEN = 6


@dataclass(frozen=True)
class Standing:
    """What `publish` did.

    Attributes:
        version: the version that stands now.
        outcome: ``succeeded``; ``cached`` where it stood already and nothing was done; ``reused``
            where another process made it meanwhile.
    """

    version: VersionRecord
    outcome: str


def publish(
    inputs: str | Sequence[str],
    reference: str,
    options: Options,
    *,
    shards: int | None = None,
    workers: int = 1,
    settings: Settings | None = None,
    tell: Tell | None = None,
) -> Standing:
    """Publishes pretraining examples of text files as a version that `provender.load` reads.

    Interrupted, it goes on where it was when it is called again in the same way.

    Args:
        inputs: as for `provender.nlp.pretraining.create`.
        reference: ``name:x.y.z``.
        options: how examples are made; their files are TFRecords, not compressed.
        shards: files of the version; by default as many as suit its size.
        workers: processes.
        settings: the project's settings.
        tell: is told how far it is.

    Raises:
        ConflictError: the number is published with other examples.
        SettingsError: the reference is no name and number, or options make no sense.
        ProvenderError: as `provender.nlp.pretraining.create`.
    """
    from provender.engine.build import build
    from provender.engine.session import Options as Asked
    from provender.engine.session import open_catalog, open_session
    from provender.settings import load_settings

    name, number = _named(reference)
    if options.gzip_compress:
        raise SettingsError(
            "A version's files are not compressed.",
            where="--gzip_compress, --publish",
            hint="Leave --gzip_compress out, or write files with --output_file.",
        )
    options = options.located()
    sources = matched(inputs)
    check(options)
    settings = settings or load_settings()
    catalog = open_catalog(settings)
    if shards is None:
        known = catalog.version(name, None, number)
        stands = known is not None and known.status == "published"
        shards = (
            known.splits[0].shards
            if known and stands
            else shards_for(sum(each.size for each in sources), options)
        )
    spec = _spec(sources, name, number, options, shards, Path(settings.scratch))
    work = Work(Path(spec.kwargs["folder"]), options, shards)
    session = open_session(spec, settings, Asked(workers=workers), catalog=catalog)
    built = build(session, _Watch(work, sources, workers, tell))
    shutil.rmtree(work.folder, ignore_errors=True)
    return Standing(built.version, built.outcome)


def _named(reference: str) -> tuple[str, str]:
    found = DatasetRef.parse(reference)
    if not found.name or not found.version or found.config:
        raise SettingsError(
            f"--publish takes a name and a number, got {reference!r}.",
            where="--publish",
            hint="--publish books:1.0.0",
        )
    return found.name, found.version


def shards_for(size: int, options: Options) -> int:
    """Files that suit the examples of so many bytes of text."""
    tokens = options.dupe_factor * size // _BYTES_PER_TOKEN
    examples = max(1, tokens // options.max_seq_length)
    written = examples * options.max_seq_length * _RECORD_BYTES_PER_TOKEN
    return int(shard_count(written, examples, None))


def _spec(
    sources: Sequence[Source],
    name: str,
    number: str,
    options: Options,
    shards: int,
    scratch: Path,
) -> BuilderSpec:
    from provender.fingerprint import Hasher

    said = {**options.to_json(), "vocab_file": None, "sp_model_file": ""}
    text = hashlib.blake2b(digest_size=20)
    for each in sources:
        # Where one file ends counts: so does a document.
        text.update(_digest(Path(each.path)))
    kwargs: dict[str, Any] = {
        "dataset": name,
        "number": number,
        "options": said,
        "text": text.hexdigest(),
        "vocabulary": _digest(options.vocabulary).hex(),
        "shards": shards,
    }
    kwargs["folder"] = str(scratch / "publishing" / Hasher.hash(kwargs))
    return BuilderSpec(SOURCE, kwargs=kwargs)


def _digest(path: Path) -> bytes:
    found = hashlib.blake2b(digest_size=20)
    with told_as_ours(path), path.open("rb") as file:
        while block := file.read(_BLOCK):
            found.update(block)
    return found.digest()


class _Watch:
    """Follows a build; tokenizes and plans once it is known that examples are needed."""

    def __init__(
        self, work: Work, sources: Sequence[Source], workers: int, tell: Tell | None
    ) -> None:
        self._work = work
        self._sources = sources
        self._workers = workers
        self._tell = tell or (lambda step, done, total, unit: None)
        self._shards = 0

    def __call__(self, event: Mapping[str, Any]) -> None:
        """Takes in one event of the build."""
        if event["event"] == "plan":
            self._prepare(event["plan"])
        elif event["event"] == "done" and event["stage"].startswith("shards/"):
            self._shards += 1
            self._tell("write", self._shards, self._work.outputs, "shards")

    def _prepare(self, plan: Any) -> None:
        from provender.engine.plan import RUN

        needed = any(step.op == "iterator" and step.state == RUN for step in plan.steps)
        if plan.conflict is not None or not needed:
            return
        work = self._work
        work.make_folders()
        with claimed(work.folder), Pool(work, self._workers) as pool:
            prepare(work, self._sources, pool, self._tell)
            write_json(work.folder / WORK, work.to_json())
