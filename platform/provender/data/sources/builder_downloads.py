"""A download manager that fetches nothing ahead: what builders open is read by ranges, when they do.

Builders get paths that look like files. Opened with their own ``open`` (or read), they stream;
passed to anything that needs a real file name, they are downloaded first, by the real manager.
"""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import posixpath
import tarfile
import zipfile
from collections.abc import Callable, Iterator, Mapping
from pathlib import PurePosixPath
from typing import Any, BinaryIO

from provender.builders.download import archive_method
from provender.builders.download.archive import (
    NO_EXTRACT,
    ArchiveFiles,
    archive_errors,
    normal_method,
    safe_member_name,
)
from provender.builders.download.inputs import map_leaves, method_of, url_of
from provender.data.sources.access import ByteStream, RangeReader, open_reader, place_of
from provender.data.sources.access.files import gone
from provender.errors import ArchiveError, ProvenderError
from provender.store.ranges import RangeFile

_BUFFER = 1 << 20
_OPENERS: Mapping[str, Any] = {"GZIP": gzip.open, "BZIP2": bz2.open, "XZ": lzma.open}


class StreamedPath:
    """A file at an address, which a builder may take for a path.

    Args:
        url: the address, or a local path.
        local: downloads it and gives the local path; called at most once.
        method: how it is decoded when it is opened: GZIP, BZIP2, XZ, or None.
    """

    def __init__(self, url: str, local: Callable[[], Any], method: str | None = None) -> None:
        self.url = url
        self._local = local
        self._method = method
        self._path: str | None = None

    def __fspath__(self) -> str:
        if self._path is None:
            self._path = str(self._local())
        return self._path

    def __str__(self) -> str:
        return self.__fspath__()

    def __repr__(self) -> str:
        from provender.builders.download import mask_url

        return f"StreamedPath({mask_url(self.url)!r})"

    def __truediv__(self, name: str) -> Any:
        from etils import epath

        return epath.Path(self.__fspath__()) / name

    def __eq__(self, other: object) -> bool:
        return isinstance(other, StreamedPath) and (self.url, self._method) == (
            other.url,
            other._method,
        )

    def __hash__(self) -> int:
        return hash((self.url, self._method))

    def __fingerprint__(self) -> tuple[str, ...]:
        """Equal for the same version of the same file, wherever a copy of it would lie."""
        from provender.data.sources.access import content_of

        return ("streamed path", content_of(self._file(), quick=True), self._method or "")

    def __getattr__(self, name: str) -> Any:
        # Whatever else builders do with paths they do with the file itself.
        if name.startswith("_"):
            raise AttributeError(name)
        from etils import epath

        return getattr(epath.Path(self.__fspath__()), name)

    @property
    def name(self) -> str:
        """The last part of the address."""
        return self._pure.name

    @property
    def stem(self) -> str:
        """The name without its last suffix."""
        return self._pure.stem

    @property
    def suffix(self) -> str:
        """The name's last suffix."""
        return self._pure.suffix

    @property
    def suffixes(self) -> list[str]:
        """All suffixes of the name."""
        return self._pure.suffixes

    @property
    def parent(self) -> Any:
        """The folder of the downloaded file."""
        from etils import epath

        return epath.Path(self.__fspath__()).parent

    @property
    def _pure(self) -> PurePosixPath:
        return PurePosixPath(self.url.split("?", 1)[0].split("#", 1)[0])

    def _file(self) -> Any:
        found = place_of(self.url).stat(self.url)
        if found is None:
            raise gone(self.url)
        return found

    def exists(self) -> bool:
        """Whether the file is there."""
        return place_of(self.url).stat(self.url) is not None

    def is_file(self) -> bool:
        """Whether the file is there."""
        return self.exists()

    def is_dir(self) -> bool:
        """Never: it is a file."""
        return False

    def open(
        self,
        mode: str = "r",
        buffering: int = -1,
        encoding: str | None = None,
        errors: str | None = None,
        newline: str | None = None,
    ) -> Any:
        """Opens the file for reading, as `pathlib.Path.open` does; ranges are read as needed."""
        del buffering
        if "w" in mode or "a" in mode or "x" in mode or "+" in mode:
            raise ProvenderError(
                "A source file can only be read.", where=self.name, hint='Open it with "r" or "rb".'
            )
        raw: Any = _Opened(open_reader(self._file()))
        if self._method:
            raw = _OPENERS[self._method](raw, "rb")
        if "b" in mode:
            return raw
        return io.TextIOWrapper(raw, encoding or "utf-8", errors, newline)

    def read_bytes(self) -> bytes:
        """The whole content."""
        with self.open("rb") as file:
            data: bytes = file.read()
        return data

    def read_text(self, encoding: str | None = None, errors: str | None = None) -> str:
        """The whole content as text."""
        with self.open("r", encoding=encoding, errors=errors) as file:
            text: str = file.read()
        return text


class _Opened(io.BufferedReader):
    """A buffered file over ranges that closes its reader with it."""

    def __init__(self, reader: RangeReader) -> None:
        super().__init__(RangeFile(reader.read, reader.size), _BUFFER)
        self._reader = reader

    def close(self) -> None:
        try:
            super().close()
        finally:
            self._reader.close()


class StreamedArchive:
    """The files in an archive at an address, in order, without fetching it first.

    A tar is read once through; a zip is entered member by member through its directory.

    Args:
        path: the archive.
        method: how it is packed, by default as its name tells.
    """

    def __init__(self, path: StreamedPath, method: Any = None) -> None:
        self.path = path
        self.method = normal_method(method or archive_method(path.name))
        if self.method == NO_EXTRACT:
            raise ArchiveError(
                "This is no kind of archive that can be read.",
                where=path.name,
                hint="Give the kind: tfds.download.Resource(path=..., extract_method=...).",
            )

    def __fingerprint__(self) -> tuple[Any, ...]:
        """Equal for equal archives read the same way."""
        return ("streamed archive", self.method, self.path.__fingerprint__())

    def __iter__(self) -> Iterator[tuple[str, BinaryIO]]:
        where: Any = self.path._pure  # it is shown only
        with archive_errors(where):
            for name, file in self._members():
                hidden = name.startswith(".") or name.endswith("~")
                if not hidden and not posixpath.basename(name).startswith("."):
                    yield name, file

    def _members(self) -> Iterator[tuple[str, Any]]:
        if self.method in ("TAR", "TAR_STREAM"):
            yield from self._tar()
        elif self.method == "ZIP":
            yield from self._zip()
        else:
            with self.path.open("rb") as raw, _OPENERS[self.method](raw, "rb") as file:
                yield "", file

    def _tar(self) -> Iterator[tuple[str, Any]]:
        where: Any = self.path._pure
        with open_reader(self.path._file()) as reader:
            stream = ByteStream(reader)
            try:
                with tarfile.open(fileobj=_Blocks(stream), mode="r|*") as tar:
                    while (member := tar.next()) is not None:
                        tar.members = []  # type: ignore[attr-defined]
                        name = safe_member_name(member.name, where)
                        if member.issym() or member.islnk():
                            raise ArchiveError(
                                f"Its member {name!r} is a link, which cannot be followed in a "
                                "stream.",
                                where=str(where),
                                hint="Load it with streaming=False.",
                            )
                        file = tar.extractfile(member) if member.isreg() else None
                        if file is not None:
                            yield name, file
            finally:
                stream.close()

    def _zip(self) -> Iterator[tuple[str, Any]]:
        where: Any = self.path._pure
        with self.path.open("rb") as raw, zipfile.ZipFile(raw) as archive:
            for member in archive.infolist():
                name = safe_member_name(member.filename, where)
                if not member.is_dir() and member.external_attr >> 28 != 0o12:
                    with archive.open(member) as file:
                        yield name, file


class _Blocks(io.RawIOBase):
    """Blocks of bytes as a file that can only be read on."""

    def __init__(self, stream: ByteStream) -> None:
        self._stream = stream
        self._left = b""

    def readable(self) -> bool:
        return True

    def read(self, size: int = -1) -> bytes:
        parts: list[bytes] = []
        wanted = size if size >= 0 else 1 << 62
        while wanted > 0:
            if not self._left:
                self._left = next(self._stream, b"")
                if not self._left:
                    break
            part, self._left = self._left[:wanted], self._left[wanted:]
            parts.append(part)
            wanted -= len(part)
        return b"".join(parts)


class StreamingDownloads:
    """The face of TFDS's download manager over addresses that are opened when needed.

    Args:
        real: does what needs files: unpacking, manual files, Kaggle, and paths that are used as
            file names.
    """

    def __init__(self, real: Any) -> None:
        self._real = real

    def download(self, url_or_urls: Any) -> Any:
        """Paths for URLs, in the same structure; nothing is fetched."""
        return map_leaves(self._lazy, url_or_urls)

    def extract(self, path_or_paths: Any) -> Any:
        """Single compressed files are decoded as they are read; archives are really unpacked."""
        return map_leaves(self._extracted, path_or_paths)

    def download_and_extract(self, url_or_urls: Any) -> Any:
        """`download`, then `extract`."""
        return map_leaves(
            lambda leaf: self._extracted(self._lazy(leaf), method_of(leaf)), url_or_urls
        )

    def iter_archive(self, resource: Any) -> Any:
        """The files in an archive, read as a stream; may be iterated any number of times."""
        path = getattr(resource, "path", resource)
        if isinstance(path, StreamedPath) and path._path is None:
            return StreamedArchive(path, method_of(resource))
        return ArchiveFiles(str(path), method_of(resource))

    def _lazy(self, leaf: Any) -> StreamedPath:
        url = url_of(leaf)
        return StreamedPath(url, lambda: self._really("download", leaf))

    def _extracted(self, leaf: Any, method: Any = None) -> Any:
        path = getattr(leaf, "path", leaf)
        if not isinstance(path, StreamedPath):
            return self._really("extract", leaf)
        kind = normal_method(method or method_of(leaf) or archive_method(path.name))
        if kind == NO_EXTRACT:
            return path
        unpack = lambda: self._really("extract", _resource(path, kind))  # noqa: E731
        if kind in _OPENERS:
            return StreamedPath(path.url, unpack, kind)
        return unpack()

    def _really(self, name: str, leaf: Any) -> Any:
        # Nobody tells when the stream is over, so connections are given back each time.
        try:
            return getattr(self._real, name)(leaf)
        finally:
            self._real.close()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._real, name)


def _resource(path: StreamedPath, kind: str) -> Any:
    import tensorflow_datasets as tfds

    method = getattr(tfds.download.ExtractMethod, kind)
    return tfds.download.Resource(path=path.__fspath__(), extract_method=method)
