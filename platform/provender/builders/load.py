"""From a `BuilderSpec` to a live builder instance.

This is the only module that imports user code. It needs tensorflow_datasets, not TensorFlow.
"""

from __future__ import annotations

import difflib
import importlib
import importlib.util
import inspect
import os
import sys
import tempfile
import traceback
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

from provender.builders.meanings import named
from provender.builders.partitioned import config_for, grain_of
from provender.builders.spec import BuilderSpec
from provender.errors import BuilderError, ProvenderError, UnknownReference

GENERATOR = "generator"
SHARDS = "shards"
OPAQUE = "opaque"


@dataclass(frozen=True)
class Loaded:
    """A builder ready to be asked.

    Attributes:
        spec: what it was loaded from.
        builder: the `tfds.core.DatasetBuilder` instance.
        kind: `GENERATOR` (`_split_generators`), `SHARDS` (`_shard_iterators_per_split`) or
            `OPAQUE` (its own `_download_and_prepare`).
    """

    spec: BuilderSpec
    builder: Any
    kind: str

    @property
    def name(self) -> str:
        """Dataset name in snake case."""
        return str(self.builder.name)

    @property
    def config(self) -> str:
        """Config name, or an empty string for a builder without configs."""
        return self.builder.builder_config.name if self.builder.builder_config else ""

    @property
    def version(self) -> str:
        """The version this instance builds."""
        return str(self.builder.version)


def load_class(source: str) -> Any:
    """Imports the builder class.

    Args:
        source: as in `BuilderSpec.source`.

    Returns:
        The class, a subclass of `tfds.core.DatasetBuilder`.

    Raises:
        UnknownReference: no such name, module, file or attribute.
        BuilderError: importing the module raised, or the object is no builder class.
    """
    import tensorflow_datasets as tfds

    place, _, attr = source.rpartition(":")
    if place == "tfds":
        return _registered(attr)
    module = _module_from_file(Path(place)) if place.endswith(".py") else _module(place, source)
    cls = getattr(module, attr, None)
    if cls is None:
        classes = [n for n, c in vars(module).items() if inspect.isclass(c)]
        near = difflib.get_close_matches(attr, classes, 3) or classes[:8]
        raise UnknownReference(
            f"{place} has no {attr!r}.",
            where=source,
            hint=f"It has: {', '.join(near)}." if near else None,
        )
    _tell_folder(cls, place)
    if not (inspect.isclass(cls) and issubclass(cls, tfds.core.DatasetBuilder)):
        raise BuilderError(
            f"{attr} is not a dataset builder.",
            where=source,
            hint="Derive it from tfds.core.GeneratorBasedBuilder.",
        )
    return cls


def _tell_folder(cls: Any, place: str) -> None:
    """Tells a class from a file where its README, tags and citations lie.

    TFDS works that out from the package the class is in, which a lone file has not got.
    """
    if place.endswith(".py") and getattr(cls, "pkg_dir_path", "") is None:
        from etils import epath

        cls.pkg_dir_path = epath.Path(place).parent


def _registered(name: str) -> type:
    import tensorflow_datasets as tfds

    try:
        return tfds.builder_cls(name)
    except tfds.core.registered.DatasetNotFoundError as error:
        raise UnknownReference(f"TFDS has no dataset {name!r}.", where=name) from error


@contextmanager
def _user_import(where: str) -> Iterator[None]:
    """Around the import of user code; classes stay out of TFDS's registry.

    The registry refuses a second class of one name, which a changed file, or another project's
    builder of that name, would be.

    No byte code is written: Python takes a cached file for current if time (in whole seconds) and
    size agree, so two edits within a second could leave the first one's code for the second.
    """
    from tensorflow_datasets.core import registered

    writes, sys.dont_write_bytecode = sys.dont_write_bytecode, True
    try:
        with registered.skip_registration():
            yield
    except ProvenderError:
        raise
    except Exception as error:
        needs_beam = isinstance(error, ImportError) and "apache_beam" in str(error)
        raise BuilderError(
            f"Importing the builder raised {type(error).__name__}: {error}",
            where=where,
            hint="Build it with --engine beam; docs/beam.md says what that needs."
            if needs_beam
            else "Run the file with Python alone to see the whole traceback.",
            facts={"traceback": "".join(traceback.format_exception(error))},
        ) from error
    finally:
        sys.dont_write_bytecode = writes


def _module(name: str, source: str) -> ModuleType:
    if "" not in sys.path and str(Path.cwd()) not in sys.path:
        sys.path.insert(0, str(Path.cwd()))
    try:
        found = importlib.util.find_spec(name) is not None
    except ModuleNotFoundError:
        found = False
    if not found:
        raise UnknownReference(
            f"There is no module {name!r}.",
            where=source,
            hint=f"It is looked for on sys.path and in {Path.cwd()}.",
        )
    with _user_import(source):
        return importlib.import_module(name)


_seen: dict[str, tuple[int, int]] = {}
"""Source file -> (mtime, size) when a module below a builder file's folder was first met."""

_roots: list[Path] = []
"""Folders of builder files that this process put on sys.path."""


def _first_on_path(root: Path) -> None:
    """Puts a builder's folder first, and unloads helpers that another builder's folder gave.

    Two builders may each have a `helpers.py` beside them; each is to get its own.
    """
    if str(root) in sys.path:
        sys.path.remove(str(root))
    sys.path.insert(0, str(root))
    others = [each for each in _roots if each != root]
    if root not in _roots:
        _roots.append(root)
    own = {each.stem if each.suffix == ".py" else each.name for each in root.iterdir()}
    for name, file in _user_modules(others):
        if name.partition(".")[0] in own and not file.is_relative_to(root):
            sys.modules.pop(name, None)


def _user_modules(roots: Iterable[Path]) -> list[tuple[str, Path]]:
    """Loaded modules whose source lies below one of the folders; never installed ones."""
    # Text, since a process holds thousands of modules and pathlib takes 20 microseconds for each.
    below = tuple(f"{root}{os.sep}" for root in roots)
    installed = (f"{sys.prefix}{os.sep}", f"{sys.base_prefix}{os.sep}")
    found = []
    for name, module in list(sys.modules.items()):
        file = getattr(module, "__file__", None)
        if not isinstance(file, str) or not file.endswith(".py") or not file.startswith(below):
            continue
        if file.startswith(installed) or f"{os.sep}site-packages{os.sep}" in file:
            continue
        if name.partition(".")[0] not in ("__main__", "provender"):
            found.append((name, Path(file)))
    return found


def _forget_changed(root: Path) -> None:
    """Unloads the modules below a folder if one of their files has changed since.

    Worker processes import the files as they are now; a notebook or an orchestrator's worker in
    which a builder was edited must not plan with what it imported before.
    """
    modules = _user_modules([root])
    now = {}
    for _, file in modules:
        try:
            found = file.stat()
        except OSError:
            continue
        now[str(file)] = (found.st_mtime_ns, found.st_size)
    changed = [_seen.setdefault(file, stamp) != stamp for file, stamp in now.items()]
    if any(changed):
        for name, file in modules:
            sys.modules.pop(name, None)
            _seen.pop(str(file), None)
        importlib.invalidate_caches()


def _module_from_file(file: Path) -> ModuleType:
    """Imports a file under the name it has in its package, or under its stem.

    The stem keeps `moduleName` in dataset_info.json the same wherever the file lies; the file's
    folder joins sys.path so that helper modules beside it can be imported.
    """
    if not file.is_file():
        raise UnknownReference(f"There is no file {file}.", where=str(file))
    root, parts = file.parent, [file.stem]
    while (root / "__init__.py").is_file():
        parts.insert(0, root.name)
        root = root.parent
    _first_on_path(root)
    _forget_changed(root)
    name = ".".join(parts)
    try:
        return _imported(file, name, in_package=len(parts) > 1)
    finally:
        _forget_changed(root)


def _imported(file: Path, name: str, *, in_package: bool) -> ModuleType:
    known = sys.modules.get(name)
    if known is not None and getattr(known, "__file__", None) == str(file):
        return known
    if in_package:
        with _user_import(str(file)):
            return importlib.import_module(name)
    if known is not None:
        name = f"provender_file_{name}"
    spec = importlib.util.spec_from_file_location(name, file)
    if spec is None or spec.loader is None:
        raise BuilderError(f"{file} cannot be imported as Python.", where=str(file))
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    try:
        with _user_import(str(file)):
            spec.loader.exec_module(module)
    except BaseException:
        sys.modules.pop(name, None)
        raise
    return module


def load(spec: BuilderSpec) -> Loaded:
    """Loads the class and makes an instance that has no prepared data.

    Args:
        spec: the builder and its arguments.

    Returns:
        The instance and its kind.

    Raises:
        UnknownReference: no such config or version; the message says what exists.
        BuilderError: the constructor or `_info` raised.
    """
    cls = load_class(spec.source)
    _check_version(cls, spec)
    config: Any = spec.config
    if grain_of(cls) is not None:
        config = config_for(cls, spec.config, spec.source)
    else:
        _check_config(cls, spec)
    # A data_dir that never holds data: a builder that finds an older dataset_info.json would
    # take splits and features from there instead of from the code.
    data_dir = Path(tempfile.gettempdir()) / "provender-no-data"
    kwargs = {**named(cls, spec.name), **spec.kwargs}
    try:
        builder = cls(data_dir=str(data_dir), config=config, version=spec.version, **kwargs)
        _ = builder.info.features
    except ProvenderError:
        raise
    except NotImplementedError as error:
        raise BuilderError(
            f"{cls.__name__} does not implement {error or 'a required method'}.",
            where=spec.source,
            hint="A builder needs _info, and _split_generators with _generate_examples "
            "(or _download_and_prepare and _as_dataset).",
        ) from error
    except Exception as error:
        raise BuilderError(
            f"{cls.__name__} cannot be made: {type(error).__name__}: {error}",
            where=spec.source,
            facts={"traceback": "".join(traceback.format_exception(error))},
        ) from error
    return Loaded(spec, builder, kind_of(cls))


def kind_of(cls: type) -> str:
    """Which contract a builder class follows: `GENERATOR`, `SHARDS` or `OPAQUE`."""
    import tensorflow_datasets as tfds

    if issubclass(cls, tfds.core.ShardBasedBuilder):
        return SHARDS
    return GENERATOR if issubclass(cls, tfds.core.GeneratorBasedBuilder) else OPAQUE


def _check_version(cls: Any, spec: BuilderSpec) -> None:
    own = [str(v) for v in (cls.VERSION, *(cls.SUPPORTED_VERSIONS or ())) if v]
    for config in cls.BUILDER_CONFIGS or ():
        own += [str(v) for v in (config.version, *(config.supported_versions or ())) if v]
    if spec.version and own and spec.version not in own:
        raise UnknownReference(
            f"{cls.__name__} has no version {spec.version}.",
            where=spec.source,
            hint=f"It builds: {', '.join(dict.fromkeys(own))}.",
            facts={"versions": own},
        )


def _check_config(cls: Any, spec: BuilderSpec) -> None:
    names = [config.name for config in cls.BUILDER_CONFIGS or ()]
    if spec.config and spec.config not in names:
        near = difflib.get_close_matches(spec.config, names, 5) or names[:12]
        raise UnknownReference(
            f"{cls.__name__} has no config {spec.config!r}.",
            where=spec.source,
            hint=f"It has: {', '.join(near)}." if near else "It has no configs.",
            facts={"configs": names},
        )
