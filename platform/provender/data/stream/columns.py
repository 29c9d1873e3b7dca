"""Operators on columns: which there are, what they are called, of which type they are."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar

from provender.data.errors import ColumnError, unknown_column
from provender.data.stream.block import Block, join_tables
from provender.data.stream.rowwise import RowWise

if TYPE_CHECKING:
    import numpy as np
    import pyarrow as pa

    from provender.data.features import Features


@dataclass(frozen=True, eq=False)
class Select(RowWise):
    """Only the columns named, in that order."""

    name: ClassVar[str] = "select_columns"

    columns: tuple[str, ...] = ()

    def parameters(self) -> Any:
        return self.columns

    def features(self) -> Features | None:
        features = self.child.features()
        if features is None:
            return None
        return type(features)({name: features[name] for name in self.columns})

    def column_names(self) -> list[str]:
        return list(self.columns)

    def apply(self, block: Block, numbers: np.ndarray | None, seen: int) -> Block:
        del numbers, seen
        for name in self.columns:
            if name not in (names := block.names()):
                raise unknown_column(name, names)
        if block.table is not None:
            return Block(table=block.table.select(list(self.columns)))
        if block.columns is not None:
            return Block(
                columns={name: block.columns[name] for name in self.columns}, count=block.count
            )
        return Block(rows=[{name: row[name] for name in self.columns} for row in block.as_rows()])


@dataclass(frozen=True, eq=False)
class Remove(RowWise):
    """All columns but those named."""

    name: ClassVar[str] = "remove_columns"

    columns: tuple[str, ...] = ()

    def parameters(self) -> Any:
        return tuple(sorted(self.columns))

    def features(self) -> Features | None:
        features = self.child.features()
        if features is None:
            return None
        return type(features)({k: v for k, v in features.items() if k not in self.columns})

    def column_names(self) -> list[str] | None:
        names = self.child.column_names()
        return None if names is None else [name for name in names if name not in self.columns]

    def apply(self, block: Block, numbers: np.ndarray | None, seen: int) -> Block:
        del numbers, seen
        names = block.names()
        for name in self.columns:
            if name not in names:
                raise unknown_column(name, names)
        gone = set(self.columns)
        if block.table is not None:
            return Block(table=block.table.select([name for name in names if name not in gone]))
        if block.columns is not None:
            kept = {name: values for name, values in block.columns.items() if name not in gone}
            return Block(columns=kept, count=block.count)
        return Block(
            rows=[{k: v for k, v in row.items() if k not in gone} for row in block.as_rows()]
        )


@dataclass(frozen=True, eq=False)
class Rename(RowWise):
    """Columns under other names."""

    name: ClassVar[str] = "rename_columns"

    mapping: Mapping[str, str] = None  # type: ignore[assignment]

    def parameters(self) -> Any:
        return dict(self.mapping)

    def features(self) -> Features | None:
        features = self.child.features()
        if features is None:
            return None
        return type(features)({self.mapping.get(k, k): v for k, v in features.items()})

    def column_names(self) -> list[str] | None:
        names = self.child.column_names()
        return None if names is None else [self.mapping.get(name, name) for name in names]

    def apply(self, block: Block, numbers: np.ndarray | None, seen: int) -> Block:
        del numbers, seen
        mapping, names = self.mapping, block.names()
        check_renames(mapping, names)
        if block.table is not None:
            from provender.data.features import Features

            features = Features.from_arrow_schema(block.table.schema)
            renamed = Features({mapping.get(k, k): v for k, v in features.items()})
            table = block.table.rename_columns([mapping.get(name, name) for name in names])
            return Block(table=with_features(table, renamed))
        if block.columns is not None:
            made = {mapping.get(name, name): values for name, values in block.columns.items()}
            return Block(columns=made, count=block.count)
        return Block(
            rows=[{mapping.get(k, k): v for k, v in row.items()} for row in block.as_rows()]
        )


def check_renames(mapping: Mapping[str, str], names: Sequence[str]) -> None:
    """Raises where a column to be renamed is missing, or a new name is taken.

    Raises:
        ColumnError: naming it.
    """
    for old in mapping:
        if old not in names:
            raise unknown_column(old, names)
    left = [mapping.get(name, name) for name in names]
    twice = sorted({name for name in left if left.count(name) > 1})
    if twice:
        raise ColumnError(
            f"There would be two columns {twice[0]!r}.",
            hint="Rename or remove the other one first.",
            facts={"columns": list(names)},
        )


@dataclass(frozen=True, eq=False)
class Cast(RowWise):
    """Columns as other types; all of them (`whole`) or some."""

    name: ClassVar[str] = "cast"

    target: Mapping[str, Any] = None  # type: ignore[assignment]
    whole: bool = False

    def parameters(self) -> Any:
        from provender.data.features import Features

        return Features(self.target).to_dict()

    @cached_property
    def _features(self) -> Features:
        from provender.data.features import Features

        return Features(self.target)

    def features(self) -> Features | None:
        if self.whole:
            return self._features
        features = self.child.features()
        if features is None:
            return None
        return type(features)({k: self.target.get(k, v) for k, v in features.items()})

    def apply(self, block: Block, numbers: np.ndarray | None, seen: int) -> Block:
        del numbers
        from provender.data.features import Features, cast_table

        table = block.as_table(seen)
        if self.whole:
            return Block(table=cast_table(table, self._features))
        found = Features.from_arrow_schema(table.schema)
        for name in self.target:
            if name not in found:
                raise unknown_column(name, found)
        wanted = Features({k: self.target.get(k, v) for k, v in found.items()})
        return Block(table=cast_table(table, wanted))


@dataclass(frozen=True, eq=False)
class AddColumn(RowWise):
    """One more column, given as a whole; its n-th value goes to the n-th row."""

    name: ClassVar[str] = "add_column"
    indexed: ClassVar[bool] = True

    column: str = ""
    values: Any = None
    feature: Any = None

    def parameters(self) -> Any:
        return (self.column, self.values, repr(self.feature))

    @cached_property
    def _array(self) -> pa.Table:
        from provender.data.features import table_from_batch

        features = None if self.feature is None else {self.column: self.feature}
        return table_from_batch({self.column: self.values}, features)

    def features(self) -> Features | None:
        from provender.data.features import Features

        features = self.child.features()
        if features is None:
            return None
        own = Features.from_arrow_schema(self._array.schema)
        return type(features)({**features, **own})

    def apply(self, block: Block, numbers: np.ndarray | None, seen: int) -> Block:
        import pyarrow as pa

        assert numbers is not None
        have = self._array.num_rows
        if len(numbers) and int(numbers.max()) >= have:
            raise ColumnError(
                f"The column {self.column!r} has {have:,} values, the stream more rows.",
                where=f"row {have}",
                hint="Give add_column a value for every row.",
                facts={"column": self.column, "values": have},
            )
        if self.column in block.names():
            raise ColumnError(
                f"There is already a column {self.column!r}.", hint="Remove or rename it first."
            )
        own = self._array.take(pa.array(numbers))
        if block.table is None:
            values = own.column(0).to_pylist()
            rows = zip(block.as_rows(), values, strict=True)
            return Block(rows=[{**row, self.column: value} for row, value in rows])
        from provender.data.features import Features

        features = Features.from_arrow_schema(block.table.schema)
        features[self.column] = Features.from_arrow_schema(own.schema)[self.column]
        table = block.table.append_column(own.schema.field(0), own.column(0))
        return Block(table=with_features(table, features))


@dataclass(frozen=True, eq=False)
class Decode(RowWise):
    """Images, sounds and videos decoded, or left as bytes and path."""

    name: ClassVar[str] = "decode"

    enable: bool = True

    def parameters(self) -> Any:
        return self.enable

    def features(self) -> Features | None:
        features = self.child.features()
        if features is None:
            return None
        return type(features)(
            {name: _decoding(each, self.enable) for name, each in features.items()}
        )

    def column_names(self) -> list[str] | None:
        return self.child.column_names()

    def apply(self, block: Block, numbers: np.ndarray | None, seen: int) -> Block:
        del numbers
        from provender.data.features import Features

        table = block.as_table(seen)
        features = Features.from_arrow_schema(table.schema)
        wanted = Features({name: _decoding(each, self.enable) for name, each in features.items()})
        return Block(table=with_features(table, wanted))


def _decoding(feature: Any, enable: bool) -> Any:
    import copy

    from provender.data.features import LargeList, List

    if isinstance(feature, Mapping):
        return {name: _decoding(each, enable) for name, each in feature.items()}
    if isinstance(feature, List | LargeList):
        made = copy.copy(feature)
        made.feature = _decoding(feature.feature, enable)
        return made
    if hasattr(feature, "decode") and isinstance(feature.decode, bool):
        made = copy.copy(feature)
        made.decode = enable
        return made
    return feature


@dataclass(frozen=True, eq=False)
class Align(RowWise):
    """Rows with the columns of several streams together: what one lacks is None there."""

    name: ClassVar[str] = "align"

    target: Features = None  # type: ignore[assignment]

    def features(self) -> Features | None:
        return self.target

    def apply(self, block: Block, numbers: np.ndarray | None, seen: int) -> Block:
        del numbers
        from provender.data.features import Features, cast_table

        if block.table is None:
            nothing = dict.fromkeys(self.target)
            # A column that comes up later than where columns were looked for is kept.
            return Block(rows=[{**nothing, **row} for row in block.as_rows()])
        table = block.table
        for name in self.target:
            if name not in table.column_names:
                table = join_tables([table, self.target.arrow_schema.empty_table().select([name])])
        found = Features.from_arrow_schema(table.schema)
        if not set(found) <= set(self.target) or self._unsure:
            wanted = {name: found[name] for name in (*self.target, *found)}
            wanted |= {k: v for k, v in self.target.items() if k not in self._unsure}
            return Block(table=cast_table(table.select(list(wanted)), Features(wanted)))
        return Block(table=cast_table(table, self.target))

    @cached_property
    def _unsure(self) -> frozenset[str]:
        """Columns of which nothing but None was seen."""
        import pyarrow as pa

        schema = self.target.arrow_schema
        return frozenset(field.name for field in schema if field.type == pa.null())


def with_features(table: pa.Table, features: Features) -> pa.Table:
    """A table whose schema tells the features of its columns."""
    return table.replace_schema_metadata(features.arrow_schema.metadata)
