"""TensorFlow without Keras, in processes of their own: what is imported cannot be taken back."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from provender import build, load_settings

BUILDER = """
import numpy as np
import tensorflow_datasets as tfds

class Small(tfds.core.GeneratorBasedBuilder):
    VERSION = tfds.core.Version("1.0.0")

    def _info(self):
        features = tfds.features.FeaturesDict({"number": np.int64})
        return tfds.core.DatasetInfo(builder=self, features=features)

    def _split_generators(self, dl_manager):
        return {"train": self._generate_examples()}

    def _generate_examples(self):
        yield from ((i, {"number": i}) for i in range(3))
"""
READING = """
import sys
import provender
settings = provender.load_settings(cwd=sys.argv[1], environ={"HOME": sys.argv[1]})
[batch] = provender.load("small", split="train", batch_size=3, settings=settings)
import tensorflow as tf
assert tf.reduce_sum(batch["number"]) == 3
assert "keras" not in sys.modules and "sklearn" not in sys.modules
assert not any('Keras' in type(each).__name__ for each in sys.meta_path)
"""
KERAS_LATER = """
layer = tf.keras.layers.Dense(3)
assert layer(tf.ones((1, 2))).shape == (1, 3)
import keras
assert keras.layers.Dense is tf.keras.layers.Dense
assert tf.optimizers.Adam is keras.optimizers.Adam
"""
# Another thread's import of Keras must not see that it is hidden from ours. Any package of its name
# and shape will do.
BESIDE_A_THREAD = """
import importlib, sys, threading
from provender import tensorflow_alone
sys.path.insert(0, sys.argv[1])
sys.meta_path.insert(0, tensorflow_alone._KerasLater())
try:
    import keras
except ModuleNotFoundError as error:
    assert error.name == "keras.src"
else:
    raise AssertionError("it was found")
found = []
thread = threading.Thread(target=lambda: found.append(importlib.import_module("keras").src.DENSE))
thread.start()
thread.join()
assert found == [1]
"""


def run(program: str, *arguments: str) -> None:
    command = [sys.executable, "-c", program, *arguments]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_a_version_is_read_without_keras_which_comes_when_it_is_used(tmp_path: Path) -> None:
    (tmp_path / "small.py").write_text(BUILDER)
    settings = load_settings(cwd=tmp_path, environ={"HOME": str(tmp_path)})
    build(f"{tmp_path / 'small.py'}:Small", settings=settings, workers=1)
    run(READING + KERAS_LATER, str(tmp_path))


def test_another_thread_may_import_keras_meanwhile(tmp_path: Path) -> None:
    (tmp_path / "keras" / "src").mkdir(parents=True)
    (tmp_path / "keras" / "__init__.py").write_text("import keras.src\n")
    (tmp_path / "keras" / "src" / "__init__.py").write_text("DENSE = 1\n")
    run(BESIDE_A_THREAD, str(tmp_path))
