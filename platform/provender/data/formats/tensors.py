"""Tensors of TensorFlow, torch and jax."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
import pyarrow as pa

from provender.data.features import FeatureType, Image, List, decodes
from provender.data.formats.arrays import raw_array
from provender.data.formats.base import Formatter


class _TensorFormatter(Formatter):
    """Columns as tensors; what has no one shape stays a list of tensors."""

    _keeps_type = False

    def convert(self, column: pa.ChunkedArray, feature: FeatureType) -> Any:
        # Images stay uint8: widening them would take eight times the memory.
        self._keeps_type = decodes(feature)
        return self._made(self._images_first(raw_array(column, feature), feature))

    def _images_first(self, raw: np.ndarray, feature: FeatureType) -> np.ndarray:
        return raw

    def _made(self, raw: Any) -> Any:
        if isinstance(raw, dict):
            return {name: self._made(each) for name, each in raw.items()}
        if isinstance(raw, list):
            return self._together([self._made(each) for each in raw])
        if isinstance(raw, np.ndarray) and raw.dtype == object:
            if raw.ndim and all(isinstance(each, str | bytes) for each in raw.reshape(-1)):
                return self._texts(raw)
            return self._together([self._made(each) for each in raw])
        if isinstance(raw, np.ndarray | np.generic | bool | int | float):
            array = np.asarray(raw)
            return self._tensor(array) if array.dtype.kind in "biuf" else self._other(raw)
        if isinstance(raw, str | bytes):
            return self._text(raw)
        return raw

    def _tensor(self, array: np.ndarray) -> Any:
        raise NotImplementedError

    def _texts(self, raw: np.ndarray) -> Any:
        return raw.tolist()

    def _text(self, raw: str | bytes) -> Any:
        return raw

    def _other(self, raw: Any) -> Any:
        return raw.tolist() if isinstance(raw, np.ndarray) else raw

    def _together(self, values: list[Any]) -> Any:
        return values


class TorchFormatter(_TensorFormatter):
    """Torch tensors, images as (C, H, W); texts stay Python objects."""

    name: ClassVar[str] = "torch"

    def _images_first(self, raw: np.ndarray, feature: FeatureType) -> np.ndarray:
        depth = _images_at(feature)
        return raw if depth is None else _channels_first(raw, depth)

    def _tensor(self, array: np.ndarray) -> Any:
        import torch

        options = dict(self.kwargs)
        if "dtype" not in options and not self._keeps_type:
            if array.dtype.kind in "iu":
                options["dtype"] = torch.int64
            elif array.dtype.kind == "f":
                options["dtype"] = torch.float32
        if array.dtype in (np.uint16, np.uint32):
            array = array.astype(np.int64)
        elif array.dtype == np.uint64:
            if array.size and array.max() > np.iinfo(np.int64).max:
                from provender.data.errors import FeatureTypeError

                raise FeatureTypeError(
                    f"{int(array.max())} does not fit torch's int64.",
                    hint="Leave the column out of the format, or cast it to float64.",
                )
            array = array.astype(np.int64)
        # A copy: Arrow's memory is read-only, and torch warns of tensors over such memory.
        return torch.tensor(array, **options)

    def _together(self, values: list[Any]) -> Any:
        import torch

        first = values[0] if values else None
        if isinstance(first, torch.Tensor) and all(
            isinstance(each, torch.Tensor)
            and each.shape == first.shape
            and each.dtype == first.dtype
            for each in values
        ):
            return torch.stack(values)
        return values


class TensorFlowFormatter(_TensorFormatter):
    """TensorFlow tensors; lists of several lengths are ragged tensors."""

    name: ClassVar[str] = "tensorflow"

    def _tensor(self, array: np.ndarray) -> Any:
        import tensorflow as tf

        options = dict(self.kwargs)
        if "dtype" not in options and not self._keeps_type:
            if array.dtype.kind in "iu":
                array = array.astype(np.int64, copy=False)
            elif array.dtype.kind == "f":
                array = array.astype(np.float32, copy=False)
        elif "dtype" in options:
            array = array.astype(tf.as_dtype(options["dtype"]).as_numpy_dtype, copy=False)
        return tf.convert_to_tensor(array, **options)

    def _texts(self, raw: np.ndarray) -> Any:
        import tensorflow as tf

        return tf.constant(raw.tolist(), tf.string, raw.shape)

    def _text(self, raw: str | bytes) -> Any:
        import tensorflow as tf

        return tf.constant(raw, tf.string)

    def _together(self, values: list[Any]) -> Any:
        import tensorflow as tf

        first = values[0] if values else None
        tensors = (tf.Tensor, tf.RaggedTensor)
        if not isinstance(first, tensors):
            return values
        if any(not isinstance(each, tensors) or each.dtype != first.dtype for each in values):
            return values
        if all(isinstance(each, tf.Tensor) and each.shape == first.shape for each in values):
            return tf.stack(values)
        if all(len(each.shape) == 1 for each in values):
            return tf.ragged.stack(values)
        return values


class JaxFormatter(_TensorFormatter):
    """Jax arrays; texts stay Python objects.

    Whole numbers and fractions take jax's own default width (32 bits unless x64 is enabled).
    """

    name: ClassVar[str] = "jax"

    def _tensor(self, array: np.ndarray) -> Any:
        import jax
        import jax.numpy as jnp

        options = dict(self.kwargs)
        device = options.pop("device", None)
        if "dtype" not in options and not self._keeps_type:
            if array.dtype.kind in "iu":
                options["dtype"] = jnp.int64 if jax.config.jax_enable_x64 else jnp.int32
            elif array.dtype.kind == "f":
                options["dtype"] = jnp.float32
        made = jnp.array(array, **options)
        return made if device is None else jax.device_put(made, device)

    def _together(self, values: list[Any]) -> Any:
        import jax
        import jax.numpy as jnp

        first = values[0] if values else None
        if isinstance(first, jax.Array) and all(
            isinstance(each, jax.Array) and each.shape == first.shape and each.dtype == first.dtype
            for each in values
        ):
            return jnp.stack(values)
        return values


def _images_at(feature: FeatureType) -> int | None:
    """How many dimensions lie before an image in a column of this feature; None without images."""
    if isinstance(feature, Image):
        return 1
    inner = _images_at(feature.feature) if isinstance(feature, List) else None
    return None if inner is None else inner + 1


def _channels_first(raw: np.ndarray, depth: int) -> np.ndarray:
    """Images (H, W) and (H, W, C) as (C, H, W), below ``depth`` dimensions."""
    if raw.dtype == object:
        made = np.empty(len(raw), object)
        for at, each in enumerate(raw):
            made[at] = _channels_first(each, depth - 1) if isinstance(each, np.ndarray) else each
        return made
    if raw.ndim == depth + 2:
        return np.expand_dims(raw, depth)
    return np.moveaxis(raw, -1, depth)
