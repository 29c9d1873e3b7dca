"""What a function raises within `map` and `filter` can be caught as that."""

from __future__ import annotations

import pickle
from typing import Any

import pytest

from provender.data import Dataset
from provender.data.errors import ReturnError, TransformError
from provender.errors import ProvenderError


class Coded(Exception):
    def __init__(self, message: str, code: int = 0, **_: Any) -> None:
        super().__init__(message)
        self.code = code


class Picky(Exception):
    def __init__(self, one: int, two: int) -> None:
        super().__init__(one + two)


class Slotted(Exception):
    __slots__ = ("x",)


class Sealed(Exception):
    def __init_subclass__(cls) -> None:
        raise TypeError("no children")


class Fixed(Exception):
    @property
    def message(self) -> str:
        return "mine"


def raised(error: Exception, **how: Any) -> TransformError:
    def fail(row: Any) -> Any:
        raise error

    with pytest.raises(TransformError) as caught:
        Dataset.from_dict({"a": [1, 2, 3]}).map(fail, **how)
    return caught.value


@pytest.mark.parametrize(
    "error",
    [
        ValueError("v"),
        KeyError("k"),
        ZeroDivisionError("z"),
        FileNotFoundError(2, "No such file", "x.txt"),
        TimeoutError("late"),
        ImportError("i", name="pkg"),
        UnicodeDecodeError("utf-8", b"\xff", 0, 1, "bad"),
        StopIteration("s"),
        Exception("e"),
        Coded("c", code=7),
        Picky(1, 2),
        Slotted("s"),
        Sealed("s"),
        Fixed("f"),
        ExceptionGroup("g", [ValueError()]),
    ],
    ids=lambda error: type(error).__name__,
)
@pytest.mark.parametrize("batched", [False, True], ids=["rows", "batches"])
def test_an_error_is_told_with_its_row_and_travels(error: Exception, batched: bool) -> None:
    found = raised(error, batched=batched)
    assert found.__cause__ is error
    assert f"raised {type(error).__name__}" in found.message
    assert found.facts["row"] == 0
    for again in (
        ProvenderError.from_json(found.to_json()),
        pickle.loads(pickle.dumps(found)),
    ):
        assert isinstance(again, TransformError)
        assert again.to_json() == found.to_json()
        assert str(again) == str(found)
    assert type(ProvenderError.from_json(found.to_json())) is TransformError


def test_it_is_caught_as_what_the_function_raised() -> None:
    for error in (ValueError("v"), KeyError("k"), ZeroDivisionError("z"), Coded("c", code=7)):
        found = raised(error)
        assert isinstance(found, type(error))
        assert isinstance(pickle.loads(pickle.dumps(found)), type(error))
    assert raised(Coded("c", code=7)).code == 7  # type: ignore[attr-defined]
    missing = raised(FileNotFoundError(2, "No such file", "x.txt"))
    assert isinstance(missing, FileNotFoundError)
    assert (missing.errno, missing.filename) == (2, "x.txt")
    assert type(raised(Picky(1, 2))) is TransformError


def test_a_class_that_cannot_be_found_again_is_pickled_without_it() -> None:
    class Local(ValueError):
        pass

    found = raised(Local("x"))
    assert isinstance(found, Local)
    assert type(pickle.loads(pickle.dumps(found))) is TransformError


def test_workers_and_filters_too() -> None:
    ds = Dataset.from_dict({"a": [1, 2, 3]})

    def fail(row: Any) -> Any:
        raise ZeroDivisionError("no")

    with pytest.raises(ZeroDivisionError):
        ds.map(fail, num_proc=2)
    with pytest.raises(ZeroDivisionError):
        ds.filter(fail)


def test_what_is_no_dict_is_a_type_error() -> None:
    ds = Dataset.from_dict({"a": [1, 2, 3]})
    for how in ({}, {"batched": True}, {"num_proc": 2}):
        with pytest.raises(TypeError) as caught:
            ds.map(lambda row: 3, **how)  # type: ignore[arg-type]
        assert type(caught.value) is ReturnError
    with pytest.raises(TypeError):
        list(ds.to_iterable_dataset().map(lambda row: 3))
