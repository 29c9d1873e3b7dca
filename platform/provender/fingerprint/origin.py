"""Where code comes from: the user's own files, an installed distribution, or Python itself.

User code counts by content, installed code by distribution and version, the standard library by
name alone (a fingerprint survives a change of the Python version). What decides is the file: it
is installed when it lies below a folder with ``*.dist-info`` entries, one of which claims it in
its RECORD or top_level.txt. An editable install has its metadata in one place and its files in
another, and therefore counts as user code.
Formats: https://packaging.python.org/specifications/recording-installed-packages/
"""

from __future__ import annotations

import os
import sys
from functools import lru_cache
from types import ModuleType
from typing import Final, NamedTuple


class Origin(NamedTuple):
    """One place that code comes from; ``name`` and ``version`` are those of a distribution."""

    kind: str
    name: str = ""
    version: str = ""

    @property
    def is_user(self) -> bool:
        """Whether the code counts by content."""
        return self.kind == "user"


USER: Final = Origin("user")
PYTHON: Final = Origin("python")

_STDLIB: Final = os.path.dirname(os.path.abspath(os.__file__)) + os.sep
_METADATA: Final = (".dist-info", ".egg-info")
_SITE: Final = ("site-packages", "dist-packages")
_OWN: Final = os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep
_OWN_BY_CONTENT: Final = os.path.join(_OWN, "builders") + os.sep

_files: dict[str, Origin] = {}
_claims: dict[tuple[str, tuple[str, ...], tuple[str, ...]], Origin | None] = {}
_listings: dict[str, tuple[float, tuple[str, ...]]] = {}


def of_file(filename: str) -> Origin:
    """The origin of a source or extension file; ``<...>`` names count as user code.

    Args:
        filename: as in ``code.co_filename`` or ``module.__file__``.
    """
    known = _files.get(filename)
    if known is None:
        known = _files[filename] = _of_file(filename)
    return known


def _of_file(filename: str) -> Origin:
    if filename.startswith("<"):
        return PYTHON if filename.startswith("<frozen ") else USER
    path = os.path.abspath(filename)
    if path.startswith(_OWN) and not path.startswith(_OWN_BY_CONTENT):
        return _own()
    parts = path.replace(os.sep, "/").split("/")
    for at in range(len(parts) - 2, 0, -1):
        if parts[at] in _SITE:
            root = "/".join(parts[: at + 1])
            return _claim(root, "/".join(parts[at + 1 :])) or USER
    if path.startswith(_STDLIB):
        return PYTHON
    for entry in sys.path:
        root = os.path.abspath(entry or os.curdir)
        if path.startswith(root + os.sep) and _dist_infos(root):
            found = _claim(root, path[len(root) + 1 :].replace(os.sep, "/"))
            if found:
                return found
    return USER


def of_module(module: ModuleType) -> Origin:
    """The origin of a module; namespace packages are judged by their first folder."""
    names = module.__dict__
    filename = names.get("__file__")
    if not isinstance(filename, str):
        spec = names.get("__spec__")
        filename = getattr(spec, "origin", None)
        if filename in ("built-in", "frozen"):
            return PYTHON
        if not isinstance(filename, str):
            folder = next(iter(names.get("__path__") or ()), None)
            if folder is None and type(module) is not ModuleType:
                # A lazy stand-in that a library put into its namespace.
                return of_module_name(type(module).__module__)
            if folder is None:
                return PYTHON if module.__name__ in sys.builtin_module_names else USER
            filename = os.path.join(folder, "__init__.py")
    return of_file(filename)


def of_module_name(name: str | None) -> Origin:
    """The origin of an imported module by name; unknown names count as user code."""
    module = sys.modules.get(name or "")
    if module is None:
        return PYTHON if name in sys.builtin_module_names else USER
    if not isinstance(module, ModuleType):
        return USER
    return of_module(module)


@lru_cache(maxsize=1)
def _own() -> Origin:
    from importlib.metadata import PackageNotFoundError, version

    try:
        return Origin("installed", "provender", version("provender"))
    except PackageNotFoundError:
        return Origin("installed", "provender", "0")


def _dist_infos(root: str) -> tuple[str, ...]:
    """Names of the metadata entries below ``root``, listed again when the folder changes."""
    try:
        changed = os.stat(root).st_mtime
    except OSError:
        return ()
    known = _listings.get(root)
    if known is None or known[0] != changed:
        try:
            names = tuple(sorted(e.name for e in os.scandir(root) if e.name.endswith(_METADATA)))
        except OSError:
            names = ()
        if not root.endswith(_SITE):
            # An egg-info beside its sources is what a legacy editable install leaves.
            names = tuple(n for n in names if n.endswith(".dist-info"))
        _listings[root] = known = (changed, names)
    return known[1]


def _claim(root: str, relative: str) -> Origin | None:
    """The distribution below ``root`` that lists the file, if any.

    Several distributions may share a package (google, airflow), so files are told apart by their
    first two folders; within those, by who lists the first file that was asked for.
    """
    key = (root, _dist_infos(root), tuple(relative.split("/")[:3]))
    if key not in _claims:
        _claims[key] = _find_claim(*key[:2], relative)
    return _claims[key]


def _find_claim(root: str, infos: tuple[str, ...], relative: str) -> Origin | None:
    top = relative.split("/", 1)[0]
    stem = top.split(".", 1)[0]
    alike = stem.lower().replace("-", "_")
    shared = "/" in relative and not os.path.exists(os.path.join(root, top, "__init__.py"))
    fallback: Origin | None = None
    for info in sorted(infos, key=lambda name: not name.lower().startswith(alike)):
        path = os.path.join(root, info)
        record = "\n" + (
            _read(os.path.join(path, "RECORD")) or _read(os.path.join(path, "installed-files.txt"))
        )
        if f"\n{relative}," in record:
            return _named(path)
        claims = f"\n{stem}/" in record if len(record) > 1 else _has_top(path, stem)
        if fallback is None and claims and not shared:
            fallback = _named(path)
    return fallback


def _has_top(info: str, stem: str) -> bool:
    return stem in _read(os.path.join(info, "top_level.txt")).split()


def _named(info: str) -> Origin:
    name, _, version = os.path.basename(info).rsplit(".", 1)[0].partition("-")
    commit = _commit(info)
    version = version.split("-py", 1)[0]
    return Origin("installed", name.lower().replace("_", "-"), version + commit)


def _commit(info: str) -> str:
    """`` @<commit>`` of an installation from version control, whose version may stand still."""
    text = _read(os.path.join(info, "direct_url.json"))
    if "vcs_info" not in text:
        return ""
    import json

    return " @" + str(json.loads(text)["vcs_info"].get("commit_id", ""))[:12]


def _read(path: str) -> str:
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            return file.read()
    except OSError:
        return ""
