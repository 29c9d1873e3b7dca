"""References: what people type is read as what they meant, and written back the same."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from provender.errors import UnknownReference
from provender.refs import DatasetRef

NAMES = st.from_regex(r"[a-z][a-z0-9_]{0,20}", fullmatch=True)
CONFIGS = st.none() | st.from_regex(r"[A-Za-z0-9_.+-]{1,12}(/[a-z0-9]{1,5})?", fullmatch=True)
NUMBERS = st.tuples(*[st.integers(0, 10**6)] * 3).map(lambda n: ".".join(map(str, n)))
ALIASES = st.from_regex(r"[A-Za-z][A-Za-z0-9_.-]{0,12}", fullmatch=True)
MODULES = st.lists(st.from_regex(r"[A-Za-z_][A-Za-z0-9_]{0,8}", fullmatch=True), min_size=1).map(
    ".".join
)


@given(NAMES, CONFIGS, st.none() | NUMBERS)
def test_a_version_is_read_back(name: str, config: str | None, version: str | None) -> None:
    ref = DatasetRef(name, config, version)
    assert DatasetRef.parse(str(ref)) == ref


@given(NAMES, CONFIGS, ALIASES)
def test_an_alias_is_read_back(name: str, config: str | None, alias: str) -> None:
    ref = DatasetRef(name, config, alias=alias)
    assert DatasetRef.parse(str(ref)) == ref


@given(MODULES, st.from_regex(r"[A-Za-z_][A-Za-z0-9_]{0,8}", fullmatch=True))
def test_a_class_is_read_back(module: str, cls: str) -> None:
    ref = DatasetRef.parse(f"{module}:{cls}")
    assert ref == DatasetRef(target=f"{module}:{cls}")
    assert not ref.is_file
    assert DatasetRef.parse(str(ref)) == ref


@given(st.text(max_size=40))
def test_any_text_is_a_reference_or_an_error_that_quotes_it(text: str) -> None:
    try:
        ref = DatasetRef.parse(text)
    except UnknownReference as error:
        assert error.where == text.strip()
        assert error.hint
    else:
        assert DatasetRef.parse(str(ref)) == ref


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("xsum", ("xsum", None, None, None)),
        ("  xsum\n", ("xsum", None, None, None)),
        ("xsum:1.1.0", ("xsum", None, "1.1.0", None)),
        ("xsum@golden", ("xsum", None, None, "golden")),
        ("wikipedia/20230601.en:1.0.0", ("wikipedia", "20230601.en", "1.0.0", None)),
        ("a/b/c@v1.2-rc", ("a", "b/c", None, "v1.2-rc")),
    ],
)
def test_named_datasets(text: str, parts: tuple[str | None, ...]) -> None:
    ref = DatasetRef.parse(text)
    assert (ref.name, ref.config, ref.version, ref.alias) == parts
    assert ref.target is None


@pytest.mark.parametrize(
    "text",
    """| |XSum|1mnist|xsum:1.0|xsum:v1.0.0|xsum@1|xsum:1.0.0@golden|xsum/|xsum /a|x-sum|xsum@|xsum:
    |module.:Class|module:Class()|xsum:1.0.0:Class""".split("|"),
)
def test_what_is_no_reference_is_refused_with_the_forms_that_are(text: str) -> None:
    with pytest.raises(UnknownReference, match="does not name a dataset") as error:
        DatasetRef.parse(text)
    assert "name@alias" in str(error.value.hint)


def test_a_file_is_made_absolute(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "with space # [ab] é:x"
    folder.mkdir()
    (folder / "own.py").touch()
    monkeypatch.chdir(folder)
    ref = DatasetRef.parse("own.py:Own")
    assert ref.target == f"{folder}/own.py:Own"
    assert ref.is_file
    assert DatasetRef.parse(str(ref)) == ref
    monkeypatch.setenv("HOME", str(folder))
    assert DatasetRef.parse("~/own.py:Own") == ref


def test_a_file_that_is_not_there_is_named_in_full(tmp_path: Path) -> None:
    with pytest.raises(UnknownReference, match="There is no file") as error:
        DatasetRef.parse(f"{tmp_path}/nothing.py:Own")
    assert str(tmp_path) in error.value.message


def test_with_replaces_what_is_given_only() -> None:
    ref = DatasetRef("xsum", "a", "1.0.0")
    assert ref.with_() == ref
    assert ref.with_(config="b") == DatasetRef("xsum", "b", "1.0.0")
    assert ref.with_(version="2.0.0") == DatasetRef("xsum", "a", "2.0.0")


def test_a_version_takes_the_place_of_an_alias() -> None:
    ref = DatasetRef("xsum", alias="golden").with_(version="2.0.0")
    assert ref == DatasetRef("xsum", version="2.0.0")
