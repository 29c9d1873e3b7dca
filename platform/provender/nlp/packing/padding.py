"""How much of what a model computes is padding."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Padding:
    """Tokens and the cells that hold them.

    Args:
        examples: examples seen; those of a packed row count each.
        tokens: cells with a token.
        cells: cells altogether, rows times their length.
    """

    examples: int = 0
    tokens: int = 0
    cells: int = 0

    @property
    def share(self) -> float:
        """Share of the cells that is padding, 0 if there are none."""
        return 1 - self.tokens / self.cells if self.cells else 0.0

    def __add__(self, other: Padding) -> Padding:
        return Padding(
            self.examples + other.examples,
            self.tokens + other.tokens,
            self.cells + other.cells,
        )

    def gain_over(self, other: Padding) -> float:
        """How many times fewer cells each token takes than in `other`; 0 if either is empty."""
        if not self.cells or not other.tokens:
            return 0.0
        return (other.cells / other.tokens) * (self.tokens / self.cells)


def padding_of(
    batches: Iterable[Mapping[str, Any]],
    *,
    mask: str = "input_mask",
    segments: str = "segment_ids",
    limit: int | None = None,
) -> Padding:
    """Counts batches of any loader: static, dynamic or packed.

    Args:
        batches: mappings of arrays or eager tensors, e.g. a `tf.data.Dataset`.
        mask: the feature [rows, length] that is not 0 on tokens.
        segments: the feature [rows, length] that numbers a row's examples; without it a row is
            one example.
        limit: batches to look at, for data without end; None looks at all.
    """
    import numpy as np

    total = Padding()
    for batch in itertools.islice(batches, limit):
        there = np.asarray(batch[mask])
        numbers = np.asarray(batch[segments]) if segments in batch else None
        examples = len(there) if numbers is None else int(numbers.max(axis=1, initial=0).sum())
        total += Padding(examples, int(np.count_nonzero(there)), there.size)
    return total
