"""Files at paths and URLs, written so that they are there whole or not at all."""

# Paths are fsspec strings, which pathlib would mangle.
# ruff: noqa: PTH105, PTH108

from __future__ import annotations

import contextlib
import os
import secrets
from collections.abc import Iterator, Mapping
from typing import Any, BinaryIO

from provender.errors import StoreError


def file_system(path: Any, storage_options: Mapping[str, Any] | None = None) -> tuple[Any, str]:
    """The fsspec file system of a path or URL, and the path in it.

    Raises:
        StoreError: there is none for such URLs.
    """
    import fsspec

    try:
        fs, inner = fsspec.core.url_to_fs(os.fspath(path), **dict(storage_options or {}))
    except (ImportError, ValueError) as error:
        raise StoreError(
            f"There is no file system for {path}: {error}",
            where=str(path),
            hint="Give a local path, or a gs:// URL.",
        ) from error
    return fs, inner.rstrip("/")


def is_local(fs: Any) -> bool:
    """Whether a file system is that of this machine."""
    from fsspec.implementations.local import LocalFileSystem

    return isinstance(fs, LocalFileSystem)


@contextlib.contextmanager
def whole_file(path: Any, storage_options: Mapping[str, Any] | None = None) -> Iterator[BinaryIO]:
    """A new file for writing. If the block raises, what was there before stays.

    Raises:
        DiskFull: no space was left.
        StoreError: it cannot be written.
    """
    fs, inner = file_system(path, storage_options)
    if not is_local(fs):
        yield from _remote(fs, inner, path)
        return
    from provender.data.cache.files import disk_errors

    temp = f"{inner}.tmp-{os.getpid()}-{secrets.token_hex(6)}"
    with disk_errors(inner):
        try:
            os.makedirs(os.path.dirname(inner) or ".", exist_ok=True)
            with open(temp, "xb") as file:
                yield file
            os.replace(temp, inner)
        except BaseException:
            with contextlib.suppress(OSError):
                os.unlink(temp)
            raise


def _remote(fs: Any, inner: str, path: Any) -> Iterator[BinaryIO]:
    # Object stores show an object when its upload is completed, which an error must not do.
    file = fs.open(inner, "wb")
    try:
        yield file
    except BaseException:
        with contextlib.suppress(Exception):
            file.discard()
        file.closed = True
        raise
    try:
        file.close()
    except OSError as error:
        raise StoreError(
            f"The file cannot be written: {error}",
            where=str(path),
            hint="Check the credentials and that the bucket exists.",
        ) from error
