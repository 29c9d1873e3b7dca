"""Python objects as Arrow takes them: tensors, images, pandas objects; then as a feature wants."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import Any

import numpy as np
import pyarrow as pa

from provender.data.features.media import Image, encode_image
from provender.data.features.types import Feature, FeatureType, LargeList, List

_SIMPLE = (str, bytes, int, float, bool, type(None))


def plain(value: Any) -> Any:
    """A value without tensors, images, series and other objects that Arrow does not know.

    Tensors become numpy arrays, arrays of several dimensions stay arrays, 0-d ones scalars.
    """
    if isinstance(value, _SIMPLE):
        return value
    if isinstance(value, np.ndarray):
        if value.ndim == 0:
            return plain(value[()])
        if value.dtype == object:
            return [plain(each) for each in value]
        return value
    if isinstance(value, np.datetime64 | np.timedelta64):
        return pa.array(np.array([value]))[0]
    if isinstance(value, np.generic):
        return value
    if isinstance(value, Mapping):
        return {key: plain(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [plain(each) for each in value]
    if is_image(value):
        return encode_image(value)
    pandas = sys.modules.get("pandas")
    if pandas is not None:
        if isinstance(value, pandas.Series):
            return [plain(each) for each in value.tolist()]
        if isinstance(value, pandas.DataFrame):
            return {name: plain(value[name]) for name in value.columns}
        if value is pandas.NA or value is pandas.NaT:
            return None
    if (array := as_array(value)) is not None:
        return plain(array)
    return value


def as_array(value: Any) -> np.ndarray | None:
    """The numpy array of a tensor (TensorFlow, torch, jax, ...), or None for other objects."""
    torch = sys.modules.get("torch")
    if torch is not None and isinstance(value, torch.Tensor):
        value = value.detach().cpu()
        if value.dtype == torch.bfloat16:
            value = value.float()
        return np.asarray(value.numpy())
    if isinstance(value, np.ndarray):
        return value
    if hasattr(value, "__array__") and not isinstance(value, np.generic) and not is_image(value):
        array = np.asarray(value)
        if array.dtype.kind == "V":
            # bfloat16 and the float8 types are numpy extensions that Arrow does not know.
            array = array.astype(np.float32)
        return array
    return None


def is_image(value: Any) -> bool:
    """Whether it is a Pillow image; Pillow is not imported to find out."""
    pillow = sys.modules.get("PIL.Image")
    return pillow is not None and isinstance(value, pillow.Image)


def special_feature(value: Any) -> FeatureType | None:
    """The feature of a value whose kind Arrow cannot tell (an image, or a list or dict of some)."""
    if isinstance(value, _SIMPLE):
        return None
    if is_image(value):
        return Image()
    if isinstance(value, list | tuple):
        first = next((each for each in value if each is not None), None)
        inner = special_feature(first)
        return None if inner is None else List(inner)
    return None


def encodes(feature: FeatureType) -> bool:
    """Whether values must go through `encode_nested` before Arrow takes them."""
    if isinstance(feature, Mapping):
        return any(encodes(each) for each in feature.values())
    if isinstance(feature, List | LargeList):
        return encodes(feature.feature)
    return bool(feature.encodes)


def encode_nested(feature: FeatureType, value: Any) -> Any:
    """A value as its feature stores it, however deep.

    Raises:
        FeatureTypeError: it cannot be stored.
    """
    if value is None:
        return None
    if isinstance(feature, Mapping):
        return {name: encode_nested(each, value.get(name)) for name, each in feature.items()}
    if isinstance(feature, List | LargeList):
        inner = feature.feature
        return [encode_nested(inner, each) for each in value]
    if isinstance(feature, Feature):
        if isinstance(value, np.generic):
            value = value.item()
        return feature.encode_example(value)
    return value


def decodes(feature: FeatureType) -> bool:
    """Whether reading does more than making Python objects."""
    if isinstance(feature, Mapping):
        return any(decodes(each) for each in feature.values())
    if isinstance(feature, List | LargeList):
        return decodes(feature.feature)
    return bool(feature.is_decoded)


def decode_nested(feature: FeatureType, value: Any) -> Any:
    """A stored value as people read it, however deep."""
    if value is None:
        return None
    if isinstance(feature, Mapping):
        return {
            name: decode_nested(each, value[name]) if name in value else None
            for name, each in feature.items()
        }
    if isinstance(feature, List | LargeList):
        inner = feature.feature
        return [decode_nested(inner, each) for each in value] if decodes(inner) else list(value)
    return feature.decode_example(value) if feature.is_decoded else value
