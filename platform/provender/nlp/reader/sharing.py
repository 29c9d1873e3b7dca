"""What each of several input pipelines reads; decided from the configuration alone.

Every pipeline computes the same order from the same configuration, and takes its turns of it. So
pipelines read disjoint data without a word between them, and without a seed from the user.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from provender.errors import SettingsError


@dataclass(frozen=True, slots=True)
class Share:
    """The part of one input pipeline.

    Attributes:
        index: this pipeline, from 0.
        count: pipelines that share the data out; 1 where each reads all of it.
    """

    index: int = 0
    count: int = 1

    @classmethod
    def of(cls, input_context: Any, sharding: bool) -> Share:
        """The share that a `tf.distribute.InputContext` means; all of it without one."""
        if input_context is None or not sharding or input_context.num_input_pipelines == 1:
            return cls()
        return cls(int(input_context.input_pipeline_id), int(input_context.num_input_pipelines))


def agreed_seed(seed: int | None, names: Sequence[str]) -> int:
    """The seed of an order that all pipelines must have in common.

    Args:
        seed: the user's, or None.
        names: of what is put in order; only their last parts count, since hosts may have mounted
            the same files elsewhere.

    Returns:
        The user's seed, or else one made of the names: the same on every host and in every run.
    """
    if seed is not None:
        return seed
    text = "\n".join(name.rpartition("/")[2] for name in names)
    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=4).digest(), "little") >> 1


def epoch_seed(base: Any, epoch: Any) -> Any:
    """The seed of one epoch's shuffle: a function of the seed and the epoch's number.

    So no generator holds state that a checkpoint would have to keep.

    Args:
        base: int64 [].
        epoch: int64 [].
    """
    # An odd factor spreads neighbours over the range; seed + epoch would give seed 1 the orders
    # of seed 0, one epoch late.
    return base * 6364136223846793005 + epoch * 1442695041


def batch_rows(global_batch_size: int, input_context: Any) -> int:
    """The rows of a batch: those of one replica.

    Raises:
        SettingsError: there is no batch size, or it cannot be divided among the replicas.
    """
    if global_batch_size < 1:
        raise SettingsError(
            f"global_batch_size is {global_batch_size}, so no batch can be made.",
            where="global_batch_size",
            hint="Set the number of examples of a step, over all replicas.",
        )
    replicas = input_context.num_replicas_in_sync if input_context is not None else 1
    if global_batch_size % replicas:
        raise SettingsError(
            f"global_batch_size {global_batch_size} cannot be divided by {replicas} replicas.",
            where="global_batch_size",
            hint=f"Use a multiple of {replicas}, such as "
            f"{-(-global_batch_size // replicas) * replicas}.",
        )
    return global_batch_size // replicas
