"""One ``[datasets.NAME]`` table: a name of the project, and what holds for it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

from provender.errors import SettingsError
from provender.partitions import check_grain
from provender.registry.dag import DagSettings, dag_settings
from provender.registry.deployment import DeploymentSettings, deployment_settings
from provender.registry.values import folder, refuse_unknown


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
        partition: the piece of time that each of its configs is, e.g. ``day``; None for a dataset
            that is not cut by time. See `provender.partitions`.
        airflow: how its DAG is scheduled, or None for the usual way.
        prefect: how its deployment is scheduled, or None for the usual way.
        file: the file that says all this, or None.
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
    partition: str | None = None
    airflow: DagSettings | None = None
    prefect: DeploymentSettings | None = None
    file: Path | None = None


_OF_BUILDER = {"builder", "config", "version", "kwargs"}
"""Keys of a dataset's table that say how it is made; the others hold however it is."""


_KNOWN = tuple(each.name for each in fields(DatasetEntry) if each.name != "file")


def entry_of(name: str, table: Any, path: Path | None, base: Path) -> DatasetEntry:
    """Reads one table.

    Args:
        name: the dataset.
        table: what the file holds under its name.
        path: the file, or None.
        base: folder that its relative paths start from.

    Raises:
        SettingsError: a key is unknown, or a value makes no sense; ``facts`` names the key.
    """
    where = f"{path}, [datasets.{name}]"
    # Shipped and TFDS's datasets, and those built by path, have a builder without it.
    required = not isinstance(table, dict) or not table or set(table) & _OF_BUILDER
    if required and not (isinstance(table, dict) and isinstance(table.get("builder"), str)):
        message = f"Dataset {name!r} needs a table with a `builder`."
        raise SettingsError(message, where=where, hint='builder = "package.module:Class"')
    refuse_unknown(table, _KNOWN, where)
    builder = table.get("builder", "")
    file, colon, attr = builder.rpartition(":")
    if colon and file.endswith(".py"):
        builder = f"{folder(file, base)}:{attr}"
    manual = folder(table.get("manual_dir"), base)
    read: dict[str, Any] = {**table, "builder": builder, "file": path}
    read["manual_dir"] = str(manual) if manual else None
    if "checks" in table:
        read["checks"] = _checks(table["checks"], f"{where[:-1]}.checks]")
    if "partition" in table:
        check_grain(table["partition"], where)
    if "airflow" in table:
        read["airflow"] = dag_settings(table["airflow"], f"{where[:-1]}.airflow]")
    if "prefect" in table:
        read["prefect"] = deployment_settings(table["prefect"], f"{where[:-1]}.prefect]")
    return DatasetEntry(**read)


_RULES = ("min_examples", "max_examples", "label_balance", "max_drift")
_CHECKS = (*_RULES, "no_empty", "function")


def _checks(doc: Any, where: str) -> Checks:
    if not isinstance(doc, dict):
        message = "The checks of a dataset are a table."
        raise SettingsError(message, where=where, hint="[datasets.NAME.checks]")
    refuse_unknown(doc, _CHECKS, where)
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
