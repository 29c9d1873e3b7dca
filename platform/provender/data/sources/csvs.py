"""Comma-separated values, typed as people who know pandas expect."""

from __future__ import annotations

import contextlib
import csv
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from provender.data.sources.base import close
from provender.data.sources.csv_bytes import (
    FALSE,
    TRUE,
    digits,
    fits,
    given_types,
    numbers_or_names,
    one_char,
    quoted,
    types_of,
    unescaped,
    unique,
)
from provender.data.sources.line_bytes import Block, Part
from provender.data.sources.lines import LineSource
from provender.errors import InputError

if TYPE_CHECKING:
    import pyarrow as pa

    from provender.data.features import Features

MISSING = (
    "", " ", "#N/A", "#N/A N/A", "#NA", "-1.#IND", "-1.#QNAN", "-NaN", "-nan", "1.#IND", "1.#QNAN",
    "<NA>", "N/A", "NA", "NULL", "NaN", "None", "n/a", "nan", "null",
)  # fmt: skip
"""What stands for a missing value, as pandas has it."""

SAMPLE_ROWS = 10_000
_LINE_FEED = 0x0A


class CsvSource(LineSource):
    """CSV files.

    The types of the columns come from the first 10,000 rows (at most 512 KiB of them): integers,
    floating point numbers (also integers of which some are missing), truth values, text.

    Args:
        sep: what stands between values (also ``delimiter``).
        header: ``infer``, 0 for the first line, or None where there is none.
        names: names of the columns, instead of those of the header.
        quotechar: what values with separators or line ends in them are put in; None for nothing.
        escapechar: makes the character after it lose its meaning.
        skiprows: lines to leave out at the beginning of each file.
        na_values: further words for a missing value.
        keep_default_na: whether `MISSING` counts as well.
        na_filter: False: nothing stands for a missing value.
        quoting: as in Python's ``csv``: `QUOTE_NONE` means no quotes.
        dtype: types of columns by name, or one for all of them: names as numpy or Arrow has them,
            Python's ``int``, ``float``, ``bool``, ``str``, or features.
        **kwargs: as for `LineSource`.
    """

    kind = "csv"
    can_reshard = False  # only what came before tells whether a line feed stands in quotes

    def __init__(
        self,
        files: Any,
        *,
        sep: str | None = None,
        delimiter: str | None = None,
        header: int | str | None = "infer",
        names: Sequence[str] | None = None,
        column_names: Sequence[str] | None = None,
        quotechar: str | None = '"',
        escapechar: str | None = None,
        skiprows: int = 0,
        na_values: Sequence[str] = (),
        keep_default_na: bool = True,
        na_filter: bool = True,
        quoting: int = csv.QUOTE_MINIMAL,
        dtype: Any = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(files, **kwargs)
        self._sep = one_char("sep", delimiter or sep or ",")
        if quoting == csv.QUOTE_NONE:
            quotechar = None
        elif quoting not in (csv.QUOTE_MINIMAL, csv.QUOTE_ALL):
            raise InputError(
                f"Quoting cannot be {quoting!r}.",
                where="quoting",
                hint="Use csv.QUOTE_MINIMAL or csv.QUOTE_NONE; dtype={...} says what is a number.",
            )
        self._quote = quotechar and one_char("quotechar", quotechar)
        self._escape = escapechar and one_char("escapechar", escapechar)
        chosen = names or column_names
        if header == "infer":
            header = None if chosen else 0
        if header not in (0, None):
            raise InputError(
                f"The header cannot be {header!r}.",
                where="header",
                hint="Use 0, None or infer; skiprows=N leaves out lines before it.",
            )
        self._header = header == 0
        self._chosen = list(chosen) if chosen else None
        self._skip = skiprows
        self._missing = ([*MISSING] if keep_default_na else []) + list(na_values)
        if not na_filter:
            self._missing = []
        self._types = None if dtype is None else given_types(dtype)
        self._local_ends = self._quote is None and self._escape is None

    def _parameters(self) -> Any:
        parameters = (
            self._sep, self._quote, self._escape, self._header, self._chosen, self._skip, self._missing,
        )  # fmt: skip
        return parameters if self._types is None else (*parameters, repr(self._types))

    # ------------------------------------------------------------------ where records end

    def _last_end(self, data: bytes) -> int:
        quoted = self._quote is not None and self._quote.encode() in data
        if not quoted and self._escape is None:
            return data.rfind(b"\n")
        return self._last_outside_quotes(data)

    def _last_outside_quotes(self, data: bytes) -> int:
        """The last line feed that ends a record."""
        ends = self._ends(data)
        return int(ends[-1]) if len(ends) else -1

    def _ends(self, data: bytes) -> Any:
        """Where records end: line feeds outside of quotes, none of them escaped."""
        import numpy as np

        values = np.frombuffer(data, np.uint8)
        if self._escape is not None:
            values = unescaped(values, ord(self._escape))
        feeds = values == _LINE_FEED
        if self._quote is not None:
            feeds &= ~quoted(values, ord(self._quote), ord(self._sep))
        return np.flatnonzero(feeds)

    def _records(self, data: bytes) -> Iterator[bytes]:
        start = 0
        for end in self._ends(data).tolist():
            yield data[start : end + 1]
            start = end + 1
        if start < len(data):
            yield data[start:]

    def _count(self, block: Block) -> int | None:
        """Records in a block: its line feeds outside quotes, lines without anything not counted."""
        import numpy as np

        data = block.data
        if data.count(b"\r") != data.count(b"\r\n"):
            return None  # carriage returns end lines too
        ends = self._ends(data)
        if not len(ends) or ends[-1] != len(data) - 1:
            ends = np.append(ends, len(data))
        lengths = np.diff(ends, prepend=-1) - 1
        short = np.flatnonzero(lengths <= 1)
        blank = sum(1 for i in short if data[ends[i] - lengths[i] : ends[i]] in (b"", b"\r"))
        return len(ends) - blank

    # ------------------------------------------------------------------ head of a file

    def blocks(
        self, part: Part, byte: int = 0, aligned: bool = True, ahead: int | None = None
    ) -> Iterator[Block]:
        """The records of a file from a place on; the header and lines to skip are left out."""
        blocks = super().blocks(part, byte, aligned, ahead)
        left = self._skip + (1 if self._header else 0) if byte == 0 else 0
        try:
            for block in blocks:
                while left and block.data:
                    first = self._first_end(block.data, quoted=left == 1)
                    line, rest = block.data[: first + 1], block.data[first + 1 :]
                    # Empty lines before the header do not count.
                    left -= 1 if line.strip() or left > 1 else 0
                    block = Block(block.byte + len(line), rest)
                if block.data:
                    yield block
        finally:
            close(blocks)

    def _first_end(self, data: bytes, quoted: bool) -> int:
        if quoted:
            ends = self._ends(data)
            end = int(ends[0]) if len(ends) else -1
        else:
            end = data.find(b"\n")
        return len(data) - 1 if end < 0 else end

    def _header_of(self, part: Part) -> list[str] | None:
        """The names in a file's header, or by number; None for an empty file."""
        blocks = super().blocks(part, 0, True, 0)
        try:
            first = next((block for block in blocks if block.data.strip()), None)
        finally:
            close(blocks)
        if first is None:
            return None
        data = first.data
        left = self._skip
        while left and data:
            data = data[data.find(b"\n") + 1 :] if b"\n" in data else b""
            left -= 1
        data = data.lstrip(b"\r\n")
        line = Block(first.byte, data[: self._first_end(data, quoted=True) + 1])
        values = self._plain(part, line, None).to_pylist()
        row = list(values[0].values()) if values else []
        if not self._header:
            return [str(number) for number in range(len(row))]
        return unique([name or f"Unnamed: {i}" for i, name in enumerate(row)])

    # ------------------------------------------------------------------ types

    def _names_of(self, part: Part) -> list[str] | None:
        return self._chosen or self._header_of(part)

    def _infer(self) -> Features | None:
        import pyarrow as pa

        from provender.data.features import Features

        for part in self._parts:
            names = self._names_of(part)
            if names is None:
                continue
            tables, rows, left = [], 0, self._sample
            blocks = self.blocks(part, ahead=0)
            try:
                for block in blocks:
                    tables.append(self._sampled(part, block, names))
                    rows += tables[-1].num_rows
                    left -= len(block.data)
                    if rows >= SAMPLE_ROWS or left <= 0:
                        break
            finally:
                close(blocks)
            if not tables:  # a header and nothing else
                tables = [pa.table({name: pa.array([], pa.string()) for name in names})]
            whole = pa.concat_tables(tables).slice(0, SAMPLE_ROWS)
            given = types_of(self._types, names)
            types = {name: given.get(name) or self._type_of(whole[name]) for name in names}
            return Features.from_arrow_schema(pa.schema(list(types.items())))
        return None

    def _sampled(self, part: Part, block: Block, names: Sequence[str]) -> pa.Table:
        """A block as text; rows that are to be skipped are left out, and counted when they are read."""
        try:
            return self._plain(part, block, names)
        except InputError:
            if self._options.on_error != "skip":
                raise
        import pyarrow as pa

        tables = [self._plain(part, Block(block.byte, b""), names)]
        for record in self._records(block.data):
            with contextlib.suppress(InputError):
                tables.append(self._plain(part, Block(block.byte, record), names))
        return pa.concat_tables(tables)

    def _type_of(self, column: pa.ChunkedArray) -> pa.DataType:
        """The type in which pandas would read these texts."""
        import pyarrow as pa
        import pyarrow.compute as pc

        known = column.drop_null()
        if not len(column):
            return pa.large_string()
        if not len(known):
            return pa.float64()
        if pc.all(pc.is_in(known, pa.array([*TRUE, *FALSE]))).as_py():
            return pa.bool_()
        trimmed = digits(known)
        if pc.all(pc.match_substring_regex(trimmed, r"^-?[0-9]+$")).as_py():
            kinds = [
                pa.int64(),
                pa.uint64(),
            ]  # more digits are kept as text: a float would lose some
        else:
            kinds = [pa.float64()]
        for kind in kinds:
            try:
                trimmed.cast(kind)
            except pa.ArrowInvalid:
                continue
            return kind if not column.null_count else pa.float64()
        return pa.large_string()

    def _prepare(self, part: Part) -> Any:
        names = self._names_of(part)
        features = self.all_features
        if names is None or features is None:
            return None
        missing = [name for name in features if name not in names]
        extra = [name for name in names if name not in features] if self._given is None else []
        if missing or extra:
            what = f"has no column {missing[0]!r}" if missing else f"has a column {extra[0]!r} more"
            raise InputError(
                f"The file {what}.",
                where=part.file.name,
                hint=f"It has: {', '.join(names)}. All files of a split need the same columns.",
                facts={"file": part.file.name, "columns": names},
            )
        return names

    def _parse(self, part: Part, block: Block, at: int, schema: Any) -> pa.Table:
        features = self.all_features
        import pyarrow as pa

        if features is None or schema is None:
            return pa.table({})
        if self._given is not None:
            from provender.data.features import cast_table

            return cast_table(self._given_types(part, block, schema), self._given)
        wanted = features.arrow_schema
        types = {field.name: field.type for field in wanted}
        try:
            return self._plain(part, block, schema, types).cast(wanted)
        except InputError as error:
            if "conversion error" not in error.message:
                raise
        # pyarrow is stricter than pandas: signs and blanks around numbers are looked past here.
        table = self._plain(part, block, schema)
        columns = [self._converted(part, block, table[f.name], f.type, f.name, at) for f in wanted]
        return pa.table(columns, schema=wanted)

    def _converted(
        self,
        part: Part,
        block: Block,
        column: pa.ChunkedArray,
        kind: pa.DataType,
        name: str,
        at: int,
    ) -> pa.ChunkedArray:
        import pyarrow as pa
        import pyarrow.compute as pc

        from provender.data.errors import FeatureTypeError

        if pa.types.is_large_string(kind):
            return column.cast(kind)
        if pa.types.is_boolean(kind):
            truth = pa.chunked_array(
                [pc.is_in(chunk, pa.array(list(TRUE))) for chunk in column.chunks]
            )
            known = pc.is_in(column, pa.array([*TRUE, *FALSE]))
            wrong = pc.invert(pc.or_kleene(known, pc.is_null(column)))
            if not pc.any(wrong).as_py():
                return pc.if_else(pc.is_null(column), pa.scalar(None, pa.bool_()), truth)
        else:
            try:
                return digits(column).cast(kind)
            except pa.ArrowInvalid:
                wrong = None
        for number, value in enumerate(column.to_pylist()):
            if value is not None and not fits(value, kind):
                raise FeatureTypeError(
                    f"Row {at + number} has {value!r} in the column {name!r}, "
                    f"which is {kind} by the first rows.",
                    where=f"at or after {self.place(part, block.byte)}",
                    hint='Say what the columns are (features=...), or pass on_error="skip".',
                    facts={"file": part.file.name, "column": name, "row": at + number},
                )
        raise FeatureTypeError(f"The column {name!r} is not {kind}.", where=part.file.name)

    def _given_types(self, part: Part, block: Block, names: Sequence[str]) -> pa.Table:
        """The table as read with the given types where CSV can hold them, else as text."""
        import pyarrow as pa

        assert self._given is not None
        types = {}
        for field in self._given.arrow_schema:
            simple = pa.types.is_primitive(field.type) and "ClassLabel" not in repr(
                self._given[field.name]
            )
            types[field.name] = field.type if simple else pa.string()
        table = self._plain(part, block, names, types).select(list(types))
        for number, field in enumerate(table.schema):
            if "ClassLabel" in repr(self._given[field.name]):
                table = table.set_column(number, field.name, numbers_or_names(table[field.name]))
        return table

    def _plain(
        self,
        part: Part,
        block: Block,
        names: Sequence[str] | None,
        types: Mapping[str, pa.DataType] | None = None,
    ) -> pa.Table:
        """Some records as a table, with all columns as text where no types are given."""
        import pyarrow as pa
        import pyarrow.csv as pc

        data = block.data
        if self._errors != "strict":
            data = self.utf8(part, block).encode()
        if not data.strip(b"\r\n"):
            types = types or {}
            columns = {name: pa.array([], types.get(name, pa.string())) for name in names or ()}
            return pa.table(columns)
        convert = pc.ConvertOptions(
            column_types=types or {name: pa.string() for name in names or ()},
            null_values=self._missing,
            strings_can_be_null=names is not None,
            quoted_strings_can_be_null=True,
            true_values=list(TRUE),
            false_values=list(FALSE),
        )
        if names is None:
            convert.column_types = {
                f"f{i}": pa.string() for i in range(data.count(self._sep.encode()) + 1)
            }
        parse = pc.ParseOptions(
            delimiter=self._sep,
            quote_char=self._quote or False,
            double_quote=self._quote is not None,
            escape_char=self._escape or False,
            newlines_in_values=self._quote is not None,
        )
        read = pc.ReadOptions(
            use_threads=False,
            block_size=len(data) + 1,
            column_names=list(names) if names is not None else None,
            autogenerate_column_names=names is None,
        )
        try:
            return pc.read_csv(pa.BufferReader(data), read, parse, convert)
        except pa.ArrowInvalid as error:
            self.utf8(part, block)
            raise self._explained(part, block, error) from error

    def _explained(self, part: Part, block: Block, error: Exception) -> InputError:
        from provender.data.errors import FeatureTypeError

        text = str(error)
        kind = FeatureTypeError if "conversion error" in text else InputError
        hint = "Check the line, its quotes and the separator (sep=...)."
        if kind is FeatureTypeError:
            hint = "Say what the columns are: features=Features({...})."
        return kind(
            f"The file cannot be read as CSV: {text}",
            where=f"at or after {self.place(part, block.byte)}",
            hint=hint + ' on_error="skip" passes the line over.',
            facts={"file": part.file.name, "byte": block.byte},
        )
