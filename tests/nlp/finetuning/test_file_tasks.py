"""Tasks from their publishers' files, in the publishers' layouts."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.nlp.finetuning.conftest import Project, pairs

from provender.errors import InputError, MissingFiles, SettingsError
from provender.nlp.finetuning.tasks import PAWSX_LANGUAGES, XNLI_LANGUAGES

HEAD = "premise\thypothesis\tlabel\n"
ENTAILMENT, NEUTRAL, CONTRADICTION = 0, 1, 2
OTHERS = [each for each in XNLI_LANGUAGES if each != "en"]


def labels(project: Project, name: str) -> list[int]:
    return [each["label_ids"][0] for each in project.records(name)]


def inputs(project: Project, name: str) -> list[list[int]]:
    return [each["input_ids"] for each in project.records(name)]


def of(*segments: str) -> list[int]:
    return pairs(*segments, length=16)["input_ids"]


def test_imdb(project: Project) -> None:
    for split in ("train", "test"):
        project.write(f"in/{split}/pos/2_9.txt", f"a good<br />film {split}\n")
        project.write(f"in/{split}/neg/7_1.txt", "bad")
        project.write(f"in/{split}/neg/0_1.txt", "a bad film")
    project.make(
        classification_task_name="IMDB",
        input_data_dir=project.out("in"),
        eval_data_output_path=project.out("eval"),
    )
    assert inputs(project, "train.tfrecord")[:2] == [of("a bad film"), of("bad")]
    assert inputs(project, "eval")[2][:5] == [*of("a good film")[:4], 1]
    assert labels(project, "train.tfrecord") == labels(project, "eval") == [0, 0, 1]
    assert project.meta["label_names"] == ["neg", "pos"]


def pawsx(project: Project) -> None:
    head = "id\tsentence1\tsentence2\tlabel\n"
    for lang in PAWSX_LANGUAGES:
        name = "train" if lang == "en" else "translated_train"
        word = "cat" if lang == "en" else "dog"
        project.write(f"in/{lang}/{name}.tsv", f"{head}1\tthe {word}\tit\t1\n")
        project.write(f"in/{lang}/dev_2k.tsv", f"{head}1\tx\t{word}\t0\n")
        project.write(f"in/{lang}/test_2k.tsv", f"{head}1\tx\ty\t1\n2\ty\tz\t0\n")


def test_pawsx(project: Project) -> None:
    pawsx(project)
    project.make(
        classification_task_name="PAWS-X",
        input_data_dir=project.out("in"),
        eval_data_output_path=project.out("eval"),
        test_data_output_path=project.out("test.{}"),
    )
    assert inputs(project, "train.tfrecord") == [of("the cat", "it")]
    assert len(inputs(project, "eval")) == len(PAWSX_LANGUAGES)
    assert all(labels(project, f"test.{lang}") == [1, 0] for lang in PAWSX_LANGUAGES)
    assert project.meta["processor_type"] == "XTREME-PAWS-X"
    assert project.meta["test_ko_data_size"] == 2


def test_pawsx_in_all_languages(project: Project) -> None:
    pawsx(project)
    project.make(
        classification_task_name="PAWS-X",
        input_data_dir=project.out("in"),
        pawsx_language="all",
    )
    assert len(inputs(project, "train.tfrecord")) == len(PAWSX_LANGUAGES)


def xnli(project: Project) -> None:
    for lang in XNLI_LANGUAGES:
        text = f"{HEAD}the cat\tit sat\tcontradictory\nx\ty\tneutral\n"
        project.write(f"in/multinli/multinli.train.{lang}.tsv", text)
    head = "language\tgold_label\ta\tb\tc\td\tsentence1\tsentence2\n"
    for split in ("dev", "test"):
        lines = [
            f"{lang}\tentailment\t\t\t\t\tthe dog\t{'x' if lang == 'en' else 'y'}\n"
            for lang in XNLI_LANGUAGES
        ]
        project.write(f"in/xnli.{split}.tsv", head + "".join(lines))


def test_xnli(project: Project) -> None:
    xnli(project)
    project.make(
        classification_task_name="XNLI",
        input_data_dir=project.out("in"),
        eval_data_output_path=project.out("eval"),
        test_data_output_path=project.out("test-{}"),
    )
    assert inputs(project, "train.tfrecord") == [of("the cat", "it sat"), of("x", "y")]
    assert labels(project, "train.tfrecord") == [CONTRADICTION, NEUTRAL]
    assert len(inputs(project, "eval")) == len(XNLI_LANGUAGES)
    assert inputs(project, "test-en") == [of("the dog", "x")]
    assert inputs(project, "test-de") == [of("the dog", "y")]
    assert labels(project, "test-de") == [ENTAILMENT]


def test_xnli_in_all_languages(project: Project) -> None:
    xnli(project)
    given = {"classification_task_name": "XNLI", "input_data_dir": project.out("in")}
    project.make(**given, xnli_language="all")
    assert len(inputs(project, "train.tfrecord")) == 2 * len(XNLI_LANGUAGES)


def xtreme(project: Project) -> None:
    project.write("in/train-en.tsv", "the cat\tit sat\tcontradictory\n")
    for lang in XNLI_LANGUAGES:
        project.write(f"in/dev-{lang}.tsv", "x\ty\tneutral\n")
        project.write(f"in/test-{lang}.tsv", "x\tz\n")
    for lang in OTHERS:
        row = "o\to\tthe dog\tit sat\tentailment\n"
        project.write(f"tr/translate-train/en-{lang}-translated.tsv", row)
        project.write(f"tr/translate-test/test-{lang}-en-translated.tsv", "o\to\ty\ty\n")


def test_xtreme(project: Project) -> None:
    xtreme(project)
    project.make(
        classification_task_name="XTREME-XNLI",
        input_data_dir=project.out("in"),
        eval_data_output_path=project.out("eval"),
        test_data_output_path=project.out("test-{}"),
    )
    assert inputs(project, "train.tfrecord") == [of("the cat", "it sat")]
    assert labels(project, "train.tfrecord") == [CONTRADICTION]
    assert labels(project, "eval") == [NEUTRAL]
    assert inputs(project, "test-sw") == [of("x", "z")]
    assert labels(project, "test-sw") == [0]


def test_xtreme_translated(project: Project) -> None:
    xtreme(project)
    project.make(
        classification_task_name="XTREME-XNLI",
        input_data_dir=project.out("in"),
        translated_input_data_dir=project.out("tr"),
        only_use_en_dev=False,
        eval_data_output_path=project.out("eval"),
        test_data_output_path=project.out("test-{}"),
    )
    train = inputs(project, "train.tfrecord")
    assert train == [of("the cat", "it sat")] + [of("the dog", "it sat")] * len(OTHERS)
    assert len(inputs(project, "eval")) == len(XNLI_LANGUAGES)
    assert inputs(project, "test-de-en") == [of("y", "y")]
    assert not (project.folder / "test-en-en").exists()
    assert project.meta["test_de-en_data_size"] == 1


def xtreme_pawsx(project: Project) -> None:
    project.write("in/train-en.tsv", "the cat\tit sat\t1\n")
    for lang in PAWSX_LANGUAGES:
        project.write(f"in/dev-{lang}.tsv", "x\ty\t0\n")
        project.write(f"in/test-{lang}.tsv", "x\tz\n")
        # Such rows are in the published translations.
        text = "o\to\tthe dog\tit sat\t1\no\to\tx\to\to\no\to\n"
        project.write(f"tr/translate-train/en-{lang}-translated.tsv", text)
        project.write(f"tr/translate-test/test-{lang}-en-translated.tsv", "o\to\ty\tz\t1\n")


def test_xtreme_pawsx(project: Project) -> None:
    xtreme_pawsx(project)
    project.make(
        classification_task_name="XTREME-PAWS-X",
        input_data_dir=project.out("in"),
        eval_data_output_path=project.out("eval"),
        test_data_output_path=project.out("test-{}"),
    )
    (train,) = project.records("train.tfrecord")
    assert train == {
        **pairs("the cat", "it sat", length=16),
        "label_ids": [1],
        "is_real_example": [1],
        "example_id": [0],
    }
    assert (inputs(project, "eval"), labels(project, "eval")) == ([of("x", "y")], [0])
    for lang in PAWSX_LANGUAGES:
        assert inputs(project, f"test-{lang}") == [of("x", "z")]
        assert labels(project, f"test-{lang}") == [0]
    assert project.meta["processor_type"] == "XTREME-PAWS-X"
    assert project.meta["label_names"] == ["0", "1"]


def test_xtreme_pawsx_translated(project: Project) -> None:
    xtreme_pawsx(project)
    made = project.make(
        classification_task_name="XTREME-PAWS-X",
        input_data_dir=project.out("in"),
        translated_input_data_dir=project.out("tr"),
        test_data_output_path=project.out("test-{}"),
    )
    others = len(PAWSX_LANGUAGES) - 1
    train = inputs(project, "train.tfrecord")
    assert train == [of("the cat", "it sat")] + [of("the dog", "it sat")] * others
    assert labels(project, "train.tfrecord") == [1] * (1 + others)
    assert made.notes["rows of en-de-translated.tsv without a label"] == 2
    assert len(made.notes) == others
    assert inputs(project, "test-ko-en") == [of("y", "z")]
    # The publisher's own files of English have no such rows: there they are told as wrong.
    project.write("in/train-en.tsv", "the cat\tit sat\tit\n")
    with pytest.raises(InputError, match=r"Line 1 of train-en.tsv has the label 'it'"):
        project.make(classification_task_name="XTREME-PAWS-X", input_data_dir=project.out("in"))


def test_axg(project: Project) -> None:
    project.write(
        "in/AX-g.jsonl",
        '{"premise": "the cat", "hypothesis": "it", "label": "not_entailment", "idx": 0}\n',
    )
    given = {"classification_task_name": "AX-g", "input_data_dir": project.out("in")}
    test = {"test_data_output_path": project.out("test")}
    project.make(**given, **test, train_data_output_path=None)
    assert inputs(project, "test") == [of("the cat", "it")]
    assert labels(project, "test") == [1]
    assert project.meta["processor_type"] == "AXg"
    with pytest.raises(SettingsError, match=r"AX-g has no train data"):
        project.make(**given, **test)
    project.write("in/AX-g.jsonl", '{"premise": "x"}\n')
    with pytest.raises(InputError, match=r"Line 1 of AX-g.jsonl is no JSON object with premise"):
        project.make(**given, **test, train_data_output_path=None)


@pytest.mark.parametrize(
    ("text", "said", "where"),
    [
        (f"{HEAD}x\ty\tneutral\nx\ty\n", "Line 3 of .* has 2 columns, and 3 are needed", ":3"),
        (f"{HEAD}x\ty\tmaybe\n", "Line 2 of .* has the label 'maybe'(.|\n)*contradiction", ":2"),
        (HEAD, "There are no examples for train", "train.tfrecord"),
    ],
)
def test_tables_that_are_wrong(project: Project, text: str, said: str, where: str) -> None:
    path = project.write("in/multinli/multinli.train.en.tsv", text)
    with pytest.raises(InputError, match=said) as found:
        project.make(classification_task_name="XNLI", input_data_dir=project.out("in"))
    assert str(found.value.where).endswith(where)
    left = [each for each in project.folder.rglob("*") if each.is_file()]
    assert left == [path]


def test_bytes_that_are_no_text(project: Project) -> None:
    path = project.write("in/train-en.tsv", "x\ty\tneutral\n")
    path.write_bytes(path.read_bytes() + b"\xff\n")
    with pytest.raises(InputError, match=r"Line 2 of train-en.tsv is not UTF-8"):
        project.make(classification_task_name="XTREME-XNLI", input_data_dir=project.out("in"))


def test_files_that_are_missing_are_named(project: Project) -> None:
    given = {"classification_task_name": "XTREME-XNLI"}
    with pytest.raises(MissingFiles, match=r"no folder .*/absent"):
        project.make(**given, input_data_dir=project.out("absent"))
    project.write("in/train-en.tsv", "x\ty\tneutral\n")
    project.write("in/dev-en.tsv", "x\ty\tneutral\n")
    with pytest.raises(MissingFiles, match=r"no file test-ar.tsv(.|\n)*dev-en.tsv, train-en.tsv"):
        project.make(
            **given,
            input_data_dir=project.out("in"),
            test_data_output_path=project.out("test-{}"),
        )
    # What is read is looked for before anything is made.
    assert not (project.folder / "train.tfrecord").exists()


def test_tests_in_several_languages_need_a_place_for_each(project: Project) -> None:
    xtreme(project)
    with pytest.raises(SettingsError, match=r"several languages(.|\n)*{}"):
        project.make(
            classification_task_name="XTREME-XNLI",
            input_data_dir=project.out("in"),
            test_data_output_path=project.out("test"),
        )


def test_missing_reviews(project: Project) -> None:
    Path(project.out("in/train/neg")).mkdir(parents=True)
    with pytest.raises(MissingFiles, match=r"no files neg/\*.txt"):
        project.make(classification_task_name="IMDB", input_data_dir=project.out("in"))
