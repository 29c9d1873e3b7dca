"""Examples without a features.json: columns found from records, and read as features say."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from provender.errors import InputError, ProvenderError
from provender.training.wire import parse_example

if TYPE_CHECKING:
    import numpy as np
    import pyarrow as pa

    from provender.data.features import Features


def features_of(payloads: Sequence[bytes], where: str) -> Features:
    """The columns of some records.

    Bytes that are UTF-8 in all of the records are text. A column that has exactly one value in
    each of them is a scalar, any other a list.

    Raises:
        InputError: there is no record, or a column holds values of two kinds.
    """
    from provender.data.features import Features, List, Value

    if not payloads:
        raise InputError(
            "There is no record to find the columns from.",
            where=where,
            hint="Say what the columns are: features=Features({...}).",
        )
    rows = [parse_example(each) for each in payloads]
    names = sorted({name for row in rows for name in row})
    found: dict[str, Any] = {}
    for name in names:
        values = [value for row in rows for value in row.get(name, [])]
        kinds = {type(value) for value in values}
        if len(kinds) > 1:
            raise InputError(
                f"The column {name!r} holds values of two kinds.",
                where=where,
                hint="Say what the columns are: features=Features({...}).",
            )
        scalar = all(len(row.get(name, [])) == 1 for row in rows)
        kind = Value(_type_name(values))
        found[name] = kind if scalar else List(kind)
    return Features(found)


def _type_name(values: Sequence[Any]) -> str:
    if not values:
        return "null"
    if isinstance(values[0], int):
        return "int64"
    if isinstance(values[0], float):
        return "float32"
    try:
        for value in values:
            value.decode("utf-8")
    except UnicodeDecodeError:
        return "binary"
    return "string"


class PlainReader:
    """Makes tables of records: each feature of an example a column of the same name.

    Args:
        features: the columns. A scalar takes the one value that the example has, or is null.
    """

    def __init__(self, features: Features) -> None:
        self.features = features
        document = _described(features)
        self._fast: Any = None
        if document is not None:
            from provender.data.examples import ExampleReader

            self._fast = ExampleReader(document, {})

    def columns(self, names: Sequence[str]) -> PlainReader:
        """A reader of some of the columns."""
        return PlainReader(type(self.features)({name: self.features[name] for name in names}))

    def table_from_buffer(
        self, data: bytes | memoryview, starts: np.ndarray, lengths: np.ndarray
    ) -> pa.Table:
        """The records that lie at `starts` in `data`."""
        from provender.data.features import cast_table

        if self._fast is not None:
            try:
                table = self._fast.table_from_buffer(data, starts, lengths)
                return cast_table(table.select(list(self.features)), self.features)
            except ProvenderError:
                pass  # a record without some column, or with more of it: looked at one by one
        view = memoryview(data)
        ends = starts + lengths
        payloads = [
            bytes(view[low:high]) for low, high in zip(starts.tolist(), ends.tolist(), strict=True)
        ]
        return self.table(payloads)

    def table(self, records: Sequence[bytes]) -> pa.Table:
        """The rows of some records, one by one.

        Raises:
            DamageError: a record is no example.
            FeatureTypeError: a value does not fit its column.
        """
        from provender.data.features import table_from_rows

        rows = []
        for record in records:
            example = parse_example(record)
            rows.append({name: _value(example.get(name), f) for name, f in self.features.items()})
        return table_from_rows(rows, self.features)


def _described(features: Features) -> dict[str, Any] | None:
    """A features.json for plain columns; None where some column is not plain."""
    found = {}
    for name, feature in features.items():
        inner = getattr(feature, "feature", None) if _is_list(feature) else feature
        stored = (
            _STORED.get(getattr(inner, "dtype", "")) if type(inner).__name__ == "Value" else None
        )
        if stored is None or getattr(feature, "length", -1) not in (-1, None) or "/" in name:
            return None
        one = {
            "pythonClassName": _SCALAR,
            "tensor": {"shape": {}, "dtype": stored, "encoding": "none"},
        }
        if stored == "string":
            one = {"pythonClassName": _TEXT, "text": {}}
        if _is_list(feature):
            one = {"pythonClassName": _SEQUENCE, "sequence": {"feature": one, "length": "-1"}}
        found[name] = one
    return {"pythonClassName": _DICT, "featuresDict": {"features": found}}


_PACKAGE = "tensorflow_datasets.core.features"
_DICT = f"{_PACKAGE}.features_dict.FeaturesDict"
_SCALAR = f"{_PACKAGE}.scalar.Scalar"
_SEQUENCE = f"{_PACKAGE}.sequence_feature.Sequence"
_TEXT = f"{_PACKAGE}.text_feature.Text"
_STORED = {"int64": "int64", "float32": "float32", "string": "string", "large_string": "string"}


def _is_list(kind: Any) -> bool:
    return type(kind).__name__ in ("List", "LargeList", "Sequence") or hasattr(kind, "shape")


def _value(values: Any, feature: Any) -> Any:
    listed = _is_list(feature)
    inner = getattr(feature, "feature", feature) if listed else feature
    values = list(values or ())
    if values and isinstance(values[0], bytes) and "string" in str(getattr(inner, "dtype", "")):
        values = [_text(each) for each in values]
    if listed:
        return values
    if not values:
        return None
    return values[0] if len(values) == 1 else values


def _text(value: bytes) -> str:
    try:
        return value.decode("utf-8")
    except UnicodeDecodeError as error:
        from provender.data.errors import FeatureTypeError

        raise FeatureTypeError(
            f"A value of a text column is not UTF-8: {value[:40]!r}.",
            hint='Say that it is bytes: features=Features({"...": Value("binary")}).',
        ) from error
