"""Files cut at the beginnings of records, so that many hosts share few files.

A record can be found from any byte: its header proves itself by its checksum, and so does what
follows. So a file is cut without an index and without reading it: around each cut a few kilobytes
are looked at, and every host, looking at the same bytes, finds the same place. (Records whose
payload is itself a TFRecord file would be taken for what they hold; no `tf.train.Example` is one.)
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from provender.data.sources.access import DataFile

_WINDOW = 64 << 10
_BATCH = 256
"""Records that are looked at together to find the end of a piece."""


@dataclass(frozen=True, slots=True)
class Piece:
    """Consecutive records of a TFRecord file.

    Attributes:
        address: of the file.
        start: byte at which the first record begins.
        stop: byte after the last.
    """

    address: str
    start: int
    stop: int


def cut(files: Sequence[DataFile], parts: int) -> tuple[Piece, ...]:
    """Cuts files into pieces of about the same number of bytes.

    Args:
        files: TFRecord files, not compressed.
        parts: pieces wanted, of all files together.

    Returns:
        Pieces in the order of the files, without empty ones; together they are all the records.
        There are fewer than wanted only where there are too few records.

    Raises:
        StoreError: a file cannot be read.
    """
    total = sum(each.size for each in files)
    wanted = [total * part // parts for part in range(1, parts)]
    found: list[Piece] = []
    begin = 0
    for file in files:
        inside = [each - begin for each in wanted if begin < each < begin + file.size]
        places = [0, *_beginnings(file, inside), file.size]
        found += [Piece(file.url, low, high) for low, high in pairwise(places) if low < high]
        begin += file.size
    return tuple(found)


def _beginnings(file: DataFile, places: Sequence[int]) -> list[int]:
    """Where the first record at or after each byte of a file begins."""
    from provender.data.sources.access import open_reader
    from provender.data.sources.frames import next_record

    if not places:
        return []
    with open_reader(file) as reader:
        # `next_record` looks behind the byte that it is given.
        found = [next_record(reader, each - 1, window=_WINDOW) for each in places]
    return [file.size if each is None else each for each in found]


def units_of(pieces: Sequence[Piece]) -> Any:
    """Pieces as `provender.nlp.reader.epochs.Epochs` reads them: addresses, starts, stops."""
    import tensorflow as tf

    return (
        tf.constant([each.address for each in pieces]),
        tf.constant([each.start for each in pieces], tf.int64),
        tf.constant([each.stop for each in pieces], tf.int64),
    )


def read_piece(address: Any, start: Any, stop: Any) -> Any:
    """The records of a piece, by TensorFlow itself; for addresses that it can open.

    Args:
        address: string [].
        start: int64 [].
        stop: int64 [].

    Returns:
        A dataset of string [].
    """
    import tensorflow as tf

    # The public `TFRecordDataset` has no argument for the byte to begin at; its operation has.
    variant = tf.raw_ops.TFRecordDatasetV2(
        filenames=[address], compression_type="", buffer_size=1 << 20, byte_offsets=[start]
    )
    records = tf.data.experimental.from_variant(variant, tf.TensorSpec([], tf.string))

    def within(at: Any, batch: Any) -> Any:
        ends = at + tf.cumsum(tf.cast(tf.strings.length(batch), tf.int64) + _overhead())
        return ends[-1], tf.boolean_mask(batch, ends <= stop)

    return (
        records.batch(_BATCH)
        .scan(start, within)
        .take_while(lambda batch: tf.size(batch) > 0)
        .unbatch()
    )


def _overhead() -> int:
    from provender.records.tfrecord import OVERHEAD

    return OVERHEAD
