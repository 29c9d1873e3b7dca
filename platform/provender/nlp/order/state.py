"""Where a training is in its input: a few numbers, the same on every host.

The place follows from the step: ``examples = anchor + (step - anchor's step) * global batch``. So
what pipelines have read ahead does not matter, and the state that is saved with a step is the state
of that step.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from provender.errors import SettingsError
from provender.nlp.order.plan import GlobalOrder, SourceFacts, endless
from provender.nlp.order.report import OrderReport, report_of

FORMAT = "provender-input-state"
VERSION = 1

Step = Any
"""A whole number, a variable with ``numpy()`` (as ``optimizer.iterations``), or a function."""


class InputState:
    """The place of a training in the global order.

    Args:
        sources: what is mixed.
        shares: of the sources, whole numbers.
        seed: of the order; None for file order.
        batch: examples of a step on all hosts.
    """

    def __init__(
        self, sources: Sequence[SourceFacts], shares: Sequence[int], seed: int | None, batch: int
    ) -> None:
        self.sources = tuple(sources)
        self.shares = tuple(shares)
        self.seed = seed
        self.batch = batch
        self._lock = threading.Lock()
        self._step: Callable[[], int] | None = None
        self._steps = 0
        self._anchor = (0, 0)
        self._former: dict[str, int] = {}
        self._order = self._fresh_order(0, (0,) * len(self.sources))

    def _fresh_order(self, start: int, bases: Sequence[int]) -> GlobalOrder:
        return GlobalOrder(self.sources, endless(start, self.shares, bases), self.seed)

    def follow(self, step: Step) -> None:
        """Takes the number of steps done from a variable from now on.

        Args:
            step: a variable that counts batches, best one that is saved in the same checkpoint,
                such as ``optimizer.iterations``; or a function that gives the number.
        """
        self._step = step if callable(step) and not hasattr(step, "numpy") else lambda: int(step)

    def advance(self, steps: int = 1) -> None:
        """Counts steps done, where no variable is followed.

        Raises:
            SettingsError: a variable is followed.
        """
        if self._step is not None:
            raise SettingsError(
                "This input state takes its step from a variable.",
                where="InputState.advance",
                hint="Leave advance() out, or make the state without a step.",
            )
        self._steps += steps

    @property
    def step(self) -> int:
        """Steps done."""
        return self._steps if self._step is None else int(self._step())

    @property
    def examples(self) -> int:
        """Examples that all hosts have read up to now: the place of the next one."""
        return self.examples_at(self.step)

    def examples_at(self, step: int) -> int:
        """The place of the first example of a step."""
        anchored, examples = self._anchor
        return max(examples + (step - anchored) * self.batch, self._order.phases[0].start)

    def snapshot(self) -> tuple[int, GlobalOrder]:
        """The next place and the order it is a place of.

        Raises:
            SettingsError: the step that is followed was not restored with the state.
        """
        with self._lock:
            step, anchored = self.step, self._anchor[0]
            if step < anchored:
                raise SettingsError(
                    f"The input state is of step {anchored}, and the step counter is at {step}.",
                    where="InputState.follow",
                    hint="Save the counter in the same checkpoint, and restore both.",
                )
            return self.examples_at(step), self._order

    def as_dict(self) -> dict[str, Any]:
        """The state, ready for JSON."""
        step, phase = self.step, self._order.phases[0]
        place = self.examples_at(step)
        rows = zip(self.sources, self.shares, phase.bases, self._order.counts(place), strict=True)
        return {
            "format": FORMAT,
            "version": VERSION,
            "step": step,
            "examples": place,
            "global_batch_size": self.batch,
            "seed": self.seed,
            "since": phase.start,
            "sources": [
                {
                    "name": facts.name,
                    "records": facts.records,
                    "digest": facts.digest,
                    "share": share,
                    "before": before,
                    "examples": count,
                }
                for facts, share, before, count in rows
            ],
            "former": dict(self._former),
        }

    def to_json(self) -> str:
        """The state as JSON text, under a kilobyte for a few sources."""
        return json.dumps(self.as_dict())

    def load(self, state: Mapping[str, Any] | str) -> None:
        """Goes on where a state was saved.

        Iterators that are made from now on begin there. Shares may differ from those of the state,
        and sources may be new or gone: the new mixture holds from here on, and each source goes on
        where it was.

        Args:
            state: what `as_dict` or `to_json` gave, in this process or another one, with any
                number of hosts.

        Raises:
            SettingsError: it is no such state, of another seed, or of other data.
        """
        document = _checked(json.loads(state) if isinstance(state, str) else state)
        if document["seed"] != self.seed:
            raise SettingsError(
                f"The input state was saved with seed {document['seed']}, "
                f"the config says {self.seed}: the order would be another one.",
                where="seed",
                hint="Set the seed of before, or begin anew without the input state.",
            )
        saved = {each["name"]: each for each in document["sources"]}
        for facts in self.sources:
            _check_same(facts, saved.get(facts.name))
        former = {
            name: each["examples"]
            for name, each in saved.items()
            if name not in {facts.name for facts in self.sources}
        }
        with self._lock:
            self._former = {**document["former"], **former}
            self._anchor = (document["step"], document["examples"])
            self._steps = document["step"]
            self._order = self._continued(document, saved)

    def _continued(self, document: Mapping[str, Any], saved: Mapping[str, Any]) -> GlobalOrder:
        ours = [(facts.name, share) for facts, share in zip(self.sources, self.shares, strict=True)]
        if ours == [(name, each["share"]) for name, each in saved.items()]:
            before = [each["before"] for each in saved.values()]
            return self._fresh_order(document["since"], before)
        before = [
            saved[facts.name]["examples"]
            if facts.name in saved
            else self._former.pop(facts.name, 0)
            for facts in self.sources
        ]
        return self._fresh_order(document["examples"], before)

    def report(self) -> OrderReport:
        """What has been read of which source."""
        step = self.step
        examples = self.examples_at(step)
        counts = self._order.counts(examples)
        return report_of(step, examples, self.sources, counts, self.shares, self._former)


def _check_same(facts: SourceFacts, saved: Mapping[str, Any] | None) -> None:
    if saved is None or (saved["records"], saved["digest"]) == (facts.records, facts.digest):
        return
    raise SettingsError(
        f"The input state is of other data: {saved['records']:,} records then, "
        f"{facts.records:,} now.",
        where=f"source {facts.name!r}" if facts.name else "input_path",
        hint="Give the files of before, in the same order, or begin anew without the input state.",
        facts={"saved": dict(saved), "records": facts.records, "digest": facts.digest},
    )


def _checked(document: Any) -> Mapping[str, Any]:
    known = isinstance(document, Mapping) and document.get("format") == FORMAT
    if known and document.get("version") == VERSION:
        return document  # type: ignore[no-any-return]
    raise SettingsError(
        f"This is no input state of version {VERSION}."
        if known
        else "This is no input state of Provender.",
        where="InputState.load",
        hint="Give what as_dict() or to_json() of an input state gave.",
    )
