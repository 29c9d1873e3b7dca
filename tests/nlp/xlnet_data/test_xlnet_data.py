"""Files for XLNet: layout of batches, boundaries, names, the same bytes."""

from __future__ import annotations

import dataclasses
import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.nlp.xlnet_data.conftest import MARKS, options, records, trained

from provender.errors import InputError, MissingFiles, SettingsError, StoreError
from provender.nlp import get_data_loader
from provender.nlp.loaders import XLNetPretrainDataConfig
from provender.nlp.text.vocabulary import Vocabulary
from provender.nlp.xlnet_data import Options, create, rows
from provender.nlp.xlnet_data.pieces import XLNetPieces, word_starts
from provender.nlp.xlnet_data.stream import Stream

CLS, SEP, EOD = 3, 4, 7


def made(corpus: Path, asked: Options, **given: Any) -> list[dict[str, list[int]]]:
    create(f"{corpus}/*.txt", asked, workers=1, **given)
    return records(asked.file(0))


def stream_of(corpus: Path, model: str, order: list[int]) -> tuple[list[int], list[int]]:
    """The stream, slowly: tokens and number of the sentence of each."""
    pieces = XLNetPieces(Path(model))
    tokens: list[int] = []
    sentences: list[int] = []
    number = 0
    for i in order:
        for document in (corpus / f"{i}.txt").read_text().strip().split("\n\n"):
            for ids in [*map(pieces.ids, document.split("\n")), [EOD]]:
                tokens += ids
                sentences += [number] * len(ids)
                number += 1
    return tokens, sentences


@pytest.mark.parametrize(("bi_data", "cores"), [(True, 1), (True, 2), (True, 4), (False, 2)])
def test_tokens_and_sentences_of_a_row_are_of_the_same_places(
    tmp_path: Path, corpus: Path, model: str, bi_data: bool, cores: int
) -> None:
    """Each row is a part of the text, forwards or backwards, and goes on from batch to batch."""
    asked = options(tmp_path, model, bi_data=bi_data, num_cores_per_host=cores)
    found = made(corpus, asked)
    streams = {
        order: stream_of(corpus, model, list(order))
        for order in ((0, 1, 2), (0, 2, 1), (1, 0, 2), (1, 2, 0), (2, 0, 1), (2, 1, 0))
    }
    forward = 8 // 2 if bi_data else 8
    length = len(streams[0, 1, 2][0]) // forward
    expected = []
    for core in range(cores):
        per_core = forward // cores
        for directions in (1, -1) if bi_data else (1,):
            expected += [(core * per_core + i, directions) for i in range(per_core)]
    first = found[0]["input_word_ids"][:16]
    (order,) = [each for each, (tokens, _) in streams.items() if tokens[:16] == first][:1]
    tokens, sentences = streams[order]
    assert len(found) % 8 == 0
    for i, record in enumerate(found):
        part, direction = expected[i % 8]
        row = tokens[part * length : (part + 1) * length][::direction]
        numbers = sentences[part * length : (part + 1) * length][::direction]
        begin = i // 8 * 16
        ids = record["input_word_ids"]
        a = ids.index(SEP, 16)
        assert ids[:a] == row[begin : begin + a]
        b = ids[a + 1 : -2]
        # B begins with a sentence of its row; after A, where it follows.
        near = range(begin + a, begin + a + 64) if record["label"] == [1] else range(len(row))
        assert any(
            row[at : at + len(b)] == b and (at == 0 or numbers[at] != numbers[at - 1])
            for at in near
        )
    assert {each["label"][0] for each in found} == {0, 1}


def test_a_record(tmp_path: Path, corpus: Path, model: str) -> None:
    vocabulary = XLNetPieces(Path(model)).vocabulary
    for record in made(corpus, options(tmp_path, model)):
        ids, types = record["input_word_ids"], record["input_type_ids"]
        assert len(ids) == len(types) == 32
        a = ids.index(SEP, 16)
        assert ids[-2:] == [SEP, CLS]
        assert types == [0] * (a + 1) + [1] * (30 - a) + [2]
        bounds = record["boundary_indices"]
        assert bounds == sorted(set(bounds))
        assert bounds[-1] == 32
        assert a + 1 in bounds
        assert not {a, 30, 31} & set(bounds)
        pieces = [vocabulary.tokens[each] for each in ids]
        assert pieces[-1] == "<cls>"


def test_words_end_where_they_begin_backwards() -> None:
    names = ("<unk>", "▁a", "b", "c", "▁d", ".", "<eod>")
    starts = word_starts(Vocabulary(names, marked=False))
    tokens = np.array([3, 1, 2, 3, 4, 2, 5, 6, 1])  # c| ▁a b c| ▁d b| . <eod>| ▁a
    sides = np.zeros(9, np.uint8)
    row = rows.Row(tokens, sides, False)
    assert np.flatnonzero(row.starts(0, 9, starts)).tolist() == [1, 4, 6, 8]
    back = rows.Row(tokens[::-1], sides, True)
    # ▁a| <eod> .| b ▁d| c b ▁a| c
    assert np.flatnonzero(back.starts(0, 9, starts)).tolist() == [0, 1, 3, 5, 8]
    assert back.starts(4, 9, starts).tolist() == back.starts(0, 9, starts)[4:].tolist()


def test_rows_of_both_directions_lie_beside_each_other() -> None:
    stream = Stream(np.arange(64), np.arange(64).astype(np.uint8))
    asked = Options(
        save_dir="x", sp_model_file="x", seq_length=8, reuse_length=0, per_host_batch_size=8,
        num_cores_per_host=2,
    )  # fmt: skip
    found = rows.rows_of(stream, asked)
    starts = [int(each.tokens[0]) for each in found]
    assert starts == [0, 16, 15, 31, 32, 48, 47, 63]
    for each in found:
        assert each.tokens.tolist() == each.sides.tolist()


def test_the_same_bytes_each_time(tmp_path: Path, corpus: Path, model: str) -> None:
    first = options(tmp_path, model, num_passes=2)
    create(f"{corpus}/*.txt", first, workers=1)
    one = [first.file(each).read_bytes() for each in range(2)]
    assert one[0] != one[1]
    other = dataclasses.replace(first, save_dir=str(tmp_path / "other"))
    create(f"{corpus}/*.txt", other, workers=2)
    assert [other.file(each).read_bytes() for each in range(2)] == one
    seeded = dataclasses.replace(other, random_seed=1)
    create(f"{corpus}/*.txt", seeded, workers=1)
    assert seeded.file(0).read_bytes() != one[0]


DYING = """
import os, signal, sys
from provender.nlp.xlnet_data import Options, create
seen = 0
def tell(step, done, total, unit):
    global seen
    if seen == int(sys.argv[1]):
        os.kill(os.getpid(), signal.SIGKILL)
    seen += 1
create(sys.argv[2], Options(**eval(sys.argv[3])), workers=1, tell=tell)
"""


@pytest.mark.parametrize("report", [0, 3, 30])
def test_killed_and_started_again(tmp_path: Path, corpus: Path, model: str, report: int) -> None:
    asked = options(tmp_path, model, random_seed=3)
    given = repr(dataclasses.asdict(asked))
    done = subprocess.run(
        [sys.executable, "-c", DYING, str(report), f"{corpus}/*.txt", given], check=False
    )
    assert done.returncode == -signal.SIGKILL
    folder = Path(str(asked.save_dir))
    # Nothing that a reader could take for a file.
    assert [each.name for each in folder.iterdir() if not each.name.startswith(".")] == []
    again = dataclasses.replace(asked, random_seed=4)
    create(f"{corpus}/*.txt", again, workers=1)
    other = dataclasses.replace(asked, save_dir=str(tmp_path / "other"))
    create(f"{corpus}/*.txt", other, workers=1)
    create(f"{corpus}/*.txt", asked, workers=1)
    assert asked.file(0).read_bytes() == other.file(0).read_bytes()
    # What a call that was killed left went with the next one, whatever its options.
    assert sorted(each.name for each in folder.iterdir()) == sorted(
        each.name for each in Path(str(other.save_dir)).iterdir()
    )


def test_what_did_not_change_is_left_alone(tmp_path: Path, corpus: Path, model: str) -> None:
    asked = options(tmp_path, model, num_passes=2)

    def outcomes(given: Options = asked) -> list[str]:
        return [each.outcome for each in create(f"{corpus}/*.txt", given, workers=1).outputs]

    assert outcomes() == ["made", "made"]
    assert outcomes() == ["unchanged", "unchanged"]
    asked.file(1).unlink()
    assert outcomes() == ["unchanged", "made"]
    assert outcomes(dataclasses.replace(asked, random_seed=5)) == ["made", "made"]
    (corpus / "0.txt").write_text("ba lu ki sho\n" * 300)
    assert outcomes() == ["made", "made"]
    names = {each.name for each in Path(str(asked.save_dir)).iterdir() if each.suffix != ".json"}
    assert names == {asked.file(0).name, asked.file(1).name}


@pytest.mark.parametrize(
    ("given", "name"),
    [
        ({}, "seqlen-32_reuse-16_bs-8_cores-2_uncased_eod_bi.tfrecord"),
        (
            {"reuse_length": 0, "do_lower_case": False, "use_eod_token": False, "bi_data": False},
            "seqlen-32_memless_bs-8_cores-2_cased_uni.tfrecord",
        ),
        (
            {"prefix": "p", "suffix": "s", "num_passes": 3},
            "p_seqlen-32_reuse-16_bs-8_cores-2_uncased_eod_bi_s.tfrecord-1-of-3",
        ),
        (
            {"task_id": 2, "num_tasks": 4, "num_passes": 3},
            "seqlen-32_reuse-16_bs-8_cores-2_uncased_eod_bi.tfrecord-7-of-12",
        ),
    ],
)  # fmt: skip
def test_names(tmp_path: Path, model: str, given: dict[str, Any], name: str) -> None:
    assert options(tmp_path, model, **given).file(1).name == name


def test_tasks_share_the_files_and_the_first_one_tells_of_them(
    tmp_path: Path, corpus: Path, model: str
) -> None:
    read = []
    for task in (1, 0):
        asked = options(
            tmp_path, model, task_id=task, num_tasks=2, per_host_batch_size=4, use_eod_token=False
        )
        result = create(f"{corpus}/*.txt", asked, workers=1)
        read += [Path(each).name for each in result.sources]
        assert (result.info_path is None) == (task == 1)
        if result.info_path:
            info = json.loads(Path(result.info_path).read_text())
        assert all(EOD not in each["input_word_ids"] for each in records(asked.file(0)))
    assert read == ["1.txt", "0.txt", "2.txt"]
    vocabulary = XLNetPieces(Path(model)).vocabulary
    assert info == {
        "vocab_size": len(vocabulary), "per_host_batch_size": 4, "num_cores_per_host": 2,
        "seq_length": 32, "reuse_length": 16, "do_lower_case": True, "bi_data": True,
        "use_eod_token": False, "segment_cls_id": CLS, "segment_sep_id": SEP,
    }  # fmt: skip
    with pytest.raises(SettingsError, match=r"3 files for 9 tasks"):
        create(f"{corpus}/*.txt", options(tmp_path, model, task_id=8, num_tasks=9))


def test_the_loader_reads_them(tmp_path: Path, corpus: Path, model: str) -> None:
    asked = options(tmp_path, model)
    create(f"{corpus}/*.txt", asked, workers=1)
    config = XLNetPretrainDataConfig(
        input_path=str(asked.file(0)), global_batch_size=8, seq_length=32, reuse_length=16,
        permutation_size=16, max_predictions_per_seq=6, is_training=False, seed=1,
    )  # fmt: skip
    batch = next(iter(get_data_loader(config).load().as_numpy_iterator()))
    assert batch["input_word_ids"].tolist() == [
        each["input_word_ids"] for each in records(asked.file(0))[:8]
    ]
    chosen = batch["masked_tokens"]
    assert chosen.any(axis=1).all()
    assert not np.isin(batch["input_word_ids"][chosen], (SEP, CLS)).any()


def test_text_is_prepared_as_xlnet_does(model: str) -> None:
    pieces, cased = XLNetPieces(Path(model)), XLNetPieces(Path(model), False)
    assert pieces.ids("``Ba'' lú") == pieces.ids('"ba" lu')
    assert cased.ids("lú") == cased.ids("lu")
    assert cased.ids("Lu") != cased.ids("lu")


def test_bad_input(tmp_path: Path, corpus: Path, model: str) -> None:
    with pytest.raises(MissingFiles, match=r"none\*.txt matches no file"):
        create("none*.txt", options(tmp_path, model))
    with pytest.raises(MissingFiles, match=r"no SentencePiece model x.model"):
        create(f"{corpus}/*.txt", options(tmp_path, "x.model"))
    with pytest.raises(InputError, match=r"The text has [\d,]+ tokens, and 512 rows of 32 need"):
        create(f"{corpus}/*.txt", options(tmp_path, model, per_host_batch_size=1024))
    assert list((tmp_path / "out").iterdir()) == []
    (tmp_path / "m").mkdir()
    plain = trained(tmp_path / "m", MARKS.replace(",<eod>", ""))
    with pytest.raises(InputError, match=r"has no <eod>(.|\n)*no-use-eod-token"):
        create(f"{corpus}/*.txt", options(tmp_path, plain))
    (tmp_path / "file").write_text("")
    with pytest.raises(StoreError, match=r"out"):
        create(f"{corpus}/*.txt", options(tmp_path, model, save_dir=str(tmp_path / "file/out")))


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"save_dir": None}, "--save_dir is not given"),
        ({"sp_model_file": ""}, "--sp_model_file is not given"),
        ({"reuse_length": 28}, "--reuse_length is 28"),
        ({"per_host_batch_size": 6}, "2 cores cannot share"),
        ({"num_passes": 0}, "--num_passes is 0"),
        ({"task_id": 1}, "go together"),
        ({"task_id": 2, "num_tasks": 2}, "--task_id is 2, of 2"),
    ],
)
def test_options_that_make_no_sense(
    tmp_path: Path, model: str, given: dict[str, Any], said: str
) -> None:
    with pytest.raises(SettingsError, match=said):
        options(tmp_path, model, **given)


def test_flags_have_the_published_names_and_defaults() -> None:
    published = {
        "seq_length": 512, "reuse_length": 256, "save_dir": None, "sp_model_file": "",
        "use_eod_token": True, "bi_data": True, "do_lower_case": True, "per_host_batch_size": 32,
        "num_cores_per_host": 16, "prefix": "", "suffix": "", "task_id": None, "num_tasks": None,
        "num_passes": 1,
    }  # fmt: skip
    ours = {each.name: each.default for each in dataclasses.fields(Options)}
    assert {**published, "random_seed": 0} == ours


def run(folder: Path, *args: str, code: int = 0, script: bool = False) -> Any:
    program = (
        ["-m", "provender.nlp.create_xlnet_pretraining_data"]
        if script
        else [
            "-c",
            "from provender.cli import main; main()",
            "nlp",
            "create-xlnet-pretraining-data",
        ]
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


def test_commands(tmp_path: Path, corpus: Path, model: str) -> None:
    sizes = ("--seq-length=32", "--reuse-length=16", "--per-host-batch-size=8")
    sizes += ("--num-cores-per-host=2",)
    line = ("--input-file=text/*.txt", f"--sp-model-file={model}", *sizes)
    done = run(tmp_path, *line, "--save-dir=a", "--no-bi-data")
    assert "from 3 files" in done.stdout
    script = [each.replace("-", "_").replace("__", "--", 1) for each in line if "model" not in each]
    done = run(
        tmp_path, *script, f"--sp_model_file={model}", "-save_dir", "b",
        "--nobi_data", "--json", script=True,
    )  # fmt: skip
    doc = json.loads(done.stdout)
    (output,) = doc["outputs"]
    assert output["outcome"] == "made"
    name = Path(output["path"]).name
    assert (tmp_path / "a" / name).read_bytes() == (tmp_path / "b" / name).read_bytes()
    assert (
        "matches no file" in run(tmp_path, *line, "--input-file=z", "--save-dir=c", code=4).stderr
    )
