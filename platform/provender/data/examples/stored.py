"""What many examples store under one name."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from provender.errors import DamageError
from provender.training.wire import Values

NOTHING, BYTES, FLOATS, INTS = 0, 1, 2, 3
"""Kinds of lists, by their field number in ``tf.train.Feature``."""


@dataclass(slots=True)
class Stored:
    """The values of one name in many examples, one example after another.

    Attributes:
        kind: BYTES, FLOATS or INTS; NOTHING where no example has values.
        counts: values in each example, int64.
        values: a large_binary array, or float32 or int64.
        absent: which examples lack the name, or None where none does.
    """

    kind: int
    counts: np.ndarray
    values: Any
    absent: np.ndarray | None = None


def from_parsed(name: str, examples: Sequence[dict[str, Values]]) -> Stored:
    """The values of one name, from examples that were parsed one by one.

    Raises:
        DamageError: they are of several kinds.
    """
    found = [each.get(name) for each in examples]
    counts = np.array([0 if each is None else len(each) for each in found], np.int64)
    flat: list[Any] = [value for each in found if each for value in each]
    absent = np.array([each is None for each in found])
    kinds = {type(value) for value in flat}
    if len(kinds) > 1:
        raise DamageError(
            f"Feature {name!r} is of several kinds: {', '.join(sorted(k.__name__ for k in kinds))}."
        )
    kind = {bytes: BYTES, float: FLOATS, int: INTS}.get(next(iter(kinds), type(None)), NOTHING)
    values: Any
    if kind == FLOATS:
        values = np.array(flat, np.float32)
    elif kind == INTS:
        values = np.array(flat, np.int64)
    else:
        values = pa.array(flat, pa.large_binary())
    return Stored(kind, counts, values, absent if absent.any() else None)


def nothing(count: int) -> Stored:
    """A name that none of ``count`` examples has."""
    return Stored(NOTHING, np.zeros(count, np.int64), None, np.ones(count, bool))
