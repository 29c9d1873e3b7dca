"""Files that appear whole, stay where nothing changed, and do not depend on the processes."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest
from tests.nlp.finetuning.conftest import Project

from provender.errors import InputError, MissingFiles, SettingsError, StoreError, WorkerDied
from provender.nlp.finetuning import Options, outputs
from provender.nlp.finetuning.tagging import SentenceEncoder


@pytest.fixture
def tagged(project: Project) -> dict[str, Any]:
    """What makes two files."""
    text = "".join(f"cat\tO\n{each}\tB-PER\n\n" for each in "the dog sat on x y".split() * 300)
    project.write("in/train-en.tsv", text)
    project.write("in/dev-en.tsv", "cat\tO\n\nx\tB-PER\n")
    return {
        "fine_tuning_task_type": "tagging",
        "input_data_dir": project.out("in"),
        "eval_data_output_path": project.out("eval"),
    }


def outcomes(made: Any) -> list[str]:
    return [each.outcome for each in made.outputs]


def test_the_same_bytes_from_any_processes(project: Project, tagged: dict[str, Any]) -> None:
    project.make(**tagged)
    names = ("train.tfrecord", "eval", "meta.json")
    before = [(project.folder / each).read_bytes() for each in names]
    for each in names:
        (project.folder / each).unlink()
    assert outcomes(project.make(workers=2, **tagged)) == ["made", "made"]
    assert [(project.folder / each).read_bytes() for each in names] == before


def test_what_did_not_change_is_left_alone(project: Project, tagged: dict[str, Any]) -> None:
    told: list[tuple[str, int, int, str]] = []
    project.make(**tagged)
    assert outcomes(project.make(**tagged)) == ["unchanged", "unchanged"]
    dev = project.folder / "in" / "dev-en.tsv"
    dev.write_text(dev.read_text() + "y\tO\n")
    assert outcomes(project.make(**tagged)) == ["unchanged", "made"]
    (project.folder / "eval").write_bytes(b"cut off")
    assert outcomes(project.make(**tagged)) == ["unchanged", "made"]
    assert outcomes(project.make(**tagged, max_seq_length=12)) == ["made", "made"]
    vocab = Path(project.write("vocab.txt", Path(project.vocab).read_text() + "more\n"))
    assert outcomes(project.make(**tagged, max_seq_length=12, vocab_file=str(vocab))) == [
        "made",
        "made",
    ]
    moved = {**tagged, "train_data_output_path": project.out("elsewhere")}
    assert outcomes(project.make(**moved, max_seq_length=12, vocab_file=str(vocab))) == [
        "made",
        "unchanged",
    ]
    from provender.nlp.finetuning import create

    create(project.options(**tagged), workers=1, tell=lambda *each: told.append(each))
    assert told[0] == ("train", 0, 1800, "items")
    assert told[-1][0] == "eval"
    assert told[-1][1] == told[-1][2]


class Breaking(SentenceEncoder):
    """Ends its process at the second message."""

    def __call__(self, first: int, items: Any) -> Any:
        if first:
            os._exit(3)
        return super().__call__(first, items)


class Failing(SentenceEncoder):
    """Fails at the second message."""

    def __call__(self, first: int, items: Any) -> Any:
        if first:
            raise InputError("This breaks.")
        return super().__call__(first, items)


@pytest.mark.parametrize(
    ("kind", "error", "workers"),
    [(Failing, InputError, 1), (Failing, InputError, 2), (Breaking, WorkerDied, 2)],
)
def test_nothing_half_written(
    project: Project, tagged: dict[str, Any], kind: Any, error: type[Exception], workers: int
) -> None:
    from provender.nlp.finetuning import tagging

    (planned, _) = tagging.plan(project.options(**tagged), ("train", "eval"))
    broken = outputs.Planned(
        planned.key, planned.path, planned.source, planned.items, planned.total,
        kind(project.options(**tagged)),
    )  # fmt: skip
    with pytest.raises(error):
        outputs.make(broken, {}, workers, lambda *each: None)
    assert {each.name for each in project.folder.iterdir()} == {"in"}


def test_a_killed_process_leaves_nothing_to_be_seen(
    project: Project, tagged: dict[str, Any]
) -> None:
    """Nor anything at all, once the command or another one for the file has run again."""
    flags = {**tagged, "vocab_file": project.vocab, "max_seq_length": 16}
    flags |= {
        "train_data_output_path": project.out("train"),
        "meta_data_file_path": project.out("meta"),
    }
    program = (
        "import os, signal, sys\n"
        "from provender.nlp.finetuning import Options, create, tagging\n"
        "call = tagging.SentenceEncoder.__call__\n"
        "def dying(self, first, items):\n"
        "    return os.kill(os.getpid(), signal.SIGKILL) if first else call(self, first, items)\n"
        "tagging.SentenceEncoder.__call__ = dying\n"
        f"create(Options(**{flags!r}), workers=1)\n"
    )
    for length in (16, 12):
        done = subprocess.run(
            [
                sys.executable,
                "-c",
                program.replace("'max_seq_length': 16", f"'max_seq_length': {length}"),
            ]
        )
        assert done.returncode == -signal.SIGKILL
        assert all(
            each.name.startswith(".") or each.name == "in" for each in project.folder.iterdir()
        )
    project.make(**{**tagged, "train_data_output_path": project.out("train")})
    names = {each.name for each in project.folder.iterdir()}
    assert names == {"in", "train", ".train.made.json", "eval", ".eval.made.json", "meta.json"}


def test_input_files_are_not_written(project: Project, tagged: dict[str, Any]) -> None:
    file = project.out("in/train-en.tsv")
    before = Path(file).read_bytes()
    (project.folder / "link").symlink_to(project.folder / "in")
    for path in (file, project.out("link/train-en.tsv")):
        with pytest.raises(SettingsError, match=r"is a file that is read"):
            project.make(**tagged, train_data_output_path=path)
    assert Path(file).read_bytes() == before


def test_folders_that_cannot_be_written(project: Project, tagged: dict[str, Any]) -> None:
    project.write("file", "")
    with pytest.raises(StoreError, match=r"file"):
        project.make(**tagged, train_data_output_path=project.out("file/train"))
    with pytest.raises(SettingsError, match=r"is a folder"):
        project.make(**tagged, train_data_output_path=project.out("in"))
    with pytest.raises(SettingsError, match=r"written twice"):
        project.make(**tagged, train_data_output_path=project.out("eval"))
    assert {each.name for each in project.folder.iterdir()} == {"in", "file"}


def test_vocabularies_that_cannot_serve(project: Project, tagged: dict[str, Any]) -> None:
    with pytest.raises(MissingFiles, match=r"no vocabulary file none.txt"):
        project.make(**tagged, vocab_file="none.txt")
    vocab = project.write("vocab.txt", "[UNK]\n[SEP]\nx\n")
    with pytest.raises(InputError, match=r"has no \[CLS\]"):
        project.make(**tagged, vocab_file=str(vocab))


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"classification_task_name": "MLNI"}, "Did you mean MNLI"),
        ({"classification_task_name": "boolq", "input_data_dir": "x"}, "BoolQ is read by TFDS"),
        ({"classification_task_name": "IMDB"}, "IMDB needs --input_data_dir"),
        ({"fine_tuning_task_type": "taging"}, "Did you mean tagging"),
        ({"fine_tuning_task_type": "tagging"}, "tagging needs --input_data_dir"),
        ({"fine_tuning_task_type": "squad"}, "needs --squad_data_file"),
        ({"fine_tuning_task_type": "regression"}, "regression needs --tfds_params"),
        ({"fine_tuning_task_type": "retrieval", "input_data_dir": "x"}, "No output is named"),
        ({"xnli_language": "xx"}, "--xnli_language knows no 'xx'"),
        ({"tokenization": "SentencePiece"}, "SentencePiece needs --sp_model_file"),
        ({"vocab_file": None}, "WordPiece needs --vocab_file"),
        ({"train_data_output_path": None}, "--train_data_output_path is not given"),
        ({"meta_data_file_path": None}, "--meta_data_file_path is not given"),
        ({"max_seq_length": 4}, "--max_seq_length is 4"),
        ({"doc_stride": 0}, "--doc_stride is 0"),
    ],
)
def test_options_that_make_no_sense(project: Project, given: dict[str, Any], said: str) -> None:
    with pytest.raises(SettingsError, match=said):
        project.options(**given)


@pytest.mark.parametrize("target", ["train_data_output_path", "meta_data_file_path"])
def test_what_is_read_is_not_written(project: Project, target: str) -> None:
    before = Path(project.vocab).read_bytes()
    link = project.folder / "link"
    link.symlink_to(project.vocab)
    for path in (project.vocab, link):
        with pytest.raises(SettingsError, match=rf"--{target} is the file of --vocab_file"):
            project.make(**{target: str(path)})
    questions = project.write("squad.json", "{}")
    with pytest.raises(SettingsError, match=rf"--{target} is the file of --squad_data_file"):
        project.make(
            fine_tuning_task_type="squad",
            squad_data_file=str(questions),
            **{target: str(questions)},
        )
    assert Path(project.vocab).read_bytes() == before


def test_flags_have_the_published_names_and_defaults() -> None:
    """The flags of TF-NLP's script, as its documentation lists them."""
    published = {
        "fine_tuning_task_type": "classification", "input_data_dir": None,
        "classification_task_name": "MNLI", "mnli_type": "matched", "xnli_language": "en",
        "pawsx_language": "en", "translated_input_data_dir": None, "retrieval_task_name": "bucc",
        "tagging_task_name": "panx", "tagging_only_use_en_train": True, "squad_data_file": None,
        "translated_squad_data_folder": None, "doc_stride": 128, "max_query_length": 64,
        "version_2_with_negative": False, "xlnet_format": False, "only_use_en_dev": True,
        "vocab_file": None, "train_data_output_path": None, "eval_data_output_path": None,
        "test_data_output_path": None, "meta_data_file_path": None, "do_lower_case": True,
        "max_seq_length": 128, "sp_model_file": "", "tokenization": "WordPiece",
        "tfds_params": "",
    }  # fmt: skip
    ours = {each.name: each.default for each in fields(Options)}
    assert {name: ours[name] for name in published} == published
    assert set(ours) - set(published) == {"tfds_data_dir", "version_ref"}


def run(folder: Path, *args: str, code: int = 0, script: bool = False) -> Any:
    program = (
        ["-m", "provender.nlp.create_finetuning_data"]
        if script
        else ["-c", "from provender.cli import main; main()", "nlp", "create-finetuning-data"]
    )
    done = subprocess.run(
        [sys.executable, *program, *args],
        cwd=folder,
        env={**os.environ, "PROVENDER_HOME": str(folder / "home")},
        capture_output=True,
        text=True,
    )
    assert done.returncode == code, f"{args}\n{done.stdout}\n{done.stderr}"
    assert "Traceback" not in done.stderr
    return done


def test_commands(project: Project, tagged: dict[str, Any]) -> None:
    folder = project.folder
    done = run(
        folder, "--fine-tuning-task-type", "tagging", "--input-data-dir", "in", "--vocab-file",
        project.vocab, "--train-data-output-path", "1", "--meta-data-file-path", "m1",
        "--no-do-lower-case",
    )  # fmt: skip
    assert "1,800 examples" in done.stdout
    line = (
        "--fine_tuning_task_type=tagging", "--input_data_dir=in", f"--vocab_file={project.vocab}",
        "--train_data_output_path=2", "--meta_data_file_path=m2", "--do_lower_case=false",
    )  # fmt: skip
    run(folder, *line, "-workers", "2", script=True)
    assert (folder / "1").read_bytes() == (folder / "2").read_bytes()
    assert (folder / "m1").read_bytes() == (folder / "m2").read_bytes()
    assert "unchanged" in run(folder, *line[:-1], "--nodo_lower_case", script=True).stdout
    doc = json.loads(run(folder, *line[:-1], "--no-do-lower-case", "--json").stdout)
    assert doc["outputs"][0]["outcome"] == "unchanged"
    assert doc["metadata"]["num_labels"] == 7
    (folder / "in" / "train-en.tsv").write_text("x\n")
    failed = run(folder, *line, script=True, code=4)
    assert "Line 1 of train-en.tsv" in failed.stderr
    assert "Did you mean udpos" in run(folder, "--tagging_task_name=udpso", code=2).stderr


def test_skipped_questions_are_told(project: Project) -> None:
    answers = [{"text": "cow", "answer_start": 4}], [{"text": "cat", "answer_start": 4}]
    asked = [{"id": str(i), "question": "x", "answers": each} for i, each in enumerate(answers)]
    doc = {"data": [{"paragraphs": [{"context": "the cat", "qas": asked}]}]}
    project.write("s.json", json.dumps(doc))
    done = run(
        project.folder, "--fine_tuning_task_type=squad", "--squad_data_file=s.json",
        f"--vocab_file={project.vocab}", "--train_data_output_path=o", "--meta_data_file_path=m",
        "--max_query_length=8",
    )  # fmt: skip
    assert "Left out: 1 (answers not found" in done.stderr
