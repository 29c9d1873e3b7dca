"""From an address to the file system that it is on; one connection each in a process."""

from __future__ import annotations

import os
import threading
from collections.abc import Mapping
from typing import Any, Protocol

from provender.data.sources.access.files import DataFile, RangeReader
from provender.store.paths import split_scheme


class FilePlace(Protocol):
    """A file system, as far as reading data needs one."""

    def find(self, pattern: str) -> list[DataFile]: ...

    def is_folder(self, url: str, /) -> bool: ...

    def stat(self, url: str, /) -> DataFile | None: ...

    def reader(self, file: DataFile) -> RangeReader: ...


_places: dict[tuple[Any, ...], FilePlace] = {}
_lock = threading.Lock()


def _in_child() -> None:
    # A thread that does not exist in the child may have held the lock.
    global _lock
    _lock = threading.Lock()


os.register_at_fork(after_in_child=_in_child)


def place_of(url: str, options: Mapping[str, Any] | None = None) -> FilePlace:
    """The file system that an address is on.

    Args:
        url: a local path or a URL, chained ones (``zip://a.csv::https://...``) included.
        options: arguments for fsspec (``storage_options``).

    Raises:
        StoreError: there is none for it.
    """
    scheme, rest = ("chained", url) if "::" in url else split_scheme(url)
    if scheme == "file":
        from provender.data.sources.access.local import Local

        return Local()
    chained = url.partition("::")[2] if scheme == "chained" else ""
    # Event loops and connections do not survive a fork, hence the process in the key; an emulator
    # may be another one in the next test.
    key = (
        os.getpid(),
        scheme,
        _host(rest) if not chained else url,
        _frozen(options or {}),
        _emulator(),
    )
    with _lock:
        if key not in _places:
            _places[key] = _made(scheme, rest, url, options or {})
        return _places[key]


def _made(scheme: str, rest: str, url: str, options: Mapping[str, Any]) -> FilePlace:
    if scheme in ("gs", "gcs") and not options:
        from provender.data.sources.access.gcs import Gcs

        return Gcs(_host(rest))
    if scheme in ("http", "https"):
        from provender.data.sources.access.http import Http

        return Http(options)
    from provender.data.sources.access.generic import Generic

    return Generic(url, options)


def _host(rest: str) -> str:
    return rest.partition("/")[0]


def _emulator() -> str | None:
    return os.environ.get("STORAGE_EMULATOR_HOST")


def _frozen(options: Mapping[str, Any]) -> str:
    return repr(sorted(options.items(), key=lambda item: item[0]))
