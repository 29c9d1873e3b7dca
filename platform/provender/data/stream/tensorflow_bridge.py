"""Streams as ``tf.data``."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from provender.data.errors import unknown_column
from provender.errors import SettingsError

if TYPE_CHECKING:
    import numpy as np

    from provender.data.features import Features


def tf_dataset(
    stream: Any,
    batch_size: int | None,
    columns: str | list[str] | None,
    label_cols: str | list[str] | None,
    drop_remainder: bool,
    prefetch: bool,
    position: str | None,
) -> Any:
    """See `IterableDataset.to_tf_dataset`."""
    import tensorflow as tf

    features = stream.features
    if features is None:
        raise SettingsError(
            "The columns of this stream cannot be found out.",
            where="to_tf_dataset",
            hint="Give map its features=, or make sure that there are rows.",
        )
    names = [columns] if isinstance(columns, str) else list(columns or features)
    labels = [label_cols] if isinstance(label_cols, str) else list(label_cols or ())
    for name in [*names, *labels]:
        if name not in features:
            raise unknown_column(name, features, "to_tf_dataset")
    if position is not None and position in features:
        raise SettingsError(
            f"position={position!r} is the name of a column.",
            where="to_tf_dataset",
            hint="Take another.",
        )
    wanted = list(dict.fromkeys([*names, *labels]))
    signature = {
        name: _spec(
            tf, name, features, batch_size is not None, batch_size if drop_remainder else None
        )
        for name in wanted
    }
    if position is not None:
        signature[position] = tf.TensorSpec((), tf.string)
    numpy = stream.with_format("numpy")

    def rows() -> Iterator[Mapping[str, Any]]:
        source = (
            numpy if batch_size is None else numpy.iter(batch_size, drop_last_batch=drop_remainder)
        )
        for row in source:
            made = {name: _value(signature[name], row[name]) for name in wanted}
            if position is not None:
                made[position] = json.dumps(numpy.state_dict())
            yield made

    numpy._pending, stream._pending = stream._pending, None
    made = tf.data.Dataset.from_generator(rows, output_signature=signature)
    rows_known = numpy._plan.rows()
    if rows_known is not None and numpy._pending is None:
        made = made.apply(
            tf.data.experimental.assert_cardinality(_count(rows_known, batch_size, drop_remainder))
        )
    if labels:
        made = made.map(lambda row: _pair(row, names, labels, position))
    return made.prefetch(tf.data.AUTOTUNE) if prefetch else made


def _pair(row: Any, names: list[str], labels: list[str], position: str | None) -> Any:
    inputs = {name: row[name] for name in names if name not in labels}
    if position is not None:
        inputs[position] = row[position]
    targets = {name: row[name] for name in labels}
    return (
        inputs if len(inputs) > 1 or position is not None else next(iter(inputs.values())),
        targets if len(targets) > 1 else next(iter(targets.values())),
    )


def _count(rows: int, batch_size: int | None, drop: bool) -> int:
    if batch_size is None:
        return rows
    return rows // batch_size if drop else -(-rows // batch_size)


def _spec(tf: Any, name: str, features: Features, batched: bool, size: int | None) -> Any:
    import pyarrow as pa

    kind = features.arrow_schema.field(name).type
    inner, depth = kind, 0
    while (
        pa.types.is_list(inner)
        or pa.types.is_large_list(inner)
        or pa.types.is_fixed_size_list(inner)
    ):
        inner, depth = inner.value_type, depth + 1
    if pa.types.is_struct(inner) or isinstance(inner, pa.BaseExtensionType):
        raise SettingsError(
            f"The column {name!r} ({kind}) has no tensor type here.",
            where="to_tf_dataset",
            hint="Leave it out with columns=[...], or map it to numbers, texts or lists of them.",
        )
    text = pa.types.is_string(inner) or pa.types.is_large_string(inner) or pa.types.is_binary(inner)
    dtype = tf.string if text else tf.as_dtype(_numpy_dtype(inner))
    first = (size,) if batched else ()
    return tf.TensorSpec((*first, *([None] * depth)), dtype)


def _numpy_dtype(kind: Any) -> np.dtype:
    import numpy as np
    import pyarrow as pa

    # What the numpy format gives: whole numbers int64, fractions float32.
    if pa.types.is_boolean(kind):
        return np.dtype(bool)
    return np.dtype(np.int64) if pa.types.is_integer(kind) else np.dtype(np.float32)


def _value(spec: Any, value: Any) -> Any:
    import numpy as np

    if spec.dtype.name == "string":
        return value
    if isinstance(value, np.ndarray) and value.dtype == object:
        lengths = {len(each) for each in value}
        if len(lengths) > 1:
            raise SettingsError(
                "Lists of different lengths cannot be one tensor.",
                where="to_tf_dataset",
                hint="Pad them in map, or use batch_size=None.",
            )
        return np.stack([np.asarray(each) for each in value]).astype(spec.dtype.as_numpy_dtype)
    return np.asarray(value, dtype=spec.dtype.as_numpy_dtype)
