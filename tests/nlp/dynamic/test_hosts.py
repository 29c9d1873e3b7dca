"""Two hosts of two replicas each, behind a real tf.data service, in processes of their own."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from tests.nlp.dynamic.made import columns, write

from provender.nlp.dynamic.buckets import finer

PROGRAM = Path(__file__).with_name("service_program.py")
HOSTS, REPLICAS, STEPS = 2, 2, 24

# Three processes that each import TensorFlow: seconds, but minutes where the machine is loaded.
pytestmark = [pytest.mark.timeout(900), pytest.mark.slow]


@contextlib.contextmanager
def started(*arguments, environ=None):
    """The program with these arguments, after its first line, which is given along."""
    process = subprocess.Popen(
        [sys.executable, str(PROGRAM), *arguments],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env=os.environ | {"TF_CPP_MIN_LOG_LEVEL": "3"} | (environ or {}),
    )
    try:
        yield process, process.stdout.readline().strip()
    finally:
        process.kill()
        process.communicate()


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    folder = tmp_path_factory.mktemp("records")
    lengths = np.random.default_rng(5).integers(4, 65, (4, 200))
    return [
        write(folder / f"{number}.tfrecord", columns(each, seed=number))
        for number, each in enumerate(lengths)
    ]


@pytest.fixture(scope="module")
def steps(files):
    """By mode, the lengths that all replicas of all hosts get in each step."""
    base = {
        "input_path": files,
        "global_batch_size": 16,
        # So many that hosts hardly ever agree by chance.
        "seq_bucket_lengths": finer(64, step=8),
    }
    with contextlib.ExitStack() as stack:
        _, address = stack.enter_context(started("serve"))
        service = {"enable_tf_data_service": True, "tf_data_service_address": address}
        # A job is found by its name, so the two kinds need names of their own.
        rounds = {"enable_round_robin_tf_data_service": True, "tf_data_service_job_name": "rounds"}
        configs = {"alone": base, "windows": base | service, "rounds": base | service | rounds}
        hosts = [
            stack.enter_context(
                started(
                    *("host", json.dumps(configs), str(number), str(HOSTS), str(REPLICAS)),
                    environ={"PROVENDER_DATA_SERVICE_RUN": "1"},
                )
            )[0]
            for number in range(HOSTS)
        ]
        yield {name: [one_step(hosts, name) for _ in range(STEPS)] for name in configs}


def one_step(hosts, mode):
    for each in hosts:
        each.stdin.write(f"{mode}\n")
        each.stdin.flush()
    return [length for each in hosts for length in json.loads(each.stdout.readline())]


def equal(steps):
    return sum(len(set(each)) == 1 for each in steps)


def test_round_robin_gives_every_replica_one_length_in_every_step(steps):
    assert equal(steps["rounds"]) == STEPS
    assert len({each[0] for each in steps["rounds"]}) > 1


def test_wide_windows_make_one_length_likely_without_rounds(steps):
    assert equal(steps["windows"]) > equal(steps["alone"])


def test_without_a_service_a_host_has_lengths_of_its_own(steps):
    assert equal(steps["alone"]) < STEPS
    for each in steps["alone"]:
        assert each[0] == each[1]
        assert each[2] == each[3]
