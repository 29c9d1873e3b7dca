"""Records of TFRecord files."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from provender.errors import SettingsError
from provender.nlp.config import DataConfig
from provender.nlp.reader.epochs import Epochs
from provender.nlp.reader.mismatch import checking_first
from provender.nlp.reader.pieces import Piece, cut, read_piece
from provender.nlp.reader.service import DataService
from provender.nlp.reader.sharing import Share, agreed_seed
from provender.nlp.reader.streaming import is_remote, opens_natively, stream_piece

if TYPE_CHECKING:
    from provender.data.sources.access import DataFile

_LOG = logging.getLogger("provender.nlp")
_PIECES = 8
"""Pieces a host reads in an epoch of training where there are fewer files than hosts: enough to
mix what each host sees from epoch to epoch."""


def dataset_fn_of(file_type: str) -> Callable[..., Any] | None:
    """What reads files of a ``file_type``, for `InputReader`; None where it reads them itself.

    Raises:
        SettingsError: there is no such type.
    """
    if file_type == "tfrecord":
        return None
    if file_type == "tfrecord_compressed":
        return compressed_records
    raise SettingsError(
        f"Unrecognized file_type: {file_type!r}.",
        where="file_type",
        hint="It is 'tfrecord' or 'tfrecord_compressed' (GZIP).",
    )


def compressed_records(names: Any) -> Any:
    """The records of TFRecord files that are compressed with GZIP."""
    import tensorflow as tf

    return tf.data.TFRecordDataset(names, compression_type="GZIP")


class FileSource:
    """TFRecord files, or any that a function reads.

    With as many files as hosts or more, each host reads whole files, in training in an order that
    is drawn anew each epoch and is the same on all hosts. With fewer, files are cut at the
    beginnings of records, and the pieces are dealt out in the same way: no host reads what another
    one does. Files that only ``dataset_fn`` understands cannot be cut; then every host reads all
    of them and keeps its turns of the records.

    Args:
        files: what is read, in order.
        params: the configuration.
        service: whether the workers of a tf.data service read.
        dataset_fn: file name -> dataset of records; None for plain TFRecord files.
        features: what records must hold, where that is declared.

    Raises:
        SettingsError: the files are empty, or cannot be read in the way that is asked for.
    """

    def __init__(
        self,
        files: Sequence[DataFile],
        params: DataConfig,
        service: DataService,
        dataset_fn: Callable[..., Any] | None = None,
        features: Mapping[str, Any] | None = None,
    ) -> None:
        self.files = tuple(files)
        self._params = params
        self._served = service.address is not None
        self._sharding = params.sharding and not self._served
        self._dataset_fn = None if _is_plain(dataset_fn) else dataset_fn
        self._features = features
        self._streamed = not all(opens_natively(each.url) for each in self.files)
        self._refuse_unreadable(service)

    def _refuse_unreadable(self, service: DataService) -> None:
        if not any(each.size for each in self.files):
            raise SettingsError(
                f"All {len(self.files)} files are empty.",
                where=self.files[0].name,
                hint="Look at the program that writes them.",
            )
        if not self._streamed:
            return
        foreign = next(each.name for each in self.files if not opens_natively(each.url))
        for asked, what in (
            (self._dataset_fn is not None, "Compressed files, and those of a dataset_fn,"),
            (service.address is not None, "Files that the workers of a tf.data service read"),
        ):
            if asked:
                raise SettingsError(
                    f"{what} must be local or on gs://.",
                    where=foreign,
                    hint="Copy the files there, or read plain TFRecord files without a service.",
                )

    def read(self, input_context: Any) -> Any:
        """The records of one input pipeline."""
        share = Share.of(input_context, self._sharding)
        names = [each.url for each in self.files]
        seed = None if self._served else agreed_seed(self._params.seed, names)
        epochs = Epochs(self._params, share, seed, remote=any(map(is_remote, names)))
        if len(names) >= share.count:
            return self._whole(epochs)
        if self._dataset_fn is not None:
            _LOG.warning(
                "%d files for %d hosts: each host reads all of them and keeps its turns of the "
                "records. Write %d files or more.",
                len(names),
                share.count,
                share.count,
            )
            return self._whole(replace(epochs, by_record=True))
        return self._cut(share, epochs)

    def _cut(self, share: Share, epochs: Epochs) -> Any:
        train = bool(self._params.is_training)
        pieces = cut(self.files, share.count * (_PIECES if train else 1))
        if train and len(pieces) < share.count:
            raise SettingsError(
                f"{share.count} hosts cannot share {len(pieces)} records.",
                where=self.files[0].name,
                hint="Use fewer hosts, or sharding: false to let each read all of them.",
            )
        read = stream_piece if self._streamed else read_piece
        return self._units(pieces, read, epochs)

    def _whole(self, epochs: Epochs) -> Any:
        pieces = tuple(Piece(each.url, 0, each.size) for each in self.files)
        if self._streamed:
            return self._units(pieces, stream_piece, epochs)
        return self._units(pieces, lambda address, start, stop: self._open(address), epochs)

    def _open(self, address: Any) -> Any:
        import tensorflow as tf

        return (self._dataset_fn or tf.data.TFRecordDataset)(address)

    def _units(self, pieces: Sequence[Piece], read: Callable[..., Any], epochs: Epochs) -> Any:
        import tensorflow as tf

        units = (
            tf.constant([each.address for each in pieces]),
            tf.constant([each.start for each in pieces], tf.int64),
            tf.constant([each.stop for each in pieces], tf.int64),
        )
        return epochs.read(units, checking_first(read, self._features))


def _is_plain(dataset_fn: Callable[..., Any] | None) -> bool:
    """Whether a function reads what is read without one, so that files may be cut and streamed."""
    if dataset_fn is None:
        return True
    import tensorflow as tf

    return dataset_fn is tf.data.TFRecordDataset
