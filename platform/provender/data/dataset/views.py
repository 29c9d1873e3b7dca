"""Rows and batches as functions see them: dicts that convert a column when it is first used.

A function that reads one column of twenty costs one column. What a function changes in place is
noticed, and what it leaves alone is never converted back to Arrow.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from provender.data.errors import unknown_column

if TYPE_CHECKING:
    from provender.data.features import Features

_LOST: Any = object()


class Piece:
    """Some rows that views look into.

    Args:
        table: the rows; all columns.
        features: their types.
        names: the columns that views have, in order.

    Attributes:
        lists: column name -> its Python values, for the columns that were converted.
        noted: whether any view of it was changed in place.
    """

    __slots__ = ("_copies", "_decoded", "_features", "_table", "batch", "lists", "names", "noted")

    def __init__(
        self, table: pa.Table, features: Features, names: list[str], decoded: frozenset[str]
    ) -> None:
        self._table = table
        self._features = features
        self._decoded = decoded
        self.names = names
        self.lists: dict[str, list[Any]] = {}
        self.noted = False
        self.batch: dict[str, list[Any]] = {}
        self._copies: dict[str, list[Any]] = {}

    def load(self, name: str) -> list[Any]:
        """A column's values as Python objects, converted once."""
        found = self.lists.get(name)
        if found is None:
            found = self.lists[name] = self.fresh(name)
            if _is_flat(self._table.schema.field(name).type) and name not in self._decoded:
                # Copying lists of plain values costs far less than converting them again.
                self._copies[name] = [None if each is None else each.copy() for each in found]
        return found

    def fresh(self, name: str) -> list[Any]:
        """As `load`, converted anew."""
        from provender.data.formats.python import column_values

        values = column_values(self._table.column(name))
        if name in self._decoded:
            from provender.data.features import decode_nested

            feature = self._features[name]
            values = [decode_nested(feature, each) for each in values]
        return values

    def value(self, name: str, at: int) -> Any:
        """One value. Images and the like are decoded one by one, other columns at once."""
        if name not in self._features or name not in self.names:
            raise unknown_column(name, self.names)
        if name not in self._decoded:
            return self.load(name)[at]
        from provender.data.features import decode_nested

        return decode_nested(self._features[name], self._table.column(name)[at].as_py())

    def whole(self, name: str) -> list[Any]:
        """A column for a batch; a copy is kept to see what the function did to it."""
        if name not in self.names:
            raise unknown_column(name, self.names)
        values = self.load(name)
        self.batch[name] = list(values)
        return values

    def views(self, ready: Iterable[str]) -> Iterator[View]:
        """A view of each row.

        Args:
            ready: columns that are filled in from the start, since functions used them before.
        """
        names = [name for name in self.names if name in set(ready) and name not in self._decoded]
        if not names:
            for at in range(self._table.num_rows):
                view = View()
                view._piece = self
                view._at = at
                yield view
            return
        columns = [self.load(name) for name in names]
        if len(names) == 1:
            name = names[0]
            for at, value in enumerate(columns[0]):
                view = View()
                dict.__setitem__(view, name, value)
                view._piece = self
                view._at = at
                yield view
            return
        for at, values in enumerate(zip(*columns, strict=True)):
            view = View(zip(names, values, strict=True))
            view._piece = self
            view._at = at
            yield view

    def view(self) -> View:
        """A view of all rows as a batch."""
        view = View()
        view._piece = self
        view._at = None
        return view

    def changed_lists(self) -> dict[str, list[Any]]:
        """Columns whose lists or dicts a function changed in place, without assigning them.

        Only values that can be changed are looked at, and only in columns that were converted.
        """
        changed = {}
        for name, values in self.lists.items():
            if name in self._decoded:
                continue
            kept = self.batch.get(name)
            if kept is not None and values != kept:
                changed[name] = values
                continue
            if name in self._copies:
                if values != self._copies[name]:
                    changed[name] = values
                continue
            nested = pa.types.is_nested(self._table.schema.field(name).type)
            if nested and values != self.fresh(name):
                changed[name] = values
        return changed


def _is_flat(kind: pa.DataType) -> bool:
    """Whether values are lists of plain values."""
    types = pa.types
    if not (types.is_list(kind) or types.is_large_list(kind) or types.is_fixed_size_list(kind)):
        return False
    return not types.is_nested(kind.value_type)


class View(dict[str, Any]):
    """A row or a batch as a dict.

    Columns are converted when they are read. Everything that a dict does works; whatever needs
    all columns (``items()``, ``dict(row)``, ``{**row}``, ``==``) converts all.
    """

    __slots__ = ("_at", "_noted", "_piece")

    _piece: Piece
    _at: int | None
    _noted: dict[str, bool]

    def __missing__(self, name: str) -> Any:
        if name in self._notes():
            raise KeyError(name)
        piece = self._piece
        value = piece.whole(name) if self._at is None else piece.value(name, self._at)
        dict.__setitem__(self, name, value)
        return value

    def _notes(self) -> Mapping[str, bool]:
        """Names assigned (True) and deleted (False) in place."""
        try:
            return self._noted
        except AttributeError:
            return {}

    def _note(self, name: str, there: bool) -> None:
        try:
            self._noted[name] = there
        except AttributeError:
            self._noted = {name: there}
            self._piece.noted = True

    def _lacking(self) -> list[str]:
        notes = self._notes()
        return [
            name
            for name in self._piece.names
            if not dict.__contains__(self, name) and name not in notes
        ]

    def _fill(self) -> None:
        """Converts all columns, so that the dict is an ordinary one."""
        if list(dict.__iter__(self)) == self._piece.names and not self._notes():
            return
        for name in self._lacking():
            self[name]
        values = dict(dict.items(self))
        order = [name for name in self._piece.names if name in values]
        if list(values) != order + [name for name in values if name not in self._piece.names]:
            dict.clear(self)
            for name in order:
                dict.__setitem__(self, name, values.pop(name))
            dict.update(self, values)

    def __setitem__(self, name: str, value: Any) -> None:
        self._note(name, True)
        dict.__setitem__(self, name, value)

    def __delitem__(self, name: str) -> None:
        if name not in self:
            raise KeyError(name)
        self._note(name, False)
        dict.pop(self, name, None)

    def __contains__(self, name: object) -> bool:
        if dict.__contains__(self, name):
            return True
        return name in self._piece.names and name not in self._notes()

    def __len__(self) -> int:
        return dict.__len__(self) + len(self._lacking())

    def __bool__(self) -> bool:
        return len(self) > 0

    def __iter__(self) -> Iterator[str]:
        self._fill()
        return dict.__iter__(self)

    def __reversed__(self) -> Iterator[str]:
        self._fill()
        return dict.__reversed__(self)

    def keys(self) -> Any:
        self._fill()
        return dict.keys(self)

    def values(self) -> Any:
        self._fill()
        return dict.values(self)

    def items(self) -> Any:
        self._fill()
        return dict.items(self)

    def get(self, name: str, default: Any = None) -> Any:
        return self[name] if name in self else default  # noqa: SIM401 - that would be this method

    def pop(self, name: str, default: Any = _LOST) -> Any:
        if name not in self:
            if default is _LOST:
                raise KeyError(name)
            return default
        value = self[name]
        del self[name]
        return value

    def popitem(self) -> tuple[str, Any]:
        self._fill()
        name = next(dict.__reversed__(self))
        return name, self.pop(name)

    def setdefault(self, name: str, default: Any = None) -> Any:
        if name not in self:
            self[name] = default
        return self[name]

    def update(self, *others: Any, **more: Any) -> None:
        for name, value in dict(*others, **more).items():
            self[name] = value

    def clear(self) -> None:
        for name in list(self):
            del self[name]

    def copy(self) -> View:
        """A copy that can be changed alone, and still knows where its columns come from."""
        new = View(dict.items(self))
        new._piece = self._piece
        new._at = self._at
        notes = self._notes()
        if notes:
            new._noted = dict(notes)
        return new

    __copy__ = copy

    def __deepcopy__(self, memo: dict[int, Any]) -> dict[str, Any]:
        import copy

        return copy.deepcopy(dict(self), memo)

    def __eq__(self, other: object) -> bool:
        return dict(self) == (dict(other) if isinstance(other, View) else other)

    def __ne__(self, other: object) -> bool:
        return not self == other

    __hash__ = None  # type: ignore[assignment]

    def __or__(self, other: Any) -> Any:
        return dict(self) | other

    def __ror__(self, other: Any) -> Any:
        return other | dict(self)

    def __ior__(self, other: Any) -> View:  # type: ignore[misc, override]
        self.update(other)
        return self

    def __repr__(self) -> str:
        return repr(dict(self))

    def __reduce_ex__(self, protocol: Any) -> tuple[Any, ...]:
        return dict, (dict(self),)

    def own(self) -> dict[str, Any]:
        """What was assigned in place, by name; deleted columns are not in it."""
        return {
            name: dict.__getitem__(self, name) for name, there in self._notes().items() if there
        }

    def gone(self) -> list[str]:
        """Columns that were deleted in place."""
        return [name for name, there in self._notes().items() if not there]
