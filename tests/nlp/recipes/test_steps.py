"""Steps of a recipe as stages: what makes them run again, and what else knows of them."""

from __future__ import annotations

import dataclasses
import inspect
import json
import os
import shutil
import signal
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from functools import partialmethod
from pathlib import Path
from typing import Any

import pytest
from tests.nlp.recipes.conftest import Project, recipe
from tests.nlp.recipes.test_bert import bytes_of, key_of, launch, prepared, scripted

from provender.engine import staged
from provender.engine.plan import reason_text
from provender.engine.session import Options
from provender.errors import ConflictError
from provender.nlp import pretraining, recipes, xlnet_data
from provender.nlp.recipes import squad, tasks, tokens
from provender.nlp.recipes.arguments import ENCODING
from provender.nlp.xlnet_data.options import OF_FILES
from provender.upkeep.doctor import examine
from provender.upkeep.gc import collect, sweep

STORE = ("documents", "sentences", "store.json", "tokens")
TOKENS, INSTANCES = "examples/tokens", "examples/instances"


def again(project: Project, version: str, **changed: Any) -> set[str]:
    """The kinds of stages that building a changed recipe under a new number runs."""
    project.write(bert=recipe(version=version, **changed))
    ran = project.build("bert", workers=1).ran
    return key_of(ran) | {each.partition("/")[0] for each in ran if not each.startswith("examples")}


def test_what_runs_again_follows_what_changed(project: Project) -> None:
    usual = {"download", "splits", "shards", "register"}
    assert again(project, "1.0.0") == {*usual, TOKENS, INSTANCES}
    # Masking and the number of files are the shards' business alone.
    assert again(project, "1.0.1", masked_lm_prob=0.2, do_whole_word_mask=True) == usual
    assert again(project, "1.0.2", shards=2) == usual
    assert again(project, "1.0.3", random_seed=7) == {*usual, INSTANCES}
    assert again(project, "1.0.4", dupe_factor=1) == {*usual, INSTANCES}
    # All is in lower case already: the tokens are made again, and found to be the same.
    assert again(project, "1.0.5", do_lower_case=False) == {*usual, TOKENS}
    # Of what was made before, nothing is made again.
    assert again(project, "1.0.6", random_seed=7, masked_lm_prob=0.3) == usual

    words = (project.root / "vocab.txt").read_text().split("\n")
    words[-4], words[-3] = words[-3], words[-4]
    (project.root / "vocab.txt").write_text("\n".join(words))
    project.write(bert=recipe(version="1.0.7"))
    project.build("bert", workers=1, trial=True)
    told = project.session("bert").catalog.last_stages("bert", "")[TOKENS]
    assert "setting -> vocab_file: " in "; ".join(map(reason_text, told.reason))
    built = project.build("bert", workers=1)
    assert built.outcome == "succeeded" and key_of(built.ran) == set()
    assert project.records(built) == scripted(project)


def test_a_published_number_is_kept_by_what_its_steps_are_made_of(project: Project) -> None:
    project.write(bert=recipe())
    project.build("bert", workers=1)
    project.write(bert=recipe(random_seed=1))
    with pytest.raises(ConflictError, match="'random_seed': "):
        project.build("bert", workers=1)


def test_parts_are_stages_of_the_catalog(project: Project) -> None:
    project.write(bert=recipe())
    built = project.build("bert", workers=2)
    catalog = project.session("bert").catalog
    rows = {each.key: each for each in catalog.stages(run_id=built.run_id, limit=None)}
    parts = [f"{step}/part-{i}-of-2" for step in (TOKENS, INSTANCES) for i in range(2)]
    assert set(parts) | {TOKENS, INSTANCES} <= set(rows)
    assert all(rows[each].state == "succeeded" and rows[each].outputs for each in parts)
    store = {each.name: each for each in rows[TOKENS].outputs}
    assert set(store) == {"content", *(f"store/{name}" for name in STORE)}
    # What instances and shards are made of is known to the lineage.
    above = {each.name for each in catalog.lineage(built.version.id).nodes}
    assert {f"bert:{TOKENS}", f"bert:{INSTANCES}"} <= above
    assert built.version.info["stages"].keys() >= {TOKENS, INSTANCES}

    # A shard that is lost is written again from what lies there.
    shard = next(each for each in sorted(Path(built.version.uri).glob("*.tfrecord-00001*")))
    before = shard.read_bytes()
    shard.unlink()
    assert key_of(project.build("bert", workers=1).ran) == set()
    assert shard.read_bytes() == before
    # Without that, the steps are made again first; the same bytes, so no number is broken.
    shard.unlink()
    shutil.rmtree(project.root / "home" / "building" / "examples")
    mended = project.build("bert", workers=1)
    assert key_of(mended.ran) == {TOKENS, INSTANCES}
    assert shard.read_bytes() == before
    # A file that only moved, as to another disk, is known by its bytes.
    shard.unlink()
    for path in prepared(project):
        os.utime(path, ns=(1, 1))
    assert key_of(project.build("bert", workers=1).ran) == set()
    (next(path for path in prepared(project) if path.name == "tokens")).write_bytes(b"")
    shard.unlink()
    assert key_of(project.build("bert", workers=1).ran) == {TOKENS}
    assert shard.read_bytes() == before


@pytest.mark.parametrize("limit", [64, 1])
def test_tasks_in_any_order_help_each_other(project: Project, limit: int) -> None:
    """Instances' tasks that begin before the tokens' do what they lack, or wait for it."""
    project.write(bert=recipe(), whole=recipe())
    doc = staged.begin(
        "bert", project.settings, Options(workers=3), orchestrator={"name": "test", "run": "1"}
    )
    for stage in ("manual", "download", "splits"):
        staged.run_stage(doc, stage, project.settings)
    units = staged.pieces(doc, "examples", project.settings, limit=limit)
    assert len(units) == min(limit, 6)
    with ThreadPoolExecutor(len(units)) as pool:
        done = list(
            pool.map(lambda unit: staged.run_pieces(doc, unit, project.settings), units[::-1])
        )
    outcomes = [each for every in done for each in every]
    ran = [each.stage for each in outcomes if each.state == staged.RAN]
    assert len(ran) == len(set(ran)), "a piece was made twice"
    assert {f"{TOKENS}/part-{i}-of-3" for i in range(3)} <= set(ran)
    joined = staged.collect(doc, project.settings)
    assert [each.stage for each in joined] == [TOKENS, INSTANCES]
    for unit in staged.pieces(doc, "shards", project.settings):
        staged.run_pieces(doc, unit, project.settings)
    found = staged.register_version(doc, project.settings)
    whole = project.build("whole", workers=1, force=("examples",))
    assert bytes_of(found.path) == bytes_of(whole.version.uri)
    again = staged.pieces(doc, "examples", project.settings)
    assert [each.label for each in again] == ["tokens", "instances"]
    assert {o.state for u in again for o in staged.run_pieces(doc, u, project.settings)} == {
        staged.CACHED
    }


def test_the_source_is_leased_while_it_is_read(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    project.write(bert=recipe())
    catalog = project.session("bert").catalog
    source = catalog.version("stories", None, "1.1.0")
    assert source is not None
    seen: list[str] = []
    act = tokens.tokenize_part

    def watching(*args: Any, **kwargs: Any) -> Any:
        seen.extend(each.purpose for each in catalog.leases(source.id))
        return act(*args, **kwargs)

    monkeypatch.setattr(tokens, "tokenize_part", watching)
    project.build("bert", workers=1)
    assert "building bert:1.0.0" in seen
    assert catalog.leases(source.id) == []


def test_what_is_left_of_dead_work_goes(project: Project) -> None:
    """Kept for a while, as runs of examples are, and then removed by the collector and the doctor."""
    project.write(killed=recipe())
    assert launch(project, "killed", 41).returncode == -signal.SIGKILL
    left = {each.parent.name for each in (_examples(project)).glob("*/parts-1")}
    assert len(left) == 2
    session = project.session("killed")
    settings, catalog, store = project.settings, session.catalog, session.work.store

    def listed(**given: Any) -> set[str]:
        found = collect(settings, catalog, store, **given).items
        return {Path(each.where).name for each in found if "/examples/" in each.where}

    assert listed() == set()
    assert listed(grace=timedelta(0)) == left
    halved = next(_examples(project).glob("*/parts-1/plans")) / "000001.tmp-1"
    halved.write_bytes(b"half")
    os.utime(halved, (1, 1))
    mended = [each.where for each in examine(settings, catalog, store, fix=True)]
    assert str(halved) in mended and not halved.exists()
    # The tokens are those of a finished stage; the plans are not, and the doctor waits for less.
    examine(settings, catalog, store, fix=True, older_than=timedelta(0))
    assert len(list(_examples(project).iterdir())) == 1
    report = sweep(settings, catalog, store, grace=timedelta(0))
    assert not _examples(project).exists() or not list(_examples(project).iterdir()), report
    assert json.loads(launch(project, "killed").stdout)["outcome"] == "succeeded"


def _examples(project: Project) -> Path:
    return project.root / "home" / "building" / "examples"


def test_there_are_not_too_many_files(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    """However large the text: pieces and tasks grow with it, and records do not depend on them."""
    from provender.nlp.pretraining.work import Sizes
    from provender.nlp.recipes import bert, text

    monkeypatch.setattr(text, "PIECE", 1)
    monkeypatch.setattr(text, "MOST", 10)
    monkeypatch.setattr(bert, "_TASKS", 6)
    whole = partialmethod(bert._Instances.__init__, sizes=Sizes(task=1))
    monkeypatch.setattr(bert._Instances, "__init__", whole)
    project.write(bert=recipe())
    built = project.build("bert", workers=1)
    rows = {each.key: each for each in project.session("bert").catalog.stages(limit=None)}
    made = {key: len(each.result["files"]) for key, each in rows.items() if "/part-" in key}
    assert 10 <= made[f"{TOKENS}/part-0-of-1"] <= 13
    assert 6 <= made[f"{INSTANCES}/part-0-of-1"] <= 8
    assert project.records(built) == scripted(project)


def fields_of(options: Any) -> set[str]:
    return {each.name for each in dataclasses.fields(options)}


OF_ALL = {"shards", "dataset", "version", "data_dir", "config"}
"""Arguments that no recipe's step depends on."""
OF_SHARDS = {
    # Instances are planned without being masked; shards mask them.
    "BertPretraining": {
        "do_whole_word_mask", "max_ngram_size", "max_predictions_per_seq", "masked_lm_prob",
        "random_tokens", "use_v2_feature_names",
    },
    "XlnetPretraining": {
        "seq_length", "reuse_length", "bi_data", "per_host_batch_size", "num_cores_per_host",
    },
    "SentencePairs": set(), "SquadExamples": set(), "TaskExamples": set(),
}  # fmt: skip
FLAGS_OF = {
    "BertPretraining": fields_of(pretraining.Options) - {"gzip_compress", "format"},
    "XlnetPretraining": fields_of(xlnet_data.Options) - set(OF_FILES),
    "SentencePairs": set(ENCODING), "SquadExamples": set(squad._FLAGS), "TaskExamples": set(tasks._FLAGS),
}  # fmt: skip


@pytest.mark.parametrize("name", recipes.__all__)
def test_every_argument_counts_somewhere(name: str) -> None:
    """An argument that a step reads and does not name would leave its old files standing."""
    recipe = getattr(recipes, name)
    taken = set(inspect.signature(recipe.__init__).parameters) - {"self", "flags"} | FLAGS_OF[name]
    counted = {argument for step in recipe.STEPS.values() for argument in step}
    assert counted <= taken
    assert taken - counted - OF_ALL == OF_SHARDS[name]
