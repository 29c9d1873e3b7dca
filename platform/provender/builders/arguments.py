"""Arguments of a split's generator as JSON, and their content as a fingerprint part.

Paths under a known root (downloads, extracted archives, manual files) travel relative to it, so
that a plan made on one machine holds on another, and count by the content they name, so that an
equal file under another name changes nothing.
"""

from __future__ import annotations

import base64
import os
from collections.abc import Callable, Mapping
from pathlib import Path, PurePath
from typing import Any

MAX_PATH = 4096
_OBJECT_PARTS = 3
"""An object lies at ``aa/sha256/name``, an unpacked archive at ``aa/sha256/method``."""


class NotPlainError(TypeError):
    """A value that JSON with our few tags cannot hold; the split is replayed instead."""


def encode(value: Any, roots: Mapping[str, Path]) -> Any:
    """Encodes an argument as JSON.

    Args:
        value: any nesting of None, bool, int, float, str, bytes, list, tuple, dict with str
            keys, path objects, numpy scalars and archive iterators of the download manager.
        roots: root name -> absolute folder; paths below one become relative to it.

    Returns:
        A JSON-ready value that `decode` turns back into an equal one.

    Raises:
        NotPlainError: the value holds anything else.
    """
    if value is None or isinstance(value, bool | int | float):
        return value
    if isinstance(value, str):
        # str subclasses (tfds.Split) lose nothing that a generator reads.
        return _path_doc(str(value), "str", roots) or str(value)
    if isinstance(value, bytes):
        return {"$bytes": base64.b64encode(value).decode()}
    if isinstance(value, list):
        return [encode(each, roots) for each in value]
    if isinstance(value, tuple) and type(value) is tuple:
        return {"$tuple": [encode(each, roots) for each in value]}
    if isinstance(value, Mapping) and type(value) is dict:
        return _encode_dict(value, roots)
    if _is_archive(value):
        return {"$archive": encode(str(value.path), roots), "method": value.method}
    if isinstance(value, os.PathLike):
        text = os.fspath(value)
        kind = "pathlib" if type(value).__module__ == "pathlib" else "epath"
        if isinstance(text, str):
            return _path_doc(text, kind, roots) or {"$path": text, "kind": kind}
    if type(value).__module__ == "numpy" and getattr(value, "shape", None) == ():
        return encode(value.item(), roots)
    message = f"{type(value).__name__} cannot travel as JSON"
    raise NotPlainError(message)


def _is_archive(value: Any) -> bool:
    from provender.builders.download import ArchiveFiles

    return isinstance(value, ArchiveFiles)


def _encode_dict(value: Mapping[Any, Any], roots: Mapping[str, Path]) -> Any:
    if all(isinstance(key, str) and not key.startswith("$") for key in value):
        return {key: encode(each, roots) for key, each in value.items()}
    return {"$dict": [[encode(k, roots), encode(v, roots)] for k, v in value.items()]}


def _path_doc(text: str, kind: str, roots: Mapping[str, Path]) -> dict[str, Any] | None:
    if len(text) > MAX_PATH or not text.startswith("/"):
        return None
    for name, root in roots.items():
        base = str(root)
        if text == base or text.startswith(base + "/"):
            return {"$root": name, "path": text[len(base) + 1 :], "kind": kind}
    return None


def decode(doc: Any, roots: Mapping[str, Path]) -> Any:
    """Turns the output of `encode` back into values, with this machine's roots."""
    if isinstance(doc, list):
        return [decode(each, roots) for each in doc]
    if not isinstance(doc, dict):
        return doc
    if "$root" in doc:
        root = roots[doc["$root"]]
        return _as_kind(str(root / doc["path"]) if doc["path"] else str(root), doc["kind"])
    if "$path" in doc:
        return _as_kind(doc["$path"], doc["kind"])
    if "$archive" in doc:
        from provender.builders.download import iter_archive

        return iter_archive(decode(doc["$archive"], roots), doc["method"])
    if "$bytes" in doc:
        return base64.b64decode(doc["$bytes"])
    if "$tuple" in doc:
        return tuple(decode(each, roots) for each in doc["$tuple"])
    if "$dict" in doc:
        return {decode(k, roots): decode(v, roots) for k, v in doc["$dict"]}
    return {key: decode(each, roots) for key, each in doc.items()}


def rooted_paths(doc: Any, roots: Mapping[str, Path]) -> set[Path]:
    """Where on this machine the downloads and unpacked archives lie that an argument names.

    Args:
        doc: output of `encode`.
        roots: root name -> absolute folder.

    Returns:
        One path for each download or archive, however many files below it are named.
    """
    if isinstance(doc, list):
        return set().union(*(rooted_paths(each, roots) for each in doc))
    if not isinstance(doc, dict):
        return set()
    if "$root" in doc:
        return {roots[doc["$root"]].joinpath(*PurePath(doc["path"]).parts[:_OBJECT_PARTS])}
    return set().union(*(rooted_paths(each, roots) for each in doc.values()))


def _as_kind(text: str, kind: str) -> Any:
    if kind == "pathlib":
        return Path(text)
    if kind == "epath":
        from etils import epath

        return epath.Path(text)
    return text


def content(doc: Any, identity: Callable[[str, str], Any], outside: Callable[[str], Any]) -> Any:
    """Replaces every path in an encoded argument by what identifies its content.

    Args:
        doc: output of `encode`.
        identity: (root name, relative path) -> content identity.
        outside: absolute path under no root -> content identity, or None if nothing is there.

    Returns:
        A JSON-ready value to hash: equal for equal content, wherever the files lie.
    """
    if isinstance(doc, list):
        return [content(each, identity, outside) for each in doc]
    if isinstance(doc, str):
        found = outside(doc) if doc.startswith("/") and len(doc) <= MAX_PATH else None
        return {"$content": found} if found is not None else doc
    if not isinstance(doc, dict):
        return doc
    if "$root" in doc:
        return {"$content": identity(doc["$root"], doc["path"])}
    if "$path" in doc:
        path = str(PurePath(doc["$path"]))
        found = outside(str(Path(path).absolute()))
        return {"$content": found} if found is not None else {"$path": path}
    return {key: content(each, identity, outside) for key, each in doc.items()}
