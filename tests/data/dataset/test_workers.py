"""Worker processes: what travels, what does not, and what happens when they die."""

from __future__ import annotations

import functools
import os
import socket
import sys
import threading
from pathlib import Path
from typing import Any

import pytest
from tests.data.dataset.programs import Lab

from provender.data import Dataset
from provender.data.cache import TransformCache
from provender.data.errors import TransformError
from provender.errors import WorkerDied

N = 2500


@pytest.fixture
def ds() -> Dataset:
    return Dataset.from_dict({"a": list(range(N)), "v": [[i, i + 1] for i in range(N)]})


class Scaler:
    def __init__(self, by: int) -> None:
        self.by = by

    def __call__(self, row: dict[str, Any]) -> dict[str, Any]:
        return {"n": row["a"] * self.by}

    def scale(self, row: dict[str, Any]) -> dict[str, Any]:
        return {"n": row["a"] * self.by}


def add(row: dict[str, Any], more: int = 1) -> dict[str, Any]:
    return {"n": row["a"] + more}


def everything(by: int) -> dict[str, Any]:
    return {
        "lambda": lambda row: {"n": row["a"] * by},
        "object": Scaler(by),
        "method": Scaler(by).scale,
        "partial": functools.partial(add, more=by),
        "function": add,
    }


def test_whatever_travels_gives_the_same(ds: Dataset) -> None:
    """One call with all kinds, since each costs two interpreters."""
    kinds = everything(7)

    def all_of_them(row: dict[str, Any]) -> dict[str, Any]:
        return {name: each(row)["n"] for name, each in kinds.items()}

    alone = ds.map(all_of_them, load_from_cache_file=False).to_list()
    assert ds.map(all_of_them, num_proc=2, load_from_cache_file=False).to_list() == alone
    assert alone[5] == {
        "a": 5, "v": [5, 6], "lambda": 35, "object": 35, "method": 35, "partial": 12, "function": 6,
    }  # fmt: skip


@pytest.mark.parametrize("workers", [2, pytest.param(3, marks=pytest.mark.slow)], ids=str)
def test_the_result_does_not_depend_on_how_many(ds: Dataset, workers: int) -> None:
    def call(batch: dict[str, Any], at: list[int]) -> dict[str, Any]:
        return {"first": [at[0]], "size": [len(batch["a"])]}

    options: dict[str, Any] = {
        "batched": True, "batch_size": 7, "with_indices": True, "remove_columns": ["a", "v"],
        "drop_last_batch": True, "load_from_cache_file": False,
    }  # fmt: skip
    shuffled = ds.shuffle(seed=1)
    alone = shuffled.map(call, **options)
    many = shuffled.map(call, num_proc=workers, **options)
    assert many.to_list() == alone.to_list()
    assert many.features == alone.features
    assert many._fingerprint == alone._fingerprint


def test_filters_and_formats(ds: Dataset) -> None:
    odd = ds.shuffle(seed=3).filter(lambda row: row["a"] % 2, num_proc=2)
    assert odd["a"][:] == [a for a in ds.shuffle(seed=3)["a"] if a % 2]
    summed = ds.with_format("numpy").map(lambda row: {"s": row["v"].sum()}, num_proc=2)
    assert summed.with_format(None)["s"][3] == 7


def test_ranks_are_those_of_the_workers(ds: Dataset) -> None:
    made = ds.map(
        lambda row, rank: {"rank": rank, "pid": __import__("os").getpid()},
        with_rank=True,
        num_proc=2,
    )
    assert set(made["rank"]) <= {0, 1}
    assert os.getpid() not in set(made["pid"])


def test_none_and_nothing(ds: Dataset) -> None:
    assert ds.map(lambda row: None, num_proc=2)._fingerprint == ds._fingerprint
    with pytest.raises(TransformError, match="None"):
        ds.map(lambda row: None if row["a"] == 2000 else {"n": 1}, num_proc=2)


LOCK = threading.Lock()


def uses_lock(row: dict[str, Any]) -> dict[str, Any]:
    with LOCK:
        return {"n": 1}


class Client:
    def __init__(self) -> None:
        self._sock = socket.socket()


def test_what_cannot_travel_is_named_before_any_work(ds: Dataset) -> None:
    calls: list[int] = []
    client = Client()

    def use(row: dict[str, Any]) -> dict[str, Any]:
        calls.append(1)
        return {"n": client is not None}

    with pytest.raises(TransformError) as caught:
        ds.map(use, num_proc=2, new_fingerprint="f" * 40)
    assert "closure client -> attribute _sock" in str(caught.value)
    assert "socket" in str(caught.value)
    assert "num_proc" in str(caught.value)
    assert not calls
    assert not list(TransformCache.current().folder.glob("entries/*/*/*.arrow"))
    client._sock.close()


def test_a_lock_of_an_importable_module_travels_by_name(ds: Dataset) -> None:
    assert ds.map(uses_lock, num_proc=2)[0]["n"] == 1


def test_a_killed_worker(ds: Dataset, tmp_path: Path) -> None:
    flag = tmp_path / "kill"
    flag.touch()
    here = os.getpid()

    def die(row: dict[str, Any], where: str) -> dict[str, Any]:
        if row["a"] == 1900 and os.path.exists(where) and os.getpid() != here:
            os.kill(os.getpid(), 9)
        return {"n": row["a"]}

    with pytest.raises(WorkerDied) as caught:
        ds.map(die, num_proc=2, fn_kwargs={"where": str(flag)})
    text = str(caught.value)
    assert "died (SIGKILL) while it ran rows" in text
    assert "run it again to go on" in text
    flag.unlink()
    kept = len(list(TransformCache.current().folder.glob("entries/*/*/*.arrow")))
    assert kept > 4
    assert ds.map(die, fn_kwargs={"where": str(flag)})["n"][:] == list(range(N))


def test_values_set_at_run_time_are_the_same_in_workers(tmp_path: Path) -> None:
    lab = Lab(tmp_path)
    lab.write("LIMIT = 1\nTABLE = {}\ndef g(x):\n    return x * LIMIT + TABLE['k']\n", "helper.py")
    program = """
import helper
helper.LIMIT = 5
helper.TABLE["k"] = 1000
ds = Dataset.from_dict({"a": list(range(40))})
alone = ds.map(lambda row: {"n": helper.g(row["a"])}, load_from_cache_file=False)
many = ds.map(lambda row: {"n": helper.g(row["a"])}, load_from_cache_file=False, num_proc=2)
assert alone.to_list() == many.to_list(), (alone[3], many[3])
tell(n=many[3]["n"])
"""
    assert lab.run(program, fresh=True).told == {"n": 1015}


def test_a_program_without_a_main_guard(tmp_path: Path) -> None:
    """Workers do not run the program again."""
    lab = Lab(tmp_path)
    program = """
called()
ds = Dataset.from_dict({"a": [1, 2, 3]}).map(lambda row: {"n": row["a"]}, num_proc=2)
print("printed once")
"""
    ran = lab.run(program, fresh=True)
    assert ran.calls == 1
    assert ran.out.count("printed once") == 1


def test_no_process_stays_when_the_run_is_killed(tmp_path: Path) -> None:
    lab = Lab(tmp_path)
    process = lab.start("""
def slow(row):
    called()
    time.sleep(60)
    return {"n": os.getpid()}

Dataset.from_dict({"a": list(range(32))}).map(slow, num_proc=2)
""")
    lab.wait_for_calls(2)
    workers = _children(process.pid)
    assert len(workers) == 2
    process.kill()
    process.communicate()
    import time

    until = time.monotonic() + 20
    while any(_is_alive(each) for each in workers):
        assert time.monotonic() < until
        time.sleep(0.01)


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_descriptors_and_processes_are_given_back(ds: Dataset) -> None:
    def count() -> int:
        return len(os.listdir("/proc/self/fd"))

    ds.map(lambda row: {"n": 1}, num_proc=2)
    before = count()
    ds.map(lambda row: {"n": 2}, num_proc=2)
    with pytest.raises(TransformError):
        ds.map(lambda row: 1 / 0, num_proc=2)
    assert count() <= before + 1
    assert not _children(os.getpid())


def _children(pid: int) -> list[int]:
    found = []
    for name in os.listdir("/proc"):
        if name.isdigit():
            try:
                fields = Path(f"/proc/{name}/stat").read_text().rsplit(")", 1)[1].split()
            except OSError:
                continue
            command = Path(f"/proc/{name}/cmdline").read_bytes()
            if int(fields[1]) == pid and fields[0] != "Z" and b"dataset.worker" in command:
                found.append(int(name))
    return found


def _is_alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except OSError:
        return False
