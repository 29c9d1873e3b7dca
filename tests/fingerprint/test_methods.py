"""A method of a class, with all that it reaches through self."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path
from typing import Any

import pytest

from provender.errors import BuilderError
from provender.fingerprint import Hasher, method_tree, self_attributes, walk_method

TOOLS = """
LIMIT = 3
def helper(x): return x + LIMIT
def lazy(x): return x
def show(builder): return builder.WIDTH
"""
BUILDER = """
import functools
import json
from tools import helper, show

def deco(fn):
    @functools.wraps(fn)
    def wrapper(*args, **kwargs):
        return fn(*args, **kwargs)
    return wrapper

class Wrapped:
    def __init__(self, fn): self.fn = fn
    def __get__(self, obj, cls): return lambda: self.fn(obj)

class Base:
    SEP = ","
    UNUSED = 1
    def _strip(self, s): return s.strip()
    def parse(self, s): return s.split(self.SEP)
    def unused(self): return self.UNUSED

class Builder(Base):
    WIDTH = 4
    OTHER = 7
    @property
    def width(self): return self.WIDTH
    @functools.cached_property
    def table(self): return {"a": 1}
    @deco
    def _strip(self, s): return super()._strip(s) * self.width
    @staticmethod
    def st(x): return x + 1
    @classmethod
    def cm(cls): return cls.CLASS_LEVEL
    CLASS_LEVEL = 11
    def through_map(self, x): return helper(x)
    def _generate_examples(self, path):
        from tools import lazy
        for line in open(path):
            yield self._strip(line), self.parse(line), self.on_instance, self.st(2), self.cm()
            yield list(map(self.through_map, line)), Builder.OTHER, lazy(1), self.table
            yield (lambda: self.in_lambda())(), json.loads(line), getattr(self, "by_name")
    def in_lambda(self): return 1
    by_name = 5
    def escapes(self): return show(self)
    @Wrapped
    def by_object(self): return self.DEEP
    DEEP = 21
    def calls_by_object(self): return self.by_object()
"""


@pytest.fixture
def build(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setattr(sys, "dont_write_bytecode", True)

    def make(old: str = "", new: str = "") -> type:
        for name, text in {"tools": TOOLS, "built": BUILDER}.items():
            assert not old or old in TOOLS + BUILDER
            (tmp_path / f"{name}.py").write_text(text.replace(old, new) if old else text)
            sys.modules.pop(name, None)
        importlib.invalidate_caches()
        return importlib.import_module("built").Builder

    yield make
    for name in ("tools", "built"):
        sys.modules.pop(name, None)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("LIMIT = 3", "LIMIT = 4"),
        ('SEP = ","', 'SEP = ";"'),
        ("s.strip()", "s.lower()"),
        ("WIDTH = 4", "WIDTH = 5"),
        ("* self.width", "+ self.width"),
        ("return x + 1", "return x + 2"),
        ("CLASS_LEVEL = 11", "CLASS_LEVEL = 12"),
        ("OTHER = 7", "OTHER = 8"),
        ("def lazy(x): return x", "def lazy(x): return -x"),
        ('{"a": 1}', '{"a": 2}'),
        ("def in_lambda(self): return 1", "def in_lambda(self): return 2"),
        ("by_name = 5", "by_name = 6"),
        ("return fn(*args, **kwargs)", "return fn(*args)"),
    ],
)
def test_what_it_reaches_counts(build: Any, old: str, new: str) -> None:
    before = method_tree(build(), "_generate_examples")
    assert method_tree(build(old, new), "_generate_examples").digest != before.digest


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("UNUSED = 1", "UNUSED = 2"),
        ("def unused(self): return", "def unused(self): return 2 *"),
        ("return builder.WIDTH", "return builder.HEIGHT"),
        ("WIDTH = 4", "WIDTH = 4  # as ever"),
    ],
)
def test_what_it_does_not_reach_does_not(build: Any, old: str, new: str) -> None:
    before = method_tree(build(), "_generate_examples")
    assert method_tree(build(old, new), "_generate_examples").digest == before.digest


def test_methods_wrapped_into_objects_are_followed(build: Any) -> None:
    before = method_tree(build(), "calls_by_object")
    after = method_tree(build("DEEP = 21", "DEEP = 22"), "calls_by_object")
    assert [str(c) for c in Hasher.explain(before, after)] == [
        "class attribute built.Builder.DEEP: 21 -> 22"
    ]


def test_a_function_taken_off_a_class_brings_the_class(build: Any) -> None:
    before = Hasher.hash(build().parse)
    assert Hasher.hash(build("UNUSED = 1", "UNUSED = 2").parse) != before


def test_changes_are_named(build: Any) -> None:
    before = method_tree(build(), "_generate_examples")
    after = method_tree(build("WIDTH = 4", "WIDTH = 5"), "_generate_examples")
    assert [str(c) for c in Hasher.explain(before, after)] == [
        "class attribute built.Builder.WIDTH: 4 -> 5"
    ]
    after = method_tree(build("s.strip()", "s.lower()"), "_generate_examples")
    assert [str(c) for c in Hasher.explain(before, after)] == [
        "method built.Base._strip(): return s.strip() -> return s.lower()"
    ]


def test_names_read_on_self(build: Any) -> None:
    cls = build()
    names = self_attributes(cls, "_generate_examples")
    assert names is not None
    assert names >= {"on_instance", "width", "WIDTH", "SEP", "parse", "in_lambda", "by_name"}
    assert "unused" not in names
    assert self_attributes(cls, "escapes") is None


def test_where_self_escapes_the_whole_class_counts(build: Any) -> None:
    before = method_tree(build(), "escapes")
    after = method_tree(build("UNUSED = 1", "UNUSED = 2"), "escapes")
    assert before.digest != after.digest


def test_excluded_names_are_not_followed(build: Any) -> None:
    before = walk_method(build(), "_generate_examples", frozenset({"parse"})).tree
    after = walk_method(
        build('SEP = ","', 'SEP = ";"'), "_generate_examples", frozenset({"parse"})
    ).tree
    assert before.digest == after.digest


def test_files_visited(build: Any, tmp_path: Path) -> None:
    walk = walk_method(build(), "_generate_examples")
    assert walk.files == {str(tmp_path / "built.py"), str(tmp_path / "tools.py")}


def test_no_such_method(build: Any) -> None:
    with pytest.raises(BuilderError, match="no method nothing"):
        method_tree(build(), "nothing")


def test_a_static_method_counts_without_its_class(build: Any, tmp_path: Path) -> None:
    def of(other: int, name: str) -> str:
        text = (
            f"class T:\n    OTHER = {other}\n    @staticmethod\n    def s(x): return x + 1\n"
            "    def m(self): return self.OTHER\n"
            "    @staticmethod\n    def uses(x): return x + T.OTHER\n"
        )
        build()
        (tmp_path / "static.py").write_text(text)
        sys.modules.pop("static", None)
        importlib.invalidate_caches()
        try:
            return Hasher.hash(getattr(importlib.import_module("static").T, name))
        finally:
            sys.modules.pop("static", None)

    assert of(1, "s") == of(22, "s")
    assert of(1, "m") != of(22, "m")
    assert of(1, "uses") != of(22, "uses")
