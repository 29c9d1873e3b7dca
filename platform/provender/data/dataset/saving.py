"""Datasets in folders: Arrow streams with a description, readable by HF Datasets as well.

    data-00000-of-00002.arrow   Arrow streams
    dataset_info.json           features and facts
    state.json                  files with digests, fingerprint, format; written last

Reading proves the files by their digests. A folder may be moved or copied; the fingerprint of what
is in it stays.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any, Self

import pyarrow as pa

from provender.data.dataset.base import Base
from provender.data.dataset.chain import Print, content_print
from provender.data.dataset.formatting import Format
from provender.data.dataset.info import DatasetInfo
from provender.data.dataset.progress import Progress
from provender.data.dataset.remote import file_system, whole_file
from provender.errors import MissingFiles, SettingsError

if TYPE_CHECKING:
    from provender.data.dataset.core import Dataset
    from provender.data.dataset.dictionary import DatasetDict

SHARD_BYTES = 500 << 20
_STATE, _INFO, _DICT = "state.json", "dataset_info.json", "dataset_dict.json"
_ROWS_AT_ONCE = 10_000
_UNITS = {
    "KB": 10**3,
    "MB": 10**6,
    "GB": 10**9,
    "TB": 10**12,
    "KIB": 2**10,
    "MIB": 2**20,
    "GIB": 2**30,
}


class Saving(Base):
    """Folders that outlive the cache."""

    def save_to_disk(
        self,
        dataset_path: Any,
        max_shard_size: int | str | None = None,
        num_shards: int | None = None,
        num_proc: int | None = None,
        storage_options: Mapping[str, Any] | None = None,
    ) -> None:
        """Writes the dataset into a folder, from which `load_from_disk` reads it.

        Args:
            dataset_path: the folder: a path or a URL (``gs://...``). What was saved there before
                is replaced.
            max_shard_size: bytes of a file, e.g. ``"500MB"``.
            num_shards: number of files, instead.
            num_proc: files that are written at the same time.
            storage_options: for the file system.

        Raises:
            DiskFull: no space was left.
            StoreError: the folder cannot be written.
            SettingsError: an argument makes no sense.
        """
        if max_shard_size is not None and num_shards is not None:
            message = "Give max_shard_size or num_shards, not both."
            raise SettingsError(message, where="save_to_disk")
        fs, folder = file_system(dataset_path, storage_options)
        if num_shards is None:
            share = len(self) / max(self._data.num_rows, 1)
            num_shards = int(self._data.nbytes * share / _bytes(max_shard_size)) + 1
            num_shards = max(num_shards, num_proc or 1)
        num_shards = max(1, min(num_shards, max(len(self), 1)))
        fs.makedirs(folder, exist_ok=True)
        for name in (_STATE, _DICT):
            if fs.exists(f"{folder}/{name}"):
                fs.rm(f"{folder}/{name}")
        names = [f"data-{each:05d}-of-{num_shards:05d}.arrow" for each in range(num_shards)]
        bounds = [len(self) * each // num_shards for each in range(num_shards + 1)]
        with Progress("Save", len(self)) as bar, ThreadPoolExecutor(num_proc or 1) as pool:

            def write(at: int) -> dict[str, Any]:
                url = _join(dataset_path, names[at])
                facts = self._write(url, bounds[at], bounds[at + 1], storage_options)
                bar.advance(bounds[at + 1] - bounds[at])
                return {"filename": names[at], **facts}

            files = list(pool.map(write, range(num_shards)))
        info = self._info.copy()
        info.features = self._features
        _write_json(_join(dataset_path, _INFO), info.to_dict(), storage_options)
        chosen = self._format
        plain = chosen.type != "custom"
        state = {
            "_data_files": files,
            "_fingerprint": self._fingerprint,
            "_format_columns": list(chosen.columns) if chosen.columns is not None else None,
            "_format_kwargs": _jsonable_kwargs(chosen.kwargs) if plain else {},
            "_format_type": chosen.type if plain else None,
            "_output_all_columns": chosen.output_all_columns,
            "_split": self._split,
            "_lineage": list(self._lineage),
        }
        _write_json(_join(dataset_path, _STATE), state, storage_options)
        kept = {*names, _INFO, _STATE}
        for each in fs.ls(folder, detail=False):
            name = str(each).rsplit("/", 1)[-1]
            if name.startswith("data-") and name.endswith(".arrow") and name not in kept:
                fs.rm(each)

    def _write(
        self, url: str, start: int, stop: int, storage_options: Mapping[str, Any] | None
    ) -> dict[str, Any]:
        import xxhash

        from provender.data.dataset.embedding import embedded

        digest, size = xxhash.xxh3_128(), 0

        class Sink:
            closed = False

            def __init__(self, file: Any) -> None:
                self._file = file

            def write(self, data: Any) -> int:
                nonlocal size
                digest.update(data)
                length = memoryview(data).nbytes
                size += length
                self._file.write(data)
                return length

            def flush(self) -> None:
                """Arrow asks for it; only the end counts."""

            def close(self) -> None:
                """The file belongs to others."""

        with whole_file(url, storage_options) as file:
            sink = pa.PythonFile(Sink(file), mode="w")
            with pa.ipc.new_stream(sink, self._data.schema) as stream:
                for table in self._tables(_ROWS_AT_ONCE, start, stop):
                    stream.write_table(embedded(table, self._features))
        return {"rows": stop - start, "size": size, "xxh3_128": digest.hexdigest()}

    @classmethod
    def load_from_disk(
        cls,
        dataset_path: Any,
        keep_in_memory: bool | None = None,
        storage_options: Mapping[str, Any] | None = None,
    ) -> Self:
        """Reads a dataset that `save_to_disk` wrote, here or with HF Datasets.

        Local files are memory-mapped; others are copied into the transform cache once.

        Args:
            dataset_path: the folder: a path or a URL.
            keep_in_memory: read everything into memory.
            storage_options: for the file system.

        Raises:
            MissingFiles: there is no dataset in the folder.
            DamageError: a file is not what was written.
        """
        from provender.data.dataset.folders import read_folder
        from provender.data.features import Features

        found = read_folder(dataset_path, storage_options, in_memory=bool(keep_in_memory))
        state, info = found.state, DatasetInfo.from_dict(found.info)
        features = info.features
        if features is None:
            features = Features.from_arrow_schema(found.table.schema)
        fingerprint = found.fingerprint
        new = cls._make(
            found.table,
            features,
            content_print(found.table, features) if fingerprint is None else Print(fingerprint),
            info=info,
            split=state.get("_split"),
            keep=found.keep,
            lineage=tuple(state.get("_lineage") or ()),
        )
        columns = state.get("_format_columns")
        new._format = Format(
            state.get("_format_type"),
            None if columns is None else tuple(columns),
            bool(state.get("_output_all_columns")),
            dict(state.get("_format_kwargs") or {}),
        )
        return new


def load_from_disk(
    dataset_path: Any,
    keep_in_memory: bool | None = None,
    storage_options: Mapping[str, Any] | None = None,
) -> Dataset | DatasetDict:
    """Reads a `Dataset` or a `DatasetDict` that ``save_to_disk`` wrote.

    Args:
        dataset_path, keep_in_memory, storage_options: as for `Dataset.load_from_disk`.

    Raises:
        MissingFiles: there is neither in the folder.
        DamageError: a file is not what was written.
    """
    from provender.data.dataset.core import Dataset

    fs, folder = file_system(dataset_path, storage_options)
    if fs.exists(f"{folder}/{_DICT}"):
        return load_dict(
            dataset_path, keep_in_memory=keep_in_memory, storage_options=storage_options
        )
    return Dataset.load_from_disk(dataset_path, keep_in_memory, storage_options)


def save_dict(
    datasets: Mapping[str, Dataset],
    path: Any,
    max_shard_size: int | str | None = None,
    num_shards: Mapping[str, int] | None = None,
    num_proc: int | None = None,
    storage_options: Mapping[str, Any] | None = None,
) -> None:
    """Writes each split into a folder of its name, and their names last."""
    fs, folder = file_system(path, storage_options)
    fs.makedirs(folder, exist_ok=True)
    if fs.exists(f"{folder}/{_DICT}"):
        fs.rm(f"{folder}/{_DICT}")
    for name, each in datasets.items():
        each.save_to_disk(
            _join(path, name),
            max_shard_size=max_shard_size,
            num_shards=None if num_shards is None else num_shards.get(name),
            num_proc=num_proc,
            storage_options=storage_options,
        )
    _write_json(_join(path, _DICT), {"splits": list(datasets)}, storage_options)


def load_dict(
    path: Any,
    keep_in_memory: bool | None = None,
    storage_options: Mapping[str, Any] | None = None,
) -> DatasetDict:
    """Reads what `save_dict` wrote."""
    from provender.data.dataset.core import Dataset
    from provender.data.dataset.dictionary import DatasetDict

    fs, folder = file_system(path, storage_options)
    try:
        doc = json.loads(fs.cat_file(f"{folder}/{_DICT}"))
    except FileNotFoundError as error:
        raise MissingFiles(
            "There is no saved DatasetDict in the folder.",
            where=str(path),
            hint="A folder of a single dataset is read with Dataset.load_from_disk."
            if fs.exists(f"{folder}/{_STATE}")
            else "Check the path, and that save_to_disk went through.",
        ) from error
    return DatasetDict(
        {
            name: Dataset.load_from_disk(_join(path, name), keep_in_memory, storage_options)
            for name in doc["splits"]
        }
    )


def _join(path: Any, name: str) -> str:
    import os

    return f"{os.fspath(path).rstrip('/')}/{name}"


def _write_json(url: str, doc: Any, storage_options: Mapping[str, Any] | None) -> None:
    with whole_file(url, storage_options) as file:
        file.write((json.dumps(doc, indent=2, ensure_ascii=False) + "\n").encode())


def _jsonable_kwargs(kwargs: Mapping[str, Any]) -> dict[str, Any]:
    for name, value in kwargs.items():
        try:
            json.dumps(value)
        except TypeError as error:
            raise SettingsError(
                f"The format's {name}={value!r} cannot be saved.",
                where="save_to_disk",
                hint="Reset the format first: ds.reset_format().",
            ) from error
    return dict(kwargs)


def _bytes(size: int | str | None) -> int:
    if size is None:
        return SHARD_BYTES
    if isinstance(size, int):
        return size
    text = size.strip().upper()
    for unit, factor in _UNITS.items():
        if text.endswith(unit):
            try:
                return max(int(float(text[: -len(unit)]) * factor), 1)
            except ValueError:
                break
    raise SettingsError(
        f"max_shard_size cannot be {size!r}.", where="max_shard_size", hint="Say 500MB or 2GB."
    )
