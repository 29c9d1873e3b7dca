"""Content fingerprints of objects and code that can say why they differ.

``import provender.fingerprint`` costs next to nothing: each public name is loaded on first use,
and reducers for third-party types are loaded only when an object of such a type is met.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from provender.fingerprint.hasher import Hasher, Walk, combine, hash_or_random, user_files
    from provender.fingerprint.markers import depends_on, ordered
    from provender.fingerprint.methods import method_tree, self_attributes, walk_method
    from provender.fingerprint.registry import UnhashableError, register_reducer
    from provender.fingerprint.tree import Change, Tree, explain

__all__ = [
    "Change",
    "Hasher",
    "Tree",
    "UnhashableError",
    "Walk",
    "combine",
    "depends_on",
    "explain",
    "hash_or_random",
    "method_tree",
    "ordered",
    "register_reducer",
    "self_attributes",
    "user_files",
    "walk_method",
]

_HOME = {
    "Change": "tree",
    "Hasher": "hasher",
    "Tree": "tree",
    "UnhashableError": "registry",
    "Walk": "hasher",
    "combine": "hasher",
    "depends_on": "markers",
    "explain": "tree",
    "hash_or_random": "hasher",
    "method_tree": "methods",
    "ordered": "markers",
    "register_reducer": "registry",
    "self_attributes": "methods",
    "user_files": "hasher",
    "walk_method": "methods",
}


def __getattr__(name: str) -> Any:
    home = _HOME.get(name)
    if home is None:
        msg = f"module {__name__!r} has no attribute {name!r}"
        raise AttributeError(msg)
    from importlib import import_module

    value = getattr(import_module(f"{__name__}.{home}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
