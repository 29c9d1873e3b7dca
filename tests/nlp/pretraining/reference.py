"""The specification, followed word by word: one instance after the other, one token at a time."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass


@dataclass
class Instance:
    """What the slow implementation makes: tokens before masking, and what is masked how."""

    first: list[int]
    second: list[int]
    label: int
    grams: list[tuple[int, int]]
    decisions: list[str]

    @property
    def length(self) -> int:
        return len(self.first) + len(self.second) + 3

    @property
    def masked(self) -> int:
        return sum(stop - start for start, stop in self.grams)


def instances(
    documents: list[list[list[int]]],
    rng: random.Random,
    *,
    passes: int,
    length: int = 128,
    most: int = 20,
    share: float = 0.15,
    target: Callable[[int, int], int],
    masks: bool = True,
    continues: frozenset[int] = frozenset(),
    ngrams: int | None = None,
) -> list[Instance]:
    """Makes the instances of some passes over documents of sentences of ids.

    Args:
        documents: documents of sentences of token ids.
        rng: draws everything.
        passes: dupe_factor.
        length: max_seq_length.
        most: max_predictions_per_seq.
        share: masked_lm_prob.
        target: tokens that a document aims at in a pass, given both numbers.
        masks: whether to choose what is masked, which takes most of the time.
        continues: ids that continue a word.
        ngrams: None to mask tokens, else the longest run of words.
    """
    found = []
    for epoch in range(passes):
        for number in range(len(documents)):
            aim = target(epoch, number)
            for first, second, label in pairs(documents, number, aim, rng):
                cut(first, second, length - 3, rng)
                if not masks:
                    found.append(Instance(first, second, label, [], []))
                    continue
                words = grams_of(first, second, continues if ngrams else frozenset())
                count = min(most, max(1, round((len(first) + len(second) + 3) * share)))
                chosen = choose(words, len(first), count, ngrams or 1, rng)
                decisions = [rng.choices(["mask", "keep", "random"], [8, 1, 1])[0] for _ in chosen]
                found.append(Instance(first, second, label, chosen, decisions))
    return found


def pairs(
    documents: list[list[list[int]]], number: int, target: int, rng: random.Random
) -> list[tuple[list[int], list[int], int]]:
    """The pairs of one document."""
    document = documents[number]
    found = []
    at = 0
    chunk: list[list[int]] = []
    while at < len(document):
        chunk.append(document[at])
        if at == len(document) - 1 or sum(map(len, chunk)) >= target:
            split = rng.randint(1, len(chunk) - 1) if len(chunk) > 1 else 1
            first = [token for sentence in chunk[:split] for token in sentence]
            second: list[int] = []
            if len(chunk) == 1 or rng.random() < 0.5:
                label = 1
                other = rng.choice([i for i in range(len(documents)) if i != number])
                start = rng.randrange(len(documents[other]))
                for sentence in documents[other][start:]:
                    second += sentence
                    if len(second) >= target - len(first):
                        break
                at -= len(chunk) - split
            else:
                label = 0
                second = [token for sentence in chunk[split:] for token in sentence]
            found.append((first, second, label))
            chunk = []
        at += 1
    return found


def cut(first: list[int], second: list[int], room: int, rng: random.Random) -> None:
    """Shortens the longer one, a token at a time, from a side by the toss of a coin."""
    while len(first) + len(second) > room:
        longer = first if len(first) > len(second) else second
        longer.pop(0 if rng.random() < 0.5 else -1)


def grams_of(
    first: list[int], second: list[int], continues: frozenset[int]
) -> list[tuple[int, int]]:
    """Where the words of an instance begin and end."""
    words: list[tuple[int, int]] = []
    for begin, tokens in ((1, first), (len(first) + 2, second)):
        for at, token in enumerate(tokens, begin):
            if token in continues and at > begin:
                words[-1] = (words[-1][0], at + 1)
            else:
                words.append((at, at + 1))
    return words


def choose(
    words: list[tuple[int, int]], first: int, budget: int, longest: int, rng: random.Random
) -> list[tuple[int, int]]:
    """Takes grams in random order as long as they fit; sizes are drawn with weights 1/size."""
    separator = first + 1
    lists: dict[int, list[tuple[int, int]]] = {}
    for size in range(1, longest + 1):
        windows = [(words[i][0], words[i + size - 1][1]) for i in range(len(words) - size + 1)]
        windows = [(a, b) for a, b in windows if not a < separator < b]
        rng.shuffle(windows)
        lists[size] = windows
    taken: list[tuple[int, int]] = []
    used: set[int] = set()
    while budget > 0 and any(lists.values()):
        sizes = [size for size, rest in lists.items() if rest]
        (size,) = rng.choices(sizes, [1 / each for each in sizes])
        start, stop = lists[size].pop()
        if stop - start <= budget and not used & set(range(start, stop)):
            taken.append((start, stop))
            used |= set(range(start, stop))
            budget -= stop - start
    return sorted(taken)
