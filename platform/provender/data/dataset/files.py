"""Files of Arrow streams, written whole or not at all, on any file system."""

# Paths are fsspec strings or given as strings.
# ruff: noqa: PTH105, PTH108

from __future__ import annotations

import contextlib
import os
import secrets
from typing import Any

import pyarrow as pa

from provender.errors import InputError


def write_stream(table: pa.Table, path: str | os.PathLike[str]) -> None:
    """Writes a table as an Arrow stream to a local file.

    Raises:
        DiskFull: no space was left.
        StoreError: the folder cannot be written.
    """
    from provender.data.cache.files import disk_errors

    path = os.path.abspath(path)
    temp = f"{path}.tmp-{os.getpid()}-{secrets.token_hex(6)}"
    with disk_errors(path, table.nbytes):
        os.makedirs(os.path.dirname(path), exist_ok=True)
        try:
            with pa.OSFile(temp, "wb") as sink, pa.ipc.new_stream(sink, table.schema) as stream:
                stream.write_table(table)
            os.replace(temp, path)
        except BaseException:
            with contextlib.suppress(OSError):
                os.unlink(temp)
            raise


def read_stream(path: str | os.PathLike[str], *, in_memory: bool = False) -> pa.Table:
    """Reads an Arrow stream (or Arrow file) from a local file, memory-mapped unless told otherwise.

    Raises:
        InputError: there is no such file, or it is not Arrow.
    """
    path = os.fspath(path)
    try:
        source: Any = pa.OSFile(path) if in_memory else pa.memory_map(path)
        try:
            with pa.ipc.open_stream(source) as stream:
                return stream.read_all()
        except pa.ArrowInvalid:
            source = pa.OSFile(path) if in_memory else pa.memory_map(path)
            with pa.ipc.open_file(source) as file:
                return file.read_all()
    except (OSError, pa.ArrowInvalid) as error:
        raise InputError(
            f"{path} cannot be read as Arrow: {str(error).splitlines()[0]}",
            where=path,
            hint="Check the path; files of other kinds are read with load_dataset.",
        ) from error
