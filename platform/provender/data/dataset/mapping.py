"""`map`, `filter` and `batch`: transforms that call a function of the user's, and are cached."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from provender.data.dataset.base import Base
from provender.data.dataset.bounds import names_of
from provender.data.dataset.calling import PIECE_ROWS, Call, OfSplit
from provender.data.dataset.chain import Print, digest_part, grown
from provender.data.dataset.formatting import Format
from provender.data.dataset.tables import compact
from provender.errors import SettingsError

if TYPE_CHECKING:
    from provender.data.cache import Entry, Recipe
    from provender.data.features import Features
    from provender.fingerprint import Tree

_MAP = "map 2"
_FILTER = "filter 2"


class Mapped(Base):
    """Transforms by a function."""

    def map(
        self,
        function: Callable[..., Any] | None = None,
        with_indices: bool = False,
        with_rank: bool = False,
        input_columns: str | Sequence[str] | None = None,
        batched: bool = False,
        batch_size: int | None = 1000,
        drop_last_batch: bool = False,
        remove_columns: str | Sequence[str] | None = None,
        keep_in_memory: bool = False,
        load_from_cache_file: bool | None = None,
        cache_file_name: str | None = None,
        writer_batch_size: int | None = 1000,
        features: Features | None = None,
        fn_kwargs: Mapping[str, Any] | None = None,
        num_proc: int | None = None,
        new_fingerprint: str | None = None,
        desc: str | None = None,
    ) -> Self:
        """Applies a function to every row, or to batches of rows, and keeps the result.

        The function *updates* what it is given: columns that it returns replace those of the same
        name or are added; all others stay, unless they are in `remove_columns`. A batched function
        may return more or fewer rows; then the input's columns must be removed. A function that
        returns None is called for what it does, and the dataset stays as it is.

        The result lies in the transform cache under a fingerprint of the dataset, the function
        with everything it refers to, and the parameters that can change the result: `batch_size`
        and `drop_last_batch` only if batched; never `num_proc`, `desc`, `writer_batch_size`, or
        where it is kept. An interrupted or failed run goes on where it stopped.

        Args:
            function: takes a row as a dict (or a batch as a dict of lists; or whatever the
                dataset's format gives) and returns a dict; may be asynchronous.
            with_indices: the function takes the row number (batched: numbers) as well.
            with_rank: it takes the number of the worker process as well.
            input_columns: columns that it takes as arguments of their own, instead of the dict.
            batched: it takes batches.
            batch_size: rows of a batch; None or 0 for all rows at once.
            drop_last_batch: leave out a last batch that is smaller.
            remove_columns: columns of the input that the result does not keep.
            keep_in_memory: the result lies in memory and not in the cache.
            load_from_cache_file: False computes the result even if it is there.
            cache_file_name: a file that the result is written to as well, as an Arrow stream.
            writer_batch_size: rows that are converted to Arrow together (at most 1,000), for
                functions of single rows that return a lot.
            features: columns and types of the result; by default they are found from what the
                function returns, and a column of the input keeps its type if that can hold it.
            fn_kwargs: more arguments of the function.
            num_proc: worker processes. They are fresh interpreters: the function is sent to them.
            new_fingerprint: the fingerprint of the result, instead of the one that is computed.
            desc: what the progress bar says.

        Raises:
            ColumnError: a column named, asked for or given does not exist or is new half-way.
            TransformError: the function raised or returned what cannot be stored; names the row.
            FeatureTypeError: a column changed its type; names column, row and both types.
            ColumnLengthError: columns of a batch differ in length.
            WorkerDied: a worker process was killed.
            DiskFull: no space was left; what was finished is kept.
        """
        call = self._call(
            "map",
            function if function is not None else _identity,
            with_indices=with_indices,
            with_rank=with_rank,
            input_columns=input_columns,
            remove_columns=remove_columns,
            batched=batched,
            batch_size=batch_size,
            fn_kwargs=fn_kwargs,
            writer_batch_size=writer_batch_size,
        )
        if keep_in_memory and cache_file_name is not None:
            message = "keep_in_memory and cache_file_name exclude each other."
            raise SettingsError(message, where="map")
        total = len(self)
        if batched and drop_last_batch:
            total -= total % call.batch_size
        if total == 0:
            return self._of_no_rows(call.remove_columns, features, new_fingerprint)
        parameters: dict[str, Any] = {"remove_columns": sorted(call.remove_columns)}
        if batched:
            parameters["drop_last_batch"] = drop_last_batch
        if features is not None:
            from provender.data.features import Features

            features = features if isinstance(features, Features) else Features(features)
            parameters["features"] = features.to_dict()
        chosen = _Chosen(self, call, _MAP, parameters, new_fingerprint)
        entry = chosen.run(
            total, features, num_proc, desc or "Map", load_from_cache_file, keep_in_memory
        )
        if entry is None:
            return self._derive(self._print)
        return self._stored(entry, chosen, keep_in_memory, cache_file_name)

    def filter(
        self,
        function: Callable[..., Any] | None = None,
        with_indices: bool = False,
        with_rank: bool = False,
        input_columns: str | Sequence[str] | None = None,
        batched: bool = False,
        batch_size: int | None = 1000,
        keep_in_memory: bool = False,
        load_from_cache_file: bool | None = None,
        cache_file_name: str | None = None,
        writer_batch_size: int | None = 1000,
        fn_kwargs: Mapping[str, Any] | None = None,
        num_proc: int | None = None,
        new_fingerprint: str | None = None,
        desc: str | None = None,
    ) -> Self:
        """The rows for which a function returns True. Only their numbers are stored.

        Args:
            function: takes a row and returns a truth value; batched: takes a batch and returns
                one for each of its rows.
            with_indices, with_rank, input_columns, batched, batch_size, keep_in_memory,
                load_from_cache_file, cache_file_name, writer_batch_size, fn_kwargs, num_proc,
                new_fingerprint, desc: as for `map`.

        Raises:
            TransformError: the function raised, or returned something else; names the row.
        """
        if len(self) == 0:
            return self._derive(self._print)
        call = self._call(
            "filter",
            function if function is not None else _keep,
            with_indices=with_indices,
            with_rank=with_rank,
            input_columns=input_columns,
            remove_columns=None,
            batched=batched,
            batch_size=batch_size,
            fn_kwargs=fn_kwargs,
            writer_batch_size=writer_batch_size,
        )
        chosen = _Chosen(self, call, _FILTER, {}, new_fingerprint)
        entry = chosen.run(
            len(self), None, num_proc, desc or "Filter", load_from_cache_file, keep_in_memory
        )
        assert entry is not None
        table = entry.table()
        if cache_file_name is not None:
            _write_file(table, cache_file_name)
        column = table.column(0)
        rows = np.concatenate(
            [np.zeros(0, np.int64), *(np.asarray(each).astype(np.int64) for each in column.chunks)]
        )
        if self._indices is not None:
            rows = self._indices[rows]
        return self._derive(
            chosen.print,
            indices=rows,
            keep=(*self._keep, *chosen.pins(entry, keep_in_memory)),
            lineage=(entry.fingerprint,),
        )

    def batch(
        self,
        batch_size: int,
        drop_last_batch: bool = False,
        num_proc: int | None = None,
        new_fingerprint: str | None = None,
    ) -> Self:
        """Makes batches into rows: every column becomes a column of lists.

        Args:
            batch_size: rows of a batch.
            drop_last_batch: leave out a last batch that is smaller.
            num_proc, new_fingerprint: as for `map`.
        """
        from provender.data.features import Features, List

        plain = self._derive(self._print)
        plain._format, plain._formatter_made = Format("arrow"), None
        made = plain.map(
            _as_one_row,
            batched=True,
            batch_size=batch_size,
            drop_last_batch=drop_last_batch,
            features=Features({name: List(each) for name, each in self._features.items()}),
            num_proc=num_proc,
            new_fingerprint=new_fingerprint,
            desc="Batching",
        )
        made._format, made._formatter_made = self._format, None
        return made

    # --- pieces -------------------------------------------------------------------------------

    def _call(
        self,
        kind: str,
        function: Callable[..., Any],
        *,
        batched: bool,
        batch_size: int | None,
        input_columns: Any,
        remove_columns: Any,
        fn_kwargs: Mapping[str, Any] | None,
        writer_batch_size: int | None,
        with_indices: bool,
        with_rank: bool,
    ) -> Call:
        if not callable(function):
            message = f"{kind} needs a function, not {type(function).__name__}."
            raise TypeError(message)
        known = self.column_names
        inputs = None
        if input_columns is not None:
            inputs = tuple(names_of(input_columns, known, "input_columns"))
        removed: tuple[str, ...] = ()
        if remove_columns is not None:
            removed = tuple(names_of(remove_columns, known, "remove_columns"))
        size = batch_size if batch_size is not None and batch_size > 0 else max(len(self), 1)
        most = writer_batch_size if writer_batch_size else PIECE_ROWS
        chosen = self._format
        return Call(
            function=function,
            kind=kind,
            name=_name_of(function),
            batched=batched,
            batch_size=size,
            with_indices=with_indices,
            with_rank=with_rank,
            input_columns=inputs,
            remove_columns=removed,
            fn_kwargs=dict(fn_kwargs or {}),
            # The columns of a format choose what reading gives; functions are given them all.
            format=Format(chosen.type, None, False, chosen.kwargs),
            piece_rows=max(1, min(most, PIECE_ROWS)),
        )

    def _of_no_rows(
        self, removed: Sequence[str], features: Features | None, new_fingerprint: str | None
    ) -> Self:
        """What a function makes of no rows: it is not called, so only columns can go."""
        from provender.data.features import Features

        kept = features
        if kept is None:
            left = [name for name in self._features if name not in set(removed)]
            kept = Features({name: self._features[name] for name in left})
        made = self._print.then("map of nothing 1", features=kept.to_dict())
        return self._derive(
            made if new_fingerprint is None else Print(new_fingerprint),
            table=kept.arrow_schema.empty_table(),
            features=kept,
            indices=None,
        )

    def _stored(
        self, entry: Entry, chosen: _Chosen, keep_in_memory: bool, file: str | None
    ) -> Self:
        from provender.data.dataset.storing import in_memory
        from provender.data.features import Features

        table = entry.table()
        if file is not None:
            _write_file(table, file)
        table = in_memory(table) if keep_in_memory else compact(table)
        return self._derive(
            chosen.print,
            table=table,
            features=Features.from_dict(entry.features or {}),
            indices=None,
            keep=chosen.pins(entry, keep_in_memory),
            lineage=(entry.fingerprint,),
        )


class _Chosen:
    """A transform with everything that its fingerprint depends on."""

    def __init__(
        self,
        dataset: Mapped,
        call: Call,
        name: str,
        parameters: Mapping[str, Any],
        new_fingerprint: str | None,
    ) -> None:
        self.dataset = dataset
        self.call = call
        self._name = name
        self.not_kept: str | None = None
        self.derived = False
        self.parameters: dict[str, Any] = dict(parameters)
        for flag in ("batched", "with_indices", "with_rank"):
            self.parameters[flag] = getattr(call, flag)
        if call.batched:
            self.parameters["batch_size"] = call.batch_size
        if call.input_columns is not None:
            self.parameters["input_columns"] = list(call.input_columns)
        self._objects: dict[str, Any] = {}
        if call.format.type is not None:
            self.parameters["format"] = call.format.type
            if call.format.kwargs:
                self._objects["format_kwargs"] = dict(call.format.kwargs)
        if call.fn_kwargs:
            self._objects["fn_kwargs"] = dict(call.fn_kwargs)
        self._objects["function"] = call.function
        if new_fingerprint is not None:
            if not 0 < len(new_fingerprint) <= 64:
                raise SettingsError(
                    f"{new_fingerprint!r} cannot be a fingerprint.",
                    where="new_fingerprint",
                    hint="Give 1 to 64 characters.",
                )
            self.print = Print(new_fingerprint)
            return
        digests = {key: self._digest(key, each) for key, each in self._objects.items()}
        before = dataset._fingerprint
        self.derived = self.not_kept is None and dataset._print.passing is not None
        if self.derived:
            self.not_kept = dataset._print.passing
        digest = grown(name, before, {**self.parameters, **digests}).digest
        self.print = Print(digest, self.not_kept)

    def _digest(self, key: str, value: Any) -> Tree:
        from provender.fingerprint import hash_or_random

        digest, message = hash_or_random(value, "" if key == "function" else key)
        if message is not None:
            self.not_kept = message
        return digest_part(key, digest)

    def _tree(self) -> Tree | None:
        """The fingerprint with its parts, for explanations; only made where one is needed."""
        from provender.fingerprint import Hasher, UnhashableError

        try:
            parts = {key: Hasher.tree(each, key) for key, each in self._objects.items()}
            return grown(self._name, self.dataset._fingerprint, {**self.parameters, **parts})
        except UnhashableError:
            return None

    def _recipe(self) -> Recipe:
        from provender.data.cache import Recipe

        info = self.dataset._info
        shown = {key: repr(value) for key, value in self.parameters.items() if value}
        shown.update(
            {key: _short(value) for key, value in self._objects.items() if key != "function"}
        )
        return Recipe(
            transform=self.call.kind,
            name=self.call.name,
            dataset=info.dataset_name or "",
            config=info.config_name or "",
            parents=self.dataset._lineage,
            parameters={"input": self.dataset._fingerprint, **shown},
            tree=self._tree,
        )

    def run(
        self,
        total: int,
        features: Features | None,
        num_proc: int | None,
        text: str,
        reuse: bool | None,
        keep_in_memory: bool,
    ) -> Entry | None:
        """The result, found or computed; None where the function returns None."""
        from provender.data.dataset.engine import Job, compute
        from provender.data.dataset.storing import found, obtain

        if num_proc is not None and num_proc < 0:
            raise SettingsError(f"num_proc must be 0 or more, not {num_proc}.", where="num_proc")
        fingerprint = self.print.get()
        not_kept = self.not_kept
        if keep_in_memory and not_kept is None:
            from provender.data.cache import is_caching_enabled

            entry = found(fingerprint) if reuse is not False and is_caching_enabled() else None
            if entry is not None:
                return entry
            not_kept = "it was to be kept in memory"
        job = Job(self.dataset, self.call, total, features, num_proc or 1, text)
        return obtain(
            fingerprint,
            self._recipe(),
            functools.partial(compute, job),
            reuse=reuse,
            not_kept=not_kept,
            held=self.derived and not keep_in_memory,
        )

    def pins(self, entry: Entry, keep_in_memory: bool) -> tuple[Entry, ...]:
        """What the result needs of the cache as long as it lives."""
        return () if keep_in_memory else (entry,)


def _name_of(function: Any) -> str:
    while isinstance(function, functools.partial | OfSplit):
        function = function.function if isinstance(function, OfSplit) else function.func
    name = getattr(function, "__qualname__", None) or type(function).__qualname__
    return str(name).split("<locals>.")[-1]


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 200 else text[:197] + "..."


def _write_file(table: Any, path: str) -> None:
    """Writes an Arrow stream so that the file is there whole or not at all."""
    from provender.data.dataset.files import write_stream

    write_stream(table, path)


def _identity(row: Any) -> Any:
    return row


def _keep(row: Any) -> bool:
    return True


def _as_one_row(table: Any) -> Any:
    import pyarrow as pa

    columns = {}
    for name in table.column_names:
        column = table.column(name).combine_chunks()
        if isinstance(column, pa.ChunkedArray):
            column = pa.concat_arrays(column.chunks)
        offsets = pa.array([0, len(column)], pa.int32())
        columns[name] = pa.ListArray.from_arrays(offsets, column)
    return pa.table(columns)
