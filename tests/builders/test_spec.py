"""Specs: which builder a name means, and what is said when it means none."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from provender.builders.spec import SHIPPED, BuilderSpec, registered_names, spec_of
from provender.errors import UnknownReference
from provender.refs import DatasetRef
from provender.settings import FILE_NAME, Settings, load_settings

OWN = BuilderSpec("/somewhere/own.py:Own", kwargs={"a": 1})


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    (tmp_path / FILE_NAME).write_text(
        """
        [datasets.own]
        builder = "own.py:Own"
        config = "small"
        version = "1.0.0"
        kwargs = { lang = "en" }
        [datasets.my_digits]
        builder = "digits"
        [datasets.their_mnist]
        builder = "mnist"
        """
    )
    return load_settings(cwd=tmp_path, environ={"HOME": str(tmp_path)})


def test_a_class_is_its_own_spec(settings: Settings) -> None:
    ref = DatasetRef(target="a.b:C", config="c", version="1.0.0")
    assert spec_of(ref, settings) == BuilderSpec("a.b:C", "c", "1.0.0")


def test_the_projects_names_come_first(settings: Settings, tmp_path: Path) -> None:
    remembered = {"own": OWN}
    spec = spec_of(DatasetRef.parse("own"), settings, remembered)
    assert spec == BuilderSpec(f"{tmp_path}/own.py:Own", "small", "1.0.0", {"lang": "en"})
    ref = DatasetRef.parse("own/big:2.0.0")
    assert spec_of(ref, settings) == BuilderSpec(spec.source, "big", "2.0.0", {"lang": "en"})


def test_a_projects_name_may_stand_for_a_shipped_or_a_tfds_builder(settings: Settings) -> None:
    assert spec_of(DatasetRef("my_digits"), settings).source == SHIPPED["digits"]
    assert spec_of(DatasetRef("their_mnist"), settings).source == "tfds:mnist"


def test_a_name_that_is_only_checked_keeps_its_builder(tmp_path: Path) -> None:
    text = "[datasets.digits.checks]\nmin_examples = 1\n[datasets.own]\nkey = 'id'\n"
    (tmp_path / FILE_NAME).write_text(text)
    settings = load_settings(cwd=tmp_path, environ={"HOME": str(tmp_path)})
    assert spec_of(DatasetRef("digits"), settings).source == SHIPPED["digits"]
    assert spec_of(DatasetRef("own"), settings, {"own": OWN}) == OWN
    with pytest.raises(UnknownReference):
        spec_of(DatasetRef("own"), settings)


def test_shipped_builders_win_over_those_of_tfds(settings: Settings) -> None:
    assert "xsum" in registered_names()
    assert spec_of(DatasetRef("xsum"), settings, {"xsum": OWN}).source == SHIPPED["xsum"]


def test_a_remembered_builder_wins_over_tfds(settings: Settings) -> None:
    spec = spec_of(DatasetRef.parse("mnist:3.0.1"), settings, {"mnist": OWN})
    assert spec == OWN.with_(None, "3.0.1")


def test_the_tfds_registry_comes_last(settings: Settings) -> None:
    assert spec_of(DatasetRef("mnist"), settings) == BuilderSpec("tfds:mnist")


@pytest.mark.parametrize(
    ("name", "near"), [("mnst", "mnist"), ("xsun", "xsum"), ("owm", "own"), ("digit", "digits")]
)
def test_an_unknown_name_says_what_comes_near(settings: Settings, name: str, near: str) -> None:
    with pytest.raises(UnknownReference, match=f"no dataset {name!r}") as error:
        spec_of(DatasetRef(name), settings)
    assert near in error.value.facts["near"]
    assert near in str(error.value.hint)


def test_a_name_like_no_other_still_says_what_to_do(settings: Settings) -> None:
    with pytest.raises(UnknownReference) as error:
        spec_of(DatasetRef("qqqqqqqqqqqq"), settings)
    assert error.value.facts["near"] == []
    assert "file.py:Class" in str(error.value.hint)


def test_an_alias_cannot_be_built(settings: Settings) -> None:
    with pytest.raises(UnknownReference, match="cannot be built"):
        spec_of(DatasetRef.parse("own@golden"), settings)


@given(
    st.builds(
        BuilderSpec,
        st.text(),
        st.none() | st.text(),
        st.none() | st.text(),
        st.dictionaries(st.text(), st.none() | st.integers() | st.text()),
    )
)
def test_json_loses_nothing(spec: BuilderSpec) -> None:
    assert BuilderSpec.from_json(json.loads(json.dumps(spec.to_json()))) == spec


def test_with_merges_keyword_arguments() -> None:
    assert OWN.with_("c", None, {"b": 2}).kwargs == {"a": 1, "b": 2}
    assert OWN.with_(None, None, {"a": 3}).kwargs == {"a": 3}
    assert OWN.with_(None, None) == OWN
