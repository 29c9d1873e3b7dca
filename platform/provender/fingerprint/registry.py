"""Which function reduces which type, and the error for what cannot be reduced."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any, Final

from provender.errors import BuilderError

Reducer = Callable[[Any], object]

_by_name: dict[str, Reducer] = {}
_by_type: dict[type, Reducer] = {}
_aliases: dict[str, type] = {}
_on_change: list[Callable[[], None]] = []
_version = 0

_SHIPPED: Final[dict[str, str]] = {
    "airflow": "orchestration",
    "datasets": "frames",
    "etils": "services",
    "fsspec": "services",
    "gcsfs": "services",
    "google": "tensors",
    "jax": "arrays",
    "jaxlib": "arrays",
    "keras": "keras",
    "numpy": "arrays",
    "pandas": "frames",
    "pathlib_abc": "services",
    "polars": "frames",
    "prefect": "orchestration",
    "pyarrow": "frames",
    "pydantic": "services",
    "regex": "text",
    "_regex": "text",
    "s3fs": "services",
    "scipy": "arrays",
    "sentencepiece": "text",
    "sqlalchemy": "services",
    "tensorflow": "tensors",
    "tensorflow_datasets": "tfds",
    "tf_keras": "keras",
    "tiktoken": "text",
    "tokenizers": "text",
    "torch": "torch",
    "transformers": "text",
    "upath": "services",
}
"""Top package of a type -> the module of `provender.fingerprint.reducers` that knows its types."""

_loaded: set[str] = set()


class UnhashableError(BuilderError):
    """An object has no content that a fingerprint could stand for.

    Args:
        message: what cannot be hashed; made from ``path`` when left out.
        path: from the root to the culprit, e.g. ``("transform", "global CLIENT",
            "attribute _sock: socket")``. Kept in ``facts["path"]``.
        where: where it was found.
        hint: what to do about it.
        facts: as in `ProvenderError`.
    """

    def __init__(
        self,
        message: str | None = None,
        *,
        path: tuple[str, ...] = (),
        where: str | None = None,
        hint: str | None = None,
        facts: Mapping[str, Any] | None = None,
    ) -> None:
        facts = dict(facts or {})
        path = path or tuple(facts.get("path", ()))
        facts["path"] = list(path)
        text = " -> ".join(path)
        super().__init__(
            message or f"cannot be fingerprinted: {text}",
            where=where,
            hint=hint
            or "create it inside the function, give its class a __fingerprint__ method, "
            "or register a reducer with provender.fingerprint.register_reducer",
            facts=facts,
        )
        self.path = path


def register_reducer(type_or_qualified_name: str | type, fn: Reducer) -> None:
    """Hashes instances of a type, and of its subclasses, by what ``fn`` returns for them.

    The class of the instance counts as well: by content when it is user code, by distribution
    and version when it is installed.

    Args:
        type_or_qualified_name: the type, or its name as ``package.module.Type``, so that nothing
            has to be imported. Both the defining module and a public alias are understood.
        fn: takes the instance; returns what to hash in its place, e.g. a dict of its parts. A
            reducer registered here goes before those that come with Provender.
    """
    global _version
    if isinstance(type_or_qualified_name, type):
        _by_type[type_or_qualified_name] = fn
    else:
        _by_name[type_or_qualified_name] = fn
    _version += 1
    for callback in _on_change:
        callback()


def version() -> int:
    """Grows with each registration, for look-ups that one may overtake."""
    return _version


def on_change(callback: Callable[[], None]) -> None:
    """Calls back after each registration, for those who remember look-ups."""
    _on_change.append(callback)


_shipped: dict[str, Reducer] = {}


def ship(*qualified_names: str) -> Callable[[Reducer], Reducer]:
    """Decorator for the reducers that come with Provender; user registrations win over them."""

    def keep(fn: Reducer) -> Reducer:
        for name in qualified_names:
            _shipped[name] = fn
        return fn

    return keep


def find_reducer(kind: type) -> Reducer | None:
    """The reducer for a type: that of the nearest class of its MRO that has one."""
    for name in list(_by_name):
        if name not in _aliases:
            found = _resolve(name)
            if found is not None:
                _aliases[name] = found
    by_alias = {cls: _by_name[name] for name, cls in list(_aliases.items())}
    for cls in kind.__mro__:
        reducer = _by_type.get(cls) or by_alias.get(cls) or _by_name.get(_qualified(cls))
        if reducer is not None:
            return reducer
        _load(cls)
        reducer = _shipped.get(_qualified(cls))
        if reducer is not None:
            return reducer
    return None


def _load(cls: type) -> None:
    home = _SHIPPED.get(str(cls.__module__).partition(".")[0])
    if home is not None and home not in _loaded:
        # Noted last: until then other threads come here too, and wait for the import to end.
        import_module(f"provender.fingerprint.reducers.{home}")
        _loaded.add(home)


def _qualified(cls: type) -> str:
    return f"{cls.__module__}.{cls.__qualname__}"


def _resolve(name: str) -> type | None:
    """The type behind a public name, when its package has been imported."""
    parts = name.split(".")
    value: Any = sys.modules.get(parts[0])
    if value is None:
        return None
    for at, part in enumerate(parts[1:], 2):
        module = sys.modules.get(".".join(parts[:at]))
        value = module if module is not None else getattr(value, part, None)
    return value if isinstance(value, type) else None
