"""The walk: from an object to its digest, over everything that it reaches.

Depth first without recursion, so that nesting of any depth works. The digest of an object depends
on its type and its parts and on nothing else: neither on who refers to it, nor how often. Objects
that reach each other in a cycle are digested together: the walk finds such a group as a strongly
connected component (Tarjan, "Depth-first search and linear graph algorithms", 1972), then colours
its members by the colours of their parts, again and again, until no more members can be told
apart (colour refinement). So a cycle has one digest wherever it is entered.
"""

from __future__ import annotations

from typing import Any, Final

from provender.fingerprint import origin
from provender.fingerprint.encoding import (
    ATOMS,
    DIGEST_SIZE,
    MAPPING,
    SEQUENCE,
    SET,
    assemble,
    reference,
)
from provender.fingerprint.registry import UnhashableError

_ROUNDS: Final = 64
"""Most rounds of refinement. Beyond it two members are told apart by the colours of the whole
group, so that a change of content anywhere still changes every digest."""


class Unhashable(Exception):
    """Raised while a shape is made: the object has no content to hash."""


class Shape:
    """One object taken apart.

    Attributes:
        tag: token that names the type.
        mode: `SEQUENCE`, `SET` or `MAPPING`; see `encoding.assemble`.
        items: the parts; for a `MAPPING` key, value, key, value ...
        labels: how people name the parts (one a value); None: by index or key.
        kind: ``function``, ``class`` ... as shown in trees.
        title: name of a definition (function, class, module, distribution); None for data.
    """

    __slots__ = ("items", "kind", "labels", "mode", "tag", "title")

    def __init__(
        self,
        tag: bytes,
        mode: bytes,
        items: list[Any],
        kind: str,
        *,
        labels: list[str] | None = None,
        title: str | None = None,
    ) -> None:
        self.tag = tag
        self.mode = mode
        self.items = items
        self.labels = labels
        self.kind = kind
        self.title = title

    def label(self, position: int) -> str:
        """How people name the part at a position of ``items``."""
        if self.mode == MAPPING:
            if self.labels is not None:
                return self.labels[position // 2]
            return f"key {short(self.items[position - position % 2])}"
        if self.labels is not None:
            return self.labels[position]
        return "element" if self.mode == SET else f"[{position}]"


class Node:
    """A shape on its way to a digest."""

    __slots__ = ("index", "low", "obj", "position", "shape", "tokens")

    def __init__(self, obj: Any, shape: Shape, index: int) -> None:
        self.obj = obj
        self.shape = shape
        self.index = index
        self.low = index
        self.position = 0
        self.tokens: list[Any] = []


def short(value: Any) -> str:
    """A short text for an atom or the name of a type."""
    if type(value) in ATOMS:
        text = repr(value)
        return text if len(text) <= 60 else text[:57] + "..."
    return type(value).__name__


class Walker:
    """One walk; its memory lives as long as it does, so that objects may change between walks.

    Attributes:
        files: absolute paths of the user's source files that were visited.
        distributions: name -> version of the installed distributions that were met.
        shapes: shape of each visited object by id, kept when ``keep`` is set.
        tokens: reference token of each finished object by id.
    """

    def __init__(self, *, keep: bool = False) -> None:
        self.files: set[str] = set()
        self.distributions: dict[str, str] = {}
        self.shapes: dict[int, Shape] | None = {} if keep else None
        self.tokens: dict[int, bytes] = {}
        self.interned: dict[Any, Any] = {}
        self._alive: list[Any] = []
        self._open: dict[int, Node] = {}
        self._group: list[Node] = []
        self._count = 0

    def intern(self, key: Any, value: Any) -> Any:
        """One object per key, for parts that are made up during the walk and must be met again."""
        return self.interned.setdefault(key, value)

    def saw(self, place: origin.Origin, filename: str | None = None) -> None:
        """Notes where code came from."""
        if place.kind == "installed":
            self.distributions[place.name] = place.version
        elif place.kind == "user" and filename and not filename.startswith("<"):
            self.files.add(filename)

    def token(self, root: Any, name: str = "") -> bytes:
        """The token of an object: itself for an atom, else a reference to its digest.

        Args:
            root: any object.
            name: what to call it in the path of an `UnhashableError`.

        Raises:
            UnhashableError: something that it reaches has no content to hash.
        """
        make = ATOMS.get(type(root))
        if make is not None:
            return make(root)
        known = self.tokens.get(id(root))
        if known is not None:
            return known
        stack: list[Node] = []
        try:
            stack.append(self._start(root))
            while stack:
                self._step(stack)
        except Unhashable as reason:
            path = (name or describe(root), *_path(stack, str(reason)))
            raise UnhashableError(path=path) from None
        return self.tokens[id(root)]

    def _start(self, obj: Any) -> Node:
        from provender.fingerprint.shapes import shape_of

        shape = shape_of(obj, self)
        node = Node(obj, shape, self._count)
        self._count += 1
        key = id(obj)
        self._open[key] = node
        self._group.append(node)
        if self.shapes is not None:
            self.shapes[key] = shape
        return node

    def _step(self, stack: list[Node]) -> None:
        """Goes on with the top node until it is done or a part has to be done first."""
        node = stack[-1]
        items, tokens, done, opened = node.shape.items, node.tokens, self.tokens, self._open
        add, atoms = tokens.append, ATOMS
        for position in range(node.position, len(items)):
            item = items[position]
            make = atoms.get(type(item))
            if make is not None:
                add(make(item))
                continue
            key = id(item)
            token = done.get(key)
            if token is not None:
                add(token)
                continue
            inner = opened.get(key)
            if inner is None:
                node.position = position
                stack.append(self._start(item))
                return
            node.low = min(node.low, inner.low)
            add(inner)
        stack.pop()
        if node.low == node.index:
            self._close(node)

    def _close(self, head: Node) -> None:
        at = len(self._group) - 1
        while self._group[at] is not head:
            at -= 1
        members = self._group[at:]
        del self._group[at:]
        if len(members) == 1 and not any(token is head for token in head.tokens):
            shape = head.shape
            self._finish(head, assemble(shape.tag, shape.mode, head.tokens))
            return
        for member, value in zip(members, _refine(members), strict=True):
            self._finish(member, value)

    def _finish(self, node: Node, value: bytes) -> None:
        key = id(node.obj)
        del self._open[key]
        self.tokens[key] = reference(value)
        self._alive.append(node.obj)


def _refine(members: list[Node]) -> list[bytes]:
    """Digests of the members of a cycle; equal for members that no walk could tell apart."""
    at = {id(node): position for position, node in enumerate(members)}
    plans: list[list[bytes | int]] = [
        [at[id(token)] if isinstance(token, Node) else token for token in node.tokens]
        for node in members
    ]
    colours = [b"\0" * DIGEST_SIZE] * len(members)
    classes = 1
    for _ in range(_ROUNDS):
        colours = [
            assemble(
                node.shape.tag,
                node.shape.mode,
                [token if isinstance(token, bytes) else b"~" + colours[token] for token in plan],
            )
            for node, plan in zip(members, plans, strict=True)
        ]
        found = len(set(colours))
        if found == classes:
            break
        classes = found
    everything = assemble(b"cycle", SET, sorted(set(colours)))
    return [assemble(b"member", SEQUENCE, [b"~" + colour, everything]) for colour in colours]


def _path(stack: list[Node], reason: str) -> list[str]:
    path = [node.shape.label(node.position) for node in stack]
    if path:
        path[-1] = f"{path[-1]}: {reason}"
        return path
    return [reason]


def describe(obj: Any) -> str:
    """What to call a root that was given no name."""
    name = getattr(obj, "__qualname__", None)
    if isinstance(name, str):
        return f"class {name}" if isinstance(obj, type) else f"function {name}"
    return type(obj).__name__
