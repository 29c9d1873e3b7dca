"""Checks of arguments that recipes have in common."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields
from typing import Any, TypeVar

from provender.errors import BuilderError, SettingsError

T = TypeVar("T")
ENCODING = ("tokenization", "vocab_file", "sp_model_file", "do_lower_case", "max_seq_length")
"""Options of fine-tuning records that say how texts become tokens."""


def check_shards(dataset: str, shards: int | None) -> None:
    """Refuses a number of files that is none.

    Raises:
        SettingsError: it is below 1.
    """
    if shards is not None and shards < 1:
        raise SettingsError(f"shards must be 1 or more, got {shards}.", where=f"{dataset}, shards")


def check_flags(dataset: str, flags: Mapping[str, Any], known: Sequence[str]) -> None:
    """Refuses options that there are not.

    Args:
        dataset: named in the error.
        flags: what is given.
        known: what there is.

    Raises:
        SettingsError: one is not known; says what comes near.
    """
    for name in flags:
        if name not in known:
            near = difflib.get_close_matches(name, known, 1)
            raise SettingsError(
                f"There is no option {name!r}.",
                where=f"{dataset}, {name}",
                hint=f"Did you mean {near[0]!r}?" if near else f"There are: {', '.join(known)}.",
            )


def options_of(
    kind: Any,
    dataset: str,
    flags: Mapping[str, Any],
    without: Sequence[str] = (),
    make: Callable[..., Any] | None = None,
) -> Any:
    """Options of a script, from a recipe's arguments.

    Args:
        kind: a dataclass of options.
        dataset: named in errors.
        flags: what is given.
        without: options that a recipe has not.
        make: makes them, where that is more than the class itself.

    Raises:
        SettingsError: one is not known, or makes no sense.
    """
    known = [each.name for each in fields(kind) if each.name not in without]
    check_flags(dataset, flags, known)
    return (make or kind)(**flags)


def located(found: T | None) -> T:
    """What the engine finds for an argument, where it must have been found.

    Raises:
        BuilderError: the recipe was made by hand, with a name in place of what it stands for.
    """
    if found is None:
        raise BuilderError(
            "The source version is only a name here.",
            where="source",
            hint="Build the recipe with `provender build`: the engine finds the version.",
        )
    return found


def encoding_options(dataset: str, flags: Mapping[str, Any], known: Sequence[str]) -> Any:
    """Options of fine-tuning records, as far as they say how a record is made.

    Args:
        dataset: named in errors.
        flags: what is given.
        known: what there is.

    Raises:
        SettingsError: one is not known, or makes no sense.
    """
    from provender.nlp.finetuning.options import Options

    check_flags(dataset, flags, known)
    # Nothing is read or written by these names: a recipe's texts and files are the engine's.
    return Options.of_records(fine_tuning_task_type="squad", squad_data_file="-", **flags)
