"""The build in pieces: same result, same record, whoever makes the calls, and however often."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.e2e.conftest import Project
from tests.engine import staged_program
from tests.engine.staged_program import across, drive

from provender.catalog import Catalog
from provender.engine import staged
from provender.engine.build import build
from provender.engine.session import Options, open_session
from provender.engine.staged.ranges import ranges
from provender.errors import ChecksFailed, ConflictError, ProvenderError, SettingsError, StoreError
from provender.refs import DatasetRef
from provender.settings import Checks, DatasetEntry, load_settings

REF = "pairs.py:Pairs"


def ref_of(where: Project, ref: str = REF) -> str:
    return str(where.root / ref)


def catalog_of(where: Project) -> Catalog:
    return Catalog.open(where.settings.catalog)


def shards_of(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in sorted(folder.glob("*.tfrecord*"))}


def launch(where: Project, run: str, **options: Any) -> subprocess.Popen[str]:
    job = {"ref": ref_of(where), "store": where.settings.store, "run": run, "options": options}
    environ = {**os.environ, "HOME": str(where.root / "home"), "PYTHONPATH": os.getcwd()}
    return subprocess.Popen(
        [sys.executable, staged_program.__file__, json.dumps(job)],
        cwd=where.root, env=environ, stdout=subprocess.PIPE, text=True,
    )  # fmt: skip


def test_the_same_bytes_and_the_same_record_as_a_build_in_one_process(pairs, tmp_path) -> None:
    done = drive(ref_of(pairs), pairs.settings, workers=2, num_shards=3)
    elsewhere = load_settings(
        store=str(tmp_path / "other"), environ={"HOME": str(tmp_path / "home")}
    )
    session = open_session(
        DatasetRef.parse(ref_of(pairs)), elsewhere, Options(num_shards=3, workers=1)
    )
    with session.catalog:
        built = build(session)
        keys = {each.key for each in session.catalog.stages(run_id=built.run_id, limit=None)}
    assert done.published is not None
    assert shards_of(Path(done.published.path)) == shards_of(Path(built.version.uri)) != {}
    assert done.published.fingerprint == built.version.fingerprint
    assert done.published.splits == {"train": 50, "test": 50}
    assert done.published.changed and done.published.changed_splits == ("train", "test")
    with catalog_of(pairs) as catalog:
        [run] = catalog.runs()
        own = {each.key for each in catalog.stages(run_id=run.id, limit=None)}
        assert {key for key in own if "/part-" not in key} == {k for k in keys if "/part-" not in k}
        assert (run.outcome, run.orchestrator) == ("succeeded", {"name": "test", "run": "1"})
        assert run.summary["version"] == "pairs:1.0.0" and run.summary["hits"] == 0


def test_a_run_with_nothing_to_do_is_one_row_and_imports_nothing_heavy(pairs) -> None:
    first = drive(ref_of(pairs), pairs.settings, num_shards=3)
    process = launch(pairs, "2", num_shards=3)
    said = json.loads(process.communicate()[0])
    assert (said["states"], said["ran"], said["heavy"]) == (["cached"], [], [])
    assert said["published"]["outcome"] == "cached" and not said["published"]["changed"]
    with catalog_of(pairs) as catalog:
        run = catalog.runs()[0]
        assert (run.outcome, run.summary["hits"]) == ("cached", run.summary["stages"])
        assert catalog.hits(run.id) == [] and catalog.stages(run_id=run.id) == []
        found = staged.find_execution(catalog, run.id, "shards/train/00002")
        assert found is not None and found.run_id == first.doc.run_id


def test_a_change_runs_what_it_reaches_and_the_rest_is_recorded_as_reused(pairs) -> None:
    first = drive(ref_of(pairs), pairs.settings)
    pairs.edit("helping.py", "LIMIT = 40", "LIMIT = 4")
    pairs.edit("pairs.py", "1.0.0", "1.1.0")
    second = drive(ref_of(pairs), pairs.settings, run="2")
    assert second.outcomes["download"].state == second.outcomes["splits"].state == "cached"
    assert "examples/train" in second.ran and "shards/test/00000" in second.ran
    assert "LIMIT: 40 -> 4" in second.outcomes["examples/train"].why[0]
    with catalog_of(pairs) as catalog:
        assert {each.key for each in catalog.hits(second.doc.run_id)} == {"download", "splits"}
        found = staged.find_execution(catalog, second.doc.run_id, "download")
        assert found is not None and found.run_id == first.doc.run_id


def test_only_a_split_that_changed_is_told_as_changed(pairs) -> None:
    drive(ref_of(pairs), pairs.settings)
    pairs.write("data/test.txt", "another line\n")
    pairs.edit("pairs.py", "1.0.0", "1.0.1")
    done = drive(ref_of(pairs), pairs.settings, run="2")
    assert done.published is not None and done.published.changed_splits == ("test",)


def test_a_failed_piece_fails_the_run_and_its_retry_goes_on(pairs) -> None:
    helper = (pairs.root / "helping.py").read_text()
    broken = (
        helper
        + "\nREAL = shape\ndef shape(line):\n    assert 'test' not in line\n    return REAL(line)\n"
    )
    pairs.write("helping.py", broken)
    with pytest.raises(ProvenderError, match="AssertionError"):
        drive(ref_of(pairs), pairs.settings, workers=1)
    with catalog_of(pairs) as catalog:
        [run] = catalog.runs()
        assert run.outcome == "failed" and list(run.summary["failed"]) == ["examples test"]
        assert "AssertionError" in run.summary["error"]["message"]
    pairs.write("helping.py", helper)
    done = drive(ref_of(pairs), pairs.settings, workers=1)
    assert done.doc.run_id == run.id and done.outcomes["download"].state == "cached"
    with catalog_of(pairs) as catalog:
        [run] = catalog.runs()
        assert run.outcome == "succeeded" and "failed" not in run.summary


def test_the_run_stays_failed_while_any_piece_stands_as_failed(pairs) -> None:
    doc = staged.begin(ref_of(pairs), pairs.settings, orchestrator={"name": "test", "run": "1"})
    with catalog_of(pairs) as catalog:
        error = {"type": "StoreError", "message": "away"}
        catalog.note_piece(doc.run_id, "shards a", error)
        catalog.note_piece(doc.run_id, "shards b", error, "interrupted")
        assert catalog.note_piece(doc.run_id, "shards b").outcome == "interrupted"
        again = catalog.note_piece(doc.run_id, "shards a")
        assert (again.outcome, again.finished, dict(again.summary)) == ("running", None, {})
        assert catalog.bury_dead() == 0, "no process is taken for the run's own"


def test_a_build_that_would_break_a_promise_is_refused_before_any_work(pairs) -> None:
    drive(ref_of(pairs), pairs.settings)
    pairs.edit("helping.py", "LIMIT = 40", "LIMIT = 4")
    doc = staged.begin(ref_of(pairs), pairs.settings, orchestrator={"name": "test", "run": "2"})
    with pytest.raises(ConflictError, match="LIMIT: 40 -> 4"):
        staged.run_stage(doc, "manual", pairs.settings)
    with catalog_of(pairs) as catalog:
        assert catalog.run(doc.run_id).outcome == "refused"
        assert catalog.stages(run_id=doc.run_id) == []


def test_what_is_forced_runs_once_a_run(pairs) -> None:
    plain = drive(ref_of(pairs), pairs.settings)
    forced = drive(ref_of(pairs), pairs.settings, run="2", force=("examples",))
    assert {key for key in forced.ran if "/part-" not in key} == {"examples/train", "examples/test"}
    assert forced.outcomes["examples/train"].why == ("forced",)
    again = drive(ref_of(pairs), pairs.settings, run="2", force=("examples",))
    assert again.ran == set(), "the same run, tried again"
    third = drive(ref_of(pairs), pairs.settings, run="3", force=("examples",))
    assert "examples/train" in third.ran
    assert plain.published is not None and third.published is not None
    assert third.published.fingerprint == plain.published.fingerprint
    assert not third.published.changed


def test_of_two_orchestrators_one_builds_and_the_other_takes_it(pairs) -> None:
    racers = [launch(pairs, str(i), workers=2, num_shards=2) for i in range(2)]
    said = [json.loads(each.communicate()[0]) for each in racers]
    assert [each.returncode for each in racers] == [0, 0]
    assert said[0]["published"]["fingerprint"] == said[1]["published"]["fingerprint"]
    with catalog_of(pairs) as catalog:
        done = Counter(each.key for each in catalog.stages(state="succeeded", limit=None))
        assert set(done.values()) == {1}, done
        assert {each.outcome for each in catalog.runs()} <= {"succeeded", "reused"}
        assert len(catalog.versions("pairs")) == 1


def test_a_build_in_one_process_goes_on_where_the_pieces_stopped(pairs) -> None:
    class Stop(Exception):
        pass

    def after(stage: str, doc: staged.RunDoc) -> None:
        if stage == "examples":
            raise Stop

    with pytest.raises(Stop):
        drive(ref_of(pairs), pairs.settings, workers=2, after=after)
    built = pairs.build()
    assert not {key for key in built.ran if key.startswith(("download", "splits", "examples"))}


def test_a_damaged_shard_is_made_again(pairs) -> None:
    first = drive(ref_of(pairs), pairs.settings, num_shards=2)
    assert first.published is not None
    before = shards_of(Path(first.published.path))
    victim = next(Path(first.published.path).glob("*train*00000-of-*"))
    victim.unlink()
    done = drive(ref_of(pairs), pairs.settings, run="2", num_shards=2)
    assert {key for key in done.ran if key.startswith("shards/")} == {"shards/train/00000"}
    assert shards_of(Path(first.published.path)) == before
    assert done.published is not None and not done.published.changed


def test_a_call_out_of_order_says_what_is_missing(pairs) -> None:
    doc = staged.begin(ref_of(pairs), pairs.settings, orchestrator={"name": "test", "run": "1"})
    for call in (
        lambda: staged.run_stage(doc, "splits", pairs.settings),
        lambda: staged.pieces(doc, "examples", pairs.settings),
        lambda: staged.register_version(doc, pairs.settings),
    ):
        with pytest.raises(StoreError, match="cannot be done now"):
            call()


def test_a_worker_with_another_store_is_refused(pairs, tmp_path) -> None:
    doc = staged.begin(ref_of(pairs), pairs.settings, orchestrator={"name": "test", "run": "1"})
    other = load_settings(store=str(tmp_path / "other"), environ={"HOME": str(tmp_path)})
    with pytest.raises(SettingsError, match=f"{tmp_path}/other, but its run began in"):
        staged.run_stage(doc, "manual", other)


def test_a_version_that_fails_its_checks_blocks_the_run(pairs) -> None:
    entry = DatasetEntry(checks=Checks(min_examples={"*": 1000}))
    object.__setattr__(pairs.settings, "datasets", {"pairs": entry})
    with pytest.raises(ChecksFailed):
        drive(ref_of(pairs), pairs.settings)
    with catalog_of(pairs) as catalog:
        assert catalog.runs()[0].outcome == "blocked" and catalog.versions("pairs") == []


MANUAL = '''
import tensorflow_datasets as tfds

class ByHand(tfds.core.GeneratorBasedBuilder):
    """Needs a file."""

    VERSION = tfds.core.Version("1.0.0")
    MANUAL_DOWNLOAD_INSTRUCTIONS = "Ask Ada for lines.txt."
    MANUAL_FILES = ["lines.txt", "more-*.txt"]

    def _info(self):
        return tfds.core.DatasetInfo(
            builder=self, features=tfds.features.FeaturesDict({"text": tfds.features.Text()})
        )

    def _split_generators(self, dl_manager):
        return {"train": self._generate_examples(dl_manager.manual_dir / "lines.txt")}

    def _generate_examples(self, path):
        for number, line in enumerate(path.read_text().splitlines()):
            yield number, {"text": line}
'''


def test_files_by_hand_are_waited_for_until_they_are_whole(project) -> None:
    project.write("by_hand.py", MANUAL)
    ref, folder = ref_of(project, "by_hand.py:ByHand"), project.root / "files"
    options = Options(manual_dir=str(folder), workers=1)
    ids = {"name": "test", "run": "1"}
    doc = across(staged.begin(ref, project.settings, options, orchestrator=ids))
    state = staged.look_for_manual(doc, project.settings)
    assert not state.ready and state.missing == ("lines.txt", "more-*.txt")
    assert "Ask Ada for lines.txt." in str(state) and str(folder) in str(state)
    project.write("files/lines.txt", "one\ntwo\n")
    state = staged.look_for_manual(doc, project.settings)
    assert (state.missing, state.growing) == (("more-*.txt",), ("lines.txt",))
    project.write("files/more-1.txt", "three\n")
    assert staged.look_for_manual(doc, project.settings).growing == ("lines.txt", "more-1.txt")
    for path in folder.iterdir():
        os.utime(path, (time.time() - 60, time.time() - 60))
    assert staged.look_for_manual(doc, project.settings).ready
    done = drive(ref, project.settings, manual_dir=str(folder), workers=1)
    assert done.doc == doc and done.outcomes["manual"].state == "ran"
    assert done.published is not None and done.published.splits == {"train": 2}


@given(
    st.dictionaries(st.text("abc", min_size=1, max_size=3), st.integers(0, 3000), max_size=80),
    st.integers(1, 70),
)
def test_ranges_are_all_pieces_in_order_and_no_more_than_asked_for(counts, limit) -> None:
    found = ranges(counts, limit)
    assert len(found) <= limit and all(found)
    flat = [(split, i) for each in found for split, a, b, of in each for i in range(a, b)]
    assert flat == [(split, i) for split, count in counts.items() for i in range(count)]
    assert all(of == counts[split] for each in found for split, _, _, of in each)


@pytest.mark.parametrize("style", ["GoldenSharded", "GoldenOpaque", "GoldenInOrder"])
def test_every_kind_of_builder(project, tmp_path, style: str) -> None:
    source = Path(staged_program.__file__).with_name("golden_builders.py").read_text()
    project.write("golden.py", source)
    ref = ref_of(project, f"golden.py:{style}")
    done = drive(ref, project.settings, workers=2)
    elsewhere = load_settings(
        store=str(tmp_path / "other"), environ={"HOME": str(tmp_path / "home")}
    )
    session = open_session(DatasetRef.parse(ref), elsewhere, Options(workers=1))
    with session.catalog:
        built = build(session)
    assert done.published is not None
    assert done.published.fingerprint == built.version.fingerprint
    assert done.published.splits == {each.name: each.examples for each in built.version.splits}
    whole = style == "GoldenOpaque"
    assert bool(done.units["shards"]) != whole and (style == "GoldenInOrder") == bool(
        done.units["examples"]
    )
    again = drive(ref, project.settings, run="2", workers=2)
    assert again.states == {"cached"}


def test_a_task_that_is_killed_is_tried_again_and_goes_on(pairs) -> None:
    gate = pairs.root / "gate"
    helper = pairs.root / "helping.py"
    waiting = f"\n    while not pathlib.Path({str(gate)!r}).exists():\n        time.sleep(0.02)\n    return"
    code = helper.read_text().replace("\n    return", waiting)
    helper.write_text(f"import pathlib\nimport time\n{code}")
    process = launch(pairs, "1", workers=1)
    with catalog_of(pairs) as catalog:
        deadline = time.monotonic() + 120
        while not catalog.stages(state="running", key="examples"):
            assert process.poll() is None and time.monotonic() < deadline
            time.sleep(0.05)
        process.kill()
        process.communicate()
        [run] = catalog.runs()
        catalog.bury_dead()
        assert catalog.run(run.id).outcome == "running", "the orchestrator may try again"
        gate.touch()
        done = drive(ref_of(pairs), pairs.settings, workers=1)
        assert done.doc.run_id == run.id
        assert done.outcomes["download"].state == done.outcomes["splits"].state == "cached"
        assert catalog.run(run.id).outcome == "succeeded"
