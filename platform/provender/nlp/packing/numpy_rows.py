"""Packed rows in plain numpy: buffers of examples, and streams without end."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from provender import errors
from provender.nlp.packing.fields import POSITIONS, SEGMENTS, Fields
from provender.nlp.packing.fit import BestFit, Layout, Room, lay_out

if TYPE_CHECKING:
    import numpy as np

    Array = np.ndarray[Any, np.dtype[Any]]


def pack(
    columns: Mapping[str, Array],
    fields: Fields,
    room: Room,
    *,
    open_rows: int | None = None,
    decreasing: bool = True,
) -> dict[str, Array]:
    """Packs one buffer of padded examples.

    Args:
        columns: every feature, [examples, ...] as `Fields` says.
        fields: their roles.
        room: what a packed row holds.
        open_rows: rows open at a time; None leaves all of the buffer's open.
        decreasing: place the longest first.

    Returns:
        The features with the same names and dtypes, and segment_ids (int32, from 1, 0 is padding),
        position_ids (int32, from 0 in every segment), positions and weights of the labels.

    Raises:
        SettingsError: an example that no row has room for, or a feature without a role.
        DamageError: a masked position beyond the example's last token.
    """
    check_roles(columns, fields)
    lengths = _lengths(columns[fields.length])
    used = _used(columns, fields)
    layout = lay_out(
        lengths,
        None if used is None else used.sum(axis=1),
        room,
        open_rows=open_rows,
        decreasing=decreasing,
    )
    return _assemble(columns, fields, room, lengths, used, layout)


def pack_stream(
    examples: Iterable[Mapping[str, Any]], fields: Fields, room: Room, *, open_rows: int = 64
) -> Iterator[dict[str, Array]]:
    """Packs a stream online: each row comes as soon as it is closed, the open ones at the end.

    Args:
        examples: mappings from each feature to its values, without padding: token features
            [length], mask features [slots used], labels [] or [1].
        fields: the features' roles. The length of the feature `fields.length` is the example's.
        room: what a packed row holds.
        open_rows: rows open at a time; so many rows of examples are held in memory.

    Yields:
        One packed row at a time, shaped as a row of `pack`'s result.

    Raises:
        SettingsError: as for `pack`.
        DamageError: as for `pack`.
    """
    fit = BestFit(room, open_rows)
    held: dict[int, list[Mapping[str, Any]]] = {}
    for example in examples:
        check_roles(example, fields)
        masks = len(example[fields.mask_weights]) if fields.mask_weights else 0
        slot, opened = fit.place(len(example[fields.length]), masks)
        if opened and slot in held:
            yield _one_row(held.pop(slot), fields, room)
        # Popped and set anew, so that the rows left at the end come in the order they were begun.
        held.setdefault(slot, []).append(example)
    for row in held.values():
        yield _one_row(row, fields, room)


def buffers(
    examples: Iterable[Mapping[str, Any]], size: int
) -> Iterator[tuple[Mapping[str, Any], ...]]:
    """Cuts a stream into tuples of `size` examples, the last with what is left."""
    stream = iter(examples)
    while chunk := tuple(itertools.islice(stream, size)):
        yield chunk


def stack(examples: Sequence[Mapping[str, Any]], fields: Fields) -> dict[str, Array]:
    """Padded columns of examples without padding, for `pack`.

    `fields.length` must hold no 0 in an example, as input_mask does, since it tells the lengths.
    """
    import numpy as np

    pads = dict(fields.tokens)
    columns: dict[str, Array] = {}
    for name in fields.names:
        values = [np.asarray(each[name]) for each in examples]
        if name in fields.labels:
            columns[name] = np.stack([each.reshape(()) for each in values])
            continue
        width = max(1, *(len(each) for each in values))
        column = np.full((len(values), width), pads.get(name, 0), values[0].dtype)
        for row, each in zip(column, values, strict=True):
            row[: len(each)] = each
        columns[name] = column
    return columns


def check_roles(columns: Iterable[str], fields: Fields) -> None:
    """Refuses features that packing has no rule for, and roles that have no feature.

    Raises:
        SettingsError: there are some.
    """
    given, known = set(columns), set(fields.names)
    if given - known:
        raise errors.SettingsError(
            f"Packing has no rule for {', '.join(sorted(given - known))}.",
            hint="Name it among the tokens, mask values or labels of Fields, or leave it out.",
        )
    if known - given:
        raise errors.SettingsError(
            f"The examples have no {', '.join(sorted(known - given))}.",
            where=f"features {', '.join(sorted(given))}",
            hint="Name the features that are there in Fields.",
        )


def _one_row(examples: Sequence[Mapping[str, Any]], fields: Fields, room: Room) -> dict[str, Array]:
    import numpy as np

    columns = stack(examples, fields)
    lengths = np.array([max(1, len(each[fields.length])) for each in examples], np.int64)
    used = None
    masks = np.zeros_like(lengths)
    if fields.mask_weights:
        masks = np.array([len(each[fields.mask_weights]) for each in examples], np.int64)
        used = np.arange(columns[fields.mask_weights].shape[1]) < masks[:, None]
    layout = Layout(
        row=np.zeros_like(lengths),
        segment=np.arange(1, len(examples) + 1),
        token=np.cumsum(lengths) - lengths,
        mask=np.cumsum(masks) - masks,
        rows=1,
    )
    packed = _assemble(columns, fields, room, lengths, used, layout)
    return {name: value[0] for name, value in packed.items()}


def _lengths(values: Array) -> Array:
    """Length of each example: up to its last value that is not 0, at least 1."""
    import numpy as np

    there = values != 0
    ends = np.arange(1, values.shape[1] + 1)
    return np.maximum(1, (there * ends).max(axis=1, initial=0)).astype(np.int64)


def _used(columns: Mapping[str, Array], fields: Fields) -> Array | None:
    return columns[fields.mask_weights] > 0 if fields.mask_weights else None


def _assemble(
    columns: Mapping[str, Array],
    fields: Fields,
    room: Room,
    lengths: Array,
    used: Array | None,
    layout: Layout,
) -> dict[str, Array]:
    import numpy as np

    packed: dict[str, Array] = {}
    width = columns[fields.length].shape[1]
    real = np.arange(width) < lengths[:, None]
    example, position = np.nonzero(real)
    at = layout.row[example] * room.tokens + layout.token[example] + position

    def scatter(values: Array, at: Array, shape: tuple[int, int], pad: int = 0) -> Array:
        grid = np.full(shape, pad, values.dtype)
        grid.reshape(-1)[at] = values
        return grid

    grid = (layout.rows, room.tokens)
    for name, pad in fields.tokens:
        packed[name] = scatter(columns[name][real], at, grid, pad)
    packed[SEGMENTS] = scatter(layout.segment[example].astype(np.int32), at, grid)
    if POSITIONS not in packed:
        packed[POSITIONS] = scatter(position.astype(np.int32), at, grid)
    if used is not None:
        example, _ = np.nonzero(used)
        nth = np.cumsum(used, axis=1)[used] - 1
        at = layout.row[example] * room.masks + layout.mask[example] + nth
        slots = (layout.rows, room.masks)
        positions = columns[fields.mask_positions][used]
        if (positions >= lengths[example]).any() or (positions < 0).any():
            raise errors.DamageError(
                "A masked position lies beyond the example's last token.",
                hint="The records' masks and tokens do not belong together: make them anew.",
            )
        moved = (positions + layout.token[example]).astype(positions.dtype)
        packed[fields.mask_positions] = scatter(moved, at, slots)
        for name in (*fields.mask_values, fields.mask_weights):
            packed[name] = scatter(columns[name][used], at, slots)
    if fields.labels:
        at = layout.row * room.segments + layout.segment - 1
        segments = (layout.rows, room.segments)
        for name in fields.labels:
            packed[name] = scatter(columns[name].reshape(-1), at, segments)
        packed[fields.label_positions] = scatter(layout.token.astype(np.int32), at, segments)
        packed[fields.label_weights] = scatter(np.ones(len(at), np.float32), at, segments)
    return packed
