"""Many processes that want one version: one builds it, the others wait and take it."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest
from tests.catalog import pg_server
from tests.e2e import evidence
from tests.e2e.conftest import Project
from tests.e2e.processes import Builder, builders, kill, wait_until

from provender.catalog import Catalog

GATED = '''
import pathlib
import time

import tensorflow_datasets as tfds

GATE = pathlib.Path("{gate}")

class Gated(tfds.core.GeneratorBasedBuilder):
    """Examples come only once the gate is open."""

    VERSION = tfds.core.Version("1.0.0")

    def _info(self):
        return tfds.core.DatasetInfo(
            builder=self,
            description="gated",
            features=tfds.features.FeaturesDict({{"text": tfds.features.Text()}}),
        )

    def _split_generators(self, dl_manager):
        return {{"train": self._generate_examples(300), "test": self._generate_examples(20)}}

    def _generate_examples(self, count):
        while not GATE.exists():
            time.sleep(0.02)
        for i in range(count):
            yield i, {{"text": f"line {{i}}"}}
'''
REF = "gated.py:Gated"
STAGES = {"download", "splits", "examples/train", "examples/test", "register"} | {
    f"shards/{split}/{i:05d}" for split in ("train", "test") for i in range(2)
}


@pytest.fixture
def gated(project: Project) -> Project:
    """A project whose builder waits for the file `gate`."""
    project.write("gated.py", GATED.format(gate=project.root / "gate"))
    return project


@pytest.fixture(scope="module")
def database() -> Iterator[Any]:
    with pg_server.start() as server:
        yield server


def on_postgres(project: Project, server: Any) -> Project:
    return Project(project.root, replace(project.settings, catalog=server.new_database()))


def waiters(all_of_them: list[Builder]) -> list[Builder]:
    return [each for each in all_of_them if each.events("wait")]


def race(project: Project, count: int, **options: Any) -> list[dict[str, Any]]:
    """Builds with so many processes; the work begins to move once all but one wait."""
    with builders(project, count, REF, workers=1, num_shards=2, **options) as racers:
        wait_until(
            lambda: len(waiters(racers)) == count - 1 or any(r.process.poll() for r in racers),
            "all but one wait",
            pause=0.1,
        )
        (project.root / "gate").touch()
        return [each.result() for each in racers]


def check_one_built(project: Project, results: list[dict[str, Any]]) -> None:
    outcomes = Counter(each["outcome"] for each in results)
    assert outcomes == {"succeeded": 1, "reused": len(results) - 1}
    assert len({each["fingerprint"] for each in results}) == 1
    [winner] = [each for each in results if each["outcome"] == "succeeded"]
    assert set(winner["ran"]) == STAGES
    with Catalog.open(project.settings.catalog) as catalog:
        stages = catalog.stages(limit=None)
        assert {each.state for each in stages} == {"succeeded"}
        keys = Counter(each.key for each in stages if "/part-" not in each.key)
        assert keys == dict.fromkeys(STAGES, 1), "each stage ran once"
        assert len(catalog.versions()) == 1
        runs = Counter(each.outcome for each in catalog.runs(limit=None))
        assert sum(runs.values()) == len(results)
        assert catalog.claims() == []


def test_eight_processes_build_one_version(gated: Project) -> None:
    check_one_built(gated, race(gated, 8))
    assert evidence.unaccounted(gated) == set()


def test_four_processes_build_one_version_on_postgresql(gated: Project, database: Any) -> None:
    there = on_postgres(gated, database)
    check_one_built(there, race(there, 4))


@pytest.mark.parametrize("where", ["sqlite", "postgresql"])
def test_an_owner_killed_while_others_wait_is_replaced_at_once(
    gated: Project, where: str, request: pytest.FixtureRequest
) -> None:
    if where == "postgresql":
        gated = on_postgres(gated, request.getfixturevalue("database"))
    with builders(gated, 3, REF, workers=1, num_shards=2) as racers:
        wait_until(lambda: len(waiters(racers)) == 2, "two wait", pause=0.1)
        [owner] = [each for each in racers if each not in waiters(racers)]
        wait_until(lambda: started(owner, "examples/"), "the owner is at the examples")
        assert started(waiters(racers)[0], "") == []
        kill(owner.process)
        killed_at = time.time()
        others = [each for each in racers if each is not owner]
        wait_until(lambda: any(started(each, "examples/") for each in others), "one takes over")
        first = min(e["at"] for each in others for e in started(each, "examples/"))
        assert first - killed_at < 5, "a claim lasts 30 s, but its owner's death can be seen"
        (gated.root / "gate").touch()
        results = [each.result() for each in others]
    assert sorted(each["outcome"] for each in results) == ["reused", "succeeded"]
    [winner] = [each for each in results if each["outcome"] == "succeeded"]
    assert set(winner["ran"]) == STAGES - {"download", "splits"}
    with Catalog.open(gated.settings.catalog) as catalog:
        assert len(catalog.versions()) == 1
        runs = Counter(each.outcome for each in catalog.runs(limit=None))
        assert runs == {"died": 1, "succeeded": 1, "cached": 1}
        assert catalog.stages(state="running", limit=None) == []


def started(builder: Builder, key: str) -> list[dict[str, Any]]:
    return [each for each in builder.events("start") if each["stage"].startswith(key)]


def test_builds_of_two_datasets_do_not_wait_for_each_other(gated: Project) -> None:
    """Nor do they mix, though their examples are equal, and lie in files of other sizes."""
    text = (gated.root / "gated.py").read_text()
    gated.write(
        "open.py", text.replace("class Gated", "class Open").replace("GATE.exists()", "True")
    )
    with builders(gated, 1, REF, workers=1) as [blocked]:
        wait_until(lambda: started(blocked, "examples/"), "the first is at work")
        assert gated.build("open.py:Open").outcome == "succeeded"
        assert blocked.process.poll() is None
        (gated.root / "gate").touch()
        assert blocked.result()["outcome"] == "succeeded"
