"""Each backend keeps the promises of `Store`."""

from __future__ import annotations

import uuid

import pytest
from hypothesis import settings

from provender.store import Store
from provender.store.testing import StoreConformance, model_machine


class TestLocal(StoreConformance):
    @pytest.fixture
    def store(self, local_store: Store) -> Store:
        return local_store


class TestMemory(StoreConformance):
    @pytest.fixture
    def store(self, tmp_path) -> Store:
        return Store.open(f"memory://t-{uuid.uuid4().hex}/a b#c", scratch=str(tmp_path / "scratch"))


class TestGcs(StoreConformance):
    @pytest.fixture
    def store(self, gcs_env, tmp_path) -> Store:
        url = f"{gcs_env.bucket()}/pre fix/%41#[ab]*"
        return Store.open(url, scratch=str(tmp_path / "scratch"))


class TestGcsBucketRoot(StoreConformance):
    @pytest.fixture
    def store(self, gcs_env, tmp_path) -> Store:
        return Store.open(gcs_env.bucket(), scratch=str(tmp_path / "scratch"))


def _run(make, examples: int) -> None:
    machine = model_machine(make)
    case = machine.TestCase
    case.settings = settings(max_examples=examples, stateful_step_count=20, deadline=None)
    case().runTest()


def test_local_is_like_a_dict(tmp_path):
    _run(lambda: Store.open(str(tmp_path / uuid.uuid4().hex)), 40)


def test_memory_is_like_a_dict():
    _run(lambda: Store.open(f"memory://{uuid.uuid4().hex}"), 40)


def test_gcs_is_like_a_dict(gcs_env):
    bucket = gcs_env.bucket()
    _run(lambda: Store.open(f"{bucket}/{uuid.uuid4().hex}"), 10)
