"""Shapes of Python's own types, by exact type."""

from __future__ import annotations

import functools
import sys
import types
from typing import TYPE_CHECKING, Any, Final

from provender.fingerprint import origin
from provender.fingerprint.classes import class_shape
from provender.fingerprint.code import facts_of
from provender.fingerprint.encoding import MAPPING, SEQUENCE, SET, atom
from provender.fingerprint.functions import file_digest, function_shape, module_shape
from provender.fingerprint.graph import Shape, Unhashable

if TYPE_CHECKING:
    from provender.fingerprint.graph import Walker


def _plain(tag: str, mode: bytes, items: list[Any], **more: Any) -> Shape:
    return Shape(atom(tag), mode, items, tag, **more)


def _list(obj: Any, _: Walker) -> Shape:
    return Shape(b"s4:list", SEQUENCE, obj, "list")


def _tuple(obj: Any, _: Walker) -> Shape:
    return Shape(b"s5:tuple", SEQUENCE, obj, "tuple")


def _dict(obj: Any, _: Walker) -> Shape:
    return Shape(b"s4:dict", MAPPING, [part for pair in obj.items() for part in pair], "dict")


def _set(obj: Any, _: Walker) -> Shape:
    return _plain("set", SET, list(obj))


def _frozenset(obj: Any, _: Walker) -> Shape:
    return _plain("frozenset", SET, list(obj))


def _bytearray(obj: Any, _: Walker) -> Shape:
    return _plain("bytearray", SEQUENCE, [bytes(obj)])


def _memoryview(obj: Any, _: Walker) -> Shape:
    return _plain("memoryview", SEQUENCE, [obj.format, obj.shape, obj.tobytes()])


def _range(obj: Any, _: Walker) -> Shape:
    # Equal ranges are those that yield the same numbers: range(0, 3, 2) == range(0, 4, 2).
    size = len(obj)
    start = obj.start if size else None
    return _plain("range", SEQUENCE, [size, start, obj.step if size > 1 else None])


def _slice(obj: Any, _: Walker) -> Shape:
    return _plain("slice", SEQUENCE, [obj.start, obj.stop, obj.step])


def _keys(obj: Any, _: Walker) -> Shape:
    return _plain("dict_keys", SET, list(obj))


def _values(obj: Any, _: Walker) -> Shape:
    return _plain("dict_values", SET, list(obj))


def _items(obj: Any, _: Walker) -> Shape:
    return _plain("dict_items", MAPPING, [part for pair in obj for part in pair])


def _proxy(obj: Any, _: Walker) -> Shape:
    return _plain("mappingproxy", MAPPING, [part for pair in obj.items() for part in pair])


def _named(tag: str, **parts: Any) -> Shape:
    items = [x for pair in parts.items() for x in pair]
    return Shape(atom(tag), MAPPING, items, tag, labels=[f"attribute {name}" for name in parts])


def _cell(obj: Any, _: Walker) -> Shape:
    try:
        return _plain("cell", SEQUENCE, [obj.cell_contents])
    except ValueError:
        return _plain("cell", SEQUENCE, [])


def _code(obj: Any, walker: Walker) -> Shape:
    walker.saw(origin.of_file(obj.co_filename), obj.co_filename)
    return _plain("code", SEQUENCE, [facts_of(obj, {}).digest])


def _bound(obj: Any, _: Walker) -> Shape:
    return Shape(
        atom("method"),
        SEQUENCE,
        [obj.__func__, obj.__self__],
        "method",
        labels=["function", "self"],
    )


def builtin_shape(obj: Any, walker: Walker) -> Shape:
    """A function or method made in C, by name, and by the object that it is bound to."""
    owner = getattr(obj, "__self__", None)
    name = str(getattr(obj, "__qualname__", obj.__name__))
    if owner is None or isinstance(owner, types.ModuleType):
        module = obj.__module__ or ""
        place = origin.of_module_name(module)
        walker.saw(place)
        items: list[Any] = [f"{module}.{name}", f"{place.name} {place.version}"]
        filename = getattr(sys.modules.get(module), "__file__", None)
        if place.is_user and filename:  # an extension module of the user's own
            walker.saw(place, filename)
            items.append(file_digest(filename))
        return Shape(atom("builtin"), SEQUENCE, items, "installed", labels=["name", "distribution"])
    return _plain("bound builtin", SEQUENCE, [owner, name], labels=["self", "name"])


def _descriptor(obj: Any, _: Walker) -> Shape:
    return _plain(
        "descriptor", SEQUENCE, [obj.__objclass__, obj.__name__], labels=["class", "name"]
    )


def _wrapper(obj: Any, _: Walker) -> Shape:
    return _plain("bound builtin", SEQUENCE, [obj.__self__, obj.__name__], labels=["self", "name"])


def _property(obj: Any, _: Walker) -> Shape:
    return _named("property", get=obj.fget, set=obj.fset, delete=obj.fdel)


def _static(obj: Any, _: Walker) -> Shape:
    return _plain("staticmethod", SEQUENCE, [obj.__func__], labels=["function"])


def _classmethod(obj: Any, _: Walker) -> Shape:
    return _plain("classmethod", SEQUENCE, [obj.__func__], labels=["function"])


def _partial(obj: Any, _: Walker) -> Shape:
    return Shape(
        atom("partial"),
        SEQUENCE,
        [obj.func, obj.args, obj.keywords, obj.__dict__],
        "partial",
        labels=["function", "arguments", "keywords", "attributes"],
    )


def _cached(obj: Any, _: Walker) -> Shape:
    # What it remembers of earlier calls does not count.
    return _plain(
        "lru_cache",
        SEQUENCE,
        [obj.__wrapped__, obj.cache_parameters()],
        labels=["function", "size"],
    )


def _alias(obj: Any, _: Walker) -> Shape:
    return _plain("generic", SEQUENCE, [obj.__origin__, obj.__args__], labels=["origin", "args"])


def _union(obj: Any, _: Walker) -> Shape:
    return _plain("union", SET, list(obj.__args__))


def _namespace(obj: Any, _: Walker) -> Shape:
    return _named("namespace", **vars(obj))


def _one_shot(obj: Any, _: Walker) -> Shape:
    raise Unhashable(type(obj).__name__)


_ONE_SHOT: Final = (
    types.GeneratorType,
    types.CoroutineType,
    types.AsyncGeneratorType,
    types.FrameType,
    types.TracebackType,
)

MAKERS: Final[dict[type, Any]] = {
    list: _list,
    tuple: _tuple,
    dict: _dict,
    set: _set,
    frozenset: _frozenset,
    bytearray: _bytearray,
    memoryview: _memoryview,
    range: _range,
    slice: _slice,
    type({}.keys()): _keys,
    type({}.values()): _values,
    type({}.items()): _items,
    types.MappingProxyType: _proxy,
    types.SimpleNamespace: _namespace,
    types.CellType: _cell,
    types.CodeType: _code,
    types.FunctionType: function_shape,
    types.ModuleType: module_shape,
    types.MethodType: _bound,
    types.BuiltinFunctionType: builtin_shape,
    types.MethodDescriptorType: _descriptor,
    types.ClassMethodDescriptorType: _descriptor,
    types.WrapperDescriptorType: _descriptor,
    types.GetSetDescriptorType: _descriptor,
    types.MemberDescriptorType: _descriptor,
    types.MethodWrapperType: _wrapper,
    types.GenericAlias: _alias,
    types.UnionType: _union,
    type: class_shape,
    property: _property,
    staticmethod: _static,
    classmethod: _classmethod,
    functools.partial: _partial,
    functools._lru_cache_wrapper: _cached,
    **dict.fromkeys(_ONE_SHOT, _one_shot),
}
