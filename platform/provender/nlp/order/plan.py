"""The order of all examples of all sources, as a function of the place."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from provender.data.stream.draws import key_of
from provender.data.stream.permutation import Permutation
from provender.errors import SettingsError
from provender.nlp.order.mixing import Proportions


@dataclass(frozen=True)
class SourceFacts:
    """What an order knows of a source.

    Attributes:
        name: its name in the mixture; empty where there is one source without a name.
        records: how many.
        digest: tells other data under the same name, 16 hex digits.
    """

    name: str
    records: int
    digest: str


@dataclass(frozen=True)
class Phase:
    """A stretch of the order with one mixture.

    Attributes:
        start: place of its first element.
        stop: place after its last; None if it does not end.
        shares: of the sources, whole numbers.
        bases: elements of each source that stand before it.
    """

    start: int
    stop: int | None
    shares: tuple[int, ...]
    bases: tuple[int, ...]

    def counts(self, place: int) -> list[int]:
        """Elements of each source before a place in it."""
        own = _proportions(self.shares).counts(place - self.start)
        return [base + count for base, count in zip(self.bases, own, strict=True)]


@lru_cache(maxsize=8)
def _proportions(shares: tuple[int, ...]) -> Proportions:
    return Proportions(shares)


def endless(start: int, shares: Sequence[int], bases: Sequence[int]) -> tuple[Phase, ...]:
    """The phases of a training: sources begin anew as often as they must."""
    return (Phase(start, None, tuple(shares), tuple(bases)),)


def one_pass(
    records: Sequence[int], shares: Sequence[int], stop_on_empty: bool
) -> tuple[Phase, ...]:
    """The phases of one pass.

    Args:
        records: of each source.
        shares: of the sources.
        stop_on_empty: end where a source has no more; else the others go on in their proportion
            until all have been read.
    """
    phases: list[Phase] = []
    at, shares, bases = 0, tuple(shares), (0,) * len(records)
    while any(shares):
        proportions = _proportions(tuple(shares))
        ends = [
            proportions.place_of(source, count - base)
            for source, (count, base) in enumerate(zip(records, bases, strict=True))
            if shares[source]
        ]
        phase = Phase(at, at + min(ends), tuple(shares), bases)
        phases.append(phase)
        if stop_on_empty:
            break
        at += min(ends)
        bases = tuple(phase.counts(at))
        shares = tuple(
            share if base < count else 0
            for share, count, base in zip(shares, records, bases, strict=True)
        )
    return tuple(phases)


class GlobalOrder:
    """Which record of which source stands at a place.

    Args:
        sources: what is mixed.
        phases: one after the other, of which only the last may have no end.
        seed: of the permutations; None keeps each source in file order.

    Raises:
        SettingsError: a source that is to be read has no records.
    """

    def __init__(
        self, sources: Sequence[SourceFacts], phases: Sequence[Phase], seed: int | None
    ) -> None:
        self.sources = tuple(sources)
        self.phases = tuple(phases)
        self.seed = seed
        self._starts = np.array([each.start for each in self.phases], np.int64)
        for number, each in enumerate(self.sources):
            if not each.records and any(phase.shares[number] for phase in self.phases):
                raise SettingsError(
                    f"The source {each.name!r} has no records." if each.name else "No records.",
                    where="input_path",
                    hint="Give it weight 0, or files with records.",
                )
        self._permutation = lru_cache(maxsize=4 * len(self.sources))(self._made)

    @property
    def stop(self) -> int | None:
        """The place after the last; None if there is no end."""
        return self.phases[-1].stop

    def counts(self, place: int) -> list[int]:
        """Elements of each source before a place."""
        return self.phases[self._phase_at(place)].counts(place)

    def _phase_at(self, place: int) -> int:
        return max(int(np.searchsorted(self._starts, place, "right")) - 1, 0)

    def at(self, places: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """What stands at places.

        Args:
            places: int64, shape ``[count]``, from the first phase on.

        Returns:
            Number of the source and number of the record in it, int64, shapes as given.
        """
        owners = np.maximum(np.searchsorted(self._starts, places, "right") - 1, 0)
        sources = np.empty(len(places), np.int64)
        numbers = np.empty(len(places), np.int64)
        for owner in np.unique(owners).tolist():
            mine, phase = owners == owner, self.phases[owner]
            which, own = _proportions(phase.shares).at(places[mine] - phase.start)
            sources[mine] = which
            numbers[mine] = np.array(phase.bases, np.int64)[which] + own
        return sources, self._records(sources, numbers)

    def _records(self, sources: np.ndarray, numbers: np.ndarray) -> np.ndarray:
        """Records from the numbers of elements, which count on over the epochs of a source."""
        found = np.empty(len(numbers), np.int64)
        for source in np.unique(sources).tolist():
            mine = np.flatnonzero(sources == source)
            epochs, within = np.divmod(numbers[mine], self.sources[source].records)
            if self.seed is None:
                found[mine] = within
                continue
            for epoch in np.unique(epochs).tolist():
                own = epochs == epoch
                found[mine[own]] = self._permutation(source, epoch).at(within[own])
        return found

    def _made(self, source: int, epoch: int) -> Permutation:
        facts = self.sources[source]
        return Permutation(facts.records, key_of("nlp order", self.seed, facts.name, epoch))


@dataclass(frozen=True)
class HostSlice:
    """The places of one host: of every step its part of the global batch, in order.

    Attributes:
        index: this host.
        hosts: how many there are.
        batch: examples of a step on all hosts; a multiple of ``hosts``.
        start: place of the first step's first example.
        stop: place after the last example; None if there is no end.
        drop_remainder: leave out a last step that is not full.
    """

    index: int
    hosts: int
    batch: int
    start: int = 0
    stop: int | None = None
    drop_remainder: bool = True

    def __post_init__(self) -> None:
        if not 0 <= self.index < self.hosts:
            raise SettingsError(
                f"There is no input pipeline {self.index} of {self.hosts}.",
                hint="They are counted from 0.",
            )
        if self.batch < 1 or self.batch % self.hosts:
            raise SettingsError(
                f"A global batch of {self.batch} examples cannot be shared by {self.hosts} hosts.",
                where="global_batch_size",
                hint=f"Give a multiple of {self.hosts}.",
            )

    def __len__(self) -> int:
        """Examples of this host; an endless slice has none to tell."""
        if self.stop is None:
            message = "an endless slice has no length"
            raise TypeError(message)
        steps, rest = divmod(max(self.stop - self.start, 0), self.batch)
        first, last = self._of_rest(rest)
        return steps * (self.batch // self.hosts) + last - first

    def _of_rest(self, rest: int) -> tuple[int, int]:
        if self.drop_remainder:
            return 0, 0
        return rest * self.index // self.hosts, rest * (self.index + 1) // self.hosts

    def places(self, first: int, last: int) -> np.ndarray:
        """Places of this host's examples ``first`` to ``last`` (excluded), int64."""
        own = self.batch // self.hosts
        if self.stop is not None:
            last = min(last, len(self))
        steps, within = np.divmod(np.arange(first, last, dtype=np.int64), own)
        found = self.start + steps * self.batch + self.index * own + within
        if self.stop is not None:
            full, rest = divmod(max(self.stop - self.start, 0), self.batch)
            tail = steps >= full
            begin = self.start + full * self.batch + self._of_rest(rest)[0]
            found[tail] = begin + within[tail]
        return found
