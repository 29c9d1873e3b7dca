"""Streams: rows read one after another, with exact positions, from data larger than the disk.

How it is built, from below: a `leaf` reads a source; each operator is a `node` (the plan) and a
`flow` (the running thing), one file for each; `plan` rewrites a chain so that it does less;
`passing` makes it ready for an epoch, a node and a worker; `core` iterates.
"""

from __future__ import annotations

from provender.data.stream.combining import concatenate_streams, interleave_streams
from provender.data.stream.dataset import (
    IterableDataset,
    IterableDatasetDict,
    split_dataset_by_node,
)

__all__ = [
    "IterableDataset",
    "IterableDatasetDict",
    "concatenate_streams",
    "interleave_streams",
    "split_dataset_by_node",
]
