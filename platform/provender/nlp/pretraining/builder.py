"""The builder that makes a version of pretraining examples.

It is data alone: options, fingerprints of text and vocabulary, and the work folder in which the
text lies tokenized and the instances planned. So the engine loads it in worker processes and on
other days like any other builder.
"""

from __future__ import annotations

import functools
import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import tensorflow_datasets as tfds

from provender.errors import BuilderError, UnknownReference
from provender.nlp.pretraining.options import Options
from provender.nlp.pretraining.plans import read_bucket
from provender.nlp.pretraining.work import Work
from provender.nlp.pretraining.writing import columns, instances
from provender.records.shards import shard_bounds

WORK = "work.json"
_AT_ONCE = 1024


class Examples(tfds.core.ShardBasedBuilder, skip_registration=True):  # type: ignore[call-arg]
    """Pretraining examples, in an order that is random already.

    Args:
        dataset: name of the dataset.
        number: version.
        options: how examples are made, as `Options.to_json` says.
        text: fingerprint of the text.
        vocabulary: fingerprint of the vocabulary.
        shards: number of shards.
        folder: the work folder.
        **kwargs: as TFDS gives them.
    """

    PLACES: ClassVar[frozenset[str]] = frozenset({"folder"})
    """Arguments that say where data lie, not what they are."""

    def __init__(
        self,
        *,
        dataset: str,
        number: str,
        options: Mapping[str, Any],
        text: str,
        vocabulary: str,
        shards: int,
        folder: str,
        version: Any = None,
        **kwargs: Any,
    ) -> None:
        if version not in (None, number):
            raise UnknownReference(
                f"These examples are version {number} of {dataset}, not {version}.",
                where=f"{dataset}:{version}",
                hint="`provender nlp create-pretraining-data --publish` makes another version.",
            )
        self.name = dataset
        self.VERSION = tfds.core.Version(number)
        self._options = Options.from_json(options)
        self._text = text
        self._vocabulary = vocabulary
        self._shards = shards
        self._folder = folder
        super().__init__(**kwargs)

    def _info(self) -> Any:
        return info_of(self, self._options)

    def _shard_iterators_per_split(self, dl_manager: Any) -> dict[str, list[Any]]:
        return {"train": [functools.partial(self._examples, each) for each in range(self._shards)]}

    def _examples(self, shard: int) -> Iterator[tuple[int, Any]]:
        file = Path(self._folder) / WORK
        if not file.exists():
            raise BuilderError(
                "The text of these examples does not lie tokenized on this machine any more.",
                where=str(file),
                hint="It is kept until the version stands. Publish it again with the same command.",
            )
        work = Work.from_json(json.loads(file.read_bytes()))
        yield from examples_of(work, shard, self._shards)


def info_of(builder: Any, options: Options) -> Any:
    """What TFDS is told of pretraining examples: a `tfds.core.DatasetInfo`."""
    kinds = {"int": np.int64, "float": np.float32}
    features = {
        each.name: tfds.features.Tensor(shape=(each.length,), dtype=kinds[each.kind])
        for each in columns(options, 1)
    }
    masks = "whole words" if options.do_whole_word_mask else "tokens"
    return tfds.core.DatasetInfo(
        builder=builder,
        description=(
            f"BERT pretraining examples of {options.max_seq_length} tokens, {options.tokenization}, "
            f"masked {masks}, {options.dupe_factor} passes, seed {options.random_seed}."
        ),
        features=tfds.features.FeaturesDict(features),
        disable_shuffling=True,
    )


def examples_of(work: Work, shard: int, shards: int) -> Iterator[tuple[int, Any]]:
    """The examples of a shard: their numbers, and their features as arrays.

    Args:
        work: text tokenized, instances planned.
        shard: its number.
        shards: how many there are.
    """
    counts = work.counts
    key, stop = shard_bounds(int(counts.sum()), shards)[shard]
    ends = np.cumsum(counts)
    while key < stop:
        bucket = int(np.searchsorted(ends, key, "right"))
        before = int(ends[bucket] - counts[bucket])
        rows = read_bucket(work.plans, bucket)[key - before : stop - before]
        for start in range(0, len(rows), _AT_ONCE):
            values = instances(work.store, work.recipe, rows[start : start + _AT_ONCE])
            whole = {name: _typed(each) for name, each in values.items()}
            for i in range(len(rows[start : start + _AT_ONCE])):
                yield key, {name: each[i] for name, each in whole.items()}
                key += 1


def _typed(values: np.ndarray) -> np.ndarray:
    return values if values.dtype == np.float32 else values.astype(np.int64)
