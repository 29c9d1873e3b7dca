"""Passages longer than a record, cut into windows that overlap; records of them for questions.

The windows are those of BERT's and XLNet's code for SQuAD (Devlin et al., 2018; Yang et al., 2019).
"""

from __future__ import annotations

import bisect
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from provender.errors import InputError
from provender.nlp.finetuning.encoding import Features, Packer, single
from provender.nlp.finetuning.options import Options
from provender.nlp.finetuning.outputs import Encoded
from provender.nlp.finetuning.passages import Answer, Passage, located
from provender.nlp.finetuning.squad import Paragraph, Question

SKIPPED = "answers not found in their passage"
_PAD_TYPE = 3
"""Of padding, in XLNet's format."""


@dataclass(frozen=True)
class Span:
    """Tokens of a passage: from ``start``, so many."""

    start: int
    length: int

    @property
    def stop(self) -> int:
        """The token after the last one."""
        return self.start + self.length


def spans(tokens: int, room: int, stride: int) -> list[Span]:
    """The windows of a passage: the last one is the first that reaches its end.

    Args:
        tokens: of the passage.
        room: tokens of it that a record holds, at least 1.
        stride: tokens from one window to the next; never more than a window holds.

    Returns:
        Windows that cover every token.
    """
    found = []
    start = 0
    while start < tokens:
        found.append(Span(start, min(room, tokens - start)))
        if found[-1].stop == tokens:
            break
        start += min(room, stride)
    return found


def best_window(windows: Sequence[Span], token: int) -> int:
    """The window in which a token has most context: on its poorer side, then in all.

    Args:
        windows: of the passage.
        token: of the passage.

    Returns:
        The number of the window; of equal ones the first.
    """
    # Windows begin and end in ascending order, so those with the token are neighbours.
    first = bisect.bisect_right(windows, token, key=lambda each: each.stop)
    last = bisect.bisect_right(windows, token, key=lambda each: each.start)

    def context(number: int) -> float:
        span = windows[number]
        poorer = min(token - span.start, span.stop - 1 - token)
        return poorer + 0.01 * span.length

    return max(range(first, last), key=context)


@dataclass(frozen=True)
class Window:
    """A record of a question and a window of its passage.

    Attributes:
        question: the question.
        passage: the passage.
        span: the tokens of it that the record holds.
        offset: place of the first of them in the record.
        number: of the window.
        windows: all windows of the passage.
        ids: of the record's tokens, without padding.
        types: of its tokens.
        paragraph: 1 for tokens of the passage and [CLS], else 0.
        class_index: where [CLS] stands.
    """

    question: Question
    passage: Passage
    span: Span
    offset: int
    number: int
    windows: Sequence[Span]
    ids: Sequence[int]
    types: Sequence[int]
    paragraph: Sequence[int]
    class_index: int

    def token(self, position: int) -> int | None:
        """The token of the passage at a place of the record; None where there is none."""
        found = position - self.offset + self.span.start
        return found if self.span.start <= found < self.span.stop else None

    def has_most_context(self, position: int) -> bool:
        """Whether no other window shows the token at a place of the record with more context."""
        token = self.token(position)
        return token is not None and best_window(self.windows, token) == self.number

    def text(self, start: int, end: int) -> str | None:
        """The text of the passage between two places of the record, both included.

        Returns:
            The text; None where one is not in the passage, or they are in the wrong order.
        """
        first, last = self.token(start), self.token(end)
        if first is None or last is None or last < first:
            return None
        return self.passage.text(first, last)

    def positions(self, answer: Answer | None) -> tuple[int, int, bool]:
        """Where an answer stands in the record.

        Args:
            answer: first and last token of it, or None.

        Returns:
            First and last place, and whether it is not there; then both places are 0.
        """
        if answer is None or answer[0] < self.span.start or answer[1] >= self.span.stop:
            return 0, 0, True
        shift = self.offset - self.span.start
        return answer[0] + shift, answer[1] + shift, False


def metadata(options: Options) -> dict[str, Any]:
    """What training must know of the windows."""
    return {
        "task_type": "bert_squad",
        "max_seq_length": options.max_seq_length,
        "max_query_length": options.max_query_length,
        "doc_stride": options.doc_stride,
        "version_2_with_negative": options.version_2_with_negative,
    }


class QuestionEncoder(Packer):
    """Makes records of paragraphs and their questions.

    Args:
        options: tokenization, lengths and format.
        answered: whether records say where answers stand.
    """

    at_once = 16
    unique = True

    def __init__(self, options: Options, answered: bool = True) -> None:
        super().__init__(options)
        self.answered = answered

    def __reduce__(self) -> Any:
        return type(self), (self.options, self.answered)

    def __call__(self, first: int, items: Sequence[Paragraph]) -> Encoded:
        """The records of paragraphs; see `Encoder`."""
        del first
        records: list[Features] = []
        notes: Counter[str] = Counter()
        for each in items:
            for window, answer in self.windows(each, notes):
                records.append(self.record(window, answer))
        return Encoded(records, notes)

    def windows(
        self, paragraph: Paragraph, notes: Counter[str]
    ) -> Iterator[tuple[Window, Answer | None]]:
        """The windows of each question of a paragraph, and the answer's tokens in the passage.

        Args:
            paragraph: the paragraph.
            notes: where skipped questions are counted.

        Raises:
            InputError: a question leaves no room for the passage.
        """
        there = located(paragraph.context, self)
        for question in paragraph.questions:
            answer = None
            if self.answered and not question.impossible:
                answer = there.locate(question.start, question.answer or "")
                if answer is None:
                    notes[SKIPPED] += 1
                    continue
            query = self.ids(question.text)[: self.options.max_query_length]
            for window in self._of_question(question, there.passage, query):
                yield window, answer

    def _of_question(
        self, question: Question, passage: Passage, query: list[int]
    ) -> Iterator[Window]:
        room = self.length - len(query) - 3
        if room < 1:
            raise InputError(
                f"Question {question.id} takes {len(query)} tokens and leaves none of "
                f"{self.length} for its passage.",
                where=question.id,
                hint="Give a larger --max_seq_length, or a smaller --max_query_length.",
                facts={"question": question.id, "tokens": len(query), "length": self.length},
            )
        windows = spans(len(passage.ids), room, self.options.doc_stride)
        for number, span in enumerate(windows):
            tokens = list(passage.ids[span.start : span.stop])
            made = self._for_xlnet if self.options.xlnet_format else self._for_bert
            ids, types, paragraph, offset, class_index = made(query, tokens)
            yield Window(
                question, passage, span, offset, number, windows, ids, types, paragraph, class_index
            )

    def _for_bert(
        self, query: list[int], tokens: list[int]
    ) -> tuple[list[int], list[int], list[int], int, int]:
        cls, sep = self.marks
        offset = len(query) + 2
        ids = [cls, *query, sep, *tokens, sep]
        types = [0] * offset + [1] * (len(tokens) + 1)
        paragraph = [1] + [0] * (offset - 1) + [1] * len(tokens) + [0]
        return ids, types, paragraph, offset, 0

    def _for_xlnet(
        self, query: list[int], tokens: list[int]
    ) -> tuple[list[int], list[int], list[int], int, int]:
        cls, sep = self.marks
        ids = [*tokens, sep, *query, sep, cls]
        types = [0] * (len(tokens) + 1) + [1] * (len(query) + 1) + [2]
        paragraph = [1] * len(tokens) + [0] * (len(query) + 2) + [1]
        return ids, types, paragraph, 0, len(ids) - 1

    def record(self, window: Window, answer: Answer | None = None) -> Features:
        """The features of a window, without unique_ids."""
        pad_type = _PAD_TYPE if self.options.xlnet_format else 0
        found = {
            "input_ids": self.padded(list(window.ids)),
            "input_mask": self.padded([1] * len(window.ids)),
            "segment_ids": self.padded(list(window.types), pad_type),
            "paragraph_mask": self.padded(list(window.paragraph)),
            "class_index": single(window.class_index),
        }
        if self.answered:
            start, end, absent = window.positions(answer)
            found["start_positions"] = single(start)
            found["end_positions"] = single(end)
            found["is_impossible"] = single(int(absent))
        return found
