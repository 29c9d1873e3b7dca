"""The builder that makes a version of a dataset's rows.

It is data alone: columns, fingerprints of the rows, and the folder where they lie. So the engine
loads it in worker processes and on other days like any other builder.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Mapping
from typing import Any, ClassVar

import tensorflow_datasets as tfds

from provender.data.features import (
    Features,
    FeatureType,
    Image,
    LargeList,
    List,
    TranslationVariableLanguages,
)
from provender.data.features.compound import _Array
from provender.data.features.tfds import to_tfds
from provender.data.formats import formatter
from provender.data.publishing.rows import read_rows
from provender.errors import UnknownReference
from provender.records.shards import shard_bounds

Convert = Callable[[Any], Any]


class Rows(tfds.core.ShardBasedBuilder, skip_registration=True):  # type: ignore[call-arg]
    """Rows of a dataset, shard by shard, in their order.

    Args:
        dataset: name of the dataset.
        number: version.
        variant: name of the config, or None.
        columns: the features as JSON.
        channels: column -> channels of images whose feature does not say.
        splits: split -> ``fingerprint`` of its rows, ``rows``, ``shards``.
        about: description.
        folder: where the rows lie.
        **kwargs: as TFDS gives them.
    """

    PLACES: ClassVar[frozenset[str]] = frozenset({"folder"})
    """Arguments that say where data lie, not what they are."""

    def __init__(
        self,
        *,
        dataset: str,
        number: str,
        variant: str | None,
        columns: Mapping[str, Any],
        channels: Mapping[str, int],
        splits: Mapping[str, Mapping[str, Any]],
        about: str,
        folder: str,
        config: Any = None,
        version: Any = None,
        **kwargs: Any,
    ) -> None:
        if version not in (None, number):
            raise UnknownReference(
                f"The rows of {dataset} are those of version {number}, not {version}.",
                where=f"{dataset}:{version}",
                hint="A dataset's versions are published from its rows: ds.publish(...).",
            )
        self.name = dataset
        self.VERSION = tfds.core.Version(number)
        self._columns = Features.from_dict(columns)
        self._channels = channels
        self._splits = splits
        self._about = about
        self._folder = folder
        if variant:
            config = tfds.core.BuilderConfig(name=variant, version=self.VERSION)
        super().__init__(config=config, **kwargs)

    def _info(self) -> Any:
        return tfds.core.DatasetInfo(
            builder=self,
            description=self._about,
            features=to_tfds(self._columns, self._channels),
            disable_shuffling=True,
        )

    def _shard_iterators_per_split(self, dl_manager: Any) -> dict[str, list[Any]]:
        return {
            split: [
                functools.partial(self._rows, split, shard, start, stop)
                for shard, (start, stop) in enumerate(shard_bounds(each["rows"], each["shards"]))
            ]
            for split, each in self._splits.items()
        }

    def _rows(self, split: str, shard: int, start: int, stop: int) -> Iterator[tuple[int, Any]]:
        plain = formatter("python")
        converts = {
            name: made
            for name, feature in self._columns.items()
            if (made := converter(feature)) is not None
        }
        key = start
        for table in read_rows(self._folder, split, shard, stop - start):
            for row in plain.rows(table):
                for name, convert in converts.items():
                    row[name] = convert(row[name])
                yield key, row
                key += 1


def converter(feature: FeatureType) -> Convert | None:
    """What makes of a stored value what the TFDS feature of its column takes; None: nothing."""
    if isinstance(feature, Mapping):
        parts = {name: made for name, each in feature.items() if (made := converter(each))}
        if not parts:
            return None
        return lambda value: {
            name: parts[name](each) if name in parts else each for name, each in value.items()
        }
    if isinstance(feature, List | LargeList):
        inner = converter(feature.feature)
        return None if inner is None else lambda value: [inner(each) for each in value]
    if isinstance(feature, Image):
        return feature.content
    if isinstance(feature, _Array):
        return _tensor(feature)
    if isinstance(feature, TranslationVariableLanguages):
        return _by_language
    return None


def _tensor(feature: _Array) -> Convert:
    import numpy as np

    dtype: Any = object if feature.dtype in ("string", "binary") else np.dtype(feature.dtype)
    shape = [-1 if each is None else each for each in feature.shape]
    if feature.shape[0] is None:
        return lambda value: np.asarray(value, dtype).reshape(len(value), *shape[1:])
    return lambda value: np.asarray(value, dtype).reshape(shape)


def _by_language(value: Mapping[str, Any]) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for language, text in zip(value["language"], value["translation"], strict=True):
        found.setdefault(language, []).append(text)
    return found
