"""Tasks that TFDS reads, from datasets on disk that have the true names and features."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tests.nlp.finetuning.conftest import Project, pairs, store_tfds

from provender.errors import InputError, SettingsError, UnknownSplit
from provender.nlp.finetuning.tasks import CLASSIFICATION

TEXTS = ("the cat sat", "a good film", "x")
TFDS_TASKS = [each for each in CLASSIFICATION.values() if each.parts]


@pytest.fixture(scope="module")
def data_dir(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Each dataset with two examples a split, the second number first."""
    folder = tmp_path_factory.mktemp("tfds")
    wanted: dict[str, tuple[set[str], tuple[str, ...]]] = {}
    for task in TFDS_TASKS:
        assert task.parts is not None
        for part in task.parts.values():
            splits, _ = wanted.setdefault(part.builder, (set(), task.texts))
            names = ("matched", "mismatched")
            splits.update(part.split.format(mnli_type=each) for each in names)
    for name, (splits, texts) in wanted.items():
        store_tfds(folder, name, {each: rows(each, texts, name) for each in sorted(splits)})
    return folder


def rows(split: str, texts: tuple[str, ...], name: str) -> list[dict[str, Any]]:
    found = []
    for idx in (1, 0):
        row: dict[str, Any] = dict(zip(texts, TEXTS, strict=False))
        row[texts[0]] += " sat" if idx else " ?"
        row["idx"] = idx
        row["label"] = -1 if split.startswith("test") else 1 - idx
        if name == "glue/stsb":
            row["label"] = -1.0 if split == "test" else 2.5 + idx
        found.append(row)
    return found


@pytest.mark.parametrize("task", TFDS_TASKS, ids=lambda each: each.name)
def test_every_task_gives_the_features_of_its_texts(
    project: Project, data_dir: Path, task: Any
) -> None:
    made = project.make(
        classification_task_name=task.name,
        tfds_data_dir=str(data_dir),
        eval_data_output_path=project.out("eval"),
        test_data_output_path=project.out("test"),
        mnli_type="mismatched",
    )
    texts = TEXTS[: len(task.texts)]
    for name in ("train.tfrecord", "eval", "test"):
        found = project.records(name)
        for i, (row, end) in enumerate(zip(found, ("?", "sat"), strict=True)):
            expected = pairs(f"{texts[0]} {end}", *texts[1:], length=16)
            label: Any = 0 if name == "test" else 1 - i
            if task.is_regression:
                label = 0.0 if name == "test" else 2.5 + i
            # GLUE's order, not that of TFDS's files; and numbers are floats.
            assert row == {
                **expected, "label_ids": [label], "is_real_example": [1], "example_id": [i]
            }  # fmt: skip
            assert isinstance(row["label_ids"][0], float if task.is_regression else int)
    meta = project.meta
    assert meta == made.metadata
    assert (meta["train_data_size"], meta["eval_data_size"], meta["test_data_size"]) == (2, 2, 2)
    assert meta["processor_type"] == task.processor
    if task.is_regression:
        assert (meta["task_type"], meta["label_type"]) == ("bert_regression", "float")
    else:
        assert meta["task_type"] == "bert_classification"
        assert meta["num_labels"] == len(task.labels) == len(meta["label_names"])


@pytest.mark.parametrize(
    "task", [each for each in TFDS_TASKS if not each.is_regression], ids=lambda each: each.name
)
def test_class_names_are_those_of_tfds(task: Any, tmp_path: Path) -> None:
    import tensorflow_datasets as tfds

    for name in task.builders:
        features = tfds.builder(name, data_dir=str(tmp_path)).info.features
        assert list(task.labels) == features["label"].names
        assert all(each in features for each in task.texts)


def test_tasks_from_files_have_the_numbers_of_those_from_tfds() -> None:
    for name in ("XNLI", "XTREME-XNLI"):
        assert CLASSIFICATION[name].labels == CLASSIFICATION["MNLI"].labels
    assert CLASSIFICATION["AX-g"].labels == CLASSIFICATION["SUPERGLUE-RTE"].labels


def test_words_in_context_are_no_winograd_sentences() -> None:
    task = CLASSIFICATION["WIC"]
    assert task.builders == ["super_glue/wic"]
    assert task.texts == ("sentence1", "sentence2", "word")


def params(project: Project, data_dir: Path, text: str, **given: Any) -> Any:
    return project.make(tfds_params=f"{text},data_dir={data_dir}", **given)


def test_any_dataset(project: Project, data_dir: Path) -> None:
    params(
        project,
        data_dir,
        "dataset=glue/mnli,text_key=premise,text_b_key=hypothesis,dev_split=validation_matched,"
        "test_split=train,test_text_key=hypothesis,test_text_b_key=premise,test_label=contradiction,"
        "weight_key=idx",
        eval_data_output_path=project.out("eval"),
        test_data_output_path=project.out("test"),
    )
    train, test = project.records("train.tfrecord"), project.records("test")
    assert [each["weight"] for each in train] == [[0.0], [1.0]]
    assert {k: train[0][k] for k in ("input_ids", "label_ids")} == {
        "input_ids": pairs("a good film", "the cat sat ?", length=16)["input_ids"],
        "label_ids": [1],
    }
    assert test[0]["input_ids"] == pairs("the cat sat ?", "a good film", length=16)["input_ids"]
    assert [each["label_ids"] for each in test] == [[2], [2]]
    assert "weight" not in test[0]
    assert project.meta["has_sample_weights"] is True
    assert project.meta["processor_type"] == "TFDS_glue/mnli"
    assert project.meta["num_labels"] == 3


def test_test_examples_without_a_label_are_of_class_0(project: Project, data_dir: Path) -> None:
    params(
        project,
        data_dir,
        "dataset=glue/cola,text_key=sentence",
        test_data_output_path=project.out("t"),
    )
    assert [each["label_ids"] for each in project.records("t")] == [[0], [0]]


def test_a_class_that_is_left_out(project: Project, data_dir: Path) -> None:
    params(project, data_dir, "dataset=glue/mnli,text_key=premise,skip_label=neutral")
    (row,) = project.records("train.tfrecord")
    assert (row["label_ids"], row["example_id"]) == ([0], [0])


@pytest.mark.parametrize("kind", ["classification", "regression"])
def test_numbers_as_labels(project: Project, data_dir: Path, kind: str) -> None:
    switch = ",is_regression=true" if kind == "classification" else ""
    params(
        project,
        data_dir,
        f"dataset=glue/stsb,text_key=sentence1,text_b_key=sentence2{switch}",
        fine_tuning_task_type=kind,
    )
    assert [each["label_ids"] for each in project.records("train.tfrecord")] == [[2.5], [3.5]]
    assert project.meta["task_type"] == "bert_regression"


@pytest.mark.parametrize(
    ("text", "error", "said"),
    [
        ("text_key=a", SettingsError, "names no dataset"),
        ("dataset=glue/cola,texts=a", SettingsError, "no key 'texts'(.|\n)*Did you mean text_key"),
        ("dataset=glue/cola,text", SettingsError, "'text' is no key=value"),
        ("dataset=glue/cola,is_regression=maybe", SettingsError, "true or false"),
        ("dataset=glue/cola,label_type=double", SettingsError, "label_type is 'double'"),
        ("dataset=glue/cola,text_key=text", InputError, "no feature 'text'(.|\n)*sentence"),
        ("dataset=glue/stsb,text_key=sentence1", InputError, "no class"),
        ("dataset=glue/cola,text_key=sentence,train_split=trian", UnknownSplit, "no split trian"),
        ("dataset=glue/cola,text_key=sentence,skip_label=9", SettingsError, "skip_label is '9'"),
        ("dataset=no_such_thing", InputError, "no dataset no_such_thing(.|\n)*tfds_data_dir"),
        ("dataset=glue/cola,module_import=no.such", SettingsError, "cannot be imported"),
    ],
)
def test_params_that_make_no_sense(
    project: Project, data_dir: Path, text: str, error: type[Exception], said: str
) -> None:
    with pytest.raises(error, match=said):
        params(project, data_dir, text)
    assert list(project.folder.iterdir()) == []
