"""Tagging and retrieval, from their files to their records."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.nlp.finetuning.conftest import CLS, SEP, UNK, Project, ids, pairs

from provender.errors import InputError, MissingFiles, SettingsError
from provender.nlp.finetuning.tasks import (
    BUCC_LANGUAGES,
    PANX_LANGUAGES,
    TAGGING,
    TATOEBA_LANGUAGES,
    UDPOS_LANGUAGES,
)


def tagging(project: Project, **given: object) -> None:
    project.make(
        fine_tuning_task_type="tagging",
        input_data_dir=project.out("in"),
        max_seq_length=8,
        **given,
    )


def test_words_and_their_first_pieces_carry_labels(project: Project) -> None:
    project.write(
        "in/train-en.tsv",
        "cats\tB-PER\nsat\tO\n\nunhappyable\tB-LOC\nqq\tI-LOC\n\u200b\tO\nx\tB-ORG\ny\tI-ORG\n",
    )
    tagging(project)
    first, second, rest = project.records("train.tfrecord")
    assert first == {
        **pairs("cat ##s sat", length=8),
        "label_ids": [-1, 1, -1, 0, -1, -1, -1, -1],
        "sentence_id": [0],
        "sub_sentence_id": [0],
    }
    # A word without pieces, and one without known pieces, are unknown; and six pieces fit.
    tokens = [CLS, *ids("un ##happy ##able"), UNK, UNK, *ids("x"), SEP]
    assert second["input_ids"] == tokens
    assert second["label_ids"] == [-1, 3, -1, -1, 4, 0, 5, -1]
    assert (rest["input_ids"], rest["label_ids"]) == (
        pairs("y", length=8)["input_ids"],
        [-1, 6, *[-1] * 6],
    )
    assert [(each["sentence_id"], each["sub_sentence_id"]) for each in (second, rest)] == [
        ([1], [0]),
        ([1], [1]),
    ]
    meta = project.meta
    assert meta["label_list"] == "O B-PER I-PER B-LOC I-LOC B-ORG I-ORG".split()
    assert (meta["task_type"], meta["label_type"], meta["label_shape"]) == ("tagging", "int", [8])
    assert (meta["num_labels"], meta["train_data_size"]) == (7, 3)


def test_words_are_not_parted_between_records(project: Project) -> None:
    project.write("in/train-en.tsv", "".join(f"{each}\tO\n" for each in "x y x y x cats".split()))
    tagging(project)
    first, second = project.records("train.tfrecord")
    assert sum(first["input_mask"]) == 7
    assert second["input_ids"][1:3] == ids("cat ##s")


def test_a_word_longer_than_a_record_is_unknown(project: Project) -> None:
    project.write("in/train-en.tsv", "un" + "s" * 6 + "\tO\n")
    tagging(project)
    (row,) = project.records("train.tfrecord")
    assert row["input_ids"] == [CLS, UNK, SEP, 0, 0, 0, 0, 0]


def test_languages(project: Project) -> None:
    for lang in PANX_LANGUAGES:
        for split in ("train", "dev", "test"):
            project.write(f"in/{split}-{lang}.tsv", "x\tO\n" if split != "test" else "x\n")
    tagging(
        project,
        tagging_only_use_en_train=False,
        eval_data_output_path=project.out("eval"),
        test_data_output_path=project.out("t/{}.tfrecord"),
    )
    assert len(project.records("train.tfrecord")) == len(PANX_LANGUAGES) == 40
    assert len(project.records("eval")) == 1
    # Test words without labels count for nothing.
    assert project.records("t/yo.tfrecord")[0]["label_ids"] == [-1] * 8
    assert project.meta["test_data_size"]["yo"] == 1
    (project.folder / "in" / "test-yo.tsv").unlink()
    with pytest.raises(MissingFiles, match=r"test-yo.tsv"):
        tagging(project, test_data_output_path=project.out("t/{}"))


def test_parts_of_speech(project: Project) -> None:
    assert len(UDPOS_LANGUAGES) == 33
    assert len(TAGGING["udpos"].labels) == 17
    project.write("in/train-en.tsv", "cat\tNOUN\n")
    tagging(project, tagging_task_name="udpos")
    assert project.records("train.tfrecord")[0]["label_ids"][1] == 7


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("x\tO\ny\n", "Line 2 of .* has 1 columns"),
        ("x\tO\tO\n", "Line 1 of .* has 3 columns"),
        ("x\tB-MISC\n", "Line 1 of .* has the label 'B-MISC'"),
    ],
)
def test_lines_that_are_wrong(project: Project, text: str, said: str) -> None:
    project.write("in/train-en.tsv", text)
    with pytest.raises(InputError, match=said):
        tagging(project)


def retrieval(project: Project, **given: object) -> None:
    project.make(
        fine_tuning_task_type="retrieval",
        input_data_dir=project.out("in"),
        train_data_output_path=None,
        **given,
    )


def bucc(project: Project) -> None:
    for other in BUCC_LANGUAGES:
        for split in ("dev", "test"):
            for lang in (other, "en"):
                text = f"{lang}-000000007\tthe cat\n{lang}-000000031\tit sat\n"
                project.write(f"in/{other}-en.{split}.{lang}", text)


def test_bucc(project: Project) -> None:
    bucc(project)
    retrieval(
        project,
        eval_data_output_path=project.out("e"),
        test_data_output_path=project.out("t"),
    )
    first, second = project.records("e/de-en-de.dev.tfrecords")
    assert first == {
        **pairs("the cat", length=16),
        "is_real_example": [1],
        "example_id": [7],
    }
    assert second["example_id"] == [31]
    names = {each.name for each in Path(project.out("t")).iterdir() if each.name[0] != "."}
    assert names == {
        f"{other}-en-{lang}.test.tfrecords" for other in BUCC_LANGUAGES for lang in (other, "en")
    }
    assert project.meta["number_test_data"]["zh-en.en"] == 2
    assert project.meta["number_eval_data"]["fr-en.fr"] == 2


def test_tatoeba_counts_lines(project: Project) -> None:
    for other in TATOEBA_LANGUAGES:
        for lang in (other, "en"):
            project.write(f"in/{other}-en.{lang}", "the cat\n\nit sat\n")
    retrieval(project, retrieval_task_name="tatoeba", test_data_output_path=project.out("t"))
    rows = project.records("t/zh-en-zh.test.tfrecords")
    assert [each["example_id"] for each in rows] == [[0], [1], [2]]
    assert len(project.meta["number_test_data"]) == 2 * 36
    with pytest.raises(SettingsError, match=r"no data for the files"):
        retrieval(project, retrieval_task_name="tatoeba", eval_data_output_path=project.out("e"))


def test_missing_languages_and_ids(project: Project) -> None:
    bucc(project)
    (project.folder / "in" / "ru-en.test.en").unlink()
    with pytest.raises(MissingFiles, match=r"ru-en.test.en"):
        retrieval(project, test_data_output_path=project.out("t"))
    assert not (project.folder / "t").exists()
    project.write("in/de-en.dev.de", "de\tthe cat\n")
    with pytest.raises(InputError, match=r"Line 1 of de-en.dev.de has the id 'de'"):
        retrieval(project, eval_data_output_path=project.out("t"))
