"""TensorFlow imported soon, for processes that only read.

`import tensorflow` ends with an import of Keras, made so that Keras registers its optimizers with
SavedModel's registry. Keras 3 in turn imports scikit-learn, SciPy and Matplotlib wherever they are
installed. That is 40 % of the CPU time of TensorFlow's import, and of no use to a process that feeds
examples to JAX, or has not got to its model yet. TensorFlow itself goes on without Keras where the
import fails, and ``tf.keras`` is loaded at its first use, so here that one import is put off.

Half of the rest is not TensorFlow's either. Python's garbage collector goes again and again through all
that has been imported, and finds next to nothing, since modules stay; here it waits until they are there.
And Python asks the system for memory and gives it back tens of thousands of times, see `_with_room`.
"""

from __future__ import annotations

import gc
import importlib
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from types import FunctionType, ModuleType
from typing import Any


class _KerasLater:
    """An import hook by which Keras is not there, for one thread only."""

    def __init__(self) -> None:
        self._thread = threading.get_ident()

    def find_spec(self, name: str, path: Sequence[str] | None = None, target: Any = None) -> None:
        # The package `keras` itself must be found: TensorFlow asks where it lies.
        if name == "keras.src" and threading.get_ident() == self._thread:
            raise ModuleNotFoundError("Keras is imported when it is first used", name=name)


def import_tensorflow(*others: str) -> ModuleType:
    """TensorFlow; Keras follows when somebody uses it.

    Nothing is different where TensorFlow or Keras is already imported. A process that imports
    TensorFlow through this function and then loads a SavedModel of Keras through
    `tf.saved_model.load` should ``import keras`` before, as TensorFlow would have.

    Args:
        others: modules to import after it, which use it.

    Raises:
        ImportError: TensorFlow or another module is not installed.
    """
    with _uncollected():
        found = _with_room(_import)
        for name in others:
            _with_room(partial(importlib.import_module, name))
    return found


def _import() -> ModuleType:
    if "tensorflow" in sys.modules or "keras" in sys.modules:
        return importlib.import_module("tensorflow")
    hook: Any = _KerasLater()
    sys.meta_path.insert(0, hook)
    try:
        return importlib.import_module("tensorflow")
    finally:
        sys.meta_path.remove(hook)


@contextmanager
def _uncollected() -> Iterator[None]:
    """Lets no garbage be collected while modules are imported.

    What is there at the end goes to the collector's oldest generation at once, without being gone
    through, and is garbage as soon as nobody uses it, as ever: the next full collection finds it.
    Nothing is done where the collector is off.
    """
    if not gc.isenabled():
        yield
        return
    known = len(sys.modules)
    gc.disable()
    try:
        yield
    finally:
        # Where a program has frozen objects itself, thawing would undo that.
        if len(sys.modules) > known and not gc.get_freeze_count():
            gc.freeze()
            gc.unfreeze()
        gc.enable()


def _call(work: Callable[[], Any]) -> Any:
    return work()


_with_room: Callable[[Callable[[], Any]], Any] = FunctionType(
    _call.__code__.replace(co_stacksize=1 << 17), globals(), "_with_room"
)
"""Calls a function with room for all that it calls in turn.

CPython keeps the variables of running functions in chunks of 16 KiB, which it takes from the system as
calls get deeper, and gives back as soon as they return. A loop that happens to stand at the end of a chunk
takes and gives one back at each call. Imports nest deeply, so somewhere below `import tensorflow` there
always is such a loop: which one depends on how deep the import itself is called, and costs up to half a
second. A function that says it needs a large frame is given a chunk that holds it; the rest of that chunk,
a MiB here, serves what it calls. It is address space, not memory, until it is used.
"""
