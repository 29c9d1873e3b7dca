"""Kinds of records: which features tell them, what is counted of them, how they read as text."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar

import numpy as np

from provender.errors import InputError
from provender.nlp.pretraining.examples import length_figures, share

Features = Mapping[str, Any]
"""Feature name -> int64 or float32 array, or list of bytes."""
Name = Callable[[int], str]
"""Id -> the token to show."""

_IDS, _MASK, _TYPES = "input_ids", "input_mask", "segment_ids"
_CONTINUES = "##"


class Kind:
    """What is known of the records of one kind, counted one by one.

    Attributes:
        name: of the kind, for people and for JSON.
        needed: features that its records have.
        sized: those of them that have as many values as a record has tokens.
        records: records that were counted.
        seq_length: records by their number of tokens, padding included.
        real: records by their number of tokens, without padding.
    """

    name: ClassVar[str] = ""
    needed: ClassVar[tuple[str, ...]] = (_IDS, _MASK, _TYPES)
    sized: ClassVar[tuple[str, ...]] = (_IDS, _MASK, _TYPES)

    def __init__(self) -> None:
        self.records = 0
        self.seq_length: Counter[int] = Counter()
        self.real: Counter[int] = Counter()
        self.segments: Counter[int] = Counter()

    def add(self, features: Features, where: str) -> None:
        """Counts a record.

        Raises:
            InputError: it lacks a feature, or lengths disagree.
        """
        missing = [each for each in self.needed if each not in features]
        if missing:
            raise InputError(
                f"Record {self.records:,} has no {', '.join(missing)}.",
                where=where,
                hint=f"It has {', '.join(sorted(features)) or 'no features'}. "
                f"The first record is of the kind {self.name}.",
            )
        lengths = {len(features[each]) for each in self.sized}
        if len(lengths) > 1:
            raise InputError(
                f"The features of record {self.records:,} have different lengths.", where=where
            )
        self.records += 1
        (length,) = lengths
        real = self.real_tokens(features)
        self.seq_length[length] += 1
        self.real[real] += 1
        kinds, counts = np.unique(self.types(features)[:real], return_counts=True)
        for kind, count in zip(kinds.tolist(), counts.tolist(), strict=True):
            self.segments[kind] += count
        self.count(features)

    def real_tokens(self, features: Features) -> int:
        """Tokens of a record that are no padding."""
        return int(features[_MASK].sum())

    def types(self, features: Features) -> np.ndarray:
        """Number of the segment of each token."""
        found: np.ndarray = features[_TYPES]
        return found

    def count(self, features: Features) -> None:
        """Counts what only this kind has."""

    def figures(self) -> dict[str, Any]:
        """Figures and shares, JSON-ready."""
        return {
            **length_figures(self.records, self.real, self.seq_length),
            "segments": {str(k): self.segments[k] / self.records for k in sorted(self.segments)},
        }

    def text(self, features: Features, name: Name) -> str:
        """A record as text."""
        ids = features[_IDS][: self.real_tokens(features)].tolist()
        return joined([name(each) for each in ids])

    def remark(self, features: Features) -> str:
        """What is to be said of a record besides its text; empty for nothing."""
        return ""


def joined(tokens: Sequence[str]) -> str:
    """Tokens as text; what continues a word stands at its word."""
    return " ".join(tokens).replace(f" {_CONTINUES}", "")


class XLNet(Kind):
    """XLNet pretraining records, which have no padding."""

    name = "XLNet pretraining"
    needed = ("input_word_ids", "input_type_ids", "boundary_indices")
    sized = ("input_word_ids", "input_type_ids")

    def __init__(self) -> None:
        super().__init__()
        self.words = self.labelled = self.following = 0

    def real_tokens(self, features: Features) -> int:
        return len(features["input_word_ids"])

    def types(self, features: Features) -> np.ndarray:
        found: np.ndarray = features["input_type_ids"]
        return found

    def count(self, features: Features) -> None:
        # The last boundary is the length, the others begin words.
        self.words += max(0, len(features["boundary_indices"]) - 1)
        label = features.get("label", ())
        if len(label):
            self.labelled += 1
            self.following += int(label[0] == 1)

    def figures(self) -> dict[str, Any]:
        return super().figures() | {
            "mean_words": share(self.words, self.records),
            "follows": share(self.following, self.labelled),
        }

    def text(self, features: Features, name: Name) -> str:
        tokens = [name(each) for each in features["input_word_ids"].tolist()]
        begins = set(features["boundary_indices"].tolist())
        return "".join(
            f"{' ' if i and i in begins else '' if i == 0 else '·'}{each}"
            for i, each in enumerate(tokens)
        )

    def remark(self, features: Features) -> str:
        label = features.get("label", ())
        if not len(label):
            return ""
        return "next sentence" if label[0] == 1 else "random next sentence"


class Sentences(Kind):
    """Sentences, pairs or more, with a class, a number or nothing."""

    name = "sentences"

    def __init__(self) -> None:
        super().__init__()
        self.classes: Counter[int] = Counter()
        self.numbers = 0
        self.total = 0.0
        self.least, self.most = np.inf, -np.inf
        self.weights = 0.0
        self.weighted = 0

    def count(self, features: Features) -> None:
        label = features.get("label_ids", np.zeros(0, np.int64))
        if label.dtype.kind == "f":
            self.numbers += len(label)
            self.total += float(label.sum())
            self.least = min(self.least, float(label.min(initial=np.inf)))
            self.most = max(self.most, float(label.max(initial=-np.inf)))
        else:
            self.classes.update(label.tolist())
        if len(features.get("weight", ())):
            self.weighted += 1
            self.weights += float(features["weight"][0])

    def figures(self) -> dict[str, Any]:
        found = super().figures()
        if self.classes:
            total = self.classes.total()
            found["classes"] = {str(k): self.classes[k] / total for k in sorted(self.classes)}
        if self.numbers:
            mean = self.total / self.numbers
            found["labels"] = {"least": self.least, "mean": mean, "most": self.most}
        if self.weighted:
            found["mean_weight"] = self.weights / self.weighted
        return found

    def remark(self, features: Features) -> str:
        said = []
        label = features.get("label_ids", ())
        if len(label):
            numeric = label.dtype.kind == "f"
            said.append(f"label {label[0]:g}" if numeric else f"class {label[0]}")
        if len(features.get("weight", ())):
            said.append(f"weight {features['weight'][0]:g}")
        if len(features.get("example_id", ())):
            said.append(f"id {features['example_id'][0]}")
        return ", ".join(said)


class Tags(Kind):
    """Words with labels; pieces that carry none have -1."""

    name = "tags"
    needed = (_IDS, _MASK, _TYPES, "label_ids")
    sized = (_IDS, _MASK, _TYPES, "label_ids")

    def __init__(self) -> None:
        super().__init__()
        self.labels: Counter[int] = Counter()
        self.cut = 0

    def count(self, features: Features) -> None:
        labels = features["label_ids"]
        self.labels.update(labels[labels >= 0].tolist())
        part = features.get("sub_sentence_id", ())
        self.cut += int(len(part) > 0 and part[0] > 0)

    def figures(self) -> dict[str, Any]:
        total = self.labels.total()
        return super().figures() | {
            "mean_words": share(total, self.records),
            "classes": {str(k): self.labels[k] / total for k in sorted(self.labels)},
            "continued": share(self.cut, self.records),
        }

    def text(self, features: Features, name: Name) -> str:
        real = self.real_tokens(features)
        words: list[str] = []
        labels: list[int] = []
        for id, label in zip(
            features[_IDS][:real].tolist(), features["label_ids"][:real].tolist(), strict=True
        ):
            token = name(id)
            if label < 0 and words and token.startswith(_CONTINUES):
                words[-1] += token.removeprefix(_CONTINUES)
            else:
                words.append(token)
                labels.append(label)
        return " ".join(
            word if label < 0 else f"{word}/{label}"
            for word, label in zip(words, labels, strict=True)
        )

    def remark(self, features: Features) -> str:
        if not len(features.get("sentence_id", ())):
            return ""
        part = features.get("sub_sentence_id", ())
        more = f", part {part[0]}" if len(part) and part[0] else ""
        return f"sentence {features['sentence_id'][0]}{more}"


class Questions(Kind):
    """Windows of passages and questions about them."""

    name = "questions"

    def __init__(self) -> None:
        super().__init__()
        self.answered = self.impossible = self.tokens = 0

    def count(self, features: Features) -> None:
        span = _answer(features)
        if span is None:
            return
        self.answered += 1
        if _is_impossible(features):
            self.impossible += 1
        else:
            self.tokens += span[1] - span[0] + 1

    def figures(self) -> dict[str, Any]:
        return super().figures() | {
            "impossible": share(self.impossible, self.answered),
            "mean_answer": share(self.tokens, self.answered - self.impossible),
        }

    def text(self, features: Features, name: Name) -> str:
        tokens = [name(each) for each in features[_IDS][: self.real_tokens(features)].tolist()]
        span = _answer(features)
        if span is not None and not _is_impossible(features) and span[1] < len(tokens):
            # An answer that begins inside a word stays apart from what it continues.
            tokens[span[0]] = f"[answer={tokens[span[0]]}"
            tokens[span[1]] += "]"
        return joined(tokens)

    def remark(self, features: Features) -> str:
        said = []
        if len(features.get("unique_ids", ())):
            said.append(f"id {features['unique_ids'][0]}")
        if _answer(features) is not None and _is_impossible(features):
            said.append("no answer here")
        return ", ".join(said)


def _answer(features: Features) -> tuple[int, int] | None:
    start, end = (features.get(f"{each}_positions", ()) for each in ("start", "end"))
    return (int(start[0]), int(end[0])) if len(start) and len(end) else None


def _is_impossible(features: Features) -> bool:
    said = features.get("is_impossible", ())
    return bool(said[0]) if len(said) else _answer(features) == (0, 0)
