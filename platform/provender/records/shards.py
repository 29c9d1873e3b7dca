"""How many shards a split gets, where each begins, and what it is called: TFDS's rules.

The automatic count and the boundaries follow `tensorflow_datasets` exactly (its
``ShardConfig`` and ``get_shard_boundaries``); a published number of shards is part of the order
that users slice, so these rules may never drift. Unlike there, other minimum and maximum sizes are
honoured, and the search ends for any input.
"""

from __future__ import annotations

import math

from provender.errors import BuilderError

MIN_SHARD_BYTES = 64 << 20
MAX_SHARD_BYTES = 1 << 30
MAX_BEAM_SHARD_BYTES = int(0.9 * (1 << 30))
"""Shards cut by ranges differ in size; TFDS aims lower, so that few exceed the maximum."""
# A TFRecord adds a u64 length, a u32 checksum of it, and a u32 checksum of the data.
RECORD_OVERHEAD = 16

_STEP = 1024


def shard_count(
    total_bytes: int,
    examples: int,
    requested: int | None = None,
    min_size: int = MIN_SHARD_BYTES,
    max_size: int = MAX_SHARD_BYTES,
) -> int:
    """The number of shards of a split.

    Args:
        total_bytes: sum of the serialized examples, in bytes, without TFRecord framing.
        examples: number of examples.
        requested: a number the builder or the user asked for; wins over the sizes.
        min_size: no shard should be smaller than this many bytes.
        max_size: no shard should be larger than this many bytes.

    Raises:
        BuilderError: ``requested`` is not positive or exceeds the number of examples, or the two
            sizes make no sense.
    """
    if requested is not None:
        if requested < 1 or requested > max(examples, 1):
            raise BuilderError(
                f"{requested} shards were asked for, but there are {examples} examples.",
                hint=f"ask for 1 to {max(examples, 1)} shards, or for none in particular",
                facts={"requested": requested, "examples": examples},
            )
        return requested
    if min_size < 1 or max_size < min_size:
        raise BuilderError(
            f"Shard sizes from {min_size} to {max_size} bytes make no sense.",
            hint="give 1 <= min_size <= max_size",
            facts={"min_size": min_size, "max_size": max_size},
        )
    framed = total_bytes + examples * RECORD_OVERHEAD
    most = framed // min_size
    least = framed // max_size
    if least > _STEP:
        return _large_count(least, examples)
    if most >= _STEP and examples >= _STEP:
        return _STEP
    for count in (512, 256, 128, 64, 32, 16, 8, 4, 2):
        if least <= count <= most and examples >= count:
            return count
    return 1


def _large_count(least: int, examples: int) -> int:
    """The smallest multiple of 1024 (from 2048) that is enough, as far as there are examples.

    With fewer examples than that (each of them then being larger than a shard should be), TFDS
    searches for ever; one example a shard is the nearest there is.
    """
    count = max(2, -(-least // _STEP)) * _STEP
    return count if examples >= count else max(examples, 1)


def shard_bounds(examples: int, shards: int) -> list[tuple[int, int]]:
    """The ``(start, end)`` ranks of each shard, in order, together ``[0, examples)``.

    Args:
        examples: number of examples, at least ``shards``.
        shards: number of shards, at least 1.

    Raises:
        BuilderError: fewer examples than shards, or no shard.
    """
    if shards < 1 or examples < shards:
        raise BuilderError(
            f"{examples} examples cannot fill {shards} shards.",
            hint="ask for fewer shards, or check why so few examples were generated",
            facts={"examples": examples, "shards": shards},
        )
    ends = [round(examples * i / shards) for i in range(1, shards + 1)]
    return list(zip([0, *ends[:-1]], ends, strict=True))


def range_shard(place: int, shards: int, largest: int) -> int:
    """The shard of an example where shards are equal ranges of the order, as TFDS cuts for Beam.

    Unlike with `shard_bounds` the shards hold unequal numbers of examples, and nobody has to know
    how many examples come before this one.

    Args:
        place: the example's number in the order: its key's 128-bit hash, or the key itself.
        shards: number of shards, at least 1.
        largest: the largest place of the split.
    """
    if largest <= 0:
        return 0
    return max(0, min(math.trunc((place * shards) / largest), shards - 1))


def shard_name(dataset: str, split: str, index: int, count: int, suffix: str = "tfrecord") -> str:
    """TFDS's default file name, e.g. ``mnist-train.tfrecord-00000-of-00001``.

    Args:
        dataset: dataset name, without config.
        split: split name.
        index: shard number from 0.
        count: number of shards of the split.
        suffix: file format.
    """
    digits = max(len(str(count)), 5)
    return f"{dataset}-{split}.{suffix}-{index:0{digits}d}-of-{count:0{digits}d}"
