"""Masked language model targets, for a whole batch at once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

MASKED, KEPT = 0.8, 0.1
"""Shares of the chosen tokens that become [MASK] and that stay; the rest becomes a random token."""


@dataclass(frozen=True)
class Masking:
    """How tokens are chosen and replaced.

    Args:
        rate: share of a row's ordinary tokens (with whole words: of its words) to choose.
        max_predictions: most tokens of a row to choose, and the width of the outputs.
        mask_id: what a masked token becomes.
        never: ids that are neither chosen nor inserted: padding, [CLS], [SEP] and their like.
        vocabulary_size: random tokens are drawn from ids below it.
        continuations: ids that continue a word, for whole word masks; None chooses single tokens.
    """

    rate: float
    max_predictions: int
    mask_id: int
    never: tuple[int, ...]
    vocabulary_size: int
    continuations: tuple[int, ...] | None = None


@dataclass(frozen=True)
class Masked:
    """A batch after masking, all of the same rows.

    Attributes:
        ids: int32 [B, L], with replacements.
        positions: int32 [B, P], ascending, 0 where unused.
        labels: int32 [B, P], the ids that were there, 0 where unused.
        weights: float32 [B, P], 1 where used.
    """

    ids: Any
    positions: Any
    labels: Any
    weights: Any


def mask_tokens(ids: Any, masking: Masking, seed: Any) -> Masked:
    """Chooses tokens and replaces 80 % by [MASK], 10 % by a random token, and leaves 10 %.

    Of ``n`` candidates ``ceil(rate * n)`` are chosen, never more tokens than
    ``max_predictions``; a whole word is chosen wholly or not at all.

    Args:
        ids: int32 [B, L].
        masking: the rules.
        seed: int [2]. The same seed and batch give the same masks.
    """
    import tensorflow as tf

    choice, replacement, token = (tf.random.split(seed, 3)[each] for each in range(3))
    length = ids.shape[1]
    width = min(masking.max_predictions, length)
    candidates = tf.logical_not(_among(ids, masking.never))
    chosen = _chosen(ids, candidates, masking, width, choice)

    descending = tf.range(length, 0, -1)
    found, positions = tf.math.top_k(tf.where(chosen, descending, 0), k=width)
    used = found > 0
    labels = tf.where(used, tf.gather(ids, positions, batch_dims=1), 0)

    noise = tf.random.stateless_uniform(tf.shape(ids), replacement)
    random = _random_ids(tf.shape(ids), masking, token)
    new = tf.where(noise < MASKED, masking.mask_id, tf.where(noise < MASKED + KEPT, ids, random))
    missing = [[0, 0], [0, masking.max_predictions - width]]
    return Masked(
        ids=tf.where(chosen, new, ids),
        positions=tf.pad(tf.where(used, positions, 0), missing),
        labels=tf.pad(labels, missing),
        weights=tf.pad(tf.cast(used, tf.float32), missing),
    )


def _chosen(ids: Any, candidates: Any, masking: Masking, width: int, seed: Any) -> Any:
    """Bool [B, L]: whole units (tokens or words) in random order while there is room."""
    import tensorflow as tf

    shape = tf.shape(ids)
    starts = candidates
    if masking.continuations is not None:
        starts = candidates & tf.logical_not(_among(ids, masking.continuations))
    # A continuation without a start before it (cut by trimming) belongs to the word before.
    unit = tf.maximum(tf.cumsum(tf.cast(starts, tf.int32), axis=1) - 1, 0)
    sizes = _sizes(unit, candidates)
    exists = sizes > 0
    noise = tf.random.stateless_uniform(shape, seed)
    found, order = tf.math.top_k(tf.where(exists, noise, -1.0), k=width)
    count = tf.math.ceil(
        masking.rate * tf.cast(tf.math.count_nonzero(exists, axis=1, keepdims=True), tf.float32)
    )
    taken = tf.cumsum(tf.gather(sizes, order, batch_dims=1), axis=1)
    keep = (
        (found >= 0)
        & (tf.cast(tf.range(width), tf.float32)[tf.newaxis] < count)
        & (taken <= masking.max_predictions)
    )
    rows = tf.broadcast_to(tf.range(shape[0])[:, tf.newaxis], tf.shape(order))
    kept = tf.scatter_nd(tf.stack([rows, order], axis=-1), tf.cast(keep, tf.int32), shape) > 0
    return candidates & tf.gather(kept, unit, batch_dims=1)


def _sizes(unit: Any, candidates: Any) -> Any:
    """Int32 [B, L]: how many candidates each unit has."""
    import tensorflow as tf

    shape = tf.shape(unit)
    flat = unit + (tf.range(shape[0]) * shape[1])[:, tf.newaxis]
    counted = tf.math.unsorted_segment_sum(
        tf.reshape(tf.cast(candidates, tf.int32), [-1]),
        tf.reshape(flat, [-1]),
        shape[0] * shape[1],
    )
    return tf.reshape(counted, shape)


def _random_ids(shape: Any, masking: Masking, seed: Any) -> Any:
    """Ids drawn evenly from those below the vocabulary's size that are not in ``never``.

    With the forbidden ids sorted, a draw from the allowed ranks becomes an id by adding one for
    each forbidden id at or below it: no table of the vocabulary is needed.
    """
    import tensorflow as tf

    never = sorted({each for each in masking.never if 0 <= each < masking.vocabulary_size})
    drawn = tf.random.stateless_uniform(
        shape, seed, maxval=masking.vocabulary_size - len(never), dtype=tf.int32
    )
    for each in never:
        drawn += tf.cast(drawn >= each, tf.int32)
    return drawn


def _among(ids: Any, wanted: Sequence[int]) -> Any:
    import tensorflow as tf

    if len(wanted) > 16:
        # Ids beyond the table are ordinary ones.
        table = tf.scatter_nd(
            tf.constant(wanted, tf.int32)[:, tf.newaxis],
            tf.ones([len(wanted)], tf.int32),
            [max(wanted) + 2],
        )
        return tf.gather(table, tf.minimum(ids, max(wanted) + 1)) > 0
    found = tf.zeros_like(ids, tf.bool)
    for each in wanted:
        found |= ids == each
    return found
