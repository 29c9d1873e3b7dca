"""Finds the syntax tree that a live code object was compiled from, and proves that it is.

A source file may have changed since it was imported, and a line number alone does not tell two
lambdas of one line apart. So the text is compiled again and the tree is used only when the result
holds an equal code object; otherwise the caller falls back to the bytecode, which is always true.

Text comes from the file, from ``linecache`` (notebooks and doctests put their cells there), from
the module's loader, or, for code made by ``exec``, from a string in the same namespace that
compiles to it.
"""

from __future__ import annotations

import ast
import os
import sys
import warnings
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from types import CodeType
from typing import Any, Final

Key = tuple[str, int]

_LONGEST_EXEC: Final = 1 << 20
_KEPT: Final = 256

_files: dict[str, tuple[tuple[int, int], bytes, Parsed | None]] = {}
_texts: dict[str, Parsed | None] = {}


@dataclass(frozen=True)
class Parsed:
    """One source text, with its functions and their code objects by (name, first line)."""

    tree: ast.Module
    nodes: dict[Key, list[ast.AST]] = field(default_factory=dict)
    codes: dict[Key, list[CodeType]] = field(default_factory=dict)

    def find(self, code: CodeType) -> ast.AST | None:
        """The function or lambda that ``code`` was compiled from, or None if it is not here."""
        key = (code.co_name, code.co_firstlineno)
        if code not in self.codes.get(key, ()):
            return None
        nodes = self.nodes.get(key, [])
        if len(nodes) == 1:
            return nodes[0]
        return _by_position(code, nodes)


def tree_of_code(code: CodeType, namespace: Mapping[str, Any]) -> ast.AST | None:
    """The syntax tree of a function's code, or None when no text compiles to that very code.

    Args:
        code: code object of a function or lambda.
        namespace: the globals it runs in.
    """
    filename = code.co_filename
    parsed = parse_file(filename)
    if parsed is None:
        parsed = _from_loader(filename, namespace)
    found = parsed.find(code) if parsed else None
    if found is None and _changed_within_a_tick(filename):
        parsed = parse_file(filename)
        found = parsed.find(code) if parsed else None
    if found is None and not os.path.exists(filename):
        found = _from_namespace(code, namespace)
    return found


def parse_file(filename: str) -> Parsed | None:
    """A source file or linecache entry, parsed; None when there is no such text."""
    try:
        status = os.stat(filename)
    except (OSError, ValueError):
        entry = getattr(sys.modules.get("linecache"), "cache", {}).get(filename)
        if entry is None or len(entry) < 3:
            return None
        return _parse_text("".join(entry[2]), filename)
    stamp = (status.st_mtime_ns, status.st_size)
    known = _files.get(filename)
    if known is None or known[0] != stamp:
        if len(_files) >= _KEPT:
            _files.clear()
        text = _read(filename)
        known = _files[filename] = (stamp, text, _parse(text, filename))
    return known[2]


def _changed_within_a_tick(filename: str) -> bool:
    """Whether a file has other text than its remembered stamp says; if so, it is forgotten."""
    known = _files.get(filename)
    if known is None or known[1] == _read(filename):
        return False
    del _files[filename]
    return True


def _read(filename: str) -> bytes:
    try:
        with open(filename, "rb") as file:
            return file.read()
    except OSError:
        return b""


def _from_loader(filename: str, namespace: Mapping[str, Any]) -> Parsed | None:
    get_source = getattr(namespace.get("__loader__"), "get_source", None)
    name = namespace.get("__name__")
    if get_source is None or name == "__main__":
        return None
    try:
        text = get_source(name)
    except (ImportError, OSError, SyntaxError, TypeError):
        return None
    return _parse_text(text, filename) if text else None


def _from_namespace(code: CodeType, namespace: Mapping[str, Any]) -> ast.AST | None:
    word = "lambda" if code.co_name == "<lambda>" else f"def {code.co_name}"
    for text in list(namespace.values()):
        if type(text) is str and len(text) < _LONGEST_EXEC and word in text:
            parsed = _parse_text(text, code.co_filename)
            found = parsed.find(code) if parsed else None
            if found is not None:
                return found
    return None


def _parse_text(text: str, filename: str) -> Parsed | None:
    if text not in _texts:
        if len(_texts) >= _KEPT:
            _texts.clear()
        _texts[text] = _parse(text, filename)
    return _texts[text]


def _parse(text: str | bytes, filename: str) -> Parsed | None:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            tree = ast.parse(text, filename)
            code = compile(text, filename, "exec", dont_inherit=True)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None
    parsed = Parsed(tree)
    for node in ast.walk(tree):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            line = min([node.lineno, *(d.lineno for d in node.decorator_list)])
            parsed.nodes.setdefault((node.name, line), []).append(node)
        elif isinstance(node, ast.Lambda):
            parsed.nodes.setdefault(("<lambda>", node.lineno), []).append(node)
    for inner in _codes(code):
        parsed.codes.setdefault((inner.co_name, inner.co_firstlineno), []).append(inner)
    return parsed


def _codes(code: CodeType) -> Iterator[CodeType]:
    todo = [code]
    while todo:
        item = todo.pop()
        yield item
        todo.extend(const for const in item.co_consts if isinstance(const, CodeType))


def _by_position(code: CodeType, nodes: list[ast.AST]) -> ast.AST | None:
    """The lambda whose body spans the positions of all instructions, the innermost of them."""
    spans = [
        ((line, column), (end_line, end_column))
        for line, end_line, column, end_column in code.co_positions()
        if line and end_line and column is not None and end_column
    ]
    if not spans:
        return None
    start = min(span[0] for span in spans)
    end = max(span[1] for span in spans)
    fitting = []
    for node in nodes:
        body = getattr(node, "body", None)
        if isinstance(body, ast.expr) and body.end_lineno and body.end_col_offset is not None:
            low, high = (body.lineno, body.col_offset), (body.end_lineno, body.end_col_offset)
            if low <= start and end <= high:
                fitting.append((low, node))
    return max(fitting, key=lambda pair: pair[0])[1] if fitting else None
