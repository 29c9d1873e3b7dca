"""Files of fine-tuning records as a published version, through the engine and with its lineage."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from provender.errors import SettingsError
from provender.nlp.finetuning.outputs import Tell, file_digest
from provender.nlp.finetuning.running import Made
from provender.nlp.pretraining.publishing import Standing
from provender.records.shards import shard_count
from provender.records.tfrecord import iter_records
from provender.refs import DatasetRef

if TYPE_CHECKING:
    from provender.settings import Settings

SOURCE = "provender.nlp.finetuning.builder:Records"
_SPLITS = {"eval": "validation"}
"""TFDS's name of a split, where it differs from the flag's."""


def publish(
    made: Made,
    reference: str,
    *,
    workers: int = 1,
    settings: Settings | None = None,
    tell: Tell | None = None,
) -> Standing:
    """Publishes files that `create` made as a version that `provender.load` and loaders read.

    Its splits are train, validation and test; or for tests in several languages ``test_de`` and so
    on. The metadata lie with the version.

    Args:
        made: what `create` made.
        reference: ``name:x.y.z``.
        workers: processes.
        settings: the project's settings.
        tell: is told how far it is.

    Raises:
        ConflictError: the number is published with other records.
        SettingsError: the reference is no name and number, or files have different features.
    """
    from provender.builders.spec import BuilderSpec
    from provender.engine.build import build
    from provender.engine.session import Options as Asked
    from provender.engine.session import open_catalog, open_session
    from provender.settings import load_settings

    ref = named(reference)
    files = {split_name(each.key): os.path.abspath(each.path) for each in made.outputs}
    contents = {
        split_name(each.key): {"digest": file_digest(Path(each.path)), "records": each.records}
        for each in made.outputs
    }
    shards = {
        split_name(each.key): int(shard_count(each.bytes, each.records, None))
        for each in made.outputs
    }
    kwargs: dict[str, Any] = {
        "dataset": ref.name,
        "number": ref.version,
        "contents": contents,
        "features": _features(files),
        "metadata": made.metadata,
        "shards": shards,
        "files": files,
    }
    settings = settings or load_settings()
    spec = BuilderSpec(SOURCE, kwargs=kwargs)
    session = open_session(spec, settings, Asked(workers=workers), catalog=open_catalog(settings))
    built = build(session, _Watch(sum(shards.values()), tell))
    return Standing(built.version, built.outcome)


def named(reference: str) -> DatasetRef:
    """The name and number of a reference.

    Raises:
        SettingsError: it is none, or says more.
    """
    found = DatasetRef.parse(reference)
    if not found.name or not found.version or found.config:
        raise SettingsError(
            f"--publish takes a name and a number, got {reference!r}.",
            where="--publish",
            hint="--publish mnli_tokens:1.0.0",
        )
    return found


def split_name(key: str) -> str:
    """The split of an output: what TFDS allows in names."""
    return _SPLITS.get(key, key.replace("-", "_").replace(".", "_"))


def _features(files: Mapping[str, str]) -> dict[str, tuple[str, int]]:
    from provender.nlp.finetuning.builder import values_of

    found: dict[str, dict[str, tuple[str, int]]] = {}
    for split, path in files.items():
        _, payload = next(iter_records(path))
        found[split] = {
            name: ("float" if values.dtype.kind == "f" else "int", len(values))
            for name, values in sorted(values_of(payload).items())
        }
    first, *rest = found
    for split in rest:
        odd = sorted(set(found[split].items()) ^ set(found[first].items()))
        if odd:
            raise SettingsError(
                f"{split} and {first} have different features: {odd[0][0]}.",
                where="--publish",
                hint="The splits of a version have the same ones. Publish them apart.",
            )
    return found[first]


class _Watch:
    """Follows a build."""

    def __init__(self, shards: int, tell: Tell | None) -> None:
        self._shards = shards
        self._tell = tell
        self._done = 0

    def __call__(self, event: Mapping[str, Any]) -> None:
        """Takes in one event of the build."""
        if event["event"] == "done" and event["stage"].startswith("shards/") and self._tell:
            self._done += 1
            self._tell("publish", self._done, self._shards, "shards")
