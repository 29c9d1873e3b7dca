"""Makes the tree that people see out of a finished walk.

Data nests as it does in memory. Definitions (functions, classes, modules, globals) and
distributions are listed once each, below the root, so that one edit shows up as one change
however many ways lead to it.
"""

from __future__ import annotations

import re
from collections import deque
from typing import Any, Final

from provender.fingerprint.encoding import ATOMS, MAPPING, SEQUENCE, SET, assemble, atom, digest
from provender.fingerprint.graph import Shape, Walker
from provender.fingerprint.listing import listing
from provender.fingerprint.tree import CODE, Tree

_DEEPEST: Final = 12
_WIDEST: Final = 256
_BUDGET: Final = 4000
_TEXT: Final = 200
_SECRET: Final = re.compile(
    r"(^|[^a-z])(pass(word|wd|phrase)?|secrets?|tokens?|api_?keys?|access_?keys?|credentials?"
    r"|private_?key|auth)($|[^a-z])",
    re.I,
)
_USERINFO: Final = re.compile(r"(://[^:/@\s]*):[^@/\s]+@")


def outline(walker: Walker, root: Any, token: bytes, name: str) -> Tree:
    """The tree of a root whose walk, made with ``keep=True``, has finished.

    Args:
        walker: the walk.
        root: its root object.
        token: what `Walker.token` returned for it.
        name: name of the root in the tree.
    """
    return _Outline(walker).make(root, token, name)


class _Outline:
    def __init__(self, walker: Walker) -> None:
        self.walker = walker
        self.shapes: dict[int, Shape] = walker.shapes or {}
        self.found: dict[str, Tree] = {}
        self.todo: deque[tuple[Any, Shape]] = deque()
        self.seen: set[int] = set()
        self.left = _BUDGET

    def make(self, root: Any, token: bytes, name: str) -> Tree:
        value = None
        children: tuple[Tree, ...] = ()
        shape = self.shapes.get(id(root))
        if shape is None:
            kind, value = type(root).__name__, text(root, name)
        elif shape.title is not None:
            kind = shape.kind
            self.refer(root, shape)
        else:
            top = self.data(root, name, 0, set())
            kind, value, children = top.kind, top.value, top.children
        while self.todo:
            self.define(*self.todo.popleft())
        for package, version in sorted(self.walker.distributions.items()):
            own = digest(f"{package} {version}".encode()).hex()
            self.found[f"distribution {package}"] = Tree(
                f"distribution {package}", "distribution", own, version
            )
        listed = (*children, *self.found.values())
        full = token[1:].hex() if token[:1] == b"#" else digest(token).hex()
        return Tree(name, kind, full, value, listed)

    def refer(self, obj: Any, shape: Shape) -> None:
        if id(obj) not in self.seen:
            self.seen.add(id(obj))
            self.todo.append((obj, shape))

    def define(self, obj: Any, shape: Shape) -> None:
        call = "()" if shape.kind in ("function", "method") else ""
        name = f"{shape.kind} {shape.title}{call}"
        parts: list[Tree] = []
        for position in range(1, len(shape.items), 2):
            label, value = shape.label(position), shape.items[position]
            if label == "body":
                parts.append(Tree("body", CODE, bytes(value).hex(), _source(obj)))
            elif label.startswith(("global ", "class attribute ")):
                part = self.data(value, label, 1, {id(obj)})
                if part.kind not in ("reference", "installed"):
                    self.found.setdefault(label, part)
            else:
                parts.append(self.data(value, label, 1, {id(obj)}))
        number = 2
        unique = name
        while unique in self.found:
            unique = f"{name} #{number}"
            number += 1
        self.found[unique] = Tree(unique, shape.kind, _local(shape.kind, parts), None, tuple(parts))

    def data(self, obj: Any, label: str, depth: int, path: set[int]) -> Tree:
        make = ATOMS.get(type(obj))
        if make is not None:
            return Tree(label, type(obj).__name__, digest(make(obj)).hex(), text(obj, label))
        shape = self.shapes[id(obj)]
        if shape.title is not None:
            self.refer(obj, shape)
            named = f"{shape.kind} {shape.title}"
            return Tree(label, "reference", digest(named.encode()).hex(), named)
        if shape.kind == "installed":
            return self.installed(shape, label, depth, path)
        self.left -= 1
        whole = self.walker.tokens[id(obj)][1:].hex()
        items = shape.items
        count = len(items) // (2 if shape.mode == MAPPING else 1)
        summary = _summary(obj, shape, label, count)
        hidden = depth >= _DEEPEST or count > _WIDEST or self.left < 0 or shape.mode == SET
        if hidden or id(obj) in path:
            return Tree(label, shape.kind, whole, summary)
        inside = path | {id(obj)}
        step = 2 if shape.mode == MAPPING else 1
        children = tuple(
            self.data(items[position], shape.label(position), depth + 1, inside)
            for position in range(step - 1, len(items), step)
        )
        return Tree(label, shape.kind, _local(shape.kind, list(children)), summary, children)

    def installed(self, shape: Shape, label: str, depth: int, path: set[int]) -> Tree:
        name = str(shape.items[0])
        parts = [
            self.data(shape.items[at], shape.label(at), depth + 1, path)
            for at in range(2, len(shape.items))
        ]
        own = digest(name.encode()).hex() if not parts else _local(name, parts)
        return Tree(label, "installed", own, name, tuple(parts))


def _source(obj: Any) -> str | None:
    """The listing of a function, or of the function behind a method."""
    function = getattr(obj, "function", obj)
    code = getattr(function, "__code__", None)
    return None if code is None else listing(code, function.__globals__)


def _local(kind: str, parts: list[Tree]) -> str:
    tokens = [atom(kind)]
    for part in parts:
        tokens += (atom(part.name), atom(part.digest))
    return assemble(b"outline", SEQUENCE, tokens).hex()


def text(value: Any, label: str) -> str:
    """A short text of an atom for people; what looks like a secret is masked."""
    if _SECRET.search(label) and isinstance(value, (str, bytes)):
        return "***"
    shown = _USERINFO.sub(r"\1:***@", repr(value))
    return shown if len(shown) <= _TEXT else shown[: _TEXT - 3] + "..."


def _summary(obj: Any, shape: Shape, label: str, count: int) -> str:
    plain = shape.kind in ("list", "tuple", "dict", "set", "frozenset") and count <= 12
    if plain and all(type(item) in ATOMS for item in shape.items):
        if shape.mode == SET:
            shown = "{" + ", ".join(sorted(text(item, label) for item in obj)) + "}"
        elif shape.mode == MAPPING:
            shown = "{" + ", ".join(f"{k!r}: {text(v, str(k))}" for k, v in obj.items()) + "}"
        else:
            shown = "[" + ", ".join(text(item, label) for item in obj) + "]"
        if len(shown) <= 120:
            return shown
    return f"{shape.kind} of {count}"
