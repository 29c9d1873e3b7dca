"""Image features that encode arrays with `png` instead of TensorFlow."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import numpy as np

from provender.records import png
from provender.records.leaves import shape_fits
from provender.records.schema import connectors


def without_tensorflow(features: Any) -> Any:
    """The schema with every Image in it, through dicts and sequences, encoding its own arrays.

    Args:
        features: any feature connector; it is left as it is.

    Returns:
        An equal connector. Its images store the same bytes and refuse the same values: whatever
        is no array of the declared shape and dtype, and what `png` does not cover, goes to the
        original's ``encode_example``. Without anything to replace, ``features`` itself.
    """
    tfds = connectors()
    kind = type(features)
    if kind in (tfds.Image, tfds.LabeledImage):
        return _image(features)
    if kind is tfds.FeaturesDict:
        inner = {name: without_tensorflow(each) for name, each in features.items()}
        changed = any(inner[name] is not each for name, each in features.items())
        return tfds.FeaturesDict(inner, doc=features.doc) if changed else features
    if kind is tfds.Sequence:
        element = without_tensorflow(features.feature)
        if element is not features.feature:
            return tfds.Sequence(element, length=features._length, doc=features.doc)
    return features


def _image(feature: Any) -> Any:
    if feature.encoding_format not in (None, "png"):
        return feature
    made = copy.copy(feature)
    made.encode_example = _encoder(feature)
    return made


def _encoder(feature: Any) -> Callable[[Any], Any]:
    original = feature.encode_example
    dtype = np.dtype(feature.np_dtype)
    info = feature.get_tensor_info()

    def encode(value: Any) -> Any:
        if (
            value.__class__ is np.ndarray
            and value.dtype == dtype
            and shape_fits(value.shape, info.shape)
        ):
            # TFDS stores a float32 image as one of its bytes, in four channels.
            pixels = value.view(np.uint8) if dtype == np.float32 else value
            if png.covers(pixels) and png.available():
                return png.encode(pixels)
        return original(value)

    return encode
