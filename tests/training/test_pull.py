"""A pulled version is the version, whatever happened on the way."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from provender.errors import ConflictError, DamageError, DiskFull
from provender.store import Store
from provender.training import pull
from provender.training.pulling import folder_of

SHARD = "notes-train.tfrecord-00001-of-00003"
MARKER = "dataset_info.json"


def tree(folder: Path) -> dict[str, bytes]:
    return {str(p.relative_to(folder)): p.read_bytes() for p in folder.rglob("*") if p.is_file()}


def test_a_pulled_version_is_the_version(notes, tmp_path):
    seen: list[tuple[int, int]] = []
    report = pull(
        notes.store, notes.version, tmp_path / "d", progress=lambda *each: seen.append(each)
    )
    here = tmp_path / "d" / "notes" / "1.0.0"
    assert report.dest == str(here)
    assert tree(tmp_path / "d") == {f"notes/1.0.0/{n}": d for n, d in tree(notes.path("")).items()}
    assert (report.files, report.skipped) == (len(tree(here)), 0)
    assert report.bytes == sum(len(data) for data in tree(here).values())
    assert seen[-1] == (report.bytes, report.bytes)
    assert [done for done, _ in seen] == sorted(done for done, _ in seen)
    json.dumps(report.to_json())


def test_pulling_again_copies_nothing(notes, tmp_path):
    first = pull(notes.store, notes.version, tmp_path, catalog=notes.catalog)
    before = {p: p.stat().st_mtime_ns for p in tmp_path.rglob("*") if p.is_file()}
    again = pull(notes.store, notes.version, tmp_path)
    assert (again.files, again.bytes, again.skipped) == (0, 0, first.files)
    assert {p: p.stat().st_mtime_ns for p in tmp_path.rglob("*") if p.is_file()} == before


def test_only_what_is_wrong_is_copied_again(notes, tmp_path, flip):
    pull(notes.store, notes.version, tmp_path)
    here = tmp_path / "notes" / "1.0.0"
    flip(here / SHARD, 20)
    (here / "features.json").unlink()
    report = pull(notes.store, notes.version, tmp_path)
    assert report.files == 3  # and the marker, which is taken away meanwhile
    assert tree(here) == tree(notes.path(""))
    flip(here / SHARD, 20)
    assert pull(notes.store, notes.version, tmp_path, verify=False).files == 0


def test_no_marker_while_files_are_missing(copied, tmp_path):
    pull(copied.store, copied.version, tmp_path)
    here = tmp_path / "notes" / "1.0.0"
    (here / SHARD).unlink()
    copied.path(SHARD).unlink()
    with pytest.raises(DamageError, match=f"{SHARD} of notes:1.0.0 is missing in the store"):
        pull(copied.store, copied.version, tmp_path)
    assert not (here / MARKER).exists()


def test_a_damaged_source_is_named_and_does_not_stay(copied, tmp_path, flip):
    flip(copied.path(SHARD), 20)
    with pytest.raises(DamageError, match="does not hold the bytes that were published") as caught:
        pull(copied.store, copied.version, tmp_path)
    assert caught.value.where == str(copied.path(SHARD))
    assert "provender verify notes:1.0.0" in str(caught.value.hint)
    here = tmp_path / "notes" / "1.0.0"
    assert not (here / SHARD).exists()
    assert not (here / MARKER).exists()


def test_a_truncated_source(copied, tmp_path):
    os.truncate(copied.path(SHARD), 100)
    with pytest.raises(DamageError, match="has 100 bytes"):
        pull(copied.store, copied.version, tmp_path, verify=False)


def test_a_damaged_manifest(copied, tmp_path, flip):
    flip(copied.path(".provender/manifest.json"), 9)
    with pytest.raises(DamageError, match="manifest"):
        pull(copied.store, copied.version, tmp_path)
    with pytest.raises(DamageError, match=r"manifest.json of notes:1.0.0 does not hold"):
        pull(copied.store, copied.version, tmp_path, catalog=copied.catalog)


def test_another_dataset_in_that_folder_stays(notes, tmp_path):
    here = tmp_path / "notes" / "1.0.0"
    here.mkdir(parents=True)
    (here / MARKER).write_text("{}")
    with pytest.raises(ConflictError, match="Another version lies where"):
        pull(notes.store, notes.version, tmp_path)
    assert tree(here) == {MARKER: b"{}"}


def test_no_room(notes, tmp_path, monkeypatch):
    from provender.store.local import LocalStore

    monkeypatch.setattr(LocalStore, "free_bytes", lambda self: 100)
    with pytest.raises(DiskFull, match=r"notes:1\.0\.0 needs .* bytes, 100 are free"):
        pull(notes.store, notes.version, tmp_path / "d")
    assert tree(tmp_path) == {}


def test_a_disk_that_fills_up_on_the_way(notes, tmp_path):
    """The kernel refuses to let any file grow beyond 1 kB: what a full disk does to a copy."""
    code = (
        "import resource,signal,sys,pickle; signal.signal(signal.SIGXFSZ, signal.SIG_IGN);"
        "resource.setrlimit(resource.RLIMIT_FSIZE,(1000,1000));"
        "from provender.training import pull; store,version=pickle.load(open(sys.argv[1],'rb'))\n"
        "try: pull(store,version,sys.argv[2])\n"
        "except Exception as e: print(type(e).__name__, e)"
    )
    import pickle

    (tmp_path / "x").write_bytes(pickle.dumps((notes.store, notes.version)))
    done = subprocess.run(
        [sys.executable, "-c", code, str(tmp_path / "x"), str(tmp_path / "d")],
        capture_output=True, text=True, timeout=60, check=True,
    )  # fmt: skip
    assert done.stdout.startswith(("DiskFull", "StoreError")), done.stdout + done.stderr
    assert "notes-" in done.stdout
    assert not list((tmp_path / "d").rglob(MARKER))
    assert not list((tmp_path / "d").rglob("*.part"))


def test_a_killed_pull_goes_on(notes, tmp_path):
    code = (
        "import sys,time,pickle; from provender.training import pull;"
        "from provender.store.local import LocalStore as L; real=L.fetch\n"
        "def slow(self, rel, *a, **k):\n"
        "    time.sleep(.05); out=real(self, rel, *a, **k); print(rel, flush=True); return out\n"
        "L.fetch=slow; store,version=pickle.load(open(sys.argv[1],'rb'));"
        "pull(store,version,sys.argv[2],workers=1)"
    )
    import pickle

    (tmp_path / "x").write_bytes(pickle.dumps((notes.store, notes.version)))
    with subprocess.Popen(
        [sys.executable, "-c", code, str(tmp_path / "x"), str(tmp_path / "d")],
        stdout=subprocess.PIPE,
    ) as process:
        assert process.stdout
        for _ in range(3):
            process.stdout.readline()
        process.send_signal(signal.SIGKILL)
    here = tmp_path / "d" / "notes" / "1.0.0"
    done = [name for name in tree(here) if ".part" not in name]
    assert 3 <= len(done) < len(tree(notes.path("")))
    assert MARKER not in done
    (here / ".0123.part").write_bytes(b"what the killed one was copying")
    report = pull(notes.store, notes.version, tmp_path / "d")
    assert report.skipped >= 3
    assert tree(tmp_path / "d") == {f"notes/1.0.0/{n}": d for n, d in tree(notes.path("")).items()}


def test_two_pulls_at_once(notes, tmp_path):
    code = (
        "import sys,pickle; from provender.training import pull;"
        "store,version=pickle.load(open(sys.argv[1],'rb')); print(pull(store,version,sys.argv[2]).files)"
    )
    import pickle

    (tmp_path / "x").write_bytes(pickle.dumps((notes.store, notes.version)))
    both = [
        subprocess.Popen(
            [sys.executable, "-c", code, str(tmp_path / "x"), str(tmp_path / "d")],
            stdout=subprocess.PIPE, text=True,
        )
        for _ in range(2)
    ]  # fmt: skip
    counts = sorted(int(each.communicate(timeout=60)[0]) for each in both)
    assert counts == [0, len(tree(notes.path("")))]


def test_between_a_local_store_and_gs(notes, gcs_bucket, tmp_path):
    """Up, across and down again; the last copy equals the first."""
    up = pull(notes.store, notes.version, f"{gcs_bucket}/up")
    assert up.dest == f"{gcs_bucket}/up/notes/1.0.0"
    remote = Store.open(f"{gcs_bucket}/up")
    there = replace(notes.version, path=folder_of(notes.version))
    across = pull(remote, there, f"{gcs_bucket}/across")
    assert across.files == up.files
    assert pull(remote, there, f"{gcs_bucket}/across").files == 0
    down = pull(Store.open(f"{gcs_bucket}/across"), there, tmp_path)
    assert down.files == up.files
    assert tree(tmp_path) == {f"notes/1.0.0/{n}": d for n, d in tree(notes.path("")).items()}
    data = bytearray(remote.read(f"notes/1.0.0/{SHARD}"))
    data[40] ^= 1
    remote.write(f"notes/1.0.0/{SHARD}", bytes(data))
    with pytest.raises(DamageError, match=SHARD):
        pull(remote, there, tmp_path / "again")


def test_a_config_takes_its_default_along(odd, tmp_path):
    report = pull(odd.store, odd.version, tmp_path)
    assert report.dest == str(tmp_path / "odd" / "plain" / "2.0.0")
    doc = json.loads((tmp_path / "odd" / ".config" / "metadata.json").read_text())
    assert doc == {"default_config_name": "plain"}
