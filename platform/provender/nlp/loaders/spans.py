"""Which tokens XLNet predicts: single ones, words, or spans of either, for a whole batch at once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

STRATEGIES = ("single_token", "whole_word", "token_span", "word_span")

_WORD_SPAN_CORRECTION = 1.2
"""A word has more than one token, so spans of words need less context between them."""


@dataclass(frozen=True)
class Spans:
    """How spans are drawn.

    Args:
        strategy: one of `STRATEGIES`.
        max_predictions: most tokens of a row to predict.
        shortest: least tokens or words of a span.
        longest: most tokens or words of a span.
    """

    strategy: str
    max_predictions: int
    shortest: int = 1
    longest: int = 5


def choose(boundaries: Any, candidates: Any, spans: Spans, seed: Any) -> Any:
    """Bool [B, L]: the tokens to predict.

    A row's spans are taken in random order until they have ``max_predictions`` candidates; the
    last one is cut to fit.

    Args:
        boundaries: int32 ragged [B, (words + 1)]: where words begin, the last one L.
        candidates: bool [B, L]: tokens that may be predicted, [SEP] and [CLS] not among them.
        spans: the rules.
        seed: int [2].
    """
    import tensorflow as tf

    draw, order = (tf.random.split(seed, 2)[each] for each in range(2))
    rows, seq_length = tf.shape(candidates)[0], candidates.shape[1]
    if spans.strategy == "single_token":
        begins = tf.broadcast_to(tf.range(seq_length), [rows, seq_length])
        ends = begins + 1
        valid = tf.ones_like(begins, tf.bool)
    elif spans.strategy == "whole_word":
        begins, ends, valid = _words(boundaries)
    elif spans.strategy == "token_span":
        alpha = seq_length / spans.max_predictions
        begins, ends = _drawn(rows, seq_length, alpha, spans, draw)
        valid = ends < seq_length
    else:
        alpha = seq_length / spans.max_predictions / _WORD_SPAN_CORRECTION
        begins, ends, valid = _word_spans(boundaries, seq_length, alpha, spans, draw)
    return _taken(begins, ends, valid, candidates, spans.max_predictions, order)


def _words(boundaries: Any) -> tuple[Any, Any, Any]:
    import tensorflow as tf

    starts = boundaries.to_tensor()
    count = tf.cast(boundaries.row_lengths(), tf.int32)[:, tf.newaxis]
    begins, ends = starts[:, :-1], starts[:, 1:]
    valid = tf.range(tf.shape(begins)[1])[tf.newaxis] < count - 1
    return begins, ends, valid


def _drawn(rows: Any, length: int, alpha: float, spans: Spans, seed: Any) -> tuple[Any, Any]:
    """Begins and ends int32 [B, n] of spans with context: each gets ``alpha`` times its size of
    room and lies at a random place in it. Their sizes have weights 1 / (size + 1)."""
    import tensorflow as tf

    size, place = (tf.random.split(seed, 2)[each] for each in range(2))
    # As many as could ever fit if all were of the shortest size.
    count = int(length / (spans.shortest * max(alpha, 1.0))) + 1
    sizes = tf.gather(
        tf.range(spans.shortest, spans.longest + 1),
        _weighted(weights(spans), [rows, count], size),
    )
    room = tf.cast(sizes, tf.float32) * alpha
    free = tf.maximum(room - tf.cast(sizes, tf.float32), 0.0)
    offset = tf.random.stateless_uniform([rows, count], place) * free
    begins = tf.cast(tf.round(tf.cumsum(room, axis=1, exclusive=True) + offset), tf.int32)
    return begins, begins + sizes


def weights(spans: Spans) -> list[float]:
    """Probabilities of the sizes from shortest to longest, in proportion to 1 / (size + 1)."""
    raw = [1.0 / (each + 1) for each in range(spans.shortest, spans.longest + 1)]
    return [each / sum(raw) for each in raw]


def _weighted(shares: Sequence[float], shape: Any, seed: Any) -> Any:
    import tensorflow as tf

    edges = tf.cumsum(tf.constant(shares, tf.float32))[:-1]
    noise = tf.random.stateless_uniform(shape, seed)
    return tf.reduce_sum(tf.cast(noise[..., tf.newaxis] >= edges, tf.int32), axis=-1)


def _word_spans(
    boundaries: Any, seq_length: int, alpha: float, spans: Spans, seed: Any
) -> tuple[Any, Any, Any]:
    import tensorflow as tf

    rows = boundaries.nrows(out_type=tf.int32)
    first, last = _drawn(rows, seq_length, alpha, spans, seed)
    starts = boundaries.to_tensor()
    count = tf.cast(boundaries.row_lengths(), tf.int32)[:, tf.newaxis]
    valid = last < count - 1
    limit = tf.maximum(count - 1, 0)
    begins = tf.gather(starts, tf.minimum(first, limit), batch_dims=1)
    ends = tf.gather(starts, tf.minimum(last, limit), batch_dims=1)
    return begins, ends, valid


def _taken(begins: Any, ends: Any, valid: Any, candidates: Any, most: int, seed: Any) -> Any:
    """The first ``most`` candidates when the spans, which do not overlap, are put in random order."""
    import tensorflow as tf

    shape = tf.shape(candidates)
    length = candidates.shape[1]
    number, inside = _span_of(begins, ends, valid, shape)
    noise = tf.random.stateless_uniform([shape[0], length + 1], seed)
    # Tokens of one span share its noise, and top_k keeps the order of places among equals.
    key = tf.where(inside & candidates, tf.gather(noise, number, batch_dims=1), -1.0)
    found, places = tf.math.top_k(key, k=min(most, length))
    rows = tf.broadcast_to(tf.range(shape[0])[:, tf.newaxis], tf.shape(places))
    taken = tf.cast(found >= 0, tf.int32)
    return tf.scatter_nd(tf.stack([rows, places], axis=-1), taken, shape) > 0


def _span_of(begins: Any, ends: Any, valid: Any, shape: Any) -> tuple[Any, Any]:
    """Of each token: the number of the last span that began, and whether it is in it."""
    import tensorflow as tf

    rows = tf.broadcast_to(tf.range(shape[0])[:, tf.newaxis], tf.shape(begins))
    step = tf.cast(valid, tf.int32)

    def marks(places: Any) -> Any:
        places = tf.clip_by_value(places, 0, shape[1])
        wide = tf.stack([shape[0], shape[1] + 1])
        return tf.scatter_nd(tf.stack([rows, places], axis=-1), step, wide)[:, :-1]

    begun = tf.cumsum(marks(begins), axis=1)
    return begun, begun > tf.cumsum(marks(ends), axis=1)
