"""Several ragged segments as one padded row: ``[CLS] A [SEP] B [SEP]``."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from provender.errors import SettingsError
from provender.nlp.loaders.vocabulary import Tokenizer

ROUND_ROBIN, WATERFALL = "round_robin", "waterfall"


def pack(
    segments: Sequence[Any], tokenizer: Tokenizer, seq_length: int, trim: str = ROUND_ROBIN
) -> tuple[Any, Any, Any]:
    """Trims the segments to fit, joins them and pads the row.

    Args:
        segments: int32 ragged [B, (ids)], each of the same rows.
        tokenizer: names [CLS], [SEP] and the padding.
        seq_length: L.
        trim: ``round_robin`` deals the room out token by token, segment by segment;
            ``waterfall`` gives it to the first segments first.

    Returns:
        Ids, mask (1 where a token is) and type ids (the segment's number), int32 [B, L] each.
    """
    import tensorflow as tf
    import tensorflow_text

    room = seq_length - len(segments) - 1
    kind = (
        tensorflow_text.RoundRobinTrimmer
        if trim == ROUND_ROBIN
        else tensorflow_text.WaterfallTrimmer
    )
    # One segment is only cut; the trimmers cost more.
    trimmed = [segments[0][:, :room]] if len(segments) == 1 else kind(room).trim(list(segments))
    ids, types = tensorflow_text.combine_segments(
        trimmed,
        start_of_sequence_id=tokenizer.cls_id,
        end_of_segment_id=tokenizer.sep_id,
    )
    lengths = tf.cast(ids.row_lengths(), tf.int32)
    rows = ids.to_tensor(tokenizer.pad_id, shape=[None, seq_length])
    mask = tf.sequence_mask(lengths, seq_length, tf.int32)
    return rows, mask, types.to_tensor(0, shape=[None, seq_length])


def check_room(seq_length: int, segments: int) -> None:
    """Raises SettingsError where not one token of each segment has room beside the special ones."""
    least = 2 * segments + 1
    if seq_length < least:
        raise SettingsError(
            f"seq_length {seq_length} has no room for {segments} segments.",
            where="seq_length",
            hint=f"Use at least {least}.",
        )
