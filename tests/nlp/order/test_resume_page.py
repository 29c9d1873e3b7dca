"""The program of docs/nlp-resume.md: stopped and started again, it ends where it would have."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from provender.records.tfrecord import frame_joined

tf = pytest.importorskip("tensorflow")
PAGE = Path(__file__).parents[3] / "docs" / "nlp-resume.md"
PROGRAM, REPORT = re.findall(r"^```(?:python)?\n(.*?)^```", PAGE.read_text(), re.S | re.M)[:2]


def run(folder: Path, monkeypatch: pytest.MonkeyPatch, last_step: int) -> dict[str, Any]:
    import keras

    monkeypatch.chdir(folder)
    monkeypatch.setenv("PROVENDER_HOME", str(folder / "home"))
    keras.utils.set_random_seed(1)
    program = PROGRAM.replace("LAST_STEP = 60", f"LAST_STEP = {last_step}")
    assert f"LAST_STEP = {last_step}" in program
    # AutoGraph looks for the source of functions in their file.
    (folder / "train.py").write_text(program)
    names: dict[str, Any] = {"__name__": "__main__"}
    exec(compile(program, str(folder / "train.py"), "exec"), names)
    return names


def write(folder: Path) -> None:
    def example(at: int) -> bytes:
        rng = np.random.default_rng(at)
        x = rng.normal(size=4)
        feature = {
            "x": tf.train.Feature(float_list=tf.train.FloatList(value=x)),
            "y": tf.train.Feature(float_list=tf.train.FloatList(value=[float(x.sum())])),
        }
        return tf.train.Example(features=tf.train.Features(feature=feature)).SerializeToString()

    (folder / "data").mkdir(parents=True)
    for name, first, count in (("news-0", 0, 120), ("news-1", 120, 80), ("books-0", 200, 100)):
        records = [example(at) for at in range(first, first + count)]
        (folder / "data" / f"{name}.tfrecord").write_bytes(frame_joined(records)[0])


def test_the_program(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    whole, broken = tmp_path / "whole", tmp_path / "broken"
    for each in (whole, broken):
        write(each)
    wanted = run(whole, monkeypatch, 60)["model"].get_weights()
    assert capsys.readouterr().out.strip() == REPORT.strip()
    # It breaks off after step 25; the newest checkpoint is of step 20.
    run(broken, monkeypatch, 25)
    again = run(broken, monkeypatch, 60)
    assert capsys.readouterr().out.strip().endswith(REPORT.strip())
    assert int(again["model"].optimizer.iterations.numpy()) == 60
    for found, each in zip(again["model"].get_weights(), wanted, strict=True):
        assert found.tobytes() == each.tobytes()
