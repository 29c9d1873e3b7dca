"""Normalised syntax: the digest of a function's or module's tree without what cannot matter.

Left out: positions, comments, formatting, docstrings and other statements that are only a
constant, ``pass``, annotations (kept in the body of a class with bases or decorators, where
dataclasses and pydantic read them), the names of imported modules (what they resolve to is hashed
instead), and of the outermost function its name, decorators and defaults, whose results are
hashed as live values. Empty fields are not written, so that fields which newer Pythons add to
``ast`` nodes leave digests alone.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable
from typing import Any, Final

from provender.fingerprint.encoding import ATOMS, digest

_SKIPPED: Final = frozenset(
    {"ctx", "kind", "type_comment", "type_ignores", "returns", "annotation", "type_params"}
)
_FUNCTIONS: Final = (ast.FunctionDef, ast.AsyncFunctionDef)


def syntax_digest(root: ast.AST) -> bytes:
    """The digest of a normalised tree: a function, a lambda or a whole module.

    Written without recursion: a sum of a thousand terms is a thousand levels deep.
    """
    out: list[bytes] = []
    todo: list[Any] = [_outermost(root)]
    while todo:
        item = todo.pop()
        if isinstance(item, ast.AST):
            item = _fields(item)
        if isinstance(item, tuple):
            name, fields = item
            out.append(b"(%b %d" % (name.encode(), len(fields)))
            for field, value in reversed(fields):
                todo.append(value)
                todo.append(field)
        elif isinstance(item, list):
            out.append(b"[%d" % len(item))
            todo.extend(reversed(item))
        else:
            out.append(ATOMS[type(item)](item))
    return digest(b"".join(out))


def _outermost(root: ast.AST) -> Any:
    if isinstance(root, _FUNCTIONS):
        return (type(root).__name__, [("args", _signature(root.args)), ("body", _body(root.body))])
    if isinstance(root, ast.Lambda):
        return ("Lambda", [("args", _signature(root.args)), ("body", root.body)])
    return root


def _signature(args: ast.arguments) -> Any:
    name, fields = _fields(args)
    return (name, [(f, v) for f, v in fields if f not in ("defaults", "kw_defaults")])


def _fields(node: ast.AST) -> tuple[str, list[tuple[str, Any]]]:
    special = _SPECIAL.get(type(node))
    if special is not None:
        return special(node)
    return type(node).__name__, _plain(node, node._fields)


def _plain(node: ast.AST, names: Iterable[str]) -> list[tuple[str, Any]]:
    found = []
    for name in names:
        if name in _SKIPPED:
            continue
        value = getattr(node, name, None)
        if isinstance(value, list):
            if value and isinstance(value[0], ast.stmt):
                value = _body(value)
            if not value:
                continue
        elif value is None:
            continue
        found.append((name, value))
    return found


def _body(statements: list[ast.stmt]) -> list[Any]:
    kept: list[Any] = []
    for statement in statements:
        if isinstance(statement, ast.Pass):
            continue
        if isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant):
            continue
        if isinstance(statement, ast.AnnAssign):
            if statement.value is not None:
                kept.append(
                    ("Assign", [("targets", [statement.target]), ("value", statement.value)])
                )
            continue
        kept.append(statement)
    return kept


def _constant(node: Any) -> tuple[str, list[tuple[str, Any]]]:
    return "Constant", [("value", node.value)]


def _class(node: Any) -> tuple[str, list[tuple[str, Any]]]:
    fields = _plain(node, ("name", "bases", "keywords", "decorator_list"))
    if node.bases or node.decorator_list:
        fields.append(("body", [_declaration(statement) for statement in _declared(node.body)]))
    else:
        fields.append(("body", _body(node.body)))
    return "ClassDef", fields


def _declared(statements: list[ast.stmt]) -> list[ast.stmt]:
    return [
        statement
        for statement in statements
        if not isinstance(statement, ast.Pass)
        and not (isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant))
    ]


def _declaration(statement: ast.stmt) -> Any:
    if not isinstance(statement, ast.AnnAssign):
        return statement
    fields: list[tuple[str, Any]] = [("target", statement.target), ("type", statement.annotation)]
    if statement.value is not None:
        fields.append(("value", statement.value))
    return ("Declaration", fields)


def _joined(node: Any) -> tuple[str, list[tuple[str, Any]]]:
    """Adjacent text of an f-string in one piece; Python 3.12 cuts it elsewhere than 3.11."""
    parts: list[Any] = []
    text = ""
    for value in node.values:
        if isinstance(value, ast.Constant) and isinstance(value.value, str):
            text += value.value
            continue
        if text:
            parts.append(text)
            text = ""
        parts.append(value)
    if text:
        parts.append(text)
    return "JoinedStr", [("values", parts)]


def _names(node: Any) -> tuple[str, list[tuple[str, Any]]]:
    return type(node).__name__, [("names", sorted(node.names))]


def _import(node: Any) -> tuple[str, list[tuple[str, Any]]]:
    bound = [alias.asname or alias.name.split(".", 1)[0] for alias in node.names]
    return "Import", [("names", sorted(bound))]


_SPECIAL: Final[dict[type, Any]] = {
    ast.Constant: _constant,
    ast.ClassDef: _class,
    ast.JoinedStr: _joined,
    ast.Global: _names,
    ast.Nonlocal: _names,
    ast.Import: _import,
    ast.ImportFrom: _import,
    ast.FunctionDef: lambda n: ("FunctionDef", _plain(n, n._fields)),
    ast.AsyncFunctionDef: lambda n: ("AsyncFunctionDef", _plain(n, n._fields)),
}
