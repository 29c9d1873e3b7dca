"""All datasets of a project: the tables of provender.toml, and of the files that it includes.

One bad table spoils no other: what cannot be read is told beside what can.
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from provender.errors import SettingsError
from provender.registry.entries import DatasetEntry, entry_of
from provender.registry.lines import line_of
from provender.registry.values import refuse_unknown, texts


@dataclass(frozen=True)
class Problem:
    """What is wrong with a part of the registry.

    Attributes:
        dataset: the dataset that it keeps from being built, or None for a whole file.
        file: where it stands.
        error: what is wrong; its ``where`` names file, line and table.
    """

    dataset: str | None
    file: Path | None
    error: SettingsError


@dataclass(frozen=True)
class Registry:
    """The datasets of a project.

    Attributes:
        entries: those that can be read, by name, in the order of the files.
        problems: what cannot be read.
        files: provender.toml and all that it includes.
    """

    entries: Mapping[str, DatasetEntry]
    problems: tuple[Problem, ...] = ()
    files: tuple[Path, ...] = ()


def read_registry(doc: Mapping[str, Any], path: Path | None) -> Registry:
    """Reads every table.

    Args:
        doc: the content of provender.toml.
        path: the file, or None where there is none.
    """
    entries: dict[str, DatasetEntry] = {}
    problems: list[Problem] = []
    files: list[Path] = [path] if path else []
    tables = doc.get("datasets", {})
    found: list[tuple[Path | None, Any]] = [(path, tables)]
    for file, content in _included(doc, path):
        files += [file] if file else []
        if isinstance(content, SettingsError):
            problems.append(Problem(None, file, content))
        else:
            found.append((file, content))
    for file, content in found:
        if not isinstance(content, dict):
            message = "[datasets] must hold one table a dataset."
            problems.append(Problem(None, file, SettingsError(message, where=str(file))))
            continue
        for name, table in content.items():
            try:
                if name in entries:
                    raise _twice(name, entries[name].file, file)
                base = file.parent.absolute() if file else Path.cwd()
                entries[name] = entry_of(name, table, file, base)
            except SettingsError as error:
                problems.append(Problem(name, file, placed(error, name, file)))
    for problem in problems:
        # Nobody knows which of two tables of one name is meant.
        entries.pop(problem.dataset or "", None)
    return Registry(entries, tuple(problems), tuple(files))


def _included(
    doc: Mapping[str, Any], path: Path | None
) -> Iterator[tuple[Path | None, dict[str, Any] | SettingsError]]:
    """The files that ``include`` names, in order, each with its ``[datasets]`` or its error."""
    if "include" not in doc or path is None:
        return
    try:
        patterns = texts("include", doc["include"], str(path))
    except SettingsError as error:
        yield path, error
        return
    seen = {path.absolute()}
    for pattern in patterns:
        files = sorted(path.parent.absolute().glob(pattern))
        if not files and not set("*?[") & set(pattern):
            message = f"include names {pattern!r}, which is not there."
            yield path, SettingsError(message, where=str(path), facts={"key": "include"})
        for file in files:
            if file not in seen and file.is_file():
                seen.add(file)
                yield file, _tables(file)


def _tables(file: Path) -> dict[str, Any] | SettingsError:
    try:
        doc = tomllib.loads(file.read_text(encoding="utf-8"))
        refuse_unknown(doc, ("datasets",), str(file))
    except SettingsError as error:
        return error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError, OSError) as error:
        message = f"{file.name} cannot be read as TOML: {error}"
        return SettingsError(message, where=str(file), hint="Mend the line named above.")
    tables: dict[str, Any] = doc.get("datasets", {})
    return tables


def _twice(name: str, first: Path | None, second: Path | None) -> SettingsError:
    message = f"Dataset {name!r} is defined in {first} and in {second}."
    return SettingsError(message, where=f"{second}, [datasets.{name}]", hint="Rename one of them.")


def placed(error: SettingsError, name: str, file: Path | None) -> SettingsError:
    """The same error, with the line that it stands in.

    Args:
        error: ``where`` begins with the file and the table, ``facts['key']`` may name a key.
        name: the dataset.
        file: where its table stands.
    """
    if file is None or error.where is None:
        return error
    table: tuple[str, ...] = ("datasets", name)
    for part in ("checks", "airflow", "prefect"):
        if error.where.startswith(f"{file}, [datasets.{name}.{part}]"):
            table = (*table, part)
    line = line_of(file.read_text(encoding="utf-8"), table, error.facts.get("key"))
    if line is None:
        return error
    where = error.where.replace(f"{file},", f"{file}, line {line},", 1)
    facts = {**error.facts, "line": line}
    return SettingsError(error.message, where=where, hint=error.hint, facts=facts)
