"""Shapes of instances: by their state, through the protocols that pickle uses.

https://docs.python.org/3/library/pickle.html#pickling-class-instances
"""

from __future__ import annotations

import copyreg
import functools
import warnings
import weakref
from typing import TYPE_CHECKING, Any, Final

from provender.fingerprint import origin
from provender.fingerprint.encoding import MAPPING, SEQUENCE, atom
from provender.fingerprint.functions import Parts, is_memo
from provender.fingerprint.graph import Shape, Unhashable

if TYPE_CHECKING:
    from provender.fingerprint.graph import Walker

_visible: weakref.WeakSet[type] = weakref.WeakSet()
_CONTENT: Final = (
    str, bytes, int, float, complex, bytearray, list, tuple, dict, set, frozenset
)  # fmt: skip


def object_shape(obj: Any, walker: Walker) -> Shape:
    """An instance without a shape maker of its own.

    Raises:
        Unhashable: it refuses to tell its state.
    """
    kind = type(obj)
    content = next((base for base in kind.__mro__ if base in _CONTENT), None)
    if kind in copyreg.dispatch_table or _reduces_itself(kind, content or object):
        return _by_reduce(obj, walker)
    if content is None:
        _check_state_is_visible(obj)
    parts = Parts()
    parts.add("type", "type", kind)
    if content is not None:
        parts.add("content", f"{content.__name__} content", content(obj))
    for name, value in state_of(obj):
        parts.add(f"attribute {name}", f"attribute {name}", value)
    return Shape(atom("object"), MAPPING, parts.items, kind.__name__, labels=parts.labels)


def state_of(obj: Any) -> list[tuple[str, Any]]:
    """Attributes of an instance, from ``__dict__`` and ``__slots__``.

    Values of ``functools.cached_property`` and memo caches do not count: they follow from the
    rest (see `functions.is_memo`).
    """
    kind = type(obj)
    found = [
        (name, value)
        for name, value in getattr(obj, "__dict__", {}).items()
        if not is_memo(name, value)
        and not isinstance(getattr(kind, name, None), functools.cached_property)
    ]
    for name in _slots(kind):
        try:
            value = getattr(obj, name)
        except AttributeError:
            continue
        if not is_memo(name, value):
            found.append((name, value))
    return found


def _slots(kind: type) -> list[str]:
    found: list[str] = []
    for base in kind.__mro__:
        slots = base.__dict__.get("__slots__", ())
        for name in (slots,) if isinstance(slots, str) else slots:
            if name in ("__dict__", "__weakref__"):
                continue
            private = name.startswith("__") and not name.endswith("__")
            found.append(f"_{base.__name__.lstrip('_')}{name}" if private else name)
    return found


_PROTOCOL: Final = ("__reduce_ex__", "__reduce__", "__getstate__", "__getnewargs__")


def _reduces_itself(kind: type, base: type) -> bool:
    """Whether the class says itself how it is pickled, other than its built-in base does.

    What the built-in base does is no good: a set hands out its elements in the order of their
    hashes.
    """
    return any(getattr(kind, name, None) is not getattr(base, name, None) for name in _PROTOCOL)


def _check_state_is_visible(obj: Any) -> None:
    """Refuses instances of classes made in C that keep state where Python cannot see it.

    ``object.__reduce_ex__`` knows: it compares the size of the instance with the sum of its parts.
    """
    kind = type(obj)
    if kind in _visible:
        return
    try:
        object.__reduce_ex__(obj, 4)
    except TypeError as e:
        raise Unhashable(_reason(kind, e)) from e
    _visible.add(kind)


def _by_reduce(obj: Any, walker: Walker) -> Shape:
    kind = type(obj)
    try:
        reduced = _quietly(obj) if kind.__module__ == "itertools" else obj.__reduce_ex__(4)
    except Exception as e:
        raise Unhashable(_reason(kind, e)) from e
    if isinstance(reduced, str):
        module = getattr(obj, "__module__", None) or kind.__module__
        place = origin.of_module_name(module)
        walker.saw(place)
        items = [kind, place.name, place.version, f"{module}.{reduced}"]
        return Shape(atom("named"), SEQUENCE, items, kind.__name__)
    function, arguments, state, sequence, mapping = (tuple(reduced) + (None,) * 4)[:5]
    parts = Parts()
    parts.add("make", "maker", function)
    parts.add("arguments", "arguments", arguments)
    if isinstance(state, dict) and all(type(name) is str for name in state):
        for name, value in state.items():
            if not is_memo(name or "x", value):
                parts.add(f"attribute {name}", f"attribute {name}", value)
    elif state is not None:
        parts.add("state", "state", state)
    if sequence is not None:
        parts.add("elements", "elements", list(sequence))
    if mapping is not None:
        parts.add("entries", "entries", dict(mapping))
    return Shape(atom("reduce"), MAPPING, parts.items, kind.__name__, labels=parts.labels)


def _quietly(obj: Any) -> Any:
    """Python 3.12 and later warn that iterators of itertools will lose this protocol one day."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        return obj.__reduce_ex__(4)


def _reason(kind: type, error: Exception) -> str:
    detail = str(error)
    if not detail or "cannot pickle" in detail:
        return kind.__name__
    return f"{kind.__name__} ({detail[:120]})"
