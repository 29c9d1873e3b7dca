"""Rows and batches as functions see them: mappings that convert a column when it is first used.

A function that reads one column of twenty costs one column. What a function changes in place is
noticed, and what it leaves alone is never converted back to Arrow.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, MutableMapping
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from provender.data.errors import unknown_column
from provender.fingerprint.shapes import set_maker, shape_of

if TYPE_CHECKING:
    from provender.data.features import Features
    from provender.fingerprint.graph import Shape, Walker

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
        chosen = set(ready) - self._decoded
        names = [name for name in self.names if name in chosen]
        new = View
        if not names:
            for at in range(self._table.num_rows):
                view = new()
                view._values = {}
                view._piece = self
                view._at = at
                yield view
            return
        columns = [self.load(name) for name in names]
        if len(names) == 1:
            name = names[0]
            for at, value in enumerate(columns[0]):
                view = new()
                view._values = {name: value}
                view._piece = self
                view._at = at
                yield view
            return
        for at, values in enumerate(zip(*columns, strict=True)):
            view = new()
            view._values = dict(zip(names, values, strict=True))
            view._piece = self
            view._at = at
            yield view

    def view(self) -> View:
        """A view of all rows as a batch."""
        view = View()
        view._values = {}
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


class View(MutableMapping[str, Any]):
    """A row or a batch as a mapping.

    Columns are converted when they are read. Everything that a dict has works; whatever needs all
    columns (``items()``, ``dict(row)``, ``{**row}``, ``==``) converts all. It is no dict, since
    code in C looks into dicts past their methods and would find only what was converted so far.
    """

    __slots__ = ("_at", "_noted", "_piece", "_values")

    _piece: Piece
    _at: int | None
    _noted: dict[str, bool]
    _values: dict[str, Any]

    def __getitem__(self, name: str) -> Any:
        try:
            return self._values[name]
        except KeyError:
            pass
        if name in self._notes():
            raise KeyError(name)
        piece = self._piece
        value = piece.whole(name) if self._at is None else piece.value(name, self._at)
        self._values[name] = value
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
        notes, values = self._notes(), self._values
        return [name for name in self._piece.names if name not in values and name not in notes]

    def _fill(self) -> dict[str, Any]:
        """Converts all columns; the values in the order of the columns, new ones behind."""
        values, names = self._values, self._piece.names
        if list(values) == names:
            return values
        for name in self._lacking():
            self[name]
        order = [name for name in names if name in values]
        order += [name for name in values if name not in self._piece.names]
        if list(values) != order:
            ordered = {name: values[name] for name in order}
            values.clear()
            values.update(ordered)
        return values

    def __setitem__(self, name: str, value: Any) -> None:
        self._note(name, True)
        self._values[name] = value

    def __delitem__(self, name: str) -> None:
        if name not in self:
            raise KeyError(name)
        self._note(name, False)
        self._values.pop(name, None)

    def __contains__(self, name: object) -> bool:
        if name in self._values:
            return True
        return name in self._piece.names and name not in self._notes()

    def __len__(self) -> int:
        return len(self._values) + len(self._lacking())

    def __bool__(self) -> bool:
        return len(self) > 0

    def __iter__(self) -> Iterator[str]:
        return iter(self._fill())

    def __reversed__(self) -> Iterator[str]:
        return reversed(self._fill())

    def keys(self) -> Any:
        return self._fill().keys()

    def values(self) -> Any:
        return self._fill().values()

    def items(self) -> Any:
        return self._fill().items()

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
        values = self._fill()
        if not values:
            message = "popitem(): the row has no columns left"
            raise KeyError(message)
        name = next(reversed(values))
        return name, self.pop(name)

    def copy(self) -> View:
        """A copy that can be changed alone, and still knows where its columns come from."""
        new = View()
        new._values = dict(self._values)
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
        return self._fill() == (other._fill() if isinstance(other, View) else other)

    __hash__ = None  # type: ignore[assignment]

    def __or__(self, other: Any) -> Any:
        if not isinstance(other, Mapping):
            return NotImplemented
        return {**self, **other}

    def __ror__(self, other: Any) -> Any:
        if not isinstance(other, Mapping):
            return NotImplemented
        return {**other, **self}

    def __ior__(self, other: Any) -> View:  # type: ignore[misc]
        self.update(other)
        return self

    def __repr__(self) -> str:
        return repr(self._fill())

    def __array__(self, *_: Any, **__: Any) -> Any:
        # pandas.DataFrame(batch) would otherwise take the names of the columns for its rows.
        message = "A row or batch is a mapping; what takes only dicts needs dict(...) of it."
        raise TypeError(message)

    def __reduce_ex__(self, protocol: Any) -> tuple[Any, ...]:
        return dict, (dict(self),)

    def own(self) -> dict[str, Any]:
        """What was assigned in place, by name; deleted columns are not in it."""
        return {name: self._values[name] for name, there in self._notes().items() if there}

    def gone(self) -> list[str]:
        """Columns that were deleted in place."""
        return [name for name, there in self._notes().items() if not there]


def _shape(view: View, walker: Walker) -> Shape:
    """In fingerprints a row is the dict that it stands for."""
    return shape_of(dict(view), walker)


set_maker(View, _shape)
