"""`DatasetDict`: the splits of a dataset, transformed together."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Any

from provender.data.dataset.calling import OfSplit
from provender.data.dataset.core import Dataset
from provender.errors import UnknownReference

if TYPE_CHECKING:
    from provender.data.features import Features
    from provender.data.publishing import Published


class SplitMissing(UnknownReference, KeyError):
    """A split that is not there; also a KeyError."""


class DatasetDict(dict[str, Dataset]):
    """Split name -> `Dataset`.

    Transforms are those of `Dataset`, applied to every split with the same arguments, and have
    their documentation there.
    """

    def __getitem__(self, key: Any) -> Dataset:
        if key not in self:
            import difflib

            known = list(self)
            near = difflib.get_close_matches(str(key), known, 1)
            hint = f"Did you mean {near[0]!r}? " if near else ""
            raise SplitMissing(
                f"There is no split {key!r}.",
                hint=f"{hint}Splits: {', '.join(map(str, known))}."
                + (" A row is read from a split: ds['train'][0]." if isinstance(key, int) else ""),
                facts={"split": str(key), "splits": known},
            )
        return super().__getitem__(key)

    def _each(self, function: Callable[[Dataset], Any]) -> dict[str, Any]:
        self._check()
        return {name: function(each) for name, each in self.items()}

    def _all(self, method: str, *args: Any, **kwargs: Any) -> DatasetDict:
        return DatasetDict(self._each(lambda each: getattr(each, method)(*args, **kwargs)))

    def _check(self) -> None:
        for name, each in self.items():
            if not isinstance(each, Dataset):
                message = f"Split {name!r} is a {type(each).__name__}, not a Dataset."
                raise TypeError(message)

    @property
    def num_rows(self) -> dict[str, int]:
        """Number of rows of each split."""
        return self._each(len)

    @property
    def num_columns(self) -> dict[str, int]:
        """Number of columns of each split."""
        return self._each(lambda each: each.num_columns)

    @property
    def column_names(self) -> dict[str, list[str]]:
        """Column names of each split."""
        return self._each(lambda each: each.column_names)

    @property
    def shape(self) -> dict[str, tuple[int, int]]:
        """Rows and columns of each split."""
        return self._each(lambda each: each.shape)

    @property
    def data(self) -> dict[str, Any]:
        """The Arrow table of each split."""
        return self._each(lambda each: each.data)

    @property
    def cache_files(self) -> dict[str, list[dict[str, str]]]:
        """The files that the splits are read from."""
        return self._each(lambda each: each.cache_files)

    @property
    def features(self) -> dict[str, Features]:
        """The features of each split."""
        return self._each(lambda each: each.features)

    def unique(self, column: str) -> dict[str, list[Any]]:
        """See `Dataset.unique`."""
        return self._each(lambda each: each.unique(column))

    def cleanup_cache_files(self) -> dict[str, int]:
        """See `Dataset.cleanup_cache_files`."""
        return self._each(lambda each: each.cleanup_cache_files())

    def map(
        self,
        function: Any = None,
        *args: Any,
        with_split: bool = False,
        cache_file_names: Mapping[str, Any] | None = None,
        desc: str | None = None,
        **kwargs: Any,
    ) -> DatasetDict:
        """See `Dataset.map`.

        Args:
            function, *args, desc, **kwargs: as there.
            with_split: the function takes the name of the split as well, as its last argument.
            cache_file_names: split name -> `cache_file_name`.

        Raises:
            SplitMissing: a file is given for a split that is not there.
        """
        return DatasetDict(
            {
                name: each.map(
                    OfSplit(function, name) if with_split and function is not None else function,
                    *args,
                    desc=_text(desc, "Map", name),
                    **{**kwargs, **file},
                )
                for name, each, file in self._with_files(cache_file_names)
            }
        )

    def filter(
        self,
        function: Any = None,
        *args: Any,
        cache_file_names: Mapping[str, Any] | None = None,
        desc: str | None = None,
        **kwargs: Any,
    ) -> DatasetDict:
        """See `Dataset.filter`.

        Args:
            function, *args, desc, **kwargs: as there.
            cache_file_names: split name -> `cache_file_name`.

        Raises:
            SplitMissing: a file is given for a split that is not there.
        """
        return DatasetDict(
            {
                name: each.filter(
                    function, *args, desc=_text(desc, "Filter", name), **{**kwargs, **file}
                )
                for name, each, file in self._with_files(cache_file_names)
            }
        )

    def _with_files(
        self, files: Mapping[str, Any] | None
    ) -> Iterator[tuple[str, Any, dict[str, Any]]]:
        """The splits, each with the argument that names its file, if it has one."""
        self._check()
        for name in files or {}:
            self[name]
        for name, each in self.items():
            given = (files or {}).get(name)
            yield name, each, {} if given is None else {"cache_file_name": given}

    def batch(self, *args: Any, **kwargs: Any) -> DatasetDict:
        """See `Dataset.batch`."""
        return self._all("batch", *args, **kwargs)

    def flatten(self, max_depth: int = 16) -> DatasetDict:
        """See `Dataset.flatten`."""
        return self._all("flatten", max_depth=max_depth)

    def cast(self, features: Any) -> DatasetDict:
        """See `Dataset.cast`."""
        return self._all("cast", features)

    def cast_column(self, column: str, feature: Any) -> DatasetDict:
        """See `Dataset.cast_column`."""
        return self._all("cast_column", column, feature)

    def remove_columns(self, column_names: Any) -> DatasetDict:
        """See `Dataset.remove_columns`."""
        return self._all("remove_columns", column_names)

    def rename_column(self, original_column_name: str, new_column_name: str) -> DatasetDict:
        """See `Dataset.rename_column`."""
        return self._all("rename_column", original_column_name, new_column_name)

    def rename_columns(self, column_mapping: Mapping[str, str]) -> DatasetDict:
        """See `Dataset.rename_columns`."""
        return self._all("rename_columns", column_mapping)

    def select_columns(self, column_names: Any) -> DatasetDict:
        """See `Dataset.select_columns`."""
        return self._all("select_columns", column_names)

    def class_encode_column(self, column: str, include_nulls: bool = False) -> DatasetDict:
        """See `Dataset.class_encode_column`."""
        return self._all("class_encode_column", column, include_nulls)

    def align_labels_with_mapping(
        self, label2id: Mapping[str, int], label_column: str
    ) -> DatasetDict:
        """See `Dataset.align_labels_with_mapping`."""
        return self._all("align_labels_with_mapping", label2id, label_column)

    def flatten_indices(self, *args: Any, **kwargs: Any) -> DatasetDict:
        """See `Dataset.flatten_indices`."""
        return self._all("flatten_indices", *args, **kwargs)

    def sort(self, *args: Any, **kwargs: Any) -> DatasetDict:
        """See `Dataset.sort`."""
        return self._all("sort", *args, **kwargs)

    def shuffle(
        self,
        seeds: int | Mapping[str, int | None] | None = None,
        seed: int | None = None,
        generators: Mapping[str, Any] | None = None,
        **kwargs: Any,
    ) -> DatasetDict:
        """See `Dataset.shuffle`.

        Args:
            seeds: a seed for all splits, or one for each by name.
            seed: a seed for all splits.
            generators: numpy generators by split name.
            **kwargs: as for `Dataset.shuffle`.
        """
        self._check()
        seeds = seed if seeds is None else seeds
        return DatasetDict(
            {
                name: each.shuffle(
                    seed=seeds.get(name) if isinstance(seeds, Mapping) else seeds,
                    generator=None if generators is None else generators.get(name),
                    **kwargs,
                )
                for name, each in self.items()
            }
        )

    @property
    def format(self) -> dict[str, Any]:
        """The format of each split."""
        return self._each(lambda each: each.format)

    def set_format(self, *args: Any, **kwargs: Any) -> None:
        """See `Dataset.set_format`."""
        self._each(lambda each: each.set_format(*args, **kwargs))

    def reset_format(self) -> None:
        """See `Dataset.reset_format`."""
        self._each(lambda each: each.reset_format())

    def with_format(self, *args: Any, **kwargs: Any) -> DatasetDict:
        """See `Dataset.with_format`."""
        return self._all("with_format", *args, **kwargs)

    @contextmanager
    def formatted_as(self, *args: Any, **kwargs: Any) -> Iterator[None]:
        """See `Dataset.formatted_as`."""
        with ExitStack() as stack:
            for each in self.values():
                stack.enter_context(each.formatted_as(*args, **kwargs))
            yield

    def set_transform(self, *args: Any, **kwargs: Any) -> None:
        """See `Dataset.set_transform`."""
        self._each(lambda each: each.set_transform(*args, **kwargs))

    def with_transform(self, *args: Any, **kwargs: Any) -> DatasetDict:
        """See `Dataset.with_transform`."""
        return self._all("with_transform", *args, **kwargs)

    def save_to_disk(self, dataset_dict_path: Any, **kwargs: Any) -> None:
        """Writes every split into a folder of its own; see `Dataset.save_to_disk`."""
        from provender.data.dataset.saving import save_dict

        self._check()
        save_dict(self, dataset_dict_path, **kwargs)

    def publish(self, name: str, *, version: str, **options: Any) -> Published:
        """Publishes the splits as one version of a dataset; see `Dataset.publish`."""
        from provender.data.publishing import publish

        return publish(self, name, version=version, **options)

    @staticmethod
    def load_from_disk(dataset_dict_path: Any, **kwargs: Any) -> DatasetDict:
        """Reads what `save_to_disk` wrote."""
        from provender.data.dataset.saving import load_dict

        return load_dict(dataset_dict_path, **kwargs)

    @staticmethod
    def from_csv(path_or_paths: Mapping[str, Any], **kwargs: Any) -> DatasetDict:
        """Reads CSV files, given by split."""
        return _read(Dataset.from_csv, path_or_paths, kwargs)

    @staticmethod
    def from_json(path_or_paths: Mapping[str, Any], **kwargs: Any) -> DatasetDict:
        """Reads JSON Lines files, given by split."""
        return _read(Dataset.from_json, path_or_paths, kwargs)

    @staticmethod
    def from_parquet(path_or_paths: Mapping[str, Any], **kwargs: Any) -> DatasetDict:
        """Reads Parquet files, given by split."""
        return _read(Dataset.from_parquet, path_or_paths, kwargs)

    @staticmethod
    def from_text(path_or_paths: Mapping[str, Any], **kwargs: Any) -> DatasetDict:
        """Reads text files, given by split."""
        return _read(Dataset.from_text, path_or_paths, kwargs)

    def __enter__(self) -> DatasetDict:
        return self

    def __exit__(self, *error: Any) -> None:
        for each in self.values():
            each.__exit__(*error)

    def __repr__(self) -> str:
        lines = "\n".join(f"{name}: {each}" for name, each in self.items())
        inner = "\n".join(f"    {line}" for line in lines.split("\n")) if lines else ""
        return f"DatasetDict({{\n{inner}\n}})"


def _text(desc: str | None, verb: str, split: str) -> str:
    return f"{desc or verb} ({split})"


def _read(reader: Any, paths: Mapping[str, Any], kwargs: Mapping[str, Any]) -> DatasetDict:
    return DatasetDict({name: reader(each, split=name, **kwargs) for name, each in paths.items()})
