"""A shard written in the order its records come, without runs or sorting."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from pathlib import Path

import google_crc32c
import numpy as np

from provender.records.atomic import AtomicFile
from provender.records.merge import ShardFile
from provender.records.offsets import index_file, index_header
from provender.records.tfrecord import OVERHEAD, frame_joined

_BATCH = 256
_BATCH_BYTES = 32 << 20


def write_records(
    payloads: Iterable[bytes], path: str | Path, index_path: str | Path | None = None
) -> ShardFile:
    """Writes records as one TFRecord file with its offset index; both appear whole or not at all.

    Args:
        payloads: the records, in order; taken in small batches, so memory stays bounded.
        path: the shard; its directory must exist.
        index_path: the offset index; beside the shard when None.

    Raises:
        DiskFull, StoreError: a file cannot be written.
    """
    target = Path(path)
    index_target = index_file(target) if index_path is None else Path(index_path)
    sha, crc, payload_bytes = hashlib.sha256(), 0, 0
    offsets = [np.zeros(1, "<u8")]
    with AtomicFile(target) as shard:
        for batch in _batches(payloads):
            framed, sizes = frame_joined(batch)
            ends = np.cumsum(np.array(sizes, np.uint64) + np.uint64(OVERHEAD))
            offsets.append((ends + np.uint64(shard.size)).astype("<u8"))
            sha.update(framed)
            crc = google_crc32c.extend(crc, framed)
            shard.write(framed)
            payload_bytes += sum(sizes)
    records = sum(map(len, offsets)) - 1
    index = index_header(records) + np.concatenate(offsets).tobytes()
    with AtomicFile(index_target) as file:
        file.write(index)
    return ShardFile(
        target.name,
        shard.size,
        sha.hexdigest(),
        f"{crc:08x}",
        records,
        payload_bytes,
        index_target.name,
        len(index),
        hashlib.sha256(index).hexdigest(),
    )


def _batches(payloads: Iterable[bytes]) -> Iterable[list[bytes]]:
    """Cuts the records into batches of bounded count and, nearly, of bounded size."""
    batch: list[bytes] = []
    size = 0
    for payload in payloads:
        batch.append(payload)
        size += len(payload)
        if len(batch) == _BATCH or size >= _BATCH_BYTES:
            yield batch
            batch, size = [], 0
    if batch:
        yield batch
