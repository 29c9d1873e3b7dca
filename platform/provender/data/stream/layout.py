"""How far apart rows can be read without reading much that lies between."""

from __future__ import annotations

from typing import Any

REMOTE_ROWS = 256
"""Rows of a published version on an object store that are fetched together."""

WINDOW = 65_536
"""Rows of a window of a global shuffle in blocks, where nothing else is asked for."""

_FEW, _MANY, _BLOCKS = 4, 8, 16


def window_rows_of(rows: int, block: int) -> int:
    """How many rows a global shuffle in blocks should read and permute together.

    A few windows cannot be put into an order without a trace of the file order: so a split that is
    only a few windows long is one window, and where blocks are small windows are so as well.

    Args:
        rows: rows of the split.
        block: rows of a block.
    """
    window = WINDOW
    if block * _BLOCKS * _FEW <= WINDOW:
        window = min(WINDOW, max(-(-rows // _MANY), _BLOCKS * block))
    # With three blocks or fewer in a window it takes more windows until they balance.
    few = _FEW if block * 4 <= WINDOW else 2 * _FEW
    return max(rows, 2) if rows <= few * window else window


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
