"""Capture: what each style of `_split_generators` would generate, with nothing generated."""

from __future__ import annotations

import sys
import types
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import tensorflow_datasets as tfds

from provender.builders.capture import Call, capture, examples_of, run
from provender.errors import BuilderError, SplitError

MANAGER = object()
STARTED: list[str] = []


def outside(count: int) -> Iterator[Any]:
    STARTED.append("outside")
    yield from ((i, {}) for i in range(count))


class Styles(tfds.core.GeneratorBasedBuilder, skip_registration=True):
    VERSION = tfds.core.Version("1.0.0")
    splits: Callable[[Any, Any], Any]

    def _info(self) -> Any:
        return tfds.core.DatasetInfo(
            builder=self, features=tfds.features.FeaturesDict({"text": tfds.features.Text()})
        )

    def _split_generators(self, dl_manager: Any) -> Any:
        assert dl_manager is MANAGER
        return type(self).splits(self, dl_manager)

    def _generate_examples(self, *args: Any, **kwargs: Any) -> Iterator[Any]:
        STARTED.append("examples")
        yield "args", (args, kwargs)

    def rows(self, path: str, *, count: int = 2) -> Iterator[Any]:
        STARTED.append("rows")
        yield from ((i, path) for i in range(count))

    def starred(self, *paths: str) -> Iterator[Any]:
        yield from enumerate(paths)

    def through_rows(self) -> Iterator[Any]:
        return self.rows("inner", count=1)


@pytest.fixture
def made(tmp_path: Any) -> Iterator[Callable[[Any], Styles]]:
    """Makes a builder whose `_split_generators` is the function given."""

    def make(splits: Callable[[Any, Any], Any]) -> Styles:
        cls = types.new_class("Styled", (Styles,), {"skip_registration": True})
        cls.splits = splits
        return cls(data_dir=tmp_path)

    STARTED.clear()
    yield make


def test_a_dict_of_generate_examples(made: Any) -> None:
    builder = made(
        lambda self, _: {
            "train": self._generate_examples("a", count=3),
            tfds.Split.TEST: self._generate_examples(),
        }
    )
    assert capture(builder, MANAGER) == {
        "train": Call("_generate_examples", ("a",), {"count": 3}),
        "test": Call("_generate_examples"),
    }
    assert STARTED == []


def test_the_recorder_is_gone_afterwards_even_after_an_error(made: Any) -> None:
    def broken(self: Any, _: Any) -> Any:
        raise OSError("no disk")

    builder = made(broken)
    with pytest.raises(OSError, match="no disk"):
        capture(builder, MANAGER)
    assert list(builder._generate_examples(1)) == [("args", ((1,), {}))]


def test_the_list_of_split_generators(made: Any) -> None:
    builder = made(
        lambda self, _: [
            tfds.core.SplitGenerator(name=tfds.Split.TRAIN, gen_kwargs={"path": "p"}),
            tfds.core.SplitGenerator(name="extra", gen_kwargs={}),
        ]
    )
    found = capture(builder, MANAGER)
    assert found["train"] == Call("_generate_examples", (), {"path": "p"})
    assert found["extra"] == Call("_generate_examples")
    assert list(run(builder, found["train"])) == [("args", ((), {"path": "p"}))]
    assert list(examples_of(builder, MANAGER, "train")) == [("args", ((), {"path": "p"}))]


def test_a_generator_method_of_another_name(made: Any) -> None:
    builder = made(lambda self, _: {"train": self.rows("x", count=3), "test": self.rows("y")})
    found = capture(builder, MANAGER)
    assert found == {
        "train": Call("rows", (), {"path": "x", "count": 3}),
        "test": Call("rows", (), {"path": "y", "count": 2}),
    }
    assert STARTED == []
    assert list(run(builder, found["train"])) == [(0, "x"), (1, "x"), (2, "x")]


def test_a_method_that_returns_another_methods_generator(made: Any) -> None:
    builder = made(lambda self, _: {"train": self.through_rows()})
    assert capture(builder, MANAGER) == {"train": Call("rows", (), {"path": "inner", "count": 1})}


@pytest.mark.parametrize(
    "value",
    [
        lambda self: outside(2),
        lambda self: self.starred("a", "b"),
        lambda self: [(0, {}), (1, {})],
        lambda self: ((i, {}) for i in range(2)),
        lambda self: iter([(0, {}), (1, {})]),
        lambda self: self.__class__(data_dir=self._data_dir_root).rows("of another builder"),
    ],
    ids=["function", "star", "list", "expression", "iterator", "another builder's"],
)
def test_what_cannot_be_named_is_replayed(made: Any, value: Callable[[Any], Any]) -> None:
    builder = made(lambda self, _: {"train": value(self)})
    assert capture(builder, MANAGER) == {"train": Call(None)}
    assert STARTED == []
    assert len(list(examples_of(builder, MANAGER, "train"))) == 2
    with pytest.raises(ValueError, match="replayed"):
        run(builder, Call(None))


def test_a_replay_that_no_longer_has_the_split(made: Any) -> None:
    builder = made(lambda self, _: {"train": outside(1)})
    with pytest.raises(SplitError, match="'test' was planned"):
        examples_of(builder, MANAGER, "test")


@pytest.mark.parametrize(
    ("returned", "error", "message"),
    [
        ({}, SplitError, "no splits"),
        ([], SplitError, "no splits"),
        (None, BuilderError, "returned NoneType"),
        ("train", BuilderError, "returned str"),
        (["train"], BuilderError, "list holding str"),
        ({"train": 3}, BuilderError, "value is int"),
        ({"train": None}, BuilderError, "value is NoneType"),
        (
            [tfds.core.SplitGenerator(name="a", gen_kwargs={})] * 2,
            SplitError,
            "'a' is returned twice",
        ),
        ({"train": [], tfds.Split("test"): [], "test ": []}, None, ""),
    ],
    ids=str,
)
def test_what_is_no_plan(made: Any, returned: Any, error: Any, message: str) -> None:
    builder = made(lambda self, _: returned)
    if error is None:
        assert set(capture(builder, MANAGER)) == {"train", "test", "test "}
        return
    with pytest.raises(error, match=message) as raised:
        capture(builder, MANAGER)
    assert raised.value.where == "Styled"


def test_a_builder_that_takes_a_pipeline_is_refused_before_it_runs(made: Any) -> None:
    class Piped(Styles, skip_registration=True):
        def _split_generators(self, dl_manager: Any, pipeline: Any) -> Any:
            raise AssertionError

    with pytest.raises(BuilderError, match="Piped generates its examples with Apache Beam"):
        capture(Piped(data_dir="/nowhere"), MANAGER)


def test_a_beam_transform_is_refused(made: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    module = types.ModuleType("apache_beam.transforms")
    monkeypatch.setitem(sys.modules, module.__name__, module)
    transform = type("ParDo", (), {"__module__": module.__name__})
    with pytest.raises(BuilderError, match="Apache Beam") as error:
        capture(made(lambda self, _: {"train": transform()}), MANAGER)
    assert error.value.hint
