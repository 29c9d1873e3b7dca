"""Buckets of sentence pairs by length, for batches of about as many tokens each."""

from __future__ import annotations

from provender.errors import SettingsError

_SHORTEST = 8
_GROWTH = 1.1


def upper_ends(max_length: int) -> list[int]:
    """Where buckets end: bucket k takes lengths below end k, from the end before it on.

    The first ends at 8 and each further one about a tenth later, so that padding is at most about
    a tenth; the last takes ``max_length`` itself.
    """
    ends = []
    end = _SHORTEST
    while end < max_length:
        ends.append(end)
        end = max(end + 1, int(end * _GROWTH))
    return [*ends, max_length + 1]


def rows_per_bucket(tokens: int, ends: list[int]) -> list[int]:
    """Rows of a batch of each bucket: as many as fit the budget when each has the bucket's end.

    Args:
        tokens: of a batch of one replica.
        ends: of the buckets.

    Raises:
        SettingsError: not one row of the longest bucket fits.
    """
    rows = [tokens // end for end in ends]
    if not all(rows):
        raise SettingsError(
            f"The token budget, global batch size, is too small: {tokens} tokens a replica, and a "
            f"row may have {ends[-1]}.",
            where="global_batch_size",
            hint=f"Use at least {ends[-1]} tokens a replica, or a smaller max_seq_length.",
        )
    return rows
