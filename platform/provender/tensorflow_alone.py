"""TensorFlow without Keras, for processes that only read.

`import tensorflow` ends with an import of Keras, made so that Keras registers its optimizers with
SavedModel's registry. Keras 3 in turn imports scikit-learn, SciPy and Matplotlib wherever they are
installed. That is 40 % of the CPU time of TensorFlow's import, and of no use to a process that feeds
examples to JAX, or has not got to its model yet. TensorFlow itself goes on without Keras where the
import fails, and ``tf.keras`` is loaded at its first use, so here that one import is put off.
"""

from __future__ import annotations

import importlib
import sys
import threading
from collections.abc import Sequence
from types import ModuleType
from typing import Any


class _KerasLater:
    """An import hook by which Keras is not there, for one thread only."""

    def __init__(self) -> None:
        self._thread = threading.get_ident()

    def find_spec(self, name: str, path: Sequence[str] | None = None, target: Any = None) -> None:
        # The package `keras` itself must be found: TensorFlow asks where it lies.
        if name == "keras.src" and threading.get_ident() == self._thread:
            raise ModuleNotFoundError("Keras is imported when it is first used", name=name)


def import_tensorflow() -> ModuleType:
    """TensorFlow; Keras follows when somebody uses it.

    Nothing is different where TensorFlow or Keras is already imported. A process that imports
    TensorFlow through this function and then loads a SavedModel of Keras through
    `tf.saved_model.load` should ``import keras`` before, as TensorFlow would have.

    Raises:
        ImportError: TensorFlow is not installed.
    """
    if "tensorflow" in sys.modules or "keras" in sys.modules:
        return importlib.import_module("tensorflow")
    hook: Any = _KerasLater()
    sys.meta_path.insert(0, hook)
    try:
        return importlib.import_module("tensorflow")
    finally:
        sys.meta_path.remove(hook)
