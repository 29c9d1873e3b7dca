"""What the features of an example are to packing."""

from __future__ import annotations

from dataclasses import dataclass

SEGMENTS = "segment_ids"
POSITIONS = "position_ids"


@dataclass(frozen=True)
class Fields:
    """The roles of features; one that has none is refused, since packing would lose it.

    Args:
        tokens: features with a value for each token, [examples, length], each with its padding
            value. The packed ones are [rows, row length].
        length: the feature of `tokens` that is not 0 on an example's tokens; an example ends after
            its last value that is not 0. Not looked at where features are ragged.
        mask_positions: positions of masked tokens, [examples, slots]; "" where there are none.
        mask_weights: above 0 on each slot that is used, [examples, slots].
        mask_values: the other features of a slot, [examples, slots].
        labels: features with one value for each example, [examples] or [examples, 1]. The packed
            ones are [rows, segments], 0 beyond the row's last segment.
        label_positions: name for the position of each segment's first token, [rows, segments]; it
            is where a BERT finds the segment's [CLS].
        label_weights: name for what is 1.0 on each segment that is there, float32 [rows, segments].
    """

    tokens: tuple[tuple[str, int], ...]
    length: str
    mask_positions: str = ""
    mask_weights: str = ""
    mask_values: tuple[str, ...] = ()
    labels: tuple[str, ...] = ()
    label_positions: str = "label_positions"
    label_weights: str = "label_weights"

    @property
    def names(self) -> tuple[str, ...]:
        """Every feature that has a role, in the order of the roles."""
        masks = (self.mask_positions, *self.mask_values, self.mask_weights)
        return (
            *(name for name, _ in self.tokens),
            *(name for name in masks if name),
            *self.labels,
        )


def bert_fields(*, next_sentence: bool = True, position_ids: bool = False) -> Fields:
    """The roles in BERT pretraining data, by the names that the loaders give out.

    Args:
        next_sentence: whether there are next_sentence_labels.
        position_ids: whether the records hold position_ids. Without, they are made: 0 at the first
            token of each segment.
    """
    names = ["input_word_ids", "input_mask", "input_type_ids"]
    if position_ids:
        names.append(POSITIONS)
    return Fields(
        tokens=tuple((each, 0) for each in names),
        length="input_mask",
        mask_positions="masked_lm_positions",
        mask_weights="masked_lm_weights",
        mask_values=("masked_lm_ids",),
        labels=("next_sentence_labels",) if next_sentence else (),
        label_positions="next_sentence_positions",
        label_weights="next_sentence_weights",
    )


def token_fields(*names: str, labels: tuple[str, ...] = (), length: str = "") -> Fields:
    """The roles for any model over tokens.

    Args:
        names: features with a value for each token, padded with 0.
        labels: features with one value for each example.
        length: which of `names` tells where an example ends; the first if not given.
    """
    return Fields(tuple((each, 0) for each in names), length or names[0], labels=labels)
