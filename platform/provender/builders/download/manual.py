"""Files that people fetch by hand: found, named when missing, identified by content."""

from __future__ import annotations

import hashlib
import inspect
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from provender.builders.download.checksums import Checksum
from provender.builders.download.digests import DigestMemory
from provender.errors import ChecksumMismatch, ManualFilesMissing
from provender.store.files import sha256_of

_MAGIC = frozenset("*?[")


@dataclass(frozen=True, slots=True)
class ManualFile:
    """A file in manual_dir.

    Attributes:
        name: path relative to manual_dir, with forward slashes.
        path: the file; a symbolic link is left as it is.
        size: bytes of the content, behind a link.
        token: changes when the file's content may have changed; free of machine-bound numbers
            only where ``sha256`` is given, which it then is.
        sha256: digest of the content, behind a link; None unless digests were asked for.
    """

    name: str
    path: Path
    size: int
    token: str
    sha256: str | None


def check_manual(
    manual_dir: Path | None,
    declared: Sequence[str] | Mapping[str, str | None] = (),
    *,
    dataset: str,
    instructions: str | None,
    digests: DigestMemory | None = None,
) -> tuple[ManualFile, ...]:
    """Checks that everything that must be fetched by hand is there, before any work.

    Args:
        manual_dir: the folder, or None where none was configured.
        declared: names or globs relative to it, optionally each with the SHA-256 its file must
            have. A name that exists literally is never read as a glob. Nothing declared means
            "any file".
        dataset: named in the messages.
        instructions: the builder's own words on how to get the files.
        digests: hash the contents, remembering them here.

    Returns:
        The files found, in order of their names: those declared, or all that are there.

    Raises:
        ManualFilesMissing: lists every missing name with its full path.
        ChecksumMismatch: a file is not the one declared.
    """
    wanted: Mapping[str, str | None]
    wanted = declared if isinstance(declared, Mapping) else dict.fromkeys(declared)
    found: dict[str, tuple[Path, str | None]] = {}
    missing: list[str] = []
    folder = manual_dir if manual_dir is not None and manual_dir.is_dir() else None
    for name, sha256 in wanted.items():
        there = list(matches(folder, name)) if folder else []
        found |= {
            match.relative_to(folder).as_posix(): (match, sha256) for match in there if folder
        }
        if not there:
            missing.append(name)
    if folder is not None and not wanted:
        found = {path.relative_to(folder).as_posix(): (path, None) for path in walk(folder)}
    if missing or not found:
        raise _missing(manual_dir, missing, dataset=dataset, instructions=instructions)
    files = tuple(
        _describe(name, path, digests, sha) for name, (path, sha) in sorted(found.items())
    )
    for file in files:
        _check(file, found[file.name][1], dataset)
    return files


def require_manual(
    manual_dir: Path | None,
    declared: Sequence[str] = (),
    *,
    dataset: str,
    instructions: str | None,
) -> Path:
    """As `check_manual`, but with nothing declared it looks for one file and no further.

    Returns:
        ``manual_dir``.
    """
    if declared:
        check_manual(manual_dir, declared, dataset=dataset, instructions=instructions)
    elif manual_dir is None or not manual_dir.is_dir() or next(walk(manual_dir), None) is None:
        raise _missing(manual_dir, (), dataset=dataset, instructions=instructions)
    assert manual_dir is not None
    return manual_dir


def matches(folder: Path, name: str) -> Iterator[Path]:
    """The files and folders that a declared name or glob means, of those that are there."""
    literal = folder / name
    if literal.exists():
        yield literal
    elif _MAGIC.intersection(name):
        yield from sorted(path for path in folder.glob(name) if path.exists())


def walk(folder: Path) -> Iterator[Path]:
    """All files below a folder, behind links too, each real folder once."""
    seen: set[tuple[int, int]] = set()
    for where, folders, names in os.walk(folder, followlinks=True):
        info = Path(where).stat()
        if (info.st_dev, info.st_ino) in seen:
            folders.clear()
            continue
        seen.add((info.st_dev, info.st_ino))
        yield from (path for name in names if (path := Path(where, name)).is_file())


def _describe(
    name: str, path: Path, digests: DigestMemory | None, declared_sha256: str | None
) -> ManualFile:
    if path.is_dir():
        return _describe_folder(name, path, digests)
    info = path.stat()
    known: Checksum | None = None
    if digests is not None or declared_sha256:
        known = digests.digest(path) if digests else Checksum(sha256_of(path), info.st_size)
    token = (
        f"sha256:{known.sha256}" if known else f"modified:{info.st_mtime_ns};size:{info.st_size}"
    )
    return ManualFile(name, path, info.st_size, token, known.sha256 if known else None)


def _describe_folder(name: str, path: Path, digests: DigestMemory | None) -> ManualFile:
    files = [
        _describe(file.relative_to(path).as_posix(), file, digests, None)
        for file in sorted(walk(path))
    ]
    listing = "".join(f"{file.name}\t{file.size}\t{file.token}\n" for file in files)
    digest = hashlib.sha256(os.fsencode(listing)).hexdigest()
    size = sum(file.size for file in files)
    return ManualFile(name, path, size, f"tree:{digest}", digest if digests else None)


def _check(file: ManualFile, sha256: str | None, dataset: str) -> None:
    if sha256 and file.sha256 != sha256.lower():
        raise ChecksumMismatch(
            f"The file {file.name} placed for {dataset} is not the one its builder declares.\n"
            f"  declared: sha256 {sha256.lower()}\n"
            f"  found:    {file.size:,} bytes, sha256 {file.sha256}",
            where=str(file.path),
            hint="Fetch the file again, or correct the builder's MANUAL_FILES.",
            facts={
                "registered": {"size": None, "sha256": sha256.lower()},
                "got": {"size": file.size, "sha256": file.sha256},
            },
        )


def _missing(
    manual_dir: Path | None, names: Sequence[str], *, dataset: str, instructions: str | None
) -> ManualFilesMissing:
    place = str(manual_dir) if manual_dir is not None else "manual_dir (not configured)"
    paths = [str(manual_dir / name) if manual_dir is not None else name for name in names]
    if paths:
        message = f"{dataset} needs files that must be fetched by hand:" + "".join(
            f"\n  {path}" for path in paths
        )
    elif manual_dir is not None and manual_dir.is_dir():
        message = f"{dataset} needs files that must be fetched by hand, and {place} is empty."
    else:
        message = f"{dataset} needs files that must be fetched by hand, and {place} does not exist."
    words = inspect.cleandoc(instructions or "")
    return ManualFilesMissing(
        message,
        where=place,
        hint=f"Place them there. {words}".strip(),
        facts={"manual_dir": str(manual_dir) if manual_dir else None, "missing": list(names)},
    )
