"""How far apart rows can be read without reading much that lies between."""

from __future__ import annotations

from typing import Any

REMOTE_ROWS = 256
"""Rows of a published version on an object store that are fetched together."""


def block_rows_of(source: Any) -> int:
    """How many rows a global shuffle should leave together.

    1 for tables and versions on a local disk; some hundred for versions elsewhere; a row group
    for parquet, of which a single row costs as much as all.
    """
    inner = source
    while hasattr(inner, "_source"):
        inner = inner._source
    kind = type(inner).__name__
    if kind == "VersionSource":
        return REMOTE_ROWS if any(_is_remote(shard.url) for shard in inner._data.shards[:1]) else 1
    if kind == "ParquetSource":
        rows, groups = inner.total_rows or 0, inner.reshard().num_shards
        return max(1, rows // max(groups, 1))
    return 1


def _is_remote(url: str) -> bool:
    return "://" in url and not url.startswith(("file://", "local://", "memory://"))
