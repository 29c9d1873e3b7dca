"""The code shown in docs/nlp.md is run, in order, in a project of its own."""

from __future__ import annotations

import dataclasses
import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np

PAGE = Path(__file__).resolve().parents[2] / "docs" / "nlp.md"
SETUP = """
import tensorflow as tf

def ints(values):
    return tf.train.Feature(int64_list=tf.train.Int64List(value=values))

for name in ("train-0", "train-1", "more"):
    with tf.io.TFRecordWriter(f"data/{name}.tfrecord") as writer:
        for number in range(40):
            features = {"input_ids": ints(range(16)), "label": ints([number])}
            example = tf.train.Example(features=tf.train.Features(feature=features))
            writer.write(example.SerializeToString())
"""


def test_the_code_of_the_page(tmp_path: Path) -> None:
    blocks = re.findall(r"^```python\n(.*?)^```", PAGE.read_text(encoding="utf-8"), re.S | re.M)
    assert len(blocks) >= 6
    (tmp_path / "data").mkdir()
    (tmp_path / "train.yaml").write_text("input_path: data/*.tfrecord\nis_training: true\n")
    environment = {
        **os.environ,
        "HOME": str(tmp_path / "home"),
        "PROVENDER_HOME": str(tmp_path / "home"),
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
        "PROVENDER_WORKERS": "1",
        "TF_CPP_MIN_LOG_LEVEL": "3",
    }
    built = subprocess.run(
        ["provender", "build", "digits"], cwd=tmp_path, env=environment, capture_output=True
    )
    assert built.returncode == 0, built.stderr.decode()
    done = subprocess.run(
        [sys.executable, "-c", "\n".join([SETUP, *blocks])],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    printed = done.stdout.splitlines()
    assert printed[0] == "(32, 16)"
    assert printed[1] == str(np.int64(1500))


def test_every_field_is_on_the_page() -> None:
    from provender.nlp import DataConfig

    text = PAGE.read_text(encoding="utf-8")
    missing = [each.name for each in dataclasses.fields(DataConfig) if f"`{each.name}`" not in text]
    assert missing == []
