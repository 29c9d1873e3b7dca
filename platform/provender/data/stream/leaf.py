"""The rows of a source: ranges of its shards, one after another or several in turn."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

from provender.data.sources.base import Chunk, Source, close
from provender.data.stream.block import Block
from provender.data.stream.flow import Flow, State
from provender.data.stream.node import Node, Run

if TYPE_CHECKING:
    import numpy as np

    from provender.data.features import Features


_FAR = 4096
"""Rows further on than this are looked for by their number, nearer ones by reading on."""


class Piece(NamedTuple):
    """A range of rows of a shard: from `start` up to `stop` (None: to its end).

    `number` is where its first row stands in the undivided stream, once somebody needs it.
    """

    shard: int
    start: int = 0
    stop: int | None = None
    number: int | None = None


@dataclass(frozen=True, eq=False)
class Leaf(Node):
    """A source, or ranges of it.

    Attributes:
        source: where the rows come from.
        pieces: which of them, in order.
        fixed: `take` and `skip` chose the rows: the order of shards is not shuffled.
        turns: how many pieces are read in turn, and how many rows of each at a time; None: one
            after another.
        tells: whether blocks say where their rows stand in the undivided stream.
        counts: rows of shards, as far as the source was asked; asking may open a file.
        ends: rows of shards that had to be counted. They are kept apart: how a chain is planned
            must not depend on what somebody counted before.
    """

    name: ClassVar[str] = "source"

    source: Source
    pieces: tuple[Piece, ...]
    fixed: bool = False
    turns: tuple[int, int] | None = None
    tells: bool = False
    counts: dict[int, int | None] = field(default_factory=dict)
    ends: dict[int, int] = field(default_factory=dict)

    @classmethod
    def of(cls, source: Source) -> Leaf:
        """All rows of a source, a piece for each shard."""
        return cls(source, tuple(Piece(shard) for shard in range(source.num_shards)))

    def shard_rows(self, shard: int) -> int | None:
        """Rows of a shard, if the source knows them."""
        if shard not in self.counts:
            self.counts[shard] = self.source.shard_rows(shard)
        return self.counts[shard]

    def length(self, piece: Piece) -> int | None:
        """Rows of a piece, if they are known."""
        stop = self.shard_rows(piece.shard) if piece.stop is None else piece.stop
        return None if stop is None else max(stop - piece.start, 0)

    def parameters(self) -> Any:
        return self.source.identity

    def features(self) -> Features | None:
        return self.source.features

    @cached_property
    def lengths(self) -> tuple[int, ...] | None:
        """Rows of each piece, if all are known."""
        lengths = []
        for piece in self.pieces:
            length = self.length(piece)
            if length is None:
                return None
            lengths.append(length)
        return tuple(lengths)

    def rows(self) -> int | None:
        return None if self.lengths is None else sum(self.lengths)

    def num_parts(self) -> int:
        return max(len(self.pieces), 1)

    def pick(self, parts: Sequence[int]) -> Leaf:
        if not self.pieces:
            return self
        return replace(self, pieces=tuple(self.pieces[part] for part in parts))

    def permuted(self, key: int) -> Node:
        if self.fixed:
            return self
        from provender.data.stream.draws import order_of

        return self.pick(order_of(key, len(self.pieces)).tolist())

    def mixed(self, parts: int, run: int) -> Node:
        if self.fixed or len(self.pieces) < 2:
            return self
        return replace(self, turns=(parts, run))

    def sliced(self, start: int, stop: int | None) -> Leaf | None:
        """Rows `start` to ``stop - 1`` of all, by known counts; None where they are not known.

        Shards beyond the range are not asked for their counts, nor those after its beginning
        where it has no end.
        """
        kept: list[Piece] = []
        at = 0
        for piece in self.pieces:
            if stop is not None and at >= stop:
                break
            if stop is None and at >= start:
                kept.append(piece)
                continue
            length = self.length(piece)
            if length is None:
                return None
            low, high = max(start - at, 0), length if stop is None else min(stop - at, length)
            if low < high:
                number = None if piece.number is None else piece.number + low
                kept.append(Piece(piece.shard, piece.start + low, piece.start + high, number))
            at += length
        return replace(self, pieces=tuple(kept))

    def limited(self, start: int, stop: int | None) -> Leaf | None:
        """As `sliced`, for `take` and `skip`: the order is fixed from there on."""
        cut = self.sliced(start, stop)
        return None if cut is None else replace(cut, fixed=True)

    def balanced(self, count: int, index: int, pad: bool = False) -> Node | None:
        total = self.rows()
        if total is None:
            return None
        start, stop = total * index // count, total * (index + 1) // count
        if pad:
            start = max(stop - -(-total // count), 0)
            stop = min(start + -(-total // count), total)
        return self.sliced(start, stop)

    def refined(self, count: int) -> Node | None:
        if len(self.pieces) >= count:
            return self
        if self.lengths is not None:
            total = sum(self.lengths)
            shares = [
                self.sliced(total * i // count, total * (i + 1) // count) for i in range(count)
            ]
            pieces = tuple(piece for share in shares if share for piece in share.pieces)
            return replace(self, pieces=pieces) if len(pieces) >= count else None
        finer = self.resharded(count)
        return finer if finer.num_parts() >= count else None

    def resharded(self, count: int | None) -> Leaf:
        if self.pieces != Leaf.of(self.source).pieces:
            return self
        return replace(Leaf.of(self.source.reshard(count)), fixed=self.fixed)

    @property
    def counted(self) -> bool:
        return self.turns is None and self.lengths is not None

    def numbered(self) -> Node:
        if self.tells:
            return self
        pieces, at = [], 0
        for piece, length in zip(self.pieces, self.lengths or (), strict=True):
            pieces.append(piece._replace(number=at))
            at += length
        return replace(self, pieces=tuple(pieces), tells=True)

    def projected(self, names: Sequence[str]) -> Leaf:
        """Only some columns; the source does not even read the others."""
        return replace(self, source=self.source.columns(list(names)))

    def ordinals(self, at: np.ndarray) -> np.ndarray:
        """Rows of this leaf, by their place in it, as ordinals of the whole source."""
        import numpy as np

        ends, shifts = self._places
        return at + shifts[np.searchsorted(ends, at, "right")]

    @cached_property
    def _places(self) -> tuple[np.ndarray, np.ndarray]:
        """For each piece the place after its last row, and what leads from places to ordinals."""
        import numpy as np

        assert self.lengths is not None
        ends = np.cumsum(self.lengths, dtype=np.int64)
        counts = [self.shard_rows(shard) or 0 for shard in range(self.source.num_shards)]
        shards = np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
        begins = np.array([shards[piece.shard] + piece.start for piece in self.pieces], np.int64)
        return ends, begins - (ends - np.array(self.lengths, np.int64))

    def open(self, run: Run, state: State) -> Flow:
        if self.turns is not None:
            return TurnsFlow(self, state)
        return LeafFlow(self, state)


class PieceReader:
    """Reads one piece; its place is ``[row, row of the position, position]``."""

    def __init__(self, leaf: Leaf, piece: Piece, place: Sequence[Any] | None) -> None:
        self._leaf = leaf
        self._source = leaf.source
        self._piece = piece
        self._stop = piece.stop
        self._tells = leaf.tells
        self.row = piece.start if place is None else int(place[0])
        self._anchor: tuple[int, Any] | None = None
        if place is not None and len(place) > 1:
            self._anchor = (int(place[1]), place[2])
        self._chunks: Iterator[Chunk] | None = None
        self._chunk: Chunk | None = None

    def place(self) -> list[Any]:
        if self._anchor is None or self.row < self._anchor[0]:
            return [self.row]
        return [self.row, self._anchor[0], self._anchor[1]]

    def _read(self) -> Chunk | None:
        """The chunk that holds the current row, cut to begin with it."""
        if self._chunk is None:
            if self._stop is not None and self.row >= self._stop:
                return None
            if self._chunks is None:
                behind = self.row - self._anchor[0] if self._anchor is not None else -1
                if self._anchor is not None and (self._stop is None or 0 <= behind <= _FAR):
                    position = self._anchor[1]
                    self._chunks = self._source.read(self._piece.shard, position)
                else:
                    self._anchor = None
                    self._chunks = self._source.read(self._piece.shard, row=self.row)
            for chunk in self._chunks:
                end = chunk.row + chunk.count
                if end <= self.row:
                    # Wholly before the row that is wanted, or nothing but damage passed over.
                    self._anchor = (end, chunk.next)
                    continue
                self._chunk = chunk.drop(self.row - chunk.row)
                self.row = self._chunk.row
                break
            else:
                return None
        return self._chunk

    def pull(self, limit: int | None) -> Block | None:
        chunk = self._read()
        if chunk is None:
            return None
        count = chunk.count if limit is None else min(limit, chunk.count)
        if self._stop is not None:
            count = min(count, self._stop - self.row)
            if count <= 0:
                return None
        block = Block(
            table=chunk.table,
            rows=chunk.rows,  # type: ignore[arg-type]
            count=chunk.count,
        ).slice(0, count)
        if self._tells:
            import numpy as np

            assert self._piece.number is not None
            begin = self._piece.number + self.row - self._piece.start
            block.numbers = np.arange(begin, begin + count)
        self._pass(chunk, count)
        return block

    def _pass(self, chunk: Chunk, count: int) -> None:
        self.row += count
        if count == chunk.count:
            self._anchor = (self.row, chunk.next)
            self._chunk = None
        else:
            self._chunk = chunk.drop(count)

    def advance(self, rows: int) -> int:
        """Goes on by `rows` rows, or to the end; returns how many there were."""
        if rows > _FAR:
            self.count()
        stop = self._stop
        if stop is not None and self._chunk is None:
            step = min(rows, max(stop - self.row, 0))
            self.row += step
            self.close()
            return step
        done = 0
        while done < rows:
            chunk = self._read()
            if chunk is None:
                break
            count = min(rows - done, chunk.count)
            if stop is not None:
                count = min(count, stop - self.row)
                if count <= 0:
                    break
            self._pass(chunk, count)
            done += count
            if stop is not None and self._chunk is None and done < rows:
                return done + self.advance(rows - done)
        return done

    def count(self) -> None:
        """Finds out where the piece ends, if the source has a quicker way than to read it."""
        if self._stop is None:
            self._stop = self._leaf.shard_rows(self._piece.shard)
        if self._stop is None and type(self._source).count_rows is not Source.count_rows:
            ends = self._leaf.ends
            if self._piece.shard not in ends:
                ends[self._piece.shard] = self._source.count_rows(self._piece.shard)
            self._stop = ends[self._piece.shard]

    def close(self) -> None:
        if self._chunks is not None:
            close(self._chunks)
            self._chunks = None
        self._chunk = None


class LeafFlow(Flow):
    """Piece after piece; its state is the piece and the place in it."""

    exact = True

    def __init__(self, leaf: Leaf, state: State) -> None:
        self._leaf = leaf
        self._index = 0 if state is None else int(state["p"])
        place = None if state is None else state.get("r")
        self._reader: PieceReader | None = None
        if place is not None:
            self._reader = PieceReader(leaf, leaf.pieces[self._index], place)

    def _current(self) -> PieceReader | None:
        if self._reader is None:
            if self._index >= len(self._leaf.pieces):
                return None
            self._reader = PieceReader(self._leaf, self._leaf.pieces[self._index], None)
        return self._reader

    def _end_piece(self) -> None:
        if self._reader is not None:
            self._reader.close()
        self._reader = None
        self._index += 1

    def _next(self, limit: int | None) -> Block | None:
        while (reader := self._current()) is not None:
            block = reader.pull(limit)
            if block is not None:
                return block
            self._end_piece()
        return None

    def _advance(self, rows: int) -> int:
        done = 0
        while done < rows and (reader := self._current()) is not None:
            done += reader.advance(rows - done)
            if done < rows:
                self._end_piece()
        return done

    def _state(self) -> State:
        if self._reader is None:
            return {"p": self._index}
        return {"p": self._index, "r": self._reader.place()}

    def close(self) -> None:
        if self._reader is not None:
            place = self._reader.place()
            self._reader.close()
            self._reader = PieceReader(self._leaf, self._leaf.pieces[self._index], place)


class TurnsFlow(Flow):
    """Several pieces in turn, a run of rows from each; a piece that ends is followed by the next.

    Its state holds the place in every open piece, whose turn it is, and what is left of the run.
    """

    exact = True

    def __init__(self, leaf: Leaf, state: State) -> None:
        assert leaf.turns is not None
        most, self._run = leaf.turns
        self._leaf = leaf
        if state is None:
            first = min(most, len(leaf.pieces))
            self._open = [(index, self._reader(index, None)) for index in range(first)]
            self._following, self._turn, self._left = first, 0, self._run
        else:
            self._open = [
                (int(index), self._reader(int(index), place)) for index, *place in state["o"]
            ]
            self._following, self._turn, self._left = (int(each) for each in state["t"])

    def _reader(self, index: int, place: Sequence[Any] | None) -> PieceReader:
        return PieceReader(self._leaf, self._leaf.pieces[index], place)

    def _next(self, limit: int | None) -> Block | None:
        while self._open:
            most = self._left if limit is None else min(self._left, limit)
            block = self._open[self._turn][1].pull(most)
            if block is None:
                self._replace_ended()
                continue
            self._left -= block.count
            if self._left == 0:
                self._turn = (self._turn + 1) % len(self._open)
                self._left = self._run
            return block
        return None

    def _advance(self, rows: int) -> int:
        done = 0
        while self._open and done < rows:
            if rows > _FAR:
                self._open[self._turn][1].count()
            step = min(self._left, rows - done)
            moved = self._open[self._turn][1].advance(step)
            done += moved
            self._left -= moved
            if moved < step:
                self._replace_ended()
            elif self._left == 0:
                self._turn = (self._turn + 1) % len(self._open)
                self._left = self._run
        return done

    def _replace_ended(self) -> None:
        self._open[self._turn][1].close()
        if self._following < len(self._leaf.pieces):
            self._open[self._turn] = (self._following, self._reader(self._following, None))
            self._following += 1
            return
        self._open.pop(self._turn)
        self._left = self._run
        if self._open:
            self._turn %= len(self._open)

    def _state(self) -> State:
        return {
            "o": [[index, *reader.place()] for index, reader in self._open],
            "t": [self._following, self._turn, self._left],
        }

    def close(self) -> None:
        for _, reader in self._open:
            place = reader.place()
            reader.close()
            reader.row = place[0]
