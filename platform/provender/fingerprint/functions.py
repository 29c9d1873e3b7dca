"""Shapes of functions and modules: their code, and what the names in it stand for."""

from __future__ import annotations

import builtins
import os
import re
import sys
from collections.abc import Iterable, Mapping
from importlib import import_module, util
from pathlib import Path
from types import FunctionType, ModuleType
from typing import TYPE_CHECKING, Any, Final

from provender.fingerprint import origin, scope, source, syntax
from provender.fingerprint.code import facts_of
from provender.fingerprint.encoding import MAPPING, SEQUENCE, atom, digest
from provender.fingerprint.graph import Shape, Unhashable
from provender.fingerprint.markers import FILES_ATTRIBUTE
from provender.fingerprint.scope import Chain, Import

if TYPE_CHECKING:
    from provender.fingerprint.graph import Walker

_BUILTINS: Final = frozenset(vars(builtins))
_MISSING: Final = ("missing",)
_MEMO: Final = re.compile(
    r"_+([a-z0-9_]*_)?(cache|cached|memo|memos|memoized|lru)s?(_[a-z0-9_]+)?", re.I
)
_MUTABLE: Final = (dict, list, set, type(None))


def is_memo(name: str, value: object) -> bool:
    """Whether a value is one that code fills as it runs, and says so in its name.

    A private name (leading underscore) with ``cache`` or ``memo`` in it, holding a dict, list,
    set or None: its content comes from earlier calls and does not count.
    """
    return name[:1] == "_" and isinstance(value, _MUTABLE) and bool(_MEMO.fullmatch(name))


def qualified(module: str | None, name: str) -> str:
    """``module.name`` as people read it; the main script's names stand alone."""
    return name if not module or module == "__main__" else f"{module}.{name}"


class Parts:
    """Collects named parts of a definition: a name for the digest, a label for people."""

    def __init__(self) -> None:
        self.items: list[Any] = []
        self.labels: list[str] = []

    def add(self, name: str, label: str, value: Any) -> None:
        """Adds one part.

        Args:
            name: enters the digest; free of module names, which may change.
            label: what people see.
            value: any object.
        """
        self.items += (name, value)
        self.labels.append(label)


def function_shape(fn: FunctionType, walker: Walker) -> Shape:
    """A Python function: code, defaults, closure, attributes, and all that its names stand for."""
    code = fn.__code__
    place = code_origin(fn)
    walker.saw(place, code.co_filename)
    if not place.is_user:
        return _installed_function(fn, place)
    parts = Parts()
    user_parts(fn, parts)
    title = qualified(fn.__module__, fn.__qualname__)
    return Shape(b"s8:function", MAPPING, parts.items, "function", labels=parts.labels, title=title)


def user_parts(fn: FunctionType, parts: Parts, *, skip: Iterable[str] = ()) -> None:
    """Adds the parts of a user function.

    Args:
        fn: the function.
        parts: where to.
        skip: roots of chains that the caller follows itself.
    """
    facts = facts_of(fn.__code__, fn.__globals__)
    parts.add("body", "body", facts.digest)
    if fn.__defaults__ or fn.__kwdefaults__:
        _add_defaults(fn, parts)
    if fn.__dict__:
        _add_attributes(fn, parts)
    names = facts.names
    if names.loads or names.imports or names.on_parameter:
        _add_names(fn, parts, frozenset(skip))


def _add_defaults(fn: FunctionType, parts: Parts) -> None:
    code = fn.__code__
    values = fn.__defaults__ or ()
    first = code.co_argcount - len(values)
    for name, value in zip(code.co_varnames[first:], values, strict=False):
        if not is_memo(name, value):
            parts.add(f"default {name}", f"default {name}", value)
    for name, value in (fn.__kwdefaults__ or {}).items():
        if not is_memo(name, value):
            parts.add(f"default {name}", f"default {name}", value)


def _add_attributes(fn: FunctionType, parts: Parts) -> None:
    for name, value in fn.__dict__.items():
        if name == FILES_ATTRIBUTE:
            for path in value:
                parts.add(f"file {path}", f"file {path}", file_digest(path))
        elif name == "__wrapped__":
            parts.add("wrapped", "wraps", value)
        elif not name.startswith("__") and not is_memo(name, value):
            parts.add(f"attribute {name}", f"attribute {name}", value)


def file_digest(path: str) -> bytes | None:
    """The digest of a file's bytes; None when it is not there."""
    try:
        with open(path, "rb") as file:
            return digest(file.read())
    except FileNotFoundError:
        return None


def code_origin(fn: FunctionType) -> origin.Origin:
    """Where a function's code was written; generated code belongs to the module it runs in."""
    filename = fn.__code__.co_filename
    if not filename.startswith("<"):
        return origin.of_file(filename)
    if filename.startswith("<frozen "):
        return origin.PYTHON
    home = fn.__globals__.get("__file__")
    return origin.of_file(home) if isinstance(home, str) else origin.USER


def _installed_function(fn: FunctionType, place: origin.Origin) -> Shape:
    code = fn.__code__
    tag = atom("installed function")
    name = f"{fn.__globals__.get('__name__')}.{getattr(code, 'co_qualname', code.co_name)}"
    items: list[Any] = [name, f"{place.name} {place.version}"]
    labels = ["name", "distribution"]
    if fn.__closure__ and not _importable(fn):
        dispatched = _registry_of(fn)
        if dispatched is not None:
            items.append(dispatched)
            labels.append("registered")
            return Shape(tag, SEQUENCE, items, "installed", labels=labels)
        for variable, cell in zip(code.co_freevars, fn.__closure__, strict=True):
            items.append(cell)
            labels.append(f"closure {variable}")
        items += (fn.__defaults__, fn.__kwdefaults__)
        labels += ("defaults", "keyword defaults")
    return Shape(tag, SEQUENCE, items, "installed", labels=labels)


def _importable(fn: FunctionType) -> bool:
    """Whether an installed module holds the function under the name that it bears."""
    value: Any = sys.modules.get(fn.__module__ or "")
    if value is None or origin.of_module_name(fn.__module__).is_user:
        return False
    for part in fn.__qualname__.split("."):
        value = getattr(value, part, None)
    return value is fn


def _registry_of(fn: FunctionType) -> Any:
    """The implementations of a ``functools.singledispatch`` function, else None."""
    attributes = fn.__dict__
    if "registry" in attributes and "dispatch" in attributes and "_clear_cache" in attributes:
        return dict(attributes["registry"])
    return None


def _add_names(fn: FunctionType, parts: Parts, skip: frozenset[str]) -> None:
    names = facts_of(fn.__code__, fn.__globals__).names
    space = fn.__globals__
    cells: dict[str, Any] = {}
    for name, cell in zip(fn.__code__.co_freevars, fn.__closure__ or (), strict=False):
        try:
            cells[name] = cell.cell_contents
        except ValueError:
            cells[name] = _MISSING
    found: dict[str, tuple[str, Any]] = {}
    # With a closure over `self`, the first parameter of the analysis is that of this function, so
    # chains on a captured variable are among the loads.
    for chain in names.loads:
        root = chain[0]
        if root in skip:
            continue
        if root in cells:
            if root != "__class__":
                _follow(chain, cells[root], "closure", None, found)
        elif root in space:
            if root[:2] != "__" and root not in names.rebound:
                _follow(chain, space[root], "global", space.get("__name__"), found)
            elif root in names.rebound:
                found[root] = ("global " + root, initial_value(root, space))
        elif root not in _BUILTINS:
            found[root] = (f"global {root}", _MISSING)
    if "__class__" in cells and "__class__" not in skip:
        found["__class__"] = ("class of super()", cells["__class__"])
    for item in names.imports:
        _follow_import(item, names.on_imports, space, found)
    for chain in names.iterated:
        _add_order(chain, found)
    for chain in names.opened | {c[:-1] for c in names.loads if c[-1] in _READS}:
        _add_file(chain, found)
    runtime = _RUNTIME_STATE & {chain[1] for chain in names.loads if len(chain) > 1}
    for name, (label, value) in found.items():
        if runtime and type(value).__name__ == "Tokenizer":
            value = without_runtime_state(value)
        parts.add(name, label, value)


_READS: Final = frozenset({"read_text", "read_bytes", "open"})
_LARGEST_FILE: Final = 64 << 20


def _add_file(chain: Chain, found: dict[str, tuple[str, Any]]) -> None:
    """A file that code names by a global path and reads when it is called."""
    value = found.get(".".join(chain), ("", None))[1]
    if not isinstance(value, (str, os.PathLike)):
        return
    path = Path(os.fsdecode(value))
    try:
        if path.is_file() and path.stat().st_size < _LARGEST_FILE:
            found[f"file {'.'.join(chain)}"] = (f"file {path}", file_digest(str(path)))
    except (OSError, ValueError):
        return


_RUNTIME_STATE: Final = frozenset(
    {"enable_truncation", "no_truncation", "enable_padding", "no_padding"}
)


def without_runtime_state(tokenizer: Any) -> Any:
    """A tokenizer as the code sees it that sets truncation or padding itself, at each call."""
    to_str = getattr(tokenizer, "to_str", None)
    if to_str is None:
        return tokenizer
    import json

    document = json.loads(to_str())
    document.pop("truncation", None)
    document.pop("padding", None)
    return [type(tokenizer), document]


def initial_value(name: str, space: Mapping[str, Any]) -> Any:
    """A global that the code itself rebinds: what the module first set it to, if that is plain.

    Its live value would be the state left by earlier calls.
    """
    import ast

    filename = space.get("__file__")
    parsed = source.parse_file(filename) if isinstance(filename, str) else None
    for statement in parsed.tree.body if parsed else ():
        targets = statement.targets if isinstance(statement, ast.Assign) else []
        if isinstance(statement, ast.AnnAssign):
            targets = [statement.target]
        if any(isinstance(t, ast.Name) and t.id == name for t in targets):
            value = statement.value  # type: ignore[attr-defined]
            try:
                return ("initially", ast.literal_eval(value))
            except (ValueError, TypeError):
                return ("initially", syntax.syntax_digest(value))
    return space.get(name, _MISSING)


def _add_order(chain: Chain, found: dict[str, tuple[str, Any]]) -> None:
    """Where code walks a plain dict, the order of its keys matters after all."""
    name = ".".join(chain)
    entry = found.get(name)
    if entry is not None and type(entry[1]) is dict:
        found[f"order of {name}"] = (f"order of {entry[0]}", list(entry[1]))


def _follow(
    chain: Chain, value: Any, role: str, module: str | None, found: dict[str, tuple[str, Any]]
) -> None:
    """Resolves a chain through user modules to the first thing that is not one."""
    at = 1
    holder = module
    while isinstance(value, ModuleType) and at < len(chain):
        if not origin.of_module(value).is_user:
            break
        holder = value.__name__
        value = member(value, chain[at])
        at += 1
    name = ".".join(chain[:at])
    if is_memo(chain[at - 1], value):
        return
    label = f"{role} {qualified(holder, chain[at - 1]) if role == 'global' else chain[at - 1]}"
    found[name] = (label, value)


def member(module: ModuleType, name: str) -> Any:
    """An attribute of a user module; a submodule that is not imported yet is imported."""
    if name in module.__dict__:
        return module.__dict__[name]
    try:
        return getattr(module, name)
    except AttributeError:
        pass
    return load(f"{module.__name__}.{name}") or _MISSING


def load(name: str) -> ModuleType | None:
    """A module that code would import when it runs.

    User modules are imported, since what they define counts. Installed ones are not: their
    origin is enough, and importing them may take seconds. A stand-in is returned for them, also
    when they have been imported by someone else, so that the state of the process does not count.
    None when there is no such module.
    """
    known = sys.modules.get(name)
    try:
        spec = known.__spec__ if isinstance(known, ModuleType) else util.find_spec(_top(name))
    except (ImportError, ValueError, AttributeError):
        spec = None
    if known is None and spec is None:
        return None
    stand_in = ModuleType(name)
    stand_in.__spec__ = spec
    if isinstance(known, ModuleType):
        stand_in.__dict__.update({k: v for k, v in vars(known).items() if k in _WHERE})
    else:
        folders = list(getattr(spec, "submodule_search_locations", None) or ())
        stand_in.__path__ = folders
        stand_in.__file__ = _file_below(folders, name)
    if not origin.of_module(stand_in).is_user:
        return stand_in
    if isinstance(known, ModuleType):
        return known
    try:
        return import_module(name)
    except ImportError:
        return None
    except (Exception, SystemExit) as e:
        reason = f"import of {name} failed ({type(e).__name__}: {e})"
        raise Unhashable(reason) from e


_WHERE: Final = frozenset({"__file__", "__path__"})


def _top(name: str) -> str:
    return name.partition(".")[0]


def _file_below(folders: list[str], name: str) -> str | None:
    """The file of a dotted module below the folders of its top package, without importing it."""
    for folder in folders:
        base = os.path.join(folder, *name.split(".")[1:])
        for candidate in (base + ".py", os.path.join(base, "__init__.py")):
            if os.path.exists(candidate):
                return candidate
    return None


def _follow_import(
    item: Import,
    chains: frozenset[Chain],
    space: Mapping[str, Any],
    found: dict[str, tuple[str, Any]],
) -> None:
    target = _absolute(item, space)
    module = load(target) if target else None
    if module is None:
        found[f"import {item.bound}"] = (f"import {target or item.module}", _MISSING)
        return
    if item.name is not None:
        place = origin.of_module(module)
        value = member(module, item.name) if place.is_user else _Named(module, item.name)
        found[f"import {item.bound}"] = (f"global {qualified(module.__name__, item.name)}", value)
        if isinstance(value, ModuleType):
            del found[f"import {item.bound}"]
            _follow_all(item.bound, chains, value, found)
        return
    if not item.bound:
        return
    if item.bound.startswith("import "):
        found[item.bound] = (item.bound, module)
        return
    _follow_all(item.bound, chains, module, found)


def _follow_all(
    bound: str, chains: frozenset[Chain], module: ModuleType, found: dict[str, tuple[str, Any]]
) -> None:
    mine = [chain for chain in chains if chain[0] == bound]
    for chain in mine or [(bound,)]:
        _follow(chain, module, "global", None, found)


def _absolute(item: Import, space: Mapping[str, Any]) -> str:
    if not item.level:
        return item.module
    package = space.get("__package__") or str(space.get("__name__", "")).rpartition(".")[0]
    try:
        return util.resolve_name("." * item.level + item.module, package)
    except ImportError:
        return ""


class _Named:
    """A member of an installed module that need not be imported to be named."""

    __slots__ = ("module", "name")

    def __init__(self, module: ModuleType, name: str) -> None:
        self.module = module
        self.name = name

    def __fingerprint__(self) -> object:
        return [self.module, self.name]


_NAMED: Final = ["name", "distribution"]


def module_shape(module: ModuleType, walker: Walker) -> Shape:
    """A module as a value: installed ones by version, the user's by their whole source.

    Of a user module without source, everything that it holds counts.
    """
    place = origin.of_module(module)
    filename = module.__dict__.get("__file__")
    walker.saw(place, filename)
    name = module.__name__
    if not place.is_user:
        items = [name, f"{place.name} {place.version}"]
        return Shape(atom("module"), SEQUENCE, items, "installed", labels=_NAMED)
    title = f"module {name}"
    parts = Parts()
    parsed = source.parse_file(filename) if isinstance(filename, str) else None
    if parsed is None:
        for key, value in module.__dict__.items():
            if not key.startswith("__"):
                parts.add(key, f"global {qualified(name, key)}", value)
    else:
        parts.add("source", "body", syntax.syntax_digest(parsed.tree))
        _add_module_names(module, scope.names_of(parsed.tree), parts)
    return Shape(
        atom("user module"), MAPPING, parts.items, "module", labels=parts.labels, title=title
    )


def _add_module_names(module: ModuleType, names: scope.Names, parts: Parts) -> None:
    """What a module imports, and the plain values it holds, which other code may have set."""
    space = module.__dict__
    found: dict[str, tuple[str, Any]] = {}
    for item in names.imports:
        if item.name == "*":
            target = load(_absolute(item, space))
            if target is not None:
                found[f"import * {os.path.basename(item.module)}"] = (
                    f"import {item.module}",
                    target,
                )
        else:
            _follow_import(item, names.on_imports, space, found)
    for key, value in space.items():
        if key[:2] != "__" and key not in found and type(value) in (int, float, str, bool, bytes):
            found[key] = (f"global {qualified(module.__name__, key)}", value)
    for key, (label, value) in found.items():
        parts.add(key, label, value)
