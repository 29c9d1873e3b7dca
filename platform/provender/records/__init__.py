"""From examples to TFRecord shards that are byte-identical to TFDS's, without TensorFlow.

The way of a split: `compile_encoder` and `KeyHasher` -> `RunWriter.write_part` (any number of
parts, each in its own process) -> `plan_order` -> `shard_count`, `shard_bounds`, `write_shard`
(each shard in any process). `ShardReader` reads a shard at random.
"""

from __future__ import annotations

from provender.records.keys import KeyHasher
from provender.records.merge import Order, ShardFile, plan_order, write_shard
from provender.records.offsets import ShardReader, read_offsets, write_offsets
from provender.records.runfile import ChunkDigest, Run
from provender.records.runs import PartResult, RunWriter, split_digest
from provender.records.shards import shard_bounds, shard_count, shard_name
from provender.records.tfrecord import frame, iter_records
from provender.records.wire import check_features, compile_encoder

__all__ = [
    "ChunkDigest",
    "KeyHasher",
    "Order",
    "PartResult",
    "Run",
    "RunWriter",
    "ShardFile",
    "ShardReader",
    "check_features",
    "compile_encoder",
    "frame",
    "iter_records",
    "plan_order",
    "read_offsets",
    "shard_bounds",
    "shard_count",
    "shard_name",
    "split_digest",
    "write_offsets",
    "write_shard",
]
