"""Which names a piece of code reads from outside itself, found in its syntax tree.

Follows Python's scoping rules (https://docs.python.org/3/reference/executionmodel.html):
functions, lambdas, comprehensions and class bodies open scopes; a class body's names are not seen
by the functions inside it. Annotations are not visited, since they do not count.
"""

from __future__ import annotations

import ast
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

Chain = tuple[str, ...]
"""A name and the attributes read behind it: ``pkg.sub.f`` is ``("pkg", "sub", "f")``."""

SUPER: Final = "super()"
"""First element of the chain that stands for ``super().x``."""


class Import(NamedTuple):
    """An import inside the code: ``from <module> import <name> as <bound>``.

    ``name`` is None where a module is imported. ``bound`` is empty where a submodule is merely
    made reachable, and ``import <module>`` where ``importlib`` is called.
    """

    module: str
    level: int
    name: str | None
    bound: str


@dataclass(frozen=True)
class Names:
    """What a function, lambda or module reads from outside.

    Attributes:
        loads: chains that start at a name the code does not bind itself.
        parameter: name of the first parameter, if any.
        on_parameter: chains that start at the first parameter (``self.x``), or at `SUPER`.
            The bare parameter is there as a chain of one when it escapes: is passed on, stored,
            indexed, called.
        imports: imports inside the code, in order of appearance.
        on_imports: chains that start at a name bound by one of them.
        iterated: chains of ``loads`` that are walked directly, so that their order counts.
        rebound: names assigned under a ``global`` statement.
        opened: chains of ``loads`` that are opened for reading: ``open(PATH)``.
    """

    loads: frozenset[Chain] = frozenset()
    parameter: str | None = None
    on_parameter: frozenset[Chain] = frozenset()
    imports: tuple[Import, ...] = ()
    on_imports: frozenset[Chain] = frozenset()
    iterated: frozenset[Chain] = frozenset()
    rebound: frozenset[str] = frozenset()
    opened: frozenset[Chain] = frozenset()


_FUNCTIONS: Final = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)
_COMPREHENSIONS: Final = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)
_WALKERS: Final = frozenset(
    {"list", "tuple", "enumerate", "iter", "next", "zip", "map", "filter", "reversed", "islice"}
)
_VIEWS: Final = frozenset({"items", "keys", "values"})
_HARMLESS: Final = frozenset({"hasattr", "isinstance", "issubclass", "id"})


@dataclass
class _Scope:
    node: ast.AST
    bound: set[str] = field(default_factory=set)
    foreign: set[str] = field(default_factory=set)
    declared_global: set[str] = field(default_factory=set)
    loads: set[Chain] = field(default_factory=set)
    iterated: set[Chain] = field(default_factory=set)
    opened: set[Chain] = field(default_factory=set)
    inner: list[ast.AST] = field(default_factory=list)
    imports: list[Import] = field(default_factory=list)


def names_of(root: ast.AST) -> Names:
    """Analyses a function definition, lambda or module.

    Decorators and defaults of the root are not visited: they are evaluated where the function is
    defined, and what they made is hashed as a live value.
    """
    parameter = _first_parameter(root)
    everything = _Scope(root)
    free, iterated = _free(root, everything, top=True)
    aliases = {item.bound for item in everything.imports}
    own = {chain for chain in free if chain[0] in (parameter, SUPER)}
    loads = {c for c in free if c[0] not in (parameter, SUPER) and c[0] not in aliases}
    return Names(
        loads=frozenset(loads),
        parameter=parameter,
        on_parameter=frozenset(own),
        imports=tuple(everything.imports),
        on_imports=frozenset(chain for chain in free if chain[0] in aliases),
        iterated=frozenset(iterated & loads),
        rebound=frozenset(everything.declared_global & everything.bound),
        opened=frozenset(everything.opened & loads),
    )


def _first_parameter(root: ast.AST) -> str | None:
    if not isinstance(root, _FUNCTIONS):
        return None
    for arg in (*root.args.posonlyargs, *root.args.args):
        return arg.arg
    return None


def _free(node: ast.AST, total: _Scope, *, top: bool = False) -> tuple[set[Chain], set[Chain]]:
    """Chains that the scope of ``node`` reads from outside, and those of them that it walks.

    The first parameter and names bound by imports stay in the result of the outermost scope: the
    caller sorts them out. ``total`` gathers imports and ``global`` names of all scopes.
    """
    scope = _collect(node)
    total.imports += scope.imports
    total.opened |= scope.opened
    total.declared_global |= scope.declared_global
    total.bound |= scope.bound & scope.declared_global
    aliases = {item.bound for item in scope.imports}
    hidden = (scope.bound - scope.declared_global - scope.foreign) - aliases
    if top and isinstance(node, ast.Module):
        # The names a module defines are its globals: chains behind them are looked up there.
        hidden = set()
    if top:
        hidden.discard(_first_parameter(node) or "")
    free = {chain for chain in scope.loads if chain[0] not in hidden}
    iterated = {chain for chain in scope.iterated if chain[0] not in hidden}
    seen_inside = set() if isinstance(node, ast.ClassDef) else hidden
    for inner in scope.inner:
        inner_free, inner_iterated = _free(inner, total)
        free |= {chain for chain in inner_free if chain[0] not in seen_inside}
        iterated |= {chain for chain in inner_iterated if chain[0] not in seen_inside}
    return free, iterated


def _collect(node: ast.AST) -> _Scope:
    scope = _Scope(node)
    todo: list[Any] = _children_of_scope(node, scope)
    while todo:
        item = todo.pop()
        visit = _VISITORS.get(type(item))
        if visit is not None:
            todo.extend(visit(item, scope))
        else:
            todo.extend(ast.iter_child_nodes(item))
    return scope


def _children_of_scope(node: ast.AST, scope: _Scope) -> list[Any]:
    if isinstance(node, _FUNCTIONS):
        args = node.args
        every = [*args.posonlyargs, *args.args, *args.kwonlyargs, args.vararg, args.kwarg]
        scope.bound.update(arg.arg for arg in every if arg is not None)
        return [node.body] if isinstance(node, ast.Lambda) else list(node.body)
    if isinstance(node, _COMPREHENSIONS):
        return _inside_comprehension(node, scope)
    return list(node.body)  # type: ignore[attr-defined]


def _inside_comprehension(node: Any, scope: _Scope) -> list[Any]:
    inside: list[Any] = [node.key, node.value] if isinstance(node, ast.DictComp) else [node.elt]
    for at, generator in enumerate(node.generators):
        inside.append(generator.target)
        inside.extend(generator.ifs)
        if at:
            inside.append(generator.iter)
            _walked(generator.iter, scope)
    # A walrus binds in the enclosing function: the name is foreign here.
    scope.foreign.update(_walrus_targets(node))
    return inside


def _walrus_targets(node: ast.AST) -> set[str]:
    return {n.target.id for n in ast.walk(node) if isinstance(n, ast.NamedExpr)}


def _chain(node: ast.AST) -> Chain | None:
    """The chain of a ``Name`` with attributes behind it; None for any other expression."""
    attributes: list[str] = []
    while isinstance(node, ast.Attribute):
        attributes.append(node.attr)
        node = node.value
    if isinstance(node, ast.Name):
        return (node.id, *reversed(attributes))
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
        if node.func.id == "super" and attributes:
            return (SUPER, *reversed(attributes))
        of_one = node.func.id == "type" and len(node.args) == 1 and attributes
        if of_one and isinstance(node.args[0], ast.Name):
            return (node.args[0].id, *reversed(attributes))
    return None


def _walked(node: ast.AST, scope: _Scope) -> None:
    """Notes that ``node`` is iterated over, looking through ``.items()`` and its like."""
    called = isinstance(node, ast.Call) and not node.args and node.func
    if isinstance(called, ast.Attribute) and called.attr in _VIEWS:
        node = called.value
    chain = _chain(node)
    if chain:
        scope.iterated.add(chain)
        scope.loads.add(chain)


def _function(node: Any, scope: _Scope) -> list[Any]:
    scope.inner.append(node)
    outside = [d for d in (*node.args.defaults, *node.args.kw_defaults) if d is not None]
    if not isinstance(node, ast.Lambda):
        scope.bound.add(node.name)
        outside += node.decorator_list
    return outside


def _class(node: Any, scope: _Scope) -> list[Any]:
    scope.inner.append(node)
    scope.bound.add(node.name)
    return [*node.decorator_list, *node.bases, *node.keywords]


def _comprehension(node: Any, scope: _Scope) -> list[Any]:
    scope.inner.append(node)
    scope.bound.update(_walrus_targets(node))
    _walked(node.generators[0].iter, scope)
    return [node.generators[0].iter]


def _name(node: Any, scope: _Scope) -> list[Any]:
    if isinstance(node.ctx, ast.Load):
        scope.loads.add((node.id,))
    else:
        scope.bound.add(node.id)
    return []


def _attribute(node: Any, scope: _Scope) -> list[Any]:
    chain = _chain(node)
    if chain is None:
        return [node.value]
    if isinstance(node.ctx, ast.Load):
        scope.loads.add(chain)
    elif len(chain) > 2:
        scope.loads.add(chain[:-1])
    return []


def _augmented(node: Any, scope: _Scope) -> list[Any]:
    chain = _chain(node.target)
    if chain:
        scope.loads.add(chain)
    return [node.target, node.value]


def _call(node: Any, scope: _Scope) -> list[Any]:
    name = node.func.id if isinstance(node.func, ast.Name) else ""
    if isinstance(node.func, ast.Attribute):
        name = node.func.attr
    if name in _WALKERS or name == "join":
        for arg in node.args:
            _walked(arg, scope)
    rest = [node.func, *node.args, *node.keywords]
    first = node.args[0] if node.args else None
    if isinstance(node.func, ast.Name) and isinstance(first, ast.Name):
        if name == "getattr" and len(node.args) > 1 and isinstance(node.args[1], ast.Constant):
            scope.loads.add((first.id, str(node.args[1].value)))
            rest.remove(first)
        elif name in _HARMLESS and first.id in ("self", "cls"):
            rest.remove(first)
    if name == "open" and first is not None and _reads(node):
        scope.opened.add(_chain(first) or ())
    if name == "super" and len(node.args) == 2:
        return []
    if name == "eval" and isinstance(first, ast.Constant):
        rest += _expression(first.value)
    if name in ("import_module", "__import__") and isinstance(first, ast.Constant):
        target = str(first.value)
        scope.imports.append(Import(target, 0, None, f"import {target}"))
    return rest


def _expression(text: object) -> list[ast.AST]:
    """The expression in a literal given to ``eval``."""
    try:
        return [ast.parse(str(text), mode="eval").body]
    except (SyntaxError, ValueError):
        return []


def _subscript(node: Any, scope: _Scope) -> list[Any]:
    """``globals()["name"]`` reads that global."""
    call = node.value
    named = isinstance(call, ast.Call) and isinstance(call.func, ast.Name) and call.func.id
    if named == "globals" and isinstance(node.slice, ast.Constant):
        scope.loads.add((str(node.slice.value),))
    return [node.value, node.slice]


def _reads(node: ast.Call) -> bool:
    """Whether a call of ``open`` has a mode that only reads."""
    given = [node.args[1]] if len(node.args) > 1 else []
    given += [keyword.value for keyword in node.keywords if keyword.arg == "mode"]
    return all(isinstance(m, ast.Constant) and str(m.value)[:1] == "r" for m in given)


def _loop(node: Any, scope: _Scope) -> list[Any]:
    _walked(node.iter, scope)
    return list(ast.iter_child_nodes(node))


def _starred(node: Any, scope: _Scope) -> list[Any]:
    if isinstance(node.ctx, ast.Load):
        _walked(node.value, scope)
    return [node.value]


def _annotated(node: Any, _scope: _Scope) -> list[Any]:
    return [node.target] if node.value is None else [node.target, node.value]


def _import(node: Any, scope: _Scope) -> list[Any]:
    for alias in node.names:
        bound = alias.asname or alias.name.split(".", 1)[0]
        # `import a.b` binds a, and makes a.b reachable behind it.
        whole = alias.name if alias.asname else bound
        scope.imports.append(Import(whole, 0, None, bound))
        if not alias.asname and "." in alias.name:
            scope.imports.append(Import(alias.name, 0, None, ""))
    return []


def _import_from(node: Any, scope: _Scope) -> list[Any]:
    for alias in node.names:
        bound = alias.asname or alias.name
        scope.imports.append(Import(node.module or "", node.level, alias.name, bound))
    return []


def _bound_by(attribute: str) -> Any:
    def visit(node: Any, scope: _Scope) -> list[Any]:
        name = getattr(node, attribute)
        if name:
            scope.bound.add(name)
        return list(ast.iter_child_nodes(node))

    return visit


def _globals(node: Any, scope: _Scope) -> list[Any]:
    scope.declared_global.update(node.names)
    return []


def _nonlocals(node: Any, scope: _Scope) -> list[Any]:
    scope.foreign.update(node.names)
    return []


def _type_alias(node: Any, scope: _Scope) -> list[Any]:
    scope.bound.add(node.name.id)
    return []


_VISITORS: Final[dict[type, Any]] = {
    ast.FunctionDef: _function,
    ast.AsyncFunctionDef: _function,
    ast.Lambda: _function,
    ast.ClassDef: _class,
    ast.ListComp: _comprehension,
    ast.SetComp: _comprehension,
    ast.DictComp: _comprehension,
    ast.GeneratorExp: _comprehension,
    ast.Name: _name,
    ast.Attribute: _attribute,
    ast.AugAssign: _augmented,
    ast.Call: _call,
    ast.Subscript: _subscript,
    ast.For: _loop,
    ast.AsyncFor: _loop,
    ast.Starred: _starred,
    ast.AnnAssign: _annotated,
    ast.Import: _import,
    ast.ImportFrom: _import_from,
    ast.ExceptHandler: _bound_by("name"),
    ast.MatchAs: _bound_by("name"),
    ast.MatchStar: _bound_by("name"),
    ast.MatchMapping: _bound_by("rest"),
    ast.Global: _globals,
    ast.Nonlocal: _nonlocals,
    **({ast.TypeAlias: _type_alias} if hasattr(ast, "TypeAlias") else {}),
}
