"""The pages about data for pretraining and fine-tuning say what there is."""

from __future__ import annotations

import dataclasses
import inspect
import re
from pathlib import Path
from typing import Any

import pytest

from provender.nlp import finetuning, recipes, xlnet_data
from provender.nlp.finetuning.tasks import CLASSIFICATION, RETRIEVAL, TAGGING
from provender.nlp.finetuning.tfds_params import TfdsParams

DOCS = Path(__file__).resolve().parents[3] / "docs"


def page(name: str) -> str:
    return (DOCS / f"{name}.md").read_text("utf-8")


def shown(default: Any) -> set[str]:
    if isinstance(default, bool):
        return {"yes" if default else "no"}
    return {"", "required", "none", "TFDS's own"} if default in (None, "") else {str(default)}


@pytest.mark.parametrize(
    ("name", "options"),
    [("finetuning-data", finetuning.Options), ("xlnet-data", xlnet_data.Options)],
)
def test_options_and_their_defaults(name: str, options: Any) -> None:
    rows = re.findall(r"^\| (`--[^|]*)\|([^|]*)\|", page(name), re.M)
    told = {
        flag: default.strip("` ")
        for flags, default in rows
        for flag in re.findall(r"`--([\w-]+)`", flags)
    }
    for each in dataclasses.fields(options):
        flag = each.name.replace("_", "-")
        assert told.pop(flag) in shown(each.default), flag
    assert set(told) <= {"workers", "publish", "splits", "shards", "input-file"}


def test_tasks_and_their_classes() -> None:
    text = page("finetuning-data")
    for task in CLASSIFICATION.values():
        row = re.search(rf"^\| `{task.name}` \|.*\| ([^|]*) \|$", text, re.M)
        assert row, task.name
        if row[1] not in ("the same", "as MNLI"):
            assert row[1] == (", ".join(task.labels) or "numbers")
        assert all(each in row[0] for each in task.builders[:1])
        assert all(each in row[0] for each in task.texts)
    assert all(f"`{each}`" in text for each in (*RETRIEVAL, *TAGGING))


@pytest.mark.parametrize(
    ("name", "recipe"),
    [
        ("finetuning-data", "SentencePairs"),
        ("finetuning-data", "SquadExamples"),
        ("xlnet-data", "XlnetPretraining"),
        ("pretraining-data", "BertPretraining"),
    ],
)
def test_arguments_of_recipes(name: str, recipe: str) -> None:
    text = page(name)
    assert f"`provender.nlp.recipes:{recipe}`" in text
    given = inspect.signature(getattr(recipes, recipe)).parameters
    for each in set(given) - {"version", "data_dir", "config", "flags"}:
        assert f"`{each}`" in text, each


def test_keys_of_tfds_params() -> None:
    text = page("finetuning-data")
    for each in dataclasses.fields(TfdsParams):
        assert f"`{each.name}`" in text, each.name
