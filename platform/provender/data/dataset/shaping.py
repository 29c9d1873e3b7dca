"""What functions return, as Arrow tables of one schema from the first row to the last."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from provender.data.errors import FeatureTypeError

if TYPE_CHECKING:
    from provender.data.features import Features, FeatureType


class Shaper:
    """Turns returned columns into tables, and remembers the types that it saw first.

    A column that an input column of the same name can hold keeps that column's feature (class
    names, int32 ...). Otherwise its type is found from the first values; from then on a value of
    another type is an error, except that a column of nothing but None takes the first type met.

    Args:
        hints: features of the input.
        given: features that the user demands; nothing is guessed then.
        known: features found before, e.g. by an earlier run.

    Attributes:
        features: what is known now; None before the first rows.
        widened: how often a known type became another one.
    """

    def __init__(
        self, hints: Features, given: Features | None = None, known: Features | None = None
    ) -> None:
        self._hints = hints
        self._given = given
        self.features = given if given is not None else known
        self.widened = 0

    def table(self, columns: Mapping[str, Any], first_row: int) -> pa.Table:
        """A table of columns.

        Args:
            columns: name -> values; Arrow columns of the input go through as they are.
            first_row: number of the input row that the first value came from.

        Raises:
            ColumnLengthError: the columns differ in length.
            ColumnError: they are not those that came before.
            FeatureTypeError: a value is not of its column's type; names column, row and types.
        """
        from provender.data.features import table_from_batch

        if self.features is None:
            self.features = self._first(columns, first_row)
        elif self._given is None:
            self._widen(columns, first_row)
        self._check_names(columns, first_row)
        return table_from_batch(
            columns, self.features, first_row=first_row, coerce=self._given is not None
        )

    def empty(self) -> pa.Table:
        """A table without rows."""
        from provender.data.features import Features

        features = self.features if self.features is not None else Features()
        return features.arrow_schema.empty_table()

    def _check_names(self, columns: Mapping[str, Any], first_row: int) -> None:
        assert self.features is not None
        if columns.keys() == self.features.keys():
            return
        from provender.data.errors import ColumnError

        more = [name for name in columns if name not in self.features]
        less = [name for name in self.features if name not in columns]
        said = "the features name" if self._given is not None else "rows before had"
        parts = [f"{', '.join(map(repr, names))} {word}" for names, word in (
            (more, "is new" if len(more) == 1 else "are new"),
            (less, "is missing" if len(less) == 1 else "are missing"),
        ) if names]
        raise ColumnError(
            f"From row {first_row:,} on the function gave other columns than {said}: "
            f"{' and '.join(parts)}.",
            where=f"row {first_row:,}",
            hint="Return the same columns for every row (None where there is no value)."
            if self._given is None
            else "Return what features= names, or remove the other columns (remove_columns=).",
            facts={"row": first_row, "more": more, "less": less},
        )

    def _first(self, columns: Mapping[str, Any], first_row: int) -> Features:
        from provender.data.features import Features

        order = [name for name in self._hints if name in columns]
        order += [name for name in columns if name not in self._hints]
        return Features({name: self._found(name, columns[name], first_row) for name in order})

    def _found(self, name: str, values: Any, first_row: int) -> FeatureType:
        """The feature of a column that is new here."""
        from provender.data.features import Features, type_of

        hint = self._hints.get(name)
        if isinstance(values, pa.ChunkedArray | pa.Array):
            if hint is not None and type_of(hint) == values.type:
                return hint
            return Features.from_arrow_schema(pa.schema([pa.field(name, values.type)]))[name]
        if hint is not None and not _all_none(values):
            try:
                self._one(name, values, hint, first_row)
            except FeatureTypeError:
                pass
            else:
                return hint
        elif hint is not None:
            return hint
        made = self._one(name, values, None, first_row)
        return Features.from_arrow_schema(made.schema)[name]

    def _one(
        self, name: str, values: Any, feature: FeatureType | None, first_row: int
    ) -> pa.Table:
        from provender.data.features import table_from_batch

        features = None if feature is None else {name: feature}
        return table_from_batch({name: values}, features, first_row=first_row)

    def _widen(self, columns: Mapping[str, Any], first_row: int) -> None:
        assert self.features is not None
        for name, feature in self.features.items():
            if not holds_null(feature) or name not in columns:
                continue
            values = columns[name]
            if isinstance(values, list | tuple) and _all_none(values):
                continue
            from provender.data.features import Features, unify

            new = Features({name: self._found(name, values, first_row)})
            both = unify(Features({name: feature}), new)
            if both[name] != feature:
                changed = self.features.copy()
                changed[name] = both[name]
                self.features = changed
                self.widened += 1


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


def common(all_features: Sequence[Features]) -> Features:
    """Features that hold what each of several holds.

    Raises:
        FeatureTypeError: a column has two types that do not go together.
    """
    from provender.data.features import unify

    found = all_features[0]
    for each in all_features[1:]:
        if each != found:
            found = unify(found, each)
    return found
