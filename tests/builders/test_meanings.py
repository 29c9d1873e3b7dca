"""What builder classes say of their arguments."""

from __future__ import annotations

from typing import ClassVar

import pytest

from provender.builders.meanings import arguments_of, named
from provender.errors import BuilderError


class Plain:
    """A class that says nothing."""


class Telling:
    """A class that says what its arguments are."""

    ARGUMENTS: ClassVar = {"words": "file", "title": "name"}


class Wrong:
    """A class that says what nobody knows."""

    ARGUMENTS: ClassVar = {"words": "flie"}


def test_a_name_is_given_to_who_asks_for_one() -> None:
    assert named(Telling, "news") == {"title": "news"}
    assert named(Telling, None) == named(Plain, "news") == {}
    assert arguments_of(Plain) == {}


def test_a_kind_that_does_not_exist_is_refused() -> None:
    with pytest.raises(BuilderError, match="'words' is a 'flie'"):
        arguments_of(Wrong)
