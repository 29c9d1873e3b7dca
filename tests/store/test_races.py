"""Several processes at one file."""

from __future__ import annotations

import pytest

from provender.store import Store


def _create_race(store: Store, processes) -> None:
    for turn in range(4):
        rel = f"race {turn}/f"

        def attempt(i: int, rel: str = rel) -> None:
            try:
                store.create(rel, b"%d" % i)
            except FileExistsError:
                raise SystemExit from None

        codes = processes.race(5, attempt)
        assert codes.count(0) == 1
        assert codes.count(1) == 4
        assert store.read(rel) == b"%d" % codes.index(0)


@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_of_racing_processes_one_creates_local(local_store, processes, capfd):
    _create_race(local_store, processes)


def test_of_racing_processes_one_creates_gcs(gcs_store, processes, capfd):
    gcs_store.write("used before the fork", b"")
    _create_race(gcs_store, processes)


def test_racing_publishers_gcs(gcs_store, processes, capfd):
    """Of equal publishers at most one has created it; whoever sees another at work says so."""
    from provender.errors import ConflictError
    from provender.store import publish_directory

    gcs_store.write("building/s", b"x" * 1000)
    files = {"s": "building/s", "t": "building/s", "dataset_info.json": b"{}"}

    def publish(i: int) -> None:
        try:
            outcome = b"%d" % publish_directory(gcs_store, files, "v").created
        except ConflictError as error:
            assert "another process" in str(error)
            outcome = b"busy"
        gcs_store.write(f"outcome/{i}", outcome)

    assert processes.race(5, publish) == [0] * 5
    outcomes = [gcs_store.read(f"outcome/{i}") for i in range(5)]
    assert outcomes.count(b"1") <= 1
    assert not publish_directory(gcs_store, files, "v").created
    assert {entry.rel for entry in gcs_store.list("v")} == {f"v/{name}" for name in files}


def test_racing_publishers_local(local_store, processes, capfd):
    from provender.store import publish_directory

    local_store.write("building/s", b"x" * 1000)
    files = {"s": "building/s", "t": "building/s", "dataset_info.json": b"{}"}
    for turn in range(4):

        def publish(i: int, turn: int = turn) -> None:
            created = publish_directory(local_store, files, f"v{turn}").created
            local_store.write(f"outcome/{turn}/{i}", b"%d" % created)

        assert processes.race(5, publish) == [0] * 5
        outcomes = [local_store.read(f"outcome/{turn}/{i}") for i in range(5)]
        assert sorted(outcomes) == [b"0"] * 4 + [b"1"]
        assert len(local_store.list(f"v{turn}")) == 3
