"""What functions return, as Arrow tables whose columns are of one type from the first row to the last.

Types are found from the first rows (`WINDOW` of them), together: whole numbers and fractions make
fractions, None goes with everything. Rows after them must be of those types; only a column that
was nothing but None takes the first type that it meets. None of this depends on how rows are cut.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from provender.data.errors import ColumnError, FeatureTypeError

if TYPE_CHECKING:
    from provender.data.features import Features, FeatureType

WINDOW = 1000
"""Rows that types are found from; so many HF Datasets writes together."""


class Shaper:
    """Turns returned columns into tables, and remembers the types.

    A column that an input column of the same name can hold keeps that column's feature (class
    names, int32 ...).

    Args:
        hints: features of the input.
        given: features that the user demands; nothing is guessed then.
        known: features found before, e.g. by an earlier run.
        fill: whether a column that the function did not return is None, rather than an error.

    Attributes:
        features: what is known now; None before the first rows.
    """

    def __init__(
        self,
        hints: Features,
        given: Features | None = None,
        known: Features | None = None,
        *,
        fill: bool = False,
    ) -> None:
        self._hints = hints
        self._given = given
        self._fill = fill
        self.features = given if given is not None else known
        self._made_for: Features | None = None
        self._schema: pa.Schema | None = None
        self._plain: dict[str, pa.DataType | None] = {}

    def table(
        self,
        columns: Mapping[str, Any],
        first_row: int,
        place: Callable[[Any], int] | None = None,
    ) -> pa.Table:
        """A table of columns.

        Args:
            columns: name -> values; Arrow columns of the input go through as they are.
            first_row: number of the input row that the first value came from.
            place: which of the rows was the first to have a column, counted from 0; by default
                all rows have the same columns.

        Raises:
            ColumnLengthError: the columns differ in length.
            ColumnError: they are not those that came before, or a name is no text.
            FeatureTypeError: a value is not of its column's type; names column, row and types.
        """
        from provender.data.features import table_from_batch

        for name in columns:
            if not isinstance(name, str):
                raise _no_name(name, first_row + (place(name) if place is not None else 0))
        if self._given is None and (self.features is None or first_row < WINDOW):
            self._find(columns, first_row)
        elif self._given is None:
            self._widen(columns, first_row)
        assert self.features is not None
        columns = self._named(columns, first_row, place)
        if self._given is None:
            table = self._quick(columns)
            if table is not None:
                return table
        return table_from_batch(
            columns, self.features, first_row=first_row, coerce=self._given is not None
        )

    def _quick(self, columns: Mapping[str, Any]) -> pa.Table | None:
        """The table where every column is at once of the type it has to be; else None."""
        if self.features is not self._made_for:
            self._prepare()
        arrays = []
        rows = -1
        for name, kind in self._plain.items():
            values = columns[name]
            flat = (
                isinstance(values, np.ndarray) and values.ndim == 1 and values.dtype.kind in "iufb"
            )
            if type(values) is list or flat:
                try:
                    values = pa.array(values)
                except (pa.ArrowException, TypeError, ValueError, OverflowError):
                    return None
            elif not isinstance(values, pa.ChunkedArray):
                return None
            if values.type != kind or rows not in (-1, len(values)):
                return None
            rows = len(values)
            arrays.append(values)
        return pa.Table.from_arrays(arrays, schema=self._schema)

    def _prepare(self) -> None:
        """Notes the types of columns whose values need no look: all but labels, images ..."""
        from provender.data.features import type_of
        from provender.data.features.casting import checks_values
        from provender.data.features.encoding import encodes

        assert self.features is not None
        self._schema = self.features.arrow_schema
        self._plain = {
            name: None if checks_values(each) or encodes(each) else type_of(each)
            for name, each in self.features.items()
        }
        self._made_for = self.features

    def _named(
        self, columns: Mapping[str, Any], first_row: int, place: Callable[[Any], int] | None
    ) -> Mapping[str, Any]:
        """The columns, all of them and no others."""
        assert self.features is not None
        if columns.keys() == self.features.keys():
            return columns
        more = [name for name in columns if name not in self.features]
        less = [name for name in self.features if name not in columns]
        in_window = self._given is None and first_row < WINDOW
        if not more and (self._fill or in_window) and self._given is None and columns:
            rows = len(next(iter(columns.values())))
            return {**columns, **{name: [None] * rows for name in less}}
        said = "the features name" if self._given is not None else "rows before had"
        row = first_row
        if more and place is not None:
            row += min(map(place, more))
        parts = []
        if more:
            parts.append(f"{_listed(more)} {'is' if len(more) == 1 else 'are'} new")
        if less:
            parts.append(f"{_listed(less)} {'is' if len(less) == 1 else 'are'} missing")
        raise ColumnError(
            f"From row {row} on the function gave other columns than {said}: "
            f"{' and '.join(parts)}.",
            where=f"row {row}",
            hint="Return every column from the first row on (None where there is no value)."
            if self._given is None
            else "Return what features= names, or remove the other columns (remove_columns=).",
            facts={"row": row, "more": more, "less": less},
        )

    def _find(self, columns: Mapping[str, Any], first_row: int) -> None:
        """Takes the types of early rows into account."""
        from provender.data.features import Features, table_from_batch

        order = [name for name in self._hints if name in columns]
        order += [name for name in columns if name not in self._hints]
        fresh = Features({name: self._found(name, columns[name], first_row) for name in order})
        if self.features is None:
            self.features = fresh
            return
        try:
            self.features = joined(self.features, fresh)
        except FeatureTypeError as error:
            both = {name: columns[name] for name in columns if name in self.features}
            known = {name: self.features[name] for name in both}
            table_from_batch(both, known, first_row=first_row)  # says which row it is
            error.facts["row"] = first_row
            raise

    def _found(self, name: str, values: Any, first_row: int) -> FeatureType:
        """The feature of a column by these values."""
        from provender.data.features import Features, type_of

        hint = self._hints.get(name)
        if isinstance(values, pa.ChunkedArray | pa.Array):
            if hint is not None and type_of(hint) == values.type:
                return hint
            return Features.from_arrow_schema(pa.schema([pa.field(name, values.type)]))[name]
        if hint is not None:
            if _all_none(values):
                return hint
            try:
                self._one(name, values, hint, first_row)
            except FeatureTypeError:
                pass
            else:
                return hint
        made = self._one(name, values, None, first_row)
        return Features.from_arrow_schema(made.schema)[name]

    def _one(self, name: str, values: Any, feature: FeatureType | None, first_row: int) -> pa.Table:
        from provender.data.features import table_from_batch

        features = None if feature is None else {name: feature}
        return table_from_batch({name: values}, features, first_row=first_row)

    def _widen(self, columns: Mapping[str, Any], first_row: int) -> None:
        """Gives columns that were None throughout the type of their first values."""
        from provender.data.features import Features, unify

        assert self.features is not None
        for name, feature in self.features.items():
            if not holds_null(feature) or name not in columns or _all_none(columns[name]):
                continue
            new = Features({name: self._found(name, columns[name], first_row)})
            both = unify(Features({name: feature}), new)
            if both[name] != feature:
                changed = self.features.copy()
                changed[name] = both[name]
                self.features = changed


def _no_name(name: Any, row: int) -> ColumnError:
    return ColumnError(
        f"Columns are named by texts; row {row} has one named {name!r} ({type(name).__name__}).",
        where=f"row {row}",
        hint=f"Return {str(name)!r} instead, or put the dict into a column of its own.",
        facts={"row": row, "column": repr(name)},
    )


def _listed(names: Sequence[str]) -> str:
    return ", ".join(map(repr, names))


def holds_null(feature: Any) -> bool:
    """Whether some part of a feature had no value yet that would tell its type."""
    if isinstance(feature, Mapping):
        return any(holds_null(each) for each in feature.values())
    inner = getattr(feature, "feature", None)
    if inner is not None:
        return holds_null(inner)
    return getattr(feature, "dtype", None) == "null"


def _all_none(values: Any) -> bool:
    return isinstance(values, list | tuple) and all(each is None for each in values)


def joined(first: Features, second: Features) -> Features:
    """Features that hold what either holds: nulls with anything, whole numbers with fractions.

    Raises:
        FeatureTypeError: a column has two types that do not go together.
    """
    from provender.data.features import Features, unify

    if first == second:
        return first
    made = dict(first)
    for name, feature in second.items():
        if name not in made or made[name] == feature:
            made[name] = feature
            continue
        one, other = Features({name: made[name]}), Features({name: feature})
        try:
            made[name] = unify(one, other)[name]
        except FeatureTypeError:
            promoted = _promoted(one, other)
            if promoted is None:
                raise
            made[name] = promoted[name]
    return Features(made)


def _promoted(first: Features, second: Features) -> Features | None:
    """The type that Arrow finds for values of two types seen together; None if there is none."""
    from provender.data.features import Features

    bare = [each.arrow_schema.remove_metadata() for each in (first, second)]
    for features, schema in zip((first, second), bare, strict=True):
        if Features.from_arrow_schema(schema) != features:
            return None  # class names, images and the like do not turn into something else
    try:
        return Features.from_arrow_schema(pa.unify_schemas(bare, promote_options="permissive"))
    except (pa.ArrowInvalid, pa.ArrowTypeError, pa.ArrowNotImplementedError):
        return None


def common(all_features: Sequence[Features]) -> Features:
    """As `joined`, of any number.

    Raises:
        FeatureTypeError: a column has two types that do not go together.
    """
    found = all_features[0]
    for each in all_features[1:]:
        found = joined(found, each)
    return found


def as_features(table: pa.Table, features: Features) -> pa.Table:
    """A table of earlier types as what was found in the end; None where it lacks a column.

    Raises:
        FeatureTypeError: a value does not fit.
    """
    from provender.data.features import cast_table, type_of

    for name, feature in features.items():
        if name not in table.column_names:
            table = table.append_column(name, pa.nulls(table.num_rows, type_of(feature)))
    return cast_table(table, features)
