"""Local files, and every other scheme through fsspec: open, seek, read on."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, BinaryIO

from provender.builders.download.source import (
    Opened,
    PartState,
    Permanent,
    Transient,
    UpstreamIdentity,
)
from provender.builders.download.urls import local_path, mask_url, scheme_of, scrub
from provender.errors import StoreError

_CHUNK = 1 << 20
_BLOCK = 8 << 20
_DENIED = frozenset({400, 401, 403})


class LocalSource:
    """A ``file:`` URL or a plain path; symbolic links are followed, content is what counts."""

    def __init__(self, url: str) -> None:
        self._path = Path(local_path(url))

    @contextmanager
    def open(self, offset: int, state: PartState | None) -> Iterator[Opened]:
        """See `Source.open`."""
        with ExitStack() as stack:
            with self.errors():
                file = stack.enter_context(self._path.open("rb"))
                now = _local_identity(os.fstat(file.fileno()), self._path)
            yield _opened(file, now, offset, state, self._path.name, self)

    def identity(self) -> UpstreamIdentity:
        """See `Source.identity`: modification time and size."""
        with self.errors():
            return _local_identity(self._path.stat(), self._path)

    @contextmanager
    def errors(self) -> Iterator[None]:
        """Sorts what reading raises into `Transient` and `Permanent`."""
        try:
            yield
        except FileNotFoundError:
            raise Permanent("there is no such file", hint="Check the path.") from None
        except OSError as err:
            raise Permanent(err.strerror or str(err)) from None


class FsspecSource:
    """A file of any scheme that fsspec has a file system for: gs, s3, hdfs, sftp, memory ..."""

    def __init__(self, url: str) -> None:
        self._url = url

    @contextmanager
    def open(self, offset: int, state: PartState | None) -> Iterator[Opened]:
        """See `Source.open`."""
        # The yield stands outside of errors(), which would take the caller's exceptions for the
        # driver's.
        with ExitStack() as stack:
            with self.errors():
                fs, path = self._locate()
                now = _remote_identity(fs.info(path))
                file = stack.enter_context(
                    fs.open(path, "rb", block_size=_BLOCK, cache_type="readahead")
                )
            yield _opened(file, now, offset, state, path.rpartition("/")[2], self)

    def identity(self) -> UpstreamIdentity | None:
        """See `Source.identity`: the object's generation, entity tag, or time and size."""
        with self.errors():
            fs, path = self._locate()
            return _remote_identity(fs.info(path))

    def _locate(self) -> tuple[Any, str]:
        options = _gcs_options(self._url) if scheme_of(self._url) in ("gs", "gcs") else {}
        import fsspec

        fs, path = fsspec.core.url_to_fs(self._url, **options)
        # A listing made earlier in this process would answer for the object as it was then.
        fs.invalidate_cache()
        return fs, str(path)

    @contextmanager
    def errors(self) -> Iterator[None]:
        """Sorts what reading raises into `Transient` and `Permanent`."""
        try:
            yield
        except (Transient, Permanent):
            raise
        except FileNotFoundError:
            raise Permanent("there is no such file", hint="Check the address.") from None
        except (ImportError, ValueError) as err:
            hint = "Install the fsspec driver of this scheme, or correct the URL."
            raise Permanent(self._text(err), hint=hint) from None
        except PermissionError as err:
            raise Permanent(self._text(err), hint="Check the credentials.") from None
        except Exception as err:  # noqa: BLE001 - drivers share no error tree
            # Each driver has an error tree of its own; what a status or a name does not mark as
            # final is worth another try.
            if _is_denied(err):
                raise Permanent(self._text(err), hint="Check the credentials.") from None
            raise Transient(self._text(err)) from None

    def _text(self, err: Exception) -> str:
        return scrub(f"{type(err).__name__}: {err}", self._url)


def _opened(
    file: BinaryIO,
    now: UpstreamIdentity | None,
    offset: int,
    state: PartState | None,
    name: str,
    source: LocalSource | FsspecSource,
) -> Opened:
    token = now.token if now else None
    start = offset if state is not None and state.identity == token else 0
    file.seek(start)
    return Opened(
        start=start,
        size=now.size if now else None,
        identity=token,
        if_range=None,
        resumable=True,
        filename=name or None,
        content_type=None,
        chunks=_chunks(file, token, source),
    )


def _chunks(
    file: BinaryIO, token: str | None, source: LocalSource | FsspecSource
) -> Iterator[bytes]:
    with source.errors():
        while chunk := file.read(_CHUNK):
            yield chunk
    # Blocks are separate requests, so a file replaced midway would come out as a mixture.
    after = source.identity()
    if (after.token if after else None) != token:
        raise Transient("the file changed while it was read")


def _local_identity(info: os.stat_result, path: Path) -> UpstreamIdentity:
    if not stat.S_ISREG(info.st_mode):
        raise Permanent("not a regular file", hint=f"Name a file instead of {path}.")
    return UpstreamIdentity(f"modified:{info.st_mtime_ns};size:{info.st_size}", info.st_size)


def _remote_identity(info: dict[str, Any]) -> UpstreamIdentity | None:
    if info.get("type") == "directory":
        raise Permanent("this is a folder, not a file")
    size = info.get("size")
    for name, kind in (("generation", "generation"), ("etag", "etag"), ("ETag", "etag")):
        if info.get(name):
            return UpstreamIdentity(f"{kind}:{info[name]}", size)
    for name in ("mtime", "LastModified", "last_modified", "updated", "modified", "created"):
        if info.get(name):
            return UpstreamIdentity(f"modified:{info[name]};size:{size}", size)
    return None


def _gcs_options(url: str) -> dict[str, Any]:
    """The store's choice of credentials; none where there are none, for public buckets."""
    from provender.store.gcs_filesystem import credentials_source

    try:
        token = credentials_source(mask_url(url))
    except StoreError as err:
        if os.environ.get("GOOGLE_APPLICATION_CREDENTIALS"):
            raise Permanent(err.message, hint=err.hint) from None
        token = "anon"  # noqa: S105 - gcsfs's name for "no credentials"
    return {"token": token} if token else {}


def _is_denied(err: Exception) -> bool:
    status = getattr(err, "code", None) or getattr(err, "status", None)
    return status in _DENIED or "Credentials" in type(err).__name__
