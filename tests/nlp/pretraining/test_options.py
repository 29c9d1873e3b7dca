"""Options have the published names and defaults, on the command line and on their page."""

from __future__ import annotations

import dataclasses
import re
from pathlib import Path
from typing import Any

import click
from typer.main import get_command

from provender.cli.app import app
from provender.nlp.pretraining import Options

PAGE = Path(__file__).resolve().parents[3] / "docs" / "pretraining-data.md"
PUBLISHED = {
    "tokenization": "WordPiece", "vocab_file": None, "sp_model_file": "", "do_lower_case": True,
    "do_whole_word_mask": False, "max_ngram_size": None, "gzip_compress": False,
    "use_v2_feature_names": False, "max_seq_length": 128, "max_predictions_per_seq": 20,
    "random_seed": 12345, "dupe_factor": 10, "masked_lm_prob": 0.15, "short_seq_prob": 0.1,
}  # fmt: skip
OURS = {
    "random_tokens": "ordinary", "invalid_utf8": "error", "single_document": "continue",
    "format": "tfrecord",
}  # fmt: skip


def test_flags_have_the_published_names_and_defaults() -> None:
    assert {each.name: each.default for each in dataclasses.fields(Options)} == PUBLISHED | OURS


def test_the_command_has_them_all() -> None:
    command: Any = get_command(app)
    for name in ("nlp", "create-pretraining-data"):
        command = command.get_command(click.Context(command), name)
    given = {each.name: each for each in command.params}
    for name, default in (PUBLISHED | OURS).items():
        assert given[name].default == default, name
        assert f"--{name.replace('_', '-')}" in given[name].opts
        assert given[name].help, name
    assert given["input_file"].required
    offered = given["tokenization"].shell_complete(click.Context(command), "S")
    assert [each.value for each in offered] == ["SentencePiece"]
    assert {"output_file", "publish", "workers", "shards"} <= set(given)


def test_the_page_tells_them_all() -> None:
    rows = dict(re.findall(r"^\| `--([\w-]+)` \| ([^|]*)\|", PAGE.read_text("utf-8"), re.M))
    for name, default in (PUBLISHED | OURS).items():
        told = rows[name.replace("_", "-")].strip("` ")
        shown = {True: "yes", False: "no"}.get(default, str(default))
        assert told == shown if default not in (None, "") else told in ("", "none"), name
