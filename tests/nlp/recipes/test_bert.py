"""Pretraining examples as a dataset of a project: what is built, and when it is built again."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.engine.staged_program import drive
from tests.nlp.recipes import program
from tests.nlp.recipes.conftest import (
    DOCUMENTS,
    Project,
    publish_stories,
    recipe,
    records_of,
    shards_of,
)

from provender.errors import ConflictError
from provender.nlp.pretraining import Options, create
from provender.settings import Settings, load_settings


def launch(project: Project, ref: str, kill: int = -1) -> subprocess.CompletedProcess[str]:
    path = os.pathsep.join([os.getcwd(), *filter(None, [os.environ.get("PYTHONPATH")])])
    environ = {**os.environ, "PYTHONPATH": path}
    command = [sys.executable, program.__file__, str(project.root), ref, str(kill)]
    return subprocess.run(command, cwd=project.root, env=environ, capture_output=True, text=True)


def scripted(project: Project, **flags: Any) -> list[bytes]:
    """The records that the command makes of the same text."""
    usual = {"max_seq_length": 64, "max_predictions_per_seq": 9, "dupe_factor": 2}
    options = Options(vocab_file=str(project.root / "vocab.txt"), **usual, **flags)
    create(str(project.root / "text.txt"), str(project.root / "file"), options)
    return records_of(project.root / "file")


def bytes_of(folder: str) -> list[bytes]:
    return [each.read_bytes() for each in shards_of(folder)]


def prepared(project: Project) -> list[Path]:
    """Files of the recipe's steps."""
    folder = project.root / "home" / "building" / "examples"
    return [path for path in folder.rglob("*") if path.is_file()]


STEPS = {"examples/tokens", "examples/instances"}


def key_of(stages: Any) -> set[str]:
    return {each for each in stages if each.startswith("examples/") and "/part-" not in each}


def test_a_version_becomes_examples_that_know_where_they_came_from(project: Project) -> None:
    project.write(stories_bert=recipe(do_whole_word_mask=True))
    built = project.build("stories_bert", workers=1)
    assert built.version.name == "stories_bert:1.0.0"
    assert built.ran == (
        *("download", "splits", "examples/tokens", "examples/instances"),
        *(f"shards/train/{i:05d}" for i in range(3)),
        "register",
    )
    assert project.records(built) == scripted(project, do_whole_word_mask=True)

    catalog = project.session("stories_bert").catalog
    above = {each.name for each in catalog.lineage(built.version.id).nodes}
    assert "stories:1.1.0" in above
    source = catalog.version("stories", None, "1.1.0")
    assert source is not None
    assert [each.name for each in catalog.consumers(source.id)] == ["stories_bert:1.0.0"]

    again = json.loads(launch(project, "stories_bert").stdout)
    assert again == {"outcome": "cached", "heavy": [], "pieces": 0}


def test_the_loader_reads_the_version(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    from provender.nlp.loaders.bert_pretrain import BertPretrainDataConfig
    from provender.nlp.registry import get_data_loader

    project.write(stories_bert=recipe())
    built = project.build("stories_bert", workers=1)
    monkeypatch.chdir(project.root)
    monkeypatch.setenv("PROVENDER_HOME", str(project.root / "home"))
    config = BertPretrainDataConfig(
        version="stories_bert:1.0.0",
        tfds_split="train",
        global_batch_size=32,
        is_training=False,
        drop_remainder=False,
        seq_length=64,
        max_predictions_per_seq=9,
    )
    read = list(get_data_loader(config).load().as_numpy_iterator())
    assert sum(len(each["input_mask"]) for each in read) == built.version.examples
    assert all(np.all(each["input_word_ids"][:, 0] == 2) for each in read)


def test_what_changed_is_named_and_built_under_another_number(project: Project) -> None:
    project.write(bert=recipe())
    first = project.build("bert", workers=1)

    project.write(bert=recipe(dupe_factor=1))
    assert project.why("bert") == "setting -> setting -> arguments -> key 'dupe_factor': 2 -> 1"
    with pytest.raises(ConflictError, match="'dupe_factor': 2 -> 1"):
        project.build("bert", workers=1)

    # Another file of the same words changes nothing; other words do.
    shutil.move(project.root / "vocab.txt", project.root / "renamed.txt")
    project.write(bert=recipe(vocab_file="renamed.txt"))
    assert project.plan("bert").done
    with (project.root / "renamed.txt").open("a") as file:
        file.write("another\n")
    assert "setting -> vocab_file: " in project.why("bert")

    shutil.move(project.root / "renamed.txt", project.root / "vocab.txt")
    words = (project.root / "vocab.txt").read_text().removesuffix("another\n")
    (project.root / "vocab.txt").write_text(words)
    publish_stories(project, "1.2.0", DOCUMENTS[:-1])
    project.write(bert=recipe(source="stories:1.2.0", version="1.1.0"))
    why = project.why("bert")
    assert re.search("setting -> source: .*stories:1.1.0 .* -> .*stories:1.2.0 ", why)
    second = project.build("bert", workers=1)
    assert second.version.name == "bert:1.1.0"
    assert second.version.examples < first.version.examples


def test_an_alias_is_followed_and_the_number_recorded(project: Project) -> None:
    project.write(bert=recipe(source="stories"))
    session = project.session("bert")
    assert session.facts.spec.kwargs["source"] == "stories:1.1.0"
    project.build("bert", workers=1)
    publish_stories(project, "1.2.0", DOCUMENTS[:-1])
    assert "stories:1.2.0" in project.why("bert")


def rows_of(project: Project, run: str) -> list[str]:
    """Keys of the stages that a run executed."""
    with project.session("one").catalog as catalog:
        return [each.key for each in catalog.stages(run_id=run, limit=None)]


def test_neither_workers_nor_who_drives_changes_a_byte(project: Project) -> None:
    names = ("one", "two", "four", "driven")
    project.write(**{name: recipe() for name in names})
    one = project.build("one", workers=1)
    # Another dataset of the same text has the same tokens and instances, unless it is told otherwise.
    two = project.build("two", workers=2, force=("examples",))
    four = project.build("four", workers=4)
    assert key_of(two.ran) == STEPS and key_of(four.ran) == set()
    driven = drive("driven", project.settings, workers=2, force=("examples",))
    assert driven.published is not None and len(driven.units["shards"]) == 3
    assert [each.label for each in driven.units["examples"]] == [
        f"{step}-{part:05d}" for step in ("tokens", "instances") for part in range(2)
    ]
    assert key_of(rows_of(project, driven.doc.run_id)) == STEPS
    folders = [one.version.uri, two.version.uri, four.version.uri, driven.published.path]
    first, *others = [bytes_of(each) for each in folders]
    assert len(first) == 3 and others == [first] * 3
    # Each call is a process of its own to an orchestrator, wherever it runs.
    assert drive("driven", project.settings, run="2").states == {"cached"}


@pytest.mark.parametrize(("kill", "left"), [(2, 40 + 2 - 2), (41, 1)])
def test_killed_it_goes_on(project: Project, kill: int, left: int) -> None:
    """Its text is cut into 40 pieces, and its instances are planned in 2."""
    project.write(killed=recipe(), whole=recipe())
    done = launch(project, "killed", kill)
    assert done.returncode == -signal.SIGKILL, done.stderr
    assert prepared(project)
    resumed = json.loads(launch(project, "killed").stdout)
    assert (resumed["outcome"], resumed["pieces"]) == ("succeeded", left)
    killed = project.build("killed")
    whole = project.build("whole", workers=1, force=("examples",))
    assert bytes_of(killed.version.uri) == bytes_of(whole.version.uri)


class Remote(Project):
    """A project whose store is no folder."""

    @property
    def settings(self) -> Settings:
        home = str(self.root / "elsewhere")
        return load_settings(
            store=f"memory:/{self.root}",
            cwd=str(self.root),
            environ={"HOME": home, "PROVENDER_HOME": home},
        )


def test_a_remote_store_serves_as_well(project: Project) -> None:
    remote = Remote(project.root)
    publish_stories(remote, "1.1.0", DOCUMENTS)
    remote.write(bert=recipe())
    built = remote.build("bert", workers=1)
    assert built.version.uri.startswith("memory://") and remote.plan("bert").done
    local = project.build("bert", workers=1)
    assert local.outcome == "succeeded"
    assert local.version.fingerprint == built.version.fingerprint


def test_text_files_serve_as_well(project: Project) -> None:
    shutil.move(project.root / "text.txt", project.root / "part-1.txt")
    project.write(bert=recipe(source=None, text=None, input_file="part-*.txt"))
    built = project.build("bert", workers=1)
    shutil.copy(project.root / "part-1.txt", project.root / "text.txt")
    assert project.records(built) == scripted(project)
    assert project.plan("bert").done
    (project.root / "part-2.txt").write_text("w1 w2 w3\n")
    assert "input_file" in project.why("bert")
