"""Leases: taken and renewed in the background, on both databases, and against removals."""

from __future__ import annotations

import signal
import subprocess
import sys
import threading
import time
from datetime import timedelta

import pytest

from provender.catalog import Catalog, Owner
from provender.catalog import leases as leases_module
from provender.catalog.leases import REMOVAL, SWEEP, Keeper, Lease, stand_aside
from provender.catalog.processes import this_process
from provender.errors import CatalogError, ConflictError

HOLDER = """
import sys, time
from provender.catalog import Catalog
catalog = Catalog.open(sys.argv[1])
lease = catalog.lease(sys.argv[2], "another process", wait=30)
assert lease.held
print("held", flush=True)
time.sleep(600)
"""


def until(condition, seconds: float = 30) -> None:
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "it did not come about in time"
        time.sleep(0.02)


def test_a_lease_is_seen_while_it_is_held(catalog, publish):
    version = publish()
    with catalog.lease(version.id, "reading") as lease:
        assert lease.held
        [found] = catalog.leases()
        assert (found.version_id, found.purpose, found.id) == (version.id, "reading", lease.id)
        assert found.owner.same_process(this_process())
        assert found.expires - found.acquired == timedelta(seconds=leases_module.TTL)
        assert catalog.leases("f" * 32) == [] and len(catalog.leases(version.id)) == 1
    assert catalog.leases() == []


def test_it_is_taken_without_waiting(catalog, publish):
    version = publish()
    lease = catalog.lease(version.id, "reading", wait=0)
    assert lease.wait(30) and lease.held
    lease.close()
    lease.close()
    assert catalog.leases() == []


def test_many_leases_of_one_process_are_one_thread(catalog, publish):
    # What earlier tests of this process read is leased until the process ends.
    before = set(threading.enumerate())

    def keepers():
        return [
            t for t in threading.enumerate() if t.name == "provender-leases" and t not in before
        ]

    version = publish()
    held = [catalog.lease(version.id, f"reader {i}", wait=0) for i in range(20)]
    assert all(each.wait(30) for each in held) and len(catalog.leases()) == 20
    assert len(keepers()) == 1
    for each in held:
        each.close()
    until(lambda: not keepers())
    assert catalog.leases() == []


def test_a_lease_is_renewed(catalog, publish, monkeypatch):
    monkeypatch.setattr(leases_module, "TTL", 1.5)
    version = publish()
    lease = Lease(Keeper(catalog._put, catalog._take, ttl=1.5), version.id, "long")
    lease._keeper.add(lease)
    with lease:
        assert lease.wait(30)
        [first] = catalog.leases()
        until(lambda: catalog.leases()[0].heartbeat > first.heartbeat)
        assert catalog.leases()[0].acquired == first.acquired


def test_a_lease_that_is_not_renewed_runs_out(catalog, publish, monkeypatch):
    monkeypatch.setattr(leases_module, "TTL", 0.05)
    version = publish()
    catalog._put([Lease(Keeper(catalog._put, catalog._take), version.id, "forgotten")])
    until(lambda: catalog.leases() == [])


def test_the_lease_of_a_killed_process_counts_no_more(catalog, url, publish):
    version = publish()
    holder = subprocess.Popen(
        [sys.executable, "-c", HOLDER, url, version.id], stdout=subprocess.PIPE, text=True
    )
    try:
        assert holder.stdout.readline() == "held\n"
        [found] = catalog.leases(version.id)
        assert found.owner.pid == holder.pid
        assert catalog.take_away(version.id, reason="", who="me") == [found]
        holder.send_signal(signal.SIGKILL)
        holder.wait()
        assert catalog.leases(version.id) == []
    finally:
        holder.kill()
        holder.wait()
        holder.stdout.close()


def test_a_lease_of_another_host_counts_until_it_runs_out(catalog, publish):
    version = publish()
    lease = Lease(Keeper(catalog._put, catalog._take), version.id, "far away")
    lease.owner = Owner("elsewhere~1234", 1, "1", "far away")
    catalog._put([lease])
    assert [each.owner.host for each in catalog.leases()] == ["elsewhere~1234"]


class Flaky:
    """Stands in for a catalog that is away for some calls."""

    def __init__(self, failures):
        self.failures, self.calls, self.rows = failures, 0, set()

    def put(self, leases):
        self.calls += 1
        if self.calls <= self.failures:
            raise CatalogError("The catalog is away.")
        self.rows |= {each.key for each in leases}
        return {each.key: None for each in leases}

    def take(self, key, owner):
        self.rows.discard(key)
        return True


def test_reading_goes_on_while_the_catalog_is_away(monkeypatch, caplog):
    monkeypatch.setattr(leases_module, "_RETRY", (0.01, 0.05))
    flaky = Flaky(failures=4)
    keeper = Keeper(flaky.put, flaky.take)
    lease = Lease(keeper, "v", "reading")
    keeper.add(lease)
    assert not lease.held
    lease.check()
    assert lease.wait(30) and lease.held and flaky.rows == {lease.key}
    warnings = [each for each in caplog.records if each.levelname == "WARNING"]
    assert len(warnings) == 1, "once for each time that it is away"
    lease.close()
    assert flaky.rows == set()


def test_a_lease_given_back_while_the_catalog_is_away_raises_nothing():
    def away(*_):
        raise CatalogError("The catalog is away.")

    keeper = Keeper(away, away)
    with Lease(keeper, "v", "reading") as lease:
        keeper.add(lease)


def test_removing_and_leasing_exclude_each_other(catalog, publish):
    version = publish("1.0.0", aliases=())
    with catalog.lease(version.id, "reading", wait=30):
        [holder] = catalog.take_away(version.id, reason="old", who="me")
        assert holder.purpose == "reading"
        assert catalog.version_by_id(version.id).removed is None
    assert catalog.take_away(version.id, reason="old", who="me") == []
    found = catalog.version_by_id(version.id)
    assert (found.status, found.retract_reason, found.retracted_by) == ("retracted", "old", "me")
    assert found.removed is not None
    with pytest.raises(ConflictError, match="removed from the store"):
        catalog.lease(version.id, "too late", wait=30)
    assert catalog.leases() == []


def test_what_an_alias_points_to_is_not_taken_away(catalog, publish):
    version = publish()
    with pytest.raises(ConflictError, match="alias"):
        catalog.take_away(version.id, reason="old", who="me")
    with pytest.raises(ConflictError, match="at work"):
        catalog.set_alias("toy", None, "latest", None)
        catalog.take_away(version.id, reason="old", who="me", blocked_by=lambda: True)
    assert catalog.version_by_id(version.id).status == "published"


def test_a_trial_that_is_taken_away_is_replaced_and_can_come_back(catalog, publish):
    trial = publish("1.0.0", "fp", status="trial")
    assert catalog.take_away(trial.id, reason="old", who="me") == []
    gone = catalog.version_by_id(trial.id)
    assert (gone.status, gone.removed is not None) == ("replaced", True)
    again = publish("1.0.0", "fp", status="trial")
    assert (again.id, again.status, again.removed) == (trial.id, "trial", None)


def test_a_reinstated_version_can_be_leased_again(catalog, publish):
    version = publish("1.0.0", aliases=())
    catalog.take_away(version.id, reason="old", who="me")
    assert catalog.reinstate(version.id).removed is None
    with catalog.lease(version.id, "reading", wait=30) as lease:
        assert lease.held


def test_readers_race_a_removal(catalog, url, publish):
    """Whoever is granted a lease keeps the version; after the removal nobody is."""
    for round_number in range(5):
        version = publish(f"1.0.{round_number}", aliases=())
        barrier = threading.Barrier(5)
        granted, outcome = [], []

        def read(version=version, barrier=barrier, granted=granted):
            barrier.wait()
            lease = catalog.lease(version.id, "racing", wait=0)
            assert lease.wait(30)
            granted.append(lease)

        def remove(version=version, barrier=barrier, outcome=outcome):
            barrier.wait()
            outcome.append(catalog.take_away(version.id, reason="old", who="me"))

        threads = [threading.Thread(target=read) for _ in range(4)]
        threads.append(threading.Thread(target=remove))
        for each in threads:
            each.start()
        for each in threads:
            each.join()
        gone = catalog.version_by_id(version.id).removed is not None
        assert gone == (outcome == [[]])
        if gone:
            assert not any(each.held for each in granted)
        else:
            assert any(each.held for each in granted)
        for each in granted:
            each.close()


def test_whoever_builds_waits_for_removals_of_its_dataset(catalog):
    assert stand_aside(catalog, "toy") is False
    for key, ref, waits in (
        (SWEEP, None, True),
        (SWEEP, "toy", True),
        (f"{REMOVAL}toy/{'a' * 32}", "toy", True),
        (f"{REMOVAL}toy/big/{'a' * 32}", "toy/big", True),
        (f"{REMOVAL}toy/big/{'a' * 32}", "toy", False),
        (f"{REMOVAL}other/{'a' * 32}", "toy", False),
    ):
        owner = Owner("elsewhere~1", 1, "1", "gc")
        assert catalog.acquire(key, owner, 60)
        timer = threading.Timer(0.3, catalog.release, (key, owner))
        timer.start()
        told = []
        assert stand_aside(catalog, ref, told.append) is waits, key
        assert bool(told) is waits
        timer.join()


def test_a_forked_child_has_a_keeper_of_its_own(catalog, publish, at_once):
    version = publish()
    assert at_once("fork_with_a_lease", 1, version.id) == [["parent"]]
    assert catalog.leases() == []


def test_a_lease_by_url_needs_no_open_catalog(catalog, url, publish):
    from provender.training.leasing import lease

    version = publish()
    with lease(url, version.id, "training") as held:
        assert held.wait(30)
        assert [each.purpose for each in Catalog.leases(catalog, version.id)] == ["training"]
    assert catalog.leases() == []
