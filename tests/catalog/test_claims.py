"""Claims inside one process: expiry, takeover, heartbeat, waiting."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from provender.catalog import ClaimRecord, Owner, claimed, is_dead, this_process
from provender.catalog.claims import may_take_over
from provender.catalog.heartbeat import Heartbeat
from provender.catalog.processes import host_identity, process_start
from provender.errors import CatalogError, StoreError

FAR = Owner("elsewhere~00000000", 1, "1", "far away")


def test_acquire_hold_release(catalog):
    me = this_process("shards of toy")
    claim = catalog.acquire("fp", me, 30)
    assert catalog.holder("fp") == claim
    assert claim.owner.note == "shards of toy"
    assert claim.expires - claim.acquired == timedelta(seconds=30)
    assert abs(claim.acquired - datetime.now(UTC)) < timedelta(seconds=5)
    assert catalog.acquire("fp", me, 30) is None
    assert catalog.acquire("other", me, 30) is not None
    assert catalog.release("fp", FAR) is False
    assert catalog.release("fp", me) is True
    assert catalog.release("fp", me) is False
    assert catalog.holder("fp") is None
    assert catalog.acquire("fp", FAR, 30) is not None


def test_a_claim_of_another_host_must_expire(catalog):
    assert catalog.acquire("fp", FAR, 0.4)
    assert catalog.acquire("fp", this_process(), 30) is None
    assert catalog.blocker("fp", this_process()).owner == FAR
    time.sleep(0.5)
    assert catalog.blocker("fp", this_process()) is None
    assert catalog.acquire("fp", this_process(), 30) is not None
    assert catalog.renew(["fp"], FAR) == set()
    assert catalog.release("fp", FAR) is False


def test_renewing(catalog):
    me = this_process()
    before = catalog.acquire("a", me, 1)
    catalog.acquire("b", FAR, 30)
    assert catalog.renew(["a", "b", "c"], me, 60) == {"a"}
    after = catalog.holder("a")
    assert after.acquired == before.acquired
    assert after.expires > before.expires + timedelta(seconds=50)
    assert catalog.renew(["a"], me, 60) == {"a"}
    assert catalog.renew([], me) == set()


def test_only_live_claims_are_listed(catalog):
    catalog.acquire("read/1", this_process(), 30)
    catalog.acquire("read/2", FAR, 0.01)
    catalog.acquire("read/3", Owner(host_identity(), os.getppid(), "1"), 30)
    catalog.acquire("read%/4", this_process(), 30)
    time.sleep(0.05)
    assert [claim.key for claim in catalog.claims("read/")] == ["read/1"]
    assert [claim.key for claim in catalog.claims()] == ["read%/4", "read/1"]


def test_the_heartbeat_keeps_a_claim_longer_than_its_ttl(catalog):
    with claimed(catalog, "fp", ttl=0.6) as claim:
        time.sleep(1.5)
        assert catalog.blocker("fp", FAR) is not None
        assert not claim.lost
        claim.check()
    assert catalog.holder("fp") is None


def test_one_thread_beats_for_all_claims_and_ends_with_them(catalog):
    def beating():
        return [t for t in threading.enumerate() if t.name == "provender-heartbeat"]

    with claimed(catalog, "a", ttl=30), claimed(catalog, "b", ttl=30), claimed(catalog, "c", ttl=9):
        assert len(beating()) == 1
    deadline = time.monotonic() + 5
    while beating() and time.monotonic() < deadline:
        time.sleep(0.01)
    assert beating() == []


def test_a_lost_claim_says_so(catalog):
    with claimed(catalog, "fp", ttl=0.3) as claim:
        catalog.release("fp", this_process())
        catalog.acquire("fp", FAR, 60)
        deadline = time.monotonic() + 5
        while not claim.lost and time.monotonic() < deadline:
            time.sleep(0.01)
        with pytest.raises(CatalogError, match="was lost"):
            claim.check()
    assert catalog.holder("fp").owner == FAR


def test_threads_of_one_process_exclude_each_other(catalog):
    inside, most = [], []

    def work():
        with claimed(catalog, "fp"):
            inside.append(1)
            most.append(len(inside))
            time.sleep(0.02)
            inside.pop()

    threads = [threading.Thread(target=work) for _ in range(5)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert most == [1] * 5


def test_waiting_is_told_once_a_holder_and_ends_when_it_is_free(catalog):
    catalog.acquire("fp", FAR, 0.5)
    told = []
    with claimed(catalog, "fp", on_wait=told.append, note="mine") as claim:
        assert 0.3 < claim.waited < 10
    assert [held.owner for held in told] == [FAR]


def test_the_claim_is_given_back_when_the_work_fails(catalog):
    with pytest.raises(StoreError), claimed(catalog, "fp"):
        raise StoreError("full")
    assert catalog.holder("fp") is None


def test_a_timeout_names_the_holder(catalog):
    catalog.acquire("fp", FAR, 60)
    with pytest.raises(CatalogError, match=r"within 0 s.*process 1 on elsewhere \(far away\)"):
        with claimed(catalog, "fp", timeout=0):
            pass


def test_a_heartbeat_outlives_an_unreachable_catalog(caplog):
    answers = [CatalogError("away"), {"fp"}, set()]
    asked = []

    def renew(keys, owner, ttl):
        asked.append((list(keys), ttl))
        answer = answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer

    lost = threading.Event()
    heartbeat = Heartbeat(renew)
    heartbeat.add("fp", this_process(), 0.06, lost)
    assert lost.wait(5)
    heartbeat.remove("fp")
    assert asked[:3] == [(["fp"], 0.06)] * 3
    assert "trying again: away" in caplog.text


def test_frequent_claims_do_not_starve_the_heartbeat():
    beats = []
    heartbeat = Heartbeat(lambda keys, owner, ttl: (beats.append(set(keys)), set(keys))[1])
    heartbeat.add("long", this_process(), 0.3, threading.Event())
    ends = time.monotonic() + 1
    while time.monotonic() < ends:
        heartbeat.add("short", this_process(), 0.3, threading.Event())
        heartbeat.remove("short")
        time.sleep(0.005)
    heartbeat.remove("long")
    assert len(beats) >= 5


NOW = datetime(2026, 1, 1, tzinfo=UTC)


@pytest.mark.parametrize(
    ("owner", "left", "may"),
    [
        (FAR, 1, False),
        (FAR, 0, True),
        (FAR, -1, True),
        (this_process(), -1, False),
        (replace(this_process(), process_start="1"), 1, True),
        (replace(this_process(), host="elsewhere"), 1, False),
    ],
)
def test_who_may_take_over(owner, left, may):
    held = ClaimRecord("fp", owner, NOW, NOW, NOW + timedelta(seconds=left))
    assert may_take_over(held, this_process(), NOW) is may


def test_which_processes_are_dead():
    assert not is_dead(this_process())
    assert not is_dead(replace(this_process(), process_start=""))
    child = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    owner = Owner(host_identity(), child.pid, process_start(child.pid))
    assert not is_dead(owner)
    child.kill()
    os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
    assert is_dead(owner), "a zombie works no more"
    child.communicate()
    assert is_dead(owner)
    assert process_start(child.pid) is None
    assert not is_dead(replace(owner, host="elsewhere"))
