"""From files to files: the same bytes for any number of processes and after any interruption."""

from __future__ import annotations

import gzip
import json
import os
import resource
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.nlp.pretraining.conftest import SPECIAL, WORDS, corpus, examples_of

from provender.errors import (
    InputError,
    MissingFiles,
    ProvenderError,
    SettingsError,
    StoreError,
    WorkerDied,
)
from provender.nlp.claiming import claimed
from provender.nlp.pretraining import Options, create, pooling
from provender.nlp.pretraining.pooling import Pool
from provender.nlp.pretraining.running import usual_workers
from provender.nlp.pretraining.work import Work
from provender.nlp.text import Tokenizer
from provender.records.tfrecord import iter_records

PROGRAM = Path(__file__).with_name("program.py")


def start(
    vocab: str, text: Path, outputs: str, workers: int = 1, kill: int = -1, **options: Any
) -> subprocess.Popen[bytes]:
    root = str(Path(__file__).parents[3])
    line = [vocab, str(text), outputs, str(workers), str(kill), json.dumps(options)]
    return subprocess.Popen(
        [sys.executable, str(PROGRAM), *line],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": root},
    )


def finish(process: subprocess.Popen[bytes]) -> dict[str, Any]:
    out, errors = process.communicate()
    assert process.returncode == 0, errors.decode()
    found: dict[str, Any] = json.loads(out)
    return found


def everything(folder: Path) -> dict[str, bytes]:
    """What lies in a folder, hidden files included."""
    return {each.name: each.read_bytes() for each in folder.iterdir()}


def made(folder: Path) -> str:
    folder.mkdir(exist_ok=True)
    return f"{folder}/a,{folder}/b,{folder}/c"


@pytest.mark.parametrize(
    "options",
    [{"dupe_factor": 3}, {"dupe_factor": 2, "gzip_compress": True, "do_whole_word_mask": True}],
)
def test_one_two_and_four_workers_make_the_same_bytes(
    options: dict[str, Any], vocab: str, text: Path, tmp_path: Path
) -> None:
    folders = {workers: tmp_path / str(workers) for workers in (1, 2, 4)}
    found = [finish(start(vocab, text, made(each), n, **options)) for n, each in folders.items()]
    assert found[0]["records"] == found[1]["records"] == found[2]["records"]
    assert found[0]["reports"] == found[1]["reports"] == found[2]["reports"]
    assert max(found[0]["records"]) - min(found[0]["records"]) <= 1
    one, two, four = (everything(each) for each in folders.values())
    assert sorted(one) == ["a", "b", "c"]
    assert one == two == four


@pytest.fixture(scope="module")
def whole(
    vocab: str, text: Path, tmp_path_factory: pytest.TempPathFactory
) -> tuple[dict[str, bytes], int]:
    """Uninterrupted output, and how many reports of progress there are."""
    folder = tmp_path_factory.mktemp("whole")
    found = finish(start(vocab, text, made(folder), dupe_factor=2))
    return everything(folder), found["reports"]


@pytest.mark.parametrize("workers", [1, 2])
@pytest.mark.parametrize("part", range(5))
def test_killed_and_started_again_it_makes_the_same_bytes(
    workers: int,
    part: int,
    vocab: str,
    text: Path,
    tmp_path: Path,
    whole: tuple[dict[str, bytes], int],
) -> None:
    expected, reports = whole
    folder = tmp_path / "out"
    kill = part * (reports - 1) // 4
    process = start(vocab, text, made(folder), workers, kill, dupe_factor=2)
    process.communicate()
    assert process.returncode == -signal.SIGKILL
    assert not set(everything_named(folder)) & set("abc")
    again = finish(start(vocab, text, made(folder), 3 - workers, dupe_factor=2))
    # What was finished is not reported as new work.
    assert again["reports"] <= reports
    assert everything(folder) == expected


def test_what_other_options_left_goes_with_the_next_finish(
    vocab: str, text: Path, tmp_path: Path, whole: tuple[dict[str, bytes], int]
) -> None:
    folder = tmp_path / "out"
    start(vocab, text, made(folder), 1, whole[1] - 2, dupe_factor=2, random_seed=7).communicate()
    left = everything_named(folder)
    assert any(each.endswith(".work") for each in left)
    assert any(each.endswith(".partial") for each in left)
    finish(start(vocab, text, made(folder), dupe_factor=2))
    assert everything(folder) == whole[0]


def everything_named(folder: Path) -> list[str]:
    return [each.name for each in folder.iterdir()]


def test_killed_at_random_times(
    vocab: str, text: Path, tmp_path: Path, whole: tuple[dict[str, bytes], int]
) -> None:
    folder = tmp_path / "out"
    rng = np.random.default_rng(5)
    for _ in range(4):
        process = start(vocab, text, made(folder), 2, dupe_factor=2)
        time.sleep(0.3 + rng.random())
        process.kill()
        process.communicate()
    finish(start(vocab, text, made(folder), 2, dupe_factor=2))
    assert everything(folder) == whole[0]


def test_killed_while_files_get_their_names(
    vocab: str,
    text: Path,
    tmp_path: Path,
    whole: tuple[dict[str, bytes], int],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    options = Options(vocab_file=vocab, dupe_factor=2)
    folder = tmp_path / "out"
    outputs = made(folder)
    replaced = []

    def replace(self: Path, target: Path) -> Path:
        if target.name == "b":
            raise KeyboardInterrupt
        replaced.append(target.name)
        os.replace(self, target)
        return target

    with monkeypatch.context() as patched:
        patched.setattr(Path, "replace", replace)
        with pytest.raises(KeyboardInterrupt):
            create(str(text), outputs, options)
    assert "a" in replaced
    create(str(text), outputs, options)
    assert set(everything(folder)) == set("abc")
    assert {name: len(list(iter_records(folder / name))) for name in "abc"} == {
        name: len(list(_records(data))) for name, data in whole[0].items()
    }


def _records(data: bytes) -> Any:
    import io

    return iter_records(io.BytesIO(data))


def test_features_are_the_specifications(vocab: str, text: Path, tmp_path: Path) -> None:
    options = Options(
        vocab_file=vocab,
        dupe_factor=2,
        max_seq_length=64,
        max_predictions_per_seq=7,
        use_v2_feature_names=True,
        gzip_compress=True,
    )
    found = create(str(text), f"{tmp_path}/x, {tmp_path}/y", options)
    read = examples_of(found.outputs, options)
    assert len(read["input_ids"]) == sum(found.records)
    assert gzip.decompress(Path(found.outputs[0]).read_bytes())
    for i in range(len(read["input_ids"])):
        row = {name: values[i] for name, values in read.items()}
        length = int(row["input_mask"].sum())
        assert row["input_mask"].tolist() == [1] * length + [0] * (64 - length)
        ids, types = row["input_ids"][:length].tolist(), row["segment_ids"]
        assert not row["input_ids"][length:].any()
        assert ids[0] == 2
        assert ids[-1] == 3
        second = int(types.sum())
        assert types.tolist() == [0] * (length - second) + [1] * second + [0] * (64 - length)
        assert ids[length - second - 1] == 3
        count = int(row["masked_lm_weights"].sum())
        assert count == min(7, max(1, round(0.15 * length)))
        assert row["masked_lm_weights"].tolist() == [1.0] * count + [0.0] * (7 - count)
        assert not row["masked_lm_ids"][count:].any()
        assert not row["masked_lm_positions"][count:].any()
    assert set(read["next_sentence_labels"].ravel().tolist()) == {0, 1}


def test_masked_tokens_are_those_of_the_text(
    vocab: str, text: Path, tmp_path: Path, tokenizer: Tokenizer
) -> None:
    options = Options(vocab_file=vocab, dupe_factor=1)
    found = create(str(text), f"{tmp_path}/x", options)
    read = examples_of(found.outputs, options)
    whole = " ".join(map(str, tokenizer.ids(text.read_text())))  # type: ignore[attr-defined]
    for i in range(len(read["input_ids"])):
        ids = read["input_ids"][i].copy()
        count = int(read["masked_lm_weights"][i].sum())
        ids[read["masked_lm_positions"][i][:count]] = read["masked_lm_ids"][i][:count]
        first, second = np.split(
            ids[1 : int(read["input_mask"][i].sum()) - 1], [ids[1:].tolist().index(3)]
        )
        for segment in (first, second[1:]):
            assert f" {' '.join(map(str, segment))} " in f" {whole} "


def test_seeds_passes_and_order_matter(vocab: str, text: Path, tmp_path: Path) -> None:
    def run(name: str, **options: Any) -> list[bytes]:
        create(str(text), f"{tmp_path}/{name}", Options(vocab_file=vocab, **options))
        return [payload for _, payload in iter_records(tmp_path / name)]

    base = run("a", dupe_factor=2)
    assert run("b", dupe_factor=2) == base
    assert run("c", dupe_factor=2, random_seed=6) != base
    once = run("d", dupe_factor=1)
    assert set(once) < set(base)
    assert len(set(base)) > 0.99 * len(base)


def test_small_text_is_not_worth_processes(vocab: str, text: Path) -> None:
    assert usual_workers(str(text), Options(vocab_file=vocab)) == 1


# --- what is wrong is said, and nothing is left ---------------------------------------------------


def refused(
    kind: type[ProvenderError], match: str, inputs: str, outputs: str, **options: Any
) -> ProvenderError:
    with pytest.raises(kind, match=match) as caught:
        create(inputs, outputs, Options(**options))
    for each in outputs.split(","):
        folder = Path(each).parent
        if folder.is_dir():
            left = [e.name for e in folder.iterdir()]
            assert not [e for e in left if e == Path(each).name or e.startswith(".")]
    return caught.value


def test_no_input_is_an_error(vocab: str, tmp_path: Path) -> None:
    error = refused(
        MissingFiles,
        r"no-\*\.txt matches no file",
        f"{tmp_path}/no-*.txt",
        f"{tmp_path}/o",
        vocab_file=vocab,
    )
    assert error.exit_code == 4
    refused(SettingsError, "No input file is named", " , ", f"{tmp_path}/o", vocab_file=vocab)
    refused(InputError, "is no file", str(tmp_path), f"{tmp_path}/o", vocab_file=vocab)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("content", [b"", b"\n\n  \n", b"\x01\x02\n"])
def test_empty_text(content: bytes, vocab: str, tmp_path: Path) -> None:
    (tmp_path / "text").write_bytes(content)
    refused(InputError, "hold no text", f"{tmp_path}/text", f"{tmp_path}/o", vocab_file=vocab)


def test_text_too_short(vocab: str, tmp_path: Path) -> None:
    (tmp_path / "text").write_text("w1\n")
    refused(
        InputError,
        "too short for a single example",
        f"{tmp_path}/text",
        f"{tmp_path}/o",
        vocab_file=vocab,
    )


def test_one_document(vocab: str, tmp_path: Path) -> None:
    (tmp_path / "text").write_text(corpus(1, longest=40).strip())
    found = create(f"{tmp_path}/text", f"{tmp_path}/o", Options(vocab_file=vocab))
    assert not found.has_next_sentences
    assert not examples_of([tmp_path / "o"], Options())["next_sentence_labels"].any()
    refused(
        InputError,
        "one document",
        f"{tmp_path}/text",
        f"{tmp_path}/other",
        vocab_file=vocab,
        single_document="stop",
    )


def test_invalid_text_in_a_worker(vocab: str, text: Path, tmp_path: Path) -> None:
    (tmp_path / "bad").write_bytes(b"w1 w2\n\xff\n")
    with pytest.raises(InputError, match="byte 6, in line 2"):
        create(
            [str(text), f"{tmp_path}/bad"], f"{tmp_path}/o", Options(vocab_file=vocab), workers=2
        )
    assert {each.name for each in tmp_path.iterdir()} == {"bad"}


def test_vocabularies_that_do_not_serve(text: Path, tmp_path: Path) -> None:
    for missing in SPECIAL[1:]:
        file = tmp_path / f"without{missing}"
        file.write_text("\n".join(each for each in [*SPECIAL, *WORDS] if each != missing))
        refused(InputError, f"no \\{missing}", str(text), f"{tmp_path}/o", vocab_file=str(file))
    refused(MissingFiles, "no vocabulary", str(text), f"{tmp_path}/o", vocab_file=f"{tmp_path}/no")
    refused(SettingsError, "needs --vocab_file", str(text), f"{tmp_path}/o")


@pytest.mark.parametrize(
    ("match", "options"),
    [
        (
            "max_predictions_per_seq must not exceed --max_seq_length, 16, got 20",
            {"max_seq_length": 16},
        ),
        ("max_predictions_per_seq must be 1", {"max_predictions_per_seq": 0}),
        ("max_seq_length must be from 5", {"max_seq_length": 4, "max_predictions_per_seq": 2}),
        ("dupe_factor must be", {"dupe_factor": 0}),
        ("masked_lm_prob must be above 0", {"masked_lm_prob": 0.0}),
        ("masked_lm_prob must be above 0", {"masked_lm_prob": float("nan")}),
        ("short_seq_prob must be from 0", {"short_seq_prob": 1.5}),
        ("max_ngram_size needs --do_whole_word_mask", {"max_ngram_size": 3}),
        ("max_ngram_size must be from 1", {"max_ngram_size": 0, "do_whole_word_mask": True}),
        ("tokenization must be WordPiece or SentencePiece", {"tokenization": "Words"}),
        ("format must be tfrecord", {"format": "arrow"}),
        ("random_tokens must be", {"random_tokens": "none"}),
        ("invalid_utf8 must be", {"invalid_utf8": "keep"}),
        ("single_document must be", {"single_document": "go"}),
    ],
)
def test_options_that_make_no_sense(match: str, options: dict[str, Any]) -> None:
    with pytest.raises(SettingsError, match=match):
        Options(**options)


def test_outputs_that_make_no_sense(vocab: str, text: Path, tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(text)
    before = Path(vocab).read_bytes()
    for match, outputs in [
        ("No output file", ","),
        ("is named twice", f"{tmp_path}/o,{tmp_path}/o"),
        ("is a folder", str(tmp_path)),
        ("is an input file as well", str(text)),
        ("is an input file as well", f"{tmp_path}/link"),
        ("is the vocabulary as well", vocab),
    ]:
        with pytest.raises(SettingsError, match=match):
            create(str(text), outputs, Options(vocab_file=vocab))
    assert Path(vocab).read_bytes() == before


def test_a_refused_vocabulary_makes_no_folder(text: Path, tmp_path: Path) -> None:
    (tmp_path / "vocab").write_text("a\nb\n")
    with pytest.raises(InputError, match=r"no \[UNK\]"):
        create(str(text), f"{tmp_path}/new/o", Options(vocab_file=f"{tmp_path}/vocab"))
    assert not (tmp_path / "new").exists()


def test_no_more_room_and_then_room_again(
    vocab: str, text: Path, tmp_path: Path, whole: tuple[dict[str, bytes], int]
) -> None:
    options = Options(vocab_file=vocab, dupe_factor=2)
    folder = tmp_path / "out"
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    largest = max(map(len, whole[0].values()))
    for share in (0.01, 0.2, 0.9):
        try:
            resource.setrlimit(resource.RLIMIT_FSIZE, (int(share * largest), limits[1]))
            with pytest.raises(StoreError) as caught:
                create(str(text), made(folder), options)
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, limits)
        assert caught.value.hint
        assert not set(everything_named(folder)) & set("abc")
    create(str(text), made(folder), options)
    assert sorted(everything_named(folder)) == ["a", "b", "c"]


def test_folders_that_cannot_be_written(vocab: str, text: Path, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    for outputs in (f"{tmp_path}/file/o", "/proc/provender/o"):
        with pytest.raises(StoreError):
            create(str(text), outputs, Options(vocab_file=vocab))


def test_two_at_once_do_not_disturb_each_other(tmp_path: Path) -> None:
    with claimed(tmp_path), pytest.raises(StoreError, match="Another process"), claimed(tmp_path):
        pass
    with claimed(tmp_path):
        pass


def test_a_killed_worker_is_told(
    vocab: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    dying = tmp_path / "dying"
    dying.write_text(
        f"#!{sys.executable}\nimport os, sys\nsys.stdin.readline()\nos.kill(os.getpid(), 9)\n"
    )
    dying.chmod(0o755)
    monkeypatch.setattr(pooling.sys, "executable", str(dying))
    pieces = [{"step": "plan", "number": each} for each in range(2)]
    with Pool(Work(tmp_path, Options(vocab_file=vocab), 1), 2) as pool:
        with pytest.raises(WorkerDied, match="by signal 9"):
            list(pool.run(pieces))


def test_a_worker_that_died_before_it_was_sent_anything_is_told(
    vocab: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pooling.sys, "executable", "/bin/false")
    started = subprocess.Popen

    def dead(*args: Any, **options: Any) -> subprocess.Popen[bytes]:
        process = started(*args, **options)
        os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
        return process

    monkeypatch.setattr(pooling.subprocess, "Popen", dead)
    pieces = [{"step": "plan", "number": each} for each in range(2)]
    with pytest.raises(WorkerDied, match="with code 1"):
        with Pool(Work(tmp_path, Options(vocab_file=vocab), 1), 2) as pool:
            list(pool.run(pieces))


# --- memory ---------------------------------------------------------------------------------------


def peak_of(vocab: str, text: Path, output: Path, **options: Any) -> float:
    """MiB of a run in one process."""
    usual = {"part": 4 << 20, "task": 1 << 19, "bucket": 1 << 15}
    found = finish(start(vocab, text, str(output), sizes=usual, **options))
    output.unlink()
    return float(found["peak"])


@pytest.mark.slow
def test_memory_depends_on_neither_text_nor_passes(vocab: str, tmp_path: Path) -> None:
    small, large = tmp_path / "small", tmp_path / "large"
    some = corpus(2000, seed=3)
    small.write_text(some)
    with large.open("w") as file:
        for _ in range(12):
            file.write(some + "\n\n")
    out = tmp_path / "o"
    first = peak_of(vocab, small, out, dupe_factor=2)
    peaks = [
        first,
        peak_of(vocab, small, out, dupe_factor=10),
        peak_of(vocab, large, out, dupe_factor=2),
    ]
    assert max(peaks) < 250, peaks
    assert max(peaks) - first < 64, peaks


@pytest.mark.slow
@pytest.mark.parametrize("word", ["w1", "w1 "])
def test_a_line_of_50_megabytes(word: str, vocab: str, tmp_path: Path) -> None:
    file = tmp_path / "line"
    with file.open("w") as text:
        for _ in range(50):
            text.write(word * (1_000_000 // len(word)))
        text.write("\n\nw2 w3\n\nw4\n")
    assert peak_of(vocab, file, tmp_path / "o", dupe_factor=1) < 400
