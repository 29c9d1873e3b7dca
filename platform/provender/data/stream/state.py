"""Positions as users keep them: JSON that names what it is a position of.

    {"provender": 1, "epoch": 0, "chain": "<40 hex>", "steps": [...], "split": null, "at": ...}

``steps`` has a line for each operator and source, so that a position of something else can be
refused with the first thing that differs.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from provender.data.stream.fingerprinting import fingerprint_of
from provender.data.stream.flow import State
from provender.data.stream.node import Node
from provender.data.stream.seeds import Seed
from provender.errors import ConflictError

VERSION = 1
_SHOWN = 24
_DIGITS = 10

_UNCOUNTED = ("split_dataset_by_node", "prefetch", "align")
"""Operators that do not change what the rows are, or are named in a position's ``split``."""

END = {"end": True}
"""The place after the last row."""


@dataclass(frozen=True)
class Chain:
    """What identifies a chain.

    Attributes:
        digest: 40 hex digits for all of it.
        steps: operator or source and some digits of its own fingerprint, the last operator first.
    """

    digest: str
    steps: tuple[str, ...] = field(default=())


def nodes_of(root: Node) -> Iterator[Node]:
    """All nodes, the last operator first."""
    yield root
    for child in root.children:
        yield from nodes_of(child)


def chain_of(root: Node) -> Chain:
    """The fingerprint of a chain: sources by content, functions by content, parameters.

    A function that has no fingerprint counts by its name only, with a warning.
    """
    from provender.fingerprint import Hasher

    parts = []
    for node in nodes_of(root):
        if node.name in _UNCOUNTED:
            continue
        digest, why = fingerprint_of(node)
        if why is not None:
            _warn_unhashable(why, node.name)
        parts.append((node.name, digest, len(node.children)))
    steps = tuple(f"{name} {digest[:_DIGITS]}" for name, digest, _ in parts)
    return Chain(Hasher.hash(parts), steps)


def _warn_unhashable(why: str, name: str) -> None:
    warnings.warn(
        f"{name}: part of it has no fingerprint ({why}). A position can be loaded, but a change of "
        "that part will not be noticed.",
        stacklevel=4,
    )


def seeds_of(root: Node) -> list[Seed]:
    """The seeds that were drawn, not given, in the order of the chain."""
    found = [getattr(node, "seed", None) for node in nodes_of(root)]
    drawn = [seed for seed in found if isinstance(seed, Seed) and seed.given is None]
    return list(dict.fromkeys(drawn))


def weights_of(root: Node) -> dict[Seed, list[float]]:
    """The weights of streams that are drawn, by the seed of the draws, in the order of the chain."""
    found = {}
    for node in nodes_of(root):
        weights, seed = getattr(node, "weights", None), getattr(node, "seed", None)
        if weights is not None and isinstance(seed, Seed):
            found[seed] = list(weights)
    return found


def document(
    chain: Chain,
    epoch: int,
    split: str | None,
    at: State,
    seeds: list[int],
    weights: Sequence[Mapping[str, Any]] = (),
) -> dict[str, Any]:
    """A position as JSON."""
    made: dict[str, Any] = {"provender": VERSION, "epoch": epoch, "chain": chain.digest}
    made["steps"] = list(chain.steps[:_SHOWN])
    made["split"] = split
    made["at"] = at
    if seeds:
        made["seeds"] = seeds
    if weights:
        made["weights"] = list(weights)
    return made


def checked(state: Any, chain: Chain) -> dict[str, Any]:
    """A position, once it is one of this chain.

    Raises:
        ConflictError: it is of something else, or of another release; it says what differs.
    """
    if not isinstance(state, Mapping) or "provender" not in state or "at" not in state:
        raise ConflictError(
            "This is not a position of a Provender stream.",
            where="load_state_dict",
            hint="Give it what state_dict() returned.",
        )
    if state["provender"] != VERSION:
        raise ConflictError(
            f"The position has format {state['provender']}; this release reads format {VERSION}.",
            where="load_state_dict",
            hint="Load it with the release that wrote it.",
        )
    missing = [name for name in ("chain", "epoch", "split") if name not in state]
    wrong = missing or [
        name
        for name, sound in (
            ("epoch", isinstance(state["epoch"], int)),
            ("weights", all("now" in each for each in state.get("weights", ()))),
        )
        if not sound
    ]
    if wrong:
        raise ConflictError(
            f"The position is damaged: {', '.join(wrong)} {'missing' if missing else 'unreadable'}.",
            where="load_state_dict",
            hint="Give it what state_dict() returned, unchanged.",
        )
    if state["chain"] != chain.digest:
        raise ConflictError(
            "The position belongs to another stream: " + _difference(state, chain) + ".",
            where="load_state_dict",
            hint="Build the same chain over the same data, or start from the beginning.",
            facts={"steps": list(chain.steps), "steps_of_position": list(state.get("steps", []))},
        )
    return dict(state)


def _difference(state: Mapping[str, Any], chain: Chain) -> str:
    theirs, ours = list(state.get("steps", [])), list(chain.steps)
    if [step.rsplit(" ", 1)[0] for step in theirs] != [s.rsplit(" ", 1)[0] for s in ours[:_SHOWN]]:
        return f"it has the steps {_names(theirs)}, this one {_names(ours)}"
    for their, our in zip(theirs, ours, strict=False):
        if their != our:
            name = our.rsplit(" ", 1)[0]
            what = (
                "reads other data"
                if name == "source"
                else "is another function or has other arguments"
            )
            return f"its {name} {what}"
    return "they differ further down"


def _names(steps: list[str]) -> str:
    return " <- ".join(step.rsplit(" ", 1)[0] for step in steps[:8]) or "none"
