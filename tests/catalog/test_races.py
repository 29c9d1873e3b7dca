"""Several processes at once."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from provender.catalog import Catalog, Owner, claimed, this_process
from provender.catalog.processes import host_identity

WORKERS = Path(__file__).with_name("workers.py")


def test_first_use_by_four_processes(empty_url, at_once):
    runs = at_once("open_first", 4, at=empty_url)
    with Catalog.open(empty_url) as catalog:
        assert {run.id for run in catalog.runs()} == set(runs)


def test_of_eight_processes_one_gets_the_claim(at_once, tmp_path):
    assert sorted(at_once("claim_once", 8, "fp", tmp_path / "board", 8)) == [False] * 7 + [True]


def test_eight_processes_take_turns(at_once, tmp_path):
    board = tmp_path / "board"
    at_once("take_turns", 8, "fp", board)
    lines = board.read_text().splitlines()
    assert len(lines) == 8 * 3 * 2
    for entered, left in zip(lines[::2], lines[1::2], strict=True):
        assert (entered.split()[0], left.split()[0]) == ("in", "out")
        assert entered.split()[1] == left.split()[1]


def test_sixteen_writers(at_once, catalog):
    at_once("register", 16, 2)
    assert len(catalog.versions("toy")) == 32
    assert len(catalog.stages(limit=None)) == 32
    assert len(catalog.alias_history("toy")) == 64
    assert catalog.version_by_alias("toy", None, "latest").id == catalog.versions("toy")[0].id


def test_eight_processes_register_one_version(at_once, catalog):
    assert len(set(at_once("register_same", 8))) == 1
    assert len(catalog.versions()) == 1


@pytest.fixture
def holder(url):
    """A process that holds the claim ``fp`` for ten minutes, and its first line."""
    process = subprocess.Popen(
        [sys.executable, WORKERS, url, "hold", "1", "fp", "600"], stdout=subprocess.PIPE, text=True
    )
    told = json.loads(process.stdout.readline())
    yield told
    try:
        os.kill(told["pid"], signal.SIGKILL)
    except ProcessLookupError:
        pass
    process.communicate(timeout=10)


def test_claim_of_a_killed_process_is_taken_over_at_once(catalog, holder):
    assert catalog.acquire("fp", this_process(), 30) is None
    os.kill(holder["pid"], signal.SIGKILL)
    waited_for = []
    began = time.monotonic()
    with claimed(catalog, "fp", on_wait=waited_for.append, timeout=10) as claim:
        assert catalog.holder("fp").owner.pid == os.getpid()
    assert time.monotonic() - began < 3
    assert claim.waited < 3


def test_what_a_killed_process_left_running_is_closed(catalog, holder):
    mine = catalog.begin_run("build", "toy", None, None)
    assert catalog.bury_dead() == 0
    os.kill(holder["pid"], signal.SIGKILL)
    deadline, closed = time.monotonic() + 10, 0
    # The kernel takes a moment, in which the run may be looked at before and the stage after.
    while closed < 2 and time.monotonic() < deadline:
        closed += catalog.bury_dead()
        time.sleep(0.02)
    assert closed == 2
    assert catalog.run(holder["run"]).outcome == "died"
    assert catalog.run(mine).outcome == "running"
    [stage] = catalog.stages(run_id=holder["run"])
    assert stage.state == "failed"
    assert stage.error["type"] == "WorkerDied"
    assert stage.finished is not None


def test_a_pid_that_was_given_to_another_process_does_not_keep_the_claim(catalog):
    before = Owner(host_identity(), os.getppid(), "1", "from before")
    assert catalog.acquire("fp", before, 600)
    assert catalog.acquire("fp", this_process(), 30) is not None


def test_waiting_for_a_living_holder(catalog, holder):
    waited_for = []
    with pytest.raises(Exception, match=f"process {holder['pid']} on ") as caught:
        with claimed(catalog, "fp", on_wait=waited_for.append, timeout=0.3):
            pass
    assert type(caught.value).__name__ == "CatalogError"
    assert [claim.owner.pid for claim in waited_for] == [holder["pid"]]


def test_a_forked_child_does_not_use_its_parents_connections(at_once, catalog):
    at_once("fork_after_use", 1)
    assert [run.dataset for run in catalog.runs()] == ["child", "parent"]
