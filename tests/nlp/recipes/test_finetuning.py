"""Fine-tuning records as datasets of a project."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from tests.nlp.finetuning.conftest import VOCABULARY
from tests.nlp.recipes.conftest import Project, records_of
from tests.nlp.recipes.test_bert import key_of

from provender.data import Dataset, Value
from provender.errors import ProvenderError
from provender.nlp.finetuning import Options, create
from provender.nlp.pretraining.examples import decode

WORDS = ("the cat sat", "a good dog who did it", "the mat is unhappy", "what sleep ?", "it (x) y")
CONTEXT = "The cat sat on the mat. The dog (1895-1943) is good."
RECORDS = "examples/records"


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Project:
    """A project with ``pairs:1.0.0``, whose tests build datasets of names of their own."""
    found = Project(tmp_path_factory.mktemp("project"))
    publish(found, "pairs", pairs(), "1.0.0")
    return found


@pytest.fixture
def project(shared: Project) -> Project:
    (shared.root / "vocab.txt").write_text("\n".join(VOCABULARY) + "\n")
    return shared


def publish(project: Project, name: str, rows: dict[str, list[Any]], version: str) -> None:
    made = Dataset.from_dict(rows)
    if "score" in rows:
        made = made.cast_column("score", Value("float32"))
    made.publish(name, version=version, num_shards=3, settings=project.settings, workers=1)


def pairs(count: int = 40) -> dict[str, list[Any]]:
    return {
        "first": [WORDS[i % 5] for i in range(count)],
        "second": [WORDS[i * i % 5] for i in range(count)],
        "label": [i % 3 for i in range(count)],
        "kind": [("no", "yes", "maybe")[i % 3] for i in range(count)],
        "score": [i / 8 for i in range(count)],
    }


def scripted(project: Project, **given: Any) -> list[bytes]:
    """The records that the command makes."""
    out = project.root / "train.tfrecord"
    out.unlink(missing_ok=True)
    usual = {
        "vocab_file": str(project.root / "vocab.txt"),
        "train_data_output_path": str(out),
        "meta_data_file_path": str(project.root / "meta.json"),
        "max_seq_length": 16,
    }
    create(Options(**{**usual, **given}), workers=1, settings=project.settings)
    return records_of(out)


def sentences(**changed: Any) -> dict[str, Any]:
    usual = {"builder": "SentencePairs", "source": "pairs:1.0.0", "text": ["first", "second"]}
    usual |= {"vocab_file": "vocab.txt", "max_seq_length": 16, "shards": 2}
    return {name: value for name, value in (usual | changed).items() if value is not None}


NUMBERS = {"dataset": "pairs", "text_key": "first", "text_b_key": "second", "label_key": "score"}
NUMBERS |= {"is_regression": "true", "label_type": "float", "weight_key": "score"}


def test_sentences_are_those_of_the_command(project: Project) -> None:
    project.write(
        numbers=sentences(label="score", regression=True, weight="score"),
        one=sentences(text="first", label="kind", labels=["no", "yes", "maybe"]),
        blind=sentences(label=False),
        held=sentences(unlabeled=["test"], splits={"train": "train", "test": "train"}),
    )
    numbers = project.build("numbers", workers=2)
    params = ",".join(f"{key}={value}" for key, value in NUMBERS.items())
    ref = {"version_ref": "pairs:1.0.0", "tfds_params": params}
    expected = scripted(project, fine_tuning_task_type="regression", **ref)
    assert project.records(numbers) == expected
    assert project.build("numbers").outcome == "cached"
    catalog = project.session("numbers").catalog
    assert "pairs:1.0.0" in {each.name for each in catalog.lineage(numbers.version.id).nodes}

    rows = _read(project, "one", "train")
    assert [int(row["label_ids"][0]) for row in rows] == [i % 3 for i in range(40)]
    assert [int(row["example_id"][0]) for row in rows] == list(range(40))
    assert "label_ids" not in _read(project, "blind", "train")[0]
    assert {int(row["label_ids"][0]) for row in _read(project, "held", "test")} == {0}
    assert {int(row["label_ids"][0]) for row in _read(project, "held", "train")} == {0, 1, 2}


def _read(project: Project, name: str, split: str) -> list[dict[str, Any]]:
    built = project.build(name, workers=1)
    files = sorted(Path(built.version.uri).glob(f"*-{split}.tfrecord-*-of-00002"))
    return [decode(record) for each in files for record in records_of(each)]


def test_sentences_run_again_with_their_words(project: Project) -> None:
    project.write(words=sentences())
    project.build("words", workers=1)
    with (project.root / "vocab.txt").open("a") as file:
        file.write("more\n")
    assert "setting -> vocab_file: " in project.why("words")
    project.write(words=sentences(version="1.1.0"))
    ran = project.build("words", workers=1).ran
    shards = (f"shards/train/0000{i}" for i in range(2))
    assert ran == ("download", "splits", RECORDS, *shards, "register")


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"text": ["first", "second", "kind"]}, "one text or two"),
        ({"text": "third"}, "There is no feature 'third'"),
        ({"text": "label"}, "'label' of pairs:1.0.0 holds no text"),
        ({"label": "grade"}, "has no feature 'grade'"),
        ({"label": "kind"}, "is 'no', which is no class"),
        ({"regression": True, "labels": ["a"]}, "labels are no classes"),
        ({"unlabeled": ["test"]}, "no split 'test'"),
        ({"splits": {"train": "valid"}}, "has no split 'valid'"),
        ({"doc_stride": 8}, "There is no option 'doc_stride'"),
        ({"shards": 99}, "cannot fill 99 shards"),
    ],
)
def test_sentences_that_cannot_be_made(
    project: Project, changed: dict[str, Any], message: str
) -> None:
    project.write(x=sentences(**changed))
    with pytest.raises(ProvenderError, match=message):
        project.build("x", workers=1)


def squad(**changed: Any) -> dict[str, Any]:
    usual = {"builder": "SquadExamples", "input_file": "squad.json", "shards": 2}
    usual |= {"vocab_file": "vocab.txt", "max_seq_length": 20, "doc_stride": 4}
    return {name: value for name, value in (usual | changed).items() if value is not None}


def questions(count: int = 30) -> list[dict[str, Any]]:
    answers = ("cat", "mat", "dog", "1895", "nowhere")
    return [
        {
            "context": f"{CONTEXT} It did {WORDS[i // 3 % 5]}.",
            "question": f"who {WORDS[i % 5]}",
            "text": answers[i % 5],
            "start": max(CONTEXT.find(answers[i % 5]), 0),
        }
        for i in range(count)
    ]


def write_squad(project: Project) -> None:
    paragraphs = [
        {
            "context": each["context"],
            "qas": [
                {
                    "id": str(i),
                    "question": each["question"],
                    "answers": [{"text": each["text"], "answer_start": each["start"]}],
                }
            ],
        }
        for i, each in enumerate(questions())
    ]
    doc = {"data": [{"paragraphs": paragraphs}]}
    (project.root / "squad.json").write_text(json.dumps(doc))


def test_windows_are_those_of_the_command(project: Project) -> None:
    write_squad(project)
    rows = questions()
    publish(
        project,
        "asked",
        {
            "context": [each["context"] for each in rows],
            "question": [each["question"] for each in rows],
            "answers": [{"text": [e["text"]], "answer_start": [e["start"]]} for e in rows],
        },
        "1.0.0",
    )
    project.write(filed=squad(), asked_bert=squad(input_file=None, source="asked:1.0.0", shards=3))
    filed = project.build("filed", workers=2)
    file = str(project.root / "squad.json")
    flags = {"fine_tuning_task_type": "squad", "squad_data_file": file, "max_seq_length": 20}
    expected = scripted(project, doc_stride=4, **flags)
    assert len(expected) > len(rows)
    assert project.records(filed) == expected
    assert key_of(filed.ran) == {RECORDS}
    asked = project.build("asked_bert", workers=1)
    assert project.records(asked) == expected
    assert project.build("asked_bert").outcome == "cached"

    # The number of files is the shards' business alone; the stride is not.
    project.write(filed=squad(shards=1, version="1.1.0"))
    assert key_of(project.build("filed", workers=1).ran) == set()
    project.write(filed=squad(doc_stride=5, version="1.2.0"))
    assert key_of(project.build("filed", workers=1).ran) == {RECORDS}
    with (project.root / "vocab.txt").open("a") as words:
        words.write("more\n")
    project.write(filed=squad(version="1.3.0"))
    again = project.build("filed", workers=1)
    assert key_of(again.ran) == {RECORDS} and project.records(again) == expected


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"source": "asked:1.0.0"}, "either a published version's or files'"),
        ({"input_file": None, "source": "pairs:1.0.0"}, "There is no feature 'context'"),
        ({"input_file": "vocab.txt"}, "is no SQuAD JSON"),
        ({"stride": 8}, "There is no option 'stride'"),
        ({"max_seq_length": 8}, "leaves none of 8"),
    ],
)
def test_windows_that_cannot_be_made(
    project: Project, changed: dict[str, Any], message: str
) -> None:
    write_squad(project)
    project.write(x=squad(**changed))
    with pytest.raises(ProvenderError, match=message):
        project.build("x", workers=1)
