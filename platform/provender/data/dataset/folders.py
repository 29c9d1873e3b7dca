"""Reading saved folders, local or not, and proving what is in them."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from provender.data.dataset.remote import file_system, is_local
from provender.errors import DamageError, MissingFiles, ProvenderError

if TYPE_CHECKING:
    from provender.data.cache import Work

_STATE, _INFO = "state.json", "dataset_info.json"
_ALWAYS_READ = 256 << 20
_RACY_NS = 2_000_000_000


@dataclass(frozen=True)
class Folder:
    """What a saved folder holds.

    Attributes:
        state, info: its two documents.
        table: the rows.
        fingerprint: of the rows, where it can be told without hashing them all.
        keep: entries of the cache that the rows lie in.
    """

    state: Mapping[str, Any]
    info: Mapping[str, Any]
    table: pa.Table
    fingerprint: str | None
    keep: tuple[Any, ...] = ()


def read_folder(path: Any, storage_options: Mapping[str, Any] | None, *, in_memory: bool) -> Folder:
    """Reads a folder that ``save_to_disk`` wrote.

    Raises:
        MissingFiles: there is no dataset in it.
        DamageError: a file is not what was written.
    """
    fs, folder = file_system(path, storage_options)
    state = _document(fs, folder, _STATE, path)
    info = _document(fs, folder, _INFO, path)
    files = list(state.get("_data_files") or ())
    if is_local(fs):
        return _local(folder, state, info, files, in_memory=in_memory)
    return _remote(fs, folder, path, state, info, files, in_memory=in_memory)


def _document(fs: Any, folder: str, name: str, path: Any) -> dict[str, Any]:
    try:
        doc = json.loads(fs.cat_file(f"{folder}/{name}"))
    except FileNotFoundError as error:
        hint = "Check the path, and that save_to_disk went through."
        if fs.exists(f"{folder}/dataset_dict.json"):
            hint = "It holds splits: read it with provender.data.load_from_disk."
        raise MissingFiles(
            f"There is no saved dataset in the folder: {name} is missing.",
            where=str(path),
            hint=hint,
        ) from error
    except ValueError as error:
        raise DamageError(f"{name} is not JSON.", where=str(path)) from error
    return doc if isinstance(doc, dict) else {}


def _local(
    folder: str,
    state: Mapping[str, Any],
    info: Mapping[str, Any],
    files: Sequence[Mapping[str, Any]],
    *,
    in_memory: bool,
) -> Folder:
    from provender.data.dataset.files import read_stream

    paths = [os.path.join(folder, each["filename"]) for each in files]
    known = all("xxh3_128" in each for each in files)
    digests = _digests(paths)
    for each, path, (size, digest) in zip(files, paths, digests, strict=True):
        if known and (size, digest) != (each["size"], each["xxh3_128"]):
            raise _damaged(path, each, size)
    tables = [read_stream(path, in_memory=in_memory) for path in paths]
    table = pa.concat_tables(tables) if tables else pa.table({})
    return Folder(state, info, table, _fingerprint(state, info, known, digests))


def _fingerprint(
    state: Mapping[str, Any],
    info: Mapping[str, Any],
    known: bool,
    digests: Sequence[tuple[int, str]],
) -> str:
    """The saved fingerprint where the digests vouch for it, else one of the files' bytes."""
    saved = state.get("_fingerprint")
    if known and isinstance(saved, str):
        return saved
    from provender.fingerprint import Hasher

    features = json.dumps(info.get("features"), sort_keys=False)
    return Hasher.hash(("provender saved dataset 1", features, [list(each) for each in digests]))


def _digests(paths: Sequence[str]) -> list[tuple[int, str]]:
    """Size and digest of files; large ones are read again only if they look different."""
    from provender.data.cache.proof import digest_of

    found = []
    for path in paths:
        try:
            about = os.stat(path)
        except OSError as error:
            raise DamageError(
                f"The file {os.path.basename(path)} is missing.",
                where=path,
                hint="Copy the folder again, or save the dataset again.",
            ) from error
        if about.st_size <= _ALWAYS_READ:
            found.append((about.st_size, digest_of(path) or ""))
        else:
            found.append((about.st_size, _remembered(path, about)))
    return found


def _remembered(path: str, about: os.stat_result) -> str:
    import hashlib
    import time

    from provender.data.cache import TransformCache
    from provender.data.cache.files import read_json, write_json
    from provender.data.cache.proof import digest_of

    real = os.path.realpath(path)
    looks = [about.st_dev, about.st_ino, about.st_size, about.st_mtime_ns, about.st_ctime_ns]
    name = hashlib.sha256(os.fsencode(real)).hexdigest()[:40]
    memo = os.path.join(TransformCache.current().root, "saved", f"{name}.json")
    doc = read_json(memo) or {}
    if doc.get("looks") == looks and isinstance(doc.get("digest"), str):
        return str(doc["digest"])
    digest = digest_of(path) or ""
    if time.time_ns() - max(about.st_mtime_ns, about.st_ctime_ns) > _RACY_NS:
        try:
            os.makedirs(os.path.dirname(memo), exist_ok=True)
            write_json(memo, {"path": real, "looks": looks, "digest": digest})
        except (OSError, ProvenderError):
            pass  # a read-only cache: it is read again next time
    return digest


def _damaged(path: str, saved: Mapping[str, Any], size: int) -> DamageError:
    return DamageError(
        f"The file {os.path.basename(path)} is not what was saved: "
        + (
            f"{size:,} bytes instead of {saved['size']:,}."
            if size != saved["size"]
            else "its bytes have another digest."
        ),
        where=path,
        hint="Copy the folder again, or save the dataset again.",
        facts={"size": size, "saved": dict(saved)},
    )


def _remote(
    fs: Any,
    folder: str,
    path: Any,
    state: Mapping[str, Any],
    info: Mapping[str, Any],
    files: Sequence[Mapping[str, Any]],
    *,
    in_memory: bool,
) -> Folder:
    """Copies the files into the transform cache, from where they are memory-mapped."""
    from provender.data.cache import Recipe
    from provender.data.dataset.storing import in_memory as copied
    from provender.data.dataset.storing import obtain
    from provender.fingerprint import Hasher

    known = all("xxh3_128" in each for each in files)
    names = [f"{folder}/{each['filename']}" for each in files]
    marks = [
        (each["size"], each["xxh3_128"]) if known else _mark(fs, name)
        for each, name in zip(files, names, strict=True)
    ]
    identity = _fingerprint(state, info, known, marks)
    key = Hasher.hash(("provender remote folder 1", identity, [list(each) for each in marks]))

    def compute(work: Work) -> None:
        for start, stop in work.missing(len(names)):
            for at in range(start, stop):
                table = _download(fs, names[at], files[at] if known else None)
                with work.segment(at, at + 1) as out:
                    out.write(table)
        work.commit(info.get("features"))

    recipe = Recipe(
        "load_from_disk",
        parents=tuple(state.get("_lineage") or ()),
        parameters={"path": str(path)},
    )
    if not names:
        return Folder(state, info, pa.table({}), identity)
    entry = obtain(key, recipe, compute)
    assert entry is not None
    table = entry.table()
    if in_memory:
        return Folder(state, info, copied(table), identity)
    return Folder(state, info, table, identity, (entry,))


def _mark(fs: Any, name: str) -> tuple[int, str]:
    """Size and what the store says of the content of a file that has no digest of ours."""
    facts = fs.info(name)
    said = next(
        (f"{key} {facts[key]}" for key in ("md5Hash", "crc32c", "etag", "ETag") if facts.get(key)),
        None,
    )
    return int(facts["size"]), said or f"time {facts.get('mtime') or facts.get('created')}"


def _download(fs: Any, name: str, saved: Mapping[str, Any] | None) -> pa.Table:
    import xxhash

    data = fs.cat_file(name)
    if saved is not None and xxhash.xxh3_128(data).hexdigest() != saved["xxh3_128"]:
        raise _damaged(name, saved, len(data))
    return pa.ipc.open_stream(pa.py_buffer(data)).read_all()
