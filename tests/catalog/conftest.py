"""Every catalog test runs on SQLite and on a real PostgreSQL."""

from __future__ import annotations

import importlib.util
import json
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import psycopg
import pytest

from provender.catalog import ArtifactRecord, Catalog, ShardRecord, SplitRecord, VersionRecord

HERE = Path(__file__).parent
BACKENDS = ("sqlite", "postgresql")


def load(name: str) -> ModuleType:
    """A helper module of this folder, by path: ``tests`` is no package."""
    spec = importlib.util.spec_from_file_location(f"catalog_{name}", HERE / f"{name}.py")
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="session")
def pg_server() -> Iterator[Any]:
    with load("pg_server").start() as server:
        yield server


@pytest.fixture(params=BACKENDS)
def backend(request: pytest.FixtureRequest) -> str:
    return request.param


@pytest.fixture
def empty_url(backend: str, request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """A database with nothing in it; for SQLite a file that does not exist yet."""
    if backend == "sqlite":
        return f"sqlite:///{tmp_path}/state/catalog.db"
    return request.getfixturevalue("pg_server").new_database()


@pytest.fixture(scope="session")
def _templates() -> dict[str, Any]:
    return {}


@pytest.fixture
def url(
    backend: str,
    request: pytest.FixtureRequest,
    tmp_path: Path,
    tmp_path_factory: pytest.TempPathFactory,
    _templates: dict[str, Any],
) -> str:
    """A current, empty catalog."""
    if backend == "sqlite":
        if backend not in _templates:
            _templates[backend] = tmp_path_factory.mktemp("template") / "catalog.db"
            Catalog.open(_templates[backend]).close()
        target = tmp_path / "catalog.db"
        shutil.copyfile(_templates[backend], target)
        return f"sqlite:///{target}"
    # One database for all, emptied before each test: creating one copies a thousand files.
    if backend not in _templates:
        _templates[backend] = request.getfixturevalue("pg_server").new_database()
        Catalog.open(_templates[backend]).close()
    _empty(_templates[backend])
    return _templates[backend]


def _empty(url: str) -> None:
    from provender.catalog.tables import metadata

    with psycopg.connect(url.replace("+psycopg", ""), autocommit=True) as conn:
        for table in reversed(metadata.sorted_tables):
            conn.execute(f"DELETE FROM {table.name}")


@pytest.fixture
def catalog(url: str) -> Iterator[Catalog]:
    with Catalog.open(url) as opened:
        yield opened


@pytest.fixture
def rows(catalog: Catalog) -> Callable[[], dict[str, int]]:
    """Counts the rows of every table."""
    from provender.catalog.tables import metadata

    def count() -> dict[str, int]:
        one = "SELECT '{0}', count(*) FROM {0}"
        return dict(catalog.sql(" UNION ALL ".join(map(one.format, metadata.tables))).rows)

    return count


@pytest.fixture
def at_once(url: str) -> Callable[..., list[Any]]:
    """``at_once(task, count, *args)``: as many processes do a task of workers.py together."""

    def run(task: str, count: int, *args: object, at: str = url) -> list[Any]:
        done = subprocess.run(
            [sys.executable, HERE / "workers.py", at, task, str(count), *map(str, args)],
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        return [json.loads(line) for line in done.stdout.splitlines()]

    return run


@pytest.fixture
def publish(catalog: Catalog) -> Callable[..., VersionRecord]:
    """Registers a version of dataset ``toy`` that two stages made."""

    def register(number: str = "1.0.0", fingerprint: str = "", **more: Any) -> VersionRecord:
        fingerprint = fingerprint or f"fp-{number}"
        dataset = more.pop("dataset", "toy")
        config = more.pop("config", None)
        shard = catalog.record_stage(
            None,
            dataset,
            config,
            "shards/train/00000",
            f"shard-{fingerprint}",
            state="succeeded",
            outputs=[artifact(f"shard-of-{fingerprint}")],
            inputs=more.pop("shard_inputs", ()),
        )
        given = {
            "path": f"datasets/{dataset}/{number}",
            "uri": f"/store/datasets/{dataset}/{number}",
            "splits": [
                SplitRecord("train", 90, 900, 1, {"mean": 4.5}),
                SplitRecord("test", 10, 99, 1),
            ],
            "shards": [
                ShardRecord(
                    "train", 0, 1, "toy-train.tfrecord", 900, "aa", "bb", 90, "t1", shard.id
                ),
                ShardRecord("test", 0, 1, "toy-test.tfrecord", 99, "cc", "dd", 10),
            ],
            "features": {"text": {"type": "Text"}},
            "info": {"name": dataset},
        }
        return catalog.register_version(dataset, config, number, fingerprint, **(given | more))

    return register


def artifact(digest: str, name: str = "out", **more: Any) -> ArtifactRecord:
    return ArtifactRecord(digest, more.pop("size", 7), f"/store/{digest}", name=name, **more)
