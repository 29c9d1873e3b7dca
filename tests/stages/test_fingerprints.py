"""What each stage's fingerprint depends on, and what it does not."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from provender.builders.facts import BuilderFacts, facts_of
from provender.builders.spec import BuilderSpec
from provender.errors import SplitError
from provender.stages import download, examples, register, shards, splits

SOURCE = """
import tensorflow_datasets as tfds

class StageSet(tfds.core.GeneratorBasedBuilder, skip_registration=True):
    VERSION = tfds.core.Version("1.0.0")

    def _info(self):
        return tfds.core.DatasetInfo(
            builder=self, features=tfds.features.FeaturesDict({"text": tfds.features.Text()})
        )

    def _split_generators(self, dl_manager):
        return {"train": self._generate_examples()}

    def _generate_examples(self):
        yield 0, {"text": "a"}
"""
PLAN = "_split_generators"


@pytest.fixture(scope="module")
def facts(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BuilderFacts]:
    folder = tmp_path_factory.mktemp("stages")
    (folder / "stage_set.py").write_text(SOURCE)
    path = list(sys.path)
    spec = BuilderSpec(f"{folder}/stage_set.py:StageSet")
    yield facts_of(spec, folder / "memory", folder / "checksums")
    sys.path[:] = path
    sys.modules.pop("stage_set", None)


def record(url: str = "http://a/x", sha256: str = "1" * 64, **more: Any) -> dict[str, Any]:
    return {"url": url, "sha256": sha256, "size": 1, "identity_token": "etag", **more}


def examples_tree(facts: BuilderFacts, **changed: Any) -> str:
    about = {"function": "_generate_examples", "replay": False, "arguments": None}
    about |= changed.pop("about", {})
    given = {
        "split": "train",
        "about": about,
        "inputs": splits.inputs([record()], None),
        "plan_method": PLAN,
        "max_examples": None,
        **changed,
    }
    return examples.tree(facts, **given).digest


def test_the_url_of_equal_bytes_counts_for_the_plan_but_not_for_examples(
    facts: BuilderFacts,
) -> None:
    old, new = [record()], [record(sha256="2" * 64)]
    assert splits.tree(facts, PLAN, old, None) != splits.tree(facts, PLAN, new, None)
    inputs = [splits.inputs(each, None) for each in (old, new)]
    assert examples_tree(facts, inputs=inputs[0]) == examples_tree(facts, inputs=inputs[1])


def test_a_replayed_split_depends_on_all_inputs_and_on_the_plan(facts: BuilderFacts) -> None:
    inputs = [splits.inputs([record(sha256=c * 64)], None) for c in "12"]
    replay = {"replay": True, "function": None}
    found = {examples_tree(facts, inputs=each, about=replay) for each in inputs}
    assert len(found) == 2
    other = replace(facts, code={**facts.code, PLAN: facts.code["_generate_examples"]})
    assert examples_tree(facts, about=replay) != examples_tree(other, about=replay)
    assert examples_tree(facts) == examples_tree(other)


def test_etags_and_sizes_do_not_count(facts: BuilderFacts) -> None:
    one, other = record(identity_token="a"), record(identity_token="b", size=2)
    assert splits.tree(facts, PLAN, [one], None) == splits.tree(facts, PLAN, [other], None)


def test_what_an_examples_stage_depends_on(facts: BuilderFacts) -> None:
    arguments = facts.features.to_json()
    found = [
        examples_tree(facts),
        examples_tree(facts, split="test"),
        examples_tree(facts, max_examples=3),
        examples_tree(facts, max_examples=4),
        examples_tree(replace(facts, in_order=True)),
        examples_tree(facts, about={"arguments": arguments}),
        examples_tree(replace(facts, features=facts.setting)),
        examples_tree(replace(facts, setting=facts.features)),
    ]
    assert len(set(found)) == len(found)
    same = replace(facts, version="9.0.0", info={"description": "other"}, checksums="other")
    assert examples_tree(same) == examples_tree(facts)


def test_parts_are_told_apart(facts: BuilderFacts) -> None:
    whole = facts.features
    found = {
        examples.part_tree(whole, part, parts).digest
        for parts in (1, 2, 3)
        for part in range(parts)
    }
    assert len(found) == 6


def test_a_download_depends_on_checksums_and_manual_files(facts: BuilderFacts) -> None:
    manual = {"a.zip": {"sha256": "1" * 64, "size": 1}}
    other = {"a.zip": {"sha256": "2" * 64, "size": 1}}
    found = {
        download.tree(facts, PLAN, None).digest,
        download.tree(facts, PLAN, manual).digest,
        download.tree(facts, PLAN, other).digest,
        download.tree(replace(facts, checksums="other"), PLAN, None).digest,
    }
    assert len(found) == 4


def test_a_shard_depends_on_content_and_place_only() -> None:
    found = {
        shards.tree(name, content, shard, count).digest
        for name in ("a", "b")
        for content in ("1", "2")
        for shard in (0, 1)
        for count in (2, 3)
    }
    assert len(found) == 16


def test_a_version_does_not_depend_on_where_its_class_lies(facts: BuilderFacts) -> None:
    parts = {"train": [{"name": "a", "sha256": "1" * 64, "files": ["x", "y"]}]}
    moved = {"train": [{"name": "a", "sha256": "1" * 64, "files": ["p", "q"]}]}
    elsewhere = replace(facts, info={**facts.info, "moduleName": "elsewhere"})
    first = register.tree(facts, parts, {}).digest
    assert register.tree(elsewhere, moved, {}).digest == first
    assert register.tree(replace(facts, version="2.0.0"), parts, {}).digest != first
    assert register.tree(facts, parts, {"download_size": 1}).digest != first
    described = replace(facts, info={**facts.info, "description": "other"})
    assert register.tree(described, parts, {}).digest != first


def test_folders_of_versions_and_trials(facts: BuilderFacts) -> None:
    assert register.folder(facts, trial=False, limit=None) == "datasets/stage_set/1.0.0"
    small = replace(facts, config="small")
    assert register.folder(small, trial=False, limit=None) == "datasets/stage_set/small/1.0.0"
    trial = register.folder(small, trial=True, limit=5)
    assert trial == "trials/first-5/stage_set/small/1.0.0"
    assert register.folder(small, trial=True, limit=None).startswith("trials/all/")


@pytest.mark.parametrize("name", ["train", "validation_matched", "en-de", "2020"])
def test_split_names(name: str) -> None:
    splits.check_name(name)


@pytest.mark.parametrize("name", ["all", "", "a b", "a/b", "train[:10%]", "a.b", "a+b", "é\n"])
def test_split_names_that_tfds_could_not_read(name: str) -> None:
    with pytest.raises(SplitError, match="cannot be named") as error:
        splits.check_name(name)
    assert error.value.hint


def test_paths_outside_are_looked_at_again(tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder/a").write_text("1")
    (tmp_path / "file").write_text("1")

    def look(path: Path) -> str:
        return path.read_text()

    known = {
        str(p): splits.identity_of(str(p), look) for p in (tmp_path / "folder", tmp_path / "file")
    }
    result = {"outside": known}
    assert splits.changed_outside(result, look) == []
    (tmp_path / "folder/b").write_text("2")
    (tmp_path / "file").unlink()
    changed = splits.changed_outside(result, look)
    assert [each["path"] for each in changed] == [
        [f"file {tmp_path / 'folder'}"],
        [f"file {tmp_path / 'file'}"],
    ]
    assert changed[1]["new"] is None
    assert splits.identity_of(str(tmp_path / "nothing"), look) is None
