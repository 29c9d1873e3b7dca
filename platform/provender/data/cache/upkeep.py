"""What lies in a cache folder: listing, removing, verifying, and keeping to the limit."""

# ruff: noqa: PTH104, PTH208

from __future__ import annotations

import contextlib
import difflib
import logging
import os
import secrets
import shutil
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from provender.data.cache.files import read_json, remove, write_json
from provender.data.cache.layout import Segment
from provender.data.cache.locking import (
    EntryLock,
    drop_dead_locks,
    is_writer_alive,
    locked,
)
from provender.data.cache.manifest import MANIFEST, Manifest, Why
from provender.data.cache.proof import damaged
from provender.data.cache.recipe import Recipe
from provender.data.cache.segments import TEMP
from provender.data.cache.work import is_abandoned
from provender.errors import ProvenderError, UnknownReference

if TYPE_CHECKING:
    from provender.data.cache.folder import TransformCache

_log = logging.getLogger("provender.data")
_USAGE = "usage.json"
_COUNTED_SECONDS = 3600.0
# So few entries are counted each time; that costs less than to be wrong.
_ALWAYS_COUNT = 64
_EMPTY_SECONDS = 86400.0
_told_full: set[str] = set()


@dataclass(frozen=True, slots=True)
class Listed:
    """One entry as a listing shows it.

    Attributes:
        fingerprint: its fingerprint.
        folder: where it lies.
        bytes: size of all its files.
        used: when it was last used, seconds since the epoch.
        created: when it was completed, or None.
        rows: rows, or None while it is not complete.
        recipe: what it is made from, or None where that is not readable.
        state: ``ready``, ``in use`` (by a live process), ``writing`` or ``unfinished``.
    """

    fingerprint: str
    folder: str
    bytes: int
    used: float
    created: float | None
    rows: int | None
    recipe: Recipe | None
    state: str


@dataclass(frozen=True, slots=True)
class Verified:
    """What a re-reading of one entry found.

    Attributes:
        fingerprint: its fingerprint.
        state: ``ok``, ``damaged``, ``dropped`` (damaged, and the damaged pieces removed) or
            ``unfinished``.
        pieces: number of pieces.
        bytes: bytes read.
        damaged: files that are not what was written.
    """

    fingerprint: str
    state: str
    pieces: int
    bytes: int
    damaged: tuple[str, ...]


def listed(cache: TransformCache) -> list[Listed]:
    """All entries, most recently used first."""
    in_use = cache.in_use()
    found = [_listed(cache, folder, in_use) for folder in _folders(cache.root)]
    return sorted(found, key=lambda each: (each.used, each.fingerprint), reverse=True)


def named(cache: TransformCache, text: str) -> str:
    """The fingerprint of the entry that a fingerprint, or the first digits of one, means.

    Raises:
        UnknownReference: there is none, or several begin so.
    """
    text = text.lower()
    known = sorted(os.path.basename(folder) for folder in _folders(cache.root))
    found = [each for each in known if each.startswith(text)] if text else []
    if len(found) == 1:
        return found[0]
    if found:
        message = f"{len(found)} entries begin with {text!r}."
        hint = f"Give more digits: {', '.join(each[:16] for each in found[:5])}"
        raise UnknownReference(message, where=text, hint=hint)
    near = difflib.get_close_matches(text, [each[: len(text)] for each in known], 1)
    raise UnknownReference(
        f"The transform cache has no entry {text!r}.",
        where=cache.root,
        hint=f"Did you mean {near[0]}?" if near else "List them: provender cache ls",
    )


def _listed(cache: TransformCache, folder: str, in_use: frozenset[str]) -> Listed:
    fingerprint = os.path.basename(folder)
    weight = weigh(folder)
    manifest = Manifest.read(folder, fingerprint)
    if is_writer_alive(cache.lock_path(fingerprint)):
        state = "writing"
    elif manifest is None:
        state = "unfinished"
    else:
        state = "in use" if fingerprint in in_use else "ready"
    return Listed(
        fingerprint=fingerprint,
        folder=folder,
        bytes=weight.bytes,
        used=weight.used,
        created=manifest.created if manifest else None,
        rows=manifest.rows if manifest else None,
        recipe=manifest.recipe if manifest else (Why.read(folder) or Why()).recipe,
        state=state,
    )


def verify(cache: TransformCache, fingerprint: str, *, fix: bool = False) -> Verified:
    """Reads every byte of an entry and compares it with what was written.

    Args:
        cache: the cache.
        fingerprint: of the entry.
        fix: remove the damaged pieces, so that they alone are computed again.
    """
    folder = cache.entry_folder(fingerprint)
    manifest = Manifest.read(folder, fingerprint)
    if manifest is None:
        kept = [each for each in map(Segment.from_file, _names(folder)) if each]
        complete = os.path.exists(os.path.join(folder, MANIFEST))
        bad = damaged(folder, kept, thorough=True)
        names = ([MANIFEST] if complete else []) + [each.file for each in bad]
        state = "damaged" if names else "unfinished"
        pieces = kept
    else:
        pieces = list(manifest.segments)
        bad = damaged(folder, pieces, thorough=True)
        names = [each.file for each in bad]
        state = "damaged" if bad else "ok"
    if names and fix:
        again = cache.drop(folder, fingerprint, manifest, bad, holding=False, quiet=True)
        state = "damaged" if again or _lies_there(folder, names) else "dropped"
    size = sum(each.size for each in pieces)
    return Verified(fingerprint, state, len(pieces), size, tuple(names))


def _lies_there(folder: str, names: list[str]) -> bool:
    return any(os.path.exists(os.path.join(folder, each)) for each in names)


@dataclass(frozen=True, slots=True)
class Weight:
    """What an entry's folder holds.

    Attributes:
        bytes: size of all its files.
        used: the manifest's modification time, else the newest of all.
        empty: whether nothing in it is finished.
        temps: files that are being written, or were when their writer died.
    """

    bytes: int
    used: float
    empty: bool
    temps: tuple[str, ...]


def weigh(folder: str) -> Weight:
    """What lies in an entry's folder."""
    size = 0
    times: dict[str, float] = {}
    with contextlib.suppress(OSError), os.scandir(folder) as items:
        for item in items:
            with contextlib.suppress(OSError):
                about = item.stat(follow_symlinks=False)
                size += about.st_size
                times[item.name] = about.st_mtime
    temps = tuple(os.path.join(folder, name) for name in times if name.startswith(TEMP))
    empty = not any(name == MANIFEST or Segment.from_file(name) for name in times)
    used = times.get(MANIFEST, max(times.values(), default=0.0))
    return Weight(size, used, empty, temps)


def keep_within(cache: TransformCache, limit: int, added: int | None = None) -> list[str]:
    """Evicts the least recently used entries until all others fit.

    Args:
        cache: the cache.
        limit: bytes.
        added: bytes that came since it was last asked; None counts everything.

    Returns:
        Fingerprints of what was evicted.
    """
    path = os.path.join(cache.root, _USAGE)
    try:
        with locked(cache.lock_path("upkeep")):
            usage = read_json(path)
            if usage is None or added is None or not _holds(usage, limit - added):
                usage, gone = _count(cache, limit)
            else:
                usage, gone = {**usage, "bytes": usage["bytes"] + added}, []
            write_json(path, usage)
    except (ProvenderError, OSError) as err:
        _log.warning("The size of the transform cache could not be looked after: %s", err)
        return []
    return gone


def _holds(usage: dict[str, Any], room: int) -> bool:
    """Whether what was counted is recent enough, and leaves enough room, to be gone by."""
    try:
        age = time.time() - usage["at"]
        fits = usage["bytes"] <= room and usage["entries"] > _ALWAYS_COUNT
        return bool(fits and 0 <= age < _COUNTED_SECONDS)
    except (KeyError, TypeError):
        return False


def _count(cache: TransformCache, limit: int) -> tuple[dict[str, Any], list[str]]:
    """Counts everything, sweeps what the dead left, and evicts what is too much."""
    for name in _names(os.path.join(cache.root, "trash")):
        shutil.rmtree(os.path.join(cache.root, "trash", name), ignore_errors=True)
    drop_dead_locks(os.path.join(cache.root, "locks"))
    in_use = cache.in_use()
    found: list[tuple[float, str, int]] = []
    for folder in _folders(cache.root):
        weight = weigh(folder)
        for temp in weight.temps:
            if is_abandoned(temp):
                remove(temp)
        name = os.path.basename(folder)
        if weight.empty and time.time() - weight.used > _EMPTY_SECONDS and evict(cache, name):
            continue
        found.append((weight.used, name, weight.bytes))
    total = sum(size for _, _, size in found)
    gone: list[str] = []
    for _, name, size in sorted(found):
        if total <= limit:
            break
        if name not in in_use and evict(cache, name):
            total -= size
            gone.append(name)
    if gone:
        _log.info("The transform cache was full; entries evicted: %d.", len(gone))
    if total > limit and cache.root not in _told_full:
        _told_full.add(cache.root)
        text = "The transform cache holds %s bytes, more than its limit of %s; all of it is in use."
        _log.warning(text, f"{total:,}", f"{limit:,}")
    return {"bytes": total, "entries": len(found) - len(gone), "at": time.time()}, gone


def evict(cache: TransformCache, fingerprint: str) -> bool:
    """Removes one entry unless a live process uses or writes it.

    Returns:
        Whether it was removed.

    Raises:
        StoreError: the cache cannot be written.
    """
    if fingerprint in cache.in_use():
        return False
    folder = cache.entry_folder(fingerprint)
    lock = EntryLock(cache.lock_path(fingerprint))
    if not lock.try_acquire():
        return False
    trash = os.path.join(cache.root, "trash", secrets.token_hex(16))
    try:
        os.makedirs(os.path.dirname(trash), exist_ok=True)
        try:
            os.rename(folder, trash)
        except OSError:
            return False
        # Whoever uses an entry says so before reading it: so this is the last word.
        if fingerprint in cache.in_use():
            os.rename(trash, folder)
            return False
    finally:
        lock.release()
    shutil.rmtree(trash, ignore_errors=True)
    return True


def _folders(root: str) -> Iterator[str]:
    base = os.path.join(root, "entries")
    for shelf in _names(base):
        for name in _names(os.path.join(base, shelf)):
            yield os.path.join(base, shelf, name)


def _names(folder: str) -> list[str]:
    try:
        return sorted(os.listdir(folder))
    except OSError:
        return []
