"""Backup and restore of a catalog, while others work with it.

A copy is what the database makes of it: a SQLite file, or an archive of PostgreSQL's ``pg_dump``. It
is as of one moment. It is restored only where there is no catalog yet, so nothing can be lost by it.
"""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Literal

from sqlalchemy.engine import URL
from sqlalchemy.exc import ArgumentError

from provender.catalog import db
from provender.catalog.engine import BUSY_SECONDS, masked, parse_url
from provender.catalog.revisions import MENDED_BY, age
from provender.errors import CatalogError, InputError, MissingPath, SettingsError
from provender.own_sqlite import sqlite3

Kind = Literal["sqlite", "postgresql"]

# The first bytes of each kind of file: https://www.sqlite.org/fileformat.html#the_database_header,
# and the magic word of pg_dump's custom format.
_MAGIC: dict[bytes, Kind] = {b"SQLite format 3\x00": "sqlite", b"PGDMP": "postgresql"}
_MOST_MAGIC = max(map(len, _MAGIC))
_SERVICE = "provender"
_REVISION = re.compile(r"^COPY \S*alembic_version .*\n(\w+)$", re.MULTILINE)
_HINTS = {
    "server version mismatch": "Use the PostgreSQL programs of the server's version or a newer one: "
    "put their folder first in PATH.",
    "unsupported version": "The file was written by a newer pg_dump: use a pg_restore as new as that.",
}


def backup(url: str | Path, target: Path) -> str:
    """Writes a copy of a catalog into a file that only its owner can read.

    Others may read and write meanwhile; the copy has what was committed when it began.

    Args:
        url: the catalog.
        target: the file; it must not be there yet, and appears only when it is whole.

    Returns:
        The revision of the copy.

    Raises:
        SettingsError: the file is there.
        CatalogError: there is no catalog, or it cannot be read, or the file cannot be written.
    """
    parsed = parse_url(url)
    if target.exists():
        hint = "Give another name: a backup is never overwritten."
        raise SettingsError("The file is there already.", where=str(target), hint=hint)
    if parsed.get_backend_name() == "sqlite" and not Path(str(parsed.database)).is_file():
        raise CatalogError("There is no catalog to copy.", where=str(parsed.database))
    revision = db.current_revision(url)
    if revision is None:
        raise CatalogError("The catalog is empty.", where=masked(parsed))
    with _appearing(target) as part:
        if parsed.get_backend_name() == "sqlite":
            _copy_sqlite(Path(str(parsed.database)), part)
        else:
            _run(parsed, "pg_dump", "--format=custom", *_PLAIN, f"--file={part}")
    return revision


def restore(url: str | Path, source: Path) -> str:
    """Makes a catalog from a copy, where there is none yet.

    Args:
        url: where the catalog is to be: a SQLite file that does not exist, or an empty database.
        source: what `backup` wrote.

    Returns:
        The revision it has. An older one is brought up to date as any older catalog is.

    Raises:
        MissingPath: there is no such file.
        InputError: the file is no copy of a catalog, or of one in another kind of database.
        CatalogError: something is there already, the copy is newer than this code, or the database
            refuses.
    """
    parsed = parse_url(url)
    kind = _kind(source)
    if kind != parsed.get_backend_name():
        raise InputError(
            f"This is a copy of a catalog in {kind}, and {masked(parsed)} is none.",
            where=str(source),
            hint="Restore it into the kind of database that it was made from.",
        )
    revision = _sqlite_revision(source) if kind == "sqlite" else _dumped_revision(parsed, source)
    if revision is None:
        raise InputError("The file holds no catalog.", where=str(source))
    if age(revision) == "newer":
        message = f"The copy has revision {revision}, which this code does not know."
        raise CatalogError(message, where=str(source), hint=MENDED_BY["newer"])
    if kind == "sqlite":
        _restore_sqlite(source, Path(str(parsed.database)))
    else:
        if not db.is_empty(url):
            raise CatalogError(
                "There are tables in this database already.",
                where=masked(parsed),
                hint="Make an empty one (createdb), restore into it with --catalog, then let "
                "`catalog` of provender.toml name it.",
            )
        options = ("--exit-on-error", "--single-transaction", *_PLAIN)
        _run(parsed, "pg_restore", *options, str(source))
    return revision


_PLAIN = ("--no-owner", "--no-privileges", f"--dbname=service={_SERVICE}")


def _kind(source: Path) -> Kind:
    try:
        with source.open("rb") as file:
            begin = file.read(_MOST_MAGIC)
    except FileNotFoundError:
        raise MissingPath("There is no such file.", where=str(source)) from None
    except OSError as error:
        message = f"The file cannot be read: {error.strerror or error}."
        raise InputError(message, where=str(source)) from error
    for magic, kind in _MAGIC.items():
        if begin.startswith(magic):
            return kind
    hint = "`provender db backup FILE` writes one."
    raise InputError("The file is no copy of a catalog.", where=str(source), hint=hint)


@contextlib.contextmanager
def _appearing(target: Path) -> Iterator[Path]:
    """A file beside the target, of this owner alone, that gets its name when all went well."""
    part = target.with_name(f".{target.name}.{os.getpid()}.part")
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        os.close(os.open(part, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
        yield part
        _to_disk(part)
        part.replace(target)
        _to_disk(target.parent)
    except OSError as error:
        message = f"The file cannot be written: {error.strerror or error}."
        raise CatalogError(message, where=str(target)) from error
    finally:
        part.unlink(missing_ok=True)


def _to_disk(path: Path) -> None:
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


# SQLite -----------------------------------------------------------------------------------------


def _copy_sqlite(source: Path, target: Path) -> None:
    """Copies by SQLite's backup interface, in one step: in WAL mode no writer waits for it."""
    try:
        with (
            contextlib.closing(_open(source, "rw")) as old,
            contextlib.closing(_open(target, "rw")) as new,
        ):
            old.backup(new)
            # One file, without a log beside it.
            new.execute("PRAGMA journal_mode=DELETE")
            (found,) = new.execute("PRAGMA quick_check(1)").fetchone()
    except sqlite3.Error as error:
        raise CatalogError(f"The copy failed: {error}.", where=str(source)) from error
    if found != "ok":
        hint = "Restore an older backup; `PRAGMA integrity_check` of sqlite3 lists all of it."
        raise CatalogError(f"The catalog is damaged: {found}.", where=str(source), hint=hint)


def _open(path: Path, mode: str) -> sqlite3.Connection:
    return sqlite3.connect(
        f"{path.absolute().as_uri()}?mode={mode}", uri=True, timeout=BUSY_SECONDS
    )


def _sqlite_revision(source: Path) -> str | None:
    try:
        with contextlib.closing(_open(source, "ro")) as found:
            row = found.execute("SELECT version_num FROM alembic_version").fetchone()
    except sqlite3.Error as error:
        raise InputError(f"The file cannot be used: {error}.", where=str(source)) from error
    return None if row is None else str(row[0])


def _restore_sqlite(source: Path, target: Path) -> None:
    # A log that was left beside a removed catalog would be applied to the new one.
    for each in (target, *(target.with_name(target.name + end) for end in ("-wal", "-journal"))):
        if each.exists():
            raise CatalogError(
                "There is something already.",
                where=str(each),
                hint="Stop what uses it, and move it away with its -wal and -shm files.",
            )
    with _appearing(target) as part:
        _copy_sqlite(source, part)


# PostgreSQL -------------------------------------------------------------------------------------


def _dumped_revision(url: URL, source: Path) -> str | None:
    said = _run(
        None, "pg_restore", "--data-only", "--table=alembic_version", "--file=-", str(source)
    )
    found = _REVISION.search(said)
    return found[1] if found else None


def _run(url: URL | None, program: str, *arguments: str) -> str:
    """Runs a program of PostgreSQL; the address goes to it by a file, as it may hold a password."""
    path = shutil.which(program)
    if path is None:
        raise CatalogError(
            f"{program} is not installed.",
            where=program,
            hint="apt-get install postgresql-client, of the server's version or newer.",
        )
    with tempfile.TemporaryDirectory(prefix="provender-") as folder:
        environment = {**os.environ, "LC_ALL": "C"}
        if url is not None:
            environment["PGSERVICEFILE"] = _service_file(url, Path(folder))
        done = subprocess.run(
            [path, *arguments], env=environment, capture_output=True, text=True, check=False
        )
    if done.returncode:
        lines = done.stderr.strip().splitlines() or [f"exit code {done.returncode}"]
        said = next((line for line in lines if "error" in line), lines[0])
        said = said.removeprefix(f"{program}: ").removeprefix("error: ")
        hint = next((each for words, each in _HINTS.items() if words in done.stderr), None)
        place = masked(url) if url is not None else arguments[-1]
        raise CatalogError(f"{program} failed: {said}", where=place, hint=hint)
    return done.stdout


def _service_file(url: URL, folder: Path) -> str:
    """libpq's connection service file: https://www.postgresql.org/docs/current/libpq-pgservice.html."""
    try:
        _, options = url.get_dialect()().create_connect_args(url)
    except ArgumentError as error:
        raise CatalogError("The catalog's URL cannot be used.", where=masked(url)) from error
    file = folder / "service.conf"
    lines = [f"{name}={value}" for name, value in options.items() if value is not None]
    with os.fdopen(os.open(file, os.O_CREAT | os.O_WRONLY | os.O_EXCL, 0o600), "w") as opened:
        opened.write("\n".join([f"[{_SERVICE}]", *lines, ""]))
    return str(file)
