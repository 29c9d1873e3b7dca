"""Proving a version: every file is there and holds what was published, byte for byte."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from provender.errors import DamageError, StoreError
from provender.store import Digest, Identity, Store
from provender.training.contents import (
    MANIFEST,
    FileFacts,
    contents_of,
    index_name,
    read_manifest,
    shards_of,
)
from provender.upkeep.rereading import Reread, reread

if TYPE_CHECKING:
    from provender.catalog import Catalog, VersionRecord

Progress = Callable[[int, int], None]
"""Called with (bytes done, bytes in all), from one thread at a time."""

OK = "ok"
MISSING = "missing"
DAMAGED = "damaged"
CHANGED = "changed"
EXTRA = "extra"
UNREADABLE = "unreadable"

_WORKERS = 8


@dataclass(frozen=True, slots=True)
class FileCheck:
    """What was found of one file.

    Attributes:
        name: path within the version's folder.
        state: ``ok``; ``missing``; ``damaged``: not what was published; ``changed`` (quick checks
            only): right in size, but written anew since, so only its content can tell; ``extra``:
            not part of the version; ``unreadable``: the store could not deliver it.
        detail: what is wrong, for people; empty for ``ok``.
    """

    name: str
    state: str
    detail: str = ""


@dataclass(frozen=True, slots=True)
class VerifyReport:
    """How a version was found.

    Attributes:
        ok: every file of the version is right and nothing else is there.
        files: one check a file, those of the version in their order, extra ones last.
        bytes_read: bytes read to find out.
        version: name of the version.
        uri: where it lies.
        deep: whether content was read.
    """

    ok: bool
    files: list[FileCheck]
    bytes_read: int
    version: str
    uri: str
    deep: bool

    @property
    def problems(self) -> list[FileCheck]:
        """The checks that are not ``ok``."""
        return [each for each in self.files if each.state != OK]

    def to_json(self) -> dict[str, Any]:
        """The report for ``--json``."""
        return asdict(self)


def verify(
    catalog: Catalog,
    store: Store,
    version: VersionRecord,
    *,
    deep: bool = True,
    progress: Progress | None = None,
    workers: int = _WORKERS,
) -> VerifyReport:
    """Compares a version's files with what the catalog and the version's manifest say.

    Args:
        catalog: what was recorded when the version was published.
        store: where it lies.
        version: the version.
        deep: read and hash everything, check every record's checksums and the offset indexes;
            otherwise only look at sizes and identities.
        progress: told the bytes read.
        workers: files read at once.

    Raises:
        StoreError: the store cannot be listed.

    What a deep look finds damaged is noted in the catalog, so that the next build mends it even
    where the file's identity is what it was.
    """
    wanted = contents_of(store, version, catalog)
    there = {
        entry.rel[len(version.path) + 1 :]: entry.identity
        for entry in store.list(version.path, recursive=True)
    }
    checks = {name: _look(facts, there.get(name)) for name, facts in wanted.items()}
    read = 0
    if deep:
        readable = {n: f for n, f in wanted.items() if checks[n].state in (OK, CHANGED)}
        reader = _Reader(store, version, readable, progress)
        found = reader.run(workers)
        checks.update(found)
        _compare_records(store, version, wanted, checks)
        read = reader.done
        if rotten := [name for name, each in checks.items() if each.state == DAMAGED]:
            catalog.distrust(version.id, rotten)
    extra = [
        FileCheck(name, EXTRA, "not part of the version") for name in there if name not in wanted
    ]
    files = [*checks.values(), *extra]
    ok = all(each.state == OK for each in files)
    return VerifyReport(ok, files, read, version.name, version.uri, deep)


def _look(facts: FileFacts, found: Identity | None) -> FileCheck:
    """Judges a file by its stat alone."""
    if found is None:
        return FileCheck(facts.name, MISSING, "it is not in the store")
    if found.size != facts.size:
        return FileCheck(
            facts.name, DAMAGED, f"{found.size:,} bytes, {facts.size:,} were published"
        )
    if facts.token and found.token != facts.token:
        return FileCheck(facts.name, CHANGED, "written anew since it was recorded")
    return FileCheck(facts.name, OK)


class _Reader:
    """Reads files in threads and adds up what was read."""

    def __init__(
        self,
        store: Store,
        version: VersionRecord,
        files: Mapping[str, FileFacts],
        progress: Progress | None,
    ) -> None:
        self._store = store
        self._version = version
        self._files = files
        self._progress = progress
        self._total = sum(each.size for each in files.values())
        self._lock = threading.Lock()
        self.done = 0

    def run(self, workers: int) -> dict[str, FileCheck]:
        # The largest first, so that no thread is left alone with a large one at the end.
        names = sorted(self._files, key=lambda name: -self._files[name].size)
        with ThreadPoolExecutor(max(1, min(workers, len(names)))) as pool:
            return dict(zip(names, pool.map(self._check, names), strict=True))

    def _tell(self, count: int) -> None:
        with self._lock:
            self.done += count
            if self._progress:
                self._progress(self.done, self._total)

    def _check(self, name: str) -> FileCheck:
        facts, index = self._files[name], index_name(name)
        try:
            found = reread(
                self._store,
                f"{self._version.path}/{name}",
                records=facts.split is not None,
                index=f"{self._version.path}/{index}" if index in self._files else None,
                tell=self._tell,
            )
        except FileNotFoundError:
            return FileCheck(name, MISSING, "it vanished while it was verified")
        except StoreError as error:
            return FileCheck(name, UNREADABLE, error.message)
        problems = _problems(facts, found)
        return FileCheck(name, DAMAGED if problems else OK, "; ".join(problems))


def _problems(facts: FileFacts, found: Reread) -> list[str]:
    wanted = Digest(facts.size, facts.sha256 or "", facts.crc32c or "")
    problems = []
    if found.digest.size != wanted.size:
        problems.append(f"{found.digest.size:,} bytes, {wanted.size:,} were published")
    if wanted.sha256 and found.digest.sha256 != wanted.sha256:
        problems.append(f"sha256 {found.digest.sha256[:16]}…, {wanted.sha256[:16]}… was published")
    if wanted.crc32c and found.digest.crc32c != wanted.crc32c:
        problems.append(f"crc32c {found.digest.crc32c}, {wanted.crc32c} was published")
    if found.damage:
        problems.append(found.damage)
    elif facts.examples is not None and found.records != facts.examples:
        problems.append(f"{found.records:,} records, {facts.examples:,} were published")
    return problems


def _compare_records(
    store: Store,
    version: VersionRecord,
    wanted: Mapping[str, FileFacts],
    checks: dict[str, FileCheck],
) -> None:
    """Adds where the manifest and the catalog disagree about a file, in place."""
    if MANIFEST not in wanted or checks[MANIFEST].state != OK:
        return
    try:
        manifest = read_manifest(store, version)
    except DamageError as error:
        checks[MANIFEST] = FileCheck(MANIFEST, DAMAGED, error.message)
        return
    said: dict[str, str] = {n: each.sha256 or "" for n, each in shards_of(manifest).items()}
    said.update(manifest["metadata"])
    for shards in manifest["splits"].values():
        said.update({index_name(each["name"]): each["index_sha256"] for each in shards})
    for name in sorted(wanted.keys() | said.keys()):
        if name == MANIFEST:
            continue
        facts, digest = wanted.get(name), said.get(name)
        if facts is None or digest is None:
            lacking = "catalog" if facts is None else "manifest"
            _blame(checks, name, f"the {lacking} does not know it")
        elif facts.sha256 and facts.sha256 != digest:
            _blame(checks, name, "the catalog and the manifest name different sha256")


def _blame(checks: dict[str, FileCheck], name: str, detail: str) -> None:
    known = checks.get(name)
    if known is not None and known.detail:
        detail = f"{known.detail}; {detail}"
    state = known.state if known is not None and known.state == MISSING else DAMAGED
    checks[name] = FileCheck(name, state, detail)
