"""Published versions: read in place of TFDS datasets, and made of the files."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from tests.nlp.finetuning.conftest import Project, ids, store_tfds

import provender
from provender.errors import ConflictError, SettingsError, UnknownReference
from provender.nlp import get_data_loader
from provender.nlp.finetuning import Options, create
from provender.nlp.finetuning.publishing import publish
from provender.nlp.loaders import SentencePredictionDataConfig
from provender.settings import Settings

BUILDER = """
import numpy as np
import tensorflow_datasets as tfds


class NliRows(tfds.core.GeneratorBasedBuilder):
    VERSION = tfds.core.Version("1.0.0")

    def _info(self):
        return tfds.core.DatasetInfo(
            builder=self,
            features=tfds.features.FeaturesDict({
                "premise": tfds.features.Text(),
                "hypothesis": tfds.features.Text(),
                "label": tfds.features.ClassLabel(names=["yes", "no"]),
                "idx": tfds.features.Scalar(np.int32),
            }),
        )

    def _split_generators(self, dl_manager):
        return {"train": self._generate_examples(), "test": self._generate_examples()}

    def _generate_examples(self):
        for i, text in enumerate(("the cat", "a dog", "x y")):
            yield i, {"premise": text, "hypothesis": "it sat", "label": i % 2, "idx": i}
"""


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    home = str(tmp_path / "home")
    return provender.load_settings(
        cwd=str(tmp_path), environ={"HOME": home, "PROVENDER_HOME": home}
    )


def test_a_version_in_place_of_a_dataset(project: Project, settings: Settings) -> None:
    file = project.write("nli_rows.py", BUILDER)
    provender.build(f"{file}:NliRows", settings=settings)
    asked: dict[str, Any] = {"classification_task_name": "SUPERGLUE-RTE"}
    for reference in ("nli_rows:1.0.0", "super_glue/rte=nli_rows"):
        create(project.options(**asked, version_ref=reference), workers=1, settings=settings)
        rows = project.records("train.tfrecord")
        assert [each["input_ids"][1:3] for each in rows] == [
            ids(t) for t in ("the cat", "a dog", "x y")
        ]
        assert [each["label_ids"] for each in rows] == [[0], [1], [0]]
        assert project.meta["label_names"] == ["yes", "no"]
    with pytest.raises(SettingsError, match=r"for glue/mnli, and the task reads super_glue/rte"):
        wrong = project.options(**asked, version_ref="glue/mnli=nli_rows")
        create(wrong, settings=settings)
    with pytest.raises(SettingsError, match=r"one dataset, and the task reads glue/mnli, glue/ax"):
        several = project.options(
            classification_task_name="AX", version_ref="nli_rows",
            test_data_output_path=project.out("t"),
        )  # fmt: skip
        create(several, settings=settings)
    with pytest.raises(UnknownReference):
        create(project.options(**asked, version_ref="none:1.0.0"), settings=settings)


def stored(project: Project, settings: Settings) -> dict[str, Any]:
    """Options of COLA, in a folder of TFDS's."""
    rows = [{"sentence": each, "label": i, "idx": i} for i, each in enumerate(("the cat", "x y"))]
    splits = {"train": rows, "validation": rows[:1], "test": rows[1:]}
    store_tfds(project.folder / "tfds", "glue/cola", splits)
    return {
        "classification_task_name": "COLA",
        "tfds_data_dir": project.out("tfds"),
        "vocab_file": project.vocab,
        "max_seq_length": 16,
    }


def test_records_become_a_version(project: Project, settings: Settings) -> None:
    flags = stored(project, settings)
    asked = {"eval_data_output_path": project.out("eval"), **flags}
    files = create(project.options(**asked), workers=1, settings=settings)
    options = Options.of_records(**flags, meta_data_file_path=project.out("published.json"))
    done = publish(options, "cola_tokens:1.0.0", splits=["train", "eval"], settings=settings)
    assert done.outcome == "succeeded"
    again = publish(options, "cola_tokens:1.0.0", splits=["train", "eval"], settings=settings)
    assert again.outcome == "cached"
    folder = Path(settings.store) / done.version.path
    for split, file in (("train", "train.tfrecord"), ("validation", "eval")):
        shards = sorted(folder.glob(f"*-{split}.tfrecord-*-of-00001"))
        assert b"".join(each.read_bytes() for each in shards) == project.read(file)
    assert json.loads(project.read("published.json")) == files.metadata
    told = json.loads((folder / "metadata.json").read_text())
    assert files.metadata == told | {"train_data_size": 2, "eval_data_size": 1}
    assert told["label_names"] == ["unacceptable", "acceptable"]

    config = SentencePredictionDataConfig(
        version="cola_tokens:1.0.0", tfds_split="validation", seq_length=16,
        global_batch_size=1, is_training=False,
    )  # fmt: skip
    home = {"PROVENDER_HOME": str(settings.home), "HOME": str(settings.home)}
    with pytest.MonkeyPatch.context() as patched:
        for name, value in home.items():
            patched.setitem(os.environ, name, value)
        patched.chdir(project.folder)
        batch = next(iter(get_data_loader(config).load().as_numpy_iterator()))
    assert batch["label_ids"].tolist() == [0]
    shorter = Options.of_records(**{**flags, "max_seq_length": 12})
    with pytest.raises(ConflictError):
        publish(shorter, "cola_tokens:1.0.0", settings=settings)
    with pytest.raises(SettingsError, match=r"a name and a number"):
        publish(shorter, "cola_tokens", settings=settings)


def test_publishing_from_the_command_line(project: Project) -> None:
    project.write("in/train-en.tsv", "the\tO\ncat\tB-PER\n")
    line = [
        sys.executable, "-m", "provender.nlp.create_finetuning_data",
        "--fine_tuning_task_type=tagging", "--input_data_dir=in", f"--vocab_file={project.vocab}",
    ]  # fmt: skip
    publishing = [*line, "--publish=tags:1.0.0", "--splits=train"]
    environment = {**os.environ, "PROVENDER_HOME": project.out("home")}

    def run(*words: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            words, cwd=project.folder, env=environment, capture_output=True, text=True
        )

    done = run(*publishing)
    assert done.returncode == 0, done.stderr
    assert "tags:1.0.0  published" in done.stdout
    assert json.loads(run(*publishing, "--json").stdout)["outcome"] == "cached"
    both = run(*publishing, "--train_data_output_path=o")
    assert both.returncode == 2 and "either into files or into a version" in both.stderr
    alone = run(*line, "--train_data_output_path=o", "--meta_data_file_path=m", "--shards=2")
    assert alone.returncode == 2 and "are of a published version" in alone.stderr
