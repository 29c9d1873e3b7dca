"""Files that a killed process was in the middle of writing.

Each kind has a name that only its writer makes, so nothing here can mistake data for leftovers:

    .incoming/*                          files on their way into a local store
    building/examples/**/*.tmp-PID       runs
    objects/.incoming/KEY/*              downloads (the ledger ``last.json`` is memory, and stays)
    objects/AA/SHA256/.*                 objects on their way to another name
    building/extracted/AA/SHA256/.*      archives being unpacked
    HOME/facts/*.part                    builder facts

Locks end with the process that holds them, so a lock that can be had proves its owner dead. Where
there is no lock, a file that some process of this machine has open is in use, and everything
younger than an hour is while anybody builds.
"""

from __future__ import annotations

import os
import re
import shutil
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from provender.store.files import try_lock
from provender.upkeep.findings import Finding, Problem, size_text

_AT_WORK_SECONDS = 3600.0
_RUN = re.compile(r".+\.tmp-\d+")
_LEDGER = "last.json"


def temporary_files(
    *, store: Path | None, building: Path, objects: Path, home: Path, idle: bool
) -> Iterator[Problem]:
    """Unfinished files that no living process writes.

    Args:
        store: root of a local store, or None.
        building: local folder of work in progress.
        objects: local folder of downloads.
        home: local folder of memory.
        idle: whether no build runs anywhere.
    """
    opened = _Opened()

    def forsaken(path: Path) -> bool:
        if _is_locked(path) or opened.holds(path):
            return False
        return idle or _age(path) > _AT_WORK_SECONDS

    def found(paths: Iterator[Path]) -> Iterator[Problem]:
        for path in paths:
            if forsaken(path):
                yield _problem(path, forsaken)

    if store is not None:
        yield from found(_children(store / ".incoming"))
    yield from found(p for p in building.glob("examples/*/*/**/*") if _RUN.fullmatch(p.name))
    yield from found(_dotted(building / "extracted"))
    yield from found(_dotted(objects))
    yield from found(home.glob("facts/*.part"))
    for folder in _children(objects / ".incoming"):
        lock = folder / "lock"
        if lock.exists() and _is_locked(lock):
            continue
        yield from found(p for p in _children(folder) if p.name != _LEDGER)


def _problem(path: Path, forsaken: Callable[[Path], bool]) -> Problem:
    def remove() -> bool:
        if not path.exists() or not forsaken(path):
            return not path.exists()
        remove_local(path)
        return True

    size = size_of(path)
    return Problem(
        Finding(
            "temporary",
            f"an unfinished file of a process that is gone ({size_text(size)})",
            str(path),
            hint="`provender doctor --fix` removes it.",
            size=size,
        ),
        remove,
    )


def remove_local(path: Path) -> None:
    """Removes a local file or folder, and the empty folders that this leaves directly above."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path, ignore_errors=True)
    else:
        path.unlink(missing_ok=True)
    for folder in list(path.parents)[:2]:
        try:
            folder.rmdir()
        except OSError:
            return


def size_of(path: Path) -> int:
    """Bytes of a file, or of all files in a folder."""
    if not path.is_dir():
        return path.stat().st_size if path.exists() else 0
    return sum(
        os.lstat(os.path.join(folder, name)).st_size
        for folder, _, names in os.walk(path)
        for name in names
        if os.path.lexists(os.path.join(folder, name))
    )


def newest_change(path: Path) -> float:
    """Time of the last change in a folder, in seconds since the epoch."""
    times = [path.stat().st_mtime]
    for folder, _, names in os.walk(path):
        times += [
            os.lstat(os.path.join(folder, name)).st_mtime
            for name in names
            if os.path.lexists(os.path.join(folder, name))
        ]
    return max(times)


def _children(folder: Path) -> Iterator[Path]:
    if folder.is_dir():
        yield from sorted(folder.iterdir())


def _dotted(root: Path) -> Iterator[Path]:
    """Names that begin with a dot in the folders ``<root>/<aa>/<sha256>``."""
    yield from sorted(root.glob("[0-9a-f][0-9a-f]/*/.*"))


def _age(path: Path) -> float:
    try:
        # A link and a moved folder keep their old modification time.
        return time.time() - path.lstat().st_ctime
    except FileNotFoundError:
        return 0.0


def _is_locked(path: Path) -> bool:
    """Whether a process holds the kernel's lock on a file."""
    if not path.is_file():
        return False
    try:
        handle = os.open(path, os.O_RDONLY)
    except OSError:
        return False
    try:
        return not try_lock(handle)
    finally:
        os.close(handle)


class _Opened:
    """The files that processes of this machine have open, looked up once when first needed."""

    def __init__(self) -> None:
        self._known: set[tuple[int, int]] | None = None

    def holds(self, path: Path) -> bool:
        if self._known is None:
            self._known = set(_open_files())
        try:
            found = path.stat()
        except OSError:
            return False
        return (found.st_dev, found.st_ino) in self._known


def _open_files() -> Iterator[tuple[int, int]]:
    """Device and inode of every open file that this account may see, where /proc tells."""
    own = str(os.getpid())
    for process in Path("/proc").glob("[0-9]*"):
        if process.name == own:
            continue
        try:
            handles = list(os.scandir(process / "fd"))
        except OSError:
            continue
        for handle in handles:
            try:
                found = os.stat(handle.path)
            except OSError:
                continue
            yield found.st_dev, found.st_ino
