"""The whole journey with bytes in a bucket and facts in PostgreSQL."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
from tests.builders.download.flaky_http import FlakyServer, Served, serve
from tests.catalog import pg_server
from tests.e2e.conftest import BUILDER, HELPER, Project
from tests.e2e.processes import command, kill, start
from tests.store import fault_proxy, gcs_server

from provender.catalog import Catalog
from provender.engine.build import Built
from provender.errors import ConflictError
from provender.settings import load_settings
from provender.store import Store
from provender.training import pull
from provender.upkeep import examine, verify

ODD = "a b #1 %41 =x [ab] * naïve"
REF = "pairs.py:Pairs"

READ = """
import json, sys
import tensorflow_datasets as tfds

found = {}
for split in ("train", "test"):
    data = tfds.load("pairs:1.0.0", split=split, data_dir=sys.argv[1])
    found[split] = [(e["text"].decode(), int(e["label"])) for e in data.as_numpy_iterator()]
print(json.dumps(found))
"""


@dataclass
class Remote:
    """A project whose store is a bucket and whose catalog is a PostgreSQL database."""

    project: Project
    upstream: FlakyServer
    built: Built

    @property
    def store(self) -> Store:
        return Store.open(self.project.settings.store)

    def files(self, folder: str) -> dict[str, bytes]:
        """Relative path -> bytes of every object below a folder."""
        listed = [e.rel for e in self.store.list(folder, recursive=True) if not e.is_dir]
        return {rel.removeprefix(f"{folder}/"): self.store.read(rel) for rel in listed}


@pytest.fixture(scope="module")
def gcs() -> Iterator[Any]:
    with gcs_server.start() as server:
        patch = pytest.MonkeyPatch()
        for name, value in server.env().items():
            patch.setenv(name, value)
        yield server
        patch.undo()


@pytest.fixture(scope="module")
def database() -> Iterator[Any]:
    with pg_server.start() as server:
        yield server


@pytest.fixture(scope="module")
def upstream() -> Iterator[FlakyServer]:
    with serve() as running:
        for name in ("train", "test"):
            body = "".join(f"{name} line {i}\n" for i in range(50)).encode()
            running.files[f"/{name}.txt"] = Served(body)
        yield running


def settled(root: Path, url: str, store: str, catalog: str) -> Project:
    """A project with the builder `Pairs`, its inputs upstream."""
    text = BUILDER
    for name in ("train", "test"):
        text = text.replace(f"{name.upper()}_URL", repr(f"{url}/{name}.txt"))
    environ = {"HOME": str(root / ODD)}
    project = Project(root, load_settings(store=store, catalog=catalog, cwd=root, environ=environ))
    project.write("pairs.py", text)
    project.write("helping.py", HELPER)
    return project


@pytest.fixture(scope="module")
def remote(
    gcs: Any, database: Any, upstream: FlakyServer, tmp_path_factory: pytest.TempPathFactory
) -> Remote:
    """A version built by two workers, in a bucket's folder of a difficult name."""
    root = tmp_path_factory.mktemp("remote")
    store = f"{gcs.bucket()}/{ODD}"
    project = settled(root, upstream.url, store, database.new_database())
    built = project.build(REF, workers=2, num_shards=3)
    return Remote(project, upstream, built)


def test_the_bucket_holds_what_a_folder_would(remote: Remote, tmp_path: Path) -> None:
    assert remote.built.outcome == "succeeded"
    local = settled(tmp_path, remote.upstream.url, str(tmp_path / "store"), str(tmp_path / "c.db"))
    version = local.build(REF, num_shards=3).version
    assert version.fingerprint == remote.built.version.fingerprint
    there = remote.files(remote.built.version.path)
    here = {
        str(path.relative_to(version.uri)): path.read_bytes()
        for path in Path(version.uri).rglob("*")
        if path.is_file()
    }
    assert there == here
    with Catalog.open(remote.project.settings.catalog) as catalog:
        assert verify(catalog, remote.store, remote.built.version).ok


def test_nothing_unfinished_is_left(remote: Remote) -> None:
    tops = {e.rel.split("/")[0] for e in remote.store.list("", recursive=True)}
    assert tops == {"datasets", "objects", ".catalogs"}, "nothing under building/"
    with Catalog.open(remote.project.settings.catalog) as catalog:
        settings = remote.project.settings
        settings.manual_dir.mkdir(parents=True, exist_ok=True)
        assert examine(settings, catalog, remote.store, fix=True) == []


def test_second_build_fetches_nothing(remote: Remote) -> None:
    remote.upstream.requests.clear()
    built = remote.project.build(REF, workers=2, num_shards=3)
    assert built.outcome == "cached"
    assert built.version.id == remote.built.version.id
    assert remote.upstream.gets() == []


def test_another_machine_with_an_empty_home_finds_all_ready(remote: Remote, tmp_path: Path) -> None:
    environ = {"HOME": str(tmp_path)}
    settings = load_settings(
        store=remote.project.settings.store,
        catalog=remote.project.settings.catalog,
        cwd=remote.project.root,
        environ=environ,
    )
    elsewhere = replace(remote.project, settings=settings)
    assert elsewhere.build(REF, num_shards=3).outcome == "cached"
    assert not settings.scratch.exists(), "nothing was brought here"
    # Runs stay where they were made, so there the split is made again, from the bucket's objects.
    remote.upstream.requests.clear()
    built = elsewhere.build(REF, num_shards=4, trial=True, workers=2)
    assert {"download", "splits"}.isdisjoint(built.ran)
    assert {"examples/train", "examples/test", "shards/train/00003"} <= set(built.ran)
    assert remote.upstream.gets() == []


def test_another_number_of_shards_is_a_trial_apart(remote: Remote) -> None:
    with pytest.raises(ConflictError):
        remote.project.build(REF, num_shards=5)
    before = remote.files(remote.built.version.path)
    built = remote.project.build(REF, num_shards=5, trial=True, workers=2)
    assert [each.shards for each in built.version.splits] == [5, 5]
    assert built.version.path.startswith("trials/")
    assert remote.files(remote.built.version.path) == before
    assert remote.project.build(REF, num_shards=5, trial=True).outcome == "cached"
    # A trial takes the place of the one before.
    again = remote.project.build(REF, num_shards=2, trial=True)
    assert len([n for n in remote.files(again.version.path) if ".tfrecord-" in n]) == 8
    with Catalog.open(remote.project.settings.catalog) as catalog:
        trials = [each for each in catalog.versions("pairs") if each.status == "trial"]
    assert [each.id for each in trials] == [again.version.id]


def test_pulled_and_read_by_tfds(remote: Remote, tmp_path: Path) -> None:
    dest = tmp_path / "pulled"
    with Catalog.open(remote.project.settings.catalog) as catalog:
        report = pull(remote.store, remote.built.version, dest, catalog=catalog)
    assert Path(report.dest) == dest / "pairs" / "1.0.0"
    done = subprocess.run(
        [sys.executable, "-c", READ, str(dest)],
        capture_output=True, text=True, timeout=200, check=False,
        env={**os.environ, "TF_CPP_MIN_LOG_LEVEL": "3", "CUDA_VISIBLE_DEVICES": ""},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-3000:]
    found = json.loads(done.stdout.splitlines()[-1])
    for split in ("train", "test"):
        wanted = sorted([f"{split} line {i}", i % 3] for i in range(50))
        assert sorted(found[split]) == wanted


def test_the_command_line_journey(remote: Remote, tmp_path: Path) -> None:
    project = remote.project
    doc = json.loads(
        command(project, "--json", "build", REF, "--num-shards", "3", "--workers", "2").stdout
    )
    assert doc["outcome"] == "cached"
    assert ODD in doc["path"]
    command(project, "verify", "pairs:1.0.0")
    command(project, "pull", "pairs:1.0.0", str(tmp_path / ODD))
    assert (tmp_path / ODD / "pairs/1.0.0/dataset_info.json").is_file()
    assert "train line" in command(project, "head", "pairs:1.0.0", "-n", "2").stdout


@pytest.mark.slow
def test_a_provider_that_refuses_and_cuts_now_and_then(
    gcs: Any, database: Any, upstream: FlakyServer, remote: Remote, tmp_path: Path
) -> None:
    with fault_proxy.start(gcs.endpoint) as proxy:
        store = f"{gcs.bucket()}/{ODD}"
        project = settled(tmp_path, upstream.url, store, database.new_database())
        proxy.faults += [
            fault_proxy.Fault("status", "^POST .*/upload/", times=3),
            fault_proxy.Fault("status", "^GET ", times=4),
            fault_proxy.Fault("status", "^POST .*(rewriteTo|copyTo|compose)", times=2, status=429),
            fault_proxy.Fault("lost answer", "^POST .*/upload/", times=2),
            fault_proxy.Fault("cut answer", "^GET .*alt=media", times=1),
        ]
        args = ("--json", "build", REF, "--num-shards", "3", "--workers", "2")
        host = {"STORAGE_EMULATOR_HOST": proxy.endpoint}
        doc = json.loads(command(project, *args, **host).stdout)
        assert doc["outcome"] == "succeeded"
        assert sum(fault.times for fault in proxy.faults) <= 1, proxy.faults
        again = json.loads(command(project, *args, **host).stdout)
        assert again["outcome"] == "cached"
    disturbed = replace(remote, project=project)
    assert disturbed.files("datasets/pairs/1.0.0") == remote.files(remote.built.version.path)


def test_a_killed_build_in_a_bucket_shows_nothing_and_goes_on(
    gcs: Any, database: Any, upstream: FlakyServer, remote: Remote, tmp_path: Path
) -> None:
    """Killed at the moment when it asks for the marker to be created."""
    store = f"{gcs.bucket()}/{ODD}"
    project = settled(tmp_path, upstream.url, store, database.new_database())
    with fault_proxy.start(gcs.endpoint) as proxy:
        process: list[subprocess.Popen[bytes]] = []

        def fatal(line: str) -> None:
            if line.startswith("POST") and "ifGenerationMatch=0" in line and process:
                kill(process[0])

        proxy.before = fatal
        proxy.faults += [fault_proxy.Fault("status", "ifGenerationMatch=0", times=1000)]
        # The child inherits this process's environment, which must name the proxy meanwhile.
        direct = os.environ["STORAGE_EMULATOR_HOST"]
        os.environ["STORAGE_EMULATOR_HOST"] = proxy.endpoint
        try:
            args = ("build", REF, "--num-shards", "3", "--workers", "2")
            process.append(start(project, *args, log=tmp_path / "log"))
        finally:
            os.environ["STORAGE_EMULATOR_HOST"] = direct
        assert process[0].wait(120) == -9, (tmp_path / "log").read_text()
        proxy.settle()
    half = replace(remote, project=project)
    there = half.files("datasets/pairs/1.0.0")
    assert "dataset_info.json" not in there
    with Catalog.open(project.settings.catalog) as catalog:
        assert catalog.versions() == []
    built = project.build(REF, num_shards=3)
    assert built.ran == ("register",)
    assert half.files("datasets/pairs/1.0.0") == remote.files(remote.built.version.path)
    with Catalog.open(project.settings.catalog) as catalog:
        project.settings.manual_dir.mkdir(parents=True, exist_ok=True)
        examine(project.settings, catalog, half.store, fix=True)
        assert examine(project.settings, catalog, half.store) == []
    assert {e.rel.split("/")[0] for e in half.store.list("", recursive=True)} == {
        "datasets", "objects", ".catalogs",
    }  # fmt: skip
