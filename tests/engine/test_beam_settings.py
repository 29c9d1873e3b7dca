"""How a build is told where Apache Beam is, and what it says where there is none."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path
from typing import Any

import pytest

from provender.catalog import Catalog
from provender.engine.session import Options, Session, beam_of, open_session
from provender.errors import BuilderError, SettingsError
from provender.refs import DatasetRef
from provender.settings import Settings, load_settings

HERE = Path(__file__).parent


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    shutil.copy(HERE / "beam_builders.py", tmp_path)
    return load_settings(
        store=str(tmp_path / "store"),
        catalog=f"sqlite:///{tmp_path / 'catalog.db'}",
        cwd=tmp_path,
        environ={"HOME": str(tmp_path)},
    )


def opened(settings: Settings, catalog: Catalog, **options: Any) -> Session:
    file = Path(settings.store).parent / "beam_builders.py"
    asked = Options(engine="beam", **options)
    return open_session(DatasetRef.parse(f"{file}:Dict"), settings, asked, catalog=catalog)


def test_a_python_that_is_not_there(settings: Settings) -> None:
    with Catalog.open(settings.catalog) as catalog:
        with pytest.raises(SettingsError, match="cannot be started"):
            opened(settings, catalog, beam_python="/nowhere/python")


def test_a_python_without_provender(settings: Settings) -> None:
    with Catalog.open(settings.catalog) as catalog:
        with pytest.raises(SettingsError, match="cannot run Provender: No module named"):
            opened(settings, catalog, beam_python="/usr/bin/python3")


def test_a_python_without_beam(settings: Settings) -> None:
    with Catalog.open(settings.catalog) as catalog:
        with pytest.raises(SettingsError, match="has no Apache Beam"):
            opened(settings, catalog, beam_python=sys.executable)


def test_without_the_engine_the_error_names_it(settings: Settings) -> None:
    file = Path(settings.store).parent / "beam_builders.py"
    with Catalog.open(settings.catalog) as catalog:
        with pytest.raises(BuilderError, match="--engine beam"):
            open_session(DatasetRef.parse(f"{file}:Dict"), settings, Options(), catalog=catalog)


def test_options_of_beam_go_with_its_engine() -> None:
    with pytest.raises(SettingsError, match="another one"):
        Options(beam_runner="DirectRunner")


def test_the_project_says_how_beam_runs(tmp_path: Path) -> None:
    (tmp_path / "provender.toml").write_text(
        '[beam]\npython = "env/bin/python"\nrunner = "DataflowRunner"\n'
        '[beam.options]\nproject = "p"\nstreaming = false\nnum_workers = 4\n'
    )
    settings = load_settings(cwd=tmp_path, environ={"HOME": str(tmp_path)})
    asked = Options(engine="beam", beam_option=("--num_workers=8",))
    beam = beam_of(settings, asked)
    assert beam.python == str(tmp_path / "env/bin/python")
    assert beam.of_pipelines() == {
        "runner": "DataflowRunner",
        "options": {"project": "p", "streaming": "false", "num_workers": "8"},
    }


@pytest.mark.parametrize("text", ["[beam]\npyton = 1", "beam = 3", "[beam]\noptions = 3"])
def test_a_table_that_makes_no_sense(text: str, tmp_path: Path) -> None:
    (tmp_path / "provender.toml").write_text(text)
    with pytest.raises(SettingsError, match=r"\[beam\]|pyton"):
        load_settings(cwd=tmp_path, environ={"HOME": str(tmp_path)})
