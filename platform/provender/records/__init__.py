"""From examples to TFRecord shards that are byte-identical to TFDS's, without TensorFlow.

The way of a split: `compile_encoder` and `KeyHasher` -> `RunWriter.write_part` (any number of
parts, each in its own process) -> `plan_order` -> `shard_count`, `shard_bounds`, `write_shard`
(each shard in any process). `ShardReader` reads a shard at random.

Names are imported on first use: a plan needs `shard_count`, but no numpy.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from provender.records.keys import KeyHasher as KeyHasher
    from provender.records.merge import Order as Order
    from provender.records.merge import ShardFile as ShardFile
    from provender.records.merge import plan_order as plan_order
    from provender.records.merge import write_shard as write_shard
    from provender.records.offsets import ShardReader as ShardReader
    from provender.records.offsets import read_offsets as read_offsets
    from provender.records.offsets import write_offsets as write_offsets
    from provender.records.runfile import ChunkDigest as ChunkDigest
    from provender.records.runfile import Run as Run
    from provender.records.runs import PartResult as PartResult
    from provender.records.runs import RunWriter as RunWriter
    from provender.records.runs import split_digest as split_digest
    from provender.records.schema import check_features as check_features
    from provender.records.sequence import write_records as write_records
    from provender.records.shards import shard_bounds as shard_bounds
    from provender.records.shards import shard_count as shard_count
    from provender.records.shards import shard_name as shard_name
    from provender.records.tfrecord import frame as frame
    from provender.records.tfrecord import iter_records as iter_records
    from provender.records.wire import compile_encoder as compile_encoder

_HOME = {
    "ChunkDigest": "runfile",
    "KeyHasher": "keys",
    "Order": "merge",
    "PartResult": "runs",
    "Run": "runfile",
    "RunWriter": "runs",
    "ShardFile": "merge",
    "ShardReader": "offsets",
    "check_features": "schema",
    "compile_encoder": "wire",
    "frame": "tfrecord",
    "iter_records": "tfrecord",
    "plan_order": "merge",
    "read_offsets": "offsets",
    "shard_bounds": "shards",
    "shard_count": "shards",
    "shard_name": "shards",
    "split_digest": "runs",
    "write_offsets": "offsets",
    "write_records": "sequence",
    "write_shard": "merge",
}

__all__ = sorted(_HOME)


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        message = f"module {__name__!r} has no attribute {name!r}"
        raise AttributeError(message)
    value = getattr(import_module(f"provender.records.{_HOME[name]}"), name)
    globals()[name] = value
    return value
