"""A build killed anywhere: nobody sees half a version, and the next build goes on.

The building process and its workers are ended together by SIGKILL. Points in time are drawn from
the whole length of an undisturbed build; points of work are recognised by the files that appear.
"""

from __future__ import annotations

import contextlib
import random
import sqlite3
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
from tests.builders.download.flaky_http import FlakyServer, Served, serve
from tests.e2e import evidence
from tests.e2e.conftest import Project
from tests.e2e.processes import kill, start, wait_until

from provender.catalog import Catalog
from provender.records import RunWriter
from provender.settings import load_settings

BUILDER = """
import time
from pathlib import Path

import tensorflow_datasets as tfds

from provender.records import RunWriter

# Room for one chunk of examples, not for two: each part of train is then four runs.
RunWriter.__init__.__kwdefaults__["flush_bytes"] = 100 << 10

URL = "{url}"
REPLAYS = "{replays}"

class Lines(tfds.core.GeneratorBasedBuilder):
    VERSION = tfds.core.Version("1.0.0")

    def _info(self):
        return tfds.core.DatasetInfo(
            builder=self,
            description="lines",
            features=tfds.features.FeaturesDict(
                {{"text": tfds.features.Text(), "label": tfds.features.ClassLabel(num_classes=3)}}
            ),
        )

    def _split_generators(self, dl_manager):
        paths = dl_manager.download(
            {{"train": URL + "/train.txt", "test": URL + "/test.txt"}}
        )
        return {{name: self._generate_examples(path) for name, path in paths.items()}}

    def _generate_examples(self, path):
        with open(REPLAYS, "a") as log:
            log.write(Path(path).name + "\\n")
        with open(path, encoding="utf-8") as file:
            for number, line in enumerate(file):
                if number % 64 == 0:
                    time.sleep(0.01)
                yield number, {{"text": line.strip(), "label": number % 3}}
"""
SHARDS = 4
REF = "lines.py:Lines"
ARGS = ("build", REF, "--workers", "2", "--num-shards", str(SHARDS))


@dataclass(frozen=True)
class Ground:
    """Where builds are killed: one builder, its server, and what an undisturbed build gives."""

    project: Project
    replays: Path
    files: dict[str, str]
    seconds: float

    def fresh(self, name: str) -> Ground:
        """The same builder with an empty store, catalog and memory."""
        home = self.project.root / name
        settings = load_settings(
            store=str(home / "store"), cwd=self.project.root, environ={"HOME": str(home)}
        )
        self.replays.unlink(missing_ok=True)
        return replace(self, project=Project(self.project.root, settings))

    def log(self) -> Path:
        return Path(self.project.settings.store).parent / "build.log"


@pytest.fixture(scope="module")
def server() -> Iterator[FlakyServer]:
    with serve() as running:
        for name, count in (("train", 4000), ("test", 1000)):
            body = "".join(f"{name} line {i} {'x' * (i % 150)}\n" for i in range(count)).encode()
            running.files[f"/{name}.txt"] = Served(body, delay=0.01)
        yield running


@pytest.fixture(scope="module")
def ground(server: FlakyServer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ground]:
    """The ground, after one build that nobody disturbed."""
    root = tmp_path_factory.mktemp("kill")
    usual = dict(RunWriter.__init__.__kwdefaults__ or {})
    text = BUILDER.format(url=server.url, replays=root / "replays")
    bare = Ground(Project(root, None), root / "replays", {}, 0.0)  # type: ignore[arg-type]
    bare.project.write("lines.py", text)
    whole = bare.fresh("undisturbed")
    Path(whole.project.settings.store).parent.mkdir()
    began = time.monotonic()
    process = start(whole.project, *ARGS, log=whole.log())
    assert process.wait(120) == 0, whole.log().read_text()
    seconds = time.monotonic() - began
    [folder] = evidence.visible(whole.project)
    yield replace(whole, files=evidence.tree(folder), seconds=seconds)
    # The builder was also loaded in this process.
    RunWriter.__init__.__kwdefaults__ = usual  # type: ignore[misc]


def begin(ground: Ground, name: str) -> tuple[Ground, object]:
    here = ground.fresh(name)
    Path(here.project.settings.store).parent.mkdir()
    return here, start(here.project, *ARGS, log=here.log())


def finish(here: Ground, *, doctor_first: bool = False, workers: int = 1) -> tuple[str, ...]:
    """All that must hold after a kill; gives the stages that the next build ran."""
    project = here.project
    evidence.check_nothing_partial(project, here.files)
    if doctor_first:
        found = evidence.doctor(project)
        assert all(each.fixed for each in found if each.fixable), found
        evidence.check_nothing_partial(project, here.files)
    finished = evidence.succeeded(project)
    begun = set(Path(project.settings.store).glob("building/examples/*/parts-2"))
    whole_parts = sum(len(list(each.glob("part-0000[01]-of-00002.json"))) for each in begun)
    before = replays(here)

    built = project.build(REF, num_shards=SHARDS, workers=workers)

    assert built.outcome in ("succeeded", "cached")
    again = {
        step.key: step.reasons
        for step in built.plan.steps
        if step.fingerprint in finished and step.key in built.ran
    }
    assert again == {}, "what was finished is reused"
    after = evidence.succeeded(project)
    assert {each: after[each] for each in finished} == dict(finished)
    if begun and "examples/train" in built.ran and "examples/test" in built.ran and workers == 2:
        assert replays(here) - before == 4 - whole_parts, "a finished part is not replayed"
    [folder] = evidence.visible(project)
    assert evidence.tree(folder) == here.files
    with Catalog.open(project.settings.catalog) as catalog:
        assert [each.fingerprint for each in catalog.versions()] == [built.version.fingerprint]
    assert project.build(REF, num_shards=SHARDS).outcome == "cached"

    found = evidence.doctor(project)
    assert all(each.fixed for each in found), found
    assert evidence.doctor(project) == []
    assert evidence.unaccounted(project) == set()
    assert evidence.tree(folder) == here.files
    with Catalog.open(project.settings.catalog) as catalog:
        assert catalog.stages(state="running", limit=None) == []
        assert catalog.claims() == []
    return built.ran


def replays(here: Ground) -> int:
    return len(here.replays.read_text().splitlines()) if here.replays.exists() else 0


# -- points in time ---------------------------------------------------------------------------------


def points(count: int, seed: int) -> list[float]:
    """So many shares of a build's length, one drawn from each of so many equal slices."""
    draw = random.Random(seed)
    return [(i + draw.random()) / count for i in range(count)]


def killed_after(ground: Ground, share: float, name: str, **how: object) -> None:
    here, process = begin(ground, name)
    time.sleep(share * ground.seconds)
    kill(process)  # type: ignore[arg-type]
    finish(here, **how)  # type: ignore[arg-type]


@pytest.mark.parametrize("share", points(2, seed=7), ids=lambda share: f"{share:.0%}")
def test_killed_at_any_time(ground: Ground, share: float) -> None:
    killed_after(ground, share, f"at-{share:.4f}")


@pytest.mark.slow
@pytest.mark.parametrize("number", range(24))
def test_killed_at_any_time_many_times(ground: Ground, number: int) -> None:
    share = points(24, seed=1009)[number]
    how = {"doctor_first": number % 2 == 0, "workers": 1 + number % 3 % 2}
    killed_after(ground, share, f"many-{number}", **how)


@pytest.mark.slow
def test_killed_again_and_again_in_one_place(ground: Ground) -> None:
    """Eight builds in a row, each killed a little later than the one before."""
    here, process = begin(ground, "again")
    for share in points(8, seed=31):
        time.sleep(share * ground.seconds)
        kill(process)  # type: ignore[arg-type]
        evidence.check_nothing_partial(here.project, here.files)
        process = start(here.project, *ARGS, log=here.log())
    kill(process)
    finish(here)


# -- points of work -----------------------------------------------------------------------------------


def during_download(store: Path) -> bool:
    return any(each.stat().st_size > 50_000 for each in store.glob("objects/.incoming/*/*.part"))


def amid_examples(store: Path) -> bool:
    return len(list(store.glob("building/examples/*/parts-2/*.run-*.json"))) >= 3


def between_shards(store: Path) -> bool:
    return len(list(store.glob("building/shards/*/*.offsets"))) >= 2


def while_put_together(store: Path) -> bool:
    return any(store.glob("building/publish/*/*"))


@pytest.mark.parametrize("reached", [during_download, amid_examples, between_shards])
def test_killed_at_a_point_of_work(ground: Ground, reached: Callable[[Path], bool]) -> None:
    here, process = begin(ground, reached.__name__)
    wait_for(here, reached)
    kill(process)  # type: ignore[arg-type]
    store = Path(here.project.settings.store)
    assert evidence.visible(here.project) == []
    # A run is finished once its description is there.
    finished = [
        each.with_suffix(".rec") for each in store.glob("building/examples/*/*/*.run-*.json")
    ]
    runs = {path: path.stat().st_mtime_ns for path in finished}
    ran = finish(here, doctor_first=reached is between_shards)
    for path, written in runs.items():
        assert path.stat().st_mtime_ns == written, "a finished run is not written again"
    if reached is between_shards:
        assert {"download", "splits", "examples/train", "examples/test"}.isdisjoint(ran)
    if reached is amid_examples:
        assert {"download", "splits"}.isdisjoint(ran)
        assert len(runs) >= 3


def test_a_killed_download_goes_on_where_it_was(ground: Ground, server: FlakyServer) -> None:
    here, process = begin(ground, "resumed")
    wait_for(here, during_download)
    kill(process)  # type: ignore[arg-type]
    server.requests.clear()
    finish(here)
    ranges = [each.range for each in server.gets() if each.range]
    assert ranges, "the rest is asked for, not the whole"
    assert server.bytes_sent < sum(len(each.body) for each in server.files.values())


def test_killed_between_publishing_and_the_catalogs_commit(ground: Ground) -> None:
    """The catalog is kept from writing once the files are being put together."""
    for attempt in range(5):
        here, process = begin(ground, f"unregistered-{attempt}")
        wait_for(here, while_put_together, pause=0.0005)
        with locked(here.project.settings.catalog):
            published = published_within(here, 20.0)
            kill(process)  # type: ignore[arg-type]
        if published and not versions(here):
            break
    else:
        pytest.fail("the moment was missed each time")
    ran = finish(here)
    assert ran == ("register",)


def published_within(here: Ground, seconds: float) -> bool:
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        if evidence.visible(here.project):
            return True
        time.sleep(0.01)
    return False


def versions(here: Ground) -> list[object]:
    with Catalog.open(here.project.settings.catalog) as catalog:
        return list(catalog.versions())


@contextlib.contextmanager
def locked(url: str) -> Iterator[None]:
    """Holds the only write lock of a SQLite catalog."""
    connection = sqlite3.connect(url.removeprefix("sqlite:///"), isolation_level=None, timeout=30)
    try:
        connection.execute("BEGIN IMMEDIATE")
        yield
        connection.execute("ROLLBACK")
    finally:
        connection.close()


def wait_for(here: Ground, reached: Callable[[Path], bool], pause: float = 0.002) -> None:
    store = Path(here.project.settings.store)

    def there() -> bool:
        with contextlib.suppress(FileNotFoundError):
            return reached(store)
        return False

    wait_until(there, reached.__name__, pause=pause)
