from __future__ import annotations

from pathlib import Path

import pytest

from provender.data.cache import TransformCache


@pytest.fixture
def cache(tmp_path: Path) -> TransformCache:
    return TransformCache(tmp_path / "cache")
