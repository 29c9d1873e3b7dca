"""Streams from what a program has at hand: generators, lists, frames, files."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from provender.data.stream.operators import Operators

if TYPE_CHECKING:
    from provender.data.sources.base import Source
    from provender.data.stream.dataset import IterableDataset


class Making(Operators):
    """The constructors of `IterableDataset`."""

    @classmethod
    def from_source(
        cls, source: Source, split: str | None = None, info: Any = None
    ) -> IterableDataset:
        """A stream of a source: see `provender.data.sources`."""
        return cls(source, split=split, info=info)  # type: ignore[return-value]

    @classmethod
    def from_generator(
        cls,
        generator: Callable[..., Iterable[Mapping[str, Any]]],
        features: Mapping[str, Any] | None = None,
        gen_kwargs: Mapping[str, Any] | None = None,
        split: str | None = None,
    ) -> IterableDataset:
        """A stream of what a generator function yields.

        Args:
            generator: returns an iterable of dicts.
            features: their columns and types.
            gen_kwargs: its arguments. Lists among them, all of one length, are the shards: each
                call gets lists with one element.
            split: the split's name.
        """
        from provender.data.features import Features
        from provender.data.sources.generator import GeneratorSource

        known = None if features is None else Features(features)
        source = GeneratorSource(generator, dict(gen_kwargs or {}), features=known)
        return cls(source, split=split)  # type: ignore[return-value]

    @classmethod
    def from_dict(
        cls,
        mapping: Mapping[str, Any],
        features: Mapping[str, Any] | None = None,
        split: str | None = None,
        num_shards: int = 1,
    ) -> IterableDataset:
        """A stream of columns: name -> list, array or Arrow array."""
        from provender.data.features import table_from_batch

        return cls._from_table(table_from_batch(mapping, features), split, num_shards)

    @classmethod
    def from_list(
        cls,
        mapping: Sequence[Mapping[str, Any]],
        features: Mapping[str, Any] | None = None,
        split: str | None = None,
        num_shards: int = 1,
    ) -> IterableDataset:
        """A stream of rows."""
        from provender.data.features import table_from_rows

        return cls._from_table(table_from_rows(mapping, features), split, num_shards)

    @classmethod
    def from_pandas(
        cls,
        df: Any,
        features: Mapping[str, Any] | None = None,
        split: str | None = None,
        num_shards: int = 1,
    ) -> IterableDataset:
        """A stream of the rows of a data frame, without its index."""
        from provender.data.features import table_from_batch

        return cls._from_table(table_from_batch(df, features), split, num_shards)

    @classmethod
    def _from_table(cls, table: Any, split: str | None, num_shards: int) -> IterableDataset:
        from provender.data.sources.tables import TableSource

        return cls(TableSource(table, num_shards=num_shards), split=split)  # type: ignore[return-value]

    @classmethod
    def from_parquet(cls, path_or_paths: Any, split: str | None = None, **kwargs: Any) -> Any:
        """A stream of parquet files; see `provender.data.load_dataset`."""
        return _loaded("parquet", path_or_paths, split, kwargs)

    @classmethod
    def from_file(cls, filename: Any, split: str | None = None) -> Any:
        """A stream of an Arrow file; see `provender.data.load_dataset`."""
        return _loaded("arrow", filename, split, {})

    @classmethod
    def from_json(cls, path_or_paths: Any, split: str | None = None, **kwargs: Any) -> Any:
        """A stream of JSON lines files; see `provender.data.load_dataset`."""
        return _loaded("json", path_or_paths, split, kwargs)

    @classmethod
    def from_csv(cls, path_or_paths: Any, split: str | None = None, **kwargs: Any) -> Any:
        """A stream of CSV files; see `provender.data.load_dataset`."""
        return _loaded("csv", path_or_paths, split, kwargs)

    @classmethod
    def from_text(cls, path_or_paths: Any, split: str | None = None, **kwargs: Any) -> Any:
        """A stream of lines of text files; see `provender.data.load_dataset`."""
        return _loaded("text", path_or_paths, split, kwargs)


def _loaded(kind: str, paths: Any, split: str | None, kwargs: Mapping[str, Any]) -> Any:
    from provender.data.loading import load_dataset

    return load_dataset(kind, data_files=paths, split=split or "train", streaming=True, **kwargs)
