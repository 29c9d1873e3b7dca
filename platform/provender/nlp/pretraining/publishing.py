"""Pretraining examples as a published version: the recipe for them, built by one command.

The version is fingerprinted by the bytes of text and vocabulary and by the options, so the same
command finds the version that stands, before a word is tokenized.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

from provender.builders.spec import BuilderSpec
from provender.errors import SettingsError
from provender.nlp.pretraining.addresses import text_copies
from provender.nlp.pretraining.options import Options
from provender.nlp.pretraining.running import Tell, check
from provender.records.shards import shard_count
from provender.refs import DatasetRef

if TYPE_CHECKING:
    from provender.catalog import VersionRecord
    from provender.settings import Settings

_RECIPE = "provender.nlp.recipes:BertPretraining"
_STEPS = {"tokens": "tokenize", "instances": "plan"}
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

    Interrupted, it goes on where it was when it is called again in the same way. Text at an address
    is fetched first; it counts by its content, like any other.

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
    name, number = named(reference)
    if options.gzip_compress:
        raise SettingsError(
            "A version's files are not compressed.",
            where="--gzip_compress, --publish",
            hint="Leave --gzip_compress out, or write files with --output_file.",
        )
    from provender.settings import load_settings

    settings = settings or load_settings()
    options = options.located()
    check(options)
    files = text_copies(inputs, Path(settings.scratch), tell or nobody)
    usual = {each.name: each.default for each in fields(Options)}
    flags = {key: value for key, value in options.to_json().items() if value != usual[key]}
    spec = BuilderSpec(_RECIPE, version=number, kwargs={"input_file": files, **flags}, name=name)
    return publish_recipe(spec, shards, workers=workers, settings=settings, tell=tell, steps=_STEPS)


def nobody(step: str, done: int, total: int, unit: str) -> None:
    """Is told, and says nothing."""


def publish_recipe(
    spec: BuilderSpec,
    shards: int | None,
    *,
    steps: Mapping[str, str],
    workers: int = 1,
    settings: Settings | None = None,
    tell: Tell | None = None,
) -> Standing:
    """Builds a recipe that no provender.toml names, stage by stage as any other.

    Args:
        spec: the recipe, its name and its number.
        shards: files of the version; by default as it has, else as many as suit its size.
        steps: the recipe's steps -> what `tell` is told of them.
        workers: processes.
        settings: the project's settings.
        tell: is told how far it is.

    Raises:
        ConflictError: the number is published with other examples.
        ProvenderError: what a stage raised.
    """
    from provender.engine.build import build
    from provender.engine.session import Options as Asked
    from provender.engine.session import open_catalog, open_session
    from provender.settings import load_settings

    settings = settings or load_settings()
    catalog = open_catalog(settings)
    if shards is None:
        known = catalog.version(str(spec.name), None, str(spec.version))
        if known is not None and known.status == "published":
            shards = known.info["spec"]["kwargs"].get("shards")
    if shards is not None:
        spec = spec.with_(None, None, {"shards": shards})
    session = open_session(spec, settings, Asked(workers=workers), catalog=catalog)
    built = build(session, _Watch(steps, tell or nobody))
    return Standing(built.version, built.outcome)


def named(reference: str, example: str = "books:1.0.0") -> tuple[str, str]:
    """The name and number of a reference.

    Args:
        reference: ``name:x.y.z``.
        example: of one, for the error.

    Raises:
        SettingsError: it is none, or says more.
    """
    found = DatasetRef.parse(reference)
    if not found.name or not found.version or found.config:
        raise SettingsError(
            f"--publish takes a name and a number, got {reference!r}.",
            where="--publish",
            hint=f"--publish {example}",
        )
    return found.name, found.version


def shards_for(size: int, options: Options) -> int:
    """Files that suit the examples of so many bytes of text."""
    tokens = options.dupe_factor * size // _BYTES_PER_TOKEN
    examples = max(1, tokens // options.max_seq_length)
    written = examples * options.max_seq_length * _RECORD_BYTES_PER_TOKEN
    return int(shard_count(written, examples, None))


class _Watch:
    """Follows a build, and tells of its steps and shards."""

    def __init__(self, steps: Mapping[str, str], tell: Tell) -> None:
        self._steps = steps
        self._tell = tell
        self._parts: dict[str, dict[str, tuple[int, int]]] = {}
        self._shards = 0
        self._total = 0

    def __call__(self, event: Mapping[str, Any]) -> None:
        """Takes in one event of the build."""
        if event["event"] == "plan":
            stages = [each.key for each in event["plan"].steps]
            self._total = sum(each.startswith("shards/") for each in stages)
            return
        kind, _, rest = event["stage"].partition("/")
        if kind == "shards" and event["event"] in ("start", "done"):
            self._shards += event["event"] == "done"
            self._tell("write", self._shards, self._total, "shards")
        elif kind == "examples" and event["event"] == "progress" and event.get("total"):
            step, _, part = rest.partition("/")
            parts = self._parts.setdefault(step, {})
            parts[part] = int(event["done"]), int(event["total"])
            done, total = (sum(each) for each in zip(*parts.values(), strict=True))
            self._tell(self._steps[step], done, total, event["unit"])
