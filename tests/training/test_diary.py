"""Consumption reaches the catalog, whatever the catalog does meanwhile."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
import warnings
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from provender.catalog import Catalog
from provender.training.diary import Diary

PROGRAM = """
import os, signal, sys
from pathlib import Path
from provender.training.diary import Diary

diary = Diary(Path(sys.argv[1]), "sqlite:////dev/null/nowhere.db")
id = diary.opened(sys.argv[2], "killed", ["train"], {})
diary.position(id, {"position": {"step": 7}})
os.kill(os.getpid(), signal.SIGKILL)
"""


def reads(catalog: Catalog, job: str) -> list[Any]:
    return catalog.consumptions(job=job)


def test_what_is_read_is_in_the_catalog(copied: Any, tmp_path: Path) -> None:
    diary = Diary(tmp_path / "events", copied.settings.catalog)
    id = diary.opened(copied.version.id, "bert", ["train[:10]"], {"pipeline": 0})
    diary.position(id, {"position": {"step": 3}})
    diary.position(id, {"position": {"step": 4}})
    assert diary.flush(30)
    (found,) = reads(copied.catalog, "bert")
    assert found.id == id
    assert tuple(found.splits) == ("train[:10]",)
    assert found.facts == {"pipeline": 0, "position": {"step": 4}}
    assert list((tmp_path / "events").iterdir()) == []


def test_events_outlast_a_catalog_that_is_away(copied: Any, tmp_path: Path, caplog: Any) -> None:
    place = tmp_path / "moved.db"
    source = Path(copied.settings.catalog.removeprefix("sqlite:///"))
    copied.catalog.close()
    source.rename(place)
    source.mkdir()  # nothing can be opened here
    diary = Diary(tmp_path / "events", copied.settings.catalog)
    diary.opened(copied.version.id, "late", ["train"], {})
    assert not diary.flush(0.5)
    (kept,) = (tmp_path / "events").glob("*.jsonl")
    assert json.loads(kept.read_text())["job"] == "late"
    source.rmdir()
    place.rename(source)
    assert diary.flush(60)
    with Catalog.open(copied.settings.catalog) as catalog:
        assert len(reads(catalog, "late")) == 1
    assert sum("sent later" in each.message for each in caplog.records) == 1


def test_the_next_process_sends_what_a_killed_one_left(copied: Any, tmp_path: Path) -> None:
    events = tmp_path / "events"
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, str(events), copied.version.id],
        capture_output=True,
        timeout=60,
    )
    assert done.returncode == -9, done.stderr
    (left,) = events.glob("*.jsonl")
    with left.open("a") as file:
        file.write('{"kind": "posi')  # cut by the kill
    diary = Diary(events, copied.settings.catalog)
    diary.opened(copied.version.id, "next", ["test"], {})
    assert diary.flush(30)
    deadline = 100
    while list(events.glob("*.jsonl")) and deadline:
        diary._news.wait(0.1)
        deadline -= 1
    (found,) = reads(copied.catalog, "killed")
    assert found.facts == {"position": {"step": 7}}
    assert list(events.iterdir()) == []


def test_positions_of_any_kind_of_number(copied: Any, tmp_path: Path) -> None:
    import numpy as np

    diary = Diary(tmp_path / "events", copied.settings.catalog)
    id = diary.opened(copied.version.id, "numbers", ["train"], {})
    odd = {"step": np.int64(7), "loss": float("nan"), "rates": np.array([0.5, 1.0], np.float32)}
    diary.position(id, {"position": {**odd, "at": Path("ckpt-7"), "top": {1: np.float32(2)}}})
    assert diary.flush(30)
    (found,) = reads(copied.catalog, "numbers")
    assert found.facts["position"] == {
        "step": 7, "loss": "nan", "rates": [0.5, 1.0], "at": "ckpt-7", "top": {"1": 2.0},
    }  # fmt: skip


def test_what_is_opened_again_has_one_position(copied: Any, tmp_path: Path) -> None:
    diary = Diary(tmp_path / "events", copied.settings.catalog)
    ids = [diary.opened(copied.version.id, "loop", ["test"], {"pipeline": 0}) for _ in range(5)]
    other = diary.opened(copied.version.id, "loop", ["train"], {"pipeline": 0})
    assert diary.readings("loop") == [ids[-1], other]
    assert diary.readings("nothing") == []
    assert diary.flush(30)
    assert len(reads(copied.catalog, "loop")) == 6


def test_a_forked_child_sends_what_it_reads_itself(copied: Any, tmp_path: Path) -> None:
    diary = Diary(tmp_path / "events", copied.settings.catalog)
    diary.opened(copied.version.id, "parent", ["train"], {})
    assert diary.flush(30)
    with diary._lock, warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # forking beside threads
        if (child := os.fork()) == 0:
            diary.opened(copied.version.id, "child", ["train"], {})
            os._exit(0 if diary.flush(30) else 1)
    assert os.waitpid(child, 0)[1] == 0
    assert len(reads(copied.catalog, "child")) == len(reads(copied.catalog, "parent")) == 1


def test_what_another_host_left_keeps_its_host(copied: Any, tmp_path: Path) -> None:
    events = tmp_path / "events"
    events.mkdir()
    for name, age in (("gone", 2 * 86_400), ("alive", 60)):
        event = {
            "kind": "opened", "id": name, "version_id": copied.version.id, "job": name,
            "splits": ["train"], "facts": {}, "host": f"{name}~1", "at": "2026-01-02T03:04:05+00:00",
        }  # fmt: skip
        path = events / f"{name}-host-12-abcdef12.jsonl"
        path.write_text(json.dumps(event) + "\n")
        os.utime(path, (time.time() - age, time.time() - age))
    diary = Diary(events, copied.settings.catalog)
    diary.opened(copied.version.id, "next", ["test"], {})
    deadline = time.monotonic() + 30
    while not reads(copied.catalog, "gone") and time.monotonic() < deadline:
        time.sleep(0.05)
    (found,) = reads(copied.catalog, "gone")
    assert found.host == "gone~1"
    assert reads(copied.catalog, "alive") == [], "its process may live, and no lock would say so"
    assert (events / "alive-host-12-abcdef12.jsonl").exists()


def test_an_error_that_nobody_foresaw_is_tried_again(
    copied: Any, tmp_path: Path, monkeypatch: Any
) -> None:
    errors = [RuntimeError("unforeseen")] * 2  # one for the diary, one for the lease
    open_catalog = Catalog.open

    def once(url: str) -> Catalog:
        if errors:
            raise errors.pop()
        return open_catalog(url)

    monkeypatch.setattr(Catalog, "open", once)
    diary = Diary(tmp_path / "events", copied.settings.catalog)
    id = diary.opened(copied.version.id, "again", ["train"], {})
    assert diary.flush(30)
    assert [each.id for each in reads(copied.catalog, "again")] == [id]
    deadline = time.monotonic() + 30
    purpose = "training: again"
    while time.monotonic() < deadline:
        if any(each.purpose == purpose for each in copied.catalog.leases(copied.version.id)):
            return
        time.sleep(0.05)
    pytest.fail("The lease was given up.")


def test_an_event_sent_twice_is_kept_once(copied: Any, tmp_path: Path) -> None:
    for _ in range(2):
        copied.catalog.record_consumption(copied.version.id, "twice", id="abc")
    assert len(reads(copied.catalog, "twice")) == 1
    copied.catalog.add_consumption_facts("unknown", {"step": 1})


def test_a_job_by_argument_or_environment(notes: Any, monkeypatch: Any) -> None:
    import provender
    from provender.training.diary import diary

    provender.load("notes:1.0.0", split="test", job="one", settings=notes.settings)
    monkeypatch.setenv("PROVENDER_JOB", "two")
    provender.load("notes", batch_size=4, settings=notes.settings)
    provender.record_position(job="two", step=12)
    assert diary(notes.settings.home, notes.settings.catalog).flush(30)
    (one,), (two,) = reads(notes.catalog, "one"), reads(notes.catalog, "two")
    assert tuple(one.splits) == ("test",)
    assert "position" not in one.facts
    assert tuple(two.splits) == ("train", "test")
    assert two.facts["position"]["step"] == 12


def test_whoever_reads_keeps_the_version_from_being_removed(copied: Any) -> None:
    import provender
    from provender.data import load_dataset

    began = datetime.now(UTC)
    provender.load("notes", split="test", settings=copied.settings)
    provender.data_source("notes", split="test", settings=copied.settings)
    load_dataset("notes:1.0.0", split="test", streaming=True, settings=copied.settings)

    def mine() -> list[str]:
        found = copied.catalog.leases(copied.version.id)
        # The copied catalog knows the leases of the version that it is a copy of.
        return [each.purpose for each in found if each.acquired > began]

    deadline = time.monotonic() + 30
    while not mine() and time.monotonic() < deadline:
        time.sleep(0.05)
    assert mine() == ["load"]
