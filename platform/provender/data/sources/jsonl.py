"""JSON lines, and JSON files that are one array (or hold it under a field)."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from provender.data.sources.base import Chunk, close
from provender.data.sources.line_bytes import Block, Part
from provender.data.sources.lines import LineSource
from provender.errors import InputError

if TYPE_CHECKING:
    import pyarrow as pa

    from provender.data.features import Features

_LINE_FEED, _SPACE = 0x0A, 0x20
_DOCUMENT_ROWS = 8192


class JsonLinesSource(LineSource):
    """Files of JSON objects: one a line, or one array of them.

    An array is read whole before its first row is there; its place is the number of the row.

    Args:
        field: the files are one object, and the rows are under this name in it.
        **kwargs: as for `LineSource`.
    """

    kind = "json"

    def __init__(self, files: Any, *, field: str | None = None, **kwargs: Any) -> None:
        super().__init__(files, **kwargs)
        self._field = field
        self._whole: dict[str, bool] = {}

    def _parameters(self) -> Any:
        return self._field

    # ------------------------------------------------------------------ lines

    def _infer(self) -> Features | None:
        from provender.data.features import Features

        table: pa.Table | None = None
        for part, first in self._beginnings():
            if self._is_document(part, first):
                table = self._document(part)
            elif first is not None:
                table = self._sampled(part)
            if table is not None and table.num_rows:
                return Features.from_arrow_schema(table.schema)
        return None

    def _beginnings(self) -> Iterator[tuple[Part, Block | None]]:
        for part in self._parts:
            blocks = self.blocks(part, part.start, part.start == 0, ahead=0)
            try:
                yield part, next((block for block in blocks if block.data.strip()), None)
            finally:
                close(blocks)

    def _sampled(self, part: Part) -> pa.Table:
        """The first lines of a file as a table.

        Columns that are null in all of them are looked for further on: as what they are is not
        known, they would otherwise stay null for ever.
        """
        import pyarrow as pa

        tables: list[pa.Table] = []
        left = self._sample
        blocks = self.blocks(part, part.start, part.start == 0, ahead=0)
        try:
            for block in blocks:
                tables.append(self._sampled_block(part, block))
                left -= len(block.data)
                if left <= 0 and (left < -31 * self._sample or not _has_null(tables)):
                    break
        finally:
            close(blocks)
        return _joined(tables, part) if tables else pa.table({})

    def _sampled_block(self, part: Part, block: Block) -> pa.Table:
        """Lines as a table; those that are to be skipped are counted when they are read."""
        try:
            return self._read_json(part, block, None)
        except InputError:
            if self._options.on_error != "skip":
                raise
        good = b"".join(line for line in self._records(block.data) if not _wrong(line))
        return self._read_json(part, Block(block.byte, good), None)

    def _prepare(self, part: Part) -> Any:
        features = self._given if self._given is not None else self.all_features
        if features is None:
            return None
        return features.arrow_schema

    def _parse(self, part: Part, block: Block, at: int, schema: Any) -> pa.Table:
        if self._given is not None:
            return self._fitted(part, block, self._read_json(part, block, None), at)
        table = self._read_json(part, block, schema)
        if schema is not None and table.column_names != schema.names:
            self._refuse_extra(part, block, table, schema)
            table = table.select(schema.names)
        return table if schema is None else table.cast(schema)

    def _read_json(self, part: Part, block: Block, schema: Any) -> pa.Table:
        import pyarrow as pa
        import pyarrow.json as paj

        data = block.data
        if self._errors != "strict":
            data = self.utf8(part, block).encode()
        if not data.strip():
            return schema.empty_table() if schema is not None else pa.table({})
        wanted = None if schema is None else pa.schema([(f.name, f.type) for f in schema])
        try:
            table = paj.read_json(
                pa.BufferReader(data),
                paj.ReadOptions(use_threads=False, block_size=len(data) + 1),
                paj.ParseOptions(explicit_schema=wanted, newlines_in_values=False),
            )
            if not _is_utf8(table):
                self.utf8(part, block)  # tells where
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
            raise self._explained(part, block, error) from error
        return table

    def _explained(self, part: Part, block: Block, error: Exception) -> InputError:
        """The error of one of the lines, found by reading them one by one."""
        from provender.data.errors import FeatureTypeError

        self.utf8(part, block)
        byte = block.byte
        for line in self._records(block.data):
            why = _wrong(line) if line.strip() else None
            if why:
                return InputError(
                    f"A line is not a JSON object: {why}",
                    where=self.place(part, byte),
                    hint='Mend the line, or pass on_error="skip" to pass it over.',
                    facts={"file": part.file.name, "byte": byte},
                )
            byte += len(line)
        return FeatureTypeError(
            f"The values do not fit the columns found in the first rows: {error}",
            where=f"at or after {self.place(part, block.byte)}",
            hint="Say what the columns are: features=Features({...}).",
            facts={"file": part.file.name, "byte": block.byte},
        )

    def _refuse_extra(self, part: Part, block: Block, table: pa.Table, schema: Any) -> None:
        extra = [name for name in table.column_names if name not in schema.names]
        if extra:
            raise InputError(
                f"There is a column {extra[0]!r} here that the first rows do not have.",
                where=f"at or after {self.place(part, block.byte)}",
                hint="Say what the columns are: features=Features({...}).",
                facts={"file": part.file.name, "byte": block.byte, "columns": extra},
            )

    def _fitted(self, part: Part, block: Block, table: pa.Table, at: int) -> pa.Table:
        import pyarrow as pa

        from provender.data.features import cast_table

        given = self._given
        assert given is not None
        schema = given.arrow_schema
        self._refuse_extra(part, block, table, schema)
        for field in schema:
            if field.name not in table.column_names:
                table = table.append_column(field.name, pa.nulls(table.num_rows, field.type))
        return cast_table(table.select(schema.names), given)

    def _count(self, block: Block) -> int | None:
        import numpy as np

        data = np.frombuffer(block.data, np.uint8)
        if not len(data):
            return 0
        ends = np.flatnonzero(data == _LINE_FEED)
        starts = np.concatenate([[0], ends + 1])
        if starts[-1] == len(data):
            starts = starts[:-1]
        if data[starts].min() <= _SPACE:  # a line that may be blank
            return sum(1 for line in block.data.split(b"\n") if line.strip())
        return len(starts)

    # ------------------------------------------------------------------ documents

    def _is_document(self, part: Part, first: Block | None = None) -> bool:
        """Whether a file is one JSON value of many rows rather than lines."""
        if self._field is not None:
            return True
        if part.start or part.stop is not None:
            return False
        known = self._whole.get(part.file.url)
        if known is None:
            if first is None:
                blocks = self.blocks(part, ahead=0)
                try:
                    first = next((block for block in blocks if block.data.strip()), None)
                finally:
                    close(blocks)
            known = first is not None and _begins_document(first.data)
            self._whole[part.file.url] = known
        return known

    def count_rows(self, shard: int) -> int:
        part = self._parts[shard]
        return (
            self._document(part).num_rows if self._is_document(part) else super().count_rows(shard)
        )

    def _rows(self, part: Part, byte: int, at: int, row: int, aligned: bool) -> Iterator[Chunk]:
        if not self._is_document(part):
            yield from super()._rows(part, byte, at, row, aligned)
            return
        table = self._document(part)
        features = self.all_features
        if features is not None:
            from provender.data.features import cast_table

            table = cast_table(table, features)
        for start in range(max(row, at), table.num_rows, _DOCUMENT_ROWS):
            piece = table.slice(start, _DOCUMENT_ROWS)
            following = {"byte": 0, "row": start + piece.num_rows}
            yield self._shaped(Chunk(start, piece.num_rows, following, piece), part)

    def _seekable(self, file: Any) -> bool:
        # A file that is one value cannot be cut by lines.
        return super()._seekable(file) and self._field is None

    def reshard(self, num_shards: int | None = None) -> Any:
        if any(self._is_document(part) for part in self._parts):
            return self
        return super().reshard(num_shards)

    def _document(self, part: Part) -> pa.Table:
        from provender.data.features import table_from_rows

        data = b"".join(block.data for block in self.blocks(part))
        text = self.utf8(part, Block(0, data))
        try:
            value = json.loads(text)
        except ValueError as error:
            raise InputError(
                f"The file is not JSON: {error}",
                where=part.file.name,
                hint="A file of JSON lines has one object a line.",
                facts={"file": part.file.name},
            ) from error
        return table_from_rows(self._objects(part, value), self._given)

    def _objects(self, part: Part, value: Any) -> list[Mapping[str, Any]]:
        if self._field is not None:
            if not isinstance(value, dict) or self._field not in value:
                names = ", ".join(value) if isinstance(value, dict) else "no object"
                raise InputError(
                    f"The file has no field {self._field!r}.",
                    where=part.file.name,
                    hint=f"It has: {names}.",
                )
            value = value[self._field]
        if isinstance(value, dict) and value and all(isinstance(v, list) for v in value.values()):
            lengths = {len(each) for each in value.values()}
            if len(lengths) == 1:  # columns
                return [
                    dict(zip(value, row, strict=True)) for row in zip(*value.values(), strict=True)
                ]
        if isinstance(value, dict):
            return [value]
        if isinstance(value, list) and all(isinstance(each, dict) for each in value):
            return value
        if isinstance(value, list) and all(isinstance(each, str) for each in value):
            name = next(iter(self._given)) if self._given is not None else "text"
            return [{name: each} for each in value]
        raise InputError(
            "The rows are not JSON objects.",
            where=part.file.name,
            hint='Use [{"text": "..."}, ...], or name the part that holds the rows: field="...".',
        )


def _begins_document(data: bytes) -> bool:
    """Whether a file that begins so is no JSON lines: an array, or an object over several lines."""
    head = data.lstrip()
    if head.startswith(b"["):
        return True
    first, _, rest = head.partition(b"\n")
    if not rest.strip():
        return False
    try:
        json.loads(first)
    except ValueError:
        # Damaged lines are told apart by the line after: a document's is no object either.
        return not rest.lstrip().startswith(b"{")
    return False


def _wrong(line: bytes) -> str | None:
    try:
        value = json.loads(line)
    except ValueError as error:
        return str(error)
    return None if isinstance(value, dict) else f"it is a {type(value).__name__}"


def _has_null(tables: list[pa.Table]) -> bool:
    """Whether some column has been null in all of the tables."""
    import pyarrow as pa

    known: set[str] = set()
    every: set[str] = set()
    for table in tables:
        every.update(table.column_names)
        known.update(
            field.name
            for field in table.schema
            if not (pa.types.is_null(field.type) or str(field.type) == "list<item: null>")
        )
    return bool(every - known)


def _joined(tables: list[pa.Table], part: Part) -> pa.Table:
    import pyarrow as pa

    from provender.data.errors import FeatureTypeError

    try:
        return pa.concat_tables(tables, promote_options="permissive")
    except (pa.ArrowInvalid, pa.ArrowTypeError, pa.ArrowNotImplementedError) as error:
        raise FeatureTypeError(
            f"The first rows do not agree on the types of the columns: {error}",
            where=part.file.name,
            hint="Say what the columns are: features=Features({...}).",
        ) from error


def _is_utf8(table: pa.Table) -> bool:
    """Whether the text of a table is text; pyarrow's reader does not look."""
    import pyarrow as pa

    try:
        table.validate(full=True)
    except pa.ArrowInvalid:
        return False
    return True
