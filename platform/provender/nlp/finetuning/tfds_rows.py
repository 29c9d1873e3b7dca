"""Rows of TFDS datasets, and of published versions, which are the same on disk."""

from __future__ import annotations

import importlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from provender.errors import InputError, SettingsError, UnknownSplit
from provender.nlp.finetuning.rows import Row, in_order
from provender.nlp.finetuning.stored import examples

if TYPE_CHECKING:
    from provender.settings import Settings

_INDEX = "idx"
"""GLUE and SuperGLUE number their examples; TFDS keeps them in another order."""


class Datasets:
    """TFDS datasets by name, opened once each.

    Args:
        data_dir: where they lie; None where TFDS keeps them.
        version_ref: a published version in their place: a reference, or ``NAME=REF`` pairs,
            comma-separated.
        settings: of the project, for versions.
        folders: datasets whose folders are known already.
    """

    def __init__(
        self,
        data_dir: str | None = None,
        version_ref: str = "",
        settings: Settings | None = None,
        folders: Mapping[str, str] = MappingProxyType({}),
    ) -> None:
        self._data_dir = data_dir
        self._references = references(version_ref)
        self._settings = settings
        self._folders = folders
        self._open: dict[str, Dataset] = {}

    def __getitem__(self, name: str) -> Dataset:
        """A dataset.

        Raises:
            InputError: TFDS neither finds it nor can make it.
            UnknownReference: there is no such version.
        """
        if name not in self._open:
            reference = self._references.get(name, self._references.get(""))
            if name in self._folders:
                opened = _in_folder(self._folders[name])
            elif reference:
                opened = self._version(reference)
            else:
                opened = _prepared(name, self._data_dir)
            self._open[name] = Dataset(reference or name, opened)
        return self._open[name]

    def check(self, wanted: Sequence[str]) -> None:
        """Refuses references that would not be read, or stand for several datasets.

        Raises:
            SettingsError: one is for another dataset, or one is given for several.
        """
        unknown = [each for each in self._references if each and each not in wanted]
        several = "" in self._references and len(wanted) > 1
        if unknown or several:
            raise SettingsError(
                f"--version_ref is for {unknown[0] if unknown else 'one dataset'}, and the task "
                f"reads {', '.join(wanted)}.",
                where="--version_ref",
                hint=f"--version_ref {','.join(f'{each}=NAME:X.Y.Z' for each in wanted)}",
            )

    def _version(self, reference: str) -> Any:
        import tensorflow_datasets as tfds

        from provender.api import open_catalog
        from provender.refs import DatasetRef
        from provender.settings import load_settings
        from provender.store import Store
        from provender.training.leasing import reading
        from provender.upkeep import find_version

        settings = self._settings or load_settings()
        version = find_version(open_catalog(settings), DatasetRef.parse(reference))
        reading(settings.catalog, version.id, "nlp")
        store = Store.open(settings.store, scratch=str(settings.scratch))
        return tfds.builder_from_directory(store.path(version.path))


def _in_folder(path: str) -> Any:
    import tensorflow_datasets as tfds

    try:
        return tfds.builder_from_directory(path)
    except Exception as error:
        raise InputError(
            f"There is no dataset that TFDS can read: {type(error).__name__}: {error}",
            where=path,
            hint="Name the folder that holds its dataset_info.json.",
        ) from error


def references(text: str) -> dict[str, str]:
    """Dataset -> published version that stands for it; "" where none is named.

    Args:
        text: ``NAME=REF`` pairs, comma-separated, or one reference.
    """
    found = {}
    for entry in filter(None, (each.strip() for each in text.split(","))):
        name, equals, reference = entry.rpartition("=")
        found[name if equals else ""] = reference
    return found


def _prepared(name: str, data_dir: str | None) -> Any:
    import tensorflow_datasets as tfds
    from tensorflow_datasets.core import read_only_builder

    folder = {"data_dir": data_dir} if data_dir else {}
    try:
        # What lies there is read as it is, whatever the code of the dataset says today.
        return read_only_builder.builder_from_files(name, **folder)
    except tfds.core.DatasetNotFoundError:
        pass
    try:
        builder = tfds.builder(name, **folder)
        builder.download_and_prepare()
    except Exception as error:
        raise InputError(
            f"TFDS has no dataset {name} that is prepared, and cannot make it: "
            f"{type(error).__name__}: {str(error).strip().splitlines()[0] if str(error) else '-'}",
            where=data_dir or "TFDS's own folder",
            hint="Prepare it where there is internet, and give --tfds_data_dir; or give a "
            "published version: --version_ref NAME:X.Y.Z.",
        ) from error
    return builder


@dataclass(frozen=True)
class Columns:
    """Which features of an example are which part of a row.

    Attributes:
        texts: of the segments.
        label: of the label; None where there is none, or it is not known.
        numeric: whether labels are numbers, not classes.
        weight: of the weight.
        fixed: label of every row, where ``label`` is None.
    """

    texts: tuple[str, ...]
    label: str | None = None
    numeric: bool = False
    weight: str | None = None
    fixed: int | float | None = 0


class Dataset:
    """A dataset that is prepared.

    Args:
        name: what to call it in errors.
        builder: TFDS's.
    """

    def __init__(self, name: str, builder: Any) -> None:
        self.name = name
        self._builder = builder

    @property
    def folder(self) -> str:
        """Where it lies."""
        return str(self._builder.data_dir)

    def has(self, split: str) -> bool:
        """Whether there is such a split."""
        try:
            self.size(split)
        except UnknownSplit:
            return False
        return True

    @cached_property
    def facts(self) -> dict[str, Any]:
        """What tells it from others: name, version, and sizes of its files."""
        splits = {
            name: [each.num_examples, each.num_bytes, *map(str, each.shard_lengths)]
            for name, each in self._builder.info.splits.items()
        }
        return {"dataset": self._builder.info.full_name, "splits": splits}

    def size(self, split: str) -> int:
        """Examples of a split.

        Raises:
            UnknownSplit: there is none; says which there are.
        """
        splits = self._builder.info.splits
        try:
            return int(splits[split].num_examples)
        except (KeyError, ValueError) as error:
            raise UnknownSplit(
                f"{self.name} has no split {split}.",
                where=self.name,
                hint=f"It has {', '.join(splits)}.",
                facts={"splits": list(splits)},
            ) from error

    def labels(self, feature: str) -> list[str]:
        """Names of the classes by number: the dataset's own.

        Raises:
            InputError: the feature is no class.
        """
        found = self._feature(feature)
        count = getattr(found, "num_classes", None)
        if not count:
            raise InputError(
                f"{feature} of {self.name} is no class, but {found}.",
                where=self.name,
                hint="For numbers set is_regression=true in --tfds_params.",
            )
        return (
            [str(each) for each in found.names] if found.names else [str(i) for i in range(count)]
        )

    def _feature(self, name: str) -> Any:
        features = self._builder.info.features
        if name not in features:
            raise InputError(
                f"{self.name} has no feature {name!r}.",
                where=self.name,
                hint=f"It has {', '.join(features)}.",
            )
        return features[name]

    def rows(self, split: str, columns: Columns) -> Iterator[Row]:
        """The rows of a split: in the order of their numbers where they have such, else as stored.

        Args:
            split: of the dataset.
            columns: what is read.

        Raises:
            InputError: a feature is not there.
            UnknownSplit: neither is the split.
        """
        self.size(split)
        wanted = [*columns.texts, *filter(None, (columns.label, columns.weight))]
        for each in wanted:
            self._feature(each)
        indexed = self._is_indexed
        names = list(dict.fromkeys([*wanted, *([_INDEX] if indexed else [])]))
        found = examples(self._builder, split, names)
        if not indexed:
            yield from (_row(each, columns) for each in found)
            return
        numbered = ((int(each[_INDEX]), _row(each, columns)) for each in found)
        yield from (row for _, row in in_order(numbered, lambda each: int(each[0])))

    @property
    def _is_indexed(self) -> bool:
        features = self._builder.info.features
        return _INDEX in features and getattr(features[_INDEX], "shape", None) == ()


def _row(example: Mapping[str, Any], columns: Columns) -> Row:
    label = columns.fixed
    if columns.label:
        value = example[columns.label]
        label = float(value) if columns.numeric else int(value)
    weight = float(example[columns.weight]) if columns.weight else None
    texts = (example[each] for each in columns.texts)
    return Row(tuple(_text(each) for each in texts), label, weight)


def _text(value: Any) -> str:
    return value.decode("utf-8") if isinstance(value, bytes) else str(value)


def imported(module: str) -> None:
    """Imports a module, whose builders TFDS then knows.

    Raises:
        SettingsError: it cannot be imported.
    """
    try:
        importlib.import_module(module)
    except ImportError as error:
        raise SettingsError(
            f"{module} cannot be imported: {error}.",
            where="--tfds_params module_import",
            hint="Put its folder on PYTHONPATH.",
        ) from error
