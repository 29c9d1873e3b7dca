"""What a TFDS feature schema stores, asked without importing TensorFlow."""

from __future__ import annotations

import functools
import weakref
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from provender.errors import BuilderError

_SHOWN = 200

# Checking costs milliseconds, and callers check before they compile. What was found storable stays
# so: the parts of a schema that can be set later (class names) can be set only once.
_storable: weakref.WeakSet[Any] = weakref.WeakSet()


def connectors() -> Any:
    """The module of TFDS's feature connectors."""
    from tensorflow_datasets.core import features

    return features


def check_features(features: Any) -> None:
    """Refuses a schema that tf.Example cannot hold, before any work is done.

    Args:
        features: a ``tfds.features.FeaturesDict`` (or another top-level feature).

    Raises:
        BuilderError: naming the first feature that cannot be stored, e.g. a bfloat16 tensor, a
            ClassLabel without classes, or a tensor with two unknown dimensions and no encoding.
    """
    if features in _storable:
        return
    _try_serialize(features)
    for path, feature in _leaf_features(features, ()):
        try:
            if type(feature) is connectors().ClassLabel:
                feature.encode_example(0)
            elif type(feature) is connectors().Tensor:
                feature.encode_example(_zeros(_given_info(feature)))
        except Exception as error:
            raise _refused("/".join(path), feature, error) from error
    _storable.add(features)


def serializer(info: Any) -> Any:
    """TFDS's own ``ExampleSerializer``, kept from importing TensorFlow.

    Args:
        info: nested dict of ``TensorInfo``.
    """
    from tensorflow_datasets.core import example_serializer

    return example_serializer.ExampleSerializer(_numpy_typed(info))


def _numpy_typed(info: Any) -> Any:
    if isinstance(info, Mapping):
        return {name: _numpy_typed(inner) for name, inner in info.items()}
    return _numpy_info().copy_from(info)


@functools.cache
def _numpy_info() -> Any:
    from tensorflow_datasets.core.features import feature

    class NumpyInfo(feature.TensorInfo):
        """A TensorInfo whose dtype is numpy's.

        TensorFlow's is asked for only to describe the flat values of a ragged field, in a new
        TensorInfo, which takes either.
        """

        @property
        def dtype(self) -> Any:
            return self.np_dtype

    return NumpyInfo


def same_dtype(given: Any, stored: Any) -> bool:
    """Whether two ``TensorInfo`` have one dtype; by numpy's types, as TF's would import TF."""
    return bool(np.dtype(given.np_dtype) == np.dtype(stored.np_dtype))


def _leaf_features(feature: Any, path: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], Any]]:
    """The connectors that hold values, with the keys that lead to them, through plain dicts."""
    if isinstance(feature, connectors().FeaturesDict):
        for name, inner in feature.items():
            yield from _leaf_features(inner, (*path, name))
    else:
        yield path, feature


def _try_serialize(features: Any) -> None:
    try:
        info = features.get_serialized_info()
        serializer(info).get_tf_example(_zeros(info))
    except Exception as error:
        for name, feature in features.items() if hasattr(features, "items") else ():
            try:
                part = {name: feature.get_serialized_info()}
                serializer(part).get_tf_example(_zeros(part))
            except Exception as inner:
                raise _refused(name, feature, inner) from inner
        raise _refused("", features, error) from error


def _given_info(feature: Any) -> Any:
    """What a Tensor feature wants to be given: it may be stored as another dtype, or as bytes."""
    stored = feature.get_serialized_info()
    if isinstance(stored, Mapping) or np.dtype(stored.np_dtype).kind == "O":
        return feature.get_tensor_info()
    return stored


def _zeros(info: Any) -> Any:
    """A dummy value for a (nested) serialized TensorInfo."""
    if isinstance(info, Mapping):
        return {name: _zeros(inner) for name, inner in info.items()}
    shape = [1 if size is None else size for size in info.shape]
    if np.dtype(info.np_dtype).kind == "O":
        return np.full(shape, b"", dtype=object)
    return np.zeros(shape, dtype=info.np_dtype)


def _refused(name: str, feature: Any, error: BaseException) -> BuilderError:
    lines = (str(error).strip() or type(error).__name__).splitlines()
    try:
        shown = repr(feature)
    except Exception:  # noqa: BLE001 - what cannot be stored may not be describable either
        shown = type(feature).__name__
    return BuilderError(
        f"Feature {name!r} cannot be stored in tf.Example: {lines[0]}",
        where=f"feature {name!r}: {shown}"[:_SHOWN],
        hint="change its dtype or encoding (tf.Example holds bytes, float32 and int64)",
        facts={"feature": name, "error": str(error)},
    )
