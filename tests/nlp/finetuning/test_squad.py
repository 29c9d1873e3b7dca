"""SQuAD for training: exact features, windows, answers."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.nlp.finetuning.conftest import CLS, SEP, Project, ids

from provender.errors import InputError, MissingFiles, SettingsError
from provender.nlp.finetuning.windows import Span, best_window, spans

CONTEXT = "The cat sat on the mat. The dog (1895-1943) is good."


def question(text: str, answer: str = "", start: int = -1, **more: Any) -> dict[str, Any]:
    answers = [{"text": answer, "answer_start": start if start >= 0 else CONTEXT.find(answer)}]
    return {"id": text, "question": text, "answers": answers if answer else [], **more}


def squad(project: Project, *questions: dict[str, Any], name: str = "squad.json") -> str:
    doc = {"data": [{"paragraphs": [{"context": CONTEXT, "qas": list(questions)}]}]}
    return str(project.write(name, json.dumps(doc)))


def make(project: Project, *questions: dict[str, Any], **given: Any) -> Any:
    usual = {"fine_tuning_task_type": "squad", "squad_data_file": squad(project, *questions)}
    return project.make(**{**usual, "max_seq_length": 24, **given})


TOKENS = ids("the cat sat on the mat . the dog ( 1895 - 1943 ) is good .")


def test_the_features_of_a_window(project: Project) -> None:
    make(project, question("Who sat?", "cat"))
    (row,) = project.records("train.tfrecord")
    assert row == {
        "unique_ids": [1_000_000_000],
        "input_ids": [CLS, *ids("who sat ?"), SEP, *TOKENS, SEP, 0],
        "input_mask": [1] * 23 + [0],
        "segment_ids": [0] * 5 + [1] * 18 + [0],
        "paragraph_mask": [1, 0, 0, 0, 0] + [1] * 17 + [0, 0],
        "class_index": [0],
        "start_positions": [6],
        "end_positions": [6],
        "is_impossible": [0],
    }
    assert project.meta == {
        "task_type": "bert_squad",
        "train_data_size": 1,
        "max_seq_length": 24,
        "max_query_length": 64,
        "doc_stride": 128,
        "version_2_with_negative": False,
    }


def test_xlnets_format(project: Project) -> None:
    make(project, question("Who sat?", "cat"), xlnet_format=True)
    (row,) = project.records("train.tfrecord")
    assert row["input_ids"] == [*TOKENS, SEP, *ids("who sat ?"), SEP, CLS, 0]
    assert row["segment_ids"] == [0] * 18 + [1] * 4 + [2, 3]
    assert row["paragraph_mask"] == [1] * 17 + [0] * 5 + [1, 0]
    assert row["class_index"] == [22]
    assert (row["start_positions"], row["end_positions"]) == ([1], [1])


def test_windows_of_a_passage(project: Project) -> None:
    make(project, question("Who sat?", "1895"), max_seq_length=16, doc_stride=4)
    rows = project.records("train.tfrecord")
    passages = [each["input_ids"][5:15] for each in rows]
    assert passages == [TOKENS[:10], TOKENS[4:14], [*TOKENS[8:], SEP]]
    assert [each["unique_ids"][0] for each in rows] == [10**9, 10**9 + 1, 10**9 + 2]
    # Where the answer is not in the window, both places are 0.
    assert [each["start_positions"] for each in rows] == [[0], [11], [7]]
    assert [each["end_positions"] for each in rows] == [[0], [11], [7]]
    assert [each["is_impossible"] for each in rows] == [[1], [0], [0]]


def test_an_answer_inside_a_word_is_narrowed(project: Project) -> None:
    make(project, question("x", "1895", CONTEXT.find("1895")), question("y", "1895-1943"))
    one, two = project.records("train.tfrecord")
    at = one["input_ids"].index(ids("1895")[0])
    assert (one["start_positions"], one["end_positions"]) == ([at], [at])
    assert (two["start_positions"], two["end_positions"]) == ([at], [at + 2])


def test_questions_without_an_answer(project: Project) -> None:
    make(project, question("x", is_impossible=True), version_2_with_negative=True)
    (row,) = project.records("train.tfrecord")
    assert (row["start_positions"], row["end_positions"], row["is_impossible"]) == ([0], [0], [1])
    with pytest.raises(InputError, match=r"Question x has 0 answers(.|\n)*version_2_with_negative"):
        make(project, question("x", is_impossible=True))


def test_several_answers_are_of_another_file(project: Project) -> None:
    asked = question("x", "cat")
    asked["answers"] *= 2
    with pytest.raises(InputError, match=r"has 2 answers; for training it needs exactly 1"):
        make(project, asked)


def test_answers_that_are_not_there_are_counted(project: Project) -> None:
    made = make(project, question("a", "cow", 4), question("b", "cat"), question("c", "cat", 400))
    assert made.notes == {"answers not found in their passage": 2}
    assert len(project.records("train.tfrecord")) == 1
    again = make(project, question("a", "cow", 4), question("b", "cat"), question("c", "cat", 400))
    assert [each.outcome for each in again.outputs] == ["unchanged"]
    assert again.notes == made.notes
    with pytest.raises(InputError, match=r"no examples for train"):
        make(project, question("a", "cow", 4))


def test_translations(project: Project) -> None:
    squad(project, question("x", "mat"), name="tr/b.json")
    squad(project, question("y", "dog"), name="tr/a.json")
    make(project, question("x", "cat"), translated_squad_data_folder=project.out("tr"))
    rows = project.records("train.tfrecord")
    answers = [each["input_ids"][each["start_positions"][0]] for each in rows]
    assert answers == ids("cat dog mat")
    with pytest.raises(MissingFiles, match=r"no folder"):
        make(project, question("x", "cat"), translated_squad_data_folder=project.out("none"))


def test_questions_are_cut(project: Project) -> None:
    make(project, question("who who who sat", "cat"), max_query_length=2)
    assert project.records("train.tfrecord")[0]["input_ids"][:4] == [CLS, *ids("who who"), SEP]


def test_no_room_for_the_passage(project: Project) -> None:
    with pytest.raises(InputError, match=r"takes 5 tokens and leaves none of 8(.|\n)*max_seq_len"):
        make(project, question("who who who sat ?", "cat"), max_seq_length=8)
    assert not (project.folder / "train.tfrecord").exists()


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("{", "no SQuAD JSON"),
        ('{"data": [{"paragraphs": [{"context": "x"}]}]}', r"data\[0\].paragraphs\[0\].*qas"),
        ('{"version": 1}', "KeyError 'data'"),
    ],
)
def test_files_that_are_no_squad(project: Project, text: str, said: str) -> None:
    path = project.write("bad.json", text)
    with pytest.raises(InputError, match=said):
        make(project, squad_data_file=str(path))


def test_what_squad_needs(project: Project) -> None:
    with pytest.raises(MissingFiles, match=r"no file absent.json"):
        make(project, squad_data_file=project.out("absent.json"))
    with pytest.raises(SettingsError, match=r"made for training"):
        make(project, question("x", "cat"), eval_data_output_path=project.out("e"))


@given(st.integers(1, 400), st.integers(1, 60), st.integers(1, 80))
def test_windows_cover_every_token(tokens: int, room: int, stride: int) -> None:
    found = spans(tokens, room, stride)
    assert set(range(tokens)) == {i for each in found for i in range(each.start, each.stop)}
    assert all(each.length <= room for each in found)
    assert [each.stop == tokens for each in found].index(True) == len(found) - 1
    starts = [each.start for each in found]
    assert starts == [i * min(room, stride) for i in range(len(found))]


def slow_best(windows: list[Span], token: int) -> int:
    """As SQuAD's code for BERT says it."""
    best, best_score = -1, float("-inf")
    for i, each in enumerate(windows):
        end = each.start + each.length - 1
        if each.start <= token <= end:
            score = min(token - each.start, end - token) + 0.01 * each.length
            if score > best_score:
                best, best_score = i, score
    return best


@given(st.integers(1, 120), st.integers(1, 30), st.integers(1, 30))
def test_the_window_with_most_context(tokens: int, room: int, stride: int) -> None:
    windows = spans(tokens, room, stride)
    for token in range(tokens):
        assert best_window(windows, token) == slow_best(windows, token)
