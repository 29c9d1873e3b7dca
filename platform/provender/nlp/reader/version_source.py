"""Records of published versions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from provender.errors import SettingsError
from provender.nlp.config import DataConfig
from provender.nlp.reader.consumption import note_reading
from provender.nlp.reader.epochs import Epochs
from provender.nlp.reader.even import Counts, even_ranges
from provender.nlp.reader.mismatch import Places
from provender.nlp.reader.pieces import Piece, read_piece, units_of
from provender.nlp.reader.service import DataService
from provender.nlp.reader.sharing import Share, agreed_seed
from provender.nlp.reader.streaming import is_remote

if TYPE_CHECKING:
    from provender.settings import Settings
    from provender.training.feed.plan import Piece as Records

_PIECES = 8


class VersionSource:
    """A split of a published version, as serialized examples.

    The version is leased until the process ends. Under a job's name (the environment's
    PROVENDER_JOB) what it reads is noted in the catalog, as `provender.load` does.

    How many records each file holds is known, so in evaluation hosts share them evenly: where
    batches must be full, every host gets the same number of them.

    Args:
        reference: the version, see `provender.refs`.
        params: the configuration; its ``tfds_split`` says which examples.
        service: whether the workers of a tf.data service read.
        settings: of the project.

    Raises:
        UnknownReference: no such version or split.
        SplitError: a split expression that cannot be read.
        SettingsError: the workers of a service cannot reach the files.
    """

    def __init__(
        self,
        reference: str,
        params: DataConfig,
        service: DataService,
        settings: Settings | None = None,
    ) -> None:
        from provender.api import open_catalog
        from provender.refs import DatasetRef
        from provender.settings import load_settings
        from provender.store import Store
        from provender.training.contents import contents_of
        from provender.training.feed.loading import plan
        from provender.training.feed.options import FeedOptions
        from provender.training.feed.ranges import RecordRanges
        from provender.training.feed.routes import router
        from provender.training.leasing import reading
        from provender.upkeep import find_version

        self._reference = reference
        self._params = params
        self._served = service.address is not None
        self._sharding = params.sharding and not self._served
        self._settings = settings or load_settings()
        catalog = open_catalog(self._settings)
        self.version = find_version(catalog, DatasetRef.parse(reference))
        reading(self._settings.catalog, self.version.id, "nlp")
        store = Store.open(self._settings.store, scratch=str(self._settings.scratch))
        options = FeedOptions(
            route=params.version_route,  # type: ignore[arg-type]
            cycle_length=params.cycle_length or 16,
        )
        facts = contents_of(store, self.version, catalog)
        self._route = router(store, self.version, facts, options, self._settings.home)
        self._folder = store.path(self.version.path)
        self._records = plan(self.version, params.tfds_split, options, reference)
        self._facts = facts
        self._ranges = RecordRanges(store, self.version.path, facts)
        self._refuse_unreachable(service)

    def _refuse_unreachable(self, service: DataService) -> None:
        from provender.training.feed.routes import StreamRoute

        if service.address is not None and isinstance(self._route, StreamRoute):
            raise SettingsError(
                "The workers of a tf.data service read files themselves, and cannot reach these "
                f"by route {self._params.version_route!r}.",
                where=self._folder,
                hint="Set version_route: native, for a store that is local or on gs://.",
            )

    def read(self, input_context: Any) -> Any:
        """The records of one input pipeline."""
        share = Share.of(input_context, self._sharding)
        note_reading(
            self._reference, self._params.tfds_split, share.index, share.count, self._settings
        )
        pieces, dealt = self._pieces(share)
        names = [each.name for each in self._records]
        seed = None if self._served else agreed_seed(self._params.seed, names)
        epochs = Epochs(self._params, dealt, seed, remote=is_remote(self._folder))
        return self._counted(self._units(pieces, epochs), pieces)

    def _counted(self, data: Any, pieces: Sequence[Records]) -> Any:
        """The dataset, with the number of records known to it where it ends."""
        import tensorflow as tf

        if self._params.is_training:
            return data
        return data.apply(tf.data.experimental.assert_cardinality(sum(map(len, pieces))))

    def counts(self, input_context: Any) -> Counts | None:
        """See `provender.nlp.reader.sources.Source.counts`."""
        share = Share.of(input_context, self._sharding)
        if self._params.is_training or self._params.drop_remainder or share.count == 1:
            return None
        return Counts.of(sum(map(len, self._records)), share)

    def _pieces(self, share: Share) -> tuple[Sequence[Records], Share]:
        """The units, and how they are dealt out; a share of all where that is done already."""
        from provender.training.feed.plan import for_host

        params = self._params
        if share.count == 1:
            return self._records, share
        if not params.is_training:
            if params.drop_remainder:
                return for_host(self._records, share.index, share.count), Share()
            lengths = [len(each) for each in self._records]
            ranges = even_ranges(lengths, share, False, self._reference)
            return [_part(self._records[at], first, last) for at, first, last in ranges], Share()
        if len(self._records) >= share.count:
            return self._records, share
        records = sum(map(len, self._records))
        if records < share.count:
            raise SettingsError(
                f"{share.count} hosts cannot share {records} records.",
                where=self._reference,
                hint="Use fewer hosts, or sharding: false to let each read all of them.",
            )
        return divided(self._records, min(share.count * _PIECES, records)), share

    def _units(self, pieces: Sequence[Records], epochs: Epochs) -> Any:
        import tensorflow as tf

        from provender.training.feed.routes import StreamRoute

        if not pieces:
            return tf.data.Dataset.from_tensor_slices(tf.constant([], tf.string))
        if isinstance(self._route, StreamRoute):
            return epochs.read(self._streamed(pieces), self._route.read, self._route.files)
        found = [self._bytes(each) for each in pieces]
        if all(each.whole for each in pieces):
            return epochs.read_files([each.address for each in found])
        return epochs.read(units_of(found), read_piece)

    def _streamed(self, pieces: Sequence[Records]) -> Any:
        import tensorflow as tf

        return (
            tf.constant(self._route.names(pieces)),
            tf.constant([each.start for each in pieces], tf.int64),
            tf.constant([len(each) for each in pieces], tf.int64),
        )

    def places(self) -> Places:
        """The shards."""
        from provender.training.feed.routes import StreamRoute

        if isinstance(self._route, StreamRoute):
            units = self._streamed(self._records)
            return Places(self._reference, units, self._route.read, self._route.files)
        units = units_of([self._bytes(each) for each in self._records])
        return Places(self._reference, units, read_piece)

    def _bytes(self, piece: Records) -> Piece:
        """Where the records of a piece lie in the file, by the version's offset index."""
        address = self._route.address(piece.name)
        if piece.whole:
            return Piece(address, 0, self._facts[piece.name].size)
        offsets = self._ranges.offsets(piece.name)
        return Piece(address, int(offsets[piece.start]), int(offsets[piece.stop]))


def _part(piece: Records, first: int, last: int) -> Records:
    """Some of the records of a piece, counted from its own first."""
    return replace(piece, start=piece.start + first, stop=piece.start + last)


def divided(pieces: Sequence[Records], parts: int) -> list[Records]:
    """Pieces cut where their records, taken together, are divided into equal parts.

    Args:
        pieces: consecutive records of files.
        parts: as many as there are records, at most.

    Returns:
        At least ``parts`` pieces, in order: borders of files stay borders.
    """
    total = sum(map(len, pieces))
    borders = iter([total * part // parts for part in range(1, parts + 1)])
    border, begin = next(borders), 0
    found = []
    for each in pieces:
        at = 0
        while at < len(each):
            stop = min(border - begin, len(each))
            found.append(replace(each, start=each.start + at, stop=each.start + stop))
            at = stop
            if begin + at == border:
                border = next(borders, total)
        begin += len(each)
    return found
