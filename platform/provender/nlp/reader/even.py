"""Evaluation on several hosts: each has its part of the records, and all have as many steps.

A host that ends a step before the others leaves them waiting in their next collective operation.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from provender.errors import SettingsError
from provender.nlp.reader.sharing import Share


def even_ranges(
    lengths: Sequence[int], share: Share, drop_remainder: bool, where: str
) -> list[tuple[int, int, int]]:
    """The records of one host, if they are shared out evenly in the order of the files.

    Args:
        lengths: records of each file.
        share: this host, of how many.
        drop_remainder: whether every host gets the same number, so that some may be left out;
            otherwise hosts differ by one at most.
        where: the source, for the message.

    Returns:
        (number of the file, first record, one after the last), without empty ones.

    Raises:
        SettingsError: each host must have as many, and there are fewer records than hosts.
    """
    total = sum(lengths)
    each, rest = divmod(total, share.count)
    if drop_remainder:
        if not each:
            raise SettingsError(
                f"{share.count} hosts cannot share {total} records evenly.",
                where=where,
                hint="Set drop_remainder: false, or use fewer hosts.",
            )
        rest = 0
    begin = share.index * each + min(share.index, rest)
    end = begin + each + (share.index < rest)
    found, at = [], 0
    for number, length in enumerate(lengths):
        first, last = max(begin - at, 0), min(end - at, length)
        if first < last:
            found.append((number, first, last))
        at += length
    return found


@dataclass(frozen=True, slots=True)
class Counts:
    """Records of hosts that share an evaluation evenly and leave none out.

    Attributes:
        mine: of this host.
        most: of the host that has the most.
    """

    mine: int
    most: int

    @classmethod
    def of(cls, total: int, share: Share) -> Counts:
        """The counts of the hosts that share so many records; see `even_ranges`."""
        each, rest = divmod(total, share.count)
        return cls(each + (share.index < rest), each + (rest > 0))


def as_many_batches(data: Any, rows: int, counts: Counts) -> Any:
    """Batches of a host, as many as the host makes that has the most records.

    Where a host has records for one batch less, its last one is cut in two. If there are too few
    records for that, a batch without any rows comes last.

    Args:
        data: single examples.
        rows: of a full batch.
        counts: examples there are, and those of the host that has the most: one more, or as many.
    """
    import tensorflow as tf

    batches = data.batch(rows)
    if -(-counts.mine // rows) == -(-counts.most // rows):
        return batches
    if counts.mine < 2 or rows < 2:
        return batches.concatenate(tf.data.Dataset.from_tensors(_without_rows(batches)))
    last = counts.mine // rows - 1

    def parts(number: Any, batch: Any) -> Any:
        is_last = tf.equal(number, last)
        cut = tf.where(is_last, rows // 2, rows)
        first = tf.nest.map_structure(lambda each: each[:cut], batch)
        second = tf.nest.map_structure(lambda each: each[cut:], batch)
        both = tf.data.Dataset.from_tensors(first).concatenate(tf.data.Dataset.from_tensors(second))
        return both.take(1 + tf.cast(is_last, tf.int64))

    plain = tf.autograph.experimental.do_not_convert(parts)
    return batches.enumerate().flat_map(plain)


def _without_rows(batches: Any) -> Any:
    import tensorflow as tf

    def empty(spec: Any) -> Any:
        return tf.zeros([0, *(size or 0 for size in spec.shape[1:])], spec.dtype)

    return tf.nest.map_structure(empty, batches.element_spec)
