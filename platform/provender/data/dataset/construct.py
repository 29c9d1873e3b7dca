"""Making datasets: of Python objects, frames, files, generators and sources."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Self, cast

import pyarrow as pa

from provender.data.dataset.base import Base
from provender.data.dataset.chain import Print, content_print
from provender.data.dataset.info import DatasetInfo
from provender.errors import SettingsError

if TYPE_CHECKING:
    from provender.data.features import Features
    from provender.data.sources import Source


class Construct(Base):
    """Class methods that make datasets."""

    @classmethod
    def _of_table(
        cls,
        table: pa.Table,
        features: Features | None,
        info: DatasetInfo | None,
        split: Any,
        fingerprint: str | None = None,
    ) -> Self:
        from provender.data.features import Features

        if features is None:
            features = Features.from_arrow_schema(table.schema)
        made = cls._make(table, features, Print(fingerprint or ""), info=info, split=split)
        made._print = (
            content_print(made._data, features) if fingerprint is None else Print(fingerprint)
        )
        return made

    @classmethod
    def from_dict(
        cls,
        mapping: Mapping[str, Any],
        features: Features | None = None,
        info: DatasetInfo | None = None,
        split: Any = None,
    ) -> Self:
        """A dataset of columns.

        Args:
            mapping: column name -> values: lists, numpy arrays, tensors, Arrow arrays.
            features: columns and types; by default they follow from the values.
            info: what is known about the dataset; its features count if none are given.
            split: name of the split.

        Raises:
            ColumnLengthError: the columns differ in length.
            FeatureTypeError: a value is not of its column's type.
        """
        from provender.data.features import table_from_batch

        features = _wanted(features, info)
        table = table_from_batch(dict(mapping), features, coerce=features is not None)
        return cls._of_table(table, features, info, split)

    @classmethod
    def from_list(
        cls,
        mapping: Sequence[Mapping[str, Any]],
        features: Features | None = None,
        info: DatasetInfo | None = None,
        split: Any = None,
    ) -> Self:
        """A dataset of rows.

        Args:
            mapping: rows as dicts; a key that a row lacks is None there.
            features, info, split: as for `from_dict`.

        Raises:
            FeatureTypeError: a value is not of its column's type; names column and row.
        """
        from provender.data.features import table_from_rows

        features = _wanted(features, info)
        table = table_from_rows(list(mapping), features, coerce=features is not None)
        return cls._of_table(table, features, info, split)

    @classmethod
    def from_pandas(
        cls,
        df: Any,
        features: Features | None = None,
        info: DatasetInfo | None = None,
        split: Any = None,
        preserve_index: bool | None = None,
    ) -> Self:
        """A dataset of a pandas DataFrame.

        Args:
            df: the frame.
            features, info, split: as for `from_dict`.
            preserve_index: keep the frame's index as a column; by default where it is more than
                row numbers.
        """
        table = pa.Table.from_pandas(df, preserve_index=preserve_index)
        return cls._of_frame(table, features, info, split)

    @classmethod
    def from_polars(
        cls,
        df: Any,
        features: Features | None = None,
        info: DatasetInfo | None = None,
        split: Any = None,
    ) -> Self:
        """A dataset of a polars DataFrame; arguments as for `from_pandas`."""
        return cls._of_frame(df.to_arrow(), features, info, split)

    @classmethod
    def _of_frame(
        cls, table: pa.Table, features: Features | None, info: DatasetInfo | None, split: Any
    ) -> Self:
        from provender.data.features import cast_table, table_from_batch

        features = _wanted(features, info)
        plain = table_from_batch(table.replace_schema_metadata(None))
        if features is not None:
            plain = cast_table(plain, features)
        return cls._of_table(plain, features, info, split)

    @classmethod
    def from_file(
        cls,
        filename: str | os.PathLike[str],
        info: DatasetInfo | None = None,
        split: Any = None,
        in_memory: bool = False,
    ) -> Self:
        """A dataset of an Arrow stream or file, memory-mapped unless told otherwise.

        Args:
            filename: its path.
            info, split: as for `from_dict`.
            in_memory: read it into memory.

        Raises:
            InputError: there is no such file, or it is not Arrow.
        """
        from provender.data.dataset.files import read_stream

        table = read_stream(filename, in_memory=in_memory)
        return cls._of_table(table, _wanted(None, info), info, split)

    @classmethod
    def from_buffer(cls, buffer: Any, info: DatasetInfo | None = None, split: Any = None) -> Self:
        """A dataset of an Arrow stream in memory.

        Args:
            buffer: bytes or a ``pyarrow.Buffer``.
            info, split: as for `from_dict`.

        Raises:
            InputError: it is not Arrow.
        """
        from provender.errors import InputError

        try:
            with pa.ipc.open_stream(pa.py_buffer(buffer)) as stream:
                table = stream.read_all()
        except pa.ArrowInvalid as error:
            said = str(error).splitlines()[0]
            raise InputError(f"The buffer is no Arrow stream: {said}", where="buffer") from error
        return cls._of_table(table, _wanted(None, info), info, split)

    @classmethod
    def from_generator(
        cls,
        generator: Callable[..., Iterable[Mapping[str, Any]]],
        features: Features | None = None,
        keep_in_memory: bool = False,
        gen_kwargs: Mapping[str, Any] | None = None,
        num_proc: int | None = None,
        split: Any = "train",
        fingerprint: str | None = None,
        load_from_cache_file: bool | None = None,
        cache_dir: str | os.PathLike[str] | None = None,
    ) -> Self:
        """A dataset of what a generator function yields, kept in the transform cache.

        Args:
            generator: yields rows as dicts.
            features: columns and types; by default they are found from the rows.
            keep_in_memory: the rows lie in memory and not in the cache.
            gen_kwargs: arguments of the function. Lists are shards: the function is called once
                for each element, with lists of that one.
            num_proc: worker processes that run the function for different shards; needs lists
                among `gen_kwargs`. It does not change the rows or their order.
            split: name of the split.
            fingerprint: what the rows are; by default that of the function and its arguments.
            load_from_cache_file: False reads the rows again even if they are there.
            cache_dir: folder of the transform cache, where it is not that of the settings.

        Raises:
            InputError: a row is not a dict.
            SettingsError: `num_proc` without lists.
            FeatureTypeError: a column changed its type; names column, row and both types.
        """
        from provender.data.sources import GeneratorSource

        named = None
        if fingerprint is not None:
            from provender.fingerprint import Hasher

            named = Hasher.hash(("provender named generator", fingerprint))
        source = GeneratorSource(generator, gen_kwargs, features=features, identity=named)
        if num_proc is not None and num_proc > 1 and source.num_shards < 2:
            raise SettingsError(
                f"num_proc={num_proc} has nothing to share out: no list in gen_kwargs has two "
                "elements.",
                where="num_proc",
                hint="Give the function a list, e.g. of files; it is called with parts of it. Or "
                "leave num_proc out.",
            )
        made = cls.from_source(
            source,
            features=features,
            split=split,
            keep_in_memory=keep_in_memory,
            load_from_cache_file=load_from_cache_file,
            num_proc=num_proc,
            name=f"from_generator({getattr(generator, '__name__', 'generator')})",
            cache_dir=None if cache_dir is None else os.fspath(cache_dir),
        )
        if fingerprint is not None:
            made._print = Print(fingerprint)
        return made

    @classmethod
    def from_source(
        cls,
        source: Source,
        *,
        features: Features | None = None,
        info: DatasetInfo | None = None,
        split: Any = None,
        keep_in_memory: bool = False,
        load_from_cache_file: bool | None = None,
        num_proc: int | None = None,
        name: str = "",
        lineage: Sequence[str] = (),
        cache_dir: str | None = None,
    ) -> Self:
        """A dataset of all rows of a source, kept in the transform cache under its identity.

        Args:
            source: where rows come from.
            features: types that the columns are cast to.
            info, split: as for `from_dict`.
            keep_in_memory: the rows lie in memory and not in the cache.
            load_from_cache_file: False reads them again even if they are there.
            num_proc: shards that are read at the same time, at most one by each: by threads where
                the source knows how many rows each has, else by worker processes.
            name: what to call it in progress bars and lineage.
            lineage: fingerprints of the published versions that it reads.
            cache_dir: folder of the transform cache, where it is not that of the settings.
        """
        from provender.data.dataset.materialise import materialised

        table, found, fingerprint, keep, own = materialised(
            source,
            features,
            info or DatasetInfo(),
            keep_in_memory=keep_in_memory,
            reuse=load_from_cache_file,
            threads=num_proc or 1,
            name=name,
            lineage=tuple(lineage),
            folder=cache_dir,
        )
        return cls._make(
            table,
            found,
            Print(fingerprint, source.unhashable),
            info=info,
            split=split,
            keep=keep,
            lineage=own,
        )

    @classmethod
    def from_tfrecord(
        cls,
        path_or_paths: Any,
        features: Features | None = None,
        split: Any = None,
        keep_in_memory: bool = False,
        **options: Any,
    ) -> Self:
        """A dataset of TFRecord files of tf.Example.

        Args:
            path_or_paths: paths, URLs or patterns.
            features: columns and types; by default they are found from the records.
            split, keep_in_memory: as for `from_source`; the split is ``train`` unless named.
            **options: as for `load_dataset`.
        """
        return cls._loaded("tfrecord", path_or_paths, features, split, keep_in_memory, options)

    @classmethod
    def from_csv(
        cls,
        path_or_paths: Any,
        split: Any = None,
        features: Features | None = None,
        keep_in_memory: bool = False,
        **options: Any,
    ) -> Self:
        """A dataset of CSV files; arguments as for `from_tfrecord`."""
        return cls._loaded("csv", path_or_paths, features, split, keep_in_memory, options)

    @classmethod
    def from_json(
        cls,
        path_or_paths: Any,
        split: Any = None,
        features: Features | None = None,
        keep_in_memory: bool = False,
        **options: Any,
    ) -> Self:
        """A dataset of JSON or JSON Lines files; arguments as for `from_tfrecord`."""
        return cls._loaded("json", path_or_paths, features, split, keep_in_memory, options)

    @classmethod
    def from_parquet(
        cls,
        path_or_paths: Any,
        split: Any = None,
        features: Features | None = None,
        keep_in_memory: bool = False,
        columns: Sequence[str] | None = None,
        **options: Any,
    ) -> Self:
        """A dataset of Parquet files; arguments as for `from_tfrecord`.

        Args:
            path_or_paths, split, features, keep_in_memory, **options: as there.
            columns: those that are read.
        """
        made = cls._loaded("parquet", path_or_paths, features, split, keep_in_memory, options)
        return made if columns is None else cast("Self", cast("Any", made).select_columns(columns))

    @classmethod
    def from_text(
        cls,
        path_or_paths: Any,
        split: Any = None,
        features: Features | None = None,
        keep_in_memory: bool = False,
        **options: Any,
    ) -> Self:
        """A dataset of text files, a line a row, in the column ``text``; as `from_tfrecord`."""
        return cls._loaded("text", path_or_paths, features, split, keep_in_memory, options)

    @classmethod
    def _loaded(
        cls,
        kind: str,
        paths: Any,
        features: Features | None,
        split: Any,
        keep_in_memory: bool,
        options: Mapping[str, Any],
    ) -> Self:
        from provender.data.loading import load_dataset

        if isinstance(paths, Mapping):
            raise SettingsError(
                "One dataset is made of one list of files.",
                where="path_or_paths",
                hint=f"DatasetDict.from_{kind} takes files by split.",
            )
        names = (
            [os.fspath(paths)]
            if isinstance(paths, str | os.PathLike)
            else [os.fspath(each) for each in paths]
        )
        name = "train" if split is None else str(split)
        made = load_dataset(
            kind, data_files={name: names}, split=name, features=features, **options
        )
        if keep_in_memory:
            from provender.data.dataset.storing import in_memory

            made = made._derive(made._print, table=in_memory(made._whole()), indices=None, keep=())
        return cast("Self", made)


def _wanted(features: Any, info: DatasetInfo | None) -> Features | None:
    from provender.data.features import Features

    if features is None:
        features = info.features if info is not None else None
    if features is None or isinstance(features, Features):
        return features
    return Features(features)
