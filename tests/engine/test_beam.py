"""Builders that generate with Apache Beam, against TFDS's own Beam writer."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from provender.catalog import Catalog
from provender.engine.build import Built, build
from provender.engine.session import Options, open_session
from provender.errors import (
    BuilderError,
    ConflictError,
    DuplicateKeyError,
    ExampleError,
    SettingsError,
    SplitError,
)
from provender.refs import DatasetRef
from provender.settings import Settings, load_settings

HERE = Path(__file__).parent
pytestmark = pytest.mark.slow

CASES = ("Dict:", "Dict:4", "Shared:3", "Legacy:2", "InOrder:5", "Images:3")


def project(folder: Path) -> Settings:
    folder.mkdir(exist_ok=True)
    shutil.copy(HERE / "beam_builders.py", folder)
    return load_settings(
        store=str(folder / "store"),
        catalog=f"sqlite:///{folder / 'catalog.db'}",
        cwd=folder,
        environ={"HOME": str(folder)},
    )


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    return project(tmp_path / "project")


def opened(settings: Settings, cls: str, catalog: Catalog, **options: Any) -> Any:
    file = Path(settings.store).parent / "beam_builders.py"
    ref = DatasetRef.parse(f"{file}:{cls}")
    return open_session(ref, settings, Options(engine="beam", **options), catalog=catalog)


@pytest.fixture
def made(settings: Settings, beam_python: str) -> Callable[..., Built]:
    def make(cls: str, **options: Any) -> Built:
        with Catalog.open(settings.catalog) as catalog:
            return build(opened(settings, cls, catalog, beam_python=beam_python, **options))

    return make


def files(folder: Path) -> dict[str, bytes]:
    return {each.name: each.read_bytes() for each in folder.iterdir() if each.is_file()}


@pytest.fixture(scope="session")
def golden(beam_python: str, tmp_path_factory: Any) -> Path:
    folder = tmp_path_factory.mktemp("golden")
    environment = {**os.environ, "PYTHONPATH": str(HERE), "HOME": str(folder)}
    subprocess.run(
        [beam_python, str(HERE / "beam_golden.py"), str(folder), *CASES],
        env=environment,
        check=True,
        capture_output=True,
    )
    return folder


@pytest.mark.parametrize("case", CASES)
def test_the_files_are_those_of_tfds(case: str, golden: Path, made: Callable[..., Built]) -> None:
    name, _, shards = case.partition(":")
    version = made(name, num_shards=int(shards) if shards else None).version
    theirs = next((golden / f"{name}-{shards or 'auto'}").glob("*/1.0.0"))
    assert files(Path(version.uri)) == files(theirs)


def test_ranges_that_hold_nothing_are_passed_over(made: Callable[..., Built]) -> None:
    version = made("InOrder", num_shards=5).version
    assert [each.shards for each in version.splits] == [2]
    assert readable(version.uri)


def readable(uri: str) -> bool:
    from provender.records import ShardReader

    shards = sorted(Path(uri).glob("*.tfrecord-*"))
    for each in shards:
        index = Path(uri) / ".provender" / "index" / f"{each.name}.offsets"
        with ShardReader(each, index) as reader:
            assert len(reader) and all(reader.read(i) for i in range(len(reader)))
    return bool(shards)


def test_a_rerun_with_nothing_to_do_needs_no_beam(
    settings: Settings, made: Callable[..., Built], beam_python: str
) -> None:
    first = made("Dict", num_shards=4)
    again = made("Dict")
    assert (again.outcome, again.version.id) == ("cached", first.version.id)
    left = [each for each in (Path(settings.store) / "building").rglob("*") if each.is_file()]
    assert left == []


def test_edited_code_runs_again_what_it_reaches(
    settings: Settings, made: Callable[..., Built], beam_python: str
) -> None:
    made("Dict")
    file = Path(settings.store).parent / "beam_builders.py"
    text = file.read_text()
    file.write_text(text.replace('f"row {i}"', 'f"line {i}"'))
    with pytest.raises(ConflictError, match="row"):
        made("Dict")
    # A helper of the module that no pipeline of this builder uses.
    file.write_text(text.replace("row 7 is bad", "row seven is bad"))
    assert made("Dict").outcome == "cached"


def test_a_damaged_shard_is_made_again(settings: Settings, made: Callable[..., Built]) -> None:
    version = made("Dict", num_shards=4).version
    before = files(Path(version.uri))
    victim = Path(version.uri) / "dict-train.tfrecord-00002-of-00004"
    victim.write_bytes(victim.read_bytes()[:-1] + b"?")
    again = made("Dict")
    assert "examples/train" in again.ran and "examples/test" not in again.ran
    assert files(Path(version.uri)) == before
    with Catalog.open(settings.catalog) as catalog:
        assert catalog.version_by_fingerprint(version.fingerprint) is not None


def test_worker_processes_of_beam_write_the_same(golden: Path, made: Callable[..., Built]) -> None:
    options = ("direct_running_mode=multi_processing", "direct_num_workers=2")
    version = made("Dict", num_shards=4, beam_option=options).version
    assert files(Path(version.uri)) == files(next((golden / "Dict-4").glob("*/1.0.0")))


def test_a_limit_keeps_the_first_of_the_order(made: Callable[..., Built]) -> None:
    whole = made("Dict", num_shards=1).version
    trial = made("Dict", num_shards=1, max_examples=30).version
    assert [each.examples for each in trial.splits] == [30, 30]
    name = "dict-train.tfrecord-00000-of-00001"
    some, every = ((Path(each.uri) / name).read_bytes() for each in (trial, whole))
    assert every.startswith(some)


@pytest.mark.parametrize(
    ("cls", "kind", "said"),
    [
        ("Twice", DuplicateKeyError, "row 1"),
        ("Broken", BuilderError, "ValueError: row 7 is bad"),
        ("Unfit", ExampleError, "n"),
        ("Plain", BuilderError, "Build it without --engine beam"),
        ("Empty", SplitError, "'none' has no examples"),
    ],
)
def test_bad_input(cls: str, kind: type, said: str, made: Callable[..., Built]) -> None:
    with pytest.raises(kind) as caught:
        made(cls)
    assert said in str(caught.value)


def test_an_error_in_a_worker_process_of_beam(made: Callable[..., Built]) -> None:
    options = ("direct_running_mode=multi_processing", "direct_num_workers=2")
    with pytest.raises(DuplicateKeyError, match="Two examples share a key"):
        made("Twice", beam_option=options)


def test_an_empty_split_that_is_allowed(made: Callable[..., Built]) -> None:
    version = made("Empty", allow_empty=True).version
    assert {each.name: each.examples for each in version.splits} == {"train": 3, "none": 0}


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"beam_runner": "WarpRunner"}, "WarpRunner"),
        ({"beam_option": ("direct_num_worker=2",)}, "Did you mean direct_num_workers"),
        ({"beam_option": ("direct_num_workers=two",)}, "does not take"),
        ({"beam_option": ("two",)}, "no option"),
    ],
)
def test_options_that_beam_has_not(
    options: dict[str, Any], said: str, made: Callable[..., Built]
) -> None:
    with pytest.raises(SettingsError) as caught:
        made("Dict", **options)
    assert said in str(caught.value)


def test_killed_midway_it_goes_on(settings: Settings, beam_python: str, tmp_path: Path) -> None:
    folder = Path(settings.store).parent
    command = [
        str(Path(sys.executable).with_name("provender")), "build", "beam_builders.py:Held",
        "--engine", "beam", "--beam-python", beam_python,
        "--store", settings.store, "--catalog", settings.catalog, "--json",
        "--beam-option", "direct_running_mode=multi_processing",
        "--beam-option", "direct_num_workers=2",
    ]  # fmt: skip
    environment = {**os.environ, "HELD_AT": str(tmp_path), "HOME": str(tmp_path)}
    deadline = time.monotonic() + 120
    with subprocess.Popen(command, cwd=folder, env=environment, stdout=subprocess.DEVNULL) as run:
        while not (waiting := list(tmp_path.glob("waits-*"))) and run.poll() is None:
            assert time.monotonic() < deadline
            time.sleep(0.05)
        run.send_signal(signal.SIGKILL)
    assert waiting, "the pipeline never came to its second split"
    store = Path(settings.store)
    assert not list(store.glob("datasets/**/dataset_info.json"))
    inside = int(waiting[0].name.removeprefix("waits-"))
    (tmp_path / "go").touch()
    while alive(inside) and time.monotonic() < deadline:
        time.sleep(0.1)
    assert not alive(inside), "a worker of Beam's outlives the build"
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, check=True)
    assert b'"examples/held"' in done.stdout and b'"outcome": "succeeded"' in done.stdout
    with Catalog.open(settings.catalog) as catalog:
        version = catalog.versions("held")[0]
        assert [each.examples for each in version.splits] == [100, 9]
        runs = catalog.last_stages("held", "")
        assert runs["examples/first"].run_id != runs["examples/held"].run_id


def alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False
