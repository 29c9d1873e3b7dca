"""Pairs of programs whose `obj` must hash the same, or must not, whatever the hash seed."""

from __future__ import annotations

import json
import runpy
import sys
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
from tests.fingerprint.conftest import Server, interpreter, lay

HERE = Path(__file__).parent
GIVEN = json.loads((HERE / "cases/given.json").read_text())
_OWN = runpy.run_path(str(HERE / "cases/own.py"))
OWN, HEAVY = _OWN["CASES"], _OWN["HEAVY"]

NEEDS = {"torch": ("torch", "transformers", "tokenizers", "tiktoken")}
TENSORFLOW = ("L01", "L04", "L06", "L07", "L08", "L09", "L10")
ORCHESTRATORS = ("L16", "L17", "L18")
APART = (*TENSORFLOW, *ORCHESTRATORS)
SHARED = ("numpy", "pandas", "pyarrow", "pydantic", "sqlalchemy")
"""Preloaded into the servers whose children run the programs, to save each the import."""


def ids(cases: list[dict[str, Any]]) -> list[str]:
    return [f"{case['id']}-{case['title']}" for case in cases]


def pythons(case: dict[str, Any]) -> list[str]:
    """The interpreter of each variant; skips the test where one is missing."""
    found = []
    for env in (case["env"], case.get("env_b", case["env"])):
        if env.startswith("py3"):
            python = interpreter(f"3.{env[3:]}")
            if python is None:
                pytest.skip(f"no Python 3.{env[3:]} on this machine")
            found.append(python)
            continue
        text = case["A"]["main"]
        missing = [n for n in NEEDS.get(env, ()) if n in text and find_spec(n) is None]
        if missing:
            pytest.skip(f"{missing[0]} is not installed")
        found.append(sys.executable)
    return found


def judge(case: dict[str, Any], a: list[dict[str, str]], b: list[dict[str, str]]) -> None:
    errors = [answer["error"] for answer in (*a, *b) if "error" in answer]
    assert not errors, errors[0][-600:]
    first, second = {answer["hash"] for answer in a}, {answer["hash"] for answer in b}
    assert len(first) == 1, "the same program hashes differently from process to process"
    assert len(second) == 1, "the same program hashes differently from process to process"
    if case["expect"] == "same":
        assert first == second, "needless recomputation"
    else:
        assert first != second, "stale data would be served"


FAST = [case for case in (*GIVEN, *OWN) if case["id"] not in APART]


@pytest.mark.parametrize("case", FAST, ids=ids(FAST))
def test_case(case: dict[str, Any], server: Callable[..., Server], tmp_path: Path) -> None:
    python_a, python_b = pythons(case)
    options = {"keep_pyc": case.get("keep_pyc", False)}
    seeds = (0,) if case["expect"] == "same" else (0, 1)
    path = lay(case["A"], tmp_path / "w")
    a = [server(seed, python_a, preloaded(case)).run(path, **options) for seed in seeds]
    path = lay(case["B"], tmp_path / "w")
    b = [server(1, python_b, preloaded(case)).run(path, **options)]
    judge(case, a, b)


def preloaded(case: dict[str, Any]) -> tuple[str, ...]:
    text = str(case)
    return SHARED if any(name in text for name in SHARED) else ()


def in_one_process(
    cases: list[dict[str, Any]], server: Any, root: Path, seeds: tuple[int, ...]
) -> None:
    """Runs the cases one after another in one process a seed, which imports what they need once."""
    wrong = []
    for case in cases:
        path = lay(case["A"], root / case["id"])
        a = [server(seed, preload=("json",)).run(path, fork=False) for seed in seeds]
        path = lay(case["B"], root / case["id"])
        b = [server(seeds[-1], preload=("json",)).run(path, fork=False)]
        try:
            judge(case, a, b)
        except AssertionError as e:
            wrong.append(f"{case['id']} {case['title']}: {e}")
    assert not wrong, "\n".join(wrong)


def given(*names: str) -> list[dict[str, Any]]:
    return [case for case in GIVEN if case["id"] in names]


def test_tensorflow_and_keras(server: Callable[..., Server], tmp_path: Path) -> None:
    in_one_process([*given(*TENSORFLOW), *HEAVY], server, tmp_path, (0,))


@pytest.mark.slow
def test_tensorflow_and_keras_under_another_seed(
    server: Callable[..., Server], tmp_path: Path
) -> None:
    in_one_process([*given(*TENSORFLOW), *HEAVY], server, tmp_path, (0, 1))


def test_prefect_and_airflow(server: Callable[..., Server], tmp_path: Path) -> None:
    in_one_process(given(*ORCHESTRATORS), server, tmp_path, (0,))


@pytest.mark.slow
def test_prefect_and_airflow_under_another_seed(
    server: Callable[..., Server], tmp_path: Path
) -> None:
    in_one_process(given(*ORCHESTRATORS), server, tmp_path, (0, 1))


PORTABLE = [case for case in OWN if case["id"] <= "O060" and "site-packages" not in str(case)]


@pytest.mark.parametrize("version", ["3.12", "3.13"])
def test_own_code_cases_hash_alike_on_other_pythons(
    version: str, server: Callable[..., Server], tmp_path: Path
) -> None:
    python = interpreter(version)
    if python is None:
        pytest.skip(f"no Python {version} on this machine")
    differing = []
    for case in PORTABLE:
        path = lay(case["A"], tmp_path / "w")
        here = server(0).run(path)
        there = server(0, python).run(path)
        if here != there:
            differing.append((case["id"], case["title"], here, there))
    assert not differing
