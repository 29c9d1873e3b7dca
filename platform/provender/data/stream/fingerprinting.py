"""Fingerprints of operators, taken before any of their functions was called.

A function may reach what its own calls change: a list that it appends to, a counter, a cache on a
callable object. Its fingerprint is therefore the one from before its first call in a stream, and
stays that for as long as the function lives in this process.
"""

from __future__ import annotations

import functools
import weakref
from collections.abc import Iterable, Mapping
from typing import Any

from provender.data.sources.generator import GeneratorSource
from provender.data.stream.leaf import Leaf
from provender.data.stream.node import Node

_functions: dict[tuple[int, int], tuple[weakref.ref[Any], str]] = {}
_operators: weakref.WeakKeyDictionary[Node, tuple[str, str | None]] = weakref.WeakKeyDictionary()


def notice(nodes: Iterable[Node]) -> None:
    """Takes the fingerprints of what a pass over these nodes is going to call."""
    for node in nodes:
        if not isinstance(node, Leaf) or isinstance(node.source, GeneratorSource):
            fingerprint_of(node)


def fingerprint_of(node: Node) -> tuple[str, str | None]:
    """40 hex digits for an operator or source alone, and why a part of it has none, if so."""
    found = _operators.get(node)
    if found is None:
        found = _taken(node)
        _operators[node] = found
    return found


def _taken(node: Node) -> tuple[str, str | None]:
    from provender.fingerprint import Hasher, UnhashableError

    if isinstance(node, Leaf) and not isinstance(node.source, GeneratorSource):
        digest = node.source.identity
        why = getattr(node.source, "unhashable", None)
        return (digest, None) if why is None else (_unhashable(repr(node.source)), why)
    if isinstance(node, Leaf):
        assert isinstance(node.source, GeneratorSource)
        parameters: Any = ("generator", node.source.function, node.source.arguments)
    else:
        parameters = node.parameters()
    try:
        return Hasher.hash(_with_functions(parameters)), None
    except UnhashableError as error:
        return _unhashable(_outline(parameters)), str(error)


def _unhashable(outline: Any) -> str:
    from provender.fingerprint import Hasher

    return Hasher.hash(("unhashable", outline))


def _with_functions(parameters: Any) -> Any:
    """Parameters with the fingerprints of their functions instead of these."""
    if isinstance(parameters, tuple):
        return tuple(_with_functions(each) for each in parameters)
    if isinstance(parameters, Mapping):
        return {
            name: _function(each) if callable(each) else each for name, each in parameters.items()
        }
    return _function(parameters) if callable(parameters) else parameters


def _function(function: Any) -> Any:
    from provender.fingerprint import Hasher

    if isinstance(function, functools.partial):
        # A partial is often made anew around a function that stays.
        return ("partial", _function(function.func), function.args, function.keywords)
    owner = getattr(function, "__self__", None)
    inner = function if owner is None else getattr(function, "__func__", function)
    owner = function if owner is None else owner
    key = (id(owner), id(inner))
    found = _functions.get(key)
    if found is None or found[0]() is not owner:
        digest = Hasher.hash(function)
        try:
            found = (weakref.ref(owner, lambda _: _functions.pop(key, None)), digest)
        except TypeError:
            return ("function", digest)
        _functions[key] = found
    return ("function", found[1])


def _outline(value: Any) -> Any:
    """What can be said of parameters without the functions among them."""
    if callable(value):
        return getattr(value, "__qualname__", type(value).__name__)
    if isinstance(value, tuple | list):
        return [_outline(each) for each in value]
    if isinstance(value, Mapping):
        return {str(key): _outline(each) for key, each in value.items()}
    return (
        value if isinstance(value, str | int | float | bool | type(None)) else type(value).__name__
    )
