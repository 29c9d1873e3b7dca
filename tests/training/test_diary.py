"""Consumption reaches the catalog, whatever the catalog does meanwhile."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

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
