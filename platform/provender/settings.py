"""Where the catalog, the store and the datasets of a project are, and how that is said.

Sources, strongest first: command-line options, ``PROVENDER_*`` environment variables,
``provender.toml`` in the working directory or the nearest folder above it, defaults. Relative
paths in the file are relative to the file; elsewhere they are relative to the working directory.

Plain dataclasses rather than pydantic-settings: its import alone costs half of what a rerun with
nothing to do may take (docs/decisions.md).
"""

from __future__ import annotations

import os
import re
import tomllib
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

from provender.errors import SettingsError
from provender.registry import Checks as Checks
from provender.registry import DatasetEntry as DatasetEntry
from provender.registry import read_registry
from provender.registry.values import folder, refuse_unknown

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
class BeamSettings:
    """The ``[beam]`` table: how pipelines of Apache Beam run.

    Attributes:
        python: the Python that has Beam and Provender, or None for the one that runs this.
        runner: Beam's runner.
        options: Beam's pipeline options by name; ``true`` stands for a flag, ``false`` for none.
    """

    python: str | None = None
    runner: str = "DirectRunner"
    options: Mapping[str, str] = field(default_factory=dict)

    def of_pipelines(self) -> dict[str, Any]:
        """What a pipeline is made with, JSON-ready."""
        return {"runner": self.runner, "options": dict(self.options)}


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
        beam: how pipelines of Apache Beam run.
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
    beam: BeamSettings = field(default_factory=BeamSettings)
    path: Path | None = None


def load_settings(
    *,
    store: str | None = None,
    catalog: str | None = None,
    file: str | Path | None = None,
    cwd: str | Path | None = None,
    environ: Mapping[str, str] | None = None,
    only: Collection[str] | None = None,
) -> Settings:
    """Reads and merges all sources.

    Args:
        store: the ``--store`` option.
        catalog: the ``--catalog`` option.
        file: a provender.toml to read instead of the nearest one.
        cwd: working directory, by default the process's.
        environ: environment, by default the process's.
        only: names of datasets whose tables must make sense; another one that does not is left
            out. By default all of them must.

    Returns:
        Complete settings; nothing is created on disk.

    Raises:
        SettingsError: a key is unknown, a value has the wrong type, or the file is not TOML.
    """
    environ = os.environ if environ is None else environ
    here = Path(cwd or Path.cwd()).absolute()
    path = Path(file) if file else _nearest(here)
    doc = read_file(path) if path else {}
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

    home = folder(*pick("home")) or Path(environ.get("HOME") or Path.home()) / "provender"
    store_url = _place(*pick("store", store)) or str(home)
    return Settings(
        store=store_url,
        catalog=_catalog(*pick("catalog", catalog), store=store_url, home=home),
        home=home,
        scratch=folder(*pick("scratch")) or home / "scratch",
        manual_dir=folder(*pick("manual_dir"))
        or (Path(store_url) if _is_local(store_url) else home) / "manual",
        workers=_count("workers", pick("workers")[0]),
        cache=_cache(*pick("cache"))
        or (Path(store_url) if _is_local(store_url) else home) / "cache",
        cache_limit=_limit(pick("cache_limit")[0]),
        offline=_flag("offline", pick("offline")[0]),
        mirrors=_mirrors(doc.get("mirrors", {}), path),
        datasets=_datasets(doc, path, only),
        beam=_beam(doc.get("beam", {}), base, str(path)),
        path=path,
    )


def surroundings() -> tuple[str | None, ...]:
    """What the settings of this process depend on, besides the file: cheap to compare."""
    names = ("HOME", *(f"PROVENDER_{each.upper()}" for each in _ENVIRONMENT))
    return (os.getcwd(), *map(os.environ.get, names))  # noqa: PTH109


def _is_local(url: str) -> bool:
    return not _URL.match(url)


def _nearest(start: Path) -> Path | None:
    for each in (start, *start.parents):
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
    "include",
    "beam",
)


def read_file(path: Path) -> dict[str, Any]:
    """The content of a provender.toml; its keys are known, its values are not looked at.

    Raises:
        SettingsError: it is not there, is not TOML, or holds an unknown key.
    """
    try:
        doc = tomllib.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        message = f"There is no settings file {path}."
        raise SettingsError(message, where=str(path), hint="`provender init` writes one.") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        message = f"{path.name} is not valid TOML: {error}"
        raise SettingsError(message, where=str(path), hint="Mend the line named above.") from error
    refuse_unknown(doc, _KNOWN, str(path))
    return doc


def _cache(value: Any, base: Path) -> Path | None:
    if value and not _is_local(str(value)):
        message = f"cache must be a local folder, got {value!r}."
        raise SettingsError(message, where="cache", hint="Name a folder on a disk of this machine.")
    return folder(value, base)


def _place(value: Any, base: Path) -> str | None:
    """A store: an fsspec URL as it is, a local path made absolute."""
    if value in (None, ""):
        return None
    text = str(value)
    if text.startswith("file://"):
        return text.removeprefix("file://")
    return text if _URL.match(text) else str(folder(text, base))


def _catalog(value: Any, base: Path, *, store: str, home: Path) -> str:
    if value in (None, ""):
        place = Path(store) if _is_local(store) else home
        return f"sqlite:///{place / 'catalog.db'}"
    text = str(value)
    if text.startswith("sqlite:///") and not text.startswith("sqlite:////"):
        return f"sqlite:///{folder(text.removeprefix('sqlite:///'), base)}"
    return text if _URL.match(text) else f"sqlite:///{folder(text, base)}"


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


def _beam(doc: Any, base: Path, where: str) -> BeamSettings:
    where = f"{where}, [beam]"
    if not isinstance(doc, dict) or not isinstance(doc.get("options", {}), dict):
        message = "[beam] holds python, runner, and a table of options."
        raise SettingsError(message, where=where)
    refuse_unknown(doc, tuple(f.name for f in fields(BeamSettings)), where)
    python = doc.get("python")
    options = {
        name: str(value).lower() if isinstance(value, bool) else str(value)
        for name, value in doc.get("options", {}).items()
    }
    return BeamSettings(
        # The links in an environment's bin are what tells its Python where it is: not resolved.
        python=str(folder(python, base)) if python else None,
        runner=str(doc.get("runner") or "DirectRunner"),
        options=options,
    )


def _datasets(
    doc: Mapping[str, Any], path: Path | None, only: Collection[str] | None
) -> Mapping[str, DatasetEntry]:
    registry = read_registry(doc, path)
    for problem in registry.problems:
        if only is None or problem.dataset is None or problem.dataset in only:
            raise problem.error
    return registry.entries
