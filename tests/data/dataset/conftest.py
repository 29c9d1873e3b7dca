"""Every test has a transform cache, a home and a catalog of its own."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.data.dataset.programs import Lab

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


@pytest.fixture
def lab(tmp_path: Path) -> Lab:
    import pyarrow as pa
    import pyarrow.parquet as pq

    pq.write_table(
        pa.table({"a": list(range(100)), "t": [str(i) for i in range(100)]}),
        tmp_path / "data.parquet",
    )
    return Lab(tmp_path)
