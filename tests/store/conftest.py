"""Real backends for the store's tests."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest

from provender.store import Store

pytest.register_assert_rewrite("provender.store.testing")


def load(name: str) -> ModuleType:
    """A helper module beside this file (tests are no package)."""
    key = f"provender_store_tests_{name}"
    if key not in sys.modules:
        spec = importlib.util.spec_from_file_location(key, Path(__file__).with_name(f"{name}.py"))
        assert spec and spec.loader
        module = importlib.util.module_from_spec(spec)
        sys.modules[key] = module
        spec.loader.exec_module(module)
    return sys.modules[key]


@pytest.fixture(scope="session")
def gcs_server() -> Iterator:
    with load("gcs_server").start() as server:
        yield server


@pytest.fixture
def gcs_env(gcs_server, monkeypatch):
    """The GCS server, with this process's environment pointing at it."""
    for key, value in gcs_server.env().items():
        monkeypatch.setenv(key, value)
    return gcs_server


@pytest.fixture
def gcs_store(gcs_env) -> Store:
    return Store.open(f"{gcs_env.bucket()}/some/prefix #1")


@pytest.fixture
def local_store(tmp_path) -> Store:
    return Store.open(str(tmp_path / "st o#re %41"))


@pytest.fixture
def proxied(gcs_server, monkeypatch):
    """(proxy, store): a store whose every request passes a proxy that can break things."""
    with load("fault_proxy").start(gcs_server.endpoint) as proxy:
        for key, value in gcs_server.env().items():
            monkeypatch.setenv(key, value)
        monkeypatch.setenv("STORAGE_EMULATOR_HOST", proxy.endpoint)
        from provender.store.gcs_filesystem import Filesystem, Retry

        monkeypatch.setattr(Filesystem, "retry", Retry(attempts=5, first=0.01, ceiling=0.05))
        yield proxy, Store.open(f"{gcs_server.bucket()}/p")


@pytest.fixture
def processes() -> ModuleType:
    return load("processes")


@pytest.fixture
def fault() -> type:
    return load("fault_proxy").Fault
