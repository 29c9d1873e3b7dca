"""Work that a ShardBasedBuilder's shards share, as steps that come before them, each in parts.

A builder names its steps in order, and for each the constructor arguments that count for it:

    class Examples(InSteps, tfds.core.ShardBasedBuilder):
        STEPS = {"tokens": ("source", "vocab_file"), "instances": ("random_seed",)}

        def make_tokens(self, part): ...        one of several parts, anywhere, at the same time
        def join_tokens(self, folder, parts): ...    once, when all parts are there; may be left out

Each step is a stage, ``examples/<step>``: fingerprinted by the code of its methods, by its arguments, and
by the content of the steps before it. So another seed makes instances anew, and leaves tokens as they are;
and two datasets with equal tokens have them made once.

``make_<step>`` writes files below ``part.folder`` and gives their paths. Files that stand there already,
whole, are left as they are: that is how a part that was killed goes on. How many parts there are is the
engine's business, so neither names nor content of files may depend on it in the end. ``join_<step>`` gives
the paths of the files that count from then on, and may remove others. Both, and the shard iterators, find
what earlier steps left in folders ``self.made[<step>]``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any, ClassVar

from provender.errors import BuilderError


@dataclass(frozen=True)
class Part:
    """One part of a step.

    Attributes:
        folder: where the step's files go; it is there.
        number: of this part, from 0.
        of: parts in all.
        told: is told how far it is: done, in all (or None), and the unit.
    """

    folder: Path
    number: int
    of: int
    told: Callable[[int, int | None, str], None] = lambda done, total, unit: None

    def share(self, count: int) -> range:
        """The numbers, of so many pieces of work, that are this part's; neighbours stay together."""
        return range(self.number * count // self.of, (self.number + 1) * count // self.of)


class Serialized(bytes):
    """An example as its record, a serialized ``tf.train.Example``, for builders that have it so.

    A shard iterator may give ``key, Serialized(record)`` in place of ``key, example``. The record must be
    byte for byte what the features make of the example: TFDS's own with deterministic
    serialization, so the entries are in the order of their names. The first one of each shard is checked.
    """

    __slots__ = ()


class InSteps:
    """What a builder with steps derives from, besides `tfds.core.ShardBasedBuilder`.

    Attributes:
        STEPS: step -> names of the constructor arguments that count for it, in order.
        made: step -> folder of what it left, set by the engine before anything reads it.
    """

    STEPS: ClassVar[Mapping[str, Sequence[str]]] = {}
    made: Mapping[str, Path] = MappingProxyType({})


def make_method(step: str) -> str:
    """Name of the method that makes a part of a step."""
    return f"make_{step}"


def join_method(step: str) -> str:
    """Name of the method that joins the parts of a step."""
    return f"join_{step}"


def steps_of(cls: Any, *, in_shards: bool) -> dict[str, tuple[str, ...]]:
    """The steps of a builder class: step -> arguments that count for it.

    Args:
        cls: the class.
        in_shards: whether it is a ShardBasedBuilder.

    Raises:
        BuilderError: a step has no method, a name that is none, or the class generates otherwise.
    """
    found: Mapping[str, Sequence[str]] = getattr(cls, "STEPS", {})
    where = f"{cls.__module__}.{cls.__name__}.STEPS"
    if found and not in_shards:
        raise BuilderError(
            "Only a ShardBasedBuilder prepares in steps.",
            where=where,
            hint="Derive it from tfds.core.ShardBasedBuilder, or do the work while generating.",
        )
    for step in found:
        if not step.isidentifier() or not callable(getattr(cls, make_method(step), None)):
            raise BuilderError(
                f"Step {step!r} has no method {make_method(step)}.",
                where=where,
                hint=f"Define {make_method(step)}(self, part).",
            )
    return {step: tuple(arguments) for step, arguments in found.items()}
