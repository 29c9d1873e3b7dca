"""BERT pretraining examples as a dataset of a project."""

from __future__ import annotations

import functools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar

import tensorflow_datasets as tfds

from provender.builders.steps import InSteps, Part
from provender.errors import SettingsError
from provender.nlp.pretraining.builder import examples_of, info_of
from provender.nlp.pretraining.options import Options
from provender.nlp.pretraining.planning import Task, plan_task, plan_tasks
from provender.nlp.pretraining.publishing import shards_for
from provender.nlp.pretraining.running import check, refuse_single_document, refuse_too_short
from provender.nlp.pretraining.tokens import TokenStore
from provender.nlp.pretraining.work import Work
from provender.nlp.recipes import tokens
from provender.nlp.recipes.arguments import check_shards, located, options_of
from provender.nlp.recipes.text import text_of

_TASKS = 512
"""Of planning, about."""


class BertPretraining(InSteps, tfds.core.ShardBasedBuilder, skip_registration=True):  # type: ignore[call-arg]
    """BERT pretraining examples made of a published version's text, or of text files.

    The examples are those of `provender nlp create-pretraining-data` for the same text and options,
    in the same order. Text is tokenized, instances are planned, then shards are written, in which
    tokens are masked.

    Args:
        source: the published version, e.g. ``xsum:1.1.0``.
        text: its features with text, or lists of it; an example is a document, a line a sentence.
        split: which of its splits, e.g. ``train`` or ``train+validation``.
        input_file: text files or patterns, instead of a version: a sentence a line, a blank line
            between documents.
        shards: number of files; by default as many as suit the size.
        dataset: name of the dataset; by default what the project calls it.
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
    }
    STEPS: ClassVar[Mapping[str, Sequence[str]]] = {
        "tokens": (
            "source",
            "text",
            "split",
            "input_file",
            "vocab_file",
            "sp_model_file",
            "tokenization",
            "do_lower_case",
            "invalid_utf8",
        ),
        "instances": (
            "max_seq_length",
            "short_seq_prob",
            "dupe_factor",
            "random_seed",
            "single_document",
        ),
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
        version: Any = None,
        data_dir: Any = None,
        config: Any = None,
        **flags: Any,
    ) -> None:
        check_shards(dataset, shards)
        self.name = dataset
        self.VERSION = tfds.core.Version(version or "1.0.0")
        self._text = text_of(dataset, source, text, split, input_file)
        self._options = _options(dataset, flags)
        self._shards = shards
        super().__init__(data_dir=data_dir, config=config)

    def _info(self) -> Any:
        return info_of(self, self._options)

    def make_tokens(self, part: Part) -> list[Path]:
        """Tokenizes a part of the text."""
        work = Work(part.folder, self._options, 1)
        return tokens.tokenize(
            part, located(self._text), work.tokenizer, self._options.invalid_utf8
        )

    def join_tokens(self, folder: Path, parts: int) -> list[Path]:
        """Joins all tokens to a store."""
        return tokens.join(folder, len(located(self._text).owners))

    def make_instances(self, part: Part) -> list[Path]:
        """Plans the instances of a part of the tasks."""
        work = _Instances(part.folder, self._options, 1, tokens=self.made["tokens"])
        work.make_folders()
        refuse_single_document(work, "text")
        mine = part.share(len(work.tasks))
        for done, number in enumerate(mine):
            part.told(done, len(mine), "parts")
            if not work.plan(number).exists():
                task = work.tasks[number]
                plan_task(work.store, self._options, task, work.buckets, work.plan(number))
        return [work.plan(number) for number in mine]

    def join_instances(self, folder: Path, parts: int) -> list[Path]:
        """Looks whether there are instances at all."""
        work = _Instances(folder, self._options, 1, tokens=self.made["tokens"])
        refuse_too_short(work, "text")
        return work.plans

    def _shard_iterators_per_split(self, dl_manager: Any) -> dict[str, list[Any]]:
        text = located(self._text)
        text.check()
        check(self._options)
        shards = self._shards or shards_for(text.size, self._options)
        return {
            "train": [functools.partial(self._examples, each, shards) for each in range(shards)]
        }

    def _examples(self, shard: int, shards: int) -> Iterator[tuple[int, Any]]:
        folder, below = self.made["instances"], self.made["tokens"]
        return examples_of(_Instances(folder, self._options, 1, tokens=below), shard, shards)


@dataclass(frozen=True)
class _Instances(Work):
    """Work whose tokens lie in a folder of their own."""

    tokens: Path = Path()

    @cached_property
    def store(self) -> TokenStore:
        """The token store."""
        return TokenStore(tokens.store_path(self.tokens))

    @cached_property
    def tasks(self) -> list[Task]:
        """The tasks of planning: each is a file, and a row of the catalog, so there are not too many."""
        sentences = self.store.counted.sentences * self.options.dupe_factor
        size = max(self.sizes.task, -(-sentences // _TASKS))
        return plan_tasks(self.store, self.options, size)


def _options(dataset: str, flags: Mapping[str, Any]) -> Options:
    found: Options = options_of(Options, dataset, flags)
    if found.gzip_compress:
        raise SettingsError(
            "A version's files are not compressed.",
            where=f"{dataset}, gzip_compress",
            hint="Remove it.",
        )
    return found
