"""`load_dataset`, which every way in leads through."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from provender.builders.download.urls import mask_url
from provender.data.loading import borrowed
from provender.data.loading import data_files as files_of
from provender.data.loading.formats import FORMATS, kind_of_files, make_source
from provender.data.loading.named import Named
from provender.data.loading.splits import chosen_source, cut_short, each_split
from provender.data.sources.access import place_of
from provender.data.sources.base import Source, check_columns
from provender.data.sources.options import ReadOptions
from provender.errors import InputError, SettingsError

if TYPE_CHECKING:
    from provender.data.features import Features
    from provender.settings import Settings

_DATASET_MARK, _DICT_MARK = "state.json", "dataset_dict.json"
_FULL_SAMPLE = 16 << 20


def load_dataset(
    path: str | os.PathLike[str],
    name: str | None = None,
    *,
    data_files: files_of.DataFiles | None = None,
    data_dir: str | os.PathLike[str] | None = None,
    split: Any = None,
    streaming: bool = False,
    features: Features | None = None,
    columns: Sequence[str] | None = None,
    storage_options: Mapping[str, Any] | None = None,
    num_proc: int | None = None,
    on_error: Literal["raise", "skip"] = "raise",
    cache: bool = False,
    read_ahead: int = 8 << 20,
    keep_in_memory: bool | None = None,
    settings: Settings | None = None,
    cache_dir: str | os.PathLike[str] | None = None,
    download_mode: Any = None,
    verification_mode: Any = None,
    token: bool | str | None = None,
    revision: Any = None,
    trust_remote_code: bool | None = None,
    **arguments: Any,
) -> Any:
    """A dataset by its name, or from files.

    Args:
        path: a published version (``xsum:1.1.0``, ``xsum@golden``, ``xsum``), a builder that can
            be built (a name, ``package.module:Class``, ``file.py:Class``), the name of a format
            (``json``, ``csv``, ``tsv``, ``parquet``, ``text``, ``tfrecord``, ``tar`` or
            ``webdataset``, ``arrow``), or a file or folder, local or at a URL; also one that
            ``save_to_disk`` wrote. A file or folder of that name wins over a dataset.
        name: config of the builder.
        data_files: a path, URL, glob or a list of them, or a dict of those by split name; relative
            ones are looked for in `data_dir`, or below `path` where that is a folder.
        data_dir: folder of the files.
        split: an expression such as ``train``, ``train[10%:20%]+test[:500]``, a name such as
            ``Split.TRAIN``, or a part made by `provender.even_splits`; None gives every split, a
            list of them a list of datasets.
        streaming: read while iterating, from wherever the data lies, instead of preparing it
            first.
        features: the columns and their types, where they are not to be found from the data.
        columns: names of the columns wanted; the others are not read.
        storage_options: arguments for fsspec, e.g. credentials.
        num_proc: processes that read files into the cache.
        on_error: ``skip`` passes damaged records and shards over and counts them.
        cache: keep remote shards in the local shard cache.
        read_ahead: most bytes requested before they are wanted, for each open stream.
        keep_in_memory: hold the prepared table in memory instead of mapping its file.
        settings: the project's settings; by default as provender.toml and the environment say.
        cache_dir: folder of the transform cache for what is prepared here, instead of that of the
            settings. Transforms of the dataset, and streams, do not use it.
        download_mode: ``force_redownload`` and ``reuse_cache_if_exists`` read the data again
            although it was prepared before; ``reuse_dataset_if_exists`` is the default.
        verification_mode: taken for compatibility and without effect: whatever has a checksum is
            always checked.
        token: for ``hf://`` addresses; for others a warning says that it is not used.
        revision: taken for compatibility: for a named dataset it is refused (a version is part of
            the name), for files a warning says that it is not used.
        trust_remote_code: taken for compatibility and without effect: code is never downloaded.
        **arguments: what the format can be told, e.g. ``sep=";"`` for csv.

    Returns:
        A `Dataset` or, streaming, an `IterableDataset`; without a split a `DatasetDict` or
        `IterableDatasetDict` of them, with a list of splits a list.

    Raises:
        UnknownReference: there is nothing of that name, or no such split; says what there is.
        InputError: files are missing, or are not what their format says.
        SettingsError: an argument that makes no sense.
    """
    if streaming and (num_proc is not None or keep_in_memory is not None):
        raise SettingsError(
            "A stream is neither prepared by processes nor kept in memory.",
            where="num_proc" if num_proc is not None else "keep_in_memory",
            hint="Leave it out, or load without streaming=True.",
        )
    storage_options = borrowed.storage_options(path, data_files, storage_options, token)
    borrowed.check(verification_mode)
    digests = None
    if not streaming:
        digests = (settings or _settings()).home / "digests"
    options = ReadOptions(
        on_error=on_error, ahead=read_ahead, cache=cache, quick=streaming, digests=digests
    )
    asked = _Asked(
        path=os.fspath(path) if isinstance(path, os.PathLike) else path,
        name=name,
        data_files=data_files,
        data_dir=os.fspath(data_dir) if data_dir is not None else None,
        features=_as_features(features),
        storage_options=storage_options,
        arguments=arguments,
        streaming=streaming,
        options=options,
        settings=settings,
        revision=revision,
    )
    kept = _Kept(
        keep_in_memory,
        None if cache_dir is None else os.fspath(cache_dir),
        borrowed.reuse(download_mode),
    )
    saved = asked.saved_folder()
    if saved is not None:
        return each_split(split, lambda one: _saved(saved, asked, one, columns, keep_in_memory))
    found = asked.sources()
    sources = found.sources
    if columns is not None:
        sources = {each: _projected(source, columns) for each, source in sources.items()}
    way = _Way(streaming, num_proc, kept, on_error, found)
    beyond = None if found.exact else cut_short
    if split is None:
        return way.every(sources)
    return each_split(
        split,
        lambda one: way.one(chosen_source(sources, one, found.name, beyond), str(one)),
    )


def _as_features(features: Any) -> Features | None:
    from provender.data.features import Features

    if features is None or isinstance(features, Features):
        return features
    return Features(features)


@dataclass(frozen=True)
class _Asked:
    """What was asked for; see `load_dataset`."""

    path: str
    name: str | None
    data_files: files_of.DataFiles | None
    data_dir: str | None
    features: Features | None
    storage_options: dict[str, Any]
    arguments: dict[str, Any]
    streaming: bool
    options: ReadOptions
    settings: Settings | None
    revision: Any

    def saved_folder(self) -> str | None:
        """The path, where it is a folder that `save_to_disk` wrote."""
        if self.data_files is not None or self.path in FORMATS or not _is_path(self.path):
            return None
        folder = self.path.rstrip("/")
        place = place_of(folder, self.storage_options)
        marks = (f"{folder}/{_DICT_MARK}", f"{folder}/{_DATASET_MARK}")
        return folder if any(place.stat(mark) for mark in marks) else None

    def sources(self) -> Named:
        """The source of each split, and what to call the whole."""
        if self.path in FORMATS and (self.data_files is not None or self.data_dir is not None):
            borrowed.unused_revision(self.revision)
            return Named(self.path, self._of_format(FORMATS[self.path]))
        if self.path in FORMATS:
            raise InputError(
                f"No files were named for the format {self.path}.",
                where="data_files",
                hint=f'load_dataset("{self.path}", data_files="...") or data_dir="...".',
            )
        found = None if _is_path(self.path) else self._of_reference()
        if found is None:
            borrowed.unused_revision(self.revision)
        return found or Named(mask_url(self.path), self._of_path())

    def _no_config(self) -> None:
        if self.name is not None:
            raise SettingsError(
                f"Files have no config {self.name!r}.", where="name", hint="Leave it out."
            )

    def _of_format(self, kind: str) -> dict[str, Source]:
        self._no_config()
        if self.data_files is None:
            assert self.data_dir is not None
            return self._of_files(kind, files_of.in_folder(self.data_dir, self.storage_options))
        splits = files_of.resolve(self.data_files, self.data_dir, self.storage_options)
        return self._of_files(kind, splits)

    def _of_files(self, kind: str, splits: files_of.Splits) -> dict[str, Source]:
        return {
            split: make_source(
                kind,
                files,
                features=self.features,
                options=self.options,
                arguments=self.arguments,
                sample=None if self.streaming else _FULL_SAMPLE,
            )
            for split, files in splits.items()
        }

    def _of_path(self) -> Mapping[str, Source]:
        self._no_config()
        place = place_of(self.path, self.storage_options)
        if self.data_files is None and place.is_folder(self.path):
            folder = self.path if self.data_dir is None else f"{self.path}/{self.data_dir}"
            version = _version_folder(folder, self)
            if version is not None:
                return version
            splits = files_of.in_folder(folder, self.storage_options)
        elif self.data_files is not None:
            folder = self.path if self.data_dir is None else f"{self.path}/{self.data_dir}"
            splits = files_of.resolve(self.data_files, folder, self.storage_options)
        elif place.stat(self.path) is None and not any(char in self.path for char in "*?[{"):
            raise files_of.no_folder(self.path)
        else:
            splits = files_of.resolve(self.path, None, self.storage_options)
        kind = kind_of_files(files_of.all_files(splits), mask_url(self.path))
        return self._of_files(kind, splits)

    def _of_reference(self) -> Named | None:
        from provender.data.loading.references import find, parsed

        ref = parsed(self.path, self.name)
        if ref is None:
            return None
        borrowed.no_revision(self.path, self.revision)
        given = {
            "data_files": self.data_files,
            "data_dir": self.data_dir,
            "storage_options": self.storage_options or None,
            **self.arguments,
        }
        for name, value in given.items():
            if value is not None:
                raise SettingsError(
                    f"A named dataset is not loaded with an argument {name!r}.",
                    where="load_dataset",
                    hint="Leave it out, or name a format to load files.",
                )
        found = find(ref, self.settings or _settings(), self.options, streaming=self.streaming)
        if self.features is not None:
            from provender.data.sources.cast import CastSource

            features = self.features
            cast = {k: CastSource(v, features) for k, v in found.sources.items()}
            return replace(found, sources=cast)
        return found


def _version_folder(folder: str, asked: _Asked) -> Mapping[str, Source] | None:
    """The splits of a folder that TFDS wrote: shards beside features.json."""
    from provender.data.loading.tfds_folder import sources_of

    return sources_of(folder, asked.storage_options, asked.features, asked.options)


def _is_path(path: str) -> bool:
    """Whether a text is a path or URL: by its form, or because there is such a file or folder."""
    if "://" in path or "::" in path:
        return True
    if path.rpartition(":")[0].endswith(".py"):
        return False
    return (
        path.startswith(("/", ".", "~"))
        or any(char in path for char in "*?[{")
        or Path(path).exists()
    )


def _settings() -> Settings:
    from provender.settings import load_settings

    return load_settings()


def _projected(source: Source, columns: Sequence[str]) -> Source:
    features = source.features
    if features is not None:
        check_columns(columns, list(features))
    return source.columns(columns)


def _saved(
    folder: str, asked: _Asked, split: Any, columns: Sequence[str] | None, in_memory: bool | None
) -> Any:
    """What `save_to_disk` wrote: as it is, or as streams of it."""
    from provender.data.dataset import load_from_disk

    given = {"data_dir": asked.data_dir, "name": asked.name, **asked.arguments}
    for name, value in given.items():
        if value is not None:
            raise SettingsError(
                f"A saved dataset is not loaded with an argument {name!r}.",
                where="load_dataset",
                hint="Leave it out.",
            )
    options = asked.storage_options or None
    found = load_from_disk(folder, keep_in_memory=in_memory, storage_options=options)
    whole = dict(found) if isinstance(found, dict) else {files_of.DEFAULT_SPLIT: found}
    if columns is not None:
        whole = {each: ds.select_columns(list(columns)) for each, ds in whole.items()}
    if asked.features is not None:
        whole = {each: ds.cast(asked.features) for each, ds in whole.items()}
    if split is None and not isinstance(found, dict):
        split = files_of.DEFAULT_SPLIT
    if asked.streaming:
        from provender.data.sources.tables import DatasetSource

        sources: dict[str, Source] = {each: DatasetSource(ds) for each, ds in whole.items()}
        way = _Way(True, None, _Kept(in_memory), "raise", Named(mask_url(folder), sources))
        if split is not None:
            where = mask_url(folder)
            return way.one(chosen_source(sources, split, where, cut_short), str(split))
        return way.every(sources)
    if split is None:
        return type(found)(whole)
    return _rows_of(whole, split, mask_url(folder))


def _rows_of(whole: Mapping[str, Any], split: Any, where: str) -> Any:
    """The rows of prepared datasets that a split expression means."""
    from provender.data.combine import concatenate_datasets
    from provender.training.splits import resolve_split

    counts = {each: [len(ds)] for each, ds in whole.items()}
    parts = [
        whole[each.split]
        if len(each) == len(whole[each.split])
        else whole[each.split].select(range(each.start, each.stop))
        for each in resolve_split(split, counts, where=where, beyond=cut_short)
    ]
    return parts[0] if len(parts) == 1 else concatenate_datasets(parts)


@dataclass(frozen=True)
class _Kept:
    """Where what is prepared goes, and whether what is there is taken; see `load_dataset`."""

    in_memory: bool | None = None
    cache_dir: str | None = None
    reuse: bool | None = None


@dataclass(frozen=True)
class _Way:
    """How sources become datasets; see `load_dataset`."""

    streaming: bool
    num_proc: int | None
    kept: _Kept
    on_error: str
    named: Named

    def one(self, source: Source, split: str) -> Any:
        """One split."""
        if self.streaming:
            from provender.data.stream import IterableDataset

            return IterableDataset.from_source(source, split=split, info=self.named.info())
        from provender.data.dataset import Dataset
        from provender.data.sources.uncounted import UncountedSource

        if self.on_error == "skip":
            source = UncountedSource(source)
        return Dataset.from_source(
            source,
            info=self.named.info(),
            split=split,
            keep_in_memory=bool(self.kept.in_memory),
            load_from_cache_file=self.kept.reuse,
            cache_dir=self.kept.cache_dir,
            num_proc=self.num_proc,
            name=f"{self.named.name} {split}",
            lineage=self.named.lineage,
        )

    def every(self, sources: Mapping[str, Source]) -> Any:
        """All splits."""
        made = {split: self.one(source, split) for split, source in sources.items()}
        if self.streaming:
            from provender.data.stream import IterableDatasetDict

            return IterableDatasetDict(made)
        from provender.data.dataset import DatasetDict

        return DatasetDict(made)
