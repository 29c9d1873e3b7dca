"""A function's normalised source as text, for people: what changed between two of them.

The text takes no part in any digest. It leaves out what the digest leaves out (comments,
formatting, docstrings, annotations), so a difference in it is a difference that counts.
"""

from __future__ import annotations

import ast
import difflib
import re
from collections.abc import Mapping
from types import CodeType
from typing import Any, Final

from provender.fingerprint.source import tree_of_code

_LONGEST: Final = 8000
_SHOWN: Final = 240
_SECRET: Final = re.compile(
    r"pass(word|wd|phrase)|secret|token|credential|api_?key|private_?key", re.I
)
_LITERAL: Final = re.compile(r"""(?:"[^"]*"|'[^']*')""")


def listing(code: CodeType, namespace: Mapping[str, Any]) -> str | None:
    """The normalised source of a function or lambda.

    Args:
        code: its code object.
        namespace: the globals it runs in.

    Returns:
        Python text without its decorators and defaults, or None where there is no source, or too
        much of it. String literals on lines that seem to name a secret are masked.
    """
    node = tree_of_code(code, namespace)
    if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
        return None
    try:
        # Parsed again, since the tree found is shared and is about to be cut.
        fresh = ast.parse(ast.unparse(node)).body[0]
        text = ast.unparse(ast.fix_missing_locations(_Plain().visit(fresh)))
    except (SyntaxError, RecursionError, ValueError, IndexError):
        return None
    if len(text) > _LONGEST:
        return None
    lines = (_LITERAL.sub("'***'", s) if _SECRET.search(s) else s for s in text.splitlines())
    return "\n".join(lines)


class _Plain(ast.NodeTransformer):
    """Drops docstrings, other bare constants, annotations, and the outermost decorators."""

    def __init__(self) -> None:
        self._outermost = True

    def _function(self, node: Any) -> Any:
        if self._outermost:
            self._outermost = False
            node.decorator_list = []
            node.args.defaults = []
            node.args.kw_defaults = [None] * len(node.args.kwonlyargs)
        node.returns = None
        self.generic_visit(node)
        node.body = [s for s in node.body if not _is_idle(s)] or [ast.Pass()]
        return node

    visit_FunctionDef = _function  # noqa: N815 - the name that ast calls
    visit_AsyncFunctionDef = _function  # noqa: N815

    def visit_arg(self, node: ast.arg) -> ast.arg:
        node.annotation = None
        return node

    def visit_AnnAssign(self, node: ast.AnnAssign) -> Any:
        self.generic_visit(node)
        if node.value is None:
            return ast.Pass()
        return ast.Assign([node.target], node.value)


def _is_idle(statement: ast.stmt) -> bool:
    return isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant)


def changed_lines(old: str | None, new: str | None) -> tuple[str | None, str | None]:
    """The lines that differ between two listings, as one short text each.

    Args:
        old: the earlier listing, or None.
        new: the later one, or None.

    Returns:
        What was removed and what was added, None for nothing; (None, None) where either listing
        is unknown or no line tells them apart.
    """
    if old is None or new is None:
        return None, None
    before, after = old.splitlines(), new.splitlines()
    removed: list[str] = []
    added: list[str] = []
    matcher = difflib.SequenceMatcher(None, before, after, autojunk=False)
    for tag, i1, i2, j1, j2 in matcher.get_opcodes():
        if tag != "equal":
            removed += before[i1:i2]
            added += after[j1:j2]
    return _short(removed), _short(added)


def _short(lines: list[str]) -> str | None:
    text = "; ".join(line.strip() for line in lines)
    return (text if len(text) <= _SHOWN else f"{text[: _SHOWN - 1]}…") or None
