"""What a builder of pretraining examples says and gives, once text is tokenized and instances planned."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import tensorflow_datasets as tfds

from provender.builders.steps import Serialized
from provender.nlp.pretraining.options import Options
from provender.nlp.pretraining.plans import read_bucket
from provender.nlp.pretraining.work import Work
from provender.nlp.pretraining.writing import columns, records_of
from provender.records.shards import shard_bounds


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
    """The examples of a shard: their numbers, and their records.

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
        for record in records_of(work.store, work.recipe, rows):
            yield key, Serialized(record)
            key += 1
