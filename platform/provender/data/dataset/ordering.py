"""Transforms of the order: which rows, in which sequence. Rows themselves stay where they are."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Self, cast

import numpy as np
import pyarrow as pa

from provender.data.dataset.base import Base
from provender.data.dataset.bounds import check_row, check_rows, names_of
from provender.data.dataset.chain import Print
from provender.data.dataset.formatting import Format
from provender.data.dataset.tables import as_rows
from provender.data.errors import FeatureTypeError
from provender.errors import SettingsError

if TYPE_CHECKING:
    from provender.data.dataset.dictionary import DatasetDict

CACHED_SORT = 200_000
"""Orders of so many rows are kept in the cache; shorter ones are sorted faster than they are read."""
IN_MEMORY = 64 << 20
_PLACEMENTS = {"at_end": "at_end", "last": "at_end", "at_start": "at_start", "first": "at_start"}


class Ordering(Base):
    """Selecting, sorting and shuffling rows."""

    def select(
        self,
        indices: Any,
        keep_in_memory: bool = False,
        indices_cache_file_name: str | None = None,
        writer_batch_size: int | None = 1000,
        new_fingerprint: str | None = None,
    ) -> Self:
        """The rows of the numbers given, in that order.

        The fingerprint depends on the numbers alone, however they are given: ``range(10)``,
        ``list(range(10))`` and ``take(10)`` are the same.

        Args:
            indices: a range, list, array or iterator of row numbers; negative ones count from the
                end, and any may come more than once.
            keep_in_memory, indices_cache_file_name, writer_batch_size: taken for compatibility
                with other libraries; the numbers always lie in memory.
            new_fingerprint: the result's fingerprint, instead of the computed one.

        Raises:
            RowError: there is no such row; it is an IndexError.
        """
        del keep_in_memory, indices_cache_file_name, writer_batch_size
        made = None if new_fingerprint is None else Print(new_fingerprint)
        if isinstance(indices, range) and indices.step == 1 and indices.start >= 0 and indices:
            check_row(indices[-1], len(self))
            return self._run_of(indices.start, len(indices), made)
        return self._picked(check_rows(as_rows(indices), len(self)), made)

    def _picked(self, rows: np.ndarray, made: Print | None) -> Self:
        """The rows of numbers that exist."""
        count = len(rows)
        step = _step(rows)
        if step == 1 or count == 0:
            return self._run_of(int(rows[0]) if count else 0, count, made)
        if made is None:
            said = rows if step is None else [int(rows[0]), count, step]
            made = self._print.then("select 1", rows=said)
        return self._derive(made, indices=rows if self._indices is None else self._indices[rows])

    def _run_of(self, start: int, count: int, made: Print | None) -> Self:
        """Rows that follow one another; however many there are, none is looked at."""
        if made is None:
            made = self._print.then("select 1", rows=[start, count, 1])
        if self._indices is None or count == 0:
            return self._derive(made, table=self._data.slice(start, count), indices=None)
        return self._derive(made, indices=self._indices[start : start + count])

    def take(self, n: int) -> Self:
        """The first `n` rows, or all where there are fewer.

        Raises:
            SettingsError: `n` is negative.
        """
        return self.select(range(min(_count(n, "take"), len(self))))

    def skip(self, n: int) -> Self:
        """All rows but the first `n`; none where there are fewer.

        Raises:
            SettingsError: `n` is negative.
        """
        return self.select(range(_count(n, "skip"), len(self)))

    def repeat(self, num_times: int) -> Self:
        """All rows several times.

        Args:
            num_times: how often; 0 or less gives no rows.
        """
        if num_times is None:
            message = "A dataset cannot be repeated without end; a stream can."
            raise SettingsError(message, where="num_times")
        if num_times == 1:
            return self._derive(self._print)
        every = np.arange(len(self), dtype=np.int64)
        return self._picked(np.tile(every, max(num_times, 0)), None)

    def shard(
        self,
        num_shards: int,
        index: int,
        contiguous: bool = True,
        keep_in_memory: bool = False,
        indices_cache_file_name: str | None = None,
        writer_batch_size: int | None = 1000,
    ) -> Self:
        """One of several parts of nearly equal size.

        Args:
            num_shards: how many parts there are.
            index: which of them, from 0.
            contiguous: parts are runs of rows; otherwise every `num_shards`-th row.
            keep_in_memory, indices_cache_file_name, writer_batch_size: as for `select`.

        Raises:
            SettingsError: there is no such part.
        """
        del keep_in_memory, indices_cache_file_name, writer_batch_size
        if not 0 <= index < num_shards:
            raise SettingsError(
                f"There is no shard {index} of {num_shards}.",
                where="index",
                hint=f"Give 0 to {num_shards - 1}.",
            )
        if not contiguous:
            return self.select(range(index, len(self), num_shards))
        size, more = divmod(len(self), num_shards)
        start = size * index + min(index, more)
        return self.select(range(start, start + size + (index < more)))

    def shuffle(
        self,
        seed: int | None = None,
        generator: np.random.Generator | None = None,
        keep_in_memory: bool = False,
        load_from_cache_file: bool | None = None,
        indices_cache_file_name: str | None = None,
        writer_batch_size: int | None = 1000,
        new_fingerprint: str | None = None,
    ) -> Self:
        """All rows in random order, every order being equally likely.

        Args:
            seed: decides the order. Without it and without a generator a seed is drawn from
                numpy's global state, so that ``np.random.seed`` decides.
            generator: decides the order, and moves on.
            keep_in_memory, load_from_cache_file, indices_cache_file_name, writer_batch_size:
                taken for compatibility; an order is made faster than a file is read.
            new_fingerprint: the result's fingerprint, instead of the computed one.

        Raises:
            SettingsError: both a seed and a generator are given, or the generator is none.
        """
        del keep_in_memory, load_from_cache_file, indices_cache_file_name, writer_batch_size
        if seed is not None and generator is not None:
            message = "Give a seed or a generator, not both."
            raise SettingsError(message, where="shuffle")
        _check_generator(generator)
        if len(self) == 0:
            return self._derive(self._print)
        seed = drawn_seed() if seed is None and generator is None else seed
        source = generator if generator is not None else np.random.default_rng(seed)
        rows = source.permutation(len(self))
        made = Print(new_fingerprint) if new_fingerprint is not None else None
        if made is None and generator is None:
            # A seed is hashed faster than the order; the first rows tell if numpy's way changed.
            made = self._print.then("shuffle 1", seed=_plain_seed(seed), first=rows[:64].copy())
        return self._picked(rows, made)

    def sort(
        self,
        column_names: str | Sequence[str],
        reverse: bool | Sequence[bool] = False,
        null_placement: str = "at_end",
        keep_in_memory: bool = False,
        load_from_cache_file: bool | None = None,
        indices_cache_file_name: str | None = None,
        writer_batch_size: int | None = 1000,
        new_fingerprint: str | None = None,
    ) -> Self:
        """The rows in the order of columns' values.

        Args:
            column_names: columns; rows that are equal in the first are ordered by the second ...
            reverse: whether the largest value comes first, for all columns or one by one.
            null_placement: ``at_end`` or ``at_start``.
            keep_in_memory: do not keep the order in the cache.
            load_from_cache_file: False sorts even if the order is in the cache.
            indices_cache_file_name, writer_batch_size: taken for compatibility.
            new_fingerprint: the result's fingerprint, instead of the computed one.

        Raises:
            ColumnError: there is no such column.
            FeatureTypeError: values of a column have no order.
            SettingsError: another argument makes no sense.
        """
        del indices_cache_file_name, writer_batch_size
        names = names_of(column_names, self._features, "column_names")
        flags = [reverse] * len(names) if isinstance(reverse, bool) else list(reverse)
        if len(flags) != len(names):
            raise SettingsError(
                f"reverse has {len(flags)} values for {len(names)} columns.",
                where="reverse",
                hint="Give one for each column, or one for all.",
            )
        placement = _PLACEMENTS.get(null_placement)
        if placement is None:
            raise SettingsError(
                f"null_placement cannot be {null_placement!r}.",
                where="null_placement",
                hint="Give 'at_end' or 'at_start'.",
            )
        if len(self) == 0:
            return self._derive(self._print)
        said = {"columns": names, "reverse": [bool(each) for each in flags], "nulls": placement}
        made = (
            Print(new_fingerprint)
            if new_fingerprint is not None
            else self._print.then("sort 1", **said)
        )
        keys = [
            (name, "descending" if flag else "ascending")
            for name, flag in zip(names, flags, strict=True)
        ]
        if len(self) < CACHED_SORT or keep_in_memory:
            return self._picked(self._sorted(names, keys, placement), made)
        from provender.data.dataset.rowfiles import kept_rows

        rows = kept_rows(
            made,
            "sort",
            self,
            said,
            lambda: self._sorted(names, keys, placement),
            reuse=load_from_cache_file,
        )
        return self._picked(rows, made)

    def _sorted(self, names: list[str], keys: list[tuple[str, str]], placement: str) -> np.ndarray:
        import pyarrow.compute as pc

        table = self._whole(list(dict.fromkeys(names)))
        try:
            if int(pa.__version__.split(".")[0]) >= 25:
                order = pc.sort_indices(table, sort_keys=[(*key, placement) for key in keys])
            else:
                order = pc.sort_indices(table, sort_keys=keys, null_placement=placement)
        except (pa.ArrowNotImplementedError, pa.ArrowTypeError) as error:
            raise FeatureTypeError(
                f"Rows cannot be sorted by {', '.join(map(repr, names))}: "
                f"{str(error).splitlines()[0]}",
                where="column_names",
                hint="Sort by columns of numbers, texts or dates.",
                facts={"columns": names},
            ) from error
        return np.asarray(order).astype(np.int64)

    def train_test_split(
        self,
        test_size: float | None = None,
        train_size: float | None = None,
        shuffle: bool = True,
        stratify_by_column: str | None = None,
        seed: int | None = None,
        generator: np.random.Generator | None = None,
        keep_in_memory: bool = False,
        load_from_cache_file: bool | None = None,
        train_indices_cache_file_name: str | None = None,
        test_indices_cache_file_name: str | None = None,
        writer_batch_size: int | None = 1000,
        train_new_fingerprint: str | None = None,
        test_new_fingerprint: str | None = None,
    ) -> DatasetDict:
        """Two datasets, ``train`` and ``test``, that share no row.

        Args:
            test_size: rows of ``test``: a number, or a part between 0 and 1; 0.25 by default.
            train_size: likewise of ``train``; by default what is left.
            shuffle: choose rows at random; otherwise ``train`` is the beginning.
            stratify_by_column: a column of class labels that have the same shares in both.
            seed, generator: decide the choice, as for `shuffle`.
            keep_in_memory, load_from_cache_file, train_indices_cache_file_name,
                test_indices_cache_file_name, writer_batch_size: as for `shuffle`.
            train_new_fingerprint, test_new_fingerprint: the results' fingerprints.

        Raises:
            SettingsError: the sizes make no sense, or a class has fewer than two rows.
            ColumnError: there is no such column.
        """
        from provender.data.dataset.dictionary import DatasetDict
        from provender.data.dataset.splitting import sizes, stratified

        del keep_in_memory, load_from_cache_file, writer_batch_size
        del train_indices_cache_file_name, test_indices_cache_file_name
        _check_generator(generator)
        if len(self) == 0:
            same = self._derive(self._print)
            return DatasetDict({"train": cast("Any", same), "test": cast("Any", same)})
        n_train, n_test = sizes(len(self), test_size, train_size)
        if not shuffle:
            if stratify_by_column is not None:
                message = "A stratified split chooses at random."
                raise SettingsError(message, where="shuffle", hint="Leave shuffle=False out.")
            train = np.arange(n_train)
            test = np.arange(n_train, n_train + n_test)
        else:
            if generator is None:
                generator = np.random.default_rng(drawn_seed() if seed is None else seed)
            if stratify_by_column is not None:
                labels = self._labels(stratify_by_column)
                train, test = stratified(labels, n_train, n_test, generator, stratify_by_column)
            else:
                rows = generator.permutation(len(self))
                test, train = rows[:n_test], rows[n_test : n_test + n_train]
        prints = [
            None if each is None else Print(each)
            for each in (train_new_fingerprint, test_new_fingerprint)
        ]
        return DatasetDict(
            {
                "train": cast("Any", self._picked(train, prints[0])),
                "test": cast("Any", self._picked(test, prints[1])),
            }
        )

    def _labels(self, column: str) -> np.ndarray:
        from provender.data.features import ClassLabel

        names_of(column, self._features, "stratify_by_column")
        if not isinstance(self._features[column], ClassLabel):
            raise FeatureTypeError(
                f"Column {column!r} holds {self._features[column]!r}, not class labels.",
                where="stratify_by_column",
                hint=f"First: ds = ds.class_encode_column({column!r})",
            )
        values = self._whole([column]).column(0)
        if values.null_count:
            raise FeatureTypeError(
                f"Column {column!r} has {values.null_count:,} rows without a class.",
                where="stratify_by_column",
                hint="Leave them out first, with filter.",
            )
        return np.asarray(values)

    def flatten_indices(
        self,
        keep_in_memory: bool = False,
        cache_file_name: str | None = None,
        writer_batch_size: int | None = 1000,
        features: Mapping[str, Any] | None = None,
        num_proc: int | None = None,
        new_fingerprint: str | None = None,
    ) -> Self:
        """The dataset with its rows stored in their order, which makes reading them faster.

        The rows are the same, so the fingerprint is.

        Args:
            keep_in_memory: keep them in memory, however many bytes they are.
            cache_file_name, writer_batch_size, num_proc: as for ``map``.
            features: types that columns are cast to.
            new_fingerprint: the result's fingerprint, instead of the computed one.
        """
        if self._indices is None and cache_file_name is None:
            same = self._derive(self._print if new_fingerprint is None else Print(new_fingerprint))
            return same if features is None else cast("Any", same).cast(features)
        share = len(self) / max(self._data.num_rows, 1)
        small = keep_in_memory or self._data.nbytes * share <= IN_MEMORY
        if small and cache_file_name is None:
            made = self._print if new_fingerprint is None else Print(new_fingerprint)
            new = self._derive(made, table=self._whole(), indices=None, keep=())
        else:
            plain = self._derive(self._print)
            plain._format, plain._formatter_made = Format("arrow"), None
            new = cast("Any", plain).map(
                _as_it_is,
                batched=True,
                features=self._features,
                cache_file_name=cache_file_name,
                writer_batch_size=writer_batch_size,
                num_proc=num_proc,
                desc="Flatten the order",
            )
            new._print = self._print if new_fingerprint is None else Print(new_fingerprint)
            new._format, new._formatter_made = self._format, None
        return new if features is None else cast("Any", new).cast(features)

    def add_item(self, item: Mapping[str, Any], new_fingerprint: str | None = None) -> Self:
        """The dataset with one row more at its end.

        Args:
            item: the row. Columns that it lacks are None there; columns of it that the dataset
                lacks are added, None in all rows before.
            new_fingerprint: the result's fingerprint, instead of the computed one.

        Raises:
            FeatureTypeError: a value is not of its column's type.
        """
        from provender.data.features import Features, table_from_rows, unify

        new = {name: value for name, value in item.items() if name not in self._features}
        known = {name: each for name, each in self._features.items() if name in item}
        found = Features(known)
        if new:
            own = table_from_rows([new]).schema
            found = Features({**known, **Features.from_arrow_schema(own)})
        row = table_from_rows([dict(item)], found, first_row=len(self), coerce=True)
        features = unify(self._features, found)
        table = pa.concat_tables([_with_all(self._data, features), _with_all(row, features)])
        made = (
            Print(new_fingerprint)
            if new_fingerprint is not None
            else self._print.then("add_item 1", row=row.replace_schema_metadata(None))
        )
        indices = self._indices
        if indices is not None:
            indices = np.append(indices, np.int64(self._data.num_rows))
        return self._derive(made, table=table, features=features, indices=indices)


def _with_all(table: pa.Table, features: Mapping[str, Any]) -> pa.Table:
    """The table with all columns of the features, None where it has none."""
    from provender.data.features import Features, cast_table, type_of

    for name, feature in features.items():
        if name not in table.column_names:
            table = table.append_column(name, pa.nulls(table.num_rows, type_of(feature)))
    schema = Features(features).arrow_schema
    table = table.select(list(features))
    return table.cast(schema) if table.schema.equals(schema) else cast_table(table, features)


def _step(rows: np.ndarray) -> int | None:
    """The distance between row numbers where it is always the same, else None."""
    if len(rows) < 2:
        return 1
    step = int(rows[1]) - int(rows[0])
    if int(rows[-1]) - int(rows[0]) != step * (len(rows) - 1):
        return None
    return step if bool((np.diff(rows) == step).all()) else None


def drawn_seed() -> int:
    """A seed from numpy's global state, which moves on by one number."""
    _, state, at, *_ = cast("tuple[Any, ...]", np.random.get_state())
    np.random.random()
    return int(state[at] if at < 624 else state[0])


def _count(n: int, where: str) -> int:
    if n < 0:
        message = f"{where} needs a number of rows, not {n}."
        raise SettingsError(message, where=where, hint="Give 0 or more.")
    return n


def _check_generator(generator: Any) -> None:
    if generator is not None and not isinstance(generator, np.random.Generator):
        raise SettingsError(
            f"generator must be a numpy.random.Generator, not {generator!r} "
            f"({type(generator).__name__}).",
            where="generator",
            hint="Give np.random.default_rng(3), or seed=3."
            if isinstance(generator, int)
            else "Give np.random.default_rng(...), or a seed.",
        )


def _plain_seed(seed: Any) -> Any:
    return int(seed) if isinstance(seed, np.integer) else seed


def _as_it_is(table: pa.Table) -> pa.Table:
    return table
