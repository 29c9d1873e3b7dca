"""Files, or pieces of them, in the order of each epoch, and the records in them.

The order of an epoch is a function of the seed and the epoch's number, and the same on every host;
each host reads its turns of it. An epoch ends before the next begins, so the hosts of a job read
every record once in each.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from provender.nlp.config import DataConfig
from provender.nlp.reader.sharing import Share, epoch_seed

_FOR_EVER = 1 << 62
_OPEN = 16
"""Units read in turns where nothing is said: a fixed number, or the order would depend on the
machine."""


@dataclass(frozen=True)
class Epochs:
    """How units, files or pieces of files, are read one epoch after the other.

    Attributes:
        params: the configuration.
        share: the part of this pipeline.
        seed: of the order of the units: the same in every pipeline.
        by_record: whether each pipeline reads all units and keeps its turns of the records.
        remote: whether each read of a unit takes its time, so that several at once pay.
    """

    params: DataConfig
    share: Share
    seed: int
    by_record: bool = False
    remote: bool = False

    def read(
        self,
        units: Any,
        read: Callable[..., Any],
        prepare: Callable[[Any], Any] | None = None,
    ) -> Any:
        """The records.

        Args:
            units: nested arrays, one entry a unit, shape ``[units]`` each.
            read: one unit -> dataset of its records.
            prepare: what is done to the dataset of units before they are read.

        Returns:
            A dataset of records: endless and shuffled in training, unless they are to be cached.
        """
        import tensorflow as tf

        count = len(tf.nest.flatten(units)[0])
        repeats = bool(self.params.is_training) and not self.params.cache
        drawn = self.params.seed
        # Hosts need not agree on how each shuffles its own records.
        base = drawn if drawn is not None else random.SystemRandom().getrandbits(31)

        def one(epoch: Any) -> Any:
            order = self._mine(count, epoch)
            chosen = tf.nest.map_structure(lambda each: tf.gather(each, order), units)
            data = tf.data.Dataset.from_tensor_slices(chosen)
            data = self._records(prepare(data) if prepare else data, count, read)
            if repeats:
                data = data.shuffle(
                    self.params.shuffle_buffer_size,
                    seed=epoch_seed(base, epoch),
                    reshuffle_each_iteration=False,
                )
            return data

        if not repeats:
            return one(tf.constant(0, tf.int64))
        return tf.data.Dataset.range(_FOR_EVER).flat_map(one)

    def _mine(self, count: int, epoch: Any) -> Any:
        """The units of this pipeline in an epoch, in order."""
        import tensorflow as tf

        order = tf.range(count, dtype=tf.int64)
        if self.params.is_training:
            order = tf.random.experimental.stateless_shuffle(
                order, seed=tf.stack([tf.constant(self.seed, tf.int64), epoch])
            )
        return order if self.by_record else order[self.share.index :: self.share.count]

    def _records(self, units: Any, count: int, read: Callable[..., Any]) -> Any:
        import tensorflow as tf

        params = self.params
        turns = self.by_record and self.share.count > 1
        mine = count if self.by_record else -(-count // self.share.count)
        if mine == 1:
            data = units.flat_map(read)
        else:
            data = units.interleave(
                read,
                cycle_length=params.cycle_length or min(mine, _OPEN),
                block_length=params.block_length,
                # Handing single records from thread to thread costs more than all else together,
                # and a local disk reads ahead without threads.
                num_parallel_calls=tf.data.AUTOTUNE if self.remote else None,
                # Records that are shared out by turns must come in the same order everywhere.
                deterministic=(True if turns else params.deterministic) if self.remote else None,
            )
        return data.shard(self.share.count, self.share.index) if turns else data
