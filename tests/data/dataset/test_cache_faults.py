"""What survives kill, failure, damage and a cache that cannot be written."""

from __future__ import annotations

import os
import signal
import stat
import time

import pytest
from tests.data.dataset.programs import DATA, MAP, Lab, changed


def test_two_processes_compute_once(lab: Lab) -> None:
    program = (
        DATA
        + """
def slow(row):
    called()
    time.sleep(0.01)
    return {"b": row["a"] * 2}

out = ds.map(slow)
tell(last=out[-1]["b"])
"""
    )
    lab.run(DATA)
    first, second = lab.start(program), lab.start()
    outs = [each.communicate(timeout=120) for each in (first, second)]
    assert [each.returncode for each in (first, second)] == [0, 0], outs
    assert lab.calls() == 100
    assert all('"last": 198' in out for out, _ in outs)


KILLED = """
ds = Dataset.from_dict({"a": list(range(400))})

def slow(row):
    called()
    if os.environ.get("STOP") == str(row["a"]):
        time.sleep(60)
    return {"b": row["a"] * 2}

out = ds.map(slow)
tell(b=out["b"][:])
"""


@pytest.mark.parametrize(
    "workers", [None, 2, pytest.param(3, marks=pytest.mark.slow)], ids=["alone", "two", "three"]
)
def test_a_killed_run_goes_on_where_it_stopped(lab: Lab, workers: int | None) -> None:
    text = changed(KILLED, "ds.map(slow)", f"ds.map(slow, num_proc={workers})")
    lab.env["STOP"] = "300"
    process = lab.start(text)
    lab.wait_for_calls(301 if workers is None else 250)
    if workers is not None:
        time.sleep(0.5)
    before = lab.calls()
    process.send_signal(signal.SIGKILL)
    process.communicate()
    del lab.env["STOP"]
    again = lab.run(KILLED)
    assert again.told["b"] == [i * 2 for i in range(400)]
    # At most the pieces that were being written are computed twice.
    assert again.calls <= 400 - before + 25 * (workers or 1) + 5
    assert not list(lab.cache.glob("entries/*/*/.tmp-*"))


def test_a_failed_run_goes_on_where_it_stopped(lab: Lab) -> None:
    program = """
ds = Dataset.from_dict({"a": list(range(400))})

def strict(row):
    called()
    if os.path.exists("bad") and row["a"] == 310:
        raise ValueError("not this one")
    return {"b": row["a"] * 2}

out = ds.map(strict)
tell(b=out["b"][:])
"""
    (lab.folder / "bad").touch()
    failed = lab.run(program, fails=True)
    assert failed.calls == 311
    assert "row 310" in failed.err
    assert "not this one" in failed.err
    (lab.folder / "bad").unlink()
    again = lab.run()
    assert again.calls == 90
    assert again.told["b"] == [i * 2 for i in range(400)]


def test_a_truncated_file_is_noticed(lab: Lab) -> None:
    assert lab.run(DATA + MAP).calls == 100
    victim = next(
        each for each in lab.segments() if b"\x00" in each.read_bytes() and "-6-" in each.name
    )
    victim.write_bytes(victim.read_bytes()[:-40])
    again = lab.run()
    assert 0 < again.calls < 20
    assert again.told["last"]["b"] == 198


def test_flipped_bytes_are_noticed(lab: Lab) -> None:
    assert lab.run(DATA + MAP).calls == 100
    victim = next(each for each in lab.segments() if "-6-" in each.name)
    data = bytearray(victim.read_bytes())
    about = victim.stat()
    data[len(data) // 2] ^= 0xFF
    victim.write_bytes(bytes(data))
    os.utime(victim, ns=(about.st_atime_ns, about.st_mtime_ns))
    again = lab.run()
    assert 0 < again.calls < 20
    assert again.told["last"]["b"] == 198
    assert lab.run().calls == 0


def test_a_missing_file_is_computed_again(lab: Lab) -> None:
    assert lab.run(DATA + MAP).calls == 100
    next(each for each in lab.segments() if "-6-" in each.name).unlink()
    assert 0 < lab.run().calls < 20


def test_an_edited_saved_file_is_refused(lab: Lab) -> None:
    lab.run(DATA + "ds.save_to_disk('saved')")
    (victim,) = (lab.folder / "saved").glob("*.arrow")
    data = bytearray(victim.read_bytes())
    data[-200] ^= 1
    victim.write_bytes(bytes(data))
    failed = lab.run("Dataset.load_from_disk('saved')", fails=True)
    assert "is not what was saved" in failed.err


@pytest.mark.slow
def test_a_killed_run_with_workers_is_finished_by_one(lab: Lab) -> None:
    lab.env["STOP"] = "390"
    process = lab.start(changed(KILLED, "ds.map(slow)", "ds.map(slow, num_proc=4)"))
    lab.wait_for_calls(350)
    time.sleep(0.5)
    process.kill()
    process.communicate()
    del lab.env["STOP"]
    again = lab.run(KILLED)
    assert again.calls < 200
    assert again.told["b"] == [i * 2 for i in range(400)]


def test_a_read_only_cache_gives_hits_and_refuses_the_rest(lab: Lab) -> None:
    assert lab.run(DATA + MAP).calls == 100
    lab.obedient = True
    for path in (lab.cache, *lab.cache.rglob("*")):
        path.chmod(path.stat().st_mode & ~(stat.S_IWUSR | stat.S_IWGRP | stat.S_IWOTH))
    try:
        assert lab.run(fresh=True).calls == 0
        failed = lab.run(DATA + changed(MAP, "* 2", "* 3"), fails=True, fresh=True)
        assert "cannot be written" in failed.err
    finally:
        for path in (lab.cache, *lab.cache.rglob("*")):
            path.chmod(path.stat().st_mode | stat.S_IWUSR)
