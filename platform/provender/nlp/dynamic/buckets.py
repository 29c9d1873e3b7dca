"""The decisions of dynamic length: which buckets there are, and what one batch of each holds.

Everything here is arithmetic on a config, free of TensorFlow, so that a config which cannot work is
refused before anything is read.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass

from provender import errors


@dataclass(frozen=True)
class Bucket:
    """One length that batches are padded to.

    Args:
        length: tokens of every row of a batch.
        rows: examples in one replica's batch.
        mask_slots: masked positions of every row; None leaves as many as the records have.
    """

    length: int
    rows: int
    mask_slots: int | None = None


def plan_buckets(
    lengths: Sequence[int],
    *,
    rows: int,
    tokens: int | None = None,
    mask_slots: Sequence[int] = (),
) -> tuple[Bucket, ...]:
    """The buckets of one replica.

    Args:
        lengths: the buckets' lengths in tokens, ascending.
        rows: examples in a replica's batch, the same in every bucket; not looked at with `tokens`.
        tokens: tokens (padding counted) that a replica's batch may hold: a bucket then has
            ``tokens // length`` rows.
        mask_slots: masked positions of each bucket; empty leaves as many as the records have.

    Raises:
        SettingsError: no lengths, lengths that do not ascend, other numbers of slots than lengths,
            slots that shrink, no rows, or a budget that some bucket has no row in.
    """
    lengths = tuple(lengths)
    if not lengths:
        raise errors.SettingsError(
            "There are no buckets: seq_bucket_lengths is empty.",
            hint="Give at least one length, the longest as long as the data: (128, 256, 384, 512).",
        )
    if lengths[0] < 1 or any(left >= right for left, right in itertools.pairwise(lengths)):
        raise errors.SettingsError(
            f"seq_bucket_lengths must be positive and ascend, but are {lengths}.",
            hint="Sort them and leave each out that is there twice.",
        )
    slots = _checked_slots(lengths, tuple(mask_slots))
    if tokens is None:
        if rows < 1:
            raise errors.SettingsError(
                f"A replica's batch would have {rows} rows.",
                hint="Raise global_batch_size to one example for each replica at least.",
            )
        return tuple(Bucket(each, rows, slot) for each, slot in zip(lengths, slots, strict=True))
    if tokens < lengths[-1]:
        raise errors.SettingsError(
            f"The token budget is too small: {tokens} tokens a replica hold no row of "
            f"{lengths[-1]} tokens.",
            hint=f"Raise seq_bucket_token_budget to {lengths[-1]} for each replica at least.",
        )
    return tuple(
        Bucket(each, tokens // each, slot) for each, slot in zip(lengths, slots, strict=True)
    )


def _checked_slots(lengths: tuple[int, ...], slots: tuple[int, ...]) -> tuple[int | None, ...]:
    if not slots:
        return (None,) * len(lengths)
    if len(slots) != len(lengths):
        raise errors.SettingsError(
            f"There are {len(slots)} numbers of mask slots for {len(lengths)} buckets.",
            hint="Give seq_bucket_mask_slots one number for each of seq_bucket_lengths.",
        )
    if slots[0] < 1 or any(left > right for left, right in itertools.pairwise(slots)):
        raise errors.SettingsError(
            f"seq_bucket_mask_slots must be positive and may not shrink, but are {slots}.",
            hint="A longer bucket needs as many slots as a shorter one, or more.",
        )
    return slots


def scaled_mask_slots(lengths: Sequence[int], *, rate: float, most: int) -> tuple[int, ...]:
    """As many mask slots as a row of each length can fill.

    `create_pretraining_data` masks ``min(most, max(1, round(rate * tokens)))`` tokens of an example,
    so no row of a bucket can need more than ``ceil(rate * length)``.

    Args:
        lengths: the buckets' lengths in tokens.
        rate: share of the tokens that were masked when the records were made, in (0, 1].
        most: max_predictions_per_seq of the records.

    Returns:
        The slots of each bucket, e.g. (20, 39, 58, 76) for lengths (128, 256, 384, 512), rate 0.15
        and most 76.

    Raises:
        SettingsError: the rate is not in (0, 1], or `most` is below 1.
    """
    if not 0 < rate <= 1:
        raise errors.SettingsError(
            f"masked_lm_prob must be above 0 and at most 1, but is {rate}.",
            hint="Give the share of masked tokens that the records were made with, usually 0.15.",
        )
    if most < 1:
        raise errors.SettingsError(
            f"max_predictions_per_seq must be 1 or more, but is {most}.",
            hint="Give the number of mask slots that the records were made with, usually 76.",
        )
    return tuple(min(most, max(1, math.ceil(rate * each))) for each in lengths)


def window_batches(replicas: int, *, scale: int, shared: bool, round_robin: bool) -> int:
    """Batches of one length that are handed out together.

    Within one pipeline a window of one batch for each replica is enough. A data service that is not
    asked for round robin serves whoever comes first, so neighbours in the stream go to different
    steps now and then; a window `scale` times as wide makes that rare.

    Args:
        replicas: replicas that train in step, on all hosts together.
        scale: how many times wider the window of a first-come service is.
        shared: whether a data service hands the batches out.
        round_robin: whether it hands them out in rounds.

    Raises:
        SettingsError: `scale` is below 1.
    """
    if scale < 1:
        raise errors.SettingsError(
            f"seq_bucket_window_scale must be 1 or more, but is {scale}.",
            hint="8 is the usual value.",
        )
    return replicas * (scale if shared and not round_robin else 1)


def finer(longest: int, *, step: int) -> tuple[int, ...]:
    """Bucket lengths every `step` tokens up to `longest`, which is always the last.

    Raises:
        SettingsError: `step` or `longest` is below 1.
    """
    if step < 1 or longest < 1:
        raise errors.SettingsError(
            f"Buckets up to {longest} every {step} tokens make no sense.",
            hint="Both numbers must be 1 or more.",
        )
    return (*range(step, longest, step), longest)
