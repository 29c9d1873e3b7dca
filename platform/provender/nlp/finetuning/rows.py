"""What tasks of sentences and pairs are made of: texts and what is known of them."""

from __future__ import annotations

import pickle
import tempfile
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

_SPOOLED = 16 << 20


@dataclass(frozen=True)
class Row:
    """One example, before it is tokenized.

    Attributes:
        texts: of its segments.
        label: number of its class, a number in regression, or None.
        weight: how much it counts, or None.
        example_id: its id; None for its place in the file.
    """

    texts: tuple[str, ...]
    label: int | float | None = None
    weight: float | None = None
    example_id: int | None = None


def in_order(items: Iterable[Any], key: Callable[[Any], int]) -> Iterator[Any]:
    """Items in the order of a key; those of equal keys in theirs.

    They wait on disk: in memory is their keys and where they lie, 16 bytes each.

    Args:
        items: anything that can be pickled.
        key: of an item.
    """
    keys: list[int] = []
    ends: list[int] = [0]
    with tempfile.SpooledTemporaryFile(_SPOOLED) as file:
        for each in items:
            keys.append(key(each))
            ends.append(ends[-1] + file.write(pickle.dumps(each, pickle.HIGHEST_PROTOCOL)))
        at = np.array(ends, np.int64)
        for i in np.argsort(np.array(keys, np.int64), kind="stable"):
            file.seek(at[i])
            yield pickle.loads(file.read(int(at[i + 1] - at[i])))  # noqa: S301 (written above)
