"""The registry: datasets of several files, and errors that say where."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import pytest

from provender.errors import SettingsError
from provender.registry import DagSettings
from provender.registry.dag import dag_settings
from provender.registry.lines import line_of
from provender.settings import Settings, load_settings


def write(folder: Path, **files: str) -> Path:
    for name, text in files.items():
        path = folder / f"{name}.toml"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    return folder / "provender.toml"


def load(folder: Path, **options: object) -> Settings:
    environ = {"HOME": str(folder)}
    return load_settings(cwd=folder, environ=environ, **options)  # type: ignore[arg-type]


@pytest.fixture
def project(tmp_path: Path) -> Path:
    write(tmp_path, provender='include = ["sets/*.toml"]\n[datasets.one]\nbuilder = "a.py:A"\n')
    write(tmp_path / "sets", two='[datasets.two]\nbuilder = "b.py:B"\nmanual_dir = "files"\n')
    return tmp_path


def test_datasets_of_included_files_are_relative_to_their_file(project: Path) -> None:
    found = load(project).datasets
    assert list(found) == ["one", "two"]
    assert found["one"].builder == f"{project}/a.py:A"
    assert found["two"].builder == f"{project}/sets/b.py:B"
    assert found["two"].manual_dir == f"{project}/sets/files"
    assert found["two"].file == project / "sets/two.toml"


def test_a_bad_table_names_file_line_and_key_and_spares_the_others(project: Path) -> None:
    text = '\n# comment\n[datasets.bad]\nbuilder = "c:C"\n\n[datasets.bad.airflow]\nschedle = "@daily"\n'
    write(project / "sets", bad=text)
    with pytest.raises(SettingsError) as error:
        load(project)
    assert error.value.message == "Unknown key 'schedle'."
    assert error.value.where == f"{project}/sets/bad.toml, line 7, [datasets.bad.airflow]"
    assert error.value.hint == "Did you mean 'schedule'?"
    assert list(load(project, only=("one",)).datasets) == ["one", "two"]
    with pytest.raises(SettingsError, match="schedle"):
        load(project, only=("bad",))


def test_a_name_that_two_files_define_is_nobodys(project: Path) -> None:
    write(project / "sets", zwei='[datasets.two]\nbuilder = "z.py:Z"\n')
    with pytest.raises(SettingsError, match=r"'two' is defined in .*two.toml and in .*zwei.toml"):
        load(project)
    assert list(load(project, only=("one",)).datasets) == ["one"]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[datasets]\n= 3", "cannot be read as TOML: .*line 2"),
        ('store = "elsewhere"', "Unknown key 'store'"),
        ("datasets = 3", "must hold one table"),
    ],
)
def test_an_included_file_that_makes_no_sense(project: Path, text: str, message: str) -> None:
    write(project / "sets", bad=text)
    with pytest.raises(SettingsError, match=message):
        load(project)


def test_an_included_file_that_is_not_there_is_told_a_pattern_may_match_nothing(tmp_path) -> None:
    write(tmp_path, provender='include = ["none/*.toml"]\n')
    assert load(tmp_path).datasets == {}
    write(tmp_path, provender='include = ["gone.toml"]\n')
    with pytest.raises(SettingsError, match=r"'gone.toml', which is not there"):
        load(tmp_path)
    write(tmp_path, provender='include = "gone.toml"\n')
    with pytest.raises(SettingsError, match="include must be a list of texts"):
        load(tmp_path)


def test_how_a_dag_is_scheduled() -> None:
    doc = {
        "schedule": "@daily", "owner": "ada", "tags": ["text"], "retries": 0, "pool": "p",
        "retry_delay": "2 min", "manual_timeout": "3 days", "timeout": 90, "max_tasks": 8,
    }  # fmt: skip
    found = dag_settings(doc, "x")
    assert found == DagSettings(
        schedule="@daily", owner="ada", tags=("text",), retries=0, pool="p", max_tasks=8,
        retry_delay=timedelta(minutes=2), manual_timeout=timedelta(days=3),
        timeout=timedelta(seconds=90),
    )  # fmt: skip


@pytest.mark.parametrize(
    ("key", "value", "message"),
    [
        ("retries", -1, "retries must be a whole number of 0 or more, got -1"),
        ("retries", True, "retries must be a whole number"),
        ("tags", "text", "tags must be a list of texts, got 'text'"),
        ("timeout", "soon", "timeout must be a length of time"),
        ("timeout", 0, "timeout must be a length of time"),
        ("max_tasks", 65, "max_tasks must be a whole number from 1 to 64, got 65"),
        ("owner", "", "owner must be a text"),
        ("enabled", "yes", "enabled must be true or false"),
    ],
)
def test_values_that_make_no_sense(key: str, value: object, message: str) -> None:
    with pytest.raises(SettingsError, match=message) as error:
        dag_settings({key: value}, "x")
    assert error.value.facts["key"] == key


def test_lines_of_keys() -> None:
    source = 'a = 1\n[datasets.one]\nx = 1\n[datasets."two"]\nairflow.y = 2\n[datasets.two.checks]\nx = 3\n'
    assert line_of(source, ("datasets", "one"), "x") == 3
    assert line_of(source, ("datasets", "two")) == 4
    assert line_of(source, ("datasets", "two", "airflow"), "y") == 5
    assert line_of(source, ("datasets", "two", "checks"), "x") == 7
    assert line_of(source, ("datasets", "one", "airflow"), "z") == 2, "the nearest that is known"
    assert line_of("a = 1", ("datasets", "one")) is None
