"""The builder that makes a version of files of fine-tuning records.

It is data alone: what the files hold, and where they lie. So the engine loads it in worker processes
and on other days like any other builder.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator, Mapping
from itertools import islice
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import tensorflow_datasets as tfds

from provender.errors import BuilderError, UnknownReference
from provender.records.shards import shard_bounds
from provender.records.tfrecord import iter_records
from provender.training.messages import example_class

KINDS = {"int": np.int64, "float": np.float32}


class Records(tfds.core.ShardBasedBuilder, skip_registration=True):  # type: ignore[call-arg]
    """Fine-tuning records, in the order of their files.

    Args:
        dataset: name of the dataset.
        number: version.
        contents: split -> digest of its file, and its records.
        features: name -> kind and length of each feature.
        metadata: what training must know, as the metadata file says.
        shards: split -> number of shards.
        files: split -> its file.
        **kwargs: as TFDS gives them.
    """

    PLACES: ClassVar[frozenset[str]] = frozenset({"files"})
    """Arguments that say where data lie, not what they are."""

    def __init__(
        self,
        *,
        dataset: str,
        number: str,
        contents: Mapping[str, Any],
        features: Mapping[str, tuple[str, int]],
        metadata: Mapping[str, Any],
        shards: Mapping[str, int],
        files: Mapping[str, str],
        version: Any = None,
        **kwargs: Any,
    ) -> None:
        if version not in (None, number):
            raise UnknownReference(
                f"These records are version {number} of {dataset}, not {version}.",
                where=f"{dataset}:{version}",
                hint="`provender nlp create-finetuning-data --publish` makes another version.",
            )
        self.name = dataset
        self.VERSION = tfds.core.Version(number)
        self._contents = contents
        self._features = features
        self._told = metadata
        self._shards = shards
        self._files = files
        super().__init__(**kwargs)

    def _info(self) -> Any:
        labels = self._told.get("label_names") or self._told.get("label_list")
        classes = f" Classes by number: {', '.join(labels)}." if labels else ""
        return tfds.core.DatasetInfo(
            builder=self,
            description=(
                f"Fine-tuning records of {self._told['max_seq_length']} tokens for "
                f"{self._told.get('processor_type', self._told['task_type'])}.{classes}"
            ),
            features=tfds.features.FeaturesDict(
                {
                    name: tfds.features.Tensor(shape=(length,), dtype=KINDS[kind])
                    for name, (kind, length) in self._features.items()
                }
            ),
            metadata=tfds.core.MetadataDict(self._told),
            disable_shuffling=True,
        )

    def _shard_iterators_per_split(self, dl_manager: Any) -> dict[str, list[Any]]:
        return {
            split: [functools.partial(self._examples, split, each) for each in range(count)]
            for split, count in self._shards.items()
        }

    def _examples(self, split: str, shard: int) -> Iterator[tuple[int, Any]]:
        path = Path(self._files[split])
        if not path.exists():
            raise BuilderError(
                "The file of these records is not there any more.",
                where=str(path),
                hint="Make it and publish it again with the same command.",
            )
        first, stop = shard_bounds(self._contents[split]["records"], self._shards[split])[shard]
        for key, (_, payload) in enumerate(islice(iter_records(path), first, stop), first):
            yield key, values_of(payload)


def values_of(payload: bytes) -> dict[str, np.ndarray]:
    """The features of a serialized ``tf.train.Example`` without texts."""
    found = {}
    for name, each in example_class().FromString(payload).features.feature.items():
        if each.HasField("float_list"):
            found[name] = np.array(each.float_list.value, np.float32)
        else:
            found[name] = np.array(each.int64_list.value, np.int64)
    return found
