"""docs/nlp-loaders.md says what there is."""

from __future__ import annotations

import dataclasses
import re
from pathlib import Path

from provender.nlp import loaders
from provender.nlp.checking.naming import REGISTERED, config_class
from provender.nlp.inputs import TASKS

PAGE = (Path(__file__).resolve().parents[3] / "docs" / "nlp-loaders.md").read_text("utf-8")


def test_every_loader_and_task_is_on_the_page() -> None:
    for name in (*REGISTERED, *TASKS):
        assert f"`{name}`" in PAGE, name
    for name in loaders.__all__:
        if name.endswith("Config"):
            assert f"`{name}`" in PAGE, name


def test_options_of_the_text_loader_are_on_the_page_with_their_defaults() -> None:
    table = PAGE[PAGE.index("### Masked language model from text") : PAGE.index("### XLNet")]
    rows = re.findall(r"^\| `(\w+)` \| `?([\w.]*)`? \|", table, re.M)
    fields = {each.name: each for each in dataclasses.fields(config_class("bert_pretrain_text"))}
    assert len(rows) == 4
    for name, default in rows:
        expected = fields[name].default
        assert default == (str(expected).lower() if isinstance(expected, bool) else str(expected))


def test_the_example_of_synthetic_inputs_runs() -> None:
    blocks = re.findall(r"^```python\n(.*?)^```", PAGE, re.S | re.M)
    (example,) = [each for each in blocks if "build_inputs" in each]
    names: dict[str, object] = {}
    exec(example, names)
    inputs, labels = next(iter(names["data"]))  # type: ignore[call-overload]
    assert labels.shape == inputs["input_mask"].shape == (1, 128)
