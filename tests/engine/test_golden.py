"""Published versions, byte for byte against TFDS's own `download_and_prepare`.

TFDS is patched to serialize deterministically: its own call leaves the order of map entries to
protobuf, which orders them anew in each process.
"""

from __future__ import annotations

import functools
import http.server
import io
import os
import signal
import subprocess
import sys
import tarfile
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

import provender
from provender.builders.load import load_class
from provender.engine.build import Built, build
from provender.engine.session import Options, open_session
from provender.refs import DatasetRef
from provender.settings import Settings, load_settings

FILE = Path(__file__).with_name("golden_builders.py")
SIDECAR = ".provender"


@dataclass(frozen=True)
class Case:
    """A builder class, and with what it is built.

    Attributes:
        cls: class name in golden_builders.
        config: config name.
        num_shards: shards a split, or None for the TFDS policy.
        splits: split name -> number of shards that must come out.
    """

    cls: str
    splits: dict[str, int]
    config: str | None = None
    num_shards: int | None = None

    def __str__(self) -> str:
        return "-".join(str(each) for each in (self.cls, self.config, self.num_shards) if each)


TEXT = Case("GoldenText", {"train": 1, "test": 1})
SHARDS = Case("GoldenText", {"train": 7, "test": 7}, num_shards=7)
NESTED = Case("GoldenNested", {"train": 1})
IN_ORDER = Case("GoldenInOrder", {"numbered": 3, "named": 3}, num_shards=3)
METHODS = Case("GoldenMethods", {"method": 1, "function": 1, "list": 1})
ARCHIVE = Case("GoldenArchive", {"streamed": 1, "unpacked": 1})
LONG = Case("GoldenConfigs", {"train": 1}, config="long")
SHARDED = Case("GoldenSharded", {"train": 3, "test": 1})
OPAQUE = Case("GoldenOpaque", {"train": 1})
HELD = Case("GoldenHeld", {"train": 2})

CASES = [
    TEXT,
    SHARDS,
    NESTED,
    Case("GoldenNested", {"train": 16}, num_shards=16),
    Case("GoldenImages", {"train": 2}, num_shards=2),
    Case("GoldenInOrder", {"numbered": 1, "named": 1}),
    IN_ORDER,
    Case("GoldenKeys", {"integers": 1, "text": 1, "bytes": 1, "numpy": 1}),
    LONG,
    Case("GoldenConfigs", {"train": 1}, config="short"),
    Case("GoldenLegacy", {"train": 1, "extra": 1}),
    METHODS,
    ARCHIVE,
    SHARDED,
    OPAQUE,
]


@pytest.fixture(scope="module")
def tfds(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """tensorflow_datasets, serializing with ``deterministic=True``, and the builders' archive."""
    import tensorflow_datasets
    from tensorflow_datasets.core import example_serializer

    tensorflow_datasets.disable_progress_bar()
    folder = tmp_path_factory.mktemp("web")
    with tarfile.open(folder / "texts.tar.gz", "w:gz") as tar:
        for i in range(700):
            data = f"text {i} é".encode() * (i % 9)
            member = tarfile.TarInfo(f"texts/{i}.txt")
            member.size = len(data)
            tar.addfile(member, io.BytesIO(data))
    with pytest.MonkeyPatch.context() as patch, _served(folder) as url:
        patch.setattr(
            example_serializer.ExampleSerializer,
            "serialize_example",
            lambda self, example: self.get_tf_example(example).SerializeToString(
                deterministic=True
            ),
        )
        patch.setenv("GOLDEN_ARCHIVE_URL", f"{url}/texts.tar.gz")
        patch.setenv("NO_PROXY", "127.0.0.1")
        yield tensorflow_datasets


class _Quiet(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *args: Any) -> None:
        """Says nothing."""


class _served:
    """Serves a folder over HTTP; gives its URL."""

    def __init__(self, folder: Path) -> None:
        handler = functools.partial(_Quiet, directory=str(folder))
        self._server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
        self._thread = threading.Thread(target=self._server.serve_forever)

    def __enter__(self) -> str:
        self._thread.start()
        return f"http://127.0.0.1:{self._server.server_port}"

    def __exit__(self, *exc: object) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


@pytest.fixture(scope="module")
def reference(tfds: Any, tmp_path_factory: pytest.TempPathFactory) -> Callable[[Case], Path]:
    """TFDS's own version of a case: its folder. Each is made once."""

    @functools.cache
    def make(cls: str, config: str | None, num_shards: int | None) -> Path:
        builder = load_class(f"{FILE}:{cls}")(
            data_dir=tmp_path_factory.mktemp("tfds"), config=config
        )
        builder.download_and_prepare(
            download_config=tfds.download.DownloadConfig(num_shards=num_shards)
        )
        return Path(builder.data_dir)

    return lambda case: make(case.cls, case.config, case.num_shards)


@pytest.fixture(scope="module")
def settings(tfds: Any, tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Settings]:
    """Settings of a store and catalog of their own for each name."""

    @functools.cache
    def make(name: str) -> Settings:
        home = tmp_path_factory.mktemp(f"home-{name}")
        return load_settings(store=str(home / "store"), cwd=home, environ={"HOME": str(home)})

    return make


def run(case: Case, settings: Settings, workers: int) -> Built:
    ref = DatasetRef.parse(f"{FILE}:{case.cls}").with_(config=case.config)
    options = Options(workers=workers, num_shards=case.num_shards)
    return build(open_session(ref, settings, options))


@pytest.fixture(scope="module")
def built(settings: Callable[[str], Settings]) -> Callable[[Case], Built]:
    """A case built in this process; each is built once."""

    @functools.cache
    def make(case: str) -> Built:
        wanted = next(each for each in CASES if str(each) == case)
        return run(wanted, settings("shards" if wanted.num_shards else "alone"), workers=1)

    return lambda case: make(str(case))


def contents(folder: Path) -> dict[str, bytes]:
    """Relative name -> bytes of every file that TFDS knows of."""
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file() and path.relative_to(folder).parts[0] != SIDECAR
    }


def assert_same(made: Path, reference: Path, case: Case) -> None:
    ours, theirs = contents(made), contents(reference)
    assert sorted(ours) == sorted(theirs)
    assert [name for name in ours if ours[name] != theirs[name]] == []
    shards = {split: sum(f"-{split}.tfrecord-" in name for name in ours) for split in case.splits}
    assert shards == case.splits
    assert made.name == reference.name


@pytest.mark.parametrize("case", CASES, ids=str)
def test_a_version_is_what_tfds_writes(
    case: Case, built: Callable[[Case], Built], reference: Callable[[Case], Path]
) -> None:
    assert_same(Path(built(case).version.uri), reference(case), case)


@pytest.mark.parametrize(
    ("case", "workers"),
    [(TEXT, 2), (ARCHIVE, 2), (METHODS, 2), (SHARDED, 2), (SHARDS, 4), (IN_ORDER, 4)],
    ids=str,
)
def test_the_number_of_workers_changes_nothing(
    case: Case,
    workers: int,
    settings: Callable[[str], Settings],
    reference: Callable[[Case], Path],
) -> None:
    done = run(case, settings(f"workers-{workers}"), workers)
    assert_same(Path(done.version.uri), reference(case), case)


def test_the_number_of_workers_is_no_reason_to_run_again(
    built: Callable[[Case], Built], settings: Callable[[str], Settings]
) -> None:
    first = built(TEXT)
    again = run(TEXT, settings("alone"), workers=4)
    assert (again.outcome, again.ran) == ("cached", ())
    assert again.version.id == first.version.id


def test_the_default_config_is_named_as_tfds_names_it(
    built: Callable[[Case], Built], reference: Callable[[Case], Path]
) -> None:
    made = Path(built(LONG).version.uri).parents[1] / ".config/metadata.json"
    assert made.read_bytes() == (reference(LONG).parents[1] / ".config/metadata.json").read_bytes()


KILLED = """
import sys
from provender.engine.build import build
from provender.engine.session import Options, open_session
from provender.refs import DatasetRef
from provender.settings import load_settings

home, ref = sys.argv[1:]
settings = load_settings(store=f"{home}/store", cwd=home, environ={"HOME": home})
build(open_session(DatasetRef.parse(ref), settings, Options(workers=2)))
"""


def test_a_killed_build_goes_on_and_gives_the_same_bytes(
    tmp_path: Path, reference: Callable[[Case], Path]
) -> None:
    hold = tmp_path / "hold"
    hold.touch()
    process = subprocess.Popen(
        [sys.executable, "-c", KILLED, str(tmp_path), f"{FILE}:{HELD.cls}"],
        env={**os.environ, "GOLDEN_HOLD": str(hold)},
        start_new_session=True,
    )
    building = tmp_path / "store/building"
    try:
        # Five of the six chunks of 512 are larger than half a run, so each is a run on disk.
        finished = _when(lambda: _runs(building), lambda runs: len(runs) == 5, process)
    finally:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
    assert not (tmp_path / "store/datasets").exists()
    hold.unlink()

    environ = {"HOME": str(tmp_path)}
    settings = load_settings(store=str(tmp_path / "store"), cwd=tmp_path, environ=environ)
    done = run(HELD, settings, workers=1)

    assert_same(Path(done.version.uri), reference(HELD), HELD)
    assert "download" not in done.ran
    after = _runs(building)
    assert {name: after[name] for name in finished} == finished
    assert len(after) == 6


def _runs(building: Path) -> dict[str, tuple[int, int]]:
    """Finished runs: name -> inode and time of writing of their records."""
    found = {}
    for path in building.glob("examples/*/*/*.run-*.json"):
        stat = path.stat()
        found[path.name] = (stat.st_ino, stat.st_mtime_ns)
    return found


def _when(
    look: Callable[[], Any], is_it: Callable[[Any], bool], process: subprocess.Popen[bytes]
) -> Any:
    deadline = time.monotonic() + 120
    while time.monotonic() < deadline:
        assert process.poll() is None, f"the build ended with {process.returncode}"
        if is_it(found := look()):
            return found
        time.sleep(0.05)
    raise AssertionError(f"not in time: {look()}")


@pytest.mark.parametrize("case", CASES, ids=str)
def test_tfds_reads_a_version_with_nothing_but_its_folder(
    case: Case, built: Callable[[Case], Built], reference: Callable[[Case], Path], tfds: Any
) -> None:
    version = built(case).version
    ours = tfds.builder_from_directory(version.uri)
    theirs = tfds.builder_from_directory(str(reference(case)))
    assert list(ours.info.splits) == list(case.splits)
    for split in case.splits:
        sizes = {name: each.examples for name, each in ((s.name, s) for s in version.splits)}
        assert ours.info.splits[split].num_examples == sizes[split]
        assert _first(tfds, ours, split) == _first(tfds, theirs, split)


def _first(tfds: Any, builder: Any, split: str) -> str:
    rows = list(tfds.as_numpy(builder.as_dataset(split=f"{split}[:3]")))
    assert rows
    return repr(rows)


@pytest.mark.parametrize("case", [TEXT, LONG, SHARDED, OPAQUE], ids=str)
def test_tfds_load_finds_versions_in_the_store(
    case: Case, built: Callable[[Case], Built], settings: Callable[[str], Settings], tfds: Any
) -> None:
    version = built(case).version
    name = "/".join(filter(None, (version.dataset, version.config, version.version)))
    data, info = tfds.load(
        name.replace(f"/{version.version}", f":{version.version}"),
        data_dir=f"{settings('alone').store}/datasets",
        split="train",
        with_info=True,
        download=False,
    )
    assert sum(1 for _ in data) == info.splits["train"].num_examples


def test_the_three_lines_of_tfds_work(
    settings: Callable[[str], Settings], reference: Callable[[Case], Path], tfds: Any
) -> None:
    builder = provender.builder(f"{FILE}:GoldenLegacy", settings=settings("three-lines"))
    builder.download_and_prepare(workers=1)
    data = builder.as_dataset(split="extra")

    assert [row["text"] for row in tfds.as_numpy(data)] == [b"x"] * 3
    assert builder.info.splits["train"].num_examples == 900
    assert builder.name == "golden_legacy"
    assert contents(Path(builder.data_dir)) == contents(
        reference(next(case for case in CASES if case.cls == "GoldenLegacy"))
    )


def test_a_builder_that_is_not_prepared_says_so_as_tfds_does(
    settings: Callable[[str], Settings],
) -> None:
    builder = provender.builder(f"{FILE}:GoldenText", settings=settings("unprepared"))
    assert builder.info.features["label"].names == ["no", "yes", "maybe"]
    with pytest.raises(AssertionError, match="download_and_prepare"):
        builder.as_dataset(split="train")
