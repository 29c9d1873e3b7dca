"""BERT pretraining examples as a dataset of a project."""

from __future__ import annotations

import difflib
import functools
from collections.abc import Iterator, Sequence
from dataclasses import fields
from pathlib import Path
from typing import Any, ClassVar

import tensorflow_datasets as tfds

from provender.errors import SettingsError
from provender.nlp.pretraining.builder import examples_of, info_of
from provender.nlp.pretraining.options import Options
from provender.nlp.pretraining.publishing import shards_for
from provender.nlp.recipes.pretraining import Preparation
from provender.nlp.recipes.text import VersionText


class BertPretraining(tfds.core.ShardBasedBuilder, skip_registration=True):  # type: ignore[call-arg]
    """BERT pretraining examples made of a published version's text, or of text files.

    The examples are those of `provender nlp create-pretraining-data` for the same text and options,
    in the same order.

    Args:
        source: the published version, e.g. ``xsum:1.1.0``.
        text: its features with text, or lists of it; an example is a document, a line a sentence.
        split: which of its splits, e.g. ``train`` or ``train+validation``.
        input_file: text files or patterns, instead of a version: a sentence a line, a blank line
            between documents.
        shards: number of files; by default as many as suit the size.
        dataset: name of the dataset; by default what the project calls it.
        folder: found by the engine.
        version: number, by default 1.0.0.
        data_dir: as TFDS gives it.
        config: as TFDS gives it; there are none.
        **flags: as `provender.nlp.pretraining.Options`: ``vocab_file``, ``max_seq_length``, ...
    """

    ARGUMENTS: ClassVar[dict[str, str]] = {
        "source": "version",
        "input_file": "file",
        "vocab_file": "file",
        "sp_model_file": "file",
        "dataset": "name",
        "folder": "working",
    }

    def __init__(
        self,
        *,
        source: Any = None,
        text: str | Sequence[str] = "text",
        split: str = "train",
        input_file: str | Sequence[str] | None = None,
        shards: int | None = None,
        dataset: str = "bert_pretraining",
        folder: str | None = None,
        version: Any = None,
        data_dir: Any = None,
        config: Any = None,
        **flags: Any,
    ) -> None:
        if (source is None) == (input_file is None):
            raise SettingsError(
                "The text is either a published version or files.",
                where=f"{dataset}, source, input_file",
                hint='source = "xsum:1.1.0" with text = ["document"], or input_file = "books/*.txt".',
            )
        if shards is not None and shards < 1:
            raise SettingsError(
                f"shards must be 1 or more, got {shards}.", where=f"{dataset}, shards"
            )
        self.name = dataset
        self.VERSION = tfds.core.Version(version or "1.0.0")
        self._options = _options(dataset, flags)
        self._source = source
        self._columns = [text] if isinstance(text, str) else list(text)
        self._splits = split.split("+")
        self._files = [input_file] if isinstance(input_file, str) else input_file
        self._shards = shards
        self._folder = folder
        super().__init__(data_dir=data_dir, config=config)

    def _info(self) -> Any:
        return info_of(self, self._options)

    def _shard_iterators_per_split(self, dl_manager: Any) -> dict[str, list[Any]]:
        ready = self._preparation()
        ready.check()
        shards = self._shards or shards_for(ready.size, self._options)
        return {
            "train": [functools.partial(self._examples, each, shards) for each in range(shards)]
        }

    def _examples(self, shard: int, shards: int) -> Iterator[tuple[int, Any]]:
        return examples_of(self._preparation().work(), shard, shards)

    def _preparation(self) -> Preparation:
        text = (
            VersionText(self._source, self._columns, self._splits)
            if self._files is None
            else self._files
        )
        return Preparation(Path(self._folder or ""), self._options, text)


def _options(dataset: str, flags: dict[str, Any]) -> Options:
    known = [each.name for each in fields(Options)]
    for name in flags:
        if name not in known:
            near = difflib.get_close_matches(name, known, 1)
            raise SettingsError(
                f"There is no option {name!r}.",
                where=f"{dataset}, {name}",
                hint=f"Did you mean {near[0]!r}?" if near else f"There are: {', '.join(known)}.",
            )
    found = Options(**flags)
    if found.gzip_compress:
        raise SettingsError(
            "A version's files are not compressed.",
            where=f"{dataset}, gzip_compress",
            hint="Remove it.",
        )
    return found
