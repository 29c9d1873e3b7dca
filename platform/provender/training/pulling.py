"""Copying a version out of the store, as a plain TFDS folder."""

from __future__ import annotations

import tempfile
import threading
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager, nullcontext
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from provender.errors import ConflictError, DamageError, DiskFull
from provender.store import Store
from provender.store.files import locked
from provender.training.contents import MARKER, FileFacts, contents_of

if TYPE_CHECKING:
    from provender.catalog import Catalog, VersionRecord

Progress = Callable[[int, int], None]
"""Called with (bytes done, bytes in all), from one thread at a time."""

_CONFIG = ".config/metadata.json"
_OTHER_BYTES = "does not hold the bytes that were published"


@dataclass(frozen=True, slots=True)
class PullReport:
    """What a pull did.

    Attributes:
        files: files copied.
        bytes: bytes copied.
        skipped: files that were there already, and right.
        dest: the version's folder, absolute path or URL.
    """

    files: int
    bytes: int
    skipped: int
    dest: str

    def to_json(self) -> dict[str, Any]:
        """The report for ``--json``."""
        return asdict(self)


def pull(
    store: Store,
    version: VersionRecord,
    dest: str | Path,
    *,
    catalog: Catalog | None = None,
    verify: bool = True,
    workers: int = 8,
    progress: Progress | None = None,
) -> PullReport:
    """Copies a version to ``dest/<name>[/<config>]/<version>``, where TFDS finds it.

    Files that are there and right are not copied again, so an interrupted pull goes on. The marker
    ``dataset_info.json`` comes last: no reader takes an unfinished copy for a version. Two pulls
    of one version to one local folder take turns. With a catalog, the version is leased meanwhile.

    Args:
        store: where the version lies.
        version: the version.
        dest: local folder or store URL.
        catalog: says what the files should be; without it the version's own manifest does.
        verify: hash what is there and what was copied; otherwise sizes alone count.
        workers: files copied at once.
        progress: told the bytes that are in place.

    Raises:
        DamageError: a file of the source is missing or is not what was published.
        ConflictError: another dataset lies in that folder.
        DiskFull: there is no room for the files.
        StoreError: either side cannot be reached.
    """
    target = Store.open(str(dest))
    wanted = contents_of(store, version, catalog)
    reading = catalog.lease(version.id, "pull") if catalog is not None else nullcontext()
    with reading, _turn(target, folder_of(version)):
        return _Pull(store, target, version, wanted, verify, progress).run(workers)


def folder_of(version: VersionRecord) -> str:
    """The folder of a version below a TFDS data directory: ``name[/config]/version``."""
    return "/".join(each for each in (version.dataset, version.config, version.version) if each)


@contextmanager
def _turn(target: Store, folder: str) -> Iterator[None]:
    """Waits for other pulls to the same local folder, and clears what killed ones left there."""
    place = target.local(folder)
    if place is None:
        yield
        return
    with locked(str(place.parent / f".{place.name}.pull.lock")):
        for part in sorted(place.rglob(".*.part")):
            part.unlink()
        yield


class _Pull:
    """One pull."""

    def __init__(
        self,
        store: Store,
        target: Store,
        version: VersionRecord,
        wanted: Mapping[str, FileFacts],
        verify: bool,
        progress: Progress | None,
    ) -> None:
        self._store = store
        self._target = target
        self._version = version
        self._folder = folder_of(version)
        self._wanted = wanted
        self._verify = verify
        self._progress = progress
        self._total = sum(each.size for each in wanted.values())
        self._done = 0
        self._lock = threading.Lock()

    def run(self, workers: int) -> PullReport:
        self._refuse_other_content()
        with ThreadPoolExecutor(max(1, workers), thread_name_prefix="provender-pull") as pool:
            names = list(self._wanted)
            states = _all(pool, self._is_there, names)
            todo = [name for name, there in zip(names, states, strict=True) if not there]
            self._check_space(todo)
            rest = [name for name in todo if name != MARKER]
            if rest and MARKER not in todo:
                # Readers must not see the folder as a version while parts of it are wrong.
                self._target.remove(self._to(MARKER))
                todo.append(MARKER)
            # The largest first, so that no thread is left alone with a large one at the end.
            rest.sort(key=lambda name: -self._wanted[name].size)
            _all(pool, self._copy, rest)
        self._copy_default_config()
        if MARKER in todo:
            self._copy(MARKER)
        copied = sum(self._wanted[name].size for name in todo)
        kept = len(names) - len(todo)
        return PullReport(len(todo), copied, kept, self._target.path(self._folder))

    def _from(self, name: str) -> str:
        return f"{self._version.path}/{name}"

    def _to(self, name: str) -> str:
        return f"{self._folder}/{name}"

    def _tell(self, count: int) -> None:
        with self._lock:
            self._done += count
            if self._progress:
                self._progress(self._done, self._total)

    def _refuse_other_content(self) -> None:
        """A finished version with another marker is somebody's, and is not overwritten."""
        known = self._wanted.get(MARKER)
        if self._target.stat(self._to(MARKER)) is None or known is None or not known.sha256:
            return
        if self._target.digest(self._to(MARKER)).sha256 != known.sha256:
            raise ConflictError(
                f"Another version lies where {self._version.name} was to be copied.",
                where=self._target.path(self._folder),
                hint="Choose another folder, or remove that one.",
            )

    def _is_there(self, name: str) -> bool:
        facts, rel = self._wanted[name], self._to(name)
        found = self._target.stat(rel)
        if found is None or found.size != facts.size:
            return False
        if self._verify and facts.sha256 and self._target.digest(rel).sha256 != facts.sha256:
            return False
        self._tell(facts.size)
        return True

    def _check_space(self, names: list[str]) -> None:
        need, free = sum(self._wanted[name].size for name in names), self._target.free_bytes()
        if free is not None and free < need:
            raise DiskFull(
                f"{self._version.name} needs {need:,} bytes, {free:,} are free.",
                where=self._target.path(self._folder),
                hint="Free some space, or pull to another folder.",
                facts={"path": self._target.path(self._folder), "bytes": need, "free": free},
            )

    def _copy(self, name: str) -> None:
        facts, seen = self._wanted[name], 0
        expected = facts.sha256 if self._verify else None

        def moved(done: int, total: int) -> None:
            nonlocal seen
            self._tell(done - seen)
            seen = done

        try:
            transfer(self._store, self._from(name), self._target, self._to(name), moved, expected)
        except FileNotFoundError as error:
            raise self._damage(name, "is missing in the store") from error
        except DamageError as error:
            problem = _OTHER_BYTES if expected else error.message
            raise self._damage(name, problem) from error
        if seen != facts.size:
            self._tell(facts.size - seen)
        self._prove(name, facts)

    def _prove(self, name: str, facts: FileFacts) -> None:
        """Looks at the copy; a copy that is not what was published does not stay."""
        rel = self._to(name)
        found = self._target.stat(rel)
        size = found.size if found else 0
        if size != facts.size:
            problem = f"has {size:,} bytes, {facts.size:,} were published"
        elif self._target.is_local:
            return  # hashed on its way
        elif self._verify and facts.sha256 and self._target.digest(rel).sha256 != facts.sha256:
            problem = _OTHER_BYTES
        else:
            return
        self._target.remove(rel)
        raise self._damage(name, problem)

    def _damage(self, name: str, problem: str) -> DamageError:
        return DamageError(
            f"{name} of {self._version.name} {problem}.",
            where=self._store.path(self._from(name)),
            hint=f"`provender verify {self._version.name}` looks at all files, "
            f"`provender build {self._version.name}` mends them.",
            facts={"file": name},
        )

    def _copy_default_config(self) -> None:
        """The dataset's ``.config/metadata.json``, from which TFDS knows the default config."""
        if not self._version.config:
            return
        source = f"{self._version.path.rsplit('/', 2)[0]}/{_CONFIG}"
        target = f"{self._version.dataset}/{_CONFIG}"
        if self._store.stat(source) is not None and self._target.stat(target) is None:
            transfer(self._store, source, self._target, target)


def transfer(
    source: Store,
    rel: str,
    target: Store,
    to: str,
    progress: Progress | None = None,
    sha256: str | None = None,
) -> None:
    """Copies one file from one store to another; it appears whole.

    Args:
        source: where it is.
        rel: its path there.
        target: where it shall be.
        to: its path there.
        progress: called as bytes arrive.
        sha256: what must come out of the source; looked at where that costs no second read.

    Raises:
        FileNotFoundError: there is no such file.
        DamageError: the bytes are not those that were expected.
        DiskFull, StoreError: the target cannot be written.
    """
    here, there = source.local(rel), target.local(to)
    if there is not None:
        source.fetch(rel, there, progress, sha256=sha256)
    elif here is not None:
        target.put(here, to, progress)
    else:
        with tempfile.TemporaryDirectory(prefix="provender-pull-", dir=target.scratch) as place:
            source.fetch(rel, Path(place) / "file", sha256=sha256)
            target.put(Path(place) / "file", to, progress)


def _all(pool: ThreadPoolExecutor, act: Callable[[str], Any], names: list[str]) -> list[Any]:
    """``[act(name) for name in names]`` in threads; after the first error nothing is begun."""
    futures: list[Future[Any]] = [pool.submit(act, name) for name in names]
    try:
        return [future.result() for future in futures]
    finally:
        for future in futures:
            future.cancel()
