"""Errors: one tree, drawn in its module, that travels between processes without loss."""

from __future__ import annotations

import json
import pickle
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from provender import errors
from provender.errors import ExampleError, ProvenderError

CLASSES = sorted(
    (
        c
        for c in vars(errors).values()
        if isinstance(c, type) and issubclass(c, Exception) and not c.__name__.startswith("_")
    ),
    key=lambda c: c.__name__,
)
TEXTS = st.none() | st.text(max_size=30)
FACTS = st.dictionaries(
    st.text(max_size=8), st.none() | st.booleans() | st.integers() | st.text(max_size=8)
)


def drawn() -> dict[str, tuple[str | None, int]]:
    """Class name -> name of its base and exit code, as the module's docstring draws them."""
    found: dict[str, tuple[str | None, int]] = {}
    above: list[str] = []
    for line in (errors.__doc__ or "").splitlines():
        row = re.match(r"    ((?:│   |├── |└── |    )*)(\w+) +(\d)(?: |$)", line)
        if row:
            depth = len(row[1]) // 4
            above = [*above[:depth], row[2]]
            found[row[2]] = (above[-2] if depth else None, int(row[3]))
    return found


def test_the_tree_is_drawn_as_it_is() -> None:
    real = {
        c.__name__: (None if c is ProvenderError else c.__bases__[0].__name__, c.exit_code)
        for c in CLASSES
    }
    assert drawn() == real


def test_only_the_base_may_exit_as_a_crash_does() -> None:
    assert [c.__name__ for c in CLASSES if c.exit_code == 1] == ["ProvenderError"]
    assert all(1 <= c.exit_code < 126 for c in CLASSES)


@pytest.mark.parametrize("cls", CLASSES, ids=lambda c: c.__name__)
def test_every_class_says_what_it_is(cls: type[Exception]) -> None:
    assert cls.__doc__


@given(st.sampled_from(CLASSES), st.text(max_size=40), TEXTS, TEXTS, FACTS)
def test_json_and_pickle_lose_nothing(
    cls: type[ProvenderError],
    message: str,
    where: str | None,
    hint: str | None,
    facts: dict[str, object],
) -> None:
    error = cls(message, where=where, hint=hint, facts=facts)
    again = ProvenderError.from_json(json.loads(json.dumps(error.to_json())))
    pickled = pickle.loads(pickle.dumps(error))
    for each in (again, pickled):
        assert type(each) is cls
        assert each.to_json() == error.to_json()
        assert str(each) == str(error)


def test_an_unknown_type_becomes_the_base() -> None:
    error = ProvenderError.from_json({"type": "FromTheFuture", "message": "m", "where": "w"})
    assert type(error) is ProvenderError
    assert (error.message, error.where, error.hint, error.facts) == ("m", "w", None, {})


def test_the_text_holds_what_where_and_what_next() -> None:
    error = ExampleError("It broke.", where="key 7", hint="mend it")
    assert str(error).splitlines() == ["It broke.", "  where: key 7", "  next:  mend it"]
    assert str(ExampleError("It broke.")) == "It broke."


def test_facts_are_the_errors_own() -> None:
    facts = {"a": 1}
    error = ProvenderError("m", facts=facts)
    facts["a"] = 2
    assert error.facts == {"a": 1}


@pytest.mark.parametrize(
    ("cls", "builtin"),
    [
        (errors.SettingsError, ValueError),
        (errors.SplitError, ValueError),
        (errors.UnknownSplit, ValueError),
        (errors.MissingFiles, FileNotFoundError),
        (errors.MissingPath, FileNotFoundError),
    ],
    ids=lambda c: c.__name__,
)
def test_ported_except_clauses_catch_what_they_caught(
    cls: type[ProvenderError], builtin: type[Exception]
) -> None:
    with pytest.raises(builtin):
        raise cls("m", where="w")
    assert issubclass(cls, ProvenderError)


def test_missing_files_have_the_attributes_of_an_os_error() -> None:
    import errno

    for error in (
        errors.MissingFiles("m", where="a.csv", hint="h", facts={"a": 1}),
        errors.MissingPath("m", where="a.csv"),
    ):
        for each in (error, pickle.loads(pickle.dumps(error))):
            assert (each.errno, each.filename) == (errno.ENOENT, "a.csv")
            assert str(each) == str(error)


def test_an_unknown_reference_is_no_lookup_error() -> None:
    assert not issubclass(errors.UnknownReference, (LookupError, ValueError))
