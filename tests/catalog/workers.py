"""Processes for the tests that need several: ``workers.py URL TASK COUNT [ARGS]``.

One interpreter imports everything and then forks, so that the children really start together;
each opens the catalog itself and prints one line of JSON.
"""

from __future__ import annotations

import importlib
import json
import os
import sys
import time
import traceback
from pathlib import Path
from typing import Any

from provender.catalog import (
    ArtifactRecord,
    Catalog,
    ShardRecord,
    SplitRecord,
    claimed,
    this_process,
)


def open_first(url: str, number: int) -> Any:
    """The very first use of a database."""
    with Catalog.open(url) as catalog:
        return catalog.begin_run("build", f"toy{number}", None, None)


def claim_once(url: str, number: int, key: str, board: str, all_of: str) -> Any:
    """Tries once, and lives on until all have tried: a dead winner's claim is free again."""
    with Catalog.open(url) as catalog:
        won = catalog.acquire(key, this_process(f"worker {number}"), 600) is not None
        _note(board, "tried")
        while Path(board).read_text().count("tried") < int(all_of):
            time.sleep(0.01)
        return won


def take_turns(url: str, number: int, key: str, board: str) -> Any:
    """Writes to a board when the claim is entered and left; nobody else may be in between."""
    with Catalog.open(url) as catalog:
        for _ in range(3):
            with claimed(catalog, key, ttl=20):
                _note(board, f"in {number}")
                time.sleep(0.01)
                _note(board, f"out {number}")
    return number


def register(url: str, number: int, times: str) -> Any:
    """Reads, then writes, again and again, as a build does."""
    with Catalog.open(url) as catalog:
        for turn in range(int(times)):
            name = f"{number}-{turn}"
            catalog.find_stage(name)
            made = ArtifactRecord(f"digest-{turn}", 5, f"/store/{name}", name="out")
            stage = catalog.record_stage(
                None, "toy", None, f"shards/train/{number}", name,
                state="succeeded", outputs=[made], tree={"name": "shards"},
            )  # fmt: skip
            version = _register(catalog, f"{number}.{turn}.0", name, stage.id)
            # This transaction reads before it writes: a deferred BEGIN would fail here.
            catalog.set_alias("toy", None, f"of-{number}", version)
    return number


def register_same(url: str, number: int) -> Any:
    """All register one and the same version."""
    with Catalog.open(url) as catalog:
        return _register(catalog, "1.0.0", "same", None)


def hold(url: str, number: int, key: str, ttl: str) -> Any:
    """Holds a claim, with a run and a stage open, until somebody kills the process."""
    catalog = Catalog.open(url)
    run = catalog.begin_run("build", "toy", None, None)
    catalog.start_stage(run, "toy", None, "shards/train/00000", "fp")
    with claimed(catalog, key, ttl=float(ttl)):
        print(json.dumps({"pid": os.getpid(), "run": run}), flush=True)
        time.sleep(60)


def fork_after_use(url: str, number: int) -> Any:
    """The child goes on with the catalog that its parent opened and used."""
    with Catalog.open(url) as catalog:
        catalog.begin_run("build", "parent", None, None)
        child = os.fork()
        if child == 0:
            try:
                catalog.begin_run("build", "child", None, None)
                with claimed(catalog, "in the child", ttl=0.3):
                    time.sleep(0.6)
                    os._exit(0 if catalog.claims() else 2)
            finally:
                os._exit(1)
        status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        assert status == 0, status
        return len(catalog.runs())


def fork_with_a_lease(url: str, number: int, version: str) -> Any:
    """A child takes a lease and gives it back while its parent keeps one and a thread for it."""
    with Catalog.open(url) as catalog, catalog.lease(version, "parent", wait=30) as lease:
        assert lease.held
        child = os.fork()
        if child == 0:
            try:
                own = catalog.lease(version, "child", wait=30)
                right = own.held and own.owner.pid == os.getpid()
                own.close()
                os._exit(0 if right else 2)
            finally:
                os._exit(1)
        status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        assert status == 0, status
        return [each.purpose for each in catalog.leases()]


def _register(catalog: Catalog, number: str, fingerprint: str, stage: str | None) -> str:
    return catalog.register_version(
        "toy", None, number, fingerprint,
        path=number, uri=f"/store/{number}",
        splits=[SplitRecord("train", 1, 1, 1)],
        shards=[ShardRecord("train", 0, 1, "f", 1, "s", "c", 1, "t", stage)],
        features={}, info={},
    ).id  # fmt: skip


def _note(board: str, line: str) -> None:
    handle = os.open(board, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    os.write(handle, f"{line}\n".encode())
    os.close(handle)


def main() -> int:
    url, task, count, *args = sys.argv[1:]
    work = globals()[task]
    gate, opener = os.pipe()
    children = []
    for number in range(int(count)):
        pid = os.fork()
        if pid == 0:
            os.close(opener)
            os.read(gate, 1)
            _child(work, url, number, args)
        children.append(pid)
    os.close(gate)
    # Closing the only writing end wakes all children at the same moment.
    os.close(opener)
    return max(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) for pid in children)


def _child(work: Any, url: str, number: int, args: list[str]) -> None:
    status = 1
    try:
        answer = work(url, number, *args)
        os.write(1, f"{json.dumps(answer)}\n".encode())
        status = 0
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stderr.flush()
        os._exit(status)


if __name__ == "__main__":
    # Loaded before the fork, not once in every child.
    importlib.import_module("provender.catalog.catalog")
    if sys.argv[1].startswith("postgresql"):
        importlib.import_module("psycopg")
    sys.exit(main())
