"""The doctor finds what dead builds left, clears it up, and touches nothing else."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest

from provender.catalog import Catalog, Owner, claimed
from provender.settings import DatasetEntry, Settings
from provender.store import Store
from provender.upkeep import examine, find_version, retract, verify

HERE = Path(__file__).parent


class Project:
    """A project whose builds may be killed."""

    def __init__(self, home: Path, file: Path, settings: Settings) -> None:
        self.home, self.file, self.settings = home, file, settings
        self.store = Store.open(settings.store)

    def kill_at(self, place: str, when: str = "before") -> None:
        script = str(HERE / "killed_build.py")
        done = subprocess.run(
            [sys.executable, script, str(self.home), str(self.file), place, when],
            capture_output=True, text=True, timeout=120, check=False,
        )  # fmt: skip
        assert done.returncode == -9, done.stderr[-2000:]

    def examine(self, **options):
        with Catalog.open(self.settings.catalog) as catalog:
            return examine(self.settings, catalog, self.store, **options)

    def kinds(self, **options) -> set[str]:
        return {each.kind for each in self.examine(**options)}

    def files(self, top: str = "") -> set[str]:
        """Every file in the store, unfinished ones too."""
        root = Path(self.settings.store)
        return {
            str(p.relative_to(root)) for p in (root / top).rglob("*")
            if p.is_file() and not p.name.startswith("catalog.db")
        }  # fmt: skip

    def states(self) -> set[str]:
        with Catalog.open(self.settings.catalog) as catalog:
            stages = {each.state for each in catalog.stages(limit=None)}
            return stages | {each.outcome for each in catalog.runs(limit=None)}


@pytest.fixture
def project(tmp_path: Path, notes, engine) -> Project:
    file = tmp_path / "notes_builder.py"
    shutil.copy(notes.file, file)
    return Project(tmp_path, file, engine.settings_for(tmp_path))


# -- nothing wrong --------------------------------------------------------------------------------


def test_a_finished_build_leaves_nothing_to_find(notes):
    before = {p: p.stat().st_mtime_ns for p in Path(notes.settings.store).rglob("*")}
    assert examine(notes.settings, notes.catalog, notes.store) == []
    assert examine(notes.settings, notes.catalog, notes.store, fix=True) == []
    after = {p: p.stat().st_mtime_ns for p in Path(notes.settings.store).rglob("*")}
    assert {p for p in before if p.is_file()} <= set(after)
    assert {p: t for p, t in after.items() if p.is_file()} == {
        p: t for p, t in before.items() if p.is_file()
    }


# -- killed builds ----------------------------------------------------------------------------------

PLACES = {
    "a run half written": ("provender.records.atomic:AtomicFile.__exit__", "before"),
    "a file on its way into the store": ("provender.store.local:LocalStore._land", "before"),
    "runs written, not yet recorded": ("provender.engine.execute:outputs_of", "after"),
    "a shard written, not yet recorded": ("provender.stages.shards:_deliver", "before"),
    "being put together": ("provender.store.local:LocalStore.rename_directory", "before"),
    "published, not in the catalog": ("provender.engine.pieces:catalog_version", "before"),
    "in the catalog, not cleared up": ("provender.engine.publishing:_settle", "before"),
}


@pytest.mark.parametrize("place", PLACES.values(), ids=PLACES)
def test_a_killed_build_is_cleared_up_and_goes_on(project, engine, place):
    project.kill_at(*place)
    found = project.examine()
    assert {"dead_run"} <= {each.kind for each in found}
    assert all(each.fixable and not each.fixed for each in found)
    left = project.files()
    assert project.examine() == found, "looking changes nothing"
    assert project.files() == left

    mended = project.examine(fix=True)
    assert {each.what for each in mended} == {each.what for each in found}
    assert all(each.fixed for each in mended)
    assert project.examine() == []
    assert "running" not in project.states()
    with Catalog.open(project.settings.catalog) as catalog:
        known = {each.path for each in catalog.versions()}
        for name in project.files():
            top, kind, *rest = name.split("/")
            if top == "building":
                assert kind == "examples" or catalog.find_stages([rest[0]])
                assert ".tmp-" not in name
            elif top == "datasets":
                assert any(name.startswith(f"{path}/") for path in known)
            else:
                assert top in ("objects", ".catalogs")

    version = engine.make(project.file, project.settings)
    with Catalog.open(project.settings.catalog) as catalog:
        assert verify(catalog, project.store, version).ok
    assert project.examine() == []


def test_what_a_killed_build_finished_is_not_made_again(project, engine):
    """Runs and finished shards are memory: after the doctor they are hits."""
    project.kill_at("provender.store.local:LocalStore.rename_directory")
    project.examine(fix=True)
    engine.make(project.file, project.settings)
    with Catalog.open(project.settings.catalog) as catalog:
        keys = [each.key for each in catalog.stages(state="succeeded", limit=None)]
    assert len([key for key in keys if key.startswith("shards/")]) == 6
    assert keys.count("examples/train") == 1


def test_runs_of_an_unfinished_build_are_kept_for_a_while(project):
    project.kill_at("provender.records.runs:RunWriter.write_part", "after")
    assert any("examples" in name for name in project.files("building"))
    left = project.files("building")
    project.examine(fix=True)
    assert project.files("building") == left
    found = project.examine(fix=True, older_than=timedelta(0))
    assert [each.kind for each in found] == ["leftover"]
    assert found[0].fixed
    assert project.files("building") == set()


# -- what is not the doctor's to remove ------------------------------------------------------------


def test_what_a_live_build_holds_stays(copied):
    building = Path(copied.store.path("building"))
    fingerprint = "ab" * 16
    for kind in ("shards", "publish", "prepared", "replaced"):
        (building / kind / fingerprint).mkdir(parents=True)
        (building / kind / fingerprint / "x").write_bytes(b"x")
    (building / "examples" / fingerprint / "parts-1").mkdir(parents=True)
    (building / "examples" / fingerprint / "parts-1" / "r.tmp-1").write_bytes(b"x")
    (building / "examples" / fingerprint / "parts-1" / "r.rec").write_bytes(b"x")
    (building / "extracted" / "ab" / fingerprint).mkdir(parents=True)
    (building.parent / ".incoming").mkdir(exist_ok=True)
    (building.parent / ".incoming" / "0123").write_bytes(b"x")
    # A process of another machine, which nobody here can prove dead.
    other = Owner("elsewhere~00", 1, "1")
    copied.catalog.acquire("build/other:1.0.0", other, 60)
    copied.catalog.acquire(f"stage/{fingerprint}", other, 60)
    assert examine(copied.settings, copied.catalog, copied.store, fix=True) == changed(copied)
    assert (building / "shards" / fingerprint / "x").exists()
    copied.catalog.release("build/other:1.0.0", other)
    copied.catalog.release(f"stage/{fingerprint}", other)
    found = examine(copied.settings, copied.catalog, copied.store, fix=True)
    kinds = [each.kind for each in found if each.kind != "changed_version"]
    assert sorted(kinds) == ["leftover"] * 6 + ["temporary"] * 2
    assert all(each.fixed for each in found if each.kind != "changed_version")
    assert examine(copied.settings, copied.catalog, copied.store) == changed(copied)


def changed(copied) -> list:
    """A copied store's small files have other identities: that alone is to be said."""
    found = examine(copied.settings, copied.catalog, copied.store)
    return [each for each in found if each.kind == "changed_version"]


def test_a_claim_taken_between_looking_and_removing_wins(copied):
    from provender.upkeep.activity import Activity
    from provender.upkeep.leftovers import Workshop, leftovers

    building = Path(copied.store.path("building"))
    (building / "shards" / ("cd" * 16)).mkdir(parents=True)
    (building / "shards" / ("cd" * 16) / "x").write_bytes(b"x")
    shop = Workshop(
        copied.catalog, copied.store, building, building.parent / "objects",
        Activity.now(copied.catalog), 0.0,
    )  # fmt: skip
    [problem] = [p for p in leftovers(shop) if "shards" in p.finding.where]
    with claimed(copied.catalog, f"stage/{'cd' * 16}"):
        assert not problem.settle(fix=True).fixed
    assert (building / "shards" / ("cd" * 16) / "x").exists()
    assert problem.settle(fix=True).fixed


def test_an_open_file_and_a_locked_one_stay(copied):
    """Somebody who writes without claims, e.g. a pull into this store."""
    incoming = Path(copied.store.path()) / ".incoming"
    incoming.mkdir(exist_ok=True)
    code = (
        "import fcntl,sys,time; a=open(sys.argv[1]+'/open','w'); b=open(sys.argv[1]+'/l.lock','w');"
        "fcntl.flock(b,fcntl.LOCK_EX); print('ready',flush=True); time.sleep(60)"
    )
    with subprocess.Popen(
        [sys.executable, "-c", code, str(incoming)], stdout=subprocess.PIPE
    ) as other:
        assert other.stdout
        other.stdout.readline()
        (incoming / "dead").write_bytes(b"x")
        found = examine(copied.settings, copied.catalog, copied.store, fix=True)
        assert [Path(e.where).name for e in found if e.kind == "temporary"] == ["dead"]
        assert {p.name for p in incoming.iterdir()} == {"open", "l.lock"}
        other.kill()
    examine(copied.settings, copied.catalog, copied.store, fix=True)
    assert not incoming.exists() or not any(incoming.iterdir())


def test_partial_downloads_and_archives_of_dead_processes(copied):
    objects, building = (Path(copied.store.path(each)) for each in ("objects", "building"))
    incoming, sha = objects / ".incoming" / "key", "ef" * 32
    incoming.mkdir(parents=True)
    for name in ("data.part", "data.part.json", "lock", "last.json"):
        (incoming / name).write_bytes(b"{}")
    (objects / "ef" / sha).mkdir(parents=True)
    (objects / "ef" / sha / "archive.zip").write_bytes(b"zip")
    (objects / "ef" / sha / ".0123").write_bytes(b"zip")
    unpacked = building / "extracted" / "ef" / sha
    (unpacked / "ZIP").mkdir(parents=True)
    (unpacked / "ZIP" / "user.part").write_bytes(b"a file of the archive")
    (unpacked / ".ZIP.unpacking").mkdir()
    (unpacked / ".ZIP.lock").write_bytes(b"")
    examine(copied.settings, copied.catalog, copied.store, fix=True)
    assert [p.name for p in incoming.iterdir()] == ["last.json"]
    assert [p.name for p in (objects / "ef" / sha).iterdir()] == ["archive.zip"]
    assert [p.name for p in unpacked.iterdir()] == ["ZIP"]
    assert (unpacked / "ZIP" / "user.part").exists()


# -- folders and rows -------------------------------------------------------------------------------


def test_a_version_that_another_catalog_published_stays(notes, tmp_path):
    """A new, empty catalog over a full store must not cost anybody a version."""
    shutil.copytree(notes.file.parent / "store", tmp_path / "store")
    settings = replace(notes.settings, store=str(tmp_path / "store"), home=tmp_path / "home")
    with Catalog.open(tmp_path / "new.db") as catalog:
        settings = replace(settings, catalog=f"sqlite:///{tmp_path / 'new.db'}")
        found = examine(settings, catalog, Store.open(settings.store), fix=True)
    assert [each.kind for each in found if "datasets" in each.where] == ["unregistered"]
    assert not any(each.fixed for each in found if "datasets" in each.where)
    assert (tmp_path / "store" / notes.version.path / "dataset_info.json").exists()


def test_a_folder_without_marker(copied):
    def broken(name: str) -> Path:
        folder = Path(copied.store.path(f"datasets/{name}"))
        folder.mkdir(parents=True)
        (folder / "x.tfrecord-00000-of-00001").write_bytes(b"x")
        return folder

    ours, foreign = broken("notes/2.0.0"), broken("strange/1.0.0")
    found = {
        each.where: each
        for each in examine(copied.settings, copied.catalog, copied.store, fix=True)
        if each.kind == "half_published"
    }
    assert found[str(ours)].fixed
    assert not ours.exists()
    assert not found[str(foreign)].fixable
    assert foreign.exists()


def test_missing_and_changed_files_of_a_version(copied):
    copied.path("notes-test.tfrecord-00000-of-00003").unlink()
    os.truncate(copied.path("notes-train.tfrecord-00000-of-00003"), 10)
    [bad] = [
        each for each in examine(copied.settings, copied.catalog, copied.store)
        if each.kind == "damaged_version"
    ]  # fmt: skip
    assert bad.level == "error"
    assert "notes-test.tfrecord-00000-of-00003: it is not in the store" in bad.what
    assert "10 bytes" in bad.what
    assert "provender build notes:1.0.0" in bad.hint
    retract(copied.catalog, find_version(copied.catalog, ref("notes")), "wrong")
    assert "damaged_version" not in {
        each.kind for each in examine(copied.settings, copied.catalog, copied.store)
    }, "nobody misses files of a version that was taken back"


def ref(text: str):
    from provender.refs import DatasetRef

    return DatasetRef.parse(text)


# -- surroundings -----------------------------------------------------------------------------------


def test_memory_manual_folders_and_an_unwritable_store(copied, tmp_path):
    facts = copied.settings.home / "facts"
    (facts / "broken.json").write_text("{")
    (facts / "x.123.part").write_text("{")
    (facts / "gone.json").write_text('{"files": {"/no/such/file.py": [1, 2, 3, 4]}}')
    entry = DatasetEntry("pkg:X", manual_dir=str(tmp_path / "nowhere"))
    settings = replace(
        copied.settings, datasets={"x": entry}, manual_dir=tmp_path / "not there either"
    )
    found = examine(settings, copied.catalog, copied.store, fix=True)
    by_kind = {}
    for each in found:
        by_kind.setdefault(each.kind, []).append(each)
    assert len(by_kind["manual_dir"]) == 2
    assert len(by_kind["stale_memory"]) == 2
    assert [each.fixed for each in by_kind["stale_memory"] + by_kind["temporary"]] == [True] * 3
    assert len(list(facts.glob("*"))) == 1

    blocked = tmp_path / "file"
    blocked.write_text("not a folder")
    found = examine(copied.settings, copied.catalog, Store.open(str(blocked)), fix=True)
    [bad] = [each for each in found if each.kind == "store"]
    assert bad.level == "error"


def test_a_catalog_of_another_revision(copied):
    import sqlite3

    from provender.catalog import db

    with sqlite3.connect(copied.settings.catalog.removeprefix("sqlite:///")) as conn:
        conn.execute("UPDATE alembic_version SET version_num = 'zzzz'")
    conn.close()
    found = examine(copied.settings, copied.catalog, copied.store, fix=True)
    assert [each.kind for each in found] == ["catalog"]
    assert db.head_revision() in found[0].what


def test_dead_claims_are_released_and_live_ones_kept(copied):
    with subprocess.Popen([sys.executable, "-c", "pass"]) as process:
        process.wait()
        from provender.catalog import this_process

        me = this_process()
        copied.catalog.acquire("build/gone:1.0.0", Owner(me.host, process.pid, "1"), 3600)
    copied.catalog.acquire("build/far:1.0.0", Owner("elsewhere~00", 1, "1"), 3600)
    copied.catalog.acquire("build/late:1.0.0", Owner("elsewhere~00", 2, "1"), 0.01)
    time.sleep(0.05)
    found = examine(copied.settings, copied.catalog, copied.store, fix=True)
    dead = [each.where for each in found if each.kind == "dead_claim"]
    assert sorted(dead) == ["build/gone:1.0.0", "build/late:1.0.0"]
    assert copied.catalog.holder("build/far:1.0.0")
    assert not copied.catalog.holder("build/gone:1.0.0")


def test_on_an_object_store(notes, gcs_bucket, tmp_path):
    """A version on gs:// that was never finished, and shards that no stage knows."""
    store = Store.open(f"{gcs_bucket}/data")
    settings = replace(notes.settings, store=store.url, scratch=tmp_path / "scratch")
    catalog_file = tmp_path / "c.db"
    settings = replace(settings, catalog=f"sqlite:///{catalog_file}", home=tmp_path)
    settings = replace(settings, manual_dir=tmp_path / "manual")
    with Catalog.open(catalog_file) as catalog:
        run = catalog.begin_run("build", "notes", "", "1.0.0")
        catalog.record_stage(run, "notes", "", "register", "ab" * 16, state="failed")
        catalog.finish_run(run, "failed")
        store.write("datasets/notes/1.0.0/notes-train.tfrecord-00000-of-00001", b"x")
        store.write(f"building/shards/{'cd' * 16}/x", b"x")
        local = tmp_path / "scratch" / "building" / "shards" / ("ef" * 16)
        local.mkdir(parents=True)
        (local / "x").write_bytes(b"x")
        found = examine(settings, catalog, store)
        assert sorted(each.kind for each in found) == ["half_published", "leftover", "leftover"]
        assert all(each.fixed for each in examine(settings, catalog, store, fix=True))
        assert store.list("", recursive=True) == []
        assert not local.exists()
        assert examine(settings, catalog, store) == []


def test_work_in_a_store_of_two_catalogs_stays(copied, engine, tmp_path):
    """What another catalog is making looks like rubbish here: it is not in this one's records."""
    from provender.store.neighbours import FOLDER, announce
    from provender.upkeep.gc import collect

    building = Path(copied.store.path("building"))
    for kind in ("shards", "prepared"):
        (building / kind / ("cd" * 16)).mkdir(parents=True)
        (building / kind / ("cd" * 16) / "x").write_bytes(b"x")
    own = copied.catalog.identity()
    announce(copied.store, "ef" * 16, "sqlite:////elsewhere/catalog.db")
    for fix in (False, True):
        found = examine(copied.settings, copied.catalog, copied.store, fix=fix)
        [shared] = [each for each in found if each.kind != "changed_version"]
        assert shared.kind == "shared_store"
        assert "sqlite:////elsewhere/catalog.db" in shared.what
        assert FOLDER in shared.hint
        assert "ef" * 16 in shared.hint
        assert own not in shared.hint
        assert not shared.fixable
    report = collect(copied.settings, copied.catalog, copied.store, grace=timedelta(0))
    assert "another catalog" in report.left_alone
    assert not any("building" in each.where for each in report.items)
    assert (building / "shards" / ("cd" * 16) / "x").exists()

    (Path(copied.store.path(FOLDER)) / ("ef" * 16)).unlink()
    found = examine(copied.settings, copied.catalog, copied.store, fix=True)
    kinds = [each.kind for each in found if each.kind != "changed_version"]
    assert kinds == ["leftover"] * 2
    assert not (building / "shards" / ("cd" * 16)).exists()


def test_a_build_leaves_its_catalogs_name_once(notes, engine):
    from provender.store.neighbours import FOLDER, others

    [mark] = notes.store.list(FOLDER)
    assert mark.rel == f"{FOLDER}/{notes.catalog.identity()}"
    assert others(notes.store, notes.catalog.identity()) == {}
    assert others(notes.store, None) == {mark.rel: notes.catalog.url}
