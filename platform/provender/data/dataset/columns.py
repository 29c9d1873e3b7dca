"""Transforms of columns. None of them copies rows that it does not change."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Self, cast

import pyarrow as pa

from provender.data.dataset.bounds import check_distinct, names_of
from provender.data.dataset.chain import Print
from provender.data.dataset.formatting import Format
from provender.data.dataset.ordering import Ordering
from provender.data.errors import ColumnError, ColumnLengthError, unknown_column

if TYPE_CHECKING:
    from provender.data.features import Features, FeatureType

IN_MEMORY = 64 << 20
"""Results of casts and reorderings up to so many bytes are kept in memory, larger ones cached."""


class Columns(Ordering):
    """Renaming, removing, adding and casting columns."""

    def rename_column(
        self,
        original_column_name: str,
        new_column_name: str,
        new_fingerprint: str | None = None,
    ) -> Self:
        """The dataset with one column under another name.

        Raises:
            ColumnError: there is no such column, the name is taken, or it is empty.
        """
        return self.rename_columns({original_column_name: new_column_name}, new_fingerprint)

    def rename_columns(
        self, column_mapping: Mapping[str, str], new_fingerprint: str | None = None
    ) -> Self:
        """The dataset with columns under other names.

        Args:
            column_mapping: old name -> new name.
            new_fingerprint: the result's fingerprint, instead of the computed one.

        Raises:
            ColumnError: as `rename_column`.
        """
        names_of(list(column_mapping), self._features, "column_mapping")
        if not all(column_mapping.values()):
            raise ColumnError("A column needs a name.", where="column_mapping")
        names = [column_mapping.get(name, name) for name in self._features]
        check_distinct(names, "After renaming the dataset")
        features = self._new_features(
            {column_mapping.get(name, name): each for name, each in self._features.items()}
        )
        new = self._derive(
            self._then(new_fingerprint, "rename_columns 1", mapping=dict(column_mapping)),
            table=self._data.rename_columns(names),
            features=features,
        )
        chosen = self._format
        if chosen.columns is not None:
            kept = tuple(column_mapping.get(name, name) for name in chosen.columns)
            new._format = Format(chosen.type, kept, chosen.output_all_columns, chosen.kwargs)
            new._formatter_made = None
        return new

    def remove_columns(
        self, column_names: str | Sequence[str], new_fingerprint: str | None = None
    ) -> Self:
        """The dataset without some columns.

        Raises:
            ColumnError: one of them does not exist.
        """
        gone = set(names_of(column_names, self._features, "column_names"))
        kept = [name for name in self._features if name not in gone]
        return self._with_columns(kept, new_fingerprint, "remove_columns 1", sorted(gone))

    def select_columns(
        self, column_names: str | Sequence[str], new_fingerprint: str | None = None
    ) -> Self:
        """The dataset with only some columns, in the order given.

        Raises:
            ColumnError: one of them does not exist, or is named twice.
        """
        kept = names_of(column_names, self._features, "column_names")
        check_distinct(kept, "The selection")
        return self._with_columns(kept, new_fingerprint, "select_columns 1", kept)

    def _with_columns(
        self, kept: list[str], new_fingerprint: str | None, name: str, said: list[str]
    ) -> Self:
        features = self._new_features({each: self._features[each] for each in kept})
        made = self._then(new_fingerprint, name, columns=said)
        if kept:
            return self._derive(made, table=self._data.select(kept), features=features)
        # An Arrow table without columns has no rows to count.
        return self._derive(made, table=self._data.select([]), features=features, indices=None)

    def cast(
        self,
        features: Mapping[str, FeatureType],
        batch_size: int | None = 1000,
        keep_in_memory: bool = False,
        load_from_cache_file: bool | None = None,
        cache_file_name: str | None = None,
        writer_batch_size: int | None = 1000,
        num_proc: int | None = None,
    ) -> Self:
        """The dataset with its columns as other types.

        Args:
            features: a feature for each column; their order becomes that of the columns.
            batch_size, keep_in_memory, load_from_cache_file, writer_batch_size, num_proc: as for
                ``map``, for results that are too large for memory. None changes the result.
            cache_file_name: a file that the result is written to as well, as an Arrow stream.

        Raises:
            ColumnError: the features are not those of the columns.
            FeatureTypeError: a value cannot be cast; names column, row and value.
        """
        wanted = self._new_features(dict(features))
        for name in wanted:
            if name not in self._features:
                raise unknown_column(name, self._features, "features")
        missing = [name for name in self._features if name not in wanted]
        if missing:
            raise ColumnError(
                f"The features do not name the column {missing[0]!r}.",
                where="features",
                hint=f"Name every column: {', '.join(self._features)}.",
                facts={"missing": missing},
            )
        made = self._then(None, "cast 1", features=wanted.to_dict())
        new = self._cast(
            wanted,
            made,
            batch_size=batch_size,
            keep_in_memory=keep_in_memory,
            load_from_cache_file=load_from_cache_file,
            writer_batch_size=writer_batch_size,
            num_proc=num_proc,
        )
        if cache_file_name is not None:
            from provender.data.dataset.files import write_stream

            write_stream(new._whole(), cache_file_name)
        return new

    def cast_column(
        self, column: str, feature: FeatureType, new_fingerprint: str | None = None
    ) -> Self:
        """The dataset with one column as another type.

        Args:
            column: its name.
            feature: what it becomes.
            new_fingerprint: the result's fingerprint, instead of the computed one.

        Raises:
            ColumnError: there is no such column.
            FeatureTypeError: a value cannot be cast; names column, row and value.
        """
        names_of(column, self._features, "column")
        wanted = self._new_features({**self._features, column: feature})
        made = self._then(new_fingerprint, "cast 1", features=wanted.to_dict())
        return self._cast(wanted, made)

    def _cast(self, wanted: Features, made: Print, **how: Any) -> Self:
        from provender.data.features import cast_column
        from provender.data.features.casting import checks_values

        changed = [
            name
            for name, each in wanted.items()
            if each != self._features[name]
            and (checks_values(each) or _storage(each) != _storage(self._features[name]))
        ]
        table = self._data.select(list(wanted))
        if not changed:
            return self._derive(made, table=table, features=wanted)
        # Only rows of the dataset are looked at: others of the table may not be castable.
        if sum(table.column(name).nbytes for name in changed) <= IN_MEMORY:
            if self._indices is not None and len(self) < table.num_rows:
                table = self._whole(list(wanted))
                indices = None
            else:
                indices = self._indices
            for name in changed:
                at = table.schema.get_field_index(name)
                column = cast_column(table.column(name), name, wanted[name])
                table = table.set_column(at, name, column)
            return self._derive(made, table=table, features=wanted, indices=indices)
        plain = self._derive(self._print)
        plain._format, plain._formatter_made = Format("arrow"), None
        done = cast("Any", plain).map(
            _Cast(wanted.to_dict()),
            batched=True,
            features=wanted,
            new_fingerprint=made.get(),
            desc="Cast",
            **how,
        )
        done._format = self._format_for(wanted)
        done._formatter_made = None
        return cast("Self", done)

    def add_column(
        self,
        name: str,
        column: Any,
        new_fingerprint: str | None = None,
        feature: FeatureType | None = None,
    ) -> Self:
        """The dataset with one column more.

        Args:
            name: its name.
            column: a value for each row: a list, an array, an Arrow array.
            new_fingerprint: the result's fingerprint, instead of the computed one.
            feature: its type; by default it follows from the values.

        Raises:
            ColumnError: there is such a column already.
            ColumnLengthError: there are more or fewer values than rows.
        """
        from provender.data.features import Features, table_from_batch

        check_distinct([*self._features, name], "The dataset")
        given = None if feature is None else {name: feature}
        added = table_from_batch({name: column}, given, coerce=feature is not None)
        if added.num_rows != len(self):
            raise ColumnLengthError(
                f"The column {name!r} has {added.num_rows:,} values, the dataset {len(self):,} rows.",
                where=name,
                hint="Give one value for each row.",
                facts={"values": added.num_rows, "rows": len(self)},
            )
        own = Features.from_arrow_schema(added.schema)
        made = self._then(new_fingerprint, "add_column 1", name=name, values=_bare(added, own))
        before = self.flatten_indices()
        return before._derive(
            made,
            table=before._data.append_column(name, added.column(0)),
            features=self._new_features({**self._features, **own}),
        )

    def flatten(self, new_fingerprint: str | None = None, max_depth: int = 16) -> Self:
        """The dataset with columns of dicts taken apart: ``answers`` becomes ``answers.text`` ...

        Args:
            new_fingerprint: the result's fingerprint, instead of the computed one.
            max_depth: how many levels.
        """
        features = self._features.flatten(max_depth)
        table = self._data
        for _ in range(1, max_depth):
            if not any(pa.types.is_struct(each.type) for each in table.schema):
                break
            table = table.flatten()
        names = table.column_names
        if set(names) != set(features):
            # Kinds that are stored as dicts but read as one thing (images) stay whole.
            table = _flattened(self._data, self._features, max_depth)
            names = table.column_names
        features = self._new_features({name: features[name] for name in names})
        made = self._then(new_fingerprint, "flatten 1", max_depth=max_depth)
        return self._derive(made, table=table, features=features)

    def unique(self, column: str) -> list[Any]:
        """The different values of a column, in the order in which they come.

        Raises:
            ColumnError: there is no such column.
        """
        names_of(column, self._features, "column")
        found: list[Any] = self._whole([column]).column(0).unique().to_pylist()
        return found

    def _then(self, new_fingerprint: str | None, name: str, /, **parameters: Any) -> Print:
        if new_fingerprint is not None:
            return Print(new_fingerprint)
        return self._print.then(name, **parameters)

    def _new_features(self, features: Mapping[str, FeatureType]) -> Features:
        from provender.data.features import Features

        return Features(features)


class _Cast:
    """Casts tables; a class, so that its fingerprint is its features."""

    def __init__(self, features: dict[str, Any]) -> None:
        self.features = features

    def __call__(self, table: pa.Table) -> pa.Table:
        from provender.data.features import Features, cast_table

        return cast_table(table, Features.from_dict(self.features))


def _storage(feature: Any) -> pa.DataType:
    from provender.data.features import type_of

    return type_of(feature)


def _bare(table: pa.Table, features: Features) -> tuple[Any, pa.Table]:
    return features.to_dict(), table.replace_schema_metadata(None)


def _flattened(table: pa.Table, features: Mapping[str, Any], max_depth: int) -> pa.Table:
    for _ in range(1, max_depth):
        arrays: list[Any] = []
        parts: dict[str, Any] = {}
        for name, feature in features.items():
            inner = feature if isinstance(feature, Mapping) else None
            if inner is None and hasattr(feature, "flatten"):
                flat = feature.flatten()
                inner = flat if isinstance(flat, dict) else None
            if inner is None:
                arrays.append(table.column(name))
                parts[name] = feature
                continue
            columns = pa.table({name: table.column(name)}).flatten()
            for key, each in inner.items():
                arrays.append(columns.column(f"{name}.{key}"))
                parts[f"{name}.{key}"] = each
        made = pa.Table.from_arrays(arrays, names=list(parts))
        if list(parts) == list(features):
            return made
        table, features = made, parts
    return table
