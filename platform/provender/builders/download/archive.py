"""Reading archives member by member, in the order they were written, in bounded memory.

The kinds and the rule that picks one from a file's name are those of TensorFlow Datasets, plus xz.
As there, members whose names are hidden (a leading dot, or a trailing ``~``) are passed over: they
are the droppings of file managers and editors. A member whose name would lead out of the archive's
folder makes the whole archive refused.
"""

from __future__ import annotations

import bz2
import gzip
import lzma
import os
import posixpath
import tarfile
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO, cast

from provender.errors import ArchiveError
from provender.store.files import sha256_of

NO_EXTRACT = "NO_EXTRACT"
_SUFFIXES = (
    ("TAR", (".tar.gz", ".tgz", ".tar", ".tar.bz2", ".tbz2", ".tbz", ".tb2", ".tar.xz", ".txz")),
    ("ZIP", (".zip",)),
    ("GZIP", (".gz",)),
    ("BZIP2", (".bz2",)),
    ("XZ", (".xz",)),
)
# tarfile finds the compression itself, so TFDS's TAR_GZ is TAR. *_STREAM differs in passing over links.
_ALIASES = {"TAR_GZ": "TAR", "TAR_GZ_STREAM": "TAR_STREAM"}
METHODS = frozenset({"TAR", "TAR_STREAM", "ZIP", "GZIP", "BZIP2", "XZ"})
_DAMAGE = (
    tarfile.TarError,
    zipfile.BadZipFile,
    gzip.BadGzipFile,
    lzma.LZMAError,
    zlib.error,
    EOFError,
    NotImplementedError,  # a zip compression method that zipfile does not know
)


def archive_method(name: str) -> str:
    """How a file of this name is unpacked: a member of `METHODS`, or ``NO_EXTRACT``."""
    for method, suffixes in _SUFFIXES:
        if name.endswith(suffixes):
            return method
    return NO_EXTRACT


def normal_method(method: Any) -> str:
    """The name of a method given by name, or as TFDS's ``ExtractMethod``.

    Raises:
        ArchiveError: there is no such method.
    """
    name = str(getattr(method, "name", method))
    name = _ALIASES.get(name, name)
    if name not in METHODS and name != NO_EXTRACT:
        raise ArchiveError(
            f"There is no way to unpack called {name!r}.",
            hint=f"Use one of {', '.join(sorted(METHODS))}.",
        )
    return name


class ArchiveFiles:
    """The files in an archive as ``(name, file object)`` pairs; each iteration reads it anew.

    Read each file before taking the next one; files of a TAR or ZIP may be kept until the
    iteration ends, at the price of seeking.

    Args:
        path: the archive.
        method: a member of `METHODS`; by default the file's name tells.
        sha256: digest of the archive, if known already.
    """

    def __init__(
        self, path: str | os.PathLike[str], method: Any = None, *, sha256: str | None = None
    ) -> None:
        self.path = Path(path)
        self.method = normal_method(method or archive_method(self.path.name))
        self._sha256 = sha256
        self._current: Iterator[tuple[str, BinaryIO]] | None = None
        if self.method == NO_EXTRACT:
            raise ArchiveError(
                "This is no kind of archive that can be read.",
                where=str(self.path),
                hint="Give the kind: tfds.download.Resource(path=..., extract_method=...).",
            )

    @property
    def sha256(self) -> str:
        """Hex digest of the archive's bytes."""
        if self._sha256 is None:
            self._sha256 = sha256_of(self.path)
        return self._sha256

    def __fingerprint__(self) -> tuple[str, str, str]:
        """Equal for equal bytes read the same way, wherever they lie."""
        return ("archive", self.method, self.sha256)

    def __iter__(self) -> Iterator[tuple[str, BinaryIO]]:
        for name, file in members(self.path, self.method):
            if not _is_hidden(name):
                yield name, file

    def __next__(self) -> tuple[str, BinaryIO]:
        """The next pair of one iteration kept by this object, for code that expects a generator."""
        if self._current is None:
            self._current = iter(self)
        return next(self._current)

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_current": None}


def iter_archive(
    path: str | os.PathLike[str], method: Any = None, *, sha256: str | None = None
) -> ArchiveFiles:
    """The files in an archive; see `ArchiveFiles`."""
    return ArchiveFiles(path, method, sha256=sha256)


def members(path: Path, method: str) -> Iterator[tuple[str, BinaryIO]]:
    """All regular files of an archive, hidden ones too; links appear as the file they lead to.

    Yields:
        The normalized name (empty for a single compressed file) and an open file object.

    Raises:
        ArchiveError: the archive is damaged, or a member's name or link leads outside.
    """
    with archive_errors(path):
        if method in ("TAR", "TAR_STREAM"):
            yield from _tar_members(path, stream=method == "TAR_STREAM")
        elif method == "ZIP":
            yield from _zip_members(path)
        else:
            with open_compressed(path, method) as file:
                yield "", file


@contextmanager
def open_compressed(path: Path, method: str) -> Iterator[BinaryIO]:
    """Opens a single compressed file for reading; ``method`` is GZIP, BZIP2 or XZ."""
    openers: dict[str, Any] = {"GZIP": gzip.open, "BZIP2": bz2.open, "XZ": lzma.open}
    with openers[method](path, "rb") as file:
        yield file


@contextmanager
def archive_errors(path: Path) -> Iterator[None]:
    """Turns what damaged archives make the standard library raise into ArchiveError."""
    try:
        yield
    except _DAMAGE as err:
        raise _damaged(path, err) from err
    except RuntimeError as err:
        if "password" not in str(err) and "encrypted" not in str(err):
            raise
        raise ArchiveError(
            "The archive is encrypted.",
            where=str(path),
            hint="Decrypt it by hand and place the result in manual_dir.",
        ) from err
    except OSError as err:
        # bz2 reports damage as an OSError without a number; those of the system have one.
        if err.errno is None:
            raise _damaged(path, err) from err
        raise


def safe_member_name(name: str, path: Path) -> str:
    """A member's name, normalized, relative and inside.

    Raises:
        ArchiveError: the name is absolute, climbs out with ``..``, or cannot be a file name.
    """
    normal = posixpath.normpath(name)
    if name.startswith("/") or normal == ".." or normal.startswith("../") or "\0" in name:
        raise _leads_outside(path, f"Its member {name!r} lies outside of it.")
    return normal


def _tar_members(path: Path, *, stream: bool) -> Iterator[tuple[str, BinaryIO]]:
    with path.open("rb") as raw, tarfile.open(fileobj=raw, mode="r:*") as tar:
        links: tarfile.TarFile | None = None
        try:
            while (member := tar.next()) is not None:
                # tarfile keeps every header it has seen; 200,000 of them are 200 MB.
                tar.members = []  # type: ignore[attr-defined]
                name = safe_member_name(member.name, path)
                if member.isdir():
                    continue
                if member.issym() or member.islnk():
                    links = links or tarfile.open(path)  # noqa: SIM115 - closed below
                    target = _link_target(links, member, path)
                    if target is not None and not stream:
                        yield name, target
                    continue
                if not member.isreg():
                    raise _leads_outside(path, f"Its member {name!r} is a device or a pipe.")
                if (file := tar.extractfile(member)) is not None:
                    yield name, cast("BinaryIO", file)
            _check_tar_end(tar)
        finally:
            if links is not None:
                links.close()


def _check_tar_end(tar: tarfile.TarFile) -> None:
    # tarfile takes a header it cannot read for the end, which would make a damaged archive a
    # shorter one. The real end is zeros, or nothing.
    assert tar.fileobj is not None
    tar.fileobj.seek(tar.offset)
    if any(tar.fileobj.read(tarfile.BLOCKSIZE)):
        message = "unreadable header in the middle"
        raise tarfile.ReadError(message)


def _link_target(
    tar: tarfile.TarFile, member: tarfile.TarInfo, path: Path, depth: int = 0
) -> BinaryIO | None:
    """The regular file in the archive that a link leads to; None for folders and broken links."""
    if depth > 40:
        raise _leads_outside(path, f"Its link {member.name!r} leads in a circle.")
    folder = posixpath.dirname(member.name) if member.issym() else ""
    absolute = posixpath.isabs(member.linkname)
    joined = member.linkname if absolute else posixpath.join(folder, member.linkname)
    try:
        target_name = safe_member_name(joined, path)
    except ArchiveError:
        raise _leads_outside(
            path, f"Its link {member.name!r} leads outside, to {member.linkname!r}."
        ) from None
    for candidate in (target_name, f"./{target_name}"):
        try:
            target = tar.getmember(candidate)
        except KeyError:
            continue
        if target.issym() or target.islnk():
            return _link_target(tar, target, path, depth + 1)
        return cast("BinaryIO", tar.extractfile(target)) if target.isreg() else None
    return None


def _zip_members(path: Path) -> Iterator[tuple[str, BinaryIO]]:
    with zipfile.ZipFile(path) as archive:
        for member in archive.infolist():
            name = safe_member_name(member.filename, path)
            # The upper half of the attributes is the Unix mode; 0o12 is a link, whose content is
            # its target's path.
            kind = member.external_attr >> 28
            if kind == 0o12:
                target = archive.read(member).decode("utf-8", "replace")
                name_there = posixpath.join(posixpath.dirname(name), target)
                if posixpath.isabs(target) or posixpath.normpath(name_there).startswith("../"):
                    raise _leads_outside(path, f"Its link {name!r} leads outside, to {target!r}.")
                linked = archive.NameToInfo.get(posixpath.normpath(name_there))
                if linked is None or linked.is_dir() or linked.external_attr >> 28 == 0o12:
                    continue
                yield name, cast("BinaryIO", archive.open(linked))
            elif not member.is_dir():
                yield name, cast("BinaryIO", archive.open(member))


def _is_hidden(name: str) -> bool:
    return name.startswith(".") or name.endswith("~") or posixpath.basename(name).startswith(".")


def _leads_outside(path: Path, what: str) -> ArchiveError:
    return ArchiveError(
        f"The archive tries to reach outside of its folder. {what}",
        where=str(path),
        hint="Do not unpack it; get it from a source you trust.",
    )


def _damaged(path: Path, err: Exception) -> ArchiveError:
    return ArchiveError(
        f"The archive is damaged: {err}.",
        where=str(path),
        hint="Fetch it again; if it stays so, it is damaged upstream.",
    )
