"""Windows over passages that answer questions, as a dataset of a project."""

from __future__ import annotations

import functools
from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby
from pathlib import Path
from typing import Any, ClassVar

import tensorflow_datasets as tfds

from provender.errors import InputError, SettingsError
from provender.nlp.finetuning.features import window_features
from provender.nlp.finetuning.outputs import FIRST_UNIQUE
from provender.nlp.finetuning.running import QUESTIONS, windows_of
from provender.nlp.finetuning.squad import Paragraph, Question
from provender.nlp.finetuning.windows import QuestionEncoder, metadata
from provender.nlp.recipes.arguments import ENCODING, check_shards, encoding_options, located
from provender.nlp.recipes.records import (
    FromFiles,
    FromVersion,
    Numbers,
    RecordsInSteps,
    Supply,
    as_features,
)
from provender.nlp.recipes.text import check_texts
from provender.nlp.recipes.version import Rows, SourceVersion

_FLAGS = (*ENCODING, "doc_stride", "max_query_length", "version_2_with_negative", "xlnet_format")
NUMBERS: Numbers = ("unique_ids", FIRST_UNIQUE)
PER_QUESTION = 1.2
"""Windows, about."""


class SquadExamples(RecordsInSteps, skip_registration=True):  # type: ignore[call-arg]
    """Training records of questions about passages: of a published version, or of SQuAD's JSON.

    The records are those of `provender nlp create-finetuning-data --fine-tuning-task-type squad`, in
    the same order. Windows are encoded, then shards are written, in which they are numbered.

    Args:
        source: the published version, whose features are those of TFDS's SQuAD: ``context``,
            ``question``, ``answers`` with ``text`` and ``answer_start``, and for
            ``version_2_with_negative`` ``is_impossible``.
        split: which of its splits, e.g. ``train``.
        input_file: JSON files instead of a version.
        shards: number of files; by default as many as suit the size.
        dataset: name of the dataset; by default what the project calls it.
        version: number, by default 1.0.0.
        data_dir: as TFDS gives it.
        config: as TFDS gives it; there are none.
        **flags: ``vocab_file``, ``sp_model_file``, ``tokenization``, ``do_lower_case``,
            ``max_seq_length``, ``doc_stride``, ``max_query_length``, ``version_2_with_negative``,
            ``xlnet_format``, as `provender.nlp.finetuning.Options` has them.
    """

    ARGUMENTS: ClassVar[dict[str, str]] = {
        "source": "version",
        "input_file": "file",
        "vocab_file": "file",
        "sp_model_file": "file",
        "dataset": "name",
    }
    STEPS: ClassVar[Mapping[str, Sequence[str]]] = {
        "records": ("source", "split", "input_file", *_FLAGS)
    }

    def __init__(
        self,
        *,
        source: Any = None,
        split: str = "train",
        input_file: str | Sequence[str] | None = None,
        shards: int | None = None,
        dataset: str = "squad_examples",
        version: Any = None,
        data_dir: Any = None,
        config: Any = None,
        **flags: Any,
    ) -> None:
        if (source is None) == (input_file is None):
            raise SettingsError(
                "The questions are either a published version's or files'.",
                where=f"{dataset}, source, input_file",
                hint='source = "squad:3.0.0", or input_file = "train-v1.1.json".',
            )
        check_shards(dataset, shards)
        self.name = dataset
        self.VERSION = tfds.core.Version(version or "1.0.0")
        self._options = encoding_options(dataset, flags, _FLAGS)
        self._shards = shards
        self._length = self._options.max_seq_length
        self._files: list[Path] | None = None
        self._source: SourceVersion | None = None
        if input_file is not None:
            names = [input_file] if isinstance(input_file, str) else input_file
            self._files = [Path(each) for each in names]
        elif isinstance(source, Mapping):
            self._source = SourceVersion(source, split.split("+"))
        super().__init__(data_dir=data_dir, config=config)

    def _info(self) -> Any:
        options = self._options
        return tfds.core.DatasetInfo(
            builder=self,
            description=(
                f"Fine-tuning records of {options.max_seq_length} tokens for bert_squad, a window "
                f"every {options.doc_stride} tokens."
            ),
            features=as_features(window_features(options.max_seq_length)),
            metadata=tfds.core.MetadataDict(metadata(options)),
            disable_shuffling=True,
        )

    def supplies(self) -> Mapping[str, Supply]:
        """See `RecordsInSteps`."""
        QuestionEncoder(self._options).check()
        if self._files is not None:
            planned = windows_of(self._files, self._options, Path())
            return {"train": FromFiles(planned, NUMBERS, QUESTIONS * PER_QUESTION)}
        questions = _OfVersion(located(self._source), self._options.version_2_with_negative)
        questions.check()
        encode = QuestionEncoder(self._options)
        return {
            "train": FromVersion(
                questions.source, questions.paragraphs, encode, NUMBERS, PER_QUESTION
            )
        }


class _OfVersion:
    """Paragraphs of a published version, whose examples are a question each."""

    def __init__(self, source: SourceVersion, negative: bool) -> None:
        self.source = source
        self._negative = negative

    @functools.cached_property
    def _columns(self) -> list[str]:
        return ["context", "question", "answers", *(["is_impossible"] if self._negative else [])]

    def check(self) -> None:
        check_texts(self.source, ["context", "question"])
        features = self.source.features()
        answers = features["answers"] if "answers" in set(features) else {}
        # A list of texts and places, or texts and places in lists.
        known = getattr(answers, "feature", answers)
        missing = [
            *(each for each in ("text", "answer_start") if each not in known),
            *(each for each in self._columns if each not in features),
        ]
        if missing:
            raise InputError(
                f"{self.source.name} has no {missing[0]}, which SQuAD has.",
                where=self.source.name,
                hint="Its features must be context, question and answers (text, answer_start), and "
                "is_impossible for version_2_with_negative.",
                facts={"features": list(features)},
            )

    def paragraphs(self, rows: Rows) -> Iterator[Paragraph]:
        """Neighbouring questions, those about one passage together."""
        for _, examples in self.source.read([rows], self._columns):
            numbered = enumerate(examples, rows.start)
            # It is tokenized once for all of them.
            for context, group in groupby(numbered, key=lambda each: each[1]["context"]):
                asked = tuple(self._question(rows.file, *each) for each in group)
                yield Paragraph(_text(context), asked)

    def _question(self, file: int, number: int, row: Mapping[str, Any]) -> Question:
        name = f"{self.source.files[file][0]}, example {number}"
        text = _text(row["question"])
        if self._negative and bool(row["is_impossible"]):
            return Question(name, text, impossible=True)
        answers = row["answers"]["text"]
        if len(answers) != 1:
            raise InputError(
                f"A question has {len(answers)} answers; for training it needs exactly 1.",
                where=f"{self.source.name}, {name}",
                hint="Questions without an answer need version_2_with_negative and is_impossible."
                if not len(answers)
                else "Use the split for training: those for evaluation have several.",
            )
        return Question(name, text, _text(answers[0]), int(row["answers"]["answer_start"][0]))


def _text(value: Any) -> str:
    return value.decode("utf-8") if isinstance(value, bytes) else str(value)
