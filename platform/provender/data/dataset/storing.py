"""Results of transforms: found in the cache, or computed into it."""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from provender.data.dataset.progress import tell
from provender.data.errors import TransformError
from provender.data.raising import also_what_was_raised

if TYPE_CHECKING:
    from provender.data.cache import Entry, Recipe, Work

_HEXADECIMAL = re.compile(r"[0-9a-f]{16,64}")
_held: dict[tuple[int, str], Entry] = {}
"""Results in this process's temporary folder, which stay there until it ends, by fingerprint."""


def cache_key(fingerprint: str) -> str:
    """The name under which the cache keeps a fingerprint, which the user may have chosen."""
    if _HEXADECIMAL.fullmatch(fingerprint):
        return fingerprint
    from provender.fingerprint import Hasher

    return Hasher.hash(("provender named fingerprint", fingerprint))


def obtain(
    fingerprint: str,
    recipe: Recipe,
    compute: Callable[[Work], None],
    *,
    reuse: bool | None = None,
    not_kept: str | None = None,
    held: bool = False,
    folder: str | None = None,
) -> Entry | None:
    """The result of a transform; None where `compute` found that there is none to keep.

    Args:
        fingerprint: of the result.
        recipe: what it is made from, for people and lineage.
        compute: computes into the `Work` and commits it, or not.
        reuse: whether an earlier result may be taken; by default if caching is enabled.
        not_kept: why the result must not outlive the process, e.g. because its fingerprint is
            random; None to keep it.
        held: with `not_kept`: only the fingerprint of an input is random, so that this process
            may ask for the same one again; the result is found then.
        folder: of the cache, where it is not that of the settings.

    Raises:
        StoreError: the cache cannot be read or written.
        TransformError: the user's function raised; also of the kind that it raised.
    """
    from provender.data.cache import TransformCache, is_caching_enabled

    key = cache_key(fingerprint)
    held = held and is_caching_enabled()
    if held and reuse is not False and (os.getpid(), key) in _held:
        return _held[os.getpid(), key]
    cache = TransformCache.current(folder) if not_kept is None else TransformCache.temporary()
    if reuse is None or reuse:
        entry = cache.find(key)
        if entry is not None:
            return entry

    def waiting(holder: str) -> None:
        tell(f"{recipe.title} is being computed by {holder}; waiting for it.")

    how = {} if not_kept is None else {"not_kept": not_kept}
    try:
        with cache.writing(key, recipe, fresh=reuse is False, on_wait=waiting, **how) as work:
            if work.entry is None:
                compute(work)
            entry = work.entry
    except TransformError as error:
        # Only here, outside of all that catches OSError and the like for its own purposes.
        raise also_what_was_raised(error) from error.__cause__
    if held and entry is not None:
        _held[os.getpid(), key] = entry
    return entry


def found(fingerprint: str, folder: str | None = None) -> Entry | None:
    """The result of a fingerprint where it is in the cache."""
    from provender.data.cache import TransformCache

    return TransformCache.current(folder).find(cache_key(fingerprint))


def in_memory(table: pa.Table) -> pa.Table:
    """A copy of a table that needs no file."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as stream:
        stream.write_table(table)
    return pa.ipc.open_stream(sink.getvalue()).read_all()


def remove_results_of(fingerprint: str, keep: tuple[Any, ...]) -> int:
    """Removes the cached results of transforms of a dataset, and of transforms of those.

    Args:
        fingerprint: of the dataset.
        keep: entries that the dataset itself lies in.

    Returns:
        How many files went. Results that a live process uses stay.
    """
    from provender.data.cache import TransformCache
    from provender.data.cache.upkeep import evict, listed

    cache = TransformCache.current()
    entries = [each for each in listed(cache) if each.recipe is not None]
    kept = {entry.fingerprint for entry in keep}
    reached = {fingerprint, cache_key(fingerprint)}
    gone: list[str] = []
    grew = True
    while grew:
        grew = False
        for each in entries:
            assert each.recipe is not None
            before = {each.recipe.parameters.get("input", ""), *each.recipe.parents}
            if each.fingerprint not in reached and before & reached:
                reached.add(each.fingerprint)
                gone.append(each.fingerprint)
                grew = True
    files = 0
    for name in gone:
        if name in kept:
            continue
        entry = cache.find(name)
        count = len(entry.segments) if entry is not None else 0
        if entry is not None:
            entry.release()
        if evict(cache, name):
            files += count
    return files
