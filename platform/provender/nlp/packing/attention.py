"""Who may attend to whom in a packed row: the tokens of one segment to each other."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import numpy as np


def attention_mask(segment_ids: Any) -> Any:
    """The block-diagonal mask of packed rows, as a TensorFlow graph.

    Args:
        segment_ids: int [rows, length], 0 is padding.

    Returns:
        bool [rows, length, length]: whether token i (second axis) may attend to token j (third).
        Padding attends to nothing and nothing to it. Keras's MultiHeadAttention takes it as its
        ``attention_mask``.
    """
    import tensorflow as tf

    same = segment_ids[:, :, None] == segment_ids[:, None, :]
    return same & tf.not_equal(segment_ids, 0)[:, None, :]


def attention_mask_numpy(segment_ids: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """`attention_mask` in numpy, with the same result."""
    same: Any = segment_ids[:, :, None] == segment_ids[:, None, :]
    return same & (segment_ids != 0)[:, None, :]  # type: ignore[no-any-return]
