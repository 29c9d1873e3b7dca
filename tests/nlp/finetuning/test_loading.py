"""Files are read by the loaders of `provender.nlp`, and versions in place of TFDS datasets."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from tests.nlp.finetuning.conftest import CLS, SEP, Project, ids, records

from provender.errors import InputError, SettingsError
from provender.nlp import get_data_loader
from provender.nlp.finetuning import eval_windows, prepare_eval, write_squad_eval_records
from provender.nlp.finetuning.squad_eval import eval_options, padding_of
from provender.nlp.inputs import build_inputs
from provender.nlp.loaders import QADataConfig, SentencePredictionDataConfig, TaggingDataConfig

CONTEXT = "The cat sat on the mat. The dog is a good dog. Who did it?"


def first_batch(config: Any) -> Any:
    return next(iter(get_data_loader(config).load().as_numpy_iterator()))


def test_sentence_prediction(project: Project) -> None:
    project.write("in/train-en.tsv", "the cat\tit sat\tneutral\nx\ty\tentailment\n")
    project.make(classification_task_name="XTREME-XNLI", input_data_dir=project.out("in"))
    batch = first_batch(
        SentencePredictionDataConfig(
            input_path=project.out("train.tfrecord"), seq_length=16, global_batch_size=2,
            is_training=False, include_example_id=True,
        )
    )  # fmt: skip
    assert batch["label_ids"].tolist() == [1, 0]
    assert batch["input_word_ids"][0][:7].tolist() == [
        CLS,
        *ids("the cat"),
        SEP,
        *ids("it sat"),
        SEP,
    ]
    assert batch["example_id"].tolist() == [0, 1]


def test_tagging(project: Project) -> None:
    project.write("in/train-en.tsv", "cats\tB-PER\n")
    project.make(fine_tuning_task_type="tagging", input_data_dir=project.out("in"))
    x, y = first_batch(
        TaggingDataConfig(
            input_path=project.out("train.tfrecord"), seq_length=16, global_batch_size=1,
            is_training=False, include_sentence_id=True,
        )
    )  # fmt: skip
    assert y.tolist() == [[-1, 1, *[-1] * 14]]
    assert x["sentence_id"].tolist() == [0]


def questions(project: Project, *texts: str, name: str = "squad.json") -> str:
    qas = [
        {"id": f"q{i}", "question": text, "answers": [{"text": "dog", "answer_start": 28}]}
        for i, text in enumerate(texts)
    ]
    doc = {"data": [{"paragraphs": [{"context": CONTEXT, "qas": qas}]}]}
    return str(project.write(name, json.dumps(doc)))


@pytest.mark.parametrize("xlnet", [False, True])
def test_question_answering(project: Project, xlnet: bool) -> None:
    file = questions(project, "who sat ?")
    project.make(
        fine_tuning_task_type="squad", squad_data_file=file, xlnet_format=xlnet, max_seq_length=32
    )
    config = QADataConfig(
        input_path=project.out("train.tfrecord"), seq_length=32, global_batch_size=1,
        xlnet_format=xlnet, is_training=True,
    )  # fmt: skip
    x, y = first_batch(config)
    at = int(y["start_positions"][0])
    assert x["input_word_ids"][0][at] == ids("dog")[0]
    assert ("is_impossible" in y) == xlnet


def eval_config(project: Project, **more: Any) -> QADataConfig:
    usual = {
        "input_path": questions(project, "who sat ?", "what is it ?"), "is_training": False,
        "seq_length": 16, "doc_stride": 3, "vocab_file": project.vocab, "global_batch_size": 4,
        "input_preprocessed_data_path": project.out("eval"), "drop_remainder": True,
    }  # fmt: skip
    return QADataConfig(**{**usual, **more})


def test_evaluation_answers_come_back_as_text(project: Project) -> None:
    config = prepare_eval(eval_config(project))
    assert config.input_path == project.out("eval/eval.tf_record")
    windows = dict(eval_windows(str(project.folder / "squad.json"), eval_options(config)))
    seen: list[int] = []
    best: Counter[tuple[str, int]] = Counter()
    for x, y in get_data_loader(config).load().as_numpy_iterator():
        assert y == {}
        for unique, tokens in zip(x["unique_ids"], x["input_word_ids"], strict=True):
            seen.append(int(unique))
            if int(unique) not in windows:
                continue
            window = windows[int(unique)]
            for place, token in enumerate(tokens.tolist()):
                at = window.token(place)
                if at is not None:
                    assert window.passage.ids[at] == token
                    best[window.question.id, at] += window.has_most_context(place)
            first = tokens.tolist().index(ids("cat")[0]) if ids("cat")[0] in tokens else None
            if first is not None:
                assert window.text(first, first) == "cat"
                assert window.text(first, 0) is None
    # No window is lost although incomplete batches are dropped, and none is there twice.
    assert set(windows) <= set(seen)
    assert len(seen) == len(set(seen))
    assert len(seen) % 4 == 0
    assert len(seen) - len(windows) == padding_of(len(windows), 4)
    passage = next(iter(windows.values())).passage
    assert best == Counter({(q, i): 1 for q in ("q0", "q1") for i in range(len(passage.ids))})


@pytest.mark.parametrize("batch", [1, 2, 3, 5, 48])
def test_padding_completes_the_last_batch_and_no_more(project: Project, batch: int) -> None:
    config = eval_config(project)
    file = str(config.input_path)
    made = write_squad_eval_records(file, project.out("e"), eval_options(config), batch_size=batch)
    rows = records(project.out("e"))
    assert len(rows) == made.windows + made.padding
    assert len(rows) % batch == 0
    assert made.padding < batch
    assert made.questions == 2
    assert [each["unique_ids"][0] for each in rows] == [10**9 + i for i in range(len(rows))]
    for each in rows[made.windows :]:
        assert {**each, "unique_ids": 0} == {**rows[made.windows - 1], "unique_ids": 0}
    assert "start_positions" not in rows[0]
    again = Path(project.out("e")).read_bytes()
    write_squad_eval_records(file, project.out("e"), eval_options(config), batch_size=batch)
    assert Path(project.out("e")).read_bytes() == again


def test_evaluation_needs_a_folder_and_questions(project: Project) -> None:
    config = eval_config(project, input_preprocessed_data_path="")
    with pytest.raises(SettingsError, match=r"no folder for the records"):
        prepare_eval(config)
    assert prepare_eval(config, project.out("logs")).input_path.endswith("logs/eval.tf_record")
    data = build_inputs("question_answering", config, logging_dir=project.out("task"))
    x, _ = next(iter(data.as_numpy_iterator()))
    assert x["input_word_ids"].shape == (4, 16)
    assert (project.folder / "task" / "eval.tf_record").exists()
    training = eval_config(project, is_training=True)
    assert prepare_eval(training) is training
    with pytest.raises(InputError, match=r"has no questions"):
        prepare_eval(eval_config(project, input_path=questions(project, name="none.json")))
    with pytest.raises(SettingsError, match=r"A batch of 0"):
        write_squad_eval_records("x", project.out("x"), eval_options(config), batch_size=0)
