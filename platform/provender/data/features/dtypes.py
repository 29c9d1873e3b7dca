"""Names of scalar types ("int64", "timestamp[us, tz=UTC]", ...) and their Arrow types.

The spelling is that of Hugging Face Datasets, which is Arrow's but for a few names.
"""

from __future__ import annotations

import difflib
import functools
import re

import pyarrow as pa

from provender.data.errors import FeatureTypeError

_PLAIN: dict[str, pa.DataType] = {
    "null": pa.null(),
    "bool": pa.bool_(),
    "int8": pa.int8(),
    "int16": pa.int16(),
    "int32": pa.int32(),
    "int64": pa.int64(),
    "uint8": pa.uint8(),
    "uint16": pa.uint16(),
    "uint32": pa.uint32(),
    "uint64": pa.uint64(),
    "float16": pa.float16(),
    "float32": pa.float32(),
    "float64": pa.float64(),
    "date32": pa.date32(),
    "date64": pa.date64(),
    "binary": pa.binary(),
    "large_binary": pa.large_binary(),
    "binary_view": pa.binary_view(),
    "string": pa.string(),
    "large_string": pa.large_string(),
    "string_view": pa.string_view(),
}
ALIASES = {
    "float": "float32",
    "double": "float64",
    "half": "float16",
    "halffloat": "float16",
    "str": "string",
    "utf8": "string",
    "large_utf8": "large_string",
    "bytes": "binary",
    "bool_": "bool",
}
_NAMES = {each: name for name, each in _PLAIN.items()}
_UNITS = "s|ms|us|ns"
_PATTERNS = (
    (rf"timestamp\[({_UNITS})\]", lambda unit: pa.timestamp(unit)),
    (
        rf"timestamp\[({_UNITS}),\s*tz=([A-Za-z0-9/_+\-:]+)\]",
        lambda unit, zone: pa.timestamp(unit, zone),
    ),
    (rf"duration\[({_UNITS})\]", lambda unit: pa.duration(unit)),
    (r"time32\[(s|ms)\]", lambda unit: pa.time32(unit)),
    (r"time64\[(us|ns)\]", lambda unit: pa.time64(unit)),
    (r"decimal128\((\d+),\s*(-?\d+)\)", lambda p, s: pa.decimal128(int(p), int(s))),
    (r"decimal256\((\d+),\s*(-?\d+)\)", lambda p, s: pa.decimal256(int(p), int(s))),
    (r"fixed_size_binary\[(\d+)\]", lambda width: pa.binary(int(width))),
)


@functools.lru_cache(maxsize=512)
def arrow_type(dtype: str) -> pa.DataType:
    """The Arrow type of a name.

    Raises:
        FeatureTypeError: no type has that name.
    """
    name = ALIASES.get(dtype, dtype)
    if name in _PLAIN:
        return _PLAIN[name]
    for pattern, make in _PATTERNS:
        if found := re.fullmatch(pattern, name):
            return make(*found.groups())
    near = difflib.get_close_matches(str(dtype), [*_PLAIN, *ALIASES], 3, 0.5)
    raise FeatureTypeError(
        f"There is no type {dtype!r}.",
        hint=(f"Did you mean {' or '.join(near)}? " if near else "")
        + "Others: timestamp[us], timestamp[us, tz=UTC], duration[s], time32[s], time64[us], "
        "date32, decimal128(10, 2), fixed_size_binary[16].",
        facts={"dtype": str(dtype), "near": near},
    )


def dtype_name(kind: pa.DataType) -> str:
    """The name of a scalar Arrow type; of a dictionary the name of its values.

    Raises:
        FeatureTypeError: the type is nested, or one that columns cannot have.
    """
    if kind in _NAMES:
        return _NAMES[kind]
    types = pa.types
    if types.is_dictionary(kind):
        return dtype_name(kind.value_type)
    if types.is_timestamp(kind):
        return (
            f"timestamp[{kind.unit}]"
            if kind.tz is None
            else f"timestamp[{kind.unit}, tz={kind.tz}]"
        )
    if types.is_duration(kind):
        return f"duration[{kind.unit}]"
    if types.is_time(kind):
        return f"time{kind.bit_width}[{kind.unit}]"
    if types.is_decimal128(kind) or types.is_decimal256(kind):
        return f"decimal{kind.bit_width}({kind.precision}, {kind.scale})"
    if types.is_fixed_size_binary(kind):
        return f"fixed_size_binary[{kind.byte_width}]"
    raise FeatureTypeError(
        f"Columns of Arrow type {kind} are not supported.", facts={"type": str(kind)}
    )
