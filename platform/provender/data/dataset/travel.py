"""Sending a function to a worker process, or saying what keeps it from going.

Workers are fresh interpreters, so that a process which has TensorFlow's threads running can have
them. Functions of the script, lambdas and closures go by value (cloudpickle); functions of
importable modules by name. So that a worker's modules are those of this process, plain values of
the user's modules (numbers, texts, lists and dicts of them) go along: a threshold that the program
set at run time is the same there.
"""

from __future__ import annotations

import contextlib
import importlib
import os
import pickle
import sys
from collections.abc import Iterator, Mapping
from types import FunctionType, MethodType, ModuleType
from typing import Any

from provender.data.dataset.calling import Call
from provender.data.errors import TransformError

_PLAIN = (bool, int, float, complex, str, bytes, type(None))
_MOST_VALUES = 10_000
_DEEPEST = 6


def pack(call: Call) -> bytes:
    """The call as bytes for another process.

    Raises:
        TransformError: something cannot be sent; names the way to it.
    """
    import cloudpickle

    try:
        return bytes(cloudpickle.dumps({"call": call, "modules": _module_values(call)}))
    except Exception as error:
        path, said = _culprit(call)
        told = said or f"{type(error).__name__}: {error}"
        raise TransformError(
            f"{call.name} cannot be sent to worker processes: {path}: {told}".rstrip(": "),
            where=f"{call.kind}({call.name}), num_proc",
            hint="Create it inside the function, pass what it is made from, or leave num_proc out.",
            facts={"path": path, "error": type(error).__name__},
        ) from error


def unpack(data: bytes) -> Call:
    """The call that `pack` was given, with the user's modules as they were there.

    Raises:
        Exception: whatever importing them raises.
    """
    # From a pipe of the process that started this one: nothing that was stored is unpickled.
    doc = pickle.loads(data)  # noqa: S301
    for name, values in doc["modules"].items():
        module = importlib.import_module(name)
        for key, value in values.items():
            if not hasattr(module, key) or getattr(module, key) != value:
                setattr(module, key, value)
    call: Call = doc["call"]
    return call


def _module_values(call: Call) -> dict[str, dict[str, Any]]:
    """Plain values of the user's modules that the call reaches, by module."""
    from provender.fingerprint import UnhashableError, user_files

    files: set[str] = set()
    for each in (call.function, dict(call.fn_kwargs), dict(call.format.kwargs)):
        try:
            files |= user_files(each)
        except UnhashableError:
            module = sys.modules.get(getattr(call.function, "__module__", "") or "")
            file = getattr(module, "__file__", None)
            files |= {os.path.abspath(file)} if file else set()
    found: dict[str, dict[str, Any]] = {}
    for name, module in list(sys.modules.items()):
        file = getattr(module, "__file__", None)
        if name != "__main__" and file and os.path.abspath(file) in files:
            if not _is_importable(name):
                continue
            found[name] = {
                key: value
                for key, value in vars(module).items()
                if not key.startswith("__") and _is_plain(value)
            }
    return found


def _is_importable(name: str) -> bool:
    import importlib.util

    try:
        return importlib.util.find_spec(name) is not None
    except (ImportError, ValueError, AttributeError):
        return False


def _is_plain(value: Any, budget: list[int] | None = None) -> bool:
    budget = [_MOST_VALUES] if budget is None else budget
    budget[0] -= 1
    if budget[0] < 0:
        return False
    kind = type(value)
    if kind in _PLAIN:
        return True
    if kind in (list, tuple, set, frozenset):
        return all(_is_plain(each, budget) for each in value)
    if kind is dict:
        return all(_is_plain(k, budget) and _is_plain(v, budget) for k, v in value.items())
    return False


def _culprit(call: Call) -> tuple[str, str]:
    """The way to what cannot be sent, and what was said about it."""
    roots = {
        call.name: call.function,
        "fn_kwargs": dict(call.fn_kwargs),
        "format": dict(call.format.kwargs),
    }
    for name, root in roots.items():
        said = _refusal(root)
        if said:
            return _descend(name, root, said, 0, set())
    return call.name, ""


def _descend(path: str, value: Any, said: str, depth: int, seen: set[int]) -> tuple[str, str]:
    seen.add(id(value))
    if depth < _DEEPEST:
        for name, part in _parts(value):
            if id(part) in seen:
                continue
            inner = _refusal(part)
            if inner:
                return _descend(f"{path} -> {name}", part, inner, depth + 1, seen)
    return path, said


def _parts(value: Any) -> Iterator[tuple[str, Any]]:
    """What an object is made of, by name."""
    if isinstance(value, MethodType):
        yield "self", value.__self__
        value = value.__func__
    if isinstance(value, FunctionType):
        code = value.__code__
        for name, cell in zip(code.co_freevars, value.__closure__ or (), strict=True):
            with contextlib.suppress(ValueError):
                yield f"closure {name}", cell.cell_contents
        for name in _names(code):
            if name in value.__globals__:
                yield f"global {name}", value.__globals__[name]
        for default in value.__defaults__ or ():
            yield "default", default
        return
    if isinstance(value, ModuleType | type):
        return
    if isinstance(value, Mapping):
        yield from ((f"[{key!r}]", each) for key, each in value.items())
    elif isinstance(value, list | tuple | set | frozenset):
        yield from ((f"[{at}]", each) for at, each in enumerate(value))
    func = getattr(value, "func", None)
    if callable(func) and hasattr(value, "keywords"):
        yield "func", func
        yield "args", value.args
        yield "keywords", value.keywords
    for name, each in getattr(value, "__dict__", {}).items():
        yield f"attribute {name}", each


def _names(code: Any) -> Iterator[str]:
    yield from code.co_names
    for each in code.co_consts:
        if hasattr(each, "co_names"):
            yield from _names(each)


def _refusal(value: Any) -> str:
    import cloudpickle

    try:
        cloudpickle.dumps(value)
    except Exception as error:  # noqa: BLE001 - reducers of any library may raise anything
        return f"{type(error).__name__}: {error}"
    return ""
