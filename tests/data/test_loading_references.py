"""`load_dataset` of published versions and of builders."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.data.upkeep_fixtures import notes, upkeep

from provender.data import (
    load_dataset,
)
from provender.data.features import ClassLabel
from provender.errors import SettingsError, UnknownReference

__all__ = ["notes"]


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A home of its own: nothing cached before, nothing left behind."""
    monkeypatch.setenv("PROVENDER_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("PROVENDER_STORE", str(tmp_path / "store"))
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize("streaming", [False, True])
def test_a_published_version(notes, streaming: bool) -> None:
    found = load_dataset("notes:1.0.0", settings=notes.settings, streaming=streaming)
    assert list(found) == ["train", "test"]
    train = list(found["train"])
    assert len(train) == 300
    assert sorted(row["text"].split()[1] for row in train) == sorted(map(str, range(300)))
    assert found["train"].features["label"] == ClassLabel(names=["calm", "loud"])
    part = load_dataset(
        "notes@latest", settings=notes.settings, split="train[10:20]", streaming=streaming
    )
    assert list(part) == train[10:20]
    texts = load_dataset(
        "notes", settings=notes.settings, split="test", columns=["text"], streaming=streaming
    )
    assert texts.column_names == ["text"]


def test_a_published_version_says_what_it_is(notes) -> None:
    found = load_dataset("notes", settings=notes.settings, split="train")
    assert (found.info.dataset_name, found.info.version) == ("notes", "1.0.0")
    assert found.info.description == "Notes."


def test_its_folder_is_read_by_itself(notes) -> None:
    folder = notes.store.path(notes.version.path)
    found = load_dataset(folder, streaming=True)
    assert list(found) == ["train", "test"]
    assert list(found["train"]) == list(
        load_dataset("notes", settings=notes.settings, split="train", streaming=True)
    )


def test_names_that_mean_nothing(notes) -> None:
    with pytest.raises(UnknownReference, match="no published version nots") as caught:
        load_dataset("nots", settings=notes.settings)
    assert "Did you mean notes?" in str(caught.value.hint)
    with pytest.raises(UnknownReference, match="no alias 'lates'"):
        load_dataset("notes@lates", settings=notes.settings)
    with pytest.raises(SettingsError, match="named dataset"):
        load_dataset("notes", settings=notes.settings, data_files="x")


@pytest.fixture
def unbuilt(tmp_path: Path) -> Iterator[tuple[str, Any]]:
    file = tmp_path / "fresh_builder.py"
    file.write_text(upkeep().BUILDER.replace("Notes", "Fresh"))
    yield f"{file}:Fresh", upkeep().settings_for(tmp_path)


def test_a_builder_is_streamed_before_it_is_built_and_then_built(unbuilt, tmp_path) -> None:
    from provender.engine.session import open_catalog

    name, settings = unbuilt
    stream = load_dataset(name, split="train", settings=settings, streaming=True)
    assert next(iter(stream)) == {"label": 0, "text": "note 0 "}
    rows = list(stream)
    assert open_catalog(settings).versions("fresh") == []
    built = load_dataset(name, split="train", settings=settings)
    assert len(open_catalog(settings).versions("fresh")) == 1
    key = lambda row: row["text"]  # noqa: E731
    assert sorted(built, key=key) == sorted(rows, key=key)
    assert built.features == stream.features
    with pytest.raises(SettingsError, match="on_error= is for data that is published"):
        load_dataset(
            name,
            streaming=True,
            settings=upkeep().settings_for(tmp_path / "other"),
            on_error="skip",
        )
    again = load_dataset("fresh:1.0.0", split="train", settings=settings, streaming=True)
    assert list(again) == list(built)
