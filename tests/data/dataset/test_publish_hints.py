"""What is said about a column with rows that have no value, which a version cannot have."""

from __future__ import annotations

from typing import Any

import pytest

from provender.data import ClassLabel, Dataset, Features, List, Value
from provender.data.errors import FeatureTypeError
from provender.data.publishing.checks import check_columns

FILLINGS = {
    "int": (Value("int64"), 1, "0"),
    "float": (Value("float32"), 0.5, "0.0"),
    "bool": (Value("bool"), True, "False"),
    "text": (Value("string"), "a", '""'),
    "bytes": (Value("binary"), b"a", 'b""'),
    "list": (List(Value("int64")), [1], "[]"),
    "class": (ClassLabel(names=["a", "b"]), 1, None),
}


@pytest.mark.parametrize("kind", FILLINGS)
def test_a_filling_of_the_columns_type(kind: str) -> None:
    feature, value, filling = FILLINGS[kind]
    features = Features({"c": feature})
    ds = Dataset.from_dict({"c": [value] * 1500 + [None]}, features=features)
    with pytest.raises(FeatureTypeError, match=r"no value in row 1500 of") as caught:
        check_columns({"train": ds})
    hint = str(caught.value.hint)
    if filling is None:
        assert "fill" not in hint
        return
    text = f"lambda row: {{'c': {filling} if row['c'] is None else row['c']}}"
    assert text in hint
    filled: Any = ds.map(eval(text))
    assert filled.features == features
    check_columns({"train": filled})
