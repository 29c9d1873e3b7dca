"""Next-sentence pairs from a batch of documents, for the whole batch at once."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Pairs:
    """Sentences with what follows them.

    Attributes:
        first: string [N].
        second: string [N].
        is_next: bool [N], whether ``second`` follows ``first`` in its document.
    """

    first: Any
    second: Any
    is_next: Any


def sentences(documents: Any) -> Any:
    """String ragged [D, (sentences)] of string [D] with a sentence a line; empty lines are none."""
    import tensorflow as tf

    lines = tf.strings.strip(tf.strings.split(documents, "\n"))
    return tf.ragged.boolean_mask(lines, lines != "")


def next_sentences(documents: Any, seed: Any) -> Pairs:
    """Pairs each sentence with its next one or, half of the time, with a random one.

    The last sentence of a document has no next one, so its pair is always random. A random
    sentence is one of another document of the batch, each as likely as any other. Where the batch
    has sentences of one document only there is none: all pairs but the last sentence's stay next
    ones, and the last sentence has no pair.

    Args:
        documents: string ragged [D, (sentences)].
        seed: int [2].
    """
    import tensorflow as tf

    coin, pick = (tf.random.split(seed, 2)[each] for each in range(2))
    flat, document = documents.flat_values, tf.cast(documents.value_rowids(), tf.int32)
    total = tf.size(flat)
    begins = tf.gather(tf.cast(documents.row_starts(), tf.int32), document)
    own = tf.gather(tf.cast(documents.row_lengths(), tf.int32), document)
    index = tf.range(total)
    last = index == begins + own - 1
    others = total - own
    is_next = tf.logical_not(last) & (
        (tf.random.stateless_uniform([total], coin) < 0.5) | (others == 0)
    )
    # A rank among the sentences of other documents; those of the own document are jumped over.
    noise = tf.random.stateless_uniform([total], pick, dtype=tf.float64)
    rank = tf.minimum(tf.cast(noise * tf.cast(others, tf.float64), tf.int32), others - 1)
    random = tf.where(rank < begins, rank, rank + own)
    second = tf.gather(
        flat, tf.where(is_next, index + 1, tf.maximum(random, 0)) % tf.maximum(total, 1)
    )
    kept = is_next | (others > 0)
    return Pairs(*(tf.boolean_mask(each, kept) for each in (flat, second, is_next)))
