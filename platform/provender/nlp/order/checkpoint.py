"""An input state as part of a `tf.train.Checkpoint`."""

from __future__ import annotations

from functools import cache
from typing import Any

from provender.nlp.order.state import InputState


@cache
def _state_class() -> Any:
    import tensorflow as tf

    class InputCheckpoint(tf.train.experimental.PythonState):
        """An `InputState` that `tf.train.Checkpoint` saves and restores; its methods are there too."""

        def __init__(self, state: InputState) -> None:
            self.state = state

        def serialize(self) -> str:
            return self.state.to_json()

        def deserialize(self, string_value: bytes | str) -> None:
            text = string_value.decode() if isinstance(string_value, bytes) else string_value
            self.state.load(text)

        def __getattr__(self, name: str) -> Any:
            if name.startswith("_") or name == "state":
                raise AttributeError(name)
            return getattr(self.state, name)

    return InputCheckpoint


def trackable(state: InputState) -> Any:
    """A `tf.train.experimental.PythonState` that holds an input state.

    Args:
        state: is read when a checkpoint is saved and set when one is restored.

    Returns:
        An object for ``tf.train.Checkpoint(input=...)``, with the attributes of the state.
    """
    return _state_class()(state)
