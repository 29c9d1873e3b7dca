"""Unpacking an archive into a folder of its own: whole or not at all, and never outside."""

from __future__ import annotations

import errno
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any, BinaryIO

from provender.builders.download.archive import (
    NO_EXTRACT,
    ArchiveFiles,
    archive_errors,
    archive_method,
    normal_method,
)
from provender.builders.download.disk import disk_errors, write_error
from provender.builders.download.locks import file_lock
from provender.builders.download.retry import Cancelled
from provender.errors import ArchiveError, ProvenderError

_CHUNK = 1 << 20


def extract(
    path: Path,
    target: Path,
    method: Any = None,
    *,
    cancelled: Callable[[], bool] | None = None,
) -> Path:
    """Unpacks an archive unless ``target`` is there already.

    Links become copies of the files in the archive that they lead to, so nothing is ever written
    through one. Safe for several processes with one target: one unpacks, the others wait.

    Args:
        path: the archive.
        target: the folder to make, or for a single compressed file the file. Name it after the
            archive's content: it is never refreshed.
        method: how to unpack; by default the archive's name tells.
        cancelled: asked between blocks; True ends the call with `Cancelled`.

    Returns:
        ``target``, or ``path`` itself where it is no archive.

    Raises:
        ArchiveError: damaged, or a member reaches outside; ``target`` is not made.
        DiskFull, StoreError: ``target`` cannot be written.
    """
    name = normal_method(method or archive_method(path.name))
    if name == NO_EXTRACT:
        return path
    if target.exists():
        return target
    temporary = target.with_name(f".{target.name}.unpacking")
    with file_lock(target.with_name(f".{target.name}.lock"), cancelled=cancelled):
        if target.exists():
            return target
        _remove(temporary)
        try:
            _unpack(ArchiveFiles(path, name), temporary, cancelled)
            with disk_errors(target):
                temporary.replace(target)
        except BaseException:
            _remove(temporary)
            raise
    return target


def _unpack(archive: ArchiveFiles, target: Path, cancelled: Callable[[], bool] | None) -> None:
    if archive.method in ("TAR", "TAR_STREAM", "ZIP"):
        with disk_errors(target):
            target.mkdir(parents=True)
    made: set[Path] = set()
    for name, source in archive:
        out = target / name if name else target
        if out.parent not in made:
            _make_folder(out.parent, archive.path)
            made.add(out.parent)
        _copy(source, out, archive.path, cancelled)


def _make_folder(folder: Path, archive: Path) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except (FileExistsError, NotADirectoryError) as err:
        raise ArchiveError(
            f"The archive holds {folder.name!r} both as a file and as a folder.",
            where=str(archive),
        ) from err
    except OSError as err:
        raise _name_error(err, folder, archive) from err


def _copy(source: BinaryIO, out: Path, archive: Path, cancelled: Callable[[], bool] | None) -> None:
    try:
        file = out.open("wb")
    except IsADirectoryError as err:
        raise ArchiveError(
            f"The archive holds {out.name!r} both as a file and as a folder.", where=str(archive)
        ) from err
    except OSError as err:
        raise _name_error(err, out, archive) from err
    with disk_errors(out), file:
        while True:
            with archive_errors(archive):
                chunk = source.read(_CHUNK)
            if not chunk:
                return
            if cancelled and cancelled():
                raise Cancelled
            file.write(chunk)


def _name_error(err: OSError, out: Path, archive: Path) -> ProvenderError:
    if err.errno in (errno.ENAMETOOLONG, errno.EINVAL, errno.EILSEQ):
        return ArchiveError(
            f"The archive holds a name that no file can have here: {out.name[:80]!r}.",
            where=str(archive),
        )
    return write_error(err, out)


def _remove(path: Path) -> None:
    if path.is_dir():
        shutil.rmtree(path, ignore_errors=True)
    else:
        path.unlink(missing_ok=True)
