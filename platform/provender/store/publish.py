"""Making a finished version visible in one step, and repairing it without a gap.

A version is real once its marker, ``dataset_info.json``, can be read. On a local disk everything
is linked into a staging folder and one rename shows it. Object stores have no rename of folders:
there all other files are copied on the server first and the marker is created last, once. After a
crash at any point no reader sees a version, and the same call goes on.

Publishing one target from two processes at once is the caller's to prevent (the catalog's claims);
should it happen nevertheless, equal content is fine and other content ends in `ConflictError`.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import cast

from provender.errors import ConflictError, StoreError
from provender.store import paths
from provender.store.base import Store
from provender.store.local import LocalStore
from provender.store.threads import parallel
from provender.store.values import Identity, Progress

MARKER = "dataset_info.json"

Source = str | bytes
"""Where a published file comes from: the path of a file in the same store, or its bytes."""


@dataclass(frozen=True, slots=True)
class Published:
    """A version as it lies in the store.

    Attributes:
        rel: its folder.
        identities: file name within the folder -> identity of the published file.
        created: False when the very same version had been there already.
    """

    rel: str
    identities: dict[str, Identity]
    created: bool


@dataclass(frozen=True, slots=True)
class _Difference:
    changed: list[str] = field(default_factory=list)
    missing: list[str] = field(default_factory=list)
    extra: list[str] = field(default_factory=list)

    def __bool__(self) -> bool:
        return bool(self.changed or self.missing or self.extra)


def publish_directory(
    store: Store,
    files: Mapping[str, Source],
    target_rel: str,
    *,
    marker: str = MARKER,
    staging_rel: str | None = None,
    progress: Progress | None = None,
) -> Published:
    """Publishes `files` as the folder `target_rel`, whole or not at all.

    Args:
        store: holds the sources and the target.
        files: name within the folder (may hold ``/``) -> source. Sources stay where they are.
        target_rel: the folder to appear.
        marker: the file whose presence makes the version real; one of `files`.
        staging_rel: where a local store puts the folder together; by default under
            ``building/publish``. Anything there is removed.
        progress: called with bytes of the files done.

    Returns:
        What lies there now, also when it had been published before by the same call.

    Raises:
        ConflictError: other content is published there; ``facts`` lists changed, missing and extra.
        StoreError: a source is missing, the marker is not among `files`, or a local target folder
            holds files that were not published by this function.
    """
    paths.check_rel(target_rel)
    for name in files:
        paths.check_rel(name)
    if marker not in files:
        message = f"{marker} is not among the files to publish"
        raise StoreError(message, where=store.path(target_rel), hint="write it with the others")
    sizes = _sizes(store, files)
    tally = _Tally(sum(sizes.values()), progress)
    if isinstance(store, LocalStore):
        staging = staging_rel or paths.join("building", "publish", target_rel)
        return _publish_by_rename(store, files, target_rel, marker, staging, sizes, tally)
    return _publish_by_marker(store, files, target_rel, marker, sizes, tally)


def replace_file(store: Store, src_rel: str, dst_rel: str) -> Identity:
    """Puts a rebuilt file in the place of a published one; a reader sees the old or the new.

    Raises:
        FileNotFoundError: there is no `src_rel`, or no `dst_rel` to replace.
    """
    if store.stat(dst_rel) is None:
        message = f"nothing to replace: {store.path(dst_rel)}"
        raise FileNotFoundError(message)
    return store.copy(src_rel, dst_rel)


def remove_directory(store: Store, rel: str, *, marker: str = MARKER) -> int:
    """Removes a published folder: first its marker, so that nobody takes the rest for a version.

    Returns:
        The number of files removed.
    """
    if store.is_local:  # it vanishes by a rename
        return store.remove_tree(rel)
    return int(store.remove(paths.join(rel, marker))) + store.remove_tree(rel)


class _Tally:
    def __init__(self, total: int, progress: Progress | None) -> None:
        self._total = total
        self._done = 0
        self._progress = progress

    def add(self, nbytes: int) -> None:
        self._done += nbytes
        if self._progress:
            self._progress(self._done, self._total)


def _sizes(store: Store, files: Mapping[str, Source]) -> dict[str, int]:
    """The length of each file to publish; all sources must be there."""
    found = store.stat_many({source for source in files.values() if isinstance(source, str)})
    absent = sorted(rel for rel, identity in found.items() if identity is None)
    if absent:
        raise StoreError(
            f"{len(absent)} of {len(files)} files to publish are missing: {', '.join(absent[:5])}",
            where=store.path(absent[0]),
            hint="run the build again: missing files are rebuilt",
            facts={"missing": absent},
        )
    present = cast(dict[str, Identity], found)
    return {
        name: len(source) if isinstance(source, bytes) else present[source].size
        for name, source in files.items()
    }


def _publish_by_rename(
    store: LocalStore,
    files: Mapping[str, Source],
    target: str,
    marker: str,
    staging: str,
    sizes: Mapping[str, int],
    tally: _Tally,
) -> Published:
    key = hashlib.blake2b(target.encode(), digest_size=8).hexdigest()
    with store.locked(f"publish-{key}.lock"):
        if done := _already(store, files, target, marker):
            return done
        if leftovers := store.list(target, recursive=True):
            raise StoreError(
                f"the folder holds {len(leftovers)} files but no {marker}, so it is no version",
                where=store.path(target),
                hint="move it away or remove it, then run the command again",
            )
        store.remove_tree(staging)
        identities = {}
        try:
            for name, source in files.items():
                identities[name] = _place(store, source, paths.join(staging, name))
                tally.add(sizes[name])
            store.rename_directory(staging, target)
        except BaseException:
            store.remove_tree(staging)  # a full disk shall not stay full of it
            raise
    return Published(target, identities, created=True)


def _publish_by_marker(
    store: Store,
    files: Mapping[str, Source],
    target: str,
    marker: str,
    sizes: Mapping[str, int],
    tally: _Tally,
) -> Published:
    if done := _already(store, files, target, marker):
        return done
    # What an interrupted attempt with other files left there.
    for entry in store.list(target, recursive=True):
        if entry.rel[len(target) + 1 :] not in files:
            store.remove(entry.rel)

    def place(name: str) -> tuple[str, Identity]:
        rel = paths.join(target, name)
        identity = store.stat(rel)
        if identity is None or not _same(store, files[name], rel):
            identity = _place(store, files[name], rel)
        tally.add(sizes[name])
        return name, identity

    identities = dict(parallel(place, [name for name in files if name != marker]))
    _check_undisturbed(store, target, identities)
    source = files[marker]
    data = source if isinstance(source, bytes) else store.read(source)
    try:
        identities[marker] = store.create(paths.join(target, marker), data)
    except FileExistsError:
        if done := _already(store, files, target, marker):
            return done
        raise
    tally.add(sizes[marker])
    return Published(target, identities, created=True)


def _place(store: Store, source: Source, rel: str) -> Identity:
    return store.write(rel, source) if isinstance(source, bytes) else store.copy(source, rel)


def _same(store: Store, source: Source, rel: str) -> bool:
    if isinstance(source, str):
        return store.same_content(source, rel)
    identity = store.stat(rel)
    return identity is not None and identity.size == len(source) and store.read(rel) == source


def _check_undisturbed(store: Store, target: str, placed: Mapping[str, Identity]) -> None:
    """Refuses to create the marker over files that another publisher has touched meanwhile."""
    now = {
        entry.rel[len(target) + 1 :]: entry.identity for entry in store.list(target, recursive=True)
    }
    disturbed = sorted(name for name, identity in placed.items() if now.get(name) != identity)
    if disturbed:
        raise ConflictError(
            f"another process publishes here too: {', '.join(disturbed[:5])} changed meanwhile",
            where=store.path(target),
            hint="let one of the two finish, then run the command again",
            facts={"changed": disturbed, "missing": [], "extra": []},
        )


def _already(
    store: Store, files: Mapping[str, Source], target: str, marker: str
) -> Published | None:
    """The version published at `target`, if any and if it is this one."""
    if store.stat(paths.join(target, marker)) is None:
        return None
    there = {
        entry.rel[len(target) + 1 :]: cast(Identity, entry.identity)
        for entry in store.list(target, recursive=True)
    }
    difference = _compare(store, files, target, there)
    if difference:
        raise ConflictError(
            f"other content is published here already: {_describe(difference)}",
            where=store.path(target),
            hint="give the new content a new version number, or retract the published one",
            facts={
                "changed": difference.changed,
                "missing": difference.missing,
                "extra": difference.extra,
            },
        )
    return Published(target, there, created=False)


def _compare(
    store: Store, files: Mapping[str, Source], target: str, there: Mapping[str, Identity]
) -> _Difference:
    common = sorted(files.keys() & there.keys())
    same = parallel(lambda name: _same(store, files[name], paths.join(target, name)), common)
    return _Difference(
        changed=[name for name, equal in zip(common, same, strict=True) if not equal],
        missing=sorted(files.keys() - there.keys()),
        extra=sorted(there.keys() - files.keys()),
    )


def _describe(difference: _Difference) -> str:
    return "; ".join(
        f"{label} {', '.join(names[:5])}{' ...' if len(names) > 5 else ''}"
        for label, names in (
            ("changed", difference.changed),
            ("missing", difference.missing),
            ("extra", difference.extra),
        )
        if names
    )
