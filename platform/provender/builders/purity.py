"""Whether loading a builder again can only give what its source files say.

A rerun with nothing to do skips importing the builder when its files are unchanged. That is
sound only if module-level code, `_info` and `__init__` read nothing else: no environment, no
files, no clock. This is a conservative look at the source: a name that might be such a read,
reachable from that code, makes the builder "impure", and it is then imported every time.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable
from pathlib import Path

_SUSPECTS = frozenset(
    "open environ getenv environb argv read_text read_bytes readlines readline iterdir listdir "
    "scandir glob iglob rglob walk exists is_file is_dir stat load loads_file loadtxt genfromtxt "
    "read_csv read_json read_table now today utcnow time time_ns perf_counter monotonic random "
    "randint choice shuffle default_rng uuid1 uuid4 urandom token_hex urlopen urlretrieve get_data "
    "resource_path files input gethostname node getuser system popen run check_output exec eval "
    "import_module __import__ names_file vocab_file cwd getcwd home expanduser platform".split()
)
_START = frozenset({"_info", "__init__", "__init_subclass__", "__new__"})


def reads_only_source(files: Iterable[str | Path]) -> bool:
    """Whether loading classes from these files depends on the files alone.

    Args:
        files: Python source files that the builder's code was found in.

    Returns:
        False when a file cannot be parsed or reachable code mentions a suspect name.
    """
    functions: dict[str, list[ast.AST]] = {}
    roots: list[ast.AST] = []
    for file in files:
        try:
            tree = ast.parse(Path(file).read_text(encoding="utf-8"))
        except (OSError, SyntaxError, ValueError):
            return False
        _sort(tree, functions, roots)
    seen: set[str] = set(_START)
    todo = roots + [each for name in _START for each in functions.get(name, ())]
    while todo:
        for name in _names(todo.pop()):
            if name in _SUSPECTS:
                return False
            if name not in seen:
                seen.add(name)
                todo.extend(functions.get(name, ()))
    return True


def _sort(tree: ast.AST, functions: dict[str, list[ast.AST]], roots: list[ast.AST]) -> None:
    """Splits a module into function bodies, by name, and the code that runs at import."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            functions.setdefault(node.name, []).append(node)
            roots.extend(node.decorator_list)
            roots.extend(node.args.defaults)
        elif isinstance(node, ast.Import | ast.ImportFrom):
            continue
        elif isinstance(node, ast.ClassDef | ast.If | ast.Try | ast.With):
            if isinstance(node, ast.ClassDef):
                roots.extend([*node.bases, *node.decorator_list])
            elif isinstance(node, ast.If):
                roots.append(node.test)
            elif isinstance(node, ast.With):
                roots.extend(item.context_expr for item in node.items)
            _sort(node, functions, roots)
        else:
            roots.append(node)


def _names(node: ast.AST) -> Iterable[str]:
    for each in ast.walk(node):
        if isinstance(each, ast.Name):
            yield each.id
        elif isinstance(each, ast.Attribute):
            yield each.attr
        elif isinstance(each, ast.keyword) and each.arg:
            yield each.arg
