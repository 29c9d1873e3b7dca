"""Small TFRecord files and the records that a reader gives."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from tests.upkeep.conftest import copied, engine, gcs_bucket, gcs_server, notes

__all__ = ["copied", "engine", "gcs_bucket", "gcs_server", "notes"]


def example(number: int, length: int = 4) -> bytes:
    """A serialized example: ``number`` [1], ``ids`` [length] of the number, ``weights`` [2]."""
    import tensorflow as tf

    def ints(values: Iterable[int]) -> Any:
        return tf.train.Feature(int64_list=tf.train.Int64List(value=values))

    floats = tf.train.Feature(float_list=tf.train.FloatList(value=[number / 2, 1.0]))
    features = {"number": ints([number]), "ids": ints([number] * length), "weights": floats}
    made = tf.train.Example(features=tf.train.Features(feature=features))
    return bytes(made.SerializeToString(deterministic=True))


def features(length: int = 4) -> dict[str, Any]:
    """What `example` holds."""
    import tensorflow as tf

    return {
        "number": tf.io.FixedLenFeature([], tf.int64),
        "ids": tf.io.FixedLenFeature([length], tf.int64),
        "weights": tf.io.FixedLenFeature([2], tf.float32),
    }


def write(path: Path, records: Iterable[bytes]) -> str:
    """Writes a TFRecord file, with Provender's own framing."""
    from provender.records.tfrecord import frame

    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(b"".join(frame(list(records))))
    return str(path)


def write_numbers(folder: Path, sizes: Iterable[int], length: int = 4) -> list[str]:
    """Files of so many examples each, numbered through."""
    files, at = [], 0
    for number, size in enumerate(sizes):
        records = [example(each, length) for each in range(at, at + size)]
        files.append(write(folder / f"part-{number:02d}.tfrecord", records))
        at += size
    return files


def context(index: int, count: int, replicas: int | None = None) -> Any:
    """The context of one input pipeline."""
    import tensorflow as tf

    return tf.distribute.InputContext(count, index, replicas or count)


def numbers(dataset: Any, steps: int | None = None, key: str = "number") -> list[int]:
    """The numbers of examples, batch by batch, in one list."""
    data = dataset if steps is None else dataset.take(steps)
    found: list[int] = []
    for batch in data:
        value = batch[0] if isinstance(batch, tuple) else batch
        found += np.ravel(value[key].numpy()).tolist()
    return found


@pytest.fixture(scope="session")
def data() -> SimpleNamespace:
    """The functions of this module, which tests cannot import."""
    functions: list[Callable[..., Any]] = [
        example, features, write, write_numbers, context, numbers,
    ]  # fmt: skip
    return SimpleNamespace(**{each.__name__: each for each in functions})
