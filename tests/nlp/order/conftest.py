"""Plain TFRecord files and settings of a folder of their own."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from provender.records.tfrecord import frame_joined
from provender.settings import Settings, load_settings


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    return load_settings(cwd=tmp_path, environ={"PROVENDER_HOME": str(tmp_path / "home")})


@pytest.fixture
def make_files(tmp_path: Path) -> Callable[..., list[Path]]:
    """Writes files of records ``<name>/<number>``, numbered over all files."""

    def make(name: str, *counts: int) -> list[Path]:
        found, at = [], 0
        for number, count in enumerate(counts):
            path = tmp_path / f"{name}-{number}.tfrecord"
            records = [f"{name}/{each}".encode() for each in range(at, at + count)]
            path.write_bytes(frame_joined(records)[0] if records else b"")
            found.append(path)
            at += count
        return found

    return make
