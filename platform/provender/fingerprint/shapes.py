"""Takes objects apart: finds the shape maker of a type, once a type."""

from __future__ import annotations

import weakref
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from provender.fingerprint import registry
from provender.fingerprint.encoding import SEQUENCE, atom
from provender.fingerprint.graph import Shape, Unhashable

if TYPE_CHECKING:
    from provender.fingerprint.graph import Walker

Maker = Callable[[Any, "Walker"], Shape]

_makers: weakref.WeakKeyDictionary[type, Maker] = weakref.WeakKeyDictionary()
_exact: dict[type, Maker] = {}


def shape_of(obj: Any, walker: Walker) -> Shape:
    """The shape of an object that is not an atom.

    Raises:
        Unhashable: it has no content, e.g. an open file or a generator.
    """
    kind = type(obj)
    maker = _exact.get(kind) or _makers.get(kind)
    if maker is None:
        maker = _remembered(kind)
    return maker(obj, walker)


def set_maker(kind: type, maker: Maker) -> None:
    """Says how objects of exactly this type are taken apart; for the package's own types."""
    _exact[kind] = maker


def _remembered(kind: type) -> Maker:
    """Finds a maker and keeps it, unless a reducer was registered meanwhile.

    No lock is held: finding one imports modules, whose import another thread may be waiting in.
    """
    while True:
        before = registry.version()
        maker = _makers[kind] = _find(kind)
        if registry.version() == before:
            return maker
        _makers.pop(kind, None)


def _find(kind: type) -> Maker:
    from provender.fingerprint import classes, objects, stdlib

    reducer = registry.find_reducer(kind)
    if reducer is not None:
        return _by_reducer(reducer)
    if issubclass(kind, type):
        return classes.class_shape
    if hasattr(kind, "__fingerprint__"):
        return _by_hook
    for base in kind.__mro__:
        maker = stdlib.MAKERS.get(f"{base.__module__}.{base.__qualname__}")
        if maker is not None:
            return maker
    return objects.object_shape


def _by_reducer(reducer: registry.Reducer) -> Maker:
    def make(obj: Any, walker: Walker) -> Shape:
        try:
            content = reducer(obj)
        except (TypeError, ValueError, AttributeError, RuntimeError, NotImplementedError) as e:
            reason = f"{type(obj).__name__} ({type(e).__name__}: {str(e)[:120]})"
            raise Unhashable(reason) from e
        return Shape(
            atom("reduced"),
            SEQUENCE,
            [type(obj), content],
            type(obj).__name__,
            labels=["type", "content"],
        )

    return make


def _by_hook(obj: Any, _walker: Walker) -> Shape:
    # The hook stands for the whole content, so the code of the class is left out on purpose.
    return Shape(
        atom("hook"),
        SEQUENCE,
        [type(obj).__qualname__, obj.__fingerprint__()],
        type(obj).__name__,
        labels=["type", "__fingerprint__()"],
    )


def _fill() -> None:
    from provender.fingerprint import builtin

    _exact.update(builtin.MAKERS)


_fill()
registry.on_change(_makers.clear)
