"""Every test has a transform cache, a home and a catalog of its own."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from provender.data import cache


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    folder = tmp_path / "home"
    folder.mkdir()
    monkeypatch.setenv("PROVENDER_HOME", str(folder))
    monkeypatch.setenv("PROVENDER_CACHE", str(folder / "cache"))
    monkeypatch.setenv("PROVENDER_STORE", str(folder / "store"))
    monkeypatch.delenv("PROVENDER_CONFIG", raising=False)
    monkeypatch.setenv("HF_DATASETS_CACHE", str(tmp_path / "hf"))
    yield folder
    cache.enable_caching()
