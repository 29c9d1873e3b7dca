"""Configurations: override, lock, replace, documents, types."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Any, Literal

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from provender.errors import MissingFiles, ProvenderError, SettingsError
from provender.nlp import Config, DataConfig
from provender.nlp.config import LockedConfig, UnknownOption


@dataclasses.dataclass
class Inner(Config):
    rate: float = 0.5
    words: tuple[str, ...] = ()


@dataclasses.dataclass
class Outer(Config):
    inner: Inner = dataclasses.field(default_factory=Inner)
    many: tuple[Inner, ...] = ()
    count: int = 1
    flag: bool | None = None
    kind: Literal["a", "b"] = "a"
    pair: tuple[str, str] | None = None
    table: dict[str, float] | None = None
    free: Any = None


def test_override_sets_what_is_named_and_nested_configurations_keep_the_rest() -> None:
    config = Outer(inner=Inner(rate=0.1, words=("x",)))
    assert config.override({"inner": {"rate": 1}, "count": 3}) is config
    assert config.inner == Inner(rate=1.0, words=("x",))
    assert isinstance(config.inner.rate, float)
    assert config.count == 3


def test_dicts_in_sequences_become_configurations() -> None:
    config = Outer().override({"many": [{"rate": 0.25}, {"words": ["a", "b"]}]})
    assert config.many == (Inner(rate=0.25), Inner(words=("a", "b")))


@pytest.mark.parametrize(
    ("key", "nearest"), [("cuont", "count"), ("innr", "inner"), ("flags", "flag")]
)
def test_an_unknown_key_names_the_nearest(key: str, nearest: str) -> None:
    with pytest.raises(UnknownOption) as caught:
        Outer().override({key: 1})
    assert isinstance(caught.value, KeyError)
    assert isinstance(caught.value, ValueError)
    assert repr(key) in str(caught.value)
    assert repr(nearest) in caught.value.hint
    with pytest.raises(UnknownOption, match=key):
        Outer().replace(**{key: 1})
    with pytest.raises(UnknownOption, match=key):
        setattr(Outer(), key, 1)
    with pytest.raises(UnknownOption, match=f"Outer has no key '{key}'") as caught:
        Outer(**{key: 1})
    assert repr(nearest) in caught.value.hint


def test_a_configuration_with_arguments_of_its_own() -> None:
    import copy
    import pickle

    @dataclasses.dataclass(init=False)
    class Own(Config):
        rate: float = 0.5

        def __init__(self, percent: int = 50) -> None:
            self.rate = percent / 100

    assert Own(percent=20).rate == 0.2
    with pytest.raises(UnknownOption, match="Own has no key 'percnt'") as caught:
        Own(percnt=3)  # type: ignore[call-arg]
    assert "'percent'" in caught.value.hint
    config = Outer(count=3)
    assert copy.deepcopy(config) == config == pickle.loads(pickle.dumps(config))


def test_an_unknown_key_deep_inside_names_the_class_that_lacks_it() -> None:
    with pytest.raises(UnknownOption, match="Inner has no key 'rte'") as caught:
        Outer().override({"inner": {"rte": 1}})
    assert "'rate'" in caught.value.hint


def test_a_key_like_none_lists_all() -> None:
    with pytest.raises(UnknownOption) as caught:
        Inner().override({"zzzzzz": 1})
    assert "rate, words" in caught.value.hint


def test_without_strict_unknown_keys_become_attributes_and_dicts_configurations() -> None:
    config: Any = Inner().override(
        {"extra": {"deep": {"x": 1}}, "items": [{"y": 2}, {"y": 3}], "plain": [1, 2]}, strict=False
    )
    assert config.extra.deep.x == 1
    assert [each.y for each in config.items] == [2, 3]
    assert config.plain == [1, 2]
    assert config.as_dict() == {
        "rate": 0.5, "words": (), "extra": {"deep": {"x": 1}}, "items": [{"y": 2}, {"y": 3}],
        "plain": [1, 2],
    }  # fmt: skip
    assert config.override({"extra": {"deep": {"x": 5}}}).extra.deep.x == 5


@pytest.mark.parametrize("value", [[{"a": 1}, 2], [[1], [2]]])
def test_a_list_of_values_and_dicts_is_refused(value: Any) -> None:
    with pytest.raises(SettingsError, match="mixes"):
        Config().override({"items": value}, strict=False)


def test_a_refused_override_changes_nothing() -> None:
    config = Outer()
    with pytest.raises(SettingsError):
        config.override({"count": 5, "inner": {"rate": 2.0}, "kind": "c"})
    assert config == Outer()


def test_lock_holds_for_all_of_it_and_replace_gives_an_unlocked_copy() -> None:
    config = Outer(many=(Inner(),)).lock()
    assert config.is_locked
    for target, name in ((config, "count"), (config.inner, "rate"), (config.many[0], "rate")):
        with pytest.raises(LockedConfig, match=name):
            setattr(target, name, 2)
    with pytest.raises(ValueError, match="locked"):
        config.override({"count": 2})
    copy = config.replace(count=2)
    copy.inner.rate = 0.9
    copy.many[0].rate = 0.9
    assert (copy.count, copy.is_locked) == (2, False)
    assert (config.count, config.inner.rate, config.many[0].rate) == (1, 0.5, 0.5)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("count", "x"), ("count", True), ("count", 1.5), ("flag", 1), ("flag", "yes"),
        ("kind", "c"), ("pair", ["a"]), ("pair", "ab"), ("inner", 3), ("many", {"rate": 1}),
        ("table", {"a": "b"}), ("table", [1]),
    ],
)  # fmt: skip
def test_a_value_of_another_kind_is_refused(name: str, value: Any) -> None:
    with pytest.raises(SettingsError, match=f"{name} must be") as caught:
        Outer(**{name: value})
    assert repr(value) in caught.value.message
    with pytest.raises(SettingsError):
        Outer().override({name: value})


def test_lists_become_tuples_where_the_field_is_one() -> None:
    assert Outer(pair=["a", "b"]).pair == ("a", "b")  # type: ignore[arg-type]
    assert Inner(words=["a"]).words == ("a",)  # type: ignore[arg-type]
    assert DataConfig(input_path=["a", "b"]).input_path == ["a", "b"]


def test_get_gives_fields_and_defaults() -> None:
    assert Outer().get("count") == 1
    assert Outer().get("nothing", 7) == 7


def test_yaml_and_json_files(tmp_path: Path) -> None:
    file = tmp_path / "config.yaml"
    file.write_text("count: 4\ninner:\n  rate: 1e-4\n  words: [a]\n")
    config = Outer.from_yaml(str(file))
    assert (config.count, config.inner.rate, config.inner.words) == (4, 1e-4, ("a",))
    other = tmp_path / "config.json"
    other.write_text(json.dumps(config.as_dict()))
    assert Outer.from_json(str(other)) == config
    assert Outer().override(str(other)) == config


def test_yaml_at_any_address() -> None:
    import fsspec

    with fsspec.open("memory://configs/one.yaml", "w") as out:
        out.write("count: 9\n")
    assert Outer.from_yaml("memory://configs/one.yaml").count == 9


@pytest.mark.parametrize(
    ("text", "message"), [("a: [", "neither YAML nor JSON"), ("- 1\n", "not keys and values")]
)
def test_a_document_that_is_none(text: str, message: str, tmp_path: Path) -> None:
    file = tmp_path / "bad.yaml"
    file.write_text(text)
    with pytest.raises(SettingsError, match=message):
        Outer.from_yaml(str(file))


def test_a_document_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(MissingFiles):
        Outer.from_yaml(str(tmp_path / "none.yaml"))


PATHS = st.one_of(
    st.text(), st.lists(st.text()), st.dictionaries(st.text(), st.text() | st.lists(st.text()))
)


@given(
    path=PATHS,
    seed=st.none() | st.integers(),
    weights=st.none() | st.dictionaries(st.text(), st.floats(0, 1e6)),
    training=st.none() | st.booleans(),
    packed=st.none() | st.integers(1, 99),
)
def test_every_configuration_survives_a_round_trip(
    path: Any, seed: int | None, weights: Any, training: bool | None, packed: int | None
) -> None:
    config = DataConfig(input_path=path, seed=seed, weights=weights, is_training=training)
    if packed:
        config.override({"packing": {"max_segments": packed}})
    document = config.as_dict()
    assert DataConfig().override(document) == config
    assert DataConfig().override(json.loads(json.dumps(document))) == config
    assert DataConfig().override(yaml.safe_load(yaml.safe_dump(document))) == config


def test_as_dict_is_a_deep_copy() -> None:
    config = DataConfig(weights={"a": 1.0})
    config.as_dict()["weights"]["a"] = 2.0
    assert config.weights == {"a": 1.0}


def test_every_error_is_one_of_provenders() -> None:
    assert issubclass(UnknownOption, ProvenderError)
    assert issubclass(LockedConfig, ProvenderError)
