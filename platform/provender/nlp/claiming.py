"""Hidden folders beside the files that they become, which one process at a time works in."""

from __future__ import annotations

import contextlib
import fcntl
import glob
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from provender.errors import StoreError
from provender.records.atomic import told_as_ours


@contextmanager
def claimed(folder: Path) -> Iterator[None]:
    """Holds a work folder against other processes; the system lets go of it when this one dies.

    Raises:
        StoreError: another process holds it.
    """
    with told_as_ours(folder), (folder / "lock").open("wb") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise StoreError(
                "Another process is making the same files.",
                where=str(folder),
                hint="Wait for it, or stop it; then this command goes on from what it finished.",
            ) from error
        yield


def folder_beside(target: Path, digest: str) -> Path:
    """The work folder of a file, of a name for what it is made of."""
    return target.with_name(f".{target.name}.{digest}.work")


@contextmanager
def work_beside(target: Path, digest: str) -> Iterator[Path]:
    """A claimed work folder for what goes on from nothing; it is gone afterwards.

    What killed processes left for the file goes, too.

    Args:
        target: the file.
        digest: names what it is made of.

    Raises:
        StoreError: the folder cannot be made, or another process holds it.
    """
    folder = folder_beside(target, digest)
    with told_as_ours(folder):
        folder.mkdir(parents=True, exist_ok=True)
    with claimed(folder):
        try:
            yield folder
        finally:
            shutil.rmtree(folder, ignore_errors=True)
    sweep(target)


def sweep(target: Path, also: Callable[[Path, str], None] | None = None) -> None:
    """Removes work folders of a file that nobody holds: of calls that were never finished.

    Args:
        target: the file.
        also: is told of each such folder and its digest, before it goes.
    """
    for folder in target.parent.glob(f".{glob.escape(target.name)}.*.work"):
        with contextlib.suppress(StoreError), claimed(folder):
            if also is not None:
                also(folder, folder.name.removesuffix(".work").rpartition(".")[2])
            shutil.rmtree(folder, ignore_errors=True)
