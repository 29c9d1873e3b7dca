"""Split expressions: from ``train[10%:20%]+test[:500]`` to ranges of examples.

The language and its rounding are those of TFDS (https://www.tensorflow.org/datasets/splits), so an
expression means the same examples here and there:

    train                    all of a split
    all                      every split, in the version's order
    train[:500]  train[-5:]  examples by number
    train[10%:20%]           per cent, each border rounded to the nearest example
    train[2shard:]  train[3shard]    by shard
    a+b                      one after the other

`even_splits` cuts what an expression means into parts that differ by at most one example.
"""

from __future__ import annotations

import difflib
import math
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from provender.errors import SplitError, UnknownSplit

Rounding = Literal["closest", "pct1_dropremainder"]

_TERM = re.compile(r"(?P<split>[\w-]+)(?:\[(?P<slice>[^\]]*)\])?")
_BORDER = re.compile(r"(?P<value>[-+]?[\d_]+(?:\.\d+)?)(?P<unit>%|shard)?")
_FORMS = "Use a split's name, NAME[10:20], NAME[10%:20%], NAME[2shard:], or several joined by +."


@dataclass(frozen=True, slots=True)
class SplitSlice:
    """A range of a split's examples, in file order.

    Attributes:
        split: split name.
        start: first example.
        stop: one after the last.
    """

    split: str
    start: int
    stop: int

    def __len__(self) -> int:
        return self.stop - self.start


@dataclass(frozen=True, slots=True)
class EvenSplit:
    """Part ``index`` of ``count`` of what ``split`` means; see `even_splits`."""

    split: str | EvenSplit
    index: int
    count: int
    drop_remainder: bool = False

    def __str__(self) -> str:
        return f"{self.split} (part {self.index + 1} of {self.count})"


SplitLike = str | EvenSplit | Any
"""What names examples of a version: an expression, a part of one, or a split object of TFDS or of
Hugging Face Datasets (`tfds.core.ReadInstruction`, what `tfds.even_splits` gives, `Split.TRAIN`)."""


def even_splits(split: SplitLike, n: int, *, drop_remainder: bool = False) -> list[EvenSplit]:
    """Cuts a split into parts of equal size that do not overlap.

    Args:
        split: an expression, or a part that this function gave.
        n: number of parts.
        drop_remainder: leave out the last examples rather than let parts differ by one.

    Returns:
        The parts. As in TFDS each ``+`` term is cut on its own, and the first parts are longer.

    Raises:
        SplitError: ``n`` is not positive.
    """
    if n < 1:
        raise SplitError(
            f"A split cannot be cut into {n} parts.",
            where=str(split),
            hint="Give the number of parts, at least 1.",
        )
    return [EvenSplit(split, index, n, drop_remainder) for index in range(n)]


def resolve_split(
    split: SplitLike,
    shards: Mapping[str, Sequence[int]],
    *,
    rounding: Rounding = "closest",
    where: str = "",
    beyond: Callable[[str, int], object] | None = None,
) -> tuple[SplitSlice, ...]:
    """Finds the examples that an expression means.

    Args:
        split: the expression, or a part of one.
        shards: split name -> examples of each shard, in file order.
        rounding: how per cents become examples; ``pct1_dropremainder`` makes every per cent the
            same number of examples and leaves out the rest.
        where: named in errors: the version.
        beyond: called with an expression that leaves its split, and the split's number of
            examples, instead of raising; the range ends where the split does.

    Returns:
        Ranges in the order written; empty ranges are kept.

    Raises:
        UnknownSplit: a split that the version does not have; the message says which it has.
        SplitError: the expression cannot be read, or leaves the split's bounds.
    """
    split = spelled(split)
    if isinstance(split, EvenSplit):
        whole = resolve_split(split.split, shards, rounding=rounding, where=where, beyond=beyond)
        return tuple(_part(each, split) for each in whole)
    if not isinstance(split, str):
        return _resolved_by_tfds(split, shards, where)
    found: list[SplitSlice] = []
    for text in split.split("+"):
        found += _term(text.strip(), shards, rounding, where or split, beyond)
    return tuple(found)


def spelled(split: Any) -> SplitLike:
    """A split as text where it is one in other words: a name, or what has a `to_spec`.

    Raises:
        SplitError: it is nothing that names examples.
    """
    if isinstance(split, str | EvenSplit):
        return split
    if callable(spec := getattr(split, "to_spec", None)):
        return str(spec())
    if hasattr(split, "to_absolute"):
        return split
    if type(split).__str__ is not object.__str__:
        return str(split)  # names that are no texts, such as those of Hugging Face Datasets
    raise SplitError(f"{split!r} is not a split.", hint=_FORMS)


def _resolved_by_tfds(
    split: Any, shards: Mapping[str, Sequence[int]], where: str
) -> tuple[SplitSlice, ...]:
    """The examples that a split object of TFDS means, by its own arithmetic."""
    from tensorflow_datasets.core.splits import SplitInfo

    infos = {
        name: SplitInfo(name=name, shard_lengths=list(lengths), num_bytes=0)
        for name, lengths in shards.items()
    }
    try:
        parts = split.to_absolute(infos)
    except (ValueError, KeyError, AssertionError) as error:
        raise SplitError(
            f"{split!r} cannot be read: {error}",
            where=where,
            hint=f"The splits are {', '.join(shards) or 'none'}.",
        ) from error
    return tuple(
        SplitSlice(
            each.splitname,
            each.from_ or 0,
            sum(shards[each.splitname]) if each.to is None else each.to,
        )
        for each in parts
    )


def _part(whole: SplitSlice, part: EvenSplit) -> SplitSlice:
    each, rest = divmod(len(whole), part.count)
    start = whole.start + each * part.index
    stop = start + each
    if rest and not part.drop_remainder:
        start += min(part.index, rest)
        stop += min(part.index + 1, rest)
    return SplitSlice(whole.split, start, stop)


def _term(
    text: str,
    shards: Mapping[str, Sequence[int]],
    rounding: Rounding,
    where: str,
    beyond: Callable[[str, int], object] | None,
) -> Iterable[SplitSlice]:
    found = _TERM.fullmatch(text)
    if not found:
        raise _unreadable(text, where)
    name, borders = found["split"], found["slice"]
    if name == "all" and "all" not in shards:
        if borders is not None:
            raise SplitError(
                "'all' cannot be sliced.",
                where=where,
                hint=f"Slice each split: {' + '.join(f'{each}[{borders}]' for each in shards)}.",
            )
        return [SplitSlice(each, 0, sum(lengths)) for each, lengths in shards.items()]
    if name not in shards:
        raise unknown_split(name, shards, where)
    if borders is None:
        return [SplitSlice(name, 0, sum(shards[name]))]
    return [_slice(text, name, borders, shards[name], rounding, where, beyond)]


def unknown_split(name: str, known: Iterable[str], where: str) -> UnknownSplit:
    """The error for a split that a version does not have."""
    known = list(known)
    near = difflib.get_close_matches(name, known, 1, 0.5)
    return UnknownSplit(
        f"There is no split {name!r}.",
        where=where,
        hint=(f"Did you mean {near[0]!r}? " if near else "")
        + f"The splits are {', '.join(known) or 'none'}.",
        facts={"splits": known, "near": near},
    )


def _slice(
    text: str,
    name: str,
    borders: str,
    lengths: Sequence[int],
    rounding: Rounding,
    where: str,
    beyond: Callable[[str, int], object] | None,
) -> SplitSlice:
    parts = [each.strip() for each in borders.split(":")]
    found = [_BORDER.fullmatch(each) if each else None for each in parts]
    bad = any(each and match is None for each, match in zip(parts, found, strict=True))
    units = {match["unit"] or "abs" for match in found if match}
    if bad or len(parts) > 2 or len(units) != 1:
        raise _unreadable(text, where)
    (unit,) = units
    values = [_value(match["value"], unit, text, where) if match else None for match in found]
    if len(parts) == 1:
        if unit != "shard" or values[0] is None:
            raise _unreadable(text, where)
        # The shard -1 is the last one, so its end is the end of the split, not 0.
        values = [values[0], None if values[0] == -1 else values[0] + 1]
    total = sum(lengths)
    start, stop = (_absolute(each, unit, lengths, total, rounding, where) for each in values)
    start, stop = 0 if start is None else start, total if stop is None else stop
    if abs(start) > total or abs(stop) > total:
        if beyond is not None:
            beyond(text, total)
            start, stop = (min(max(each, -total), total) for each in (start, stop))
            return _counted_from_end(name, start, stop, total)
        raise SplitError(
            f"{text} leaves the split: {name!r} has {total:,} examples.",
            where=where,
            hint="Ask for fewer, or for per cent.",
            facts={"examples": total},
        )
    return _counted_from_end(name, start, stop, total)


def _counted_from_end(name: str, start: int, stop: int, total: int) -> SplitSlice:
    start, stop = (each + total if each < 0 else each for each in (start, stop))
    return SplitSlice(name, start, max(start, stop))


def _value(digits: str, unit: str, text: str, where: str) -> float:
    if unit != "%" and "." in digits:
        raise _unreadable(text, where)
    return float(digits) if unit == "%" else int(digits)


def _absolute(
    value: float | None,
    unit: str,
    lengths: Sequence[int],
    total: int,
    rounding: Rounding,
    where: str,
) -> int | None:
    if value is None:
        return None
    if unit == "shard":
        if abs(value) > len(lengths):
            raise SplitError(
                f"There is no shard {int(value)}: the split has {len(lengths)}.",
                where=where,
                hint="Shards are counted from 0.",
            )
        return sum(lengths[: int(value)])
    if unit == "abs":
        return int(value)
    if rounding == "closest":
        return round(value * total / 100.0)
    if total < 100:
        raise SplitError(
            f"Per cent of {total} examples, with the remainder dropped, are no examples.",
            where=where,
            hint="Use rounding='closest', or give numbers of examples.",
        )
    return int(value * math.trunc(total / 100.0))


def _unreadable(text: str, where: str) -> SplitError:
    return SplitError(f"{text!r} is not a split expression.", where=where, hint=_FORMS)
