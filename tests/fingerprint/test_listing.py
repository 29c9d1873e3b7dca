"""The lines that explanations show."""

from __future__ import annotations

from typing import Any

import pytest

from provender.fingerprint.listing import changed_lines, listing


def shown(fn: Any) -> str | None:
    return listing(fn.__code__, fn.__globals__)


def test_only_what_counts_is_shown() -> None:
    def fn(x: int, *, flag: bool = True) -> int:
        """Docstring."""
        # A comment.
        y: int = x + 1
        return y

    assert shown(fn) == "def fn(x, *, flag):\n    y = x + 1\n    return y"


def test_literals_beside_secret_names_are_masked() -> None:
    def fn() -> str:
        password = "hunter2"
        plain = "kept"
        return password + plain

    text = shown(fn) or ""
    assert "hunter2" not in text
    assert "kept" in text


def test_code_without_source_has_no_listing() -> None:
    space: dict[str, Any] = {}
    exec(compile("def fn():\n    return 1\n", "<made>", "exec"), space)
    assert listing(space["fn"].__code__, {}) is None


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        ("a = 1\nb = 2", "a = 1\nb = 3", ("b = 2", "b = 3")),
        ("a = 1", "a = 1\nb = 3", (None, "b = 3")),
        ("a = 1\nb = 2", "b = 2", ("a = 1", None)),
        ("a = 1", "a = 1", (None, None)),
        (None, "a = 1", (None, None)),
    ],
)
def test_changed_lines(
    old: str | None, new: str | None, expected: tuple[str | None, str | None]
) -> None:
    assert changed_lines(old, new) == expected


def test_long_changes_are_cut() -> None:
    _, new = changed_lines("a", "b = " + "x" * 1000)
    assert new is not None
    assert len(new) == 240
