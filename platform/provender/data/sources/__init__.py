"""Where rows come from: published versions, files of many formats, builders, generators, tables."""

from __future__ import annotations

from importlib import import_module
from typing import Any

_HOME = {
    "ArrowSource": "arrow",
    "BuilderProgram": "builder",
    "BuilderSource": "builder",
    "CastSource": "cast",
    "Chunk": "base",
    "ConcatSource": "combined",
    "CsvSource": "csvs",
    "DatasetSource": "tables",
    "GeneratorSource": "generator",
    "JsonLinesSource": "jsonl",
    "ParquetSource": "parquet",
    "PiecesSource": "combined",
    "Position": "base",
    "ReadOptions": "options",
    "Source": "base",
    "TFRecordSource": "tfrecord",
    "TableSource": "tables",
    "TarSource": "tar",
    "TextSource": "text",
    "VersionSource": "version",
}

__all__ = sorted(_HOME)


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        message = f"module {__name__!r} has no attribute {name!r}"
        raise AttributeError(message)
    value = getattr(import_module(f"provender.data.sources.{_HOME[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return list(__all__)
