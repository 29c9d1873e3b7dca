"""Reducers for Keras: configuration, weights and vocabulary. Automatic names do not count."""

from __future__ import annotations

from typing import Any, Final

from provender.fingerprint.registry import ship

_REFERRING: Final = frozenset({"keras_history", "input_layers", "output_layers"})
_DROPPED: Final = frozenset({"shared_object_id", "registered_name", "compile_config"})


@ship(
    "keras.src.layers.layer.Layer",
    "tf_keras.src.engine.base_layer.Layer",
)
def layer(obj: Any) -> object:
    """Configuration, weights, and the vocabulary where there is one; models likewise."""
    parts: dict[str, Any] = {
        "config": _configuration(obj),
        "weights": [_value(weight) for weight in obj.weights],
    }
    vocabulary = getattr(obj, "get_vocabulary", None)
    if vocabulary is not None:
        parts["vocabulary"] = list(vocabulary())
    return parts


@ship(
    "keras.src.saving.keras_saveable.KerasSaveable",
    "keras.src.initializers.initializer.Initializer",
    "keras.src.regularizers.regularizers.Regularizer",
    "keras.src.constraints.constraints.Constraint",
    "keras.src.dtype_policies.dtype_policy.DTypePolicy",
    "keras.src.optimizers.schedules.learning_rate_schedule.LearningRateSchedule",
)
def configured(obj: Any) -> object:
    """Losses, metrics, optimizers, initializers: configuration and state."""
    variables = getattr(obj, "variables", ())
    return [_configuration(obj), [_value(v) for v in variables]]


@ship("keras.src.backend.common.variables.Variable")
def variable(obj: Any) -> object:
    """dtype, trainability and value."""
    return [str(obj.dtype), obj.trainable, _value(obj)]


@ship("keras.src.random.seed_generator.SeedGenerator")
def seed(obj: Any) -> object:
    """The state."""
    return _value(obj.state)


def _value(variable: Any) -> Any:
    if hasattr(variable, "numpy"):
        return variable.numpy()
    import numpy as np

    return np.asarray(variable.value)


def _configuration(obj: Any) -> Any:
    try:
        config = obj.get_config()
    except (NotImplementedError, TypeError):
        # A layer of the user that was never meant to be saved: what it holds in the open.
        return {k: v for k, v in vars(obj).items() if not k.startswith("_")}
    names: dict[str, str] = {}
    if isinstance(config.get("name"), str):
        names[config["name"]] = "#"
    _gather(config, names)
    return _rename(config, names)


def _gather(node: Any, names: dict[str, str]) -> None:
    """Names of layers in order of appearance."""
    if isinstance(node, dict):
        inner: Any = node.get("config")
        named = isinstance(inner, dict) and isinstance(inner.get("name"), str)
        if named and ("trainable" in inner or node.get("class_name") == "InputLayer"):
            names.setdefault(inner["name"], f"#{len(names)}")
        for value in node.values():
            _gather(value, names)
    elif isinstance(node, (list, tuple)):
        for value in node:
            _gather(value, names)


def _rename(node: Any, names: dict[str, str], key: str = "") -> Any:
    if isinstance(node, dict):
        return {k: _rename(v, names, k) for k, v in node.items() if k not in _DROPPED}
    if isinstance(node, (list, tuple)):
        inner = key if key in _REFERRING else ""
        return [_rename(value, names, inner) for value in node]
    if isinstance(node, str) and (key == "name" or key in _REFERRING):
        return names.get(node, node)
    return node
