"""Shapes of standard library types whose pickled state is not their content, by qualified name.

By name, so that none of these modules is imported for the sake of a look-up.
"""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING, Any, Final

from provender.fingerprint.encoding import MAPPING, SEQUENCE, SET, atom
from provender.fingerprint.functions import Parts
from provender.fingerprint.graph import Shape, Unhashable
from provender.fingerprint.objects import state_of

if TYPE_CHECKING:
    from provender.fingerprint.graph import Walker


def _sequence(tag: str, items: list[Any], labels: list[str] | None = None) -> Shape:
    return Shape(atom(tag), SEQUENCE, items, tag, labels=labels)


def _constant(obj: Any, _: Walker) -> Shape:
    """Synchronisation and worker pools: they affect how code runs, never what it returns."""
    return _sequence("constant", [type(obj)], ["type"])


def _environment(_obj: Any, _: Walker) -> Shape:
    """What a process was started with differs from machine to machine; it is not content."""
    return _sequence("environment", [])


def _memory_file(obj: Any, _: Walker) -> Shape:
    return _sequence("memory file", [type(obj).__name__, obj.getvalue(), obj.tell()])


def _stream(obj: Any, walker: Walker) -> Shape:
    """Standard streams are part of every process; any other open file is refused."""
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        if obj in (getattr(sys, name), getattr(sys, f"__{name}__")):
            return _sequence("standard stream", [number])
    return _refused(obj, walker)


def _refused(obj: Any, _: Walker) -> Shape:
    raise Unhashable(type(obj).__name__)


def _subclass_parts(obj: Any, base: str) -> Parts:
    parts = Parts()
    kind = type(obj)
    if f"{kind.__module__}.{kind.__qualname__}" != base:
        parts.add("type", "type", kind)
    for name, value in state_of(obj):
        parts.add(f"attribute {name}", f"attribute {name}", value)
    return parts


def _container(base: str, content: Any) -> Any:
    tag = base.rpartition(".")[2]

    def make(obj: Any, _: Walker) -> Shape:
        parts = _subclass_parts(obj, base)
        parts.add("content", "content", content(obj))
        return Shape(atom(tag), MAPPING, parts.items, tag, labels=parts.labels)

    return make


def _ordered(obj: Any, _: Walker) -> Shape:
    kind = type(obj)
    items = [part for pair in obj.items() for part in pair]
    labels = [text for key in obj for text in (f"name of {key!r}"[:80], f"key {key!r}"[:80])]
    if kind.__name__ not in ("OrderedDict", "ordered"):
        items += (kind, dict(state_of(obj)))
        labels += ("type", "attributes")
    return _sequence("OrderedDict", items, labels)


def _enum_member(obj: Any, _: Walker) -> Shape:
    kind = type(obj)
    labels = ["class", "name", "value"]
    return Shape(
        atom("enum member"), SEQUENCE, [kind, obj._name_, obj._value_], kind.__name__, labels=labels
    )


def _logger(obj: Any, _: Walker) -> Shape:
    return _sequence("logger", [obj.name])


def _pattern(obj: Any, _: Walker) -> Shape:
    return _sequence("re.Pattern", [obj.pattern, obj.flags], ["pattern", "flags"])


def _path(obj: Any, _: Walker) -> Shape:
    flavour = "windows" if "Windows" in type(obj).__name__ else "posix"
    return _sequence("path", [flavour, os.fspath(obj)], ["flavour", "path"])


def _reference(obj: Any, _: Walker) -> Shape:
    return _sequence("weakref", [obj()], ["referent"])


def _weak_mapping(obj: Any, _: Walker) -> Shape:
    return Shape(atom("weak"), MAPPING, [x for pair in obj.items() for x in pair], "weak dict")


def _weak_set(obj: Any, _: Walker) -> Shape:
    return Shape(atom("weak"), SET, list(obj), "weak set")


def _decimal(obj: Any, _: Walker) -> Shape:
    sign, digits, exponent = obj.as_tuple()
    if exponent in ("n", "N"):
        return _sequence("Decimal", ["NaN"])
    return _sequence("Decimal", [sign, "".join(map(str, digits)), str(exponent)])


def _array(obj: Any, _: Walker) -> Shape:
    return _sequence("array", [obj.typecode, obj.tobytes()])


def _deque(obj: Any) -> Any:
    return [obj.maxlen, list(obj)]


def _default(obj: Any) -> Any:
    return [obj.default_factory, dict(obj)]


def _cached_property(obj: Any, _: Walker) -> Shape:
    return _sequence("cached_property", [obj.func], ["function"])


def _partial_method(obj: Any, _: Walker) -> Shape:
    return _sequence(
        "partialmethod", [obj.func, obj.args, obj.keywords], ["function", "arguments", "keywords"]
    )


def _dispatch_method(obj: Any, _: Walker) -> Shape:
    return _sequence("singledispatchmethod", [obj.dispatcher, obj.func], ["registered", "function"])


def _generic(obj: Any, _: Walker) -> Shape:
    name = getattr(obj, "_name", None)
    return _sequence("typing alias", [obj.__origin__, list(obj.__args__), name])


def _typing_union(obj: Any, _: Walker) -> Shape:
    return Shape(atom("union"), SET, list(obj.__args__), "union")


def _annotated(obj: Any, _: Walker) -> Shape:
    return _sequence("annotated", [obj.__origin__, list(obj.__metadata__)])


def _type_variable(obj: Any, _: Walker) -> Shape:
    return _sequence("type variable", [type(obj).__name__, obj.__name__])


def _special_form(obj: Any, _: Walker) -> Shape:
    return _sequence("special form", [str(getattr(obj, "_name", obj))])


def _forward(obj: Any, _: Walker) -> Shape:
    return _sequence("forward", [obj.__forward_arg__])


def _new_type(obj: Any, _: Walker) -> Shape:
    return _sequence("NewType", [obj.__name__, obj.__supertype__])


def _type_alias(obj: Any, _: Walker) -> Shape:
    return _sequence("type alias", [obj.__name__, obj.__value__])


def _field(obj: Any, _: Walker) -> Shape:
    return _sequence("dataclass field", [obj.name, str(obj.default), obj.init, obj.compare])


def _abstract(obj: Any, _: Walker) -> Shape:
    return _sequence("abc data", [type(obj).__name__])


def _context_variable(obj: Any, _: Walker) -> Shape:
    return _sequence("context variable", [obj.name])


def _module_subclass(obj: Any, walker: Walker) -> Shape:
    from provender.fingerprint.functions import module_shape

    return module_shape(obj, walker)


def _bound_builtin(obj: Any, walker: Walker) -> Shape:
    from provender.fingerprint.builtin import builtin_shape

    return builtin_shape(obj, walker)


_CONSTANTS: Final = (
    "_thread.lock", "_thread.RLock", "_thread._local", "_threading_local.local",
    "threading.Condition", "threading.Semaphore", "threading.Event", "threading.Barrier",
    "threading._RLock", "_thread._ThreadHandle", "threading.Thread",
    "concurrent.futures._base.Executor", "multiprocessing.pool.Pool",
    "multiprocessing.synchronize.SemLock", "multiprocessing.synchronize.Condition",
    "multiprocessing.synchronize.Event", "multiprocessing.context.BaseContext",
    "asyncio.locks.Lock", "asyncio.locks.Event", "asyncio.locks.Condition",
    "asyncio.locks.Semaphore", "asyncio.events.AbstractEventLoop", "logging.Handler",
    "logging.Formatter", "logging.Manager",
)  # fmt: skip

_REFUSED: Final = (
    "_socket.socket", "select.epoll", "sqlite3.Connection", "sqlite3.Cursor",
    "subprocess.Popen", "asyncio.futures.Future", "_asyncio.Future", "_asyncio.Task",
    "concurrent.futures._base.Future", "queue.Queue", "_queue.SimpleQueue", "mmap.mmap",
    "multiprocessing.queues.Queue", "multiprocessing.process.BaseProcess", "ssl.SSLSocket",
)  # fmt: skip

MAKERS: Final[dict[str, Any]] = {
    **dict.fromkeys(_CONSTANTS, _constant),
    **dict.fromkeys(_REFUSED, _refused),
    "_abc._abc_data": _abstract,
    "_contextvars.ContextVar": _context_variable,
    "_contextvars.Context": _constant,
    "_io.BytesIO": _memory_file,
    "_io.StringIO": _memory_file,
    "_io._IOBase": _stream,
    "_weakrefset.WeakSet": _weak_set,
    "array.array": _array,
    "builtins.builtin_function_or_method": _bound_builtin,
    "builtins.module": _module_subclass,
    "collections.Counter": _container("collections.Counter", dict),
    "collections.OrderedDict": _ordered,
    "collections.defaultdict": _container("collections.defaultdict", _default),
    "collections.deque": _container("collections.deque", _deque),
    "dataclasses.Field": _field,
    "decimal.Decimal": _decimal,
    "enum.Enum": _enum_member,
    "functools.cached_property": _cached_property,
    "functools.partialmethod": _partial_method,
    "functools.singledispatchmethod": _dispatch_method,
    "logging.Logger": _logger,
    "os._Environ": _environment,
    "pathlib.PurePath": _path,
    "pathlib._local.PurePath": _path,
    "provender.fingerprint.markers.ordered": _ordered,
    "re.Pattern": _pattern,
    "typing.ForwardRef": _forward,
    "typing.NewType": _new_type,
    "typing.ParamSpec": _type_variable,
    "typing.TypeAliasType": _type_alias,
    "typing.TypeVar": _type_variable,
    "typing.TypeVarTuple": _type_variable,
    "typing._AnnotatedAlias": _annotated,
    "typing._GenericAlias": _generic,
    "typing._SpecialForm": _special_form,
    "typing._SpecialGenericAlias": _special_form,
    "typing._UnionGenericAlias": _typing_union,
    "weakref.ReferenceType": _reference,
    "weakref.WeakKeyDictionary": _weak_mapping,
    "weakref.WeakValueDictionary": _weak_mapping,
    "weakref.WeakSet": _weak_set,
}
