"""Examples of a prepared TFDS dataset, in the order in which they are stored.

TFRecord files are read without TensorFlow, whose import costs more than most such datasets.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from itertools import islice
from pathlib import Path
from typing import Any, BinaryIO, cast

from provender.records.atomic import told_as_ours
from provender.records.tfrecord import iter_records


def examples(builder: Any, split: str, columns: Sequence[str]) -> Iterator[Mapping[str, Any]]:
    """The examples of a split.

    Args:
        builder: TFDS's, with its data prepared.
        split: TFDS's expression of one.
        columns: features that are read.

    Raises:
        StoreError: a file cannot be read.
        DamageError: a file is damaged.
    """
    if builder.info.file_format.value != "tfrecord":
        yield from _by_tfds(builder, split, columns)
        return
    from provender.training.rows import decoder_of

    decode = decoder_of(builder.info.features.to_json(), columns, builder.info.full_name)
    for part in builder.info.splits[split].file_instructions:
        stop = None if part.take == -1 else part.skip + part.take
        with told_as_ours(Path(part.filename)), _opened(str(part.filename)) as file:
            records = islice(iter_records(file), part.skip, stop)
            yield from (decode(payload) for _, payload in records)


def _opened(name: str) -> AbstractContextManager[BinaryIO]:
    import fsspec

    return cast("AbstractContextManager[BinaryIO]", fsspec.open(name, "rb"))


def _by_tfds(builder: Any, split: str, columns: Sequence[str]) -> Iterator[Mapping[str, Any]]:
    import tensorflow_datasets as tfds

    if builder.info.file_format.value == "array_record":
        # TFDS gives these by number only, and whole.
        yield from builder.as_data_source(split=split)
        return
    data = builder.as_dataset(
        split=split,
        shuffle_files=False,
        decoders=tfds.decode.PartialDecoding(dict.fromkeys(columns, True)),
        read_config=tfds.ReadConfig(interleave_cycle_length=1),
    )
    yield from tfds.as_numpy(data)
