"""A work folder: names of what lies in it, and the pieces of work that put it there.

A piece is a JSON-ready dict, so that it can be sent to any process. Running one whose result lies
there already does nothing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from provender.nlp.pretraining.files import Part
from provender.nlp.pretraining.options import Options
from provender.nlp.pretraining.planning import Task, bucket_count, plan_task, plan_tasks
from provender.nlp.pretraining.plans import read_counts
from provender.nlp.pretraining.tokens import MARKER, TokenStore, join_parts, tokenize_part
from provender.nlp.pretraining.writing import Recipe, write_bucket
from provender.nlp.text.words import Tokenizer, make_tokenizer
from provender.records.atomic import told_as_ours

Piece = Mapping[str, Any]


@dataclass(frozen=True)
class Sizes:
    """How large pieces are: what is held in memory or lost by an interruption. Records do not
    depend on it.

    Attributes:
        part: bytes of text that are tokenized together.
        task: sentences whose instances are planned together.
        bucket: instances that are shuffled, masked and written together, about.
    """

    part: int = 4 << 20
    task: int = 1 << 19
    bucket: int = 1 << 15


@dataclass(frozen=True)
class Work:
    """The work of one call.

    Attributes:
        folder: the work folder.
        options: how instances are made.
        outputs: number of output files.
        sizes: of the pieces.
    """

    folder: Path
    options: Options
    outputs: int
    sizes: Sizes = Sizes()

    def to_json(self) -> dict[str, Any]:
        """As a JSON-ready dict."""
        return {
            "folder": str(self.folder),
            "options": self.options.to_json(),
            "outputs": self.outputs,
            "sizes": asdict(self.sizes),
        }

    @classmethod
    def from_json(cls, doc: Mapping[str, Any]) -> Work:
        """Reads what `to_json` gave."""
        return cls(
            Path(doc["folder"]),
            Options.from_json(doc["options"]),
            doc["outputs"],
            Sizes(**doc["sizes"]),
        )

    def make_folders(self) -> None:
        """Makes the folder and those in it.

        Raises:
            StoreError: they cannot be made.
        """
        for name in ("parts", "plans", "segments"):
            with told_as_ours(self.folder / name):
                (self.folder / name).mkdir(parents=True, exist_ok=True)

    def part(self, number: int) -> Path:
        """Where a token file lies."""
        return self.folder / "parts" / f"{number:06d}"

    def plan(self, number: int) -> Path:
        """Where the plan of a task lies."""
        return self.folder / "plans" / f"{number:06d}"

    def segments(self, bucket: int) -> list[Path]:
        """Where the segments of a bucket lie, one for each output file."""
        folder = self.folder / "segments"
        return [folder / f"{bucket:06d}-{each:05d}" for each in range(self.outputs)]

    @property
    def is_joined(self) -> bool:
        """Whether the token store is there."""
        return (self.folder / "store" / MARKER).exists()

    @cached_property
    def tokenizer(self) -> Tokenizer:
        """The tokenizer."""
        options = self.options
        return make_tokenizer(
            options.tokenization,
            vocab_file=options.vocab_file,
            sp_model_file=options.sp_model_file,
            lower=options.do_lower_case,
        )

    @cached_property
    def recipe(self) -> Recipe:
        """What instances are made of besides text."""
        return Recipe(self.options, self.tokenizer.vocabulary)

    @cached_property
    def store(self) -> TokenStore:
        """The token store, once it is there."""
        return TokenStore(self.folder / "store")

    @cached_property
    def tasks(self) -> list[Task]:
        """The tasks of planning."""
        return plan_tasks(self.store, self.options, self.sizes.task)

    @cached_property
    def plans(self) -> list[Path]:
        """The plan files, in the order of their tasks."""
        return [self.plan(each) for each in range(len(self.tasks))]

    @cached_property
    def buckets(self) -> int:
        """Number of buckets."""
        return bucket_count(self.store, self.options, self.sizes.bucket)

    @cached_property
    def counts(self) -> np.ndarray:
        """Instances of each bucket, once all tasks are planned; int64."""
        return np.sum([read_counts(each, self.buckets) for each in self.plans], axis=0)

    def join(self, parts: int) -> None:
        """Joins the token files to the store."""
        join_parts([self.part(each) for each in range(parts)], self.folder / "store")

    def run(self, piece: Piece) -> None:
        """Does a piece of work, unless it is done."""
        number = piece["number"]
        if piece["step"] == "tokenize":
            self._tokenize(number, Part(**piece["part"]))
        elif piece["step"] == "plan":
            if not self.plan(number).exists():
                plan_task(
                    self.store, self.options, self.tasks[number], self.buckets, self.plan(number)
                )
        else:
            self._write(number)

    def _tokenize(self, number: int, part: Part) -> None:
        if not self.part(number).exists():
            tokenize_part(
                Path(part.path),
                part.start,
                part.stop,
                self.tokenizer,
                self.part(number),
                invalid_utf8=self.options.invalid_utf8,
            )

    def _write(self, bucket: int) -> None:
        segments: Sequence[Path] = self.segments(bucket)
        if not all(each.exists() for each in segments):
            before = int(self.counts[:bucket].sum())
            write_bucket(self.store, self.recipe, self.plans, bucket, before, segments)
