"""The Python of docs/nlp-dynamic.md, run from top to bottom."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
from tests.nlp.dynamic.made import columns, write

PAGE = Path(__file__).resolve().parents[3] / "docs" / "nlp-dynamic.md"


def test_the_page_runs(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "data").mkdir()
    lengths = np.random.default_rng(0).integers(5, 513, 64)
    write(tmp_path / "data" / "pretrain-0.tfrecord", columns(lengths, width=512, slots=76))
    names: dict[str, object] = {}
    blocks = re.findall(r"^```python\n(.*?)^```", PAGE.read_text(encoding="utf-8"), re.S | re.M)
    for number, block in enumerate(blocks):
        exec(compile(block, f"block {number} of {PAGE.name}", "exec"), names)
    assert len(blocks) == 5
    assert names["mask"].shape == (16, 512, 512)
    assert [each["tokens"].shape for each in names["rows"]] == [(2, 4)]
    assert re.search(r"\d+% -> \d+%, 1\.\d+ times fewer cells", capsys.readouterr().out)
