"""Reads records, finds out their kind, counts them, and shows the first ones."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any

from provender.errors import InputError
from provender.nlp.inspecting.kinds import Features, Kind, Name, Questions, Sentences, Tags, XLNet
from provender.nlp.inspecting.sources import Source
from provender.nlp.pretraining.examples import Example, Statistics, decode, guess_mask, text_of
from provender.nlp.text.vocabulary import MASK, Vocabulary

_AT_ONCE = 1024


@dataclass(frozen=True)
class Shown:
    """An example as people read it.

    Attributes:
        text: its tokens.
        remark: what else is to be said of it; may be empty.
    """

    text: str
    remark: str


@dataclass(frozen=True)
class Found:
    """What records hold.

    Attributes:
        kind: what they are.
        records: how many were counted.
        figures: of them, JSON-ready; those of their kind.
        lengths: records by their number of tokens, without padding.
        shown: the first ones.
    """

    kind: str
    records: int
    figures: dict[str, Any]
    lengths: dict[int, int]
    shown: list[Shown]


def look(
    sources: Iterator[Source],
    vocabulary: Vocabulary | None = None,
    *,
    count: int = 3,
    limit: int | None = None,
) -> Found:
    """Counts records and shows the first ones.

    Args:
        sources: records; those of one kind.
        vocabulary: names tokens; without one ids are shown.
        count: how many are shown.
        limit: at most so many are counted.

    Raises:
        InputError: there are no records, they are of no known kind or of several, or the vocabulary
            is not theirs.
        DamageError: a file is damaged.
    """
    every = islice(_decoded(sources), limit)
    first = next(every, None)
    if first is None:
        raise InputError("The files hold no records.", hint="Did what made them succeed?")
    features, where = first
    rest = _with(first, every)
    if "masked_lm_positions" in features:
        return _pretraining(rest, vocabulary, count)
    kind = _kind_of(features, where)
    shown: list[Shown] = []
    name = _namer(vocabulary)
    for features, where in rest:
        kind.add(features, where)
        if len(shown) < count:
            shown.append(Shown(kind.text(features, name), kind.remark(features)))
    return Found(kind.name, kind.records, kind.figures(), dict(kind.real), shown)


def _with(
    first: tuple[Features, str], rest: Iterator[tuple[Features, str]]
) -> Iterator[tuple[Features, str]]:
    yield first
    yield from rest


def _decoded(sources: Iterator[Source]) -> Iterator[tuple[Features, str]]:
    for source in sources:
        for record in source.records():
            try:
                yield decode(record), source.where
            except InputError as error:
                raise InputError(error.message, where=source.where, hint=error.hint) from error


def _namer(vocabulary: Vocabulary | None) -> Name:
    tokens: Sequence[str] = vocabulary.tokens if vocabulary is not None else ()

    def name(id: int) -> str:
        return tokens[id] if 0 <= id < len(tokens) else str(id)

    return name


def _kind_of(features: Features, where: str) -> Kind:
    if "boundary_indices" in features:
        return XLNet()
    if all(each in features for each in Kind.needed):
        if "start_positions" in features or "unique_ids" in features:
            return Questions()
        labels = features.get("label_ids", ())
        if "sentence_id" in features or len(labels) == len(features["input_ids"]) > 1:
            return Tags()
        return Sentences()
    raise InputError(
        "The records are none that are known here: neither pretraining nor fine-tuning examples.",
        where=where,
        hint=f"They have {', '.join(sorted(features)) or 'no features'}. "
        "`provender head` shows examples of any version.",
        facts={"features": sorted(features)},
    )


def _pretraining(
    every: Iterator[tuple[Features, str]], vocabulary: Vocabulary | None, count: int
) -> Found:
    examples = (Example.of_features(dict(features), where) for features, where in every)
    head = list(islice(examples, _AT_ONCE))
    mask = vocabulary.special(MASK)[0] if vocabulary is not None else guess_mask(head)
    found = Statistics()
    for batch in (head, examples):
        for each in batch:
            found.add(each, mask)
    tokens = vocabulary.tokens if vocabulary is not None else None
    pieces = vocabulary is not None and not vocabulary.marked
    shown = [Shown(text_of(each, tokens, pieces), _next(each)) for each in head[:count]]
    return Found("BERT pretraining", found.records, found.to_json(), dict(found.real), shown)


def _next(example: Example) -> str:
    if example.next_sentence is None:
        return ""
    return "random next sentence" if example.next_sentence else "next sentence"
