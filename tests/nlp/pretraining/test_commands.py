"""The commands as people type them, with dashes and with the published script's flags."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from tests.nlp.pretraining.conftest import corpus

from provender.errors import MissingFiles, SettingsError
from provender.nlp.create_pretraining_data import translated


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("project")
    (folder / "a.txt").write_text(corpus(6, seed=1))
    (folder / "b.txt").write_text(corpus(6, seed=2))
    run(
        folder,
        "train-vocab",
        "--input-file",
        "[ab].txt",
        "--output-file",
        "vocab.txt",
        "--size=300",
    )
    return folder


def run(
    folder: Path, *args: str, code: int = 0, script: bool = False
) -> subprocess.CompletedProcess[str]:
    program = (
        ["-m", "provender.nlp.create_pretraining_data"]
        if script
        else ["-c", "from provender.cli import main; main()", "nlp"]
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


def test_dashes_underscores_and_the_script_are_one(folder: Path) -> None:
    dashes = run(
        folder, "create-pretraining-data", "--input-file", "a.txt,b.txt", "--output-file", "1",
        "--vocab-file", "vocab.txt", "--dupe-factor", "2", "--no-do-lower-case",
    )  # fmt: skip
    assert "examples from 12 documents" in dashes.stdout
    assert [line.split()[0] for line in dashes.stdout.splitlines()[:3]] == [
        "tokenize",
        "plan",
        "write",
    ]
    run(
        folder, "create_pretraining_data", "--input_file=a.txt,b.txt", "--output_file=2",
        "--vocab_file=vocab.txt", "--dupe_factor=2", "--no-do_lower_case", "-q",
    )  # fmt: skip
    run(
        folder, "--input_file=a.txt,b.txt", "--output_file", "3", "--vocab_file=vocab.txt",
        "-dupe_factor", "2", "--do_lower_case=False", "--nogzip_compress", "--workers=2",
        script=True,
    )  # fmt: skip
    made = [(folder / name).read_bytes() for name in "123"]
    assert made[0] == made[1] == made[2]


def test_json_tells_what_was_made(folder: Path) -> None:
    done = run(
        folder, "create-pretraining-data", "--input-file", "[ab].txt", "--output-file", "x,y",
        "--vocab-file", "vocab.txt", "--json",
    )  # fmt: skip
    doc = json.loads(done.stdout)
    assert doc["documents"] == 12
    assert [Path(each).name for each in doc["outputs"]] == ["x", "y"]
    assert doc["bytes"] == [(folder / name).stat().st_size for name in "xy"]
    assert doc["has_next_sentences"] is True


def test_nothing_that_matches_is_an_error(folder: Path) -> None:
    line = ("--input_file=none*.txt", "--output_file=n", "--vocab_file=vocab.txt")
    done = run(folder, "create-pretraining-data", *line, code=4)
    assert "none*.txt matches no file" in done.stderr
    assert "none*.txt matches no file" in run(folder, *line, script=True, code=4).stderr
    doc = json.loads(run(folder, "create-pretraining-data", *line, "--json", code=4).stdout)
    assert doc["error"]["type"] == "MissingFiles"
    assert not (folder / "n").exists()


def test_where_to_is_asked(folder: Path) -> None:
    line = ("create-pretraining-data", "--input-file", "a.txt", "--vocab-file", "vocab.txt")
    assert "--output-file or --publish" in run(folder, *line, code=2).stderr
    both = run(folder, *line, "--output-file", "o", "--publish", "a:1.0.0", code=2)
    assert "--output-file or --publish" in both.stderr
    assert (
        "published version" in run(folder, *line, "--output-file", "o", "--shards=2", code=2).stderr
    )


def test_one_document_is_told(folder: Path) -> None:
    (folder / "one").write_text("w1 w2 w3\nw4 w5\nw6 w7 w8\n")
    done = run(
        folder, "create-pretraining-data", "--input-file", "one", "--output-file", "o1",
        "--vocab-file", "vocab.txt",
    )  # fmt: skip
    assert "one document: no next sentence is random" in done.stderr


def test_publishing(folder: Path) -> None:
    line = (
        "create-pretraining-data", "--input-file", "a.txt", "--vocab-file", "vocab.txt",
        "--dupe-factor", "1", "--publish", "tiny:1.0.0",
    )  # fmt: skip
    assert "tiny:1.0.0  published" in run(folder, *line).stdout
    again = run(folder, *line, "--json")
    assert json.loads(again.stdout)["outcome"] == "cached"
    shown = run(folder, "inspect", "tiny:1.0.0", "--vocab-file", "vocab.txt", "-n1", "--json")
    doc = json.loads(shown.stdout)
    assert doc["kind"] == "BERT pretraining"
    assert doc["examples"][0].startswith("[CLS] ")


def test_inspecting(folder: Path) -> None:
    run(
        folder, "create-pretraining-data", "--input-file", "a.txt", "--output-file", "i",
        "--vocab-file", "vocab.txt", "--gzip-compress",
    )  # fmt: skip
    done = run(folder, "inspect", "i", "--vocab-file", "vocab.txt", "-n", "1", "--plot", "i.svg")
    assert "[CLS] " in done.stdout
    assert "[[MASK]=" in done.stdout
    assert "masked by" in done.stdout
    assert (folder / "i.svg").read_text().startswith("<svg")
    doc = json.loads(
        run(folder, "inspect", "i", "--json", "--plot", "i.png", "--limit", "0").stdout
    )
    assert doc["masking_rate"] == pytest.approx(0.15, abs=0.02)
    assert sum(doc["lengths"].values()) == doc["records"]
    assert (folder / "i.png").read_bytes().startswith(b"\x89PNG")


def test_inspecting_other_files(folder: Path) -> None:
    assert "record" in run(folder, "inspect", "a.txt", code=6).stderr
    assert "matches no file" in run(folder, "inspect", "absent", code=4).stderr
    assert ".svg or .png" in run(folder, "inspect", "a.txt", "--plot", "x.pdf", code=2).stderr


def test_sentencepiece_from_text_to_examples(folder: Path) -> None:
    run(
        folder, "train-vocab", "--input-file", "[ab].txt", "--output-file", "sp.model",
        "--tokenization", "SentencePiece", "--size", "80", "--json",
    )  # fmt: skip
    run(
        folder, "create-pretraining-data", "--input-file", "[ab].txt", "--output-file", "sp",
        "--tokenization", "SentencePiece", "--sp-model-file", "sp.model",
        "--do-whole-word-mask",
    )  # fmt: skip
    done = run(folder, "inspect", "sp", "--sp-model-file", "sp.model", "-n", "1")
    assert "▁" in done.stdout
    share = re.search(r"\[MASK\] (\d+\.\d+) %", done.stdout)
    assert share
    assert 75 < float(share[1]) < 85


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (["--do_lower_case=False"], ["--no-do-lower-case"]),
        (["--do_lower_case=true", "-gzip_compress"], ["--do-lower-case", "--gzip-compress"]),
        (["--nouse_v2_feature_names"], ["--no-use-v2-feature-names"]),
        (
            ["--input_file=a_b.txt", "--vocab_file", "my_vocab"],
            ["--input-file=a_b.txt", "--vocab-file", "my_vocab"],
        ),
        (["-q", "--no-do-lower-case"], ["-q", "--no-do-lower-case"]),
        (["--output_file", "-"], ["--output-file", "-"]),
        (["--random_seed", "-12"], ["--random-seed", "-12"]),
        (["--masked_lm_prob=-1e-3", "-helpfull"], ["--masked-lm-prob=-1e-3", "--help"]),
    ],
)
def test_flags_in_absls_forms(given: list[str], expected: list[str]) -> None:
    assert translated(given) == expected


def test_switches_are_true_or_false() -> None:
    with pytest.raises(SettingsError, match="true or false, got 'maybe'"):
        translated(["--do_lower_case=maybe"])


def test_files_of_flags(tmp_path: Path) -> None:
    first, second = tmp_path / "first", tmp_path / "second"
    first.write_text(
        f"# text\n--input_file=a b.txt\n\n// more\n--flagfile={second}\n-gzip_compress\n"
    )
    second.write_text("--nodo_lower_case\n")
    expected = ["--input-file=a b.txt", "--no-do-lower-case", "--gzip-compress", "--shards=2"]
    assert translated([f"--flagfile={first}", "--shards=2"]) == expected
    assert translated(["-flagfile", str(first), "--shards=2"]) == expected
    second.write_text(f"--flagfile={first}\n")
    with pytest.raises(SettingsError, match="names itself"):
        translated([f"--flagfile={first}"])
    with pytest.raises(MissingFiles, match="no file of flags"):
        translated([f"--flagfile={tmp_path}/absent"])
