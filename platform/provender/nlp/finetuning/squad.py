"""SQuAD's JSON: paragraphs, the questions about them, and where the answers stand."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from provender.errors import InputError
from provender.nlp.finetuning.tables import existing
from provender.records.atomic import told_as_ours


@dataclass(frozen=True)
class Question:
    """A question about a paragraph.

    Attributes:
        id: names it.
        text: of the question.
        answer: a text that answers it; None where it was not asked for.
        start: where the answer begins in the paragraph, in characters.
        impossible: whether the paragraph does not answer it.
    """

    id: str
    text: str
    answer: str | None = None
    start: int = 0
    impossible: bool = False


@dataclass(frozen=True)
class Paragraph:
    """A text and the questions about it."""

    context: str
    questions: tuple[Question, ...]


def squad_files(file: str, translated: str | None) -> list[Path]:
    """SQuAD's file and those of a folder of translations, in the order of their names.

    Raises:
        MissingFiles: the file or the folder is not there, or the folder holds no JSON.
    """
    found = [existing(Path(file), "--squad_data_file")]
    if translated:
        more = sorted(Path(translated).glob("*.json"))
        if not more:
            existing(Path(translated) / "*.json", "--translated_squad_data_folder")
        found += more
    return found


def question_count(file: Path) -> int:
    """Questions of a file, about; it is not parsed."""
    with told_as_ours(file):
        return file.read_bytes().count(b'"question"')


def paragraphs(
    file: Path, *, answered: bool, version_2_with_negative: bool = False
) -> Iterator[Paragraph]:
    """The paragraphs of a file, which is held in memory meanwhile.

    Args:
        file: SQuAD's JSON.
        answered: whether answers are read, as for training.
        version_2_with_negative: whether ``is_impossible`` counts.

    Raises:
        InputError: it is no such JSON; or with ``answered``, a question that can be answered has
            no answer or several.
    """
    for place, entry in _entries(file):
        try:
            context = str(entry["context"])
            questions = tuple(
                _question(each, file, answered, version_2_with_negative) for each in entry["qas"]
            )
        except (KeyError, TypeError, IndexError) as error:
            raise _no_squad(file, f"{place}: {type(error).__name__} {error}") from error
        yield Paragraph(context, questions)


def _entries(file: Path) -> Iterator[tuple[str, Any]]:
    with told_as_ours(file):
        raw = file.read_bytes()
    try:
        articles = json.loads(raw)["data"]
        for i, article in enumerate(articles):
            for j, entry in enumerate(article["paragraphs"]):
                yield f"data[{i}].paragraphs[{j}]", entry
    except ValueError as error:
        raise _no_squad(file, str(error)) from error
    except (KeyError, TypeError) as error:
        raise _no_squad(file, f"{type(error).__name__} {error}") from error


def _no_squad(file: Path, what: str) -> InputError:
    return InputError(
        f"{file.name} is no SQuAD JSON: {what}.",
        where=str(file),
        hint="It holds data, a list of paragraphs with context and qas.",
    )


def _question(
    doc: Mapping[str, Any], file: Path, answered: bool, version_2_with_negative: bool
) -> Question:
    name, text = str(doc["id"]), str(doc["question"])
    if not answered:
        return Question(name, text)
    if version_2_with_negative and doc.get("is_impossible", False):
        return Question(name, text, impossible=True)
    answers: Sequence[Any] = doc["answers"]
    if len(answers) != 1:
        raise InputError(
            f"Question {name} has {len(answers)} answers; for training it needs exactly 1.",
            where=f"{file}: {name}",
            hint="Questions without an answer need --version_2_with_negative and is_impossible."
            if not answers
            else "Use the training file: files for evaluation have several.",
            facts={"question": name, "answers": len(answers)},
        )
    return Question(name, text, str(answers[0]["text"]), int(answers[0]["answer_start"]))
