"""A source of which some rows may be passed over, so that counts do not hold and nothing is kept."""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from provender.data.sources.base import Chunk, Position, Source

if TYPE_CHECKING:
    from provender.data.features import Features


class UncountedSource(Source):
    """What a source read with ``on_error="skip"`` gives, for a dataset made of all of it.

    What was passed over is not part of any identity: the damage may be mended the next time. So
    the identity is another one each time.

    Args:
        source: the rows.
    """

    unhashable = 'with on_error="skip" rows may be missing that are there the next time'

    def __init__(self, source: Source) -> None:
        self._source = source
        self._identity = (uuid.uuid4().hex + uuid.uuid4().hex)[:40]

    @property
    def features(self) -> Features | None:
        return self._source.features

    @property
    def identity(self) -> str:
        return self._identity

    @property
    def num_shards(self) -> int:
        return self._source.num_shards

    def read(
        self, shard: int, position: Position | None = None, *, row: int = 0
    ) -> Iterator[Chunk]:
        return self._source.read(shard, position, row=row)

    def select_shards(self, shards: Sequence[int]) -> Source:
        return UncountedSource(self._source.select_shards(shards))

    @property
    def skipped(self) -> Mapping[str, int]:
        return self._source.skipped

    def shard_name(self, shard: int) -> str:
        return self._source.shard_name(shard)
