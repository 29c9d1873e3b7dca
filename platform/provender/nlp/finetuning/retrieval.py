"""Sentences of languages and of English, to find those that translate each other."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from provender.errors import InputError
from provender.nlp.finetuning.classification import RowEncoder
from provender.nlp.finetuning.options import Options
from provender.nlp.finetuning.outputs import Planned, file_digest, line_count
from provender.nlp.finetuning.rows import Row
from provender.nlp.finetuning.tables import cells, existing, lines
from provender.nlp.finetuning.tasks import RETRIEVAL

_NUMBER = re.compile(r"-(\d+)\s*$")
_NAMES = {"eval": "dev", "test": "test"}
"""Split -> as its files call it."""


def sentences(path: Path, numbered: bool) -> Iterator[Row]:
    """The sentences of a file, without labels.

    Args:
        path: the file.
        numbered: whether a line is an id as ``de-000012``, a tab and the text; else its id is its
            place in the file.

    Raises:
        InputError: a line has no text, or an id without a number.
    """
    if not numbered:
        for _, line in lines(path):
            yield Row((line.strip(),))
        return
    for i, (name, text, *_) in cells(path, 2):
        number = _NUMBER.search(name)
        if not number:
            raise InputError(
                f"Line {i:,} of {path.name} has the id {name!r}, which ends in no number.",
                where=f"{path}:{i}",
                hint="Ids are as in de-000012.",
                facts={"line": i, "id": name},
            )
        yield Row((text.strip(),), example_id=int(number[1]))


def splits_of(options: Options) -> tuple[str, ...]:
    """The splits that a task has."""
    files = RETRIEVAL[options.retrieval_task_name].files
    return tuple(split for split, name in _NAMES.items() if name in files)


def plan(options: Options, wanted: Sequence[str]) -> list[Planned]:
    """The files to make: for each language and split one of the language and one of English.

    Args:
        options: which task, and where its files lie and go.
        wanted: splits; those that the task does not have are left out.

    Raises:
        MissingFiles: a language has no file.
    """
    task = RETRIEVAL[options.retrieval_task_name]
    folder = Path(options.input_data_dir or "")
    found = []
    for each in splits_of(options):
        if each not in wanted:
            continue
        target = getattr(options, f"{each}_data_output_path")
        split = _NAMES[each]
        name = task.files[split]
        for other in task.languages:
            pair = f"{other}-en"
            for lang in (other, "en"):
                path = existing(folder / name.format(pair=pair, lang=lang), "--input_data_dir")
                found.append(
                    Planned(
                        f"{split}_{pair}.{lang}",
                        Path(target) / f"{pair}-{lang}.{split}.tfrecords",
                        partial(_source, path, task.numbered),
                        partial(sentences, path, task.numbered),
                        line_count([path]),
                        RowEncoder(options),
                        [path],
                    )
                )
    return found


def _source(path: Path, numbered: bool) -> dict[str, Any]:
    return {"file": file_digest(path), "numbered": numbered}


def metadata(options: Options) -> dict[str, Any]:
    """What training must know of the sentences."""
    return {
        "processor_type": options.retrieval_task_name.upper(),
        "task_type": "retrieval",
        "max_seq_length": options.max_seq_length,
    }
