"""Which files an input path means."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from provender.errors import MissingFiles, SettingsError
from provender.nlp.paths import match_files


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name in ("b.tfrecord", "a.tfrecord", "c.txt", "x[1].tfrecord", "x1.tfrecord"):
        (tmp_path / name).write_bytes(b"1")
    (tmp_path / "sub").mkdir()
    return tmp_path


def names(found: Any) -> list[str]:
    return [each.rpartition("/")[2] for each in found]


def test_globs_are_sorted_and_entries_keep_their_order(folder: Path) -> None:
    assert names(match_files(f"{folder}/c.txt, {folder}/?.tfrecord ,,")) == [
        "c.txt", "a.tfrecord", "b.tfrecord",
    ]  # fmt: skip
    assert names(match_files([f"{folder}/b.*", f"{folder}/a.*,{folder}/c.txt"])) == [
        "b.tfrecord", "a.tfrecord", "c.txt",
    ]  # fmt: skip
    assert names(match_files((f"{folder}/b.*",))) == ["b.tfrecord"]


def test_a_mixture_by_name_in_its_order(folder: Path) -> None:
    found = match_files({"two": [f"{folder}/b.tfrecord"], "one": f"{folder}/a*"})
    assert list(found) == ["two", "one"]
    assert names(found["one"]) == ["a.tfrecord"]


@pytest.mark.parametrize("path", ["x[1].tfrecord", "x[[]1].tfrecord"])
def test_brackets_are_taken_literally(folder: Path, path: str) -> None:
    if path == "x[1].tfrecord":
        assert names(match_files(f"{folder}/{path}")) == [path]
    else:
        with pytest.raises(MissingFiles):
            match_files(f"{folder}/{path}")


def test_brackets_in_a_pattern_are_taken_literally(folder: Path) -> None:
    assert names(match_files(f"{folder}/x[1]*")) == ["x[1].tfrecord"]


@pytest.mark.parametrize("path", ["none-*.tfrecord", "a.tfrecod", "sub"])
def test_nothing_there_is_an_error_with_what_is(folder: Path, path: str) -> None:
    with pytest.raises(ValueError, match=path.replace("*", r"\*")) as caught:
        match_files(f"{folder}/{path}")
    assert isinstance(caught.value, MissingFiles)
    if path == "none-*.tfrecord":
        assert str(caught.value).startswith(f"{folder}/none-*.tfrecord does not match any files.")
    elif path == "sub":
        assert f"{folder}/sub/*" in caught.value.hint
    else:
        assert "a.tfrecord" in caught.value.hint


@pytest.mark.parametrize("value", ["", "  , ", [], [" "]])
def test_nothing_named_is_an_error(value: Any) -> None:
    with pytest.raises(SettingsError, match="names no file"):
        match_files(value)


@pytest.mark.parametrize("value", [3, None, [1], ["a", ["b"]], b"a"])
def test_another_type_is_an_error_with_the_three_forms(value: Any) -> None:
    with pytest.raises(ValueError, match="cannot") as caught:
        match_files(value)
    for form in ("by commas", "a list", "a dict"):
        assert form in str(caught.value)


def test_duplicates_are_kept_and_a_warning_names_them(
    folder: Path, caplog: pytest.LogCaptureFixture
) -> None:
    found = match_files([f"{folder}/a.tfrecord", f"{folder}/?.tfrecord"])
    assert names(found) == ["a.tfrecord", "a.tfrecord", "b.tfrecord"]
    assert "more than once" in caplog.text
    assert "a.tfrecord" in caplog.text
    assert "b.tfrecord" not in caplog.text


def test_an_address_in_memory() -> None:
    import fsspec

    for name in ("2.tfrecord", "1.tfrecord", "x.txt"):
        with fsspec.open(f"memory://paths/{name}", "wb") as out:
            out.write(b"1")
    found = match_files("memory://paths/*.tfrecord")
    assert names(found) == ["1.tfrecord", "2.tfrecord"]
    assert all(each.startswith("memory://") for each in found)
    assert names(match_files("memory://paths/x.txt")) == ["x.txt"]
    with pytest.raises(MissingFiles, match=r"y\.txt"):
        match_files("memory://paths/y.txt, memory://paths/x.txt")
