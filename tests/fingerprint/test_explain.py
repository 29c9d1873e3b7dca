"""What explain says, for people."""

from __future__ import annotations

import importlib
import re
import sys
from pathlib import Path
from typing import Any

import pytest

from provender.fingerprint import Change, Hasher, Tree, combine

HELPERS = """
THRESHOLD = 1
CONFIG = {"lr": 0.1, "name": "a", "api_key": "k-1"}
def clean(x): return x.strip()
"""
TRANSFORM = """
import helpers
from helpers import CONFIG
def transform(x, k=1):
    return helpers.clean(x) * helpers.THRESHOLD * k, CONFIG
"""


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Writes modules and imports them anew; returns the function ``transform``."""
    monkeypatch.syspath_prepend(str(tmp_path))

    def build(helpers: str = HELPERS, transform: str = TRANSFORM) -> Any:
        (tmp_path / "helpers.py").write_text(helpers)
        (tmp_path / "job.py").write_text(transform)
        for name in ("helpers", "job"):
            sys.modules.pop(name, None)
        importlib.invalidate_caches()
        sys.dont_write_bytecode, before = True, sys.dont_write_bytecode
        try:
            return importlib.import_module("job").transform
        finally:
            sys.dont_write_bytecode = before

    yield build
    for name in ("helpers", "job"):
        sys.modules.pop(name, None)


def lines(old: Any, new: Any) -> list[str]:
    return [str(change) for change in Hasher.explain(old, new)]


def test_nothing_changed(project: Any) -> None:
    assert lines(Hasher.tree(project()), project()) == []


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("THRESHOLD = 1", "THRESHOLD = 2", "global helpers.THRESHOLD: 1 -> 2"),
        (
            "x.strip()",
            "x.lower()",
            "function helpers.clean(): return x.strip() -> return x.lower()",
        ),
        ('"lr": 0.1', '"lr": 0.2', "global job.CONFIG -> key 'lr': 0.1 -> 0.2"),
        ('"lr": 0.1, ', "", "global job.CONFIG -> key 'lr': removed (0.1)"),
        ('"k-1"', '"k-2"', "global job.CONFIG -> key 'api_key': changed"),
    ],
)
def test_one_edit_is_one_line(project: Any, old: str, new: str, said: str) -> None:
    before = Hasher.tree(project())
    assert lines(before, project(HELPERS.replace(old, new))) == [said]


def test_default_of_the_transform(project: Any) -> None:
    before = Hasher.tree(project())
    after = project(transform=TRANSFORM.replace("k=1", "k=2"))
    assert lines(before, after) == ["function job.transform() -> default k: 1 -> 2"]


def test_a_helper_comes_and_another_goes(project: Any) -> None:
    before = Hasher.tree(project())
    after = project(
        HELPERS + "def wash(x): return x\n", TRANSFORM.replace("helpers.clean", "helpers.wash")
    )
    assert sorted(lines(before, after)) == [
        "function helpers.clean(): removed",
        "function helpers.wash(): added",
        "function job.transform(): return (helpers.clean(x) * helpers.THRESHOLD * k, CONFIG)"
        " -> return (helpers.wash(x) * helpers.THRESHOLD * k, CONFIG)",
    ]


def test_upgrade_of_a_distribution() -> None:
    old = Tree(
        "t",
        "function",
        "1",
        None,
        (Tree("distribution tensorflow-datasets", "distribution", "a", "4.9.9"),),
    )
    new = Tree(
        "t",
        "function",
        "2",
        None,
        (Tree("distribution tensorflow-datasets", "distribution", "b", "4.9.10"),),
    )
    assert lines(old, new) == ["tensorflow-datasets: 4.9.9 -> 4.9.10"]


def test_parts_are_named_and_nested() -> None:
    old = combine("stage", {"config": {"size": 1}, "download https://x/y": {"sha256": "aa"}})
    new = combine(
        "stage", {"download https://x/y": {"sha256": "bb"}, "config": {"size": 2}, "seed": 3}
    )
    assert lines(old, new) == [
        "config -> key 'size': 1 -> 2",
        "download https://x/y -> key 'sha256': 'aa' -> 'bb'",
        "seed: added (3)",
    ]


def test_combine_does_not_mind_order_but_minds_names_and_types() -> None:
    assert combine("s", {"a": 1, "b": 2}).digest == combine("s", {"b": 2, "a": 1}).digest
    assert combine("s", {"a": 1}).digest != combine("s", {"b": 1}).digest
    assert combine("s", {"a": 1}).digest != combine("s", {"a": "1"}).digest
    assert combine("s", {"a": 1}).digest != combine("t", {"a": 1}).digest
    assert combine("s", {"a": Hasher.tree(1)}).digest == combine("s", {"a": 1}).digest


def test_large_data_still_says_where(project: Any) -> None:
    old, new = list(range(10_000)), [*range(9_999), 0]
    assert lines({"rows": old}, {"rows": new}) == ["key 'rows': changed"]


def test_changes_survive_json() -> None:
    change = Change(("global K",), "changed", "1", "2")
    assert Change.from_json(change.to_json()) == change


def test_secrets_are_masked_in_trees() -> None:
    tree = Hasher.tree({"password": "hunter2", "url": "postgresql://me:hunter2@host/db"}, "cfg")
    assert "hunter2" not in str(tree.to_json())


def test_the_example_in_the_documentation_is_true(project: Any) -> None:
    page = (Path(__file__).parents[2] / "docs/fingerprints.md").read_text(encoding="utf-8")
    section = page.partition("## What explain prints")[2]
    before, after, said = re.findall(r"```(?:python|text)\n(.*?)```", section, re.S)[:3]
    using = TRANSFORM.replace("CONFIG", "LABELS")
    old = Hasher.tree(project(before, using))
    assert sorted(lines(old, project(after, using))) == sorted(said.strip().splitlines())
