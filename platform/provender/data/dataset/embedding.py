"""Bytes of files that rows only name, put into the rows so that a folder can be moved."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa


def embedded(table: pa.Table, features: Mapping[str, Any]) -> pa.Table:
    """The table with the bytes of images, sounds and films that lie in local files.

    Args:
        table: rows.
        features: of its columns.
    """
    from provender.data.features import Audio, Image, Video

    for name, feature in features.items():
        if not isinstance(feature, Image | Audio | Video):
            continue
        column = table.column(name)
        chunks = [_with_bytes(chunk) for chunk in column.chunks]
        if all(new is old for new, old in zip(chunks, column.chunks, strict=True)):
            continue
        at = table.schema.get_field_index(name)
        field = table.schema.field(at)
        table = table.set_column(at, field, pa.chunked_array(chunks, type=field.type))
    return table


def _with_bytes(array: pa.Array) -> pa.Array:
    rows = array.to_pylist()
    changed = False
    for row in rows:
        if row and row.get("bytes") is None and row.get("path") and Path(row["path"]).is_file():
            with open(row["path"], "rb") as file:
                row["bytes"] = file.read()
            row["path"] = os.path.basename(row["path"])
            changed = True
    return pa.array(rows, array.type) if changed else array
