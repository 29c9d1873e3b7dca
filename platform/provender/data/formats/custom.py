"""A user's own function of batches."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar

import pyarrow as pa

from provender.data.errors import FormatError
from provender.data.features import Features
from provender.data.formats.python import PythonFormatter


class CustomFormatter(PythonFormatter):
    """What a function makes of batches of Python objects.

    Args:
        transform: from a dict of lists to a dict of lists.
    """

    name: ClassVar[str] = "custom"

    def __init__(
        self,
        columns: Sequence[str] | None = None,
        features: Features | None = None,
        *,
        transform: Callable[[dict[str, Any]], Mapping[str, Any]],
        **kwargs: Any,
    ) -> None:
        super().__init__(columns, features, **kwargs)
        self.transform = transform

    def batch(self, table: pa.Table) -> Any:
        chosen = table.select(self.chosen(table))
        made = self.transform(PythonFormatter(None, self.features).batch(chosen))
        if self.output_all_columns and isinstance(made, Mapping):
            rest = [each for each in table.column_names if each not in made]
            made = {**made, **PythonFormatter(None, self.features).batch(table.select(rest))}
        return made

    def row(self, table: pa.Table, index: int = 0) -> dict[str, Any]:
        made = self.batch(table.slice(index, 1))
        if not isinstance(made, Mapping):
            raise FormatError(
                f"A transform returns a dict of columns, not {type(made).__name__}.",
                hint="Return {'column': [value, ...]} with a value for each row of the batch.",
            )
        return {name: values[0] for name, values in made.items()}

    def column(self, table: pa.Table, name: str) -> Any:
        made = self.batch(table)
        if not isinstance(made, Mapping) or name not in made:
            raise FormatError(
                f"The transform did not return the column {name!r}.", where="with_transform"
            )
        return made[name]

    def rows(self, table: pa.Table) -> Any:
        for index in range(table.num_rows):
            yield self.row(table, index)
