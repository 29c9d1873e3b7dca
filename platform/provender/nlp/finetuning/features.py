"""Names, lengths and kinds of the features of records, as TF-NLP's loaders read them."""

from __future__ import annotations

import numpy as np

Feature = tuple[int, type]
"""Length and numpy type."""
_MASKED = ("input_ids", "input_mask", "segment_ids")


def pair_features(
    length: int, label: type | None = np.int64, *, weighted: bool = False
) -> dict[str, Feature]:
    """Features of sentences and pairs.

    Args:
        length: tokens of a record.
        label: numpy type of labels: int64 for classes, float32 for numbers; None for none.
        weighted: whether records have weights.
    """
    found: dict[str, Feature] = dict.fromkeys(_MASKED, (length, np.int64))
    found |= dict.fromkeys(("is_real_example", "example_id"), (1, np.int64))
    if label is not None:
        found["label_ids"] = 1, label
    if weighted:
        found["weight"] = 1, np.float32
    return found


def window_features(length: int) -> dict[str, Feature]:
    """Features of windows over passages, for SQuAD.

    Args:
        length: tokens of a record.
    """
    single = ("unique_ids", "class_index", "start_positions", "end_positions", "is_impossible")
    found: dict[str, Feature] = dict.fromkeys((*_MASKED, "paragraph_mask"), (length, np.int64))
    return found | dict.fromkeys(single, (1, np.int64))


def tagging_features(length: int) -> dict[str, Feature]:
    """Features of sentences whose words have labels.

    Args:
        length: tokens of a record.
    """
    found: dict[str, Feature] = dict.fromkeys((*_MASKED, "label_ids"), (length, np.int64))
    return found | dict.fromkeys(("sentence_id", "sub_sentence_id"), (1, np.int64))
