"""One column of a dataset, read when it is needed."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from provender.data.errors import unknown_column

if TYPE_CHECKING:
    from provender.data.dataset.core import Dataset


class Column(Sequence[Any]):
    """A column as a sequence that reads rows on demand, in the dataset's format.

    Args:
        source: a dataset, or a column of dicts.
        name: of the column, or of a field of the dicts.

    Raises:
        ColumnError: there is no such column or field.
    """

    def __init__(self, source: Dataset | Column, name: str) -> None:
        inner: Any = source.features
        known: dict[str, Any] = inner if isinstance(inner, dict) else {}
        if name not in known:
            raise unknown_column(name, known)
        self.source = source
        self.column_name = name
        self.features: Any = known[name]
        self._one: Any = source
        if not isinstance(source, Column) and source._format.type != "custom":
            # Only this column is read; a custom transform may need them all.
            self._one = source._only(name)

    def __len__(self) -> int:
        return len(self.source)

    def __iter__(self) -> Iterator[Any]:
        name = self.column_name
        if isinstance(self._one, Column):
            for value in self._one:
                yield None if value is None else value[name]
        else:
            for row in self._one:
                yield row[name]

    def __getitem__(self, key: Any) -> Any:
        if isinstance(key, str):
            return Column(self, key)
        name = self.column_name
        found = self._one[key]
        if not isinstance(self._one, Column):
            return found[name]
        if isinstance(key, slice) or not hasattr(key, "__index__"):
            return [None if value is None else value[name] for value in found]
        return None if found is None else found[name]

    def __eq__(self, other: object) -> bool:
        if isinstance(other, Column):
            return list(self) == list(other)
        return bool(list(self) == other)

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        more = ", ...])" if len(self) > 5 else "])"
        return "Column(" + repr(list(self[:5]))[:-1] + more
