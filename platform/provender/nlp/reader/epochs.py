"""Files, or pieces of them, in the order of each epoch, and the records in them.

The order of an epoch is a function of the seed, of the iterator's number and of the epoch's number,
and the same on every host; each host reads its turns of it. An epoch ends before the next begins,
so the hosts of a job read every record once in each.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from provender.nlp.config import DataConfig
from provender.nlp.reader.sharing import Share, epoch_seed

_FOR_EVER = 1 << 62
_OPEN = 16
"""Units read in turns where nothing is said: a fixed number, or the order would depend on the
machine."""

_BUFFER = 256 << 10
"""Bytes that are read of a file at a time."""

_SECOND = 1
"""The second half of seeds, so that no seed means the pair that TensorFlow takes for none."""


@dataclass(frozen=True)
class Epochs:
    """How units, files or pieces of files, are read one epoch after the other.

    Attributes:
        params: the configuration.
        share: the part of this pipeline.
        seed: of the order of the units: the same in every pipeline. None draws one for each
            iterator, as the workers of a service need, each of which reads everything.
        by_record: whether each pipeline reads all units and keeps its turns of the records.
        remote: whether each read of a unit takes its time, so that several at once pay.
    """

    params: DataConfig
    share: Share
    seed: int | None
    by_record: bool = False
    remote: bool = False

    def read(
        self,
        units: Any,
        read: Callable[..., Any],
        prepare: Callable[[Any], Any] | None = None,
    ) -> Any:
        """The records of units.

        Args:
            units: nested arrays, one entry a unit, shape ``[units]`` each.
            read: one unit -> dataset of its records.
            prepare: what is done to the dataset of units before they are read.

        Returns:
            A dataset of records: endless and shuffled in training, unless they are to be cached.
        """
        import tensorflow as tf

        count = len(tf.nest.flatten(units)[0])

        def in_order(order: Any) -> Any:
            chosen = tf.nest.map_structure(lambda each: tf.gather(each, order), units)
            data = tf.data.Dataset.from_tensor_slices(chosen)
            return self._in_turns(prepare(data) if prepare else data, self._mine(count), read)

        return self._of_epochs(count, in_order)

    def read_files(self, addresses: Sequence[str], compression: str = "") -> Any:
        """The records of whole TFRecord files that TensorFlow opens itself; see `read`.

        Opening a file by a function of the dataset costs as much as reading some hundred records.
        So in training each of the files that are open at a time is followed by the next of its
        row, read by the same operation. Files of one size come in the order that `read` gives.

        Args:
            addresses: the files.
            compression: see `tf.data.TFRecordDataset`.
        """
        import tensorflow as tf

        files = tf.constant(list(addresses))
        mine = self._mine(len(addresses))
        rows = mine
        if self.params.is_training:
            rows = min(mine, self.params.cycle_length or _OPEN)

        def in_order(order: Any) -> Any:
            filled = tf.pad(order, [[0, -mine % max(rows, 1)]], constant_values=-1)
            by_row = tf.transpose(tf.reshape(filled, [-(-mine // max(rows, 1)), rows]))
            return self._in_turns(tf.data.Dataset.from_tensor_slices(by_row), rows, read)

        def read(numbers: Any) -> Any:
            return records_of(tf.gather(files, tf.boolean_mask(numbers, numbers >= 0)), compression)

        return self._of_epochs(len(addresses), in_order)

    def _of_epochs(self, count: int, in_order: Callable[[Any], Any]) -> Any:
        """The records of one epoch after the other.

        Args:
            count: units there are.
            in_order: numbers of the units of this pipeline, in order -> dataset of their records.
        """
        import tensorflow as tf

        repeats = bool(self.params.is_training) and not self.params.cache

        def one(order_seed: Any, record_seed: Any, epoch: Any) -> Any:
            data = in_order(self.mine(count, order_seed, epoch))
            if not repeats:
                return data
            return data.shuffle(
                self.params.shuffle_buffer_size,
                seed=epoch_seed(record_seed, epoch),
                reshuffle_each_iteration=False,
            )

        if not self.params.is_training:
            return in_order(self._turns(tf.range(count, dtype=tf.int64)))
        return self._epochs(_FOR_EVER if repeats else 1).flat_map(one)

    def _epochs(self, stop: int) -> Any:
        """(seed of the units' order, seed of the records' order, number) of each epoch."""
        import tensorflow as tf

        # Hosts need not agree on how each shuffles its own records.
        numbers = tf.data.Dataset.zip((drawn(self.seed), drawn(self.params.seed)))
        return numbers.flat_map(
            lambda order, record: tf.data.Dataset.range(stop).map(
                lambda epoch: (order, record, epoch)
            )
        )

    def mine(self, count: int, order_seed: Any, epoch: Any) -> Any:
        """The units of this pipeline in an epoch of training, in order.

        Args:
            count: units there are.
            order_seed: int64 [], the same in every pipeline.
            epoch: int64 [].

        Returns:
            int64 [units of this pipeline].
        """
        import tensorflow as tf

        order = tf.random.experimental.stateless_shuffle(
            tf.range(count, dtype=tf.int64), seed=tf.stack([order_seed, epoch])
        )
        return self._turns(order)

    def _turns(self, order: Any) -> Any:
        return order if self.by_record else order[self.share.index :: self.share.count]

    def _mine(self, count: int) -> int:
        """Units of this pipeline, of so many: those of the pipeline that has the most."""
        return count if self.by_record else len(range(self.share.index, count, self.share.count))

    def _in_turns(self, units: Any, count: int, read: Callable[..., Any]) -> Any:
        import tensorflow as tf

        params = self.params
        turns = self.by_record and self.share.count > 1
        if count == 1:
            data = units.flat_map(read)
        else:
            data = units.interleave(
                read,
                cycle_length=params.cycle_length or min(max(count, 1), _OPEN),
                block_length=params.block_length,
                # Handing single records from thread to thread costs more than all else together,
                # and a local disk reads ahead without threads.
                num_parallel_calls=tf.data.AUTOTUNE if self.remote else None,
                # Records that are shared out by turns must come in the same order everywhere.
                deterministic=(True if turns else params.deterministic) if self.remote else None,
            )
        return data.shard(self.share.count, self.share.index) if turns else data


def records_of(files: Any, compression: str) -> Any:
    """The records of files, one file after the other.

    Args:
        files: addresses, string [] or ``[files]``.
        compression: see `tf.data.TFRecordDataset`, which is a dataset of datasets of single files.
    """
    import tensorflow as tf

    variant = tf.raw_ops.TFRecordDataset(
        filenames=tf.reshape(files, [-1]), compression_type=compression, buffer_size=_BUFFER
    )
    return tf.data.experimental.from_variant(variant, tf.TensorSpec([], tf.string))


def drawn(seed: int | None) -> Any:
    """One number, a new one for each iterator that is made of the dataset.

    The n-th iterator gets the n-th number that follows from the seed, so hosts that make iterators
    in step draw the same ones, whatever `tf.random.set_seed` was told on each.

    Args:
        seed: None draws numbers that nothing tells.

    Returns:
        A dataset of one int64 [].
    """
    import tensorflow as tf

    # `tf.data.Dataset.random` mixes TensorFlow's global seed in; its operation does not.
    pair = (0, 0) if seed is None else (seed % (1 << 63), _SECOND)
    variant = tf.raw_ops.RandomDatasetV2(
        seed=tf.constant(pair[0], tf.int64),
        seed2=tf.constant(pair[1], tf.int64),
        seed_generator=tf.raw_ops.DummySeedGenerator(),
        rerandomize_each_iteration=True,
        output_types=[tf.int64],
        output_shapes=[tf.TensorShape([])],
    )
    return tf.data.experimental.from_variant(variant, tf.TensorSpec([], tf.int64)).take(1)
