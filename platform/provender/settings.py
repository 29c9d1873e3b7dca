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
_ENVIRONMENT = ("catalog", "store", "scratch", "manual_dir", "workers", "offline", "home")


@dataclass(frozen=True)
class DatasetEntry:
    """One ``[datasets.NAME]`` table of provender.toml: how a name is built.

    Attributes:
        builder: ``module:Class``, ``file.py:Class`` or a registered TFDS name.
        config: builder config name.
        version: version to build.
        manual_dir: folder of the manual files of this dataset alone.
        num_shards: shards per split, or None for the TFDS policy.
        kwargs: keyword arguments of the builder's constructor.
        allow_empty: whether splits without examples may be published.
    """

    builder: str
    config: str | None = None
    version: str | None = None
    manual_dir: str | None = None
    num_shards: int | None = None
    allow_empty: bool = False
    kwargs: Mapping[str, Any] = field(default_factory=dict)


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
        offline=_flag("offline", pick("offline")[0]),
        mirrors=_mirrors(doc.get("mirrors", {}), path),
        datasets=_datasets(doc.get("datasets", {}), base, path),
        path=path,
    )


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


def _datasets(doc: Any, base: Path, path: Path | None) -> dict[str, DatasetEntry]:
    if not isinstance(doc, dict):
        message = "[datasets] must hold one table a dataset."
        raise SettingsError(message, where=str(path))
    known = tuple(f.name for f in fields(DatasetEntry))
    found = {}
    for name, table in doc.items():
        where = f"{path}, [datasets.{name}]"
        if not isinstance(table, dict) or not isinstance(table.get("builder"), str):
            message = f"Dataset {name!r} needs a table with a `builder`."
            raise SettingsError(message, where=where, hint='builder = "package.module:Class"')
        _refuse_unknown(table, known, where)
        found[name] = _entry(table, base)
    return found


def _entry(table: dict[str, Any], base: Path) -> DatasetEntry:
    builder = table["builder"]
    file, colon, attr = builder.rpartition(":")
    if colon and file.endswith(".py"):
        builder = f"{_folder(file, base)}:{attr}"
    manual = _folder(table.get("manual_dir"), base)
    return DatasetEntry(
        **{**table, "builder": builder, "manual_dir": str(manual) if manual else None}
    )
