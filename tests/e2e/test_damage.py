"""Files that are deleted, cut or changed: noticed, and that piece alone made again, byte for byte."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
from tests.e2e import evidence
from tests.e2e.conftest import Project, not_hit, reasons
from tests.store import gcs_server

from provender.catalog import Catalog
from provender.settings import load_settings
from provender.store import Store
from provender.upkeep import verify

SHARDS = 3
SHARD = "pairs-train.tfrecord-00001-of-00003"
INDEX = f".provender/index/{SHARD}.offsets"
BROKEN = "shards/train/00001"


@dataclass
class Built:
    """A published version whose files a test may break."""

    project: Project
    folder: Path
    files: dict[str, str]

    def path(self, name: str) -> Path:
        return self.folder / name

    def plan(self) -> set[str]:
        return not_hit(self.project.plan(num_shards=SHARDS))

    def mended(self) -> tuple[str, ...]:
        """Builds again; the version must stand as it was. Gives the stages that ran."""
        built = self.project.build(num_shards=SHARDS)
        assert evidence.tree(self.folder) == self.files
        with Catalog.open(self.project.settings.catalog) as catalog:
            [version] = catalog.versions()
            assert version.id == built.version.id
            assert verify(catalog, self.store, version).ok
        assert self.project.build(num_shards=SHARDS).outcome == "cached"
        return built.ran

    @property
    def store(self) -> Store:
        return Store.open(self.project.settings.store)

    def verified(self) -> dict[str, str]:
        """File -> what `provender verify` says of it, of those that are not well."""
        with Catalog.open(self.project.settings.catalog) as catalog:
            [version] = catalog.versions()
            report = verify(catalog, self.store, version)
        return {each.name: each.state for each in report.problems}


@pytest.fixture
def built(pairs: Project) -> Built:
    version = pairs.build(num_shards=SHARDS).version
    folder = Path(version.uri)
    return Built(pairs, folder, evidence.tree(folder))


def flip(path: Path, *, keep_times: bool = False) -> None:
    """Flips one bit, in place."""
    before = path.stat()
    path.chmod(0o644)
    with path.open("r+b") as file:
        file.seek(before.st_size // 2)
        [byte] = file.read(1)
        file.seek(before.st_size // 2)
        file.write(bytes([byte ^ 4]))
    if keep_times:
        os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))


def cut(path: Path) -> None:
    os.truncate(path, path.stat().st_size - 7)


@pytest.mark.parametrize("harm", [Path.unlink, cut, flip])
@pytest.mark.parametrize("name", [SHARD, INDEX])
def test_a_broken_shard_or_index_is_made_again_alone(
    built: Built, harm: Callable[[Path], None], name: str
) -> None:
    harm(built.path(name))
    plan = built.project.plan(num_shards=SHARDS)
    assert {step.key for step in plan.steps if step.state != "hit"} == {BROKEN, "register"}
    [text] = reasons(plan, BROKEN)
    assert name in text
    assert ("gone" in text) == (harm is Path.unlink)
    assert set(built.mended()) == {BROKEN, "register"}


@pytest.mark.parametrize(
    ("name", "harm"),
    [
        ("dataset_info.json", Path.unlink),
        ("dataset_info.json", flip),
        ("features.json", Path.unlink),
        ("features.json", cut),
        (".provender/manifest.json", flip),
    ],
)
def test_broken_metadata_is_written_again_alone(
    built: Built, name: str, harm: Callable[[Path], None]
) -> None:
    harm(built.path(name))
    assert built.plan() == {"register"}
    assert built.mended() == ("register",)


def test_a_flipped_bit_with_the_old_times_is_found_by_verify(built: Built) -> None:
    flip(built.path(SHARD), keep_times=True)
    assert built.plan() == set(), "nothing that a look at the file could tell"
    assert built.verified() == {SHARD: "damaged"}
    assert set(built.mended()) == {BROKEN, "register"}


def test_a_whole_version_that_is_gone_is_put_back(built: Built) -> None:
    shutil.rmtree(built.folder)
    assert built.plan() == {"shards/train", "shards/test", "register"}
    ran = built.mended()
    assert not {"download", "splits", "examples/train", "examples/test"} & set(ran)


def test_two_shards_of_two_splits(built: Built) -> None:
    cut(built.path(SHARD))
    built.path("pairs-test.tfrecord-00002-of-00003").unlink()
    assert set(built.mended()) == {BROKEN, "shards/test/00002", "register"}


def test_a_touched_or_copied_file_of_equal_content_is_no_damage(built: Built) -> None:
    os.utime(built.path(SHARD), (1, 1))
    spare = built.project.root / "spare"
    shutil.copy(built.path("features.json"), spare)
    spare.replace(built.path("features.json"))
    assert built.plan() == set()
    assert built.mended() == ()


def test_an_extra_file_in_the_version_is_told_and_left(built: Built) -> None:
    built.path("notes.txt").write_text("mine")
    assert built.plan() == set()
    assert built.verified() == {"notes.txt": "extra"}


# -- runs and downloads: memory that only matters where something is to be made from it --------------


def runs(project: Project, split: str) -> list[Path]:
    """The record files that a split's shards are cut from."""
    with Catalog.open(project.settings.catalog) as catalog:
        record = catalog.last_stage("pairs", "", f"examples/{split}")
    assert record is not None
    folder = Path(project.settings.store) / "building/examples" / record.fingerprint
    return sorted(folder.glob("*/*.rec"))


@pytest.mark.parametrize("harm", [Path.unlink, cut, flip])
def test_broken_runs_do_not_matter_to_a_whole_version(
    built: Built, harm: Callable[[Path], None]
) -> None:
    harm(runs(built.project, "train")[0])
    assert built.plan() == set()
    assert built.mended() == ()


@pytest.mark.parametrize("harm", [Path.unlink, cut])
def test_broken_runs_are_made_again_for_a_broken_shard(
    built: Built, harm: Callable[[Path], None]
) -> None:
    harm(runs(built.project, "train")[0])
    built.path(SHARD).unlink()
    assert built.plan() == {"examples/train", "shards/train", "register"}
    assert set(built.mended()) == {"examples/train", BROKEN, "register"}


def test_a_flipped_bit_in_a_run_never_reaches_a_shard(built: Built) -> None:
    """Nothing on the way reads the whole run before, so the shard's writer must notice."""
    flip(runs(built.project, "train")[0])
    for shard in range(SHARDS):
        built.path(f"pairs-train.tfrecord-{shard:05d}-of-00003").unlink()
    assert "register" in built.mended()


def test_runs_of_no_use_are_made_from_downloads_and_those_from_upstream(built: Built) -> None:
    project = built.project
    store = Path(project.settings.store)
    shutil.rmtree(store / "building")
    shutil.rmtree(store / "objects")
    assert built.plan() == set()
    built.path(SHARD).unlink()
    ran = built.mended()
    assert set(ran) == {"download", "splits", "examples/train", BROKEN, "register"}


def test_a_download_that_is_gone_is_fetched_again_only_where_it_is_read(built: Built) -> None:
    store = Path(built.project.settings.store)
    shutil.rmtree(store / "objects")
    built.path(SHARD).unlink()
    assert set(built.mended()) == {BROKEN, "register"}, "the runs are there"
    assert not list(store.glob("objects/*/*/train.txt"))


def test_a_download_that_was_changed_is_never_read(pairs: Project) -> None:
    first = pairs.build(trial=True)
    [download] = Path(pairs.settings.store).glob("objects/*/*/train.txt")
    whole = download.read_bytes()
    flip(download)
    pairs.edit("helping.py", "LIMIT = 40", "LIMIT = 39")
    second = pairs.build(trial=True)
    assert download.read_bytes() == whole
    pairs.edit("helping.py", "LIMIT = 39", "LIMIT = 40")
    third = pairs.build(trial=True)
    assert third.version.fingerprint == first.version.fingerprint == second.version.fingerprint


def test_a_manifest_names_the_bytes_that_lie_there(built: Built) -> None:
    manifest = json.loads(built.path(".provender/manifest.json").read_text())
    said = {each["name"]: each["sha256"] for each in manifest["splits"]["train"]}
    assert said[SHARD] == built.files[SHARD]


# -- an object store ----------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def server() -> Iterator[Any]:
    with gcs_server.start() as running:
        yield running


@pytest.fixture
def remote(pairs: Project, server: Any, monkeypatch: pytest.MonkeyPatch) -> Project:
    """The project with its store in a bucket."""
    for name, value in server.env().items():
        monkeypatch.setenv(name, value)
    home = {"HOME": str(pairs.root / "remote")}
    settings = load_settings(store=f"{server.bucket()}/feeds", cwd=pairs.root, environ=home)
    return replace(pairs, settings=settings)


def objects(store: Store, folder: str) -> dict[str, bytes]:
    return {e.rel: store.read(e.rel) for e in store.list(folder, recursive=True) if not e.is_dir}


@pytest.mark.parametrize("harm", ["deleted", "overwritten", "overwritten with equal bytes"])
def test_an_objects_generation_tells(remote: Project, harm: str) -> None:
    version = remote.build(num_shards=SHARDS).version
    store = Store.open(remote.settings.store)
    files = objects(store, version.path)
    rel = f"{version.path}/{SHARD}"
    if harm == "deleted":
        store.remove(rel)
    elif harm == "overwritten":
        data = bytearray(files[rel])
        data[len(data) // 2] ^= 4
        store.write(rel, bytes(data))
    else:
        store.write(rel, files[rel])
    equal = harm.endswith("equal bytes")
    built = remote.build(num_shards=SHARDS)
    assert set(built.ran) == (set() if equal else {BROKEN, "register"})
    assert objects(store, version.path) == files
    assert remote.build(num_shards=SHARDS).outcome == "cached"
    with Catalog.open(remote.settings.catalog) as catalog:
        [again] = catalog.versions()
        assert again.id == version.id
        assert verify(catalog, store, again).ok


def test_lost_metadata_of_an_object_store(remote: Project) -> None:
    version = remote.build(num_shards=SHARDS).version
    store = Store.open(remote.settings.store)
    files = objects(store, version.path)
    for name in ("dataset_info.json", "features.json", INDEX):
        store.remove(f"{version.path}/{name}")
    assert set(remote.build(num_shards=SHARDS).ran) == {BROKEN, "register"}
    assert objects(store, version.path) == files


def test_lost_downloads_and_scratch_of_an_object_store(remote: Project) -> None:
    """Each machine may lose its scratch; the bucket's copy serves, and then upstream."""
    remote.build(trial=True)
    store = Store.open(remote.settings.store)
    shutil.rmtree(remote.settings.scratch)
    remote.edit("helping.py", "line.strip()", "line.strip().upper()")
    built = remote.build(trial=True)
    assert {"download", "splits"}.isdisjoint(built.ran)
    shutil.rmtree(remote.settings.scratch)
    for entry in store.list("objects", recursive=True):
        if entry.name.endswith(".txt"):
            store.remove(entry.rel)
    remote.edit("helping.py", ".upper()", ".lower()")
    built = remote.build(trial=True)
    assert "download" in built.ran
    assert "splits" not in built.ran
