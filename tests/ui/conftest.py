"""One world for all tests of the pages, and clients that look at it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from fastapi.testclient import TestClient
from tests.ui.world import World, make

from provender.store import Store
from provender.ui import create_app


@pytest.fixture(scope="session")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    made = make(tmp_path_factory.mktemp("world"))
    yield made
    made.catalog.close()


@pytest.fixture
def visit(world: World) -> Callable[..., TestClient]:
    """Makes a client of an application with the given options."""

    def make_client(**options: Any) -> TestClient:
        app = create_app(world.catalog, store=Store.open(str(world.home)), **options)
        return TestClient(app, base_url="http://127.0.0.1", follow_redirects=False)

    return make_client


@pytest.fixture
def client(visit: Callable[..., TestClient]) -> TestClient:
    return visit()
