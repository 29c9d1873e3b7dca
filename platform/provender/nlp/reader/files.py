"""Records of TFRecord files."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from provender.errors import SettingsError
from provender.nlp.config import DataConfig
from provender.nlp.reader.epochs import Epochs, records_of
from provender.nlp.reader.even import Counts, even_ranges
from provender.nlp.reader.mismatch import Places
from provender.nlp.reader.pieces import Piece, cut, read_piece, units_of
from provender.nlp.reader.service import DataService
from provender.nlp.reader.sharing import Share, agreed_seed
from provender.nlp.reader.streaming import is_remote, opens_natively, stream_piece
from provender.store.paths import split_scheme

if TYPE_CHECKING:
    from provender.data.sources.access import DataFile
    from provender.settings import Settings

_LOG = logging.getLogger("provender.nlp")
_GZIP = "GZIP"
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
    return records_of(names, _GZIP)


class FileSource:
    """TFRecord files, or any that a function reads.

    With as many files as hosts or more, each host reads whole files, in training in an order that
    is drawn anew each epoch and is the same on all hosts. With fewer, files are cut at the
    beginnings of records, and the pieces are dealt out in the same way: no host reads what another
    one does. Files that only ``dataset_fn`` understands cannot be cut; then every host reads all
    of them and keeps its turns of the records.

    In evaluation hosts share the records evenly, by number, where these can be counted: in plain
    files on this machine.

    Args:
        files: what is read, in order.
        params: the configuration.
        service: whether the workers of a tf.data service read.
        dataset_fn: file name -> dataset of records; None for plain TFRecord files.
        settings: of the project, whose home keeps where the records of counted files begin.

    Raises:
        SettingsError: the files are empty, or cannot be read in the way that is asked for.
    """

    def __init__(
        self,
        files: Sequence[DataFile],
        params: DataConfig,
        service: DataService,
        dataset_fn: Callable[..., Any] | None = None,
        settings: Settings | None = None,
    ) -> None:
        self.files = tuple(files)
        self._params = params
        self._served = service.address is not None
        self._sharding = params.sharding and not self._served
        self._dataset_fn = None if _is_plain(dataset_fn) else dataset_fn
        self._settings = settings
        self._offsets: list[Any] = []
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
        if self._counts(share):
            return self._even(share)
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

    def counts(self, input_context: Any) -> Counts | None:
        """See `provender.nlp.reader.sources.Source.counts`."""
        share = Share.of(input_context, self._sharding)
        if self._params.drop_remainder or not self._counts(share):
            return None
        return Counts.of(sum(len(each) - 1 for each in self._counted()), share)

    def _counts(self, share: Share) -> bool:
        """Whether records are shared out by number."""
        local = all(split_scheme(each.url)[0] == "file" for each in self.files)
        plain = self._dataset_fn is None and local and not self._streamed
        return plain and share.count > 1 and not self._params.is_training

    def _counted(self) -> list[Any]:
        """The offsets of the records of each file; found once."""
        if not self._offsets:
            from provender.nlp.order.indexing import offsets_of
            from provender.settings import load_settings

            home = (self._settings or load_settings()).home
            paths = [Path(split_scheme(each.url)[1]) for each in self.files]
            self._offsets = [offsets_of(each, home) for each in paths]
        return self._offsets

    def _even(self, share: Share) -> Any:
        import tensorflow as tf

        offsets = self._counted()
        lengths = [len(each) - 1 for each in offsets]
        ranges = even_ranges(
            lengths, share, self._params.drop_remainder, str(self._params.input_path)
        )
        if not ranges:
            return tf.data.Dataset.from_tensor_slices(tf.constant([], tf.string))
        pieces = [
            Piece(self.files[at].url, int(offsets[at][first]), int(offsets[at][last]))
            for at, first, last in ranges
        ]
        data = Epochs(self._params, Share(), 0).read(units_of(pieces), read_piece)
        mine = sum(last - first for _, first, last in ranges)
        return data.apply(tf.data.experimental.assert_cardinality(mine))

    def _cut(self, share: Share, epochs: Epochs) -> Any:
        train = bool(self._params.is_training)
        pieces = cut(self.files, share.count * (_PIECES if train else 1))
        if train and len(pieces) < share.count:
            raise SettingsError(
                f"{share.count} hosts cannot share {len(pieces)} records.",
                where=self.files[0].name,
                hint="Use fewer hosts, or sharding: false to let each read all of them.",
            )
        return epochs.read(units_of(pieces), stream_piece if self._streamed else read_piece)

    def _whole(self, epochs: Epochs) -> Any:
        if self._streamed:
            return epochs.read(self._units(), stream_piece)
        addresses = [each.url for each in self.files]
        if self._dataset_fn is None or self._dataset_fn is compressed_records:
            compression = "" if self._dataset_fn is None else _GZIP
            return epochs.read_files(addresses, compression)
        return epochs.read(self._units(), self._open)

    def _open(self, address: Any, *_: Any) -> Any:
        import tensorflow as tf

        return (self._dataset_fn or tf.data.TFRecordDataset)(address)

    def _units(self) -> Any:
        return units_of([Piece(each.url, 0, each.size) for each in self.files])

    def places(self) -> Places:
        """The files."""
        read = stream_piece if self._streamed else self._open
        return Places(str(self._params.input_path), self._units(), read)


def _is_plain(dataset_fn: Callable[..., Any] | None) -> bool:
    """Whether a function reads what is read without one, so that files may be cut and streamed."""
    if dataset_fn is None:
        return True
    import tensorflow as tf

    return dataset_fn is tf.data.TFRecordDataset
