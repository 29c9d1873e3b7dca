"""Constructor arguments that stand for files, versions and folders: found, and counted by content.

See `provender.builders.meanings`. The builder is not imported for it, so a rerun with nothing to do
still takes a look at some files and at the catalog only.
"""

from __future__ import annotations

import glob
import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from provender.builders.meanings import FILE, FOLDER, VERSION
from provender.errors import MissingFiles, UnknownReference
from provender.fingerprint import Tree, combine
from provender.refs import DatasetRef

if TYPE_CHECKING:
    from provender.catalog import ShardRecord, VersionRecord
    from provender.engine.session import Session


_TOLD_APART = 256
"""Files of a folder up to which a reason for a rerun says which of them changed."""


def resolve(session: Session) -> None:
    """Puts what arguments stand for into a session's fingerprints, parents and workplace.

    `Session.facts` keeps the arguments as people would write them, with absolute paths and numbers
    instead of aliases, so that another process means the same; the builder of the workplace gets
    what they stand for.

    Args:
        session: just opened; changed here.

    Raises:
        MissingFiles: an argument names no file, or no folder with files.
        UnknownReference: an argument names no published version.
    """
    facts = session.facts
    written, live = dict(facts.spec.kwargs), dict(facts.spec.kwargs)
    contents: dict[str, dict[str, str]] = {}
    for name, kind in facts.arguments.items():
        value = written.get(name)
        if not value:
            continue
        if kind == FILE:
            written[name] = _absolute(value, _base(session))
            live[name] = _files(name, written[name])
            contents[name] = _contents(session, name, live[name])
        elif kind == FOLDER:
            written[name] = live[name] = _absolute(value, _base(session))
            contents[name] = {
                label: content
                for key, folder in _labelled(name, written[name])
                for label, content in _folder(session, key, folder).items()
            }
        elif kind == VERSION:
            found = {key: _version(session, key, each) for key, each in _labelled(name, value)}
            written[name] = _as_given(value, [each.name for each in found.values()])
            live[name] = _as_given(value, [_place(session, each) for each in found.values()])
            contents[name] = {k: f"{each.name} {each.fingerprint}" for k, each in found.items()}
            ids = tuple(dict.fromkeys(each.id for each in found.values()))
            session.parents = (*session.parents, *ids)
            session.sources = (*session.sources, *ids)
    steps = {
        step: replace(each, setting=_with_contents(each.setting, contents, each.arguments))
        for step, each in facts.steps.items()
    }
    setting = _with_contents(facts.setting, contents, tuple(contents))
    spec = replace(facts.spec, kwargs=written)
    session.facts = replace(facts, setting=setting, steps=steps, spec=spec)
    session.work.site = replace(session.work.site, spec=replace(facts.spec, kwargs=live))


def _with_contents(
    setting: Tree, contents: Mapping[str, Mapping[str, str]], names: Sequence[str]
) -> Tree:
    """A setting that counts what some arguments stand for, too."""
    found = {label: value for name in names for label, value in contents.get(name, {}).items()}
    return combine("setting", {"setting": setting, **found}) if found else setting


def _base(session: Session) -> Path:
    """The folder that relative paths start from."""
    entry = session.settings.datasets.get(session.facts.spec.name or "")
    return entry.file.parent.absolute() if entry and entry.file else Path.cwd()


def _labelled(name: str, value: Any) -> list[tuple[str, Any]]:
    """What an argument names, each with what to call it in reasons: one thing, or several by names."""
    if isinstance(value, Mapping):
        return [(f"{name}, {key}", each) for key, each in value.items()]
    return [(name, value)]


def _as_given(value: Any, found: Sequence[Any]) -> Any:
    """What was found, in the form in which it was asked for."""
    if isinstance(value, Mapping):
        return dict(zip(value, found, strict=True))
    return found[0]


def _absolute(value: Any, base: Path) -> Any:
    if isinstance(value, str):
        return os.path.normpath(base / Path(value).expanduser())
    if isinstance(value, Mapping):
        return {key: _absolute(each, base) for key, each in value.items()}
    return [_absolute(each, base) for each in value]


def _files(name: str, value: Any) -> str | list[str]:
    """The files that an argument names, each once, those of a pattern in the order of their names."""
    patterns = [value] if isinstance(value, str) else value
    found: dict[str, None] = {}
    for pattern in patterns:
        paths = [pattern] if os.path.exists(pattern) else sorted(glob.glob(pattern))
        files = [each for each in paths if Path(each).is_file()]
        if not files:
            raise MissingFiles(
                f"{name} names no file: {pattern}.",
                where=pattern,
                hint="A relative path starts from the folder of the provender.toml that gives it.",
            )
        found.update(dict.fromkeys(files))
    one = isinstance(value, str) and list(found) == [value]
    return value if one else list(found)


def _contents(session: Session, name: str, files: str | Sequence[str]) -> dict[str, str]:
    """Digests, by names that a reason for a rerun is told with."""
    if isinstance(files, str):
        return {name: session.sha256(Path(files))}
    # By number: a file counts by what is in it, not by its name.
    return {f"{name}, file {i}": session.sha256(Path(each)) for i, each in enumerate(files)}


def _folder(session: Session, name: str, folder: str) -> dict[str, str]:
    """Digests of the files of a folder, by names that a reason for a rerun is told with.

    Raises:
        MissingFiles: there is no such folder, or it is empty.
    """
    found: dict[str, str] = {}
    for place, folders, files in os.walk(folder):
        folders[:] = sorted(each for each in folders if not each.startswith("."))
        for each in sorted(files):
            if not each.startswith("."):
                path = Path(place, each)
                found[f"{name}, {path.relative_to(folder)}"] = session.sha256(path)
    if not found:
        missing = "is empty" if Path(folder).is_dir() else "is not there"
        raise MissingFiles(
            f"The folder that {name} names {missing}: {folder}.",
            where=folder,
            hint="A relative path starts from the folder of the provender.toml that gives it.",
        )
    if len(found) <= _TOLD_APART:
        return found
    whole = combine(name, found)
    return {f"{name}, {len(found):,} files": whole.digest}


def _version(session: Session, name: str, value: Any) -> VersionRecord:
    """The published version that an argument names.

    Raises:
        UnknownReference: there is none, or it is retracted.
    """
    ref = DatasetRef.parse(value)
    catalog, found = session.catalog, None
    if ref.name and ref.version:
        found = catalog.version(ref.name, ref.config, ref.version)
    elif ref.name:
        found = catalog.version_by_alias(ref.name, ref.config, ref.alias or "latest")
    if found is not None and found.status == "published":
        return found
    where = f"{session.facts.name}, {name}"
    if found is not None and found.status == "retracted":
        raise UnknownReference(
            f"{found.name}, which {name} names, was retracted: {found.retract_reason}",
            where=where,
            hint=f"`provender versions {ref.name}` shows what there is instead.",
        )
    numbers = [each.name for each in catalog.versions(ref.name or "", ("published",))]
    raise UnknownReference(
        f"{name} names {value}, which is not published.",
        where=where,
        hint=f"There is: {', '.join(numbers[:6])}."
        if numbers
        else f"`provender build {value}` makes it.",
    )


def _place(session: Session, version: VersionRecord) -> Mapping[str, Any]:
    """Where the files of a version lie, JSON-ready."""
    files: dict[str, list[ShardRecord]] = {}
    for each in session.catalog.shards(version.id):
        files.setdefault(each.split, []).append(each)
    return {
        "name": version.name,
        "fingerprint": version.fingerprint,
        "store": session.settings.store,
        "path": version.path,
        "splits": {
            each.name: {
                "bytes": each.bytes,
                "shards": [file.name for file in files.get(each.name, ())],
                "lengths": [file.examples for file in files.get(each.name, ())],
            }
            for each in version.splits
        },
    }
