"""Where the catalog, the store and the datasets of a project are, and how that is said.

Sources, strongest first: command-line options, ``PROVENDER_*`` environment variables,
``provender.toml`` in the working directory or the nearest folder above it, defaults. Relative
paths in the file are relative to the file; elsewhere they are relative to the working directory.

Plain dataclasses rather than pydantic-settings: its import alone costs half of what a rerun with
nothing to do may take (docs/decisions.md).
"""

from __future__ import annotations

import difflib
import os
import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

from provender.errors import SettingsError

FILE_NAME = "provender.toml"
_URL = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+://")
_ENVIRONMENT = (
    "catalog",
    "store",
    "scratch",
    "manual_dir",
    "workers",
    "offline",
    "home",
    "cache",
    "cache_limit",
)
_SIZE = re.compile(r"(?P<number>\d+(?:\.\d+)?)\s*(?P<unit>[kmgt]?)(?P<binary>i?)b?", re.IGNORECASE)
_NO_LIMIT = ("none", "unlimited")
CACHE_LIMIT = 50 << 30
"""Bytes that the transform cache may hold where nothing is said."""


@dataclass(frozen=True)
class Checks:
    """One ``[datasets.NAME.checks]`` table: what a version must be to be published.

    A rule for one number holds for all; a table gives numbers by name, ``"*"`` the rest.

    Attributes:
        min_examples: split -> fewest examples; ``"*"`` means the whole version.
        max_examples: split -> most examples; likewise.
        label_balance: feature -> least ratio of the rarest class to the most common one.
        max_drift: feature -> most drift from the version published before, 0 to 1.
        no_empty: features that may not be missing, empty or NaN; ``"*"`` means all.
        functions: name -> ``module:function`` or ``file.py:function`` of the project's own checks.
    """

    min_examples: Mapping[str, float] = field(default_factory=dict)
    max_examples: Mapping[str, float] = field(default_factory=dict)
    label_balance: Mapping[str, float] = field(default_factory=dict)
    max_drift: Mapping[str, float] = field(default_factory=dict)
    no_empty: tuple[str, ...] = ()
    functions: Mapping[str, str] = field(default_factory=dict)

    @property
    def names(self) -> tuple[str, ...]:
        """The checks that are asked for."""
        fixed = ("min_examples", "max_examples", "label_balance", "max_drift", "no_empty")
        return (*(name for name in fixed if getattr(self, name)), *self.functions)


@dataclass(frozen=True)
class DatasetEntry:
    """One ``[datasets.NAME]`` table of provender.toml: how a name is built.

    Attributes:
        builder: ``module:Class``, ``file.py:Class`` or a registered TFDS name; empty where
            the name is known without it: shipped, TFDS's, or built by path.
        config: builder config name.
        version: version to build.
        manual_dir: folder of the manual files of this dataset alone.
        num_shards: shards per split, or None for the TFDS policy.
        kwargs: keyword arguments of the builder's constructor.
        allow_empty: whether splits without examples may be published.
        key: feature that tells the same example in two versions; `diff` matches by it.
        checks: what a version must be to be published, or None.
    """

    builder: str = ""
    config: str | None = None
    version: str | None = None
    manual_dir: str | None = None
    num_shards: int | None = None
    allow_empty: bool = False
    kwargs: Mapping[str, Any] = field(default_factory=dict)
    key: str | None = None
    checks: Checks | None = None


@dataclass(frozen=True)
class Settings:
    """The resolved settings of one process.

    Attributes:
        store: local folder or fsspec URL that holds all bytes.
        catalog: SQLAlchemy URL of the catalog database.
        home: local folder for what is worth keeping between runs but can be made again.
        scratch: local folder for work in progress when the store is remote.
        manual_dir: folder of manual files; a dataset's own subfolder is looked at first.
        workers: local worker processes.
        cache: local folder of the transform cache.
        cache_limit: bytes that it may hold, or None for no limit.
        offline: never touch the network.
        mirrors: URL prefix -> replacement prefixes, tried in order before the original.
        datasets: names defined by the project.
        path: the provender.toml read, or None.
    """

    store: str
    catalog: str
    home: Path
    scratch: Path
    manual_dir: Path
    workers: int
    cache: Path
    cache_limit: int | None = CACHE_LIMIT
    offline: bool = False
    mirrors: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    datasets: Mapping[str, DatasetEntry] = field(default_factory=dict)
    path: Path | None = None


def load_settings(
    *,
    store: str | None = None,
    catalog: str | None = None,
    file: str | Path | None = None,
    cwd: str | Path | None = None,
    environ: Mapping[str, str] | None = None,
) -> Settings:
    """Reads and merges all sources.

    Args:
        store: the ``--store`` option.
        catalog: the ``--catalog`` option.
        file: a provender.toml to read instead of the nearest one.
        cwd: working directory, by default the process's.
        environ: environment, by default the process's.

    Returns:
        Complete settings; nothing is created on disk.

    Raises:
        SettingsError: a key is unknown, a value has the wrong type, or the file is not TOML.
    """
    environ = os.environ if environ is None else environ
    here = Path(cwd or Path.cwd()).absolute()
    path = Path(file) if file else _nearest(here)
    doc = _read(path) if path else {}
    base = path.parent.absolute() if path else here
    env = {
        k: environ[f"PROVENDER_{k.upper()}"]
        for k in _ENVIRONMENT
        if environ.get(f"PROVENDER_{k.upper()}")
    }

    def pick(key: str, option: str | None = None) -> tuple[Any, Path]:
        if option is not None:
            return option, here
        if key in env:
            return env[key], here
        return doc.get(key), base

    home = _folder(*pick("home")) or Path(environ.get("HOME") or Path.home()) / "provender"
    store_url = _place(*pick("store", store)) or str(home)
    return Settings(
        store=store_url,
        catalog=_catalog(*pick("catalog", catalog), store=store_url, home=home),
        home=home,
        scratch=_folder(*pick("scratch")) or home / "scratch",
        manual_dir=_folder(*pick("manual_dir"))
        or (Path(store_url) if _is_local(store_url) else home) / "manual",
        workers=_count("workers", pick("workers")[0]),
        cache=_cache(*pick("cache"))
        or (Path(store_url) if _is_local(store_url) else home) / "cache",
        cache_limit=_limit(pick("cache_limit")[0]),
        offline=_flag("offline", pick("offline")[0]),
        mirrors=_mirrors(doc.get("mirrors", {}), path),
        datasets=_datasets(doc.get("datasets", {}), base, path),
        path=path,
    )


def surroundings() -> tuple[str | None, ...]:
    """What the settings of this process depend on, besides the file: cheap to compare."""
    names = ("HOME", *(f"PROVENDER_{each.upper()}" for each in _ENVIRONMENT))
    return (os.getcwd(), *map(os.environ.get, names))  # noqa: PTH109


def _is_local(url: str) -> bool:
    return not _URL.match(url)


def _nearest(folder: Path) -> Path | None:
    for each in (folder, *folder.parents):
        if (each / FILE_NAME).is_file():
            return each / FILE_NAME
    return None


_KNOWN = (
    "store",
    "catalog",
    "home",
    "scratch",
    "manual_dir",
    "workers",
    "cache",
    "cache_limit",
    "offline",
    "mirrors",
    "datasets",
)


def _read(path: Path) -> dict[str, Any]:
    try:
        doc = tomllib.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        message = f"There is no settings file {path}."
        raise SettingsError(message, where=str(path), hint="`provender init` writes one.") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        message = f"{path.name} is not valid TOML: {error}"
        raise SettingsError(message, where=str(path), hint="Mend the line named above.") from error
    _refuse_unknown(doc, _KNOWN, str(path))
    return doc


def _refuse_unknown(doc: Mapping[str, Any], known: tuple[str, ...], where: str) -> None:
    for key in doc:
        if key not in known:
            near = difflib.get_close_matches(key, known, 1)
            hint = f"Did you mean {near[0]!r}?" if near else f"Known keys: {', '.join(known)}."
            message = f"Unknown key {key!r}."
            raise SettingsError(message, where=where, hint=hint)


def _folder(value: Any, base: Path) -> Path | None:
    if value in (None, ""):
        return None
    return base / Path(str(value)).expanduser()


def _cache(value: Any, base: Path) -> Path | None:
    if value and not _is_local(str(value)):
        message = f"cache must be a local folder, got {value!r}."
        raise SettingsError(message, where="cache", hint="Name a folder on a disk of this machine.")
    return _folder(value, base)


def _place(value: Any, base: Path) -> str | None:
    """A store: an fsspec URL as it is, a local path made absolute."""
    if value in (None, ""):
        return None
    text = str(value)
    if text.startswith("file://"):
        return text.removeprefix("file://")
    return text if _URL.match(text) else str(_folder(text, base))


def _catalog(value: Any, base: Path, *, store: str, home: Path) -> str:
    if value in (None, ""):
        folder = Path(store) if _is_local(store) else home
        return f"sqlite:///{folder / 'catalog.db'}"
    text = str(value)
    if text.startswith("sqlite:///") and not text.startswith("sqlite:////"):
        return f"sqlite:///{_folder(text.removeprefix('sqlite:///'), base)}"
    return text if _URL.match(text) else f"sqlite:///{_folder(text, base)}"


def _count(key: str, value: Any) -> int:
    if value in (None, ""):
        return max(
            1,
            len(os.sched_getaffinity(0))
            if hasattr(os, "sched_getaffinity")
            else os.cpu_count() or 1,
        )
    try:
        number = int(value)
    except (TypeError, ValueError):
        number = 0
    if number < 1:
        message = f"{key} must be a whole number of 1 or more, got {value!r}."
        raise SettingsError(message, where=key)
    return number


def parse_size(text: str) -> int | None:
    """A number of bytes: ``20GB`` (powers of 1000), ``20GiB`` (of 1024), ``5000``; None if it is none."""
    found = _SIZE.fullmatch(text.strip())
    if found is None or (found["binary"] and not found["unit"]):
        return None
    step = 1024 if found["binary"] else 1000
    power = " kmgt".index(found["unit"].lower() or " ")
    return int(float(found["number"]) * step**power)


def _limit(value: Any) -> int | None:
    if value in (None, ""):
        return CACHE_LIMIT
    text = str(value).strip().lower()
    if text in _NO_LIMIT:
        return None
    size = None if isinstance(value, bool) else parse_size(text)
    if size is None:
        raise SettingsError(
            f"cache_limit must be a size, got {value!r}.",
            where="cache_limit",
            hint='Write "20GB", "500 MiB", a number of bytes, or "none".',
        )
    return size


def _flag(key: str, value: Any) -> bool:
    if isinstance(value, bool) or value is None:
        return bool(value)
    text = str(value).lower()
    if text not in ("1", "true", "yes", "on", "0", "false", "no", "off", ""):
        message = f"{key} must be true or false, got {value!r}."
        raise SettingsError(message, where=key)
    return text in ("1", "true", "yes", "on")


def _mirrors(doc: Any, path: Path | None) -> dict[str, tuple[str, ...]]:
    if not isinstance(doc, dict):
        message = "[mirrors] must map a URL prefix to one or more replacements."
        raise SettingsError(message, where=str(path))
    return {k: tuple([v] if isinstance(v, str) else v) for k, v in doc.items()}


_OF_BUILDER = {"builder", "config", "version", "kwargs"}
"""Keys of a dataset's table that say how it is made; the others hold however it is."""


def _datasets(doc: Any, base: Path, path: Path | None) -> dict[str, DatasetEntry]:
    if not isinstance(doc, dict):
        message = "[datasets] must hold one table a dataset."
        raise SettingsError(message, where=str(path))
    known = tuple(f.name for f in fields(DatasetEntry))
    found = {}
    for name, table in doc.items():
        where = f"{path}, [datasets.{name}]"
        # Shipped and TFDS's datasets, and those built by path, have a builder without it.
        required = not isinstance(table, dict) or not table or set(table) & _OF_BUILDER
        if required and not (isinstance(table, dict) and isinstance(table.get("builder"), str)):
            message = f"Dataset {name!r} needs a table with a `builder`."
            raise SettingsError(message, where=where, hint='builder = "package.module:Class"')
        _refuse_unknown(table, known, where)
        found[name] = _entry(table, base, where)
    return found


def _entry(table: dict[str, Any], base: Path, where: str) -> DatasetEntry:
    builder = table.get("builder", "")
    file, colon, attr = builder.rpartition(":")
    if colon and file.endswith(".py"):
        builder = f"{_folder(file, base)}:{attr}"
    manual = _folder(table.get("manual_dir"), base)
    checks = _checks(table["checks"], f"{where[:-1]}.checks]") if "checks" in table else None
    return DatasetEntry(
        **{
            **table,
            "builder": builder,
            "manual_dir": str(manual) if manual else None,
            "checks": checks,
        }
    )


_RULES = ("min_examples", "max_examples", "label_balance", "max_drift")
_CHECKS = (*_RULES, "no_empty", "function")


def _checks(doc: Any, where: str) -> Checks:
    if not isinstance(doc, dict):
        message = "The checks of a dataset are a table."
        raise SettingsError(message, where=where, hint="[datasets.NAME.checks]")
    _refuse_unknown(doc, _CHECKS, where)
    rules = {name: _rule(name, doc[name], where) for name in _RULES if name in doc}
    return Checks(
        **rules,
        no_empty=_no_empty(doc.get("no_empty", False), where),
        functions=_functions(doc.get("function", ()), where),
    )


def _rule(name: str, value: Any, where: str) -> dict[str, float]:
    """A number for all, or numbers by name."""
    table = value if isinstance(value, dict) else {"*": value}
    most = 1 if name in ("label_balance", "max_drift") else None
    for key, number in table.items():
        good = isinstance(number, (int, float)) and not isinstance(number, bool)
        if not good or number < 0 or (most is not None and number > most):
            span = "from 0 to 1" if most else "of 0 or more"
            message = f"{name} must be a number {span}, or a table of such, got {number!r}."
            at = f"{where}, {name}" + ("" if key == "*" else f".{key}")
            raise SettingsError(message, where=at)
    return dict(table)


def _no_empty(value: Any, where: str) -> tuple[str, ...]:
    if isinstance(value, bool):
        return ("*",) if value else ()
    if isinstance(value, list) and all(isinstance(each, str) for each in value):
        return tuple(value)
    message = f"no_empty must be true, false or a list of features, got {value!r}."
    raise SettingsError(message, where=f"{where}, no_empty")


def _functions(value: Any, where: str) -> dict[str, str]:
    """Function name -> where it is."""
    sources = [value] if isinstance(value, str) else value
    if not isinstance(sources, (list, tuple)) or not all(
        isinstance(each, str) and ":" in each for each in sources
    ):
        message = f"function must be one or more texts like 'checks.py:my_check', got {value!r}."
        raise SettingsError(message, where=f"{where}, function")
    found = {each.rpartition(":")[2]: each for each in sources}
    clash = sorted(set(found) & set(_CHECKS))
    if len(found) != len(sources) or clash:
        message = "Checks need names of their own; these functions share one."
        hint = f"Rename {clash[0]}." if clash else "Rename one of them."
        raise SettingsError(message, where=f"{where}, function", hint=hint)
    return found
