"""What gc removes, what it keeps, and that nobody who builds or reads is hurt by it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
import time
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest

from provender.catalog import Catalog, claimed
from provender.catalog.leases import SWEEP
from provender.engine.build import build
from provender.engine.session import Options, open_session
from provender.refs import DatasetRef
from provender.store import Store
from provender.upkeep import examine, gc, gc_items, retract, verify
from provender.upkeep.gc import collect, sweep

PROGRAM = Path(__file__).with_name("gc_program.py")
NOW, WEEK = timedelta(0), timedelta(days=7)


@pytest.fixture(autouse=True)
def impatient(monkeypatch):
    monkeypatch.setattr(gc, "_WAIT_SECONDS", 0.0)


def swept(place, grace=NOW, keep=None):
    return sweep(place.settings, place.catalog, place.store, grace=grace, keep=keep)


def listed(place, grace=NOW, keep=None):
    return collect(place.settings, place.catalog, place.store, grace=grace, keep=keep)


def removed(report):
    return sorted((each.kind, each.what) for each in report.items if each.state == "removed")


def files(place):
    return {each.rel for each in place.store.list("", recursive=True)}


def version_files(place):
    return {each for each in files(place) if each.startswith("datasets/")}


def run_again(place, **options):
    ref = DatasetRef.parse(f"{place.file}:Notes")
    session = open_session(ref, place.settings, Options(workers=1, num_shards=3, **options))
    return build(session)


def changed(place, tmp_path, **about):
    """The builder with another number, and so other content."""
    text = place.file.read_text()
    for old, new in about.items():
        text = text.replace({"version": "1.0.0", "text": "note {i}"}[old], new)
    file = tmp_path / "next" / place.file.name
    file.parent.mkdir(exist_ok=True)
    file.write_text(text)
    return replace(place, file=file)


def program(home, *args):
    return subprocess.Popen(
        [sys.executable, str(PROGRAM), str(home), *map(str, args)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def ended(process):
    out, err = process.communicate(timeout=120)
    assert process.returncode == 0, err
    return json.loads(out.splitlines()[-1])


# -- what goes and what stays ---------------------------------------------------------------------------


def test_a_dry_run_changes_nothing(copied):
    before, runs = files(copied), copied.catalog.runs()
    report = listed(copied)
    assert {each.kind for each in report.items} == {"work"} and not report.applied
    assert report.size() > 0 and all(each.state == "listed" for each in report.items)
    assert files(copied) == before and copied.catalog.runs() == runs


def test_what_is_young_is_kept(copied):
    assert listed(copied, WEEK).items == () == swept(copied, WEEK).items


def test_runs_of_published_shards_go_and_the_version_stays_whole(copied):
    before = version_files(copied)
    report = swept(copied)
    assert {each.kind for each in report.items} == {"work"} and report.count("removed") == 2
    assert (
        version_files(copied) == before and verify(copied.catalog, copied.store, copied.version).ok
    )
    assert run_again(copied).outcome == "cached"
    [run] = copied.catalog.runs(limit=1)[:1]
    assert run.kind == "build"
    gc_run = copied.catalog.runs(limit=2)[1]
    assert (gc_run.kind, gc_run.outcome, gc_run.summary["removed"]) == ("gc", "succeeded", 2)
    assert swept(copied).items == ()


def test_a_damaged_shard_is_mended_after_its_runs_are_gone(copied):
    swept(copied)
    [shard, *_] = copied.catalog.shards(copied.version.id)
    copied.path(shard.name).unlink()
    assert run_again(copied).outcome == "succeeded"
    assert verify(copied.catalog, copied.store, copied.version).ok


def test_a_retracted_version_goes_and_its_record_stays(copied):
    retract(copied.catalog, copied.version, "labels shifted", "me")
    assert listed(copied, WEEK).items == ()
    report = swept(copied)
    assert ("version", "notes:1.0.0 (retracted)") in removed(report)
    assert version_files(copied) == set()
    found = copied.catalog.version_by_id(copied.version.id)
    assert (found.status, found.retract_reason) == ("retracted", "labels shifted")
    assert found.removed is not None
    assert swept(copied).items == ()
    assert [
        each
        for each in examine(copied.settings, copied.catalog, copied.store)
        if each.kind != "space"
    ] == []


def test_a_retracted_version_that_is_gone_can_come_back(copied):
    retract(copied.catalog, copied.version, "by mistake", "me")
    swept(copied)
    again = copied.catalog.reinstate(copied.version.id)
    assert again.removed is None
    assert run_again(copied).version.id == copied.version.id
    assert verify(copied.catalog, copied.store, again).ok


def test_a_trial_goes_and_what_is_published_from_it_stays(copied):
    trial = run_again(copied, max_examples=10).version
    report = swept(copied)
    assert ("version", "notes:1.0.0 (trial)") in removed(report)
    assert not copied.store.list(trial.path)
    assert copied.catalog.version_by_id(trial.id).status == "replaced"
    assert verify(copied.catalog, copied.store, copied.version).ok
    assert run_again(copied, max_examples=10).version.status == "trial"


def test_published_versions_go_only_where_asked(copied, tmp_path):
    newer = run_again(changed(copied, tmp_path, version="1.1.0", text="other {i}")).version
    assert not any(each.kind == "version" for each in swept(copied).items)
    report = swept(copied, keep=1)
    assert removed(report)[-1:] == [("version", "notes:1.0.0 (published)")]
    gone = copied.catalog.version_by_id(copied.version.id)
    assert (gone.status, gone.removed is not None) == ("retracted", True)
    assert "not among the 1 newest" in gone.retract_reason
    assert verify(copied.catalog, copied.store, newer).ok


@pytest.mark.parametrize("by", ["alias", "lease", "consumption", "grace"])
def test_what_keeps_an_old_version(copied, tmp_path, by):
    run_again(changed(copied, tmp_path, version="1.1.0", text="other {i}"))
    old, grace = copied.version, NOW
    lease = None
    if by == "alias":
        copied.catalog.set_alias("notes", None, "golden", old.id)
    elif by == "lease":
        lease = copied.catalog.lease(old.id, "reading", wait=30)
    elif by == "consumption":
        copied.catalog.record_consumption(old.id, "train-7")
        grace = timedelta(hours=1)
    else:
        grace = timedelta(hours=1)
    report = swept(copied, grace, keep=1)
    assert not any(each.kind == "version" for each in report.items)
    assert verify(copied.catalog, copied.store, old).ok
    if lease is not None:
        lease.close()
        assert ("version", "notes:1.0.0 (published)") in removed(swept(copied, keep=1))


def test_objects_that_nothing_refers_to_go(copied):
    lost = f"objects/ab/{'ab' * 32}/data.csv"
    copied.store.write(lost, b"x" * 1000)
    needed = {each for each in files(copied) if each.startswith("objects/")} - {lost}
    assert needed, "statistics and plans are among the objects"
    assert listed(copied, WEEK).items == ()
    report = swept(copied)
    [found] = [each for each in report.items if each.kind == "object"]
    assert (found.what, found.size, found.state) == ("data.csv", 1000, "removed")
    assert {each for each in files(copied) if each.startswith("objects/")} == needed


def test_what_another_catalog_may_need_is_left_alone(copied, tmp_path):
    lost = f"objects/ab/{'ab' * 32}/data.csv"
    copied.store.write(lost, b"x" * 1000)
    before = files(copied)
    with Catalog.open(tmp_path / "other.db") as other:
        place = replace(copied, catalog=other)
        for report in (listed(place), swept(place)):
            assert report.items == () and "another catalog" in report.left_alone
    assert files(copied) == before
    assert ("object", "data.csv") in removed(swept(copied))


def test_a_shard_of_two_versions_frees_nothing_for_one(copied, tmp_path):
    """Equal shards are one file with two names."""
    run_again(changed(copied, tmp_path, version="1.1.0"))
    [item] = [each for each in listed(copied, keep=1).items if each.kind == "version"]
    linked = sum(each.size for each in copied.catalog.shards(copied.version.id))
    assert 0 < item.size < linked
    swept(copied, keep=1)
    newest = copied.catalog.version("notes", "", "1.1.0")
    assert verify(copied.catalog, copied.store, newest).ok


# -- beside others --------------------------------------------------------------------------------------

SLOW = """
import time


class Slow(Notes, skip_registration=True):
    def _generate_examples(self, count):
        for i in range(count):
            if i == 5 and count == 300:
                open({flag!r}, "w").close()
                while __import__("os").path.exists({flag!r}):
                    time.sleep(0.02)
            yield i, {{"text": f"slow {{i}}", "label": 0}}
"""


def test_a_running_build_loses_nothing(copied, tmp_path):
    flag = tmp_path / "at-work"
    file = tmp_path / "slow" / "notes_builder.py"
    file.parent.mkdir()
    file.write_text(copied.file.read_text() + SLOW.format(flag=str(flag)))
    lost = f"objects/ab/{'ab' * 32}/data.csv"
    copied.store.write(lost, b"x")
    retract(copied.catalog, copied.version, "old", "me")
    ref = DatasetRef.parse(f"{file}:Slow")
    session = open_session(ref, copied.settings, Options(workers=1, num_shards=3))
    result = []
    thread = threading.Thread(target=lambda: result.append(build(session)))
    thread.start()
    try:
        end = time.monotonic() + 60
        while not flag.exists():
            assert time.monotonic() < end and thread.is_alive()
            time.sleep(0.02)
        report = swept(copied)
        assert report.left_alone == "builds are at work"
        assert not any(each.kind in ("object", "work") for each in report.items)
        assert copied.store.stat(lost) is not None
        assert any(each.key.startswith("build/") for each in copied.catalog.claims())
    finally:
        flag.unlink(missing_ok=True)
        thread.join()
    assert (
        result[0].outcome == "succeeded"
        and verify(copied.catalog, copied.store, result[0].version).ok
    )
    assert ("object", "data.csv") in removed(swept(copied))


def test_versions_of_a_dataset_that_is_being_built_are_left_alone(copied):
    retract(copied.catalog, copied.version, "old", "me")
    with claimed(copied.catalog, "build/notes:2.0.0", note="building notes"):
        report = swept(copied)
    [item] = [each for each in report.items if each.kind == "version"]
    assert (item.state, item.note) == ("kept", "Somebody is at work on the dataset.")
    assert copied.catalog.version_by_id(copied.version.id).removed is None
    assert version_files(copied)


def test_a_build_waits_for_a_sweep(copied):
    told = []
    ref = DatasetRef.parse(f"{copied.file}:Notes")
    options = Options(workers=1, num_shards=3, force=("register",))
    session = open_session(ref, copied.settings, options)
    with claimed(copied.catalog, SWEEP, note="gc"):
        thread = threading.Thread(target=lambda: build(session, told.append))
        thread.start()
        end = time.monotonic() + 60
        while not any(each["event"] == "wait" for each in told):
            assert time.monotonic() < end
            time.sleep(0.02)
        assert not any(each["event"] == "start" for each in told)
    thread.join()
    assert any(each["event"] == "done" for each in told)


def test_a_reader_that_leases_keeps_the_version_during_a_sweep(copied):
    """The lease comes between the listing and the removal."""
    retract(copied.catalog, copied.version, "old", "me")
    ground = gc._ground(copied.settings, copied.catalog, copied.store, NOW, None)
    [candidate] = list(gc_items.versions(ground))
    with copied.catalog.lease(copied.version.id, "reading", wait=30):
        item = candidate.settle()
        assert item.state == "kept" and "reading" in item.note
        assert version_files(copied)


def test_two_sweeps_at_once(copied, tmp_path):
    retract(copied.catalog, copied.version, "old", "me")
    for i in range(40):
        copied.store.write(f"objects/{i:02x}/{i:064x}/data-{i}", b"x" * 100)
    copied.catalog.close()
    reports = [ended(each) for each in [program(tmp_path, 0, 0) for _ in range(2)]]
    gone = [each["what"] for r in reports for each in r["items"] if each["state"] == "removed"]
    data = [each for each in gone if each.startswith("data-")]
    assert sorted(data) == sorted(f"data-{i}" for i in range(40)), "each thing once"
    assert gone.count("notes:1.0.0 (retracted)") == 1
    assert not version_files(copied)
    assert not any("/data-" in each for each in files(copied))


# -- killed in the middle ---------------------------------------------------------------------------------

PLACES = [
    ("provender.upkeep.gc_items:remove_directory", "before"),
    ("provender.upkeep.gc_items:remove_directory", "after"),
    ("provender.upkeep.gc_items:remove_local", "after"),
    ("shutil:rmtree", "before"),
]


@pytest.mark.parametrize(("place", "when"), PLACES, ids=["marked", "gone", "runs", "trash"])
def test_killed_in_the_middle_the_next_one_goes_on(copied, tmp_path, place, when):
    retract(copied.catalog, copied.version, "old", "me")
    copied.catalog.close()
    process = program(tmp_path, 0, 0, place, when)
    process.communicate(timeout=120)
    assert process.returncode == -9
    found = copied.catalog.version_by_id(copied.version.id)
    assert found.removed is not None or version_files(copied)
    swept(copied)
    assert version_files(copied) == set()
    assert copied.catalog.version_by_id(copied.version.id).removed is not None
    assert swept(copied).items == ()
    assert [each for each in copied.catalog.runs() if each.outcome == "running"] == []
    assert {
        each for each in files(copied) if not each.startswith(("objects/", ".catalogs/"))
    } == set()


def test_a_number_that_was_being_removed_can_be_built_again(copied, tmp_path):
    """Killed after the catalog was told; the same number is then published with other content."""
    retract(copied.catalog, copied.version, "old", "me")
    copied.catalog.close()
    process = program(tmp_path, 0, 0, "provender.upkeep.gc_items:remove_directory", "before")
    process.communicate(timeout=120)
    assert process.returncode == -9 and version_files(copied)
    built = run_again(changed(copied, tmp_path, text="mended {i}")).version
    assert built.status == "published" and built.id != copied.version.id
    swept(copied)
    assert verify(copied.catalog, copied.store, built).ok
    assert not copied.store.list(copied.catalog.version_by_id(copied.version.id).path)


# -- a catalog for teams ------------------------------------------------------------------------------------


def test_with_a_catalog_on_postgresql(notes, tmp_path, helpers):
    with helpers("catalog", "pg_server").start() as server:
        settings = replace(
            notes.settings,
            store=str(tmp_path / "store"),
            catalog=server.new_database(),
            home=tmp_path / "home",
        )
        store, ref = Store.open(settings.store), DatasetRef.parse(f"{notes.file}:Notes")
        with Catalog.open(settings.catalog) as catalog:
            options = Options(workers=1, num_shards=2)
            built = build(open_session(ref, settings, options, catalog=catalog)).version
            assert all(catalog.statistics(built.id).values())
            assert len(catalog.sql("SELECT * FROM v_statistics").rows) == 4
            retract(catalog, built, "old", "me")
            with catalog.lease(built.id, "reading", wait=30):
                kept = sweep(settings, catalog, store, grace=NOW)
                assert not any(each.kind == "version" for each in kept.items)
            report = sweep(settings, catalog, store, grace=NOW)
            assert ("version", "notes:1.0.0 (retracted)") in removed(report)
            assert not store.list(built.path)
            assert catalog.version_by_id(built.id).removed is not None


# -- object stores ----------------------------------------------------------------------------------------


def test_on_an_object_store(notes, gcs_bucket, tmp_path):
    store = Store.open(f"{gcs_bucket}/data", scratch=str(tmp_path / "scratch"))
    settings = replace(
        notes.settings,
        store=store.url,
        scratch=tmp_path / "scratch",
        catalog=f"sqlite:///{tmp_path}/c.db",
        home=tmp_path / "home",
    )
    ref = DatasetRef.parse(f"{notes.file}:Notes")
    trial = build(open_session(ref, settings, Options(workers=1, max_examples=5))).version
    built = build(open_session(ref, settings, Options(workers=1, num_shards=2))).version
    store.write(f"objects/ab/{'ab' * 32}/data.csv", b"x" * 100)
    with Catalog.open(settings.catalog) as catalog:
        assert collect(settings, catalog, store, grace=WEEK).items == ()
        time.sleep(0.01)
        with catalog.lease(trial.id, "reading", wait=30):
            kept = sweep(settings, catalog, store, grace=NOW)
            assert not any(each.kind == "version" for each in kept.items)
        assert ("object", "data.csv") in removed(kept)
        report = sweep(settings, catalog, store, grace=NOW)
        assert ("version", "notes:1.0.0 (trial)") in removed(report)
        assert store.list(trial.path) == []
        assert verify(catalog, store, built).ok
        retract(catalog, built, "old", "me")
        sweep(settings, catalog, store, grace=NOW)
        left = {each.rel for each in store.list("", recursive=True)}
        assert {each for each in left if not each.startswith(("objects/", ".catalogs/"))} == set()
    assert not any((tmp_path / "scratch" / "building").rglob("*.rec"))
    assert os.path.isdir(tmp_path / "scratch")
