"""`TransformCache`: a cache folder, and what can be asked of it.

    entries/ab/<fingerprint>/   segments, manifest.json, why.json, proven.json
    locks/                      who computes what, now
    pins/                       who uses what, now
    history/                    what was computed before, to explain changes
    lineage/                    records that the catalog has not taken yet
    trash/                      what is being removed

Nothing inside names a path, so that the folder, or any entry in it, can be moved and copied.
"""

# ruff: noqa: PTH208

from __future__ import annotations

import logging
import os
import re
import secrets
import shutil
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from provender.data.cache import switch
from provender.data.cache.entry import Entry
from provender.data.cache.files import read_json, remove, write_json
from provender.data.cache.history import History, Past
from provender.data.cache.layout import Segment
from provender.data.cache.lineage import Outbox
from provender.data.cache.locking import EntryLock, Pins, pinned
from provender.data.cache.manifest import DAMAGE, MANIFEST, WHY, Manifest
from provender.data.cache.proof import damaged
from provender.data.cache.recipe import Recipe
from provender.data.cache.segments import CUT_SECONDS
from provender.data.cache.work import Work, damage_of
from provender.errors import ProvenderError, SettingsError

if TYPE_CHECKING:
    from provender.settings import Settings

_log = logging.getLogger("provender.data")
_FINGERPRINT = re.compile(r"[0-9a-f]{16,64}")
_USED_SECONDS = 60.0
_TRIES = 3
_open: dict[tuple[Any, ...], TransformCache] = {}
_known_settings: dict[tuple[str | None, ...], Settings] = {}
_guard = threading.Lock()


def _after_fork() -> None:
    global _guard
    _guard = threading.Lock()  # another thread may have held it


os.register_at_fork(after_in_child=_after_fork)


class TransformCache:
    """Results of transforms, by fingerprint.

    Safe to use from several threads and processes at once, forked ones included.

    Args:
        folder: where they lie; made by the first write.
        limit: bytes that it may hold; None for no limit.
        catalog: URL of the catalog that computed transforms are recorded in, or None.
        volatile: nothing is ever found again; see `temporary`.
        cut_seconds: a piece is committed once it took so long.
        outbox: where records wait for the catalog; a folder of the cache by default.
    """

    def __init__(
        self,
        folder: str | os.PathLike[str],
        *,
        limit: int | None = None,
        catalog: str | None = None,
        volatile: bool = False,
        cut_seconds: float = CUT_SECONDS,
        outbox: str | None = None,
    ) -> None:
        self.root = os.path.abspath(folder)
        self.limit = limit
        self.volatile = volatile
        self.cut_seconds = cut_seconds
        self._pins = Pins(os.path.join(self.root, "pins"))
        self._history = History(os.path.join(self.root, "history"))
        self._outbox = Outbox(outbox or os.path.join(self.root, "lineage"), catalog)

    @classmethod
    def current(cls, folder: str | None = None) -> TransformCache:
        """The cache that the settings name; a temporary one while caching is disabled.

        Args:
            folder: a folder to use instead of that of the settings, of which all else holds.

        Raises:
            SettingsError: the settings make no sense.
        """
        if not switch.is_caching_enabled():
            return cls.temporary()
        settings = _settings()
        how = {"limit": settings.cache_limit, "catalog": settings.catalog}
        with _guard:
            return cls._shared(folder or str(settings.cache), **how)

    @classmethod
    def temporary(cls) -> TransformCache:
        """A cache that finds nothing and is removed at the end of the process.

        For results that have no lasting fingerprint, and for all while caching is disabled.
        """
        settings = _settings()
        outbox = os.path.join(settings.cache, "lineage")
        with _guard:
            folder = switch.temporary_folder()
            return cls._shared(folder, volatile=True, catalog=settings.catalog, outbox=outbox)

    @classmethod
    def at(cls, folder: str) -> TransformCache:
        """The cache in a folder, for reading entries that another process named."""
        with _guard:
            return cls._shared(folder)

    @classmethod
    def _shared(cls, folder: str, **how: Any) -> TransformCache:
        """One object a folder and way of use, so that all uses share one file of pins."""
        key = (cls, os.path.abspath(folder), *sorted(how.items()))
        if key not in _open:
            _open[key] = cls(folder, **how)
        return _open[key]

    def find(self, fingerprint: str) -> Entry | None:
        """The result of a fingerprint, proven whole.

        Each file's size and identity are compared, and its content wherever the file changed
        since it was last proven (always for small results). Damaged pieces are removed: what
        `writing` then computes is those pieces alone.

        Args:
            fingerprint: 16 to 64 hexadecimal characters.

        Returns:
            The entry, or None: never computed, not finished, evicted, or damaged.
        """
        if self.volatile:
            return None
        return self._find(fingerprint, holding=False)

    def reopen(self, folder: str, fingerprint: str) -> Entry | None:
        """The entry in a folder that another process named; None where it is not whole."""
        manifest = Manifest.read(folder, fingerprint)
        if manifest is None or damaged(folder, manifest.segments):
            return None
        return Entry(folder, manifest, self._pins.pin(os.path.basename(folder)))

    @contextmanager
    def writing(
        self,
        fingerprint: str,
        recipe: Recipe,
        *,
        fresh: bool = False,
        on_wait: Callable[[str], None] | None = None,
        not_kept: str = "caching is off",
    ) -> Iterator[Work]:
        """Computes a result: one thread of one process at a time, all others wait.

        When the one that computes dies, a waiter goes on from its finished pieces.

        Args:
            fingerprint: as for `find`.
            recipe: what the result is made from.
            fresh: compute it although it is there.
            on_wait: called once with who is waited for.
            not_kept: why a `temporary` cache is written to, for people.

        Yields:
            The work; if its ``entry`` is there, somebody finished it meanwhile.

        Raises:
            StoreError: the folder cannot be written.
        """
        lock = None if self.volatile else EntryLock(self.lock_path(fingerprint))
        waited = lock.acquire(on_wait or _tell_wait(recipe)) if lock else False
        work: Work | None = None
        ended = False
        try:
            work = self._work(fingerprint, recipe, fresh, waited, not_kept)
            yield work
            ended = work.committed
        except Exception as err:
            if work is not None and work.entry is None:
                ended = not work.given_up
                if ended:
                    self._post(work.record("failed", error=err))
                if self.volatile:
                    shutil.rmtree(work.folder, ignore_errors=True)
            raise
        finally:
            if lock:
                lock.release()
            if ended and work is not None:
                self._outbox.send()
                self._look_after(work)

    def _work(
        self, fingerprint: str, recipe: Recipe, fresh: bool, waited: bool, not_kept: str
    ) -> Work:
        if self.volatile:
            work = Work(self, fingerprint, recipe, self.entry_folder(secrets.token_hex(20)))
            work.begin([{"kind": "not kept", "why": not_kept}], fresh=True)
            return work
        folder = self.entry_folder(fingerprint)
        entry = None if fresh else self._find(fingerprint, holding=True)
        work = Work(self, fingerprint, recipe, folder, entry=entry, waited=waited)
        if entry is None:
            work.begin(_noted(folder, fresh), fresh=fresh)
        return work

    def _post(self, record: Mapping[str, Any]) -> None:
        """Lays down a record that must not get in the way of an error or of a result."""
        try:
            self._outbox.put(record)
        except ProvenderError as err:
            _log.warning("Lineage could not be recorded: %s", err.message)

    def shrink(self, limit: int | None = None) -> list[str]:
        """Evicts the least recently used entries until the cache is within its limit.

        Entries that a live process uses or writes stay, whatever the limit.

        Args:
            limit: bytes; the cache's own limit by default.

        Returns:
            Fingerprints of what was evicted.
        """
        from provender.data.cache.upkeep import keep_within

        limit = self.limit if limit is None else limit
        return [] if limit is None or self.volatile else keep_within(self, limit)

    def _look_after(self, work: Work) -> None:
        from provender.data.cache.upkeep import keep_within, weigh

        if self.limit is not None and not self.volatile:
            keep_within(self, self.limit, added=weigh(work.folder).bytes)

    def send_lineage(self) -> int:
        """Sends what the catalog has not taken yet; returns how much is still left."""
        return self._outbox.send()

    def unsent(self) -> int:
        """Number of records that wait for the catalog."""
        return len(self._outbox.waiting())

    def in_use(self) -> frozenset[str]:
        """Fingerprints of the entries that live processes use."""
        return pinned(os.path.join(self.root, "pins"))

    def past(self, recipe: Recipe) -> list[Past]:
        """Earlier results of the same dataset and transform name, newest first."""
        return self._history.of(recipe)

    def _find(self, fingerprint: str, *, holding: bool) -> Entry | None:
        folder = self.entry_folder(fingerprint)
        for _ in range(_TRIES):
            if not os.path.exists(os.path.join(folder, MANIFEST)):
                return None
            # Pinned before it is read: whoever evicts looks again after moving an entry away.
            unpin = self._pins.pin(fingerprint)
            entry = None
            try:
                manifest = Manifest.read(folder, fingerprint)
                bad = [] if manifest is None else damaged(folder, manifest.segments)
                if manifest is not None and not bad:
                    _touch(folder)
                    entry = Entry(folder, manifest, unpin)
                    return entry
            finally:
                if entry is None:
                    unpin()
            if not self.drop(folder, fingerprint, manifest, bad, holding=holding):
                return None
        return None

    def drop(
        self,
        folder: str,
        fingerprint: str,
        manifest: Manifest | None,
        bad: Sequence[Segment],
        *,
        holding: bool,
        quiet: bool = False,
    ) -> bool:
        """Removes what is damaged.

        Args:
            folder: the entry's folder.
            fingerprint: its fingerprint.
            manifest: its manifest as it was read, None where that is what is damaged.
            bad: the damaged pieces.
            holding: whether the caller has the entry's lock.
            quiet: say nothing.

        Returns:
            True where another process changed the entry meanwhile: look again.
        """
        lock = EntryLock(self.lock_path(fingerprint))
        try:
            if not holding and not lock.try_acquire():
                return False  # somebody is at work on it
        except ProvenderError:
            _log.warning("%s is damaged and cannot be mended: %s is read-only.", folder, self.root)
            return False
        try:
            now = Manifest.read(folder, fingerprint)
            if now != manifest:
                return True
            what = [damage_of(each) for each in bad] or [
                {"kind": "missing", "what": "its manifest"}
            ]
            if not quiet:
                shown = "; ".join(str(each["what"]) for each in what)
                _log.warning("%s: %s is not what was written and is dropped.", folder, shown)
            try:
                write_json(os.path.join(folder, DAMAGE), {"reasons": what})
            except ProvenderError:
                pass  # a full disk: the pieces go all the same, only the reason is lost
            remove(os.path.join(folder, MANIFEST))
            for each in bad:
                remove(os.path.join(folder, each.file))
        finally:
            lock.release()
        return False

    def complete(self, work: Work, manifest: Manifest) -> Entry:
        record = work.record("succeeded", manifest=manifest)
        # Before the manifest: a result that is there has its record, whenever we die.
        laid = None if self.volatile else self._outbox.put(record)
        unpin = self._pins.pin(os.path.basename(work.folder))
        try:
            manifest.write(work.folder)
        except BaseException:
            unpin()
            if laid:
                remove(laid)
            raise
        if self.volatile:
            self._post(record)
        else:
            self._history.add(work.fingerprint, work.recipe, work.tree, manifest.created)
        return Entry(work.folder, manifest, unpin)

    def clear(self, folder: str) -> None:
        """Removes a result that is to be computed anew."""
        remove(os.path.join(folder, MANIFEST))
        for name in os.listdir(folder):
            if Segment.from_file(name) is not None:
                remove(os.path.join(folder, name))
        remove(os.path.join(folder, WHY))

    def entry_folder(self, fingerprint: str) -> str:
        """Where the entry of a fingerprint lies, or would lie.

        Raises:
            SettingsError: that cannot be a fingerprint.
        """
        if not _FINGERPRINT.fullmatch(fingerprint):
            raise SettingsError(
                f"{fingerprint!r} cannot be a fingerprint.",
                where="fingerprint",
                hint="Give 16 to 64 hexadecimal characters, as Hasher.hash does.",
            )
        return os.path.join(self.root, "entries", fingerprint[:2], fingerprint)

    def lock_path(self, name: str) -> str:
        """The lock file of an entry, by its fingerprint, or of another part of the cache."""
        return os.path.join(self.root, "locks", name)

    @property
    def folder(self) -> Path:
        """Where it lies."""
        return Path(self.root)

    def __repr__(self) -> str:
        return f"TransformCache({self.root!r})"


def _settings() -> Settings:
    """The settings; read again only where what they depend on in this process changed."""
    from provender.settings import load_settings, surroundings

    key = surroundings()
    if key not in _known_settings:
        _known_settings[key] = load_settings()
    return _known_settings[key]


def _noted(folder: str, fresh: bool) -> list[Mapping[str, Any]]:
    if fresh:
        return [{"kind": "forced"}]
    doc = read_json(os.path.join(folder, DAMAGE)) or {}
    found = doc.get("reasons", [])
    return list(found) if isinstance(found, list) else []


def _touch(folder: str) -> None:
    """Notes the use, at most once a minute; a read-only cache has no need of it."""
    path = os.path.join(folder, MANIFEST)
    try:
        if time.time() - os.stat(path).st_mtime > _USED_SECONDS:
            os.utime(path)
    except OSError:
        pass


def _tell_wait(recipe: Recipe) -> Callable[[str], None]:
    def tell(holder: str) -> None:
        _log.info("%s is being computed by %s; waiting for it.", recipe.title, holder)

    return tell
