"""Labels of words: named entities (panx) and parts of speech (udpos) in many languages."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from provender.errors import InputError
from provender.nlp.finetuning.classification import language_path
from provender.nlp.finetuning.encoding import Features, Packer, single
from provender.nlp.finetuning.options import Options
from provender.nlp.finetuning.outputs import Encoded, Planned, file_digest, line_count
from provender.nlp.finetuning.tables import existing, lines
from provender.nlp.finetuning.tasks import TAGGING

IGNORED = -1
"""Label of what has none: pieces inside a word, special tokens, padding."""


@dataclass(frozen=True)
class Sentence:
    """Words and their labels.

    Attributes:
        words: of the sentence.
        labels: number of each word's; `IGNORED` where it is not known.
    """

    words: tuple[str, ...]
    labels: tuple[int, ...]


def sentences(path: Path, labels: Sequence[str], *, labelled: bool = True) -> Iterator[Sentence]:
    """The sentences of a file: a word, a tab and its label a line, a blank line after each sentence.

    Args:
        path: the file.
        labels: names by number.
        labelled: whether each word must have a label.

    Raises:
        InputError: a line has no label, or an unknown one.
    """
    numbers = {name: i for i, name in enumerate(labels)}
    words: list[str] = []
    found: list[int] = []
    for i, line in lines(path):
        if not line.strip():
            if words:
                yield Sentence(tuple(words), tuple(found))
            words, found = [], []
            continue
        word, *rest = line.split("\t")
        if len(rest) > 1 or (labelled and not rest):
            raise InputError(
                f"Line {i:,} of {path.name} has {1 + len(rest)} columns: it should be a word, a "
                "tab and a label.",
                where=f"{path}:{i}",
                facts={"line": i, "columns": 1 + len(rest)},
            )
        if rest and rest[0] not in numbers:
            raise InputError(
                f"Line {i:,} of {path.name} has the label {rest[0]!r}.",
                where=f"{path}:{i}",
                hint=f"Labels are {', '.join(labels)}.",
                facts={"line": i, "label": rest[0], "labels": list(labels)},
            )
        words.append(word)
        found.append(numbers[rest[0]] if rest else IGNORED)
    if words:
        yield Sentence(tuple(words), tuple(found))


class SentenceEncoder(Packer):
    """Makes records of sentences; long ones become several, which are cut between words."""

    at_once = 512
    unique = False

    def __call__(self, first: int, items: Sequence[Sentence]) -> Encoded:
        """The records of sentences; see `Encoder`."""
        found = []
        for i, sentence in enumerate(items):
            for part, (ids, labels) in enumerate(self._parts(sentence)):
                found.append(self._record(ids, labels, first + i, part))
        return Encoded(found)

    def _parts(self, sentence: Sentence) -> Iterator[tuple[list[int], list[int]]]:
        room = self.length - 2
        ids: list[int] = []
        labels: list[int] = []
        for word, label in zip(sentence.words, sentence.labels, strict=True):
            pieces = self.ids(word)
            if not pieces or len(pieces) > room:
                pieces = [self.unknown]
            if len(ids) + len(pieces) > room:
                yield ids, labels
                ids, labels = [], []
            ids += pieces
            labels += [label] + [IGNORED] * (len(pieces) - 1)
        yield ids, labels

    def _record(self, ids: list[int], labels: list[int], sentence: int, part: int) -> Features:
        found = self.packed([ids])
        found["label_ids"] = self.padded([IGNORED, *labels], IGNORED)
        found["sentence_id"] = single(sentence)
        found["sub_sentence_id"] = single(part)
        return found


def plan(options: Options, wanted: Sequence[str]) -> list[Planned]:
    """The files to make.

    Args:
        options: which task, and where its files lie and go.
        wanted: splits.

    Raises:
        MissingFiles: a language has no file.
        SettingsError: the test path has no place for the language.
    """
    task = TAGGING[options.tagging_task_name]
    english = ("en",)
    every = (*english, *(each for each in task.languages if each not in english))
    chosen = {
        "train": english if options.tagging_only_use_en_train else every,
        "eval": english if options.only_use_en_dev else every,
    }
    files = []
    for key, languages in chosen.items():
        if key in wanted:
            path = Path(getattr(options, f"{key}_data_output_path"))
            split = "train" if key == "train" else "dev"
            files.append(_planned(options, key, path, split, languages))
    if "test" in wanted:
        assert options.test_data_output_path
        for each in task.languages:
            path = language_path(options.test_data_output_path, each)
            files.append(_planned(options, f"test_{each}", path, "test", (each,)))
    return files


def _planned(
    options: Options, key: str, target: Path, split: str, languages: Sequence[str]
) -> Planned:
    folder = Path(options.input_data_dir or "")
    paths = [existing(folder / f"{split}-{each}.tsv", "--input_data_dir") for each in languages]
    labels = TAGGING[options.tagging_task_name].labels
    return Planned(
        key,
        target,
        partial(_source, paths, labels),
        partial(_read, paths, labels, split != "test"),
        line_count(paths, b"\n\n"),
        SentenceEncoder(options),
        paths,
    )


def _source(paths: Sequence[Path], labels: Sequence[str]) -> dict[str, Any]:
    return {"files": [file_digest(each) for each in paths], "labels": list(labels)}


def _read(paths: Sequence[Path], labels: Sequence[str], labelled: bool) -> Iterator[Sentence]:
    for each in paths:
        yield from sentences(each, labels, labelled=labelled)


def metadata(options: Options) -> dict[str, Any]:
    """What training must know of the labels."""
    labels = TAGGING[options.tagging_task_name].labels
    return {
        "task_type": "tagging",
        "processor_type": options.tagging_task_name,
        "label_type": "int",
        "label_shape": [options.max_seq_length],
        "label_list": list(labels),
        "num_labels": len(labels),
        "max_seq_length": options.max_seq_length,
    }
