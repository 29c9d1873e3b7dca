"""One small dataset, built by the real engine, and copies of it that a test may break."""

from __future__ import annotations

import importlib.util
import os
import shutil
import sqlite3
import sys
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType, SimpleNamespace

import pytest

from provender.catalog import Catalog, VersionRecord
from provender.engine.build import build
from provender.engine.session import Options, open_session
from provender.refs import DatasetRef
from provender.settings import Settings, load_settings
from provender.store import Store

BUILDER = """
import tensorflow_datasets as tfds


class Notes(tfds.core.GeneratorBasedBuilder, skip_registration=True):
    VERSION = tfds.core.Version("1.0.0")

    def _info(self):
        return tfds.core.DatasetInfo(
            builder=self,
            description="Notes.",
            features=tfds.features.FeaturesDict({
                "text": tfds.features.Text(),
                "label": tfds.features.ClassLabel(names=["calm", "loud"]),
            }),
        )

    def _split_generators(self, dl_manager):
        return {"train": self._generate_examples(300), "test": self._generate_examples(20)}

    def _generate_examples(self, count):
        for i in range(count):
            yield i, {"text": f"note {i} " + "x" * (i % 50), "label": i % 2}
"""


@dataclass
class Place:
    """A project: settings, open catalog, open store, the builder's file, and its version."""

    settings: Settings
    catalog: Catalog
    store: Store
    file: Path
    version: VersionRecord

    def rel(self, name: str) -> str:
        return f"{self.version.path}/{name}" if name else self.version.path

    def path(self, name: str) -> Path:
        return Path(self.store.path(self.rel(name)))


def helper(folder: str, name: str) -> ModuleType:
    """A helper module of another test folder, by path: ``tests`` is no package."""
    key = f"provender_{folder}_tests_{name}"
    if key not in sys.modules:
        path = Path(__file__).parents[1] / folder / f"{name}.py"
        spec = importlib.util.spec_from_file_location(key, path)
        assert spec and spec.loader
        module = importlib.util.module_from_spec(spec)
        sys.modules[key] = module
        spec.loader.exec_module(module)
    return sys.modules[key]


def settings_for(home: Path, store: str | None = None) -> Settings:
    environ = {"HOME": str(home), "PROVENDER_HOME": str(home / "home")}
    return load_settings(
        store=store or str(home / "store"),
        catalog=f"sqlite:///{home / 'catalog.db'}",
        cwd=home,
        environ=environ,
    )


def make(file: Path, settings: Settings, name: str = "Notes", **options: object) -> VersionRecord:
    """Builds ``file:name`` and gives its version."""
    options = {"workers": 1, "num_shards": 3, **options}
    session = open_session(DatasetRef.parse(f"{file}:{name}"), settings, Options(**options))
    return build(session).version


@pytest.fixture
def engine() -> SimpleNamespace:
    """``settings_for`` and ``make`` of this module, which tests cannot import."""
    return SimpleNamespace(settings_for=settings_for, make=make)


@pytest.fixture(scope="session")
def notes(tmp_path_factory: pytest.TempPathFactory) -> Place:
    """A published version that tests only look at."""
    home = tmp_path_factory.mktemp("notes")
    file = home / "notes_builder.py"
    file.write_text(BUILDER)
    settings = settings_for(home)
    version = make(file, settings)
    return Place(
        settings, Catalog.open(settings.catalog), Store.open(settings.store), file, version
    )


@pytest.fixture
def copied(notes: Place, tmp_path: Path) -> Iterator[Place]:
    """A copy of the project that a test may break."""
    home = notes.file.parent
    for name in ("store", "home"):
        shutil.copytree(home / name, tmp_path / name)
    # The open catalog's newest rows are in its write-ahead log.
    with closing(sqlite3.connect(home / "catalog.db")) as source:
        with closing(sqlite3.connect(tmp_path / "catalog.db")) as target:
            source.backup(target)
    settings = settings_for(tmp_path)
    with Catalog.open(settings.catalog) as catalog:
        found = Store.open(settings.store)
        for shard in catalog.shards(notes.version.id):
            now = found.stat(f"{notes.version.path}/{shard.name}")
            assert now
            catalog.set_shard_token(notes.version.id, shard.split, shard.index, now.token)
        yield Place(settings, catalog, found, notes.file, notes.version)


@pytest.fixture
def flip() -> Callable[[Path, int], None]:
    """Flips one bit of a file's byte, without keeping its modification time."""

    def act(path: Path, at: int) -> None:
        data = bytearray(path.read_bytes())
        data[at] ^= 4
        os.chmod(path, 0o644)
        path.write_bytes(data)

    return act


@pytest.fixture(scope="session")
def gcs_server() -> Iterator:
    with helper("store", "gcs_server").start() as server:
        yield server


@pytest.fixture
def gcs_bucket(gcs_server, monkeypatch: pytest.MonkeyPatch) -> str:
    """URL of a new bucket, with this process's environment pointing at its server."""
    for key, value in gcs_server.env().items():
        monkeypatch.setenv(key, value)
    return gcs_server.bucket()


@pytest.fixture
def helpers() -> Callable[[str, str], ModuleType]:
    """`helper`, which tests cannot import."""
    return helper
