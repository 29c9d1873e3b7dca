"""Fingerprints of one method of a class, with all that it reaches through ``self``.

A builder's method is hashed without an instance: ``self.x``, ``cls.x`` and ``super().x`` are
looked up on the class. What the user's classes define is followed, what an installed base class
defines counts by distribution and version, and names that exist on the instance only are left to
the caller (see `self_attributes`).
"""

from __future__ import annotations

import functools
from types import FunctionType, ModuleType
from typing import TYPE_CHECKING, Any, NamedTuple

from provender.errors import BuilderError
from provender.fingerprint.classes import class_origin
from provender.fingerprint.code import facts_of
from provender.fingerprint.encoding import MAPPING
from provender.fingerprint.functions import (
    Parts,
    code_origin,
    function_shape,
    is_memo,
    qualified,
    user_parts,
)
from provender.fingerprint.graph import Shape, Walker
from provender.fingerprint.hasher import Walk, finished
from provender.fingerprint.scope import SUPER, Chain
from provender.fingerprint.shapes import set_maker
from provender.fingerprint.tree import Tree

if TYPE_CHECKING:
    from collections.abc import Iterator


class MethodView(NamedTuple):
    """A function as a method of a class: the class decides what ``self.x`` means in it."""

    cls: type
    function: Any  # a FunctionType, which a type checker would take for a method of this class
    owner: type
    exclude: frozenset[str] = frozenset()


class Found(NamedTuple):
    """What a name on ``self`` stands for: methods to follow, other values, or nothing."""

    views: tuple[MethodView, ...] = ()
    values: tuple[Any, ...] = ()
    label: str = ""


def method_tree(cls: type, method_name: str) -> Tree:
    """The fingerprint of a method with everything that it reaches.

    Args:
        cls: the class, e.g. of a dataset builder.
        method_name: the method; inherited ones are found.

    Raises:
        BuilderError: the class has no such method.
        UnhashableError: it reaches something without content.
    """
    return walk_method(cls, method_name).tree


def walk_method(cls: type, method_name: str, exclude: frozenset[str] = frozenset()) -> Walk:
    """As `method_tree`, with the user's files and the distributions that were met.

    Args:
        cls: the class.
        method_name: the method.
        exclude: names on ``self`` that are not followed: methods that count by themselves.
    """
    found = _excluding(_found(cls, method_name), exclude)
    walker = Walker(keep=True)
    name = f"{cls.__qualname__}.{method_name}"
    root: Any = [walker.intern(view, view) for view in found.views] + list(found.values)
    if len(root) == 1:
        root = root[0]
    return finished(walker, root, walker.token(root, name), name)


def self_attributes(
    cls: type, method_name: str, exclude: frozenset[str] = frozenset()
) -> frozenset[str] | None:
    """The names that a method, and the methods it reaches, read on ``self``.

    None when ``self`` escapes (is passed on, stored, returned, indexed ...), since then anything
    may be read.

    Args:
        cls: the class.
        method_name: the method to begin with.
        exclude: as of `walk_method`.

    Raises:
        BuilderError: the class has no such method.
    """
    todo = list(_excluding(_found(cls, method_name), exclude).views)
    seen: set[MethodView] = set()
    read: set[str] = set()
    while todo:
        view = todo.pop()
        if view in seen or not code_origin(view.function).is_user:
            continue
        seen.add(view)
        todo += [MethodView(cls, fn, view.owner, exclude) for fn in _wrapped(view.function)]
        instance = facts_of(view.function.__code__, view.function.__globals__).names.parameter
        for chain in _chains(view):
            if len(chain) == 1:
                return None
            if chain[0] == instance:
                read.add(chain[1])
            todo.extend(_resolve(view, chain).views)
    return frozenset(read)


def method_shape(view: MethodView, walker: Walker) -> Shape:
    """The shape of a method view; `shapes` dispatches here."""
    fn = view.function
    if not code_origin(fn).is_user:
        return function_shape(fn, walker)
    walker.saw(code_origin(fn), fn.__code__.co_filename)
    parts = Parts()
    own = _own_names(view)
    user_parts(fn, parts, skip={"__class__", *own})
    inner = {id(f) for f in _wrapped(fn)}
    _retarget(parts, inner, view, walker)
    for chain in sorted(_chains(view)):
        if len(chain) == 1:
            parts.add("self", "self, passed on as a whole", view.cls)
            continue
        found = _resolve(view, chain)
        name = ".".join(chain[:2])
        for number, target in enumerate(found.views):
            parts.add(f"{name} {number}", f"method {chain[1]}", walker.intern(target, target))
        for value in found.values:
            parts.add(name, f"class attribute {found.label}", value)
    title = qualified(fn.__module__, fn.__qualname__)
    return Shape(b"s6:method", MAPPING, parts.items, "method", labels=parts.labels, title=title)


def _retarget(parts: Parts, inner: set[int], view: MethodView, walker: Walker) -> None:
    """Methods that a decorator wrapped are methods of the class too."""
    for position in range(1, len(parts.items), 2):
        value = parts.items[position]
        if id(value) in inner:
            target = MethodView(view.cls, value, view.owner, view.exclude)
            parts.items[position] = walker.intern(target, target)


def _own_names(view: MethodView) -> dict[str, type]:
    """Globals by which the method names its own class or a base of it."""
    space = view.function.__globals__
    names = {c[0] for c in facts_of(view.function.__code__, space).names.loads}
    return {
        name: value
        for name in names
        if isinstance(value := space.get(name), type)
        and value in view.cls.__mro__
        and class_origin(value).is_user
    }


def _chains(view: MethodView) -> set[Chain]:
    """Chains on the instance, on ``super()`` and on the class by its name."""
    fn = view.function
    names = facts_of(fn.__code__, fn.__globals__).names
    chains = set(names.on_parameter)
    for name in _own_names(view):
        chains |= {chain for chain in names.loads if chain[0] == name}
    if names.parameter is None:
        # `def wrapper(*args)`: the instance is in args, which goes to the wrapped function.
        chains = {chain for chain in chains if chain[0] == SUPER or chain[0] in _own_names(view)}
    return {_through_class(chain) for chain in chains}


def _through_class(chain: Chain) -> Chain:
    """``self.__class__.x`` is ``self.x`` on the class; ``self.__class__`` alone escapes."""
    return (chain[0], *chain[2:]) if chain[1:2] == ("__class__",) else chain


def _resolve(view: MethodView, chain: Chain) -> Found:
    if len(chain) == 1 or chain[1] in view.exclude:
        return Found()
    if chain[0] == SUPER:
        line = view.cls.__mro__
        line = line[line.index(view.owner) + 1 :] if view.owner in line else line
    else:
        own = _own_names(view).get(chain[0])
        line = own.__mro__ if own else view.cls.__mro__
    return _excluding(_lookup(view.cls, chain[1], line), view.exclude)


def _excluding(found: Found, exclude: frozenset[str]) -> Found:
    views = tuple(view._replace(exclude=exclude) for view in found.views)
    return found._replace(views=views)


def _found(cls: type, name: str) -> Found:
    found = _lookup(cls, name, cls.__mro__)
    if not found.views and not found.values:
        message = f"class {cls.__qualname__} has no method {name}"
        raise BuilderError(message, where=f"{cls.__module__}.{cls.__qualname__}")
    return found


def _lookup(cls: type, name: str, line: tuple[type, ...]) -> Found:
    for owner in line:
        if name not in vars(owner):
            continue
        if not class_origin(owner).is_user:
            return Found(values=(owner,), label=name) if owner is not object else Found()
        return _taken_apart(cls, name, vars(owner)[name], owner)
    return Found()


def _taken_apart(cls: type, name: str, value: Any, owner: type) -> Found:
    label = f"{qualified(owner.__module__, owner.__qualname__)}.{name}"
    if isinstance(value, staticmethod):
        return Found(values=(value.__func__,), label=label)
    functions = list(_functions(value))
    if functions:
        return Found(views=tuple(MethodView(cls, fn, owner) for fn in functions))
    if is_memo(name, value):
        return Found()
    # A decorator may have made an object of its own of the method, which holds the function.
    held = vars(value).values() if hasattr(value, "__dict__") and not _is_namespace(value) else ()
    views = tuple(MethodView(cls, fn, owner) for fn in held if _takes_instance(fn))
    return Found(views=views, values=(value,), label=label)


def _is_namespace(value: Any) -> bool:
    """Whether a value is a class or a module: what it holds are no methods of this class."""
    return isinstance(value, (type, ModuleType))


def _functions(value: Any) -> Iterator[FunctionType]:
    """The functions behind a method, property, or decorated method."""
    if isinstance(value, FunctionType):
        yield value
        if not code_origin(value).is_user:
            yield from _wrapped(value)
    elif isinstance(value, property):
        for accessor in (value.fget, value.fset, value.fdel):
            yield from _functions(accessor)
    elif isinstance(value, functools.cached_property):
        yield from _functions(value.func)
    elif isinstance(value, classmethod):
        yield from _functions(value.__func__)
    elif hasattr(value, "__wrapped__") and not isinstance(value, type):
        yield from _functions(value.__wrapped__)


def _wrapped(fn: FunctionType) -> list[FunctionType]:
    """Functions that a decorator's result holds and that take the instance first."""
    held: list[Any] = [fn.__dict__.get("__wrapped__")]
    for cell in fn.__closure__ or ():
        try:
            held.append(cell.cell_contents)
        except ValueError:
            continue
    return list(dict.fromkeys(fn for fn in held if _takes_instance(fn)))


def _takes_instance(value: Any) -> bool:
    """Whether a value is a function written in a class body, or one whose first name says so."""
    if not isinstance(value, FunctionType):
        return False
    outer = value.__qualname__.rpartition(".")[0]
    in_class = bool(outer) and not outer.endswith("<locals>")
    return in_class or value.__code__.co_varnames[:1] in (("self",), ("cls",), ("klass",))


set_maker(MethodView, method_shape)
