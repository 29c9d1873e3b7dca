"""What a plan needs to know of a builder, as data.

`BuilderFacts` is computed from the live class once, and kept in a file together with the
identities (size, mtime, inode, ctime) of every source file and of the metadata of every
distribution it was computed from. While those hold, a plan needs neither the builder nor
tensorflow_datasets.
"""

from __future__ import annotations

import hashlib
import inspect
import json
import os
import sys
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from provender.builders.capture import EXAMPLES, PCOLLECTION
from provender.builders.load import GENERATOR, SHARDS, Loaded, load
from provender.builders.meanings import arguments_of
from provender.builders.spec import BuilderSpec
from provender.builders.steps import join_method, make_method, steps_of
from provender.fingerprint import Hasher, Tree, combine, self_attributes, walk_method

if TYPE_CHECKING:
    from provender.builders.download import ChecksumFile

FORMAT = 3
"""Revision of the file below and of what goes into it; another number is computed anew."""

PLAN_METHOD = {GENERATOR: "_split_generators", SHARDS: "_shard_iterators_per_split"}
_BESIDE = ("README.md", "CITATIONS.bib", "TAGS.txt", "checksums.tsv")
_CONFIG_PROSE = ("description", "release_notes", "tags", "version", "supported_versions")
_VERSION_ATTRIBUTES = frozenset(
    {"version", "VERSION", "_version", "canonical_version", "release_notes", "info"}
)


@dataclass(frozen=True)
class StepFacts:
    """One step of a builder that prepares in steps, see `provender.builders.steps`.

    Attributes:
        arguments: names of the constructor arguments that count for it.
        setting: fingerprint of their values, of the config object and of `__init__`.
    """

    arguments: tuple[str, ...]
    setting: Tree

    def to_json(self) -> dict[str, Any]:
        """A JSON-ready dict that `from_json` reads."""
        return {"arguments": list(self.arguments), "setting": self.setting.to_json()}

    @classmethod
    def from_json(cls, doc: Mapping[str, Any]) -> StepFacts:
        """Reads what `to_json` wrote."""
        return cls(tuple(doc["arguments"]), Tree.from_json(doc["setting"]))


@dataclass(frozen=True)
class BuilderFacts:
    """A builder, as far as fingerprints and checks depend on it.

    Attributes:
        spec: how to load it.
        name: dataset name.
        config: config name or an empty string.
        version: the version it builds.
        kind: see `provender.builders.load.kind_of`.
        code: method name -> fingerprint of all that the method reaches. The planning method's
            tree leaves out the generator methods, so that changing one reruns only examples.
        setting: fingerprint of the config object, constructor arguments and `__init__`.
        features: fingerprint of the features.
        info: dataset_info.json's content without splits and sizes.
        in_order: whether examples keep the generator's order (TFDS `disable_shuffling`).
        manual: instructions and declared files, or None when no manual files are needed.
        checksums: fingerprint of the registered checksums.
        arguments: constructor argument -> what it stands for, see `provender.builders.meanings`;
            of these `setting` holds nothing yet, for it depends on more than the builder.
        steps: what is made before shards, in order.
    """

    spec: BuilderSpec
    name: str
    config: str
    version: str
    kind: str
    code: Mapping[str, Tree]
    setting: Tree
    features: Tree
    info: Mapping[str, Any]
    in_order: bool
    manual: Mapping[str, Any] | None
    checksums: str
    arguments: Mapping[str, str] = field(default_factory=dict)
    steps: Mapping[str, StepFacts] = field(default_factory=dict)

    @property
    def code_of_check(self) -> Tree | None:
        """Fingerprint of the builder's own `check_manual`, where it has one."""
        return self.code.get("check_manual")

    @property
    def ref(self) -> str:
        """``name[/config]``."""
        return f"{self.name}/{self.config}" if self.config else self.name

    def to_json(self) -> dict[str, Any]:
        """A JSON-ready dict that `from_json` reads."""
        return {
            "spec": self.spec.to_json(),
            "name": self.name,
            "config": self.config,
            "version": self.version,
            "kind": self.kind,
            "code": {name: tree.to_json() for name, tree in self.code.items()},
            "setting": self.setting.to_json(),
            "features": self.features.to_json(),
            "info": dict(self.info),
            "in_order": self.in_order,
            "manual": self.manual,
            "checksums": self.checksums,
            "arguments": dict(self.arguments),
            "steps": {name: each.to_json() for name, each in self.steps.items()},
        }

    @classmethod
    def from_json(cls, doc: Mapping[str, Any]) -> BuilderFacts:
        """Reads what `to_json` wrote."""
        return cls(
            **{
                **doc,
                "spec": BuilderSpec.from_json(doc["spec"]),
                "code": {name: Tree.from_json(tree) for name, tree in doc["code"].items()},
                "setting": Tree.from_json(doc["setting"]),
                "features": Tree.from_json(doc["features"]),
                "steps": {name: StepFacts.from_json(each) for name, each in doc["steps"].items()},
            }
        )


def checksums_of(cls: type, name: str, folder: Path) -> ChecksumFile:
    """The registered checksums of a builder, and where new ones are to be written.

    Beside the builder's own module, as TFDS has it, unless that is an installed package: then in
    the project's folder.

    Args:
        cls: the builder class.
        name: dataset name.
        folder: the project's folder of checksum files.
    """
    from provender.builders.download import ChecksumFile

    found = ChecksumFile.for_builder(cls)
    if found.write_to is not None and not cls.__module__.startswith("provender."):
        return found
    return ChecksumFile.for_builder(cls, project_file=folder / f"{name}.tsv")


Survey = Callable[[BuilderSpec, Path], dict[str, Any]]
"""Looks at a builder: `survey` in this process, or the same in another Python."""


def facts_of(
    spec: BuilderSpec,
    memory: Path,
    checksums: Path,
    look: Survey | None = None,
    python: str | None = None,
) -> BuilderFacts:
    """The facts of a builder, from memory while its sources are unchanged.

    Args:
        spec: the builder.
        memory: folder to remember facts in.
        checksums: the project's folder of checksum files.
        look: what looks at the builder where memory does not know it; by default `survey`.
        python: the Python that `look` looks with, where it is not this one.

    Raises:
        UnknownReference: nothing can be loaded under the spec.
        BuilderError: the builder breaks the contract.
    """
    here = [sys.prefix, sys.version_info[:2]]
    key = json.dumps(
        [FORMAT, *([python] if python else here), str(checksums), spec.to_json()], sort_keys=True
    )
    file = memory / f"{hashlib.blake2b(key.encode(), digest_size=16).hexdigest()}.json"
    if (known := _remembered(file)) is not None:
        return known
    doc = (look or survey)(spec, checksums)
    if doc["files"] is not None:
        _remember(file, doc)
    return BuilderFacts.from_json(doc["facts"])


def survey(spec: BuilderSpec, checksums: Path) -> dict[str, Any]:
    """Loads a builder and works out its facts.

    Args:
        spec: the builder.
        checksums: the project's folder of checksum files.

    Returns:
        ``facts`` as JSON; ``files``: path -> identity of all that they depend on, or None where
        they depend on more than files.
    """
    from provender.builders.purity import reads_only_source

    facts, files, distributions = _compute(load(spec), checksums)
    known = None
    if reads_only_source(f for f in files if f.endswith(".py")):
        known = {path: _identity(path) for path in sorted(files | _metadata_files(distributions))}
    return {"facts": facts.to_json(), "files": known}


def _remembered(file: Path) -> BuilderFacts | None:
    try:
        doc = json.loads(file.read_bytes())
        if any(_identity(path) != known for path, known in doc["files"].items()):
            return None
        return BuilderFacts.from_json(doc["facts"])
    except (OSError, ValueError, TypeError, KeyError, AttributeError):
        # No memory, or not one that this code wrote: it is made anew.
        return None


def _remember(file: Path, doc: Mapping[str, Any]) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    part = file.with_suffix(f".{os.getpid()}.part")
    part.write_text(json.dumps(doc), encoding="utf-8")
    part.replace(file)


def _identity(path: str) -> list[int] | None:
    try:
        found = os.stat(path)
    except OSError:
        return None
    return [found.st_size, found.st_mtime_ns, found.st_ino, found.st_ctime_ns]


def _metadata_files(distributions: frozenset[str]) -> frozenset[str]:
    """The METADATA files of installed distributions: another version means another file.

    Looking at a file is a hundred times cheaper than importing `importlib.metadata`.
    """
    import importlib.metadata

    found = set()
    for name in distributions:
        with suppress(importlib.metadata.PackageNotFoundError):
            distribution = importlib.metadata.distribution(name)
            found.add(str(distribution.locate_file(_info_folder(distribution))))
    return frozenset(found)


def _info_folder(distribution: Any) -> str:
    folder = getattr(distribution, "_path", None)
    return str(folder / "METADATA") if folder is not None else "METADATA"


def _compute(
    loaded: Loaded, checksums: Path
) -> tuple[BuilderFacts, frozenset[str], frozenset[str]]:
    builder, cls = loaded.builder, type(loaded.builder)
    plan_method = PLAN_METHOD.get(loaded.kind, "_download_and_prepare")
    generators = _generator_methods(cls) if loaded.kind == GENERATOR else []
    walks = {
        plan_method: walk_method(cls, plan_method, exclude=frozenset(generators)),
        **{name: walk_method(cls, name) for name in generators},
    }
    steps = steps_of(cls, in_shards=loaded.kind == SHARDS)
    for step in steps:
        methods = (make_method(step), join_method(step))
        walks |= {each: walk_method(cls, each) for each in methods if hasattr(cls, each)}
    if hasattr(cls, "check_manual"):
        walks["check_manual"] = walk_method(cls, "check_manual")
    code = {
        name: _with_version(
            cls, name, walk.tree, loaded, frozenset(generators if name == plan_method else ())
        )
        for name, walk in walks.items()
    }
    made = [walk_method(cls, "__init__")] if _is_own(cls, "__init__") else []
    arguments = _arguments(cls, loaded.spec.kwargs)
    common = {
        "config": _config(builder),
        **{f"code of {walk.tree.name}": walk.tree for walk in made},
    }
    setting = combine("setting", {**common, "arguments": arguments})
    every = [*walks.values(), *made]
    facts = BuilderFacts(
        spec=loaded.spec,
        name=loaded.name,
        config=loaded.config,
        version=loaded.version,
        kind=loaded.kind,
        code=code,
        setting=setting,
        features=Hasher.tree(builder.info.features, "features"),
        info=_info(builder),
        in_order=bool(builder.info.disable_shuffling),
        manual=manual_of(cls),
        checksums=checksums_of(cls, loaded.name, checksums).digest(),
        arguments=arguments_of(cls),
        steps={
            step: StepFacts(
                counting,
                combine("setting", {**common, "arguments": _only(arguments, counting)}),
            )
            for step, counting in steps.items()
        },
    )
    files = frozenset().union(*(walk.files for walk in every), _source_files(cls))
    files |= {str(checksums / f"{loaded.name}.tsv")}
    distributions = frozenset(name for walk in every for name in walk.distributions)
    return facts, files, distributions | {"tensorflow-datasets"}


def _with_version(
    cls: type, method: str, tree: Tree, loaded: Loaded, exclude: frozenset[str]
) -> Tree:
    """Adds the version number to a method's tree only if the method can read it."""
    read = self_attributes(cls, method, exclude=exclude)
    if read is not None and not read & _VERSION_ATTRIBUTES:
        return tree
    return combine(tree.name, {"code": tree, "version": loaded.version})


def _arguments(cls: type, kwargs: Mapping[str, Any]) -> dict[str, Any]:
    """Constructor arguments that count by their value.

    Not those the class declares to say only where data lie, nor those that stand for something else.
    """
    others = {*getattr(cls, "PLACES", ()), *arguments_of(cls)}
    return {name: value for name, value in kwargs.items() if name not in others}


def _only(arguments: Mapping[str, Any], names: tuple[str, ...]) -> dict[str, Any]:
    return {name: value for name, value in arguments.items() if name in names}


def _config(builder: Any) -> dict[str, Any]:
    """The config's fields, without those that are prose or name the version."""
    config = builder.builder_config
    return {
        name: value
        for name, value in (vars(config) if config else {}).items()
        if name.lstrip("_") not in _CONFIG_PROSE
    }


def _user_classes(cls: type) -> list[type]:
    """The classes of the MRO that are not TFDS's own machinery."""
    return [
        each
        for each in cls.__mro__
        if not each.__module__.startswith(("tensorflow_datasets.core", "builtins", "abc", "typing"))
    ]


def _generator_methods(cls: type) -> list[str]:
    named = (EXAMPLES, PCOLLECTION)
    found = {name: None for name in named if any(name in vars(c) for c in _user_classes(cls))}
    for each in _user_classes(cls):
        for name, value in vars(each).items():
            if inspect.isgeneratorfunction(inspect.unwrap(value) if callable(value) else value):
                found[name] = None
    return list(found)


def _is_own(cls: type, method: str) -> bool:
    return any(method in vars(each) for each in _user_classes(cls) if each is not object)


def _source_files(cls: type) -> frozenset[str]:
    """The class's own files, and the metadata files that TFDS reads from beside them."""
    found: set[str] = set()
    for each in _user_classes(cls):
        file = getattr(sys.modules.get(each.__module__), "__file__", None)
        if file:
            found.add(file)
            found.update(os.path.join(os.path.dirname(file), name) for name in _BESIDE)
    return frozenset(found)


def _info(builder: Any) -> dict[str, Any]:
    from google.protobuf import json_format

    return dict(json_format.MessageToDict(builder.info.as_proto))


def manual_of(cls: Any) -> dict[str, Any] | None:
    """What a builder class says of its manual files: instructions and declared names, or None."""
    if not cls.MANUAL_DOWNLOAD_INSTRUCTIONS:
        return None
    declared = getattr(cls, "MANUAL_FILES", ())
    return {
        "instructions": inspect.cleandoc(cls.MANUAL_DOWNLOAD_INSTRUCTIONS),
        "files": dict(declared) if isinstance(declared, Mapping) else dict.fromkeys(declared),
    }
