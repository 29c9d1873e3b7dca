"""Which search results are best: a plain rule, the same whatever the database.

For every word asked for, a dataset scores the best place where the word stands: the weight of the
field, times 1 for the very word and 0.6 for a longer one that begins with it. The words' scores are
added up; being called exactly what was asked for adds 20, and being called something that begins so
adds 5. Equal scores are ordered by name.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from provender.catalog.answers import Match, SearchHit
from provender.catalog.records import full_name

WEIGHTS = {
    "name": 10.0,
    "alias": 8.0,
    "tag": 8.0,
    "feature": 5.0,
    "split": 4.0,
    "licence": 4.0,
    "job": 4.0,
    "url": 2.5,
    "description": 2.0,
}
_LONGER = 0.6
_SAME_NAME, _SAME_START = 20.0, 5.0
_MOST_MATCHES = 5
_AROUND = 90


class Part(NamedTuple):
    """A row of ``search_part``."""

    seq: int
    dataset: str
    field: str
    text: str
    words: str
    version_id: str | None


def best_first(
    parts: Iterable[Part],
    words: Sequence[str],
    about: Mapping[str, tuple[str, str]],
    text: str,
    limit: int,
) -> list[SearchHit]:
    """The datasets that have every word, best first.

    Args:
        parts: the texts that speak for them.
        words: what was asked for, cut into words.
        about: dataset id -> (name, config).
        text: what was asked for, as it was typed.
        limit: at most so many.

    Returns:
        Hits whose versions are still only ids.
    """
    ranked: dict[str, list[tuple[float, Part]]] = defaultdict(list)
    scores: dict[str, dict[str, float]] = defaultdict(dict)
    for each in parts:
        own = scores[each.dataset]
        total = 0.0
        for word in words:
            points = WEIGHTS[each.field] * _closeness(word, each.words)
            total += points
            if points > own.get(word, 0.0):
                own[word] = points
        if total:
            ranked[each.dataset].append((total, each))
    whole = text.strip().lower()
    hits = [
        _hit(about[dataset], ranked[dataset], sum(own.values()), whole, words)
        for dataset, own in scores.items()
        if len(own) == len(words) and dataset in about
    ]
    hits.sort(key=lambda hit: (-hit.score, hit.dataset, hit.config))
    return hits[:limit]


def _closeness(word: str, text: str) -> float:
    """1 where the word is among the words of the text, 0.6 where one begins with it, else 0."""
    padded = f" {text} "
    at = padded.find(f" {word}")
    if at < 0:
        return 0.0
    return 1.0 if f" {word} " in padded else _LONGER


def _hit(
    name: tuple[str, str],
    ranked: list[tuple[float, Part]],
    score: float,
    whole: str,
    words: Sequence[str],
) -> SearchHit:
    ranked.sort(key=lambda pair: (-pair[0], -pair[1].seq))
    called = full_name(*name)
    if whole in (name[0], called):
        score += _SAME_NAME
    elif called.startswith(whole):
        score += _SAME_START
    matches = tuple(
        Match(each.field, _around(each.text, words), each.version_id, None)
        for _, each in ranked[:_MOST_MATCHES]
    )
    return SearchHit(name[0], name[1], None, None, None, round(score, 2), matches)


def _around(text: str, words: Sequence[str]) -> str:
    """The part of a text where the first of the words stands, on one line."""
    flat = " ".join(text.split())
    if len(flat) <= 2 * _AROUND:
        return flat
    low = flat.lower()
    places = [low.find(word) for word in words]
    at = min((place for place in places if place >= 0), default=0)
    start = max(0, at - _AROUND)
    stop = min(len(flat), start + 2 * _AROUND)
    before, after = "…" if start else "", "…" if stop < len(flat) else ""
    return f"{before}{flat[start:stop].strip()}{after}"
