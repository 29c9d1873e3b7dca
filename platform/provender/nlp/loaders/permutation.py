"""XLNet's factorisation orders: who may attend whom, and what is predicted, for a batch at once.

Source: Yang et al., XLNet: Generalized Autoregressive Pretraining for Language Understanding
(2019), sections 2.2, 2.3 and appendix A.2.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Targets:
    """What the model predicts.

    Attributes:
        mapping: int32 [B, P, L], a one at the place of each target, rows of zeros where unused.
        ids: int32 [B, P], 0 where unused.
        mask: int32 [B, P], 1 where used.
    """

    mapping: Any
    ids: Any
    mask: Any


def attention(
    predicted: Any,
    *,
    permutation_size: int,
    reuse_length: int,
    leak_ratio: float,
    seed: Any,
) -> Any:
    """Int32 [B, L, L], 1 where token i may attend token j.

    Tokens that are not predicted are seen by all, and see only such tokens. Predicted tokens come
    in a random order inside each block of ``permutation_size``, block after block; each sees those
    before it and not itself. With probability ``leak_ratio`` a predicted token leaks: it is seen
    by all, itself included, and sees what a token sees that is not predicted. With
    ``reuse_length`` the two parts have orders of their own: the second sees the whole first, the
    first nothing of the second.

    Args:
        predicted: bool [B, L].
        permutation_size: tokens of a block.
        reuse_length: tokens of the first part; 0 for one part.
        leak_ratio: probability that a predicted token leaks.
        seed: int [2].
    """
    import tensorflow as tf

    length = predicted.shape[1]
    order, leak = (tf.random.split(seed, 2)[each] for each in range(2))
    ranks = _ranks(tf.shape(predicted)[0], length, permutation_size, order)
    leaking = tf.random.stateless_uniform(tf.shape(predicted), leak) < leak_ratio
    rank = tf.where(predicted & tf.logical_not(leaking), ranks, -1)
    seen = rank[:, tf.newaxis, :]
    allowed = (seen < rank[:, :, tf.newaxis]) | (seen < 0)
    if reuse_length:
        second = tf.range(length) >= reuse_length
        later = tf.logical_not(second)[:, tf.newaxis] & second[tf.newaxis, :]
        earlier = second[:, tf.newaxis] & tf.logical_not(second)[tf.newaxis, :]
        allowed = (allowed | earlier) & tf.logical_not(later)
    return tf.cast(allowed, tf.int32)


def _ranks(rows: Any, length: int, size: int, seed: Any) -> Any:
    """Int32 [B, L]: the place of each token in its row's order; blocks follow one another."""
    import tensorflow as tf

    blocks = length // size
    noise = tf.random.stateless_uniform([rows, blocks, size], seed)
    inside = tf.argsort(noise, axis=-1)
    ranks = inside + (tf.range(blocks) * size)[tf.newaxis, :, tf.newaxis]
    return tf.reshape(ranks, [rows, length])


def targets(ids: Any, predicted: Any, max_predictions: int) -> Targets:
    """The predicted tokens in order of place, padded to ``max_predictions``.

    Args:
        ids: int32 [B, L].
        predicted: bool [B, L], at most ``max_predictions`` a row.
        max_predictions: P.
    """
    import tensorflow as tf

    length = ids.shape[1]
    width = min(max_predictions, length)
    found, places = tf.math.top_k(tf.where(predicted, tf.range(length, 0, -1), 0), k=width)
    used = tf.cast(found > 0, tf.int32)
    missing = [[0, 0], [0, max_predictions - width]]
    mapping = tf.one_hot(places, length, dtype=tf.int32) * used[:, :, tf.newaxis]
    return Targets(
        mapping=tf.pad(mapping, [*missing, [0, 0]]),
        ids=tf.pad(tf.gather(ids, places, batch_dims=1) * used, missing),
        mask=tf.pad(used, missing),
    )
