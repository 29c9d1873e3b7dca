"""Records of files at addresses that TensorFlow cannot open, read through fsspec."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any

import numpy as np

from provender.store.paths import split_scheme


def opens_natively(address: str) -> bool:
    """Whether TensorFlow itself can open an address: a local path or ``gs://``."""
    scheme, _ = split_scheme(address)
    # An emulator is known to fsspec only.
    google = scheme == "gs" and not os.environ.get("STORAGE_EMULATOR_HOST")
    return "::" not in address and (scheme == "file" or google)


def is_remote(address: str) -> bool:
    """Whether each read of an address is a request to another machine."""
    return "::" in address or split_scheme(address)[0] not in ("file", "memory")


def stream_piece(address: Any, start: Any, stop: Any) -> Any:
    """The records of a piece, by fsspec in this process.

    Args:
        address: string [].
        start: int64 [], byte at which the first record begins.
        stop: int64 [], byte after the last.

    Returns:
        A dataset of string [].
    """
    import tensorflow as tf

    blocks = tf.data.Dataset.from_generator(
        _blocks,
        args=(address, start, stop),
        output_signature=tf.TensorSpec([None], tf.string),
    )
    return blocks.unbatch()


def _blocks(address: bytes, start: int, stop: int) -> Iterator[np.ndarray]:
    from provender.data.sources.access import open_reader, place_of
    from provender.data.sources.frames import frames
    from provender.errors import MissingFiles

    url = address.decode()
    file = place_of(url).stat(url)
    if file is None:
        raise MissingFiles(f"{url} is gone.", where=url, hint="Was it removed while it was read?")
    with open_reader(file) as reader:
        for part in frames(reader, file.name, int(start), stop=int(stop)):
            bad = part.damaged()
            if len(bad):
                raise part.error(file.name, int(bad[0]))
            ends = part.starts + part.lengths
            yield np.array(
                [part.data[low:high] for low, high in zip(part.starts, ends, strict=True)], object
            )
