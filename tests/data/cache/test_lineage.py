"""Computed transforms in the catalog, and why a transform is computed, as text and as data."""

from __future__ import annotations

import json
import logging
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from tests.data.cache.programs import FP, OTHER, compute, is_right, run
from tests.store.processes import fork, race, wait

from provender.catalog import Catalog, SplitRecord
from provender.data.cache import Recipe, TransformCache, lineage
from provender.data.cache.history import KEPT, changes
from provender.data.cache.lineage import Outbox
from provender.data.cache.manifest import Why
from provender.data.cache.work import told
from provender.fingerprint import Hasher, Tree, combine

VERSION = "ef" * 20


@pytest.fixture
def url(tmp_path: Path) -> str:
    """A catalog with one published version."""
    url = f"sqlite:///{tmp_path}/catalog.db"
    with Catalog.open(url) as catalog:
        catalog.register_version(
            "numbers",
            "small",
            "1.0.0",
            VERSION,
            path="datasets/numbers/small/1.0.0",
            uri="/store/datasets/numbers/small/1.0.0",
            splits=[SplitRecord("train", 400, 1000, 1)],
            shards=[],
            features={},
            info={},
        )
    return url


@pytest.fixture
def cache(tmp_path: Path, url: str) -> TransformCache:
    lineage._away.clear()
    return TransformCache(tmp_path / "cache", catalog=url)


def recipe(*parents: str, name: str = "double", tree: Tree | None = None) -> Recipe:
    return Recipe("map", name, parents=parents, parameters={"batched": "False"}, tree=tree)


def test_lineage_leads_through_transforms_back_to_the_version(
    cache: TransformCache, url: str
) -> None:
    compute(cache, FP, recipe=recipe(VERSION), total=10)
    compute(cache, OTHER, recipe=recipe(FP, name="halve"), total=10)
    with Catalog.open(url) as catalog:
        last, first = catalog.stages(key="transform")
        assert (first.dataset, first.config) == (last.dataset, last.config) == ("numbers", "small")
        assert (first.key, last.key) == ("transform/map/double", "transform/map/halve")
        assert (first.stage, first.state, first.fingerprint) == ("transform", "succeeded", FP)
        assert first.reason == ({"kind": "first"},)
        assert first.result["rows"] == first.result["input_rows"] == 10
        assert first.result["parameters"] == {"batched": "False"}
        [output] = first.outputs
        assert output.kind == "cache"
        assert output.uri == cache.entry_folder(FP)
        assert output.size == sum(e.stat().st_size for e in Path(output.uri).glob("*.arrow"))
        names = [each.name for each in catalog.lineage(last.id).nodes]
        assert names == [
            "numbers/small:transform/map/halve",
            "numbers/small:1.0.0",
            "numbers/small:transform/map/double",
        ]
        version = catalog.version("numbers", "small", "1.0.0")
        below = [each.name for each in catalog.lineage(version.id, "down").nodes]
        assert below[1:] == [
            "numbers/small:transform/map/double",
            "numbers/small:transform/map/halve",
        ]
        rows = catalog.sql("SELECT key, state, outputs FROM v_stage_runs ORDER BY key", 9).rows
        assert [tuple(row) for row in rows] == [
            ("transform/map/double", "succeeded", 1),
            ("transform/map/halve", "succeeded", 1),
        ]


def test_sources_without_a_record_are_artifacts(cache: TransformCache, url: str) -> None:
    compute(cache, FP, recipe=recipe("99" * 20), total=10)
    with Catalog.open(url) as catalog:
        [stage] = catalog.stages(key="transform")
        assert stage.dataset == "unnamed"
        kinds = [(each.kind, each.name) for each in catalog.lineage(stage.id).nodes]
    assert kinds[1:] == [("artifact", "99" * 20)]


def test_a_named_dataset_wins_over_that_of_the_parents(cache: TransformCache, url: str) -> None:
    compute(cache, FP, recipe=Recipe("map", dataset="mine", parents=(VERSION,)), total=10)
    with Catalog.open(url) as catalog:
        assert catalog.stages(key="transform")[0].dataset == "mine"


def test_a_failed_transform_is_on_record_with_its_error(cache: TransformCache, url: str) -> None:
    def fails(row: int) -> None:
        if row == 5:
            raise ZeroDivisionError("row 5")

    with pytest.raises(ZeroDivisionError):
        compute(cache, recipe=recipe(VERSION), before=fails)
    with Catalog.open(url) as catalog:
        [stage] = catalog.stages(key="transform")
    assert stage.state == "failed"
    assert stage.error == {"type": "ZeroDivisionError", "message": "row 5"}


def test_hits_do_not_touch_the_catalog_or_load_its_library(
    cache: TransformCache, tmp_path: Path
) -> None:
    compute(cache, total=10)
    (tmp_path / "catalog.db").unlink()
    text = """
        entry = compute(TransformCache(sys.argv[1], catalog=sys.argv[2]), total=10)
        assert is_right(entry, 10)
        print([each for each in ("sqlalchemy", "alembic") if each in sys.modules])
        """
    assert run(text, cache.root, f"sqlite:///{tmp_path}/catalog.db") == "[]\n"
    assert not (tmp_path / "catalog.db").exists()


def test_a_catalog_that_is_away_costs_one_warning_and_no_record(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    lineage._away.clear()
    url = f"sqlite:///{tmp_path}/no/such/folder/catalog.db"
    (tmp_path / "no").write_text("a file")
    cache = TransformCache(tmp_path / "cache", catalog=url)
    for name in (FP, OTHER):
        assert is_right(compute(cache, name, total=10), 10)
    told_ = [each.getMessage() for each in caplog.records if each.levelname == "WARNING"]
    assert len(told_) == 1
    assert "kept to be sent later" in told_[0]
    assert cache.unsent() == 2

    (tmp_path / "no").unlink()
    lineage._away.clear()
    assert cache.send_lineage() == 0
    with Catalog.open(url) as catalog:
        assert [each.fingerprint for each in catalog.stages()] == [OTHER, FP]
        assert catalog.stages()[0].host != ""


def test_killed_between_result_and_record_the_record_comes_later(
    cache: TransformCache, url: str
) -> None:
    text = """
        import os, signal
        from provender.data.cache.lineage import Outbox
        Outbox.send = lambda self: os.kill(os.getpid(), signal.SIGKILL)
        compute(TransformCache(sys.argv[1], catalog=sys.argv[2]), total=10)
        """
    run(text, cache.root, url, code=-signal.SIGKILL)
    assert is_right(cache.find(FP), 10)
    assert cache.unsent() == 1
    compute(cache, OTHER, total=10)
    with Catalog.open(url) as catalog:
        assert [each.fingerprint for each in catalog.stages()] == [OTHER, FP]


def test_leaving_on_purpose_is_no_failure(cache: TransformCache, url: str) -> None:
    with pytest.raises(LookupError), cache.writing(FP, recipe(VERSION)) as work:
        work.given_up = True
        raise LookupError
    with Catalog.open(url) as catalog:
        assert catalog.stages(key="transform") == []


def test_an_unreadable_record_is_not_in_the_way(
    cache: TransformCache, url: str, caplog: pytest.LogCaptureFixture
) -> None:
    folder = cache.folder / "lineage"
    folder.mkdir(parents=True)
    (folder / "0.json").write_text("{")
    (folder / "1.json").write_text('{"fingerprint": 3}')
    compute(cache, FP, recipe=recipe(VERSION), total=10)
    with Catalog.open(url) as catalog:
        assert len(catalog.stages(key="transform")) == 1
    assert cache.unsent() == 0
    assert "unreadable" in caplog.text


def test_two_processes_send_each_record_once(cache: TransformCache, url: str) -> None:
    box = Outbox(str(cache.folder / "lineage"), url)
    for number in range(20):
        box.put(
            {
                "fingerprint": f"{number:02x}" * 20,
                "recipe": recipe(VERSION).to_json(),
                "state": "succeeded",
                "reasons": [],
                "tree": None,
                "started": 0.0,
                "finished": 1.0,
            }
        )

    def act(i: int) -> None:
        assert Outbox(str(cache.folder / "lineage"), url).send() == 0

    assert race(3, act) == [0, 0, 0]
    with Catalog.open(url) as catalog:
        assert len(catalog.stages()) == 20


def test_what_is_not_kept_is_still_on_record(
    url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PROVENDER_CATALOG", url)
    monkeypatch.setenv("PROVENDER_CACHE", str(tmp_path / "cache"))
    cache = TransformCache.temporary()
    with cache.writing(FP, recipe(VERSION), not_kept="it cannot be fingerprinted") as work:
        from tests.data.cache.programs import doubled

        work.missing(5)
        with work.segment(0, 5) as out:
            out.write(doubled(0, 5))
        work.commit()
    with Catalog.open(url) as catalog:
        [stage] = catalog.stages(key="transform")
    assert told(stage.reason) == ["the result is not kept: it cannot be fingerprinted"]
    assert stage.outputs[0].uri == ""
    assert not (tmp_path / "cache" / "entries").exists()


def test_a_forked_worker_can_compute_too(cache: TransformCache, url: str) -> None:
    compute(cache, FP, total=10)

    def act() -> None:
        compute(cache, OTHER, total=10)

    assert wait(fork(act)) == 0
    with Catalog.open(url) as catalog:
        assert {each.fingerprint for each in catalog.stages()} == {FP, OTHER}


# --- why ------------------------------------------------------------------------------------------


def tree(function: object, parent: str = "ff" * 20, **parameters: object) -> Tree:
    return combine("map", {"parent": parent, "function": Hasher.tree(function), **parameters})


def test_what_changed_is_told_against_the_nearest_earlier_result(
    cache: TransformCache, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "provender.data")

    def double(x: int) -> int:
        return 2 * x

    first = tree(double, batch_size=1000)
    second = tree(double, batch_size=500)
    third = tree(double, batch_size=500, drop_last_batch=True)
    for each in (first, second):
        compute(cache, each.digest, total=4, recipe=recipe(tree=each))
    entry = compute(cache, third.digest, total=4, recipe=recipe(tree=third))
    lines = [each.getMessage().partition(": ")[2] for each in caplog.records]
    assert lines == [
        "never run before",
        "batch_size: 1000 -> 500",
        "drop_last_batch: added (True)",
    ]
    about = Why.read(str(entry.folder))
    assert about is not None
    assert about.compared == second.digest
    assert about.tree == third
    assert about.reasons[0]["kind"] == "added"


def test_a_changed_global_is_named(cache: TransformCache) -> None:
    names: dict[str, object] = {"LENGTH": 128, "__name__": "__main__"}
    exec("def cut(x): return x[:LENGTH]", names)
    old = tree(names["cut"])
    names["LENGTH"] = 256
    new = tree(names["cut"])
    compute(cache, old.digest, total=4, recipe=recipe(tree=old))
    with cache.writing(new.digest, recipe(tree=new)) as work:
        assert told(work.reasons) == ["global LENGTH: 128 -> 256"]
        assert work.compared == old.digest


def test_other_names_and_datasets_are_not_compared_with(cache: TransformCache) -> None:
    compute(cache, FP, total=4, recipe=Recipe("map", "f", dataset="a"))
    for other in (Recipe("map", "g", dataset="a"), Recipe("map", "f", dataset="b")):
        with cache.writing(OTHER, other) as work:
            assert work.reasons == ({"kind": "first"},)
        for path in Path(cache.entry_folder(OTHER)).iterdir():
            path.unlink()


def test_an_evicted_result_is_known_to_have_been_there(cache: TransformCache) -> None:
    compute(cache, FP, total=4, recipe=recipe()).release()
    assert cache.shrink(0) == [FP]
    with cache.writing(FP, recipe()) as work:
        assert told(work.reasons) == ["its cache entry is gone"]


def test_damage_is_the_reason(cache: TransformCache) -> None:
    entry = compute(cache, FP, recipe=recipe())
    entry.files[2].unlink()
    assert cache.find(FP) is None
    with cache.writing(FP, recipe()) as work:
        [reason] = told(work.reasons)
    assert reason.startswith("the piece of input rows 50-75 changed on disk:")


def test_forced_is_the_reason(cache: TransformCache) -> None:
    compute(cache, FP, recipe=recipe(), total=4)
    with cache.writing(FP, recipe(), fresh=True) as work:
        assert told(work.reasons) == ["forced"]


def test_without_trees_the_fingerprints_are_what_changed() -> None:
    found, compared = changes(FP, None, [])
    assert (found, compared) == ([{"kind": "first"}], None)


def test_a_tree_is_grown_only_when_it_is_needed(cache: TransformCache) -> None:
    grown: list[int] = []

    def grow() -> Tree:
        grown.append(1)
        return Tree("map", "parts", FP)

    for _ in range(3):
        compute(cache, FP, total=4, recipe=Recipe("map", tree=grow))
    assert grown == [1]


def test_the_past_is_kept_short(cache: TransformCache) -> None:
    for number in range(KEPT + 4):
        compute(cache, f"{number:02x}" * 20, total=2, recipe=recipe(), step=2)
    past = cache.past(recipe())
    assert len(past) == KEPT
    assert past[0].fingerprint == f"{KEPT + 3:02x}" * 20


def test_keys_hold_no_more_slashes_than_they_should() -> None:
    assert Recipe("map", "a/b").key == "transform/map/a_b"
    assert Recipe("sort").key == "transform/sort"


# --- commands -------------------------------------------------------------------------------------


def provender(tmp_path: Path, *args: str, code: int = 0) -> str:
    environment = {
        **os.environ,
        "PROVENDER_HOME": str(tmp_path / "home"),
        "PROVENDER_CACHE": str(tmp_path / "cache"),
        "PROVENDER_CATALOG": f"sqlite:///{tmp_path}/catalog.db",
    }
    program = "from provender.cli import main; main()"
    done = subprocess.run(
        [sys.executable, "-c", program, *args],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
    )
    assert done.returncode == code, done.stdout + done.stderr
    return done.stdout + done.stderr


def test_the_program_shows_transforms(cache: TransformCache, tmp_path: Path) -> None:
    compute(cache, FP, recipe=recipe(VERSION), total=10)
    drawn = provender(tmp_path, "lineage", "numbers/small:1.0.0", "--down")
    assert "numbers/small:transform/map/double  succeeded" in drawn
    assert "never run before" in provender(tmp_path, "stages", "numbers/small")
    shown = provender(tmp_path, "cache", "why", FP[:6])
    assert "map(double)" in shown
    assert VERSION in shown
    compute(cache, OTHER, recipe=Recipe("sort"), total=10)
    assert "transform/sort" in provender(tmp_path, "stages", "unnamed")


def test_why_is_told_of_evicted_results_from_the_catalog(
    cache: TransformCache, tmp_path: Path
) -> None:
    first, second = tree(len, batch_size=1), tree(len, batch_size=2)
    for each in (first, second):
        compute(cache, each.digest, recipe=recipe(VERSION, tree=each), total=10).release()
    kept = json.loads(provender(tmp_path, "cache", "why", second.digest[:8], "--json"))
    cache.shrink(0)
    gone = json.loads(provender(tmp_path, "cache", "why", second.digest[:8], "--json"))
    assert kept["why"] == gone["why"] == ["batch_size: 1 -> 2"]
    assert kept["compared"] == gone["compared"] == first.digest
    assert (kept["state"], gone["state"]) == ("ready", "removed")
    for key in ("fingerprint", "transform", "name", "parents", "parameters", "rows"):
        assert kept[key] == gone[key], key
    both = json.loads(
        provender(tmp_path, "cache", "why", first.digest[:8], second.digest[:8], "--json")
    )
    assert both["why"] == ["batch_size: 2 -> 1"]
    assert "has no entry" in provender(tmp_path, "cache", "why", "0123", code=3)
