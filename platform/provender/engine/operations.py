"""The table of what can be run, by name: the vocabulary of stage documents."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from provender.stages.site import Progress, Workplace

Operation = Callable[[Workplace, Mapping[str, Any], Progress], dict[str, Any]]

IN_WORKERS = frozenset({"part", "order", "make", "join", "shard", "iterator"})
"""Operations heavy enough to be handed to worker processes."""


IN_BEAM = frozenset(
    {"survey", "manual", "download", "splits", "prepare", "beam", "register", "metadata"}
)
"""Operations that load the builder, in a build with Beam: its Python may be the only one that can."""


def operation(name: str) -> Operation:
    """The function behind an operation's name.

    Stage modules import the builder machinery, so they are imported only when one is run.
    """
    from provender.stages import (
        beam,
        download,
        examples,
        manual,
        prepare,
        register,
        shards,
        splits,
        steps,
    )

    return {
        "manual": manual.run,
        "download": download.run,
        "splits": splits.run,
        "prepare": prepare.run,
        "part": examples.run_part,
        "order": examples.run_order,
        "make": steps.run_make,
        "join": steps.run_join,
        "shard": shards.run,
        "iterator": shards.run_iterator,
        "register": register.run,
        "metadata": register.run_metadata,
        "survey": beam.run_survey,
        "beam": beam.run,
        "piece": beam.run_piece,
    }[name]
