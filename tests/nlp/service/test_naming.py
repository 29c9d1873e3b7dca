"""Names of jobs: found by all who are to share them, and by nobody else."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

import pytest

from provender.errors import SettingsError
from provender.nlp.service.naming import RUN_VARIABLE, job_name, run_of, trainer_processes

AGREED = {RUN_VARIABLE: "4711"}
TWO = {"TF_CONFIG": json.dumps({"cluster": {"worker": ["a:1", "b:1"]}, "task": {"index": 0}})}


def test_names() -> None:
    assert job_name("pre", 512, environ=AGREED) == "pre_bs512_4711"
    assert job_name("pre", 512, round_robin=True, environ=AGREED) == "pre_bs512_4711"
    assert job_name("pre", 512, shared=True, environ=AGREED) == "pre_4711"
    assert job_name("pre", 512, run="night", environ=AGREED) == "pre_bs512_night"
    assert job_name(None, 512, environ=AGREED) is None


def test_a_process_keeps_its_own_number() -> None:
    first = job_name("pre", 8, environ={})
    assert first is not None
    assert first == job_name("pre", 8, environ={})
    assert first.startswith("pre_bs8_")
    assert first.rpartition("_")[2].isdigit()


def test_another_process_draws_another_number_however_it_is_seeded() -> None:
    program = (
        "import random; random.seed(1);"
        "from provender.nlp.service.naming import run_of; print(run_of(None, {}))"
    )
    numbers = {subprocess.check_output([sys.executable, "-c", program]) for _ in range(2)}
    assert len(numbers) == 2
    assert run_of(None, {}).encode() not in {each.strip() for each in numbers}


@pytest.mark.parametrize("mode", [{"shared": True}, {"round_robin": True}])
def test_processes_that_share_a_job_must_agree(mode: dict[str, bool]) -> None:
    with pytest.raises(SettingsError, match=r"2 training processes .* not agreed on its run"):
        job_name("pre", 8, environ=TWO, **mode)
    assert job_name("pre", 8, environ={**TWO, **AGREED}, **mode)
    assert job_name("pre", 8, environ=TWO, run="r", **mode)
    assert job_name("pre", 8, environ={}, **mode)
    with pytest.raises(SettingsError, match="need its name"):
        job_name("", 8, environ=AGREED, **mode)


def test_each_process_may_have_a_job_of_its_own() -> None:
    assert job_name("pre", 8, environ=TWO)


def test_modes_that_exclude_each_other() -> None:
    with pytest.raises(SettingsError, match="cannot be read round-robin"):
        job_name("pre", 8, shared=True, round_robin=True, environ=AGREED)


@pytest.mark.parametrize(
    ("cluster", "count"),
    [
        ({"worker": ["a", "b"]}, 2),
        ({"chief": ["a"], "worker": ["b", "c"], "evaluator": ["d"]}, 3),
        ({"chief": ["a"], "worker": ["b", "c"], "ps": ["d"]}, 1),
        ({}, 1),
    ],
)
def test_processes_of_a_cluster(cluster: dict[str, Any], count: int) -> None:
    assert trainer_processes({"TF_CONFIG": json.dumps({"cluster": cluster})}) == count


@pytest.mark.parametrize("text", ["", "{", "[]", '{"cluster": 3}'])
def test_what_says_nothing_of_a_cluster(text: str) -> None:
    assert trainer_processes({"TF_CONFIG": text}) == 1
