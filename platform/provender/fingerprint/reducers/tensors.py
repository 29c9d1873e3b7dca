"""Reducers for TensorFlow objects. Devices, names and graph bookkeeping do not count."""

from __future__ import annotations

from typing import Any

from provender.fingerprint.registry import ship


@ship("tensorflow.python.framework.tensor.Tensor", "tensorflow.python.framework.ops.Tensor")
def tensor(obj: Any) -> object:
    """dtype and values; a symbolic tensor has none."""
    if not hasattr(obj, "numpy"):
        message = "a symbolic tensor has no value"
        raise TypeError(message)
    return [obj.dtype.name, obj.numpy()]


@ship("tensorflow.python.ops.variables.Variable")
def variable(obj: Any) -> object:
    """dtype, declared shape, trainability and value."""
    return [obj.dtype.name, str(obj.shape), obj.trainable, obj.numpy()]


@ship("tensorflow.python.ops.ragged.ragged_tensor.RaggedTensor")
def ragged(obj: Any) -> object:
    """Values and row splits of every ragged dimension."""
    return [obj.flat_values, [splits.numpy() for splits in obj.nested_row_splits]]


@ship("tensorflow.python.framework.sparse_tensor.SparseTensor")
def sparse(obj: Any) -> object:
    """Indices, values and dense shape."""
    return [obj.indices, obj.values, obj.dense_shape]


@ship("tensorflow.python.framework.dtypes.DType")
def dtype(obj: Any) -> object:
    """Its name."""
    return obj.name


@ship(
    "tensorflow.python.framework.tensor_shape.TensorShape",
    "tensorflow.python.framework.type_spec.TypeSpec",
)
def spec(obj: Any) -> object:
    """Its text without the name."""
    if hasattr(obj, "name") and hasattr(obj, "shape"):
        return [type(obj).__name__, str(obj.shape), str(getattr(obj, "dtype", None))]
    return [type(obj).__name__, str(obj)]


@ship("tensorflow.python.eager.polymorphic_function.polymorphic_function.Function")
def tf_function(obj: Any) -> object:
    """The Python function, its input signature and how it is compiled."""
    return [
        obj.python_function,
        obj.input_signature,
        getattr(obj, "_jit_compile", None),
        getattr(obj, "_reduce_retracing", None),
    ]


@ship("tensorflow.python.eager.polymorphic_function.concrete_function.ConcreteFunction")
def concrete_function(obj: Any) -> object:
    """Refused: node names differ from process to process."""
    message = "a traced graph; refer to the tf.function that it was traced from"
    raise TypeError(message)


@ship("tensorflow.python.data.ops.dataset_ops.DatasetV2")
def dataset(obj: Any) -> object:
    """Refused: a pipeline hides the files and functions that it was made of."""
    message = "a tf.data pipeline has no content of its own; make it inside the function"
    raise TypeError(message)


@ship("tensorflow.python.ops.lookup_ops.LookupInterface")
def table(obj: Any) -> object:
    """Key and value types, default, and the entries in order of key."""
    import numpy as np

    inner = getattr(obj, "_table", None)
    parts: dict[str, Any] = {
        "keys": obj.key_dtype.name,
        "values": obj.value_dtype.name,
        "buckets": getattr(obj, "_num_oov_buckets", None),
        "default": _plain(getattr(obj, "_default_value", None)),
    }
    if inner is not None:
        parts["table"] = inner
    elif hasattr(obj, "export"):
        keys, values = (np.asarray(part) for part in obj.export())
        present = np.argsort(keys, kind="stable") if keys.ndim == 1 else np.arange(len(keys))
        parts["entries"] = [keys[present], values[present]]
        empty = getattr(obj, "_empty_key", None)
        if empty is not None:  # a dense table exports its unused slots as well
            used = keys != _plain(empty)
            parts["entries"] = [
                keys[used][np.argsort(keys[used])],
                values[used][np.argsort(keys[used])],
            ]
    return parts


def _plain(value: Any) -> Any:
    return value.numpy() if hasattr(value, "numpy") else value


@ship("tensorflow.python.trackable.autotrackable.AutoTrackable")
def module(obj: Any) -> object:
    """Attributes without TensorFlow's tracking and naming."""
    skipped = ("_self_", "_name", "_scope_name", "_tf_")
    return {k: v for k, v in vars(obj).items() if not k.startswith(skipped)}


@ship("tensorflow.python.ops.stateful_random_ops.Generator")
def generator(obj: Any) -> object:
    """Algorithm and state."""
    return [int(obj.algorithm), obj.state.numpy()]


@ship("tensorflow.python.distribute.distribute_lib.StrategyBase")
def strategy(obj: Any) -> object:
    """Where code runs does not count."""
    return type(obj).__name__


@ship("tensorflow.python.ops.lookup_ops.TableInitializerBase")
def initializer(obj: Any) -> object:
    """Keys and values, or the file that they come from."""
    parts = {k: v for k, v in vars(obj).items() if not k.startswith(("_self_", "_name"))}
    return {k: _plain(v) for k, v in parts.items()}


@ship("google.protobuf.message.Message")
def message(obj: Any) -> object:
    """Type and deterministic serialisation."""
    return [obj.DESCRIPTOR.full_name, obj.SerializeToString(deterministic=True)]
