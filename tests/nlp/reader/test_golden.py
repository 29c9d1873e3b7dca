"""The reader beside that of the published package, which runs in an environment of its own.

PROVENDER_TEST_TF_MODELS_PYTHON names the Python of an environment with tf-models-official 2.20 and
setuptools below 81; without it these tests are skipped.
"""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from provender.nlp import DataConfig, InputReader

PEER = os.environ.get("PROVENDER_TEST_TF_MODELS_PYTHON", "")
PROGRAM = Path(__file__).with_name("peer_program.py")
SIZES = [5, 9, 3, 7, 4, 6, 2, 4]
BASE = {"global_batch_size": 4, "is_training": False, "drop_remainder": False}
EXACT: list[tuple[dict[str, Any], int]] = [
    ({"cycle_length": 1}, 0),
    ({"cycle_length": 3}, 0),
    ({"cycle_length": 2, "block_length": 3}, 0),
    ({"cycle_length": 16, "block_length": 2}, 0),
    ({"cycle_length": 2, "drop_remainder": True}, 0),
    ({"cycle_length": 2, "sharding": False}, 2),
]
SHARED: list[tuple[dict[str, Any], int]] = [
    ({"cycle_length": 1}, 2),
    ({"cycle_length": 2}, 4),
    ({"cycle_length": 2, "block_length": 2}, 3),
    ({"cycle_length": 2, "cache": True}, 2),
]

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        not PEER,
        reason="PROVENDER_TEST_TF_MODELS_PYTHON does not name a Python with tf-models-official",
    ),
]


@pytest.fixture(scope="module")
def files(data: SimpleNamespace, tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """Named one by one: the published package does not sort what a pattern matches."""
    found: list[str] = data.write_numbers(tmp_path_factory.mktemp("golden"), SIZES)
    return found


def options_of(files: list[str], options: dict[str, Any], pipelines: int) -> dict[str, Any]:
    # The batch is that of one replica; here each pipeline has one.
    return {"input_path": files, **BASE, "global_batch_size": 4 * max(pipelines, 1), **options}


@pytest.fixture(scope="module")
def theirs(files: list[str], tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    folder = tmp_path_factory.mktemp("peer")
    cases = [
        {"options": options_of(files, options, pipelines), "pipelines": pipelines}
        for options, pipelines in [*EXACT, *SHARED]
    ]
    (folder / "cases.json").write_text(json.dumps(cases))
    environment = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"}
    done = subprocess.run(
        [PEER, str(PROGRAM), str(folder / "cases.json"), str(folder / "out.json")],
        env={**environment, "CUDA_VISIBLE_DEVICES": "", "TF_CPP_MIN_LOG_LEVEL": "2"},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    found: dict[str, Any] = json.loads((folder / "out.json").read_text())
    return found


@pytest.mark.parametrize("case", range(len(EXACT)))
def test_evaluation_reads_the_same_batches(
    data: SimpleNamespace, files: list[str], theirs: dict[str, Any], case: int
) -> None:
    options, pipelines = EXACT[case]
    params = DataConfig(**options_of(files, options, pipelines))
    for index, expected in enumerate(theirs["cases"][case]):
        context = data.context(index, pipelines) if pipelines else None
        made = InputReader(params, features=data.features()).read(context)
        assert [each["number"].numpy().tolist() for each in made] == expected


@pytest.mark.parametrize("case", range(len(SHARED)))
def test_hosts_share_the_same_records_in_as_many_steps(
    data: SimpleNamespace, files: list[str], theirs: dict[str, Any], case: int
) -> None:
    """The published package deals out files, so that hosts end at different steps; we do not."""
    options, pipelines = SHARED[case]
    params = DataConfig(**options_of(files, options, pipelines))
    hosts = [
        [
            each["number"].numpy().tolist()
            for each in InputReader(params, features=data.features()).read(
                data.context(index, pipelines)
            )
        ]
        for index in range(pipelines)
    ]
    assert len({len(batches) for batches in hosts}) == 1
    ours = sorted(number for batches in hosts for batch in batches for number in batch)
    expected = theirs["cases"][len(EXACT) + case]
    assert ours == sorted(number for batches in expected for batch in batches for number in batch)


def test_the_fields_and_their_defaults_are_the_same(theirs: dict[str, Any]) -> None:
    ours = DataConfig().as_dict()
    assert {name: ours.get(name, "missing") for name in theirs["defaults"]} == theirs["defaults"]
