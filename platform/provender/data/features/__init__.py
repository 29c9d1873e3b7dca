"""Columns: their kinds, and how Python objects, Arrow and TFDS hold them.

features = Features({"text": Value("string"), "label": ClassLabel(names=["no", "yes"])})
table = table_from_rows([{"text": "a", "label": "yes"}], features)
"""

from __future__ import annotations

from provender.data.features.arrow import feature_of
from provender.data.features.casting import cast_array, cast_column, cast_table
from provender.data.features.compound import (
    Array2D,
    Array3D,
    Array4D,
    Array5D,
    Json,
    Translation,
    TranslationVariableLanguages,
)
from provender.data.features.encoding import decode_nested, decodes, encode_nested, plain
from provender.data.features.features import METADATA, Features, unify
from provender.data.features.media import Audio, Image, Video
from provender.data.features.tables import (
    arrow_array,
    infer_features,
    table_from_batch,
    table_from_rows,
)
from provender.data.features.types import (
    ClassLabel,
    Feature,
    FeatureType,
    LargeList,
    List,
    Sequence,
    Value,
    type_of,
)

__all__ = [
    "METADATA",
    "Array2D",
    "Array3D",
    "Array4D",
    "Array5D",
    "Audio",
    "ClassLabel",
    "Feature",
    "FeatureType",
    "Features",
    "Image",
    "Json",
    "LargeList",
    "List",
    "Sequence",
    "Translation",
    "TranslationVariableLanguages",
    "Value",
    "Video",
    "arrow_array",
    "cast_array",
    "cast_column",
    "cast_table",
    "decode_nested",
    "decodes",
    "encode_nested",
    "feature_of",
    "infer_features",
    "plain",
    "table_from_batch",
    "table_from_rows",
    "type_of",
    "unify",
]
