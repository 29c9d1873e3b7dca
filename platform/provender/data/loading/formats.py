"""Which source reads which kind of file."""

from __future__ import annotations

import difflib
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from provender.data.sources.base import check_columns
from provender.data.sources.compression import plain_name
from provender.errors import InputError, SettingsError

if TYPE_CHECKING:
    from provender.data.features import Features
    from provender.data.sources.access import DataFile
    from provender.data.sources.base import Source
    from provender.data.sources.options import ReadOptions

FORMATS = {
    "arrow": "arrow",
    "csv": "csv",
    "json": "json",
    "jsonl": "json",
    "parquet": "parquet",
    "tar": "tar",
    "text": "text",
    "tfrecord": "tfrecord",
    "tsv": "tsv",
    "webdataset": "tar",
}
"""Format name -> kind of source."""

_SUFFIXES = {
    "arrow": "arrow",
    "csv": "csv",
    "feather": "arrow",
    "json": "json",
    "jsonl": "json",
    "ndjson": "json",
    "parquet": "parquet",
    "tar": "tar",
    "tbz": "tar",
    "tbz2": "tar",
    "tgz": "tar",
    "text": "text",
    "tfrecord": "tfrecord",
    "tfrecords": "tfrecord",
    "tsv": "tsv",
    "txt": "text",
    "txz": "tar",
}
_SHARD = re.compile(r"-\d{5}-of-\d{5}$")
_LINES = {"encoding", "encoding_errors", "compression", "chunksize"}
_CSV = _LINES | {
    "sep", "delimiter", "header", "names", "column_names", "quotechar", "escapechar", "skiprows",
    "na_values", "keep_default_na", "na_filter", "quoting", "usecols", "dtype",
}  # fmt: skip
ARGUMENTS: Mapping[str, set[str]] = {
    "arrow": set(),
    "csv": _CSV,
    "json": _LINES | {"field"},
    "parquet": set(),
    "tar": set(),
    "text": _LINES | {"sample_by", "keep_linebreaks"},
    "tfrecord": {"features_json", "labels"},
    "tsv": _CSV,
}
"""Kind of source -> what it can be told beside files and features."""


def kind_of_name(name: str) -> str | None:
    """The kind of source that reads a file of this name, or None."""
    base = _SHARD.sub("", plain_name(name))
    for suffix in reversed(base.lower().split(".")[1:]):
        if suffix in _SUFFIXES:
            return _SUFFIXES[suffix]
    return None


def kind_of_files(files: Iterable[DataFile], where: str) -> str:
    """The kind that most files have by their names.

    Raises:
        InputError: none of them has a known suffix.
    """
    names = [file.stem for file in files]
    counts = Counter(kind for kind in map(kind_of_name, names) if kind)
    if not counts:
        raise InputError(
            "The files' names do not tell their format.",
            where=where,
            hint='Name the format: load_dataset("json", data_files="..."). '
            f"There are: {', '.join(FORMATS)}.",
            facts={"files": names[:10]},
        )
    return counts.most_common(1)[0][0]


def make_source(
    kind: str,
    files: Sequence[DataFile],
    *,
    features: Features | None,
    options: ReadOptions,
    arguments: Mapping[str, Any],
    sample: int | None = None,
) -> Source:
    """The source for some files.

    Args:
        kind: a value of `FORMATS`.
        files: the files, in order.
        features: the columns and types, where given.
        options: how files are read.
        arguments: what else the format can be told; see `ARGUMENTS`.
        sample: bytes of text that are looked at to find the columns.

    Raises:
        SettingsError: an argument that the format does not know.
    """
    arguments = {key: each for key, each in arguments.items() if not _says_nothing(key, each)}
    _check_arguments(kind, arguments)
    given: dict[str, Any] = {"features": features, "options": options, **arguments}
    wanted = given.pop("usecols", None)
    if kind in ("csv", "tsv", "json", "text"):
        if "chunksize" in given:
            given["block"] = given.pop("chunksize")
        if sample is not None:
            given["sample"] = sample
    if kind == "tsv":
        given = {"sep": "\t", **given}
    from provender.data import sources

    source: Source = getattr(sources, _CLASSES[kind])(files, **given)
    return source if wanted is None else _with_columns(source, wanted)


def _with_columns(source: Source, wanted: Any) -> Source:
    """The columns that pandas' ``usecols`` means: by name or number, in the order of the file."""
    names = list(source.features or ())
    if callable(wanted) or isinstance(wanted, str):
        raise SettingsError(
            f"usecols cannot be {wanted!r}.",
            where="usecols",
            hint="Give a list of names or numbers of columns.",
        )
    chosen = [names[each] if _is_place(each, names) else str(each) for each in wanted]
    check_columns(chosen, names)
    return source.columns([name for name in names if name in chosen])


def _is_place(each: Any, names: Sequence[str]) -> bool:
    return isinstance(each, int) and each not in names and 0 <= each < len(names)


def _says_nothing(name: str, value: Any) -> bool:
    """Whether an argument that is otherwise refused has the value that it has when left out."""
    return name in _WAYS_OUT and (value is None or value is False)


_CLASSES = {
    "arrow": "ArrowSource",
    "csv": "CsvSource",
    "json": "JsonLinesSource",
    "parquet": "ParquetSource",
    "tar": "TarSource",
    "text": "TextSource",
    "tfrecord": "TFRecordSource",
    "tsv": "CsvSource",
}


def _check_arguments(kind: str, arguments: Mapping[str, Any]) -> None:
    known = ARGUMENTS[kind]
    for name in arguments:
        if name not in known and name in _WAYS_OUT:
            raise SettingsError(
                f"{kind} files are not read with an argument {name!r}.",
                where="load_dataset",
                hint=_WAYS_OUT[name],
                facts={"known": sorted(known)},
            )
        if name not in known:
            near = difflib.get_close_matches(name, [*known, *_GENERAL], 1)
            raise SettingsError(
                f"{kind} files are not read with an argument {name!r}.",
                where="load_dataset",
                hint=f"Did you mean {near[0]}?"
                if near
                else f"They take: {', '.join(sorted(known)) or 'none of their own'}.",
                facts={"known": sorted(known)},
            )


_WAYS_OUT: Mapping[str, str] = {
    "filters": "Filter the rows: load_dataset(...).filter(...). columns=[...] reads only some columns.",
    "index_col": "All columns are columns here; leave some out with remove_columns or usecols=[...].",
    "nrows": 'Name the rows: split="train[:100]", or .take(100) of a stream.',
    "parse_dates": 'Say what the columns are: dtype={"day": "timestamp[s]"}, '
    'or afterwards .cast_column("day", Value("timestamp[s]")).',
}
"""Arguments that pandas or Hugging Face Datasets have, and what does it here."""

_GENERAL = (
    "data_files", "data_dir", "split", "streaming", "features", "columns", "storage_options",
    "num_proc", "on_error", "cache", "read_ahead", "settings", "cache_dir", "download_mode",
    "verification_mode", "token", "revision", "trust_remote_code",
)  # fmt: skip
