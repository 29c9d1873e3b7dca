"""The operators of `IterableDataset`, named and meant as those of Hugging Face Datasets."""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, TypeVar

from provender.data.errors import ColumnError, unknown_column
from provender.data.stream.batching import Unbatch, node_of
from provender.data.stream.calls import Call
from provender.data.stream.columns import (
    AddColumn,
    Cast,
    Decode,
    Remove,
    Rename,
    Select,
    check_renames,
)
from provender.data.stream.core import Core
from provender.data.stream.filtering import Filter
from provender.data.stream.formats import PLAIN, Format
from provender.data.stream.global_order import GlobalShuffle, check_global
from provender.data.stream.limits import Repeat, Shard, Skip, Take
from provender.data.stream.mapping import MapBatches, MapRows
from provender.data.stream.node import Node
from provender.data.stream.plan import planned
from provender.data.stream.prefetch import Prefetch
from provender.data.stream.seeds import seed_of
from provender.data.stream.shuffle import BufferShuffle
from provender.data.stream.split import NodeSplit

if TYPE_CHECKING:
    import numpy as np

O = TypeVar("O", bound="Operators")  # noqa: E741


class Operators(Core):
    """What makes a stream out of a stream; nothing is read before somebody iterates."""

    # -- functions -------------------------------------------------------------------------

    def map(
        self: O,
        function: Callable[..., Any] | None = None,
        with_indices: bool = False,
        input_columns: str | list[str] | None = None,
        batched: bool = False,
        batch_size: int | None = 1000,
        drop_last_batch: bool = False,
        remove_columns: str | list[str] | None = None,
        features: Mapping[str, Any] | None = None,
        fn_kwargs: Mapping[str, Any] | None = None,
    ) -> O:
        """Calls a function for each row, or each batch, and lays what it returns over it.

        Args:
            function: takes a row (a dict, or what `with_format` says) and returns a dict of the
                columns to add or change; with `batched` both are columns, and it may return
                another number of rows. It may be ``async``. None: the rows stay as they are.
            with_indices: give the row's number (a list for a batch) as well. Numbers are those of
                the undivided stream, on every node and worker.
            input_columns: give these columns, one argument each, instead of the row.
            batched: call it for batches.
            batch_size: rows of a batch; None or 0: all rows at once.
            drop_last_batch: leave out a last batch that is smaller.
            remove_columns: of the input, those that are not kept; what the function returns stays.
            features: columns and types of the output. A column that a row lacks is None in it;
                one that is not named here is an error.
            fn_kwargs: further arguments.
        """
        self._check_known(_names(remove_columns), "remove_columns")
        self._check_known(_names(input_columns), "input_columns")
        call = self._call(function or _same, with_indices, input_columns, fn_kwargs)
        target = _features(features)
        removed = tuple(_names(remove_columns) or ())
        if batched:
            rows = whole("batch_size", batch_size or 0)
            size = rows if rows > 0 else None
            node: Node = MapBatches(self._node, call, size, drop_last_batch, removed, target)
        else:
            node = MapRows(self._node, call=call, remove=removed, target=target)
        return self._derived(node)

    def filter(
        self: O,
        function: Callable[..., Any] | None = None,
        with_indices: bool = False,
        input_columns: str | list[str] | None = None,
        batched: bool = False,
        batch_size: int | None = 1000,
        fn_kwargs: Mapping[str, Any] | None = None,
    ) -> O:
        """Only the rows for which a function returns true.

        Args:
            function: takes a row and returns whether it stays; with `batched` takes columns and
                returns a list of answers. None: all rows stay that are not empty.
            with_indices: as for `map`.
            input_columns: as for `map`.
            batched: call it for batches.
            batch_size: rows of a batch; None or 0: all rows at once.
            fn_kwargs: further arguments.
        """
        self._check_known(_names(input_columns), "input_columns")
        call = self._call(function or bool, with_indices, input_columns, fn_kwargs)
        size = whole("batch_size", batch_size or 0) if batched else None
        return self._derived(Filter(self._node, call, size))

    def _call(
        self,
        function: Callable[..., Any],
        with_indices: bool,
        input_columns: str | list[str] | None,
        fn_kwargs: Mapping[str, Any] | None,
    ) -> Call:
        columns = _names(input_columns)
        given = None if columns is None else tuple(columns)
        return Call(function, with_indices, given, dict(fn_kwargs or {}), self._format)

    # -- order -----------------------------------------------------------------------------

    def shuffle(
        self: O,
        seed: int | None = None,
        generator: np.random.Generator | None = None,
        buffer_size: int | Literal["global"] = 1000,
        max_buffer_input_shards: int = 10,
        *,
        block_rows: int | None = None,
        window_rows: int | None = None,
    ) -> O:
        """Rows in random order: a function of seed and epoch alone.

        Args:
            seed: the seed; None draws one that stays with this stream. After
                `split_dataset_by_node` it then follows from the chain, the same on every node.
            generator: instead of a seed.
            buffer_size: rows among which the next one is drawn; shards are shuffled too, and read
                several in turn. "global": a permutation of all rows, for data whose rows can be
                read by number (published versions, tables, parquet files).
            max_buffer_input_shards: how many shards feed the buffer in turn.
            block_rows: for "global": rows that stay together while they are read. By default 1
                where single rows can be fetched cheaply, else as the data are laid out. Blocks
                are shuffled over the whole split, and rows within a window of many blocks.
            window_rows: for "global" in blocks: rows of a window, which are in memory together.
                By default 65,536 or fewer; a split that is only a few times as long is one window.

        Raises:
            SettingsError: "global" where rows have no known numbers.
        """
        used = seed_of(seed, generator)
        if buffer_size == "global":
            return self._derived(self._global(used, block_rows, window_rows))
        if isinstance(buffer_size, str):
            raise ValueError(f'buffer_size is a number of rows or "global", not {buffer_size!r}.')
        size = whole("buffer_size", buffer_size)
        inputs = whole("max_buffer_input_shards", max_buffer_input_shards)
        if inputs < 1:
            raise ValueError("max_buffer_input_shards must be at least 1.")
        node = BufferShuffle(self._node, used, max(size, 1), inputs)
        return self._derived(node)

    def _global(self, seed: Any, block: int | None, window: int | None) -> Node:
        from provender.data.stream.layout import WINDOW, block_rows_of, window_rows_of

        node = GlobalShuffle(self._node, seed)
        for each in _through(planned(node)):
            if isinstance(each, GlobalShuffle) and each.seed is seed:
                leaf = check_global(each.child)
                size = block_rows_of(leaf.source) if block is None else whole("block_rows", block)
                given = WINDOW if window is None else whole("window_rows", window)
                size = max(1, min(size, given // 2))
                if window is None and size > 1:
                    given = window_rows_of(leaf.rows() or 0, size)
                return GlobalShuffle(self._node, seed, size, given)
        raise AssertionError("a shuffle was planned away")

    def skip(self: O, n: int) -> O:
        """All but the first `n` rows. The order of shards is fixed from here on."""
        return self._derived(Skip(self._node, max(whole("n", n), 0)))

    def take(self: O, n: int) -> O:
        """The first `n` rows. The order of shards is fixed from here on."""
        return self._derived(Take(self._node, max(whole("n", n), 0)))

    def repeat(self: O, num_times: int | None = None) -> O:
        """The rows `num_times` times over, in the same order; None: for ever."""
        times = None if num_times is None else whole("num_times", num_times)
        return self._derived(Repeat(self._node, times))

    def shard(self: O, num_shards: int, index: int, contiguous: bool = True) -> O:
        """One of `num_shards` shares of the shards.

        With fewer shards than that, rows are shared out instead.

        Raises:
            ValueError: there is no such share.
        """
        num_shards, index = whole("num_shards", num_shards), whole("index", index)
        if not 0 <= index < num_shards:
            raise ValueError(
                f"index must be from 0 to num_shards - 1, not {index} of {num_shards}."
            )
        return self._derived(Shard(self._node, num_shards, index, contiguous))

    def reshard(self: O, num_shards: int | None = None) -> O:
        """The same rows in more shards: row groups of parquet, ranges of lines or records."""
        count = None if num_shards is None else whole("num_shards", num_shards)
        return self._derived(self._node.resharded(count))

    # -- batches ---------------------------------------------------------------------------

    def batch(
        self: O,
        batch_size: int | None = None,
        by_column: str | list[str] | None = None,
        drop_last_batch: bool = False,
    ) -> O:
        """Rows of lists, each made of several rows.

        Args:
            batch_size: of so many; with `by_column` only how many are compared at a time.
            by_column: of all that follow each other with the same value in this column (or in all
                of these); null counts as a value. What different nodes or workers read is not
                put together.
            drop_last_batch: leave out a last batch that is smaller; not with `by_column`.

        Raises:
            ColumnError: there is no such column.
            ValueError: arguments that make no sense.
        """
        columns = _names(by_column)
        self._check_known(columns, "by_column")
        size = None if batch_size is None else whole("batch_size", batch_size)
        return self._derived(node_of(self._node, size, columns, drop_last_batch, self._format))

    def unbatch(self: O) -> O:
        """The rows that rows of lists hold: undoes `batch`."""
        return self._derived(Unbatch(self._node))

    # -- columns ---------------------------------------------------------------------------

    def _known_names(self) -> list[str] | None:
        return self._plan.column_names()

    def _check_known(self, names: Sequence[str] | None, where: str) -> None:
        known = self._known_names()
        for name in names or ():
            if known is not None and name not in known:
                raise unknown_column(name, known, where)

    def rename_column(self: O, original_column_name: str, new_column_name: str) -> O:
        """One column under another name."""
        return self.rename_columns({original_column_name: new_column_name})

    def rename_columns(self: O, column_mapping: Mapping[str, str]) -> O:
        """Columns under other names.

        Raises:
            ColumnError: a column is not there, or the new name is taken.
        """
        known = self._known_names()
        if known is not None:
            check_renames(column_mapping, known)
        return self._derived(Rename(self._node, mapping=dict(column_mapping)))

    def remove_columns(self: O, column_names: str | list[str]) -> O:
        """All columns but these.

        Raises:
            ColumnError: one of them is not there.
        """
        names = _names(column_names) or []
        self._check_known(names, "remove_columns")
        return self._derived(Remove(self._node, columns=tuple(names)))

    def select_columns(self: O, column_names: str | list[str]) -> O:
        """Only these columns, in this order; a source does not read the others.

        Raises:
            ColumnError: one of them is not there.
        """
        names = _names(column_names) or []
        self._check_known(names, "select_columns")
        return self._derived(Select(self._node, columns=tuple(names)))

    def add_column(self: O, name: str, column: Any, feature: Any = None) -> O:
        """One more column, given as a whole.

        Args:
            name: what it is called.
            column: list, array or Arrow array; its n-th value goes to the n-th row.
            feature: its type, by default that of the values.

        Raises:
            ColumnError: there is such a column already.
        """
        if name in (self._known_names() or ()):
            raise ColumnError(
                f"There is already a column {name!r}.", hint="Remove or rename it first."
            )
        return self._derived(AddColumn(self._node, column=name, values=column, feature=feature))

    def cast_column(self: O, column: str, feature: Any) -> O:
        """One column as another type.

        Raises:
            ColumnError: there is no such column.
        """
        self._check_known([column], "cast_column")
        return self._derived(Cast(self._node, target={column: feature}))

    def cast(self: O, features: Mapping[str, Any]) -> O:
        """All columns as other types.

        Raises:
            ColumnError: the features do not name the columns there are.
        """
        known = self._known_names()
        if known is not None and set(known) != set(features):
            for name in features:
                self._check_known([name], "cast")
            left = [name for name in known if name not in features]
            raise ColumnError(f"The features do not name the column {left[0]!r}.", hint="Name all.")
        return self._derived(Cast(self._node, target=dict(features), whole=True))

    def decode(self: O, enable: bool = True) -> O:
        """Whether images, sounds and videos are decoded, or given as bytes and path."""
        return self._derived(Decode(self._node, enable=enable))

    # -- how it is given, and how fast -----------------------------------------------------

    def with_format(self: O, type: str | None = None, **kwargs: Any) -> O:
        """What rows and batches are given as.

        Args:
            type: "numpy", "torch", "tf", "jax", "pandas", "polars" or "arrow"; None or "python"
                for plain objects. With "torch" the stream is a ``torch.utils.data.IterableDataset``.
            **kwargs: options of the format, e.g. ``dtype``.

        Raises:
            FormatError: there is no such format, or its library is not installed.
        """
        from provender.data.formats import format_name, formatter

        name = format_name(type)
        chosen = Format(name, kwargs) if kwargs or name != "python" else PLAIN
        formatter(name, **kwargs)
        new = self._derived(self._node)
        new._format = chosen
        return new._torched(needed=name == "torch")

    def prefetch(self: O, memory: int = 64 << 20) -> O:
        """Lets a thread make rows ahead, up to `memory` bytes of them."""
        memory = whole("memory", memory)
        if memory < 1:
            raise ValueError("memory is a number of bytes, at least 1.")
        return self._derived(Prefetch(self._node, memory))

    def _torched(self: O, needed: bool) -> O:
        """Itself, as a torch dataset where torch is in use."""
        del needed
        return self

    def _split_by_node(self: O, rank: int, world: int, strategy: str, equal: str | None) -> O:
        from provender.data.stream.split import check_split

        rank, world = whole("rank", rank), whole("world_size", world)
        check_split(rank, world, strategy, equal)
        node = self._node
        if isinstance(node, NodeSplit):
            rank, world = world * node.rank + rank, world * node.world
            node = node.child
        return self._derived(NodeSplit(node, rank, world, strategy, equal))


def whole(name: str, value: Any) -> int:
    """A number of rows, shards or the like as a Python integer; numpy's are as good.

    Raises:
        ValueError: it is no whole number; names the argument.
    """
    try:
        if not isinstance(value, bool):
            return operator.index(value)
    except TypeError:
        pass
    raise ValueError(f"{name} is a whole number, not {value!r}.")


def _names(given: str | Sequence[str] | None) -> list[str] | None:
    if given is None:
        return None
    return [given] if isinstance(given, str) else list(given)


def _features(given: Mapping[str, Any] | None) -> Any:
    if given is None:
        return None
    from provender.data.features import Features

    return given if isinstance(given, Features) else Features(given)


def _through(node: Node) -> list[Node]:
    found, todo = [], [node]
    while todo:
        each = todo.pop(0)
        found.append(each)
        todo += each.children
    return found


def _same(row: Any) -> Any:
    return row
