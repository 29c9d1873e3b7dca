"""Windows over passages that answer questions, as a dataset of a project."""

from __future__ import annotations

import functools
import json
import logging
from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby
from pathlib import Path
from typing import Any, ClassVar, Protocol

import numpy as np
import tensorflow_datasets as tfds

from provender.builders.steps import InSteps, Part
from provender.errors import InputError, SettingsError
from provender.nlp.finetuning.builder import values_of
from provender.nlp.finetuning.outputs import FIRST_UNIQUE
from provender.nlp.finetuning.squad import Paragraph, Question, paragraphs, question_count
from provender.nlp.finetuning.windows import QuestionEncoder
from provender.nlp.recipes.arguments import ENCODING, check_shards, encoding_options, located
from provender.nlp.recipes.text import check_texts
from provender.nlp.recipes.version import SourceVersion
from provender.records.atomic import AtomicFile, told_as_ours, write_json
from provender.records.protobuf import example
from provender.records.shards import shard_bounds, shard_count
from provender.records.tfrecord import frame, iter_records

_log = logging.getLogger(__name__)
_FLAGS = (*ENCODING, "doc_stride", "max_query_length", "version_2_with_negative", "xlnet_format")
_PIECE = 1 << 20
"""Bytes of a version's examples that are encoded together."""
_PARAGRAPHS = 256
"""Paragraphs of a file that are encoded together."""
_COUNTS = "records.json"
_PER_QUESTION = 1.2
"""Windows, roughly."""
_BYTES_PER_TOKEN = 5
_POSITIONS = ("unique_ids", "class_index", "start_positions", "end_positions", "is_impossible")


class SquadExamples(InSteps, tfds.core.ShardBasedBuilder, skip_registration=True):  # type: ignore[call-arg]
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
        "windows": ("source", "split", "input_file", *_FLAGS)
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
        negative = self._options.version_2_with_negative
        self._questions: _Questions | None = None
        if input_file is not None:
            names = [input_file] if isinstance(input_file, str) else list(input_file)
            self._questions = _OfFiles(names, negative)
        elif isinstance(source, Mapping):
            self._questions = _OfVersion(SourceVersion(source, split.split("+")), negative)
        super().__init__(data_dir=data_dir, config=config)

    def _info(self) -> Any:
        options = self._options
        lengths = dict.fromkeys(
            ("input_ids", "input_mask", "segment_ids", "paragraph_mask"), options.max_seq_length
        )
        lengths |= dict.fromkeys(_POSITIONS, 1)
        told = ("max_seq_length", "max_query_length", "doc_stride", "version_2_with_negative")
        metadata = {"task_type": "bert_squad", **{each: getattr(options, each) for each in told}}
        return tfds.core.DatasetInfo(
            builder=self,
            description=(
                f"Fine-tuning records of {options.max_seq_length} tokens for bert_squad, a window "
                f"every {options.doc_stride} tokens."
            ),
            features=tfds.features.FeaturesDict(
                {
                    name: tfds.features.Tensor(shape=(length,), dtype=np.int64)
                    for name, length in lengths.items()
                }
            ),
            metadata=tfds.core.MetadataDict(metadata),
            disable_shuffling=True,
        )

    def make_windows(self, part: Part) -> list[Path]:
        """Encodes the questions of a part of the paragraphs."""
        questions = located(self._questions)
        encode = QuestionEncoder(self._options)
        mine = part.share(questions.pieces)
        skipped = 0
        for done, number in enumerate(mine):
            part.told(done, len(mine), "pieces")
            path = _piece_path(part.folder, number)
            if path.exists():
                continue
            made = encode(0, list(questions.of(number)))
            skipped += made.notes.total()
            with told_as_ours(path.parent):
                path.parent.mkdir(exist_ok=True)
            with AtomicFile(path) as file:
                payloads = [example(features) for features in made.records]
                file.write(b"".join(frame(payloads)))
        if skipped:
            _log.warning("%d questions are left out: their answers are not there.", skipped)
        return [_piece_path(part.folder, number) for number in mine]

    def join_windows(self, folder: Path, parts: int) -> list[Path]:
        """Counts the records, so that they can be numbered."""
        pieces = [_piece_path(folder, each) for each in range(located(self._questions).pieces)]
        counts = [sum(1 for _ in iter_records(each, verify=False)) for each in pieces]
        if not sum(counts):
            raise InputError(
                "There are no questions that can be answered.",
                where=self.name,
                hint="The split or the files are empty, or no answer stands where they say.",
            )
        write_json(folder / _COUNTS, counts)
        return [*pieces, folder / _COUNTS]

    def _shard_iterators_per_split(self, dl_manager: Any) -> dict[str, list[Any]]:
        questions = located(self._questions)
        questions.check()
        QuestionEncoder(self._options).check()
        records = max(1, int(questions.count * _PER_QUESTION))
        size = records * self._options.max_seq_length * _BYTES_PER_TOKEN
        shards = self._shards or int(shard_count(size, records))
        return {
            "train": [functools.partial(self._examples, each, shards) for each in range(shards)]
        }

    def _examples(self, shard: int, shards: int) -> Iterator[tuple[int, Any]]:
        folder = self.made["windows"]
        counts: list[int] = json.loads((folder / _COUNTS).read_bytes())
        start, stop = shard_bounds(sum(counts), shards)[shard]
        first = 0
        for number, count in enumerate(counts):
            if start < first + count and first < stop:
                records = iter_records(_piece_path(folder, number))
                for key, (_, payload) in enumerate(records, first):
                    if start <= key < stop:
                        unique = np.array([FIRST_UNIQUE + key], np.int64)
                        yield key, {"unique_ids": unique, **values_of(payload)}
            first += count


def _piece_path(folder: Path, number: int) -> Path:
    return folder / "pieces" / f"{number:06d}"


class _Questions(Protocol):
    """Paragraphs with questions, in pieces."""

    @property
    def pieces(self) -> int:
        """How many pieces there are."""
        ...

    @property
    def count(self) -> int:
        """Questions, about."""
        ...

    def check(self) -> None:
        """Refuses what holds no questions, before anything is encoded."""
        ...

    def of(self, piece: int) -> Iterator[Paragraph]:
        """The paragraphs of a piece."""
        ...


class _OfFiles:
    """Paragraphs of SQuAD's JSON files, which are held in memory."""

    def __init__(self, names: Sequence[str], negative: bool) -> None:
        self._files = [Path(each) for each in names]
        self._negative = negative

    @functools.cached_property
    def _paragraphs(self) -> list[Paragraph]:
        return [
            paragraph
            for file in self._files
            for paragraph in paragraphs(file, answered=True, version_2_with_negative=self._negative)
        ]

    @property
    def pieces(self) -> int:
        return -(-len(self._paragraphs) // _PARAGRAPHS)

    @property
    def count(self) -> int:
        return sum(map(question_count, self._files))

    def check(self) -> None:
        assert self._paragraphs is not None

    def of(self, piece: int) -> Iterator[Paragraph]:
        yield from self._paragraphs[piece * _PARAGRAPHS : (piece + 1) * _PARAGRAPHS]


class _OfVersion:
    """Paragraphs of a published version, whose examples are a question each."""

    def __init__(self, source: SourceVersion, negative: bool) -> None:
        self._source = source
        self._negative = negative

    @functools.cached_property
    def _columns(self) -> list[str]:
        return ["context", "question", "answers", *(["is_impossible"] if self._negative else [])]

    @property
    def pieces(self) -> int:
        return len(self._source.cut(_PIECE))

    @property
    def count(self) -> int:
        return self._source.count

    def check(self) -> None:
        check_texts(self._source, ["context", "question"])
        features = self._source.features()
        answers = features["answers"] if "answers" in set(features) else {}
        # A list of texts and places, or texts and places in lists.
        known = getattr(answers, "feature", answers)
        missing = [
            *(each for each in ("text", "answer_start") if each not in known),
            *(each for each in self._columns if each not in features),
        ]
        if missing:
            raise InputError(
                f"{self._source.name} has no {missing[0]}, which SQuAD has.",
                where=self._source.name,
                hint="Its features must be context, question and answers (text, answer_start), and "
                "is_impossible for version_2_with_negative.",
                facts={"features": list(features)},
            )

    def of(self, piece: int) -> Iterator[Paragraph]:
        rows = self._source.cut(_PIECE)[piece]
        for _, examples in self._source.read([rows], self._columns):
            numbered = enumerate(examples, rows.start)
            # Questions about one passage follow each other; it is tokenized once.
            for context, group in groupby(numbered, key=lambda each: each[1]["context"]):
                asked = tuple(self._question(rows.file, *each) for each in group)
                yield Paragraph(_text(context), asked)

    def _question(self, file: int, number: int, row: Mapping[str, Any]) -> Question:
        name = f"{self._source.files[file][0]}, example {number}"
        text = _text(row["question"])
        if self._negative and bool(row["is_impossible"]):
            return Question(name, text, impossible=True)
        answers = row["answers"]["text"]
        if len(answers) != 1:
            raise InputError(
                f"A question has {len(answers)} answers; for training it needs exactly 1.",
                where=f"{self._source.name}, {name}",
                hint="Questions without an answer need version_2_with_negative and is_impossible."
                if not len(answers)
                else "Use the split for training: those for evaluation have several.",
            )
        return Question(name, text, _text(answers[0]), int(row["answers"]["answer_start"][0]))


def _text(value: Any) -> str:
    return value.decode("utf-8") if isinstance(value, bytes) else str(value)
