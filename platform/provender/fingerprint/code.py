"""What a code object says by itself: its digest and the names it reads, computed once each."""

from __future__ import annotations

import weakref
from collections.abc import Mapping
from types import CodeType
from typing import Any, NamedTuple

from provender.fingerprint import bytecode, scope, source, syntax
from provender.fingerprint.scope import Names


class CodeFacts(NamedTuple):
    """The part of a function's fingerprint that depends on nothing but its code."""

    digest: bytes
    names: Names


_known: dict[int, tuple[weakref.ref[CodeType], CodeFacts]] = {}


def facts_of(code: CodeType, namespace: Mapping[str, Any]) -> CodeFacts:
    """Digest and names of a code object, from its syntax tree where that can be proven.

    Remembered by identity for as long as the code object lives. Code objects never change: a
    reloaded module has new ones. Equality would not do as a key, since equal code may sit at
    different places of a line.

    Args:
        code: code object of a function.
        namespace: the globals it runs in, where source of ``exec`` may be found.
    """
    key = id(code)
    known = _known.get(key)
    if known is not None and known[0]() is code:
        return known[1]
    facts = _facts(code, namespace)
    _known[key] = (weakref.ref(code, lambda _: _known.pop(key, None)), facts)
    return facts


def _facts(code: CodeType, namespace: Mapping[str, Any]) -> CodeFacts:
    tree = source.tree_of_code(code, namespace)
    if tree is None:
        return CodeFacts(bytecode.code_digest(code), bytecode.names_of_code(code))
    return CodeFacts(syntax.syntax_digest(tree), scope.names_of(tree))
