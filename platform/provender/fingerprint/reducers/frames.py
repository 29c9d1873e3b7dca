"""Reducers for pandas, pyarrow, polars and Hugging Face datasets: tables by their values."""

from __future__ import annotations

from typing import Any

from provender.fingerprint.registry import ship


@ship("pandas.DataFrame", "pandas.core.frame.DataFrame")
def frame(obj: Any) -> object:
    """Column labels in order, each column, and the index."""
    columns = [values(obj.iloc[:, at]) for at in range(obj.shape[1])]
    return [index(obj.columns), columns, index(obj.index), dict(obj.attrs)]


@ship("pandas.Series", "pandas.core.series.Series")
def series(obj: Any) -> object:
    """Name, values and index."""
    return [obj.name, values(obj), index(obj.index), dict(obj.attrs)]


@ship("pandas.Index", "pandas.core.indexes.base.Index")
def index(obj: Any) -> object:
    """Names and values; a range by its numbers, several levels one by one."""
    if type(obj).__name__ == "RangeIndex":
        return ["range", obj.name, range(obj.start, obj.stop, obj.step)]
    if obj.nlevels > 1:
        levels = [values(obj.get_level_values(at)) for at in range(obj.nlevels)]
        return ["levels", list(obj.names), levels]
    return ["index", obj.name, str(getattr(obj, "freq", None)), values(obj)]


@ship("pandas.api.extensions.ExtensionArray", "pandas.core.arrays.base.ExtensionArray")
def values(obj: Any) -> object:
    """dtype and values; missing ones are all alike within a dtype."""
    import numpy as np

    dtype = str(obj.dtype)
    if dtype == "category":
        inner = obj.cat if hasattr(obj, "cat") else obj
        return [dtype, values(inner.categories), inner.ordered, np.asarray(inner.codes)]
    if isinstance(obj.dtype, np.dtype):
        plain = np.asarray(obj)
        if not plain.dtype.hasobject:
            return [dtype, plain]
        return [dtype, [_cell(item) for item in plain.tolist()]]
    return [dtype, [_cell(item) for item in np.asarray(obj, dtype=object).tolist()]]


def _cell(item: Any) -> object:
    if item is None or isinstance(item, (str, bytes, int)):
        return item
    if type(item).__name__ in ("NAType", "NaTType") or (item is item and item != item):
        return ("missing", type(item).__name__)
    return item


@ship("pandas.Timestamp", "pandas._libs.tslibs.timestamps.Timestamp")
def timestamp(obj: Any) -> object:
    """Nanoseconds, unit and time zone."""
    return ["timestamp", obj.value, obj.unit, str(obj.tz)]


@ship("pandas.Timedelta", "pandas._libs.tslibs.timedeltas.Timedelta")
def timedelta(obj: Any) -> object:
    """Nanoseconds and unit."""
    return ["timedelta", obj.value, obj.unit]


@ship(
    "pandas.api.typing.NaTType",
    "pandas._libs.tslibs.nattype.NaTType",
    "pandas.api.typing.NAType",
    "pandas._libs.missing.NAType",
)
def missing(obj: Any) -> object:
    """One of each."""
    return type(obj).__name__


@ship("pandas.api.extensions.ExtensionDtype", "pandas.core.dtypes.base.ExtensionDtype")
def extension_dtype(obj: Any) -> object:
    """Its text, and the categories where it has some."""
    categories = getattr(obj, "categories", None)
    if categories is None:
        return str(obj)
    return [str(obj), values(categories), obj.ordered]


@ship("pyarrow.lib.Table")
def table(obj: Any) -> object:
    """Schema and values; chunks, offsets of slices and spare buffer bytes do not count."""
    return [schema(obj.schema), [column(obj.column(at)) for at in range(obj.num_columns)]]


@ship("pyarrow.lib.RecordBatch")
def batch(obj: Any) -> object:
    """As `table`."""
    return [schema(obj.schema), [column(obj.column(at)) for at in range(obj.num_columns)]]


@ship("pyarrow.lib.Array", "pyarrow.lib.ChunkedArray")
def column(obj: Any) -> object:
    """Type and values, as the bytes of one Arrow IPC record batch.

    Writing IPC cuts slices to size (https://arrow.apache.org/docs/format/Columnar.html), and
    taking all rows first makes fresh buffers, so that equal columns give equal bytes.
    """
    import pyarrow as pa

    whole = obj.combine_chunks() if isinstance(obj, pa.ChunkedArray) else obj
    if isinstance(whole, pa.ChunkedArray):  # older releases, when there is no chunk at all
        whole = pa.concat_arrays(whole.chunks) if whole.num_chunks else pa.array([], whole.type)
    if isinstance(whole, pa.DictionaryArray):
        return [str(whole.type), column(whole.dictionary_decode())]
    if whole.null_count or whole.offset or pa.types.is_nested(whole.type):
        whole = whole.take(pa.array(range(len(whole)), pa.int64()))
    one = pa.RecordBatch.from_arrays([whole], ["c"])
    return [str(whole.type), len(whole), one.serialize().to_pybytes()]


@ship("pyarrow.lib.Scalar")
def scalar(obj: Any) -> object:
    """Type and value."""
    return [str(obj.type), obj.as_py()]


@ship("pyarrow.lib.Schema")
def schema(obj: Any) -> object:
    """Fields and metadata."""
    return [[field(obj.field(at)) for at in range(len(obj))], dict(obj.metadata or {})]


@ship("pyarrow.lib.Field")
def field(obj: Any) -> object:
    """Name, type, nullability and metadata."""
    return [obj.name, str(obj.type), obj.nullable, dict(obj.metadata or {})]


@ship("pyarrow.lib.DataType")
def data_type(obj: Any) -> object:
    """Its text, which names all parameters."""
    return str(obj)


@ship("polars.dataframe.frame.DataFrame", "polars.series.series.Series")
def polars(obj: Any) -> object:
    """Through Arrow."""
    return obj.to_arrow()


@ship("datasets.arrow_dataset.Dataset")
def hf_dataset(obj: Any) -> object:
    """Rows as selected, and the output format."""
    rows = obj.with_format("arrow")[:]
    return [rows, str(obj.format["type"]), list(obj.format["columns"])]
