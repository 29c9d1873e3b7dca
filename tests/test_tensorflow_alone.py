"""TensorFlow without Keras, in processes of their own: what is imported cannot be taken back."""

from __future__ import annotations

import subprocess
import sys

ALONE = """
import sys
from provender.tensorflow_alone import import_tensorflow
tf = import_tensorflow()
assert "keras" not in sys.modules and "sklearn" not in sys.modules
assert tf.reduce_sum(tf.data.Dataset.range(3).batch(3).get_single_element()) == 3
assert not any('Keras' in type(each).__name__ for each in sys.meta_path)
"""
KERAS_LATER = """
layer = tf.keras.layers.Dense(3)
assert layer(tf.ones((1, 2))).shape == (1, 3)
import keras
assert keras.layers.Dense is tf.keras.layers.Dense
assert tf.optimizers.Adam is keras.optimizers.Adam
"""
# Another thread's import of Keras must not see that it is hidden from ours.
BESIDE_A_THREAD = """
import sys, threading
from provender import tensorflow_alone
hook = tensorflow_alone._KerasLater()
sys.meta_path.insert(0, hook)
def other():
    import keras
    found.append(keras)
found = []
thread = threading.Thread(target=other)
thread.start()
thread.join()
assert found and found[0].layers.Dense
"""


def run(program: str) -> None:
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_keras_is_imported_at_its_first_use() -> None:
    run(ALONE + KERAS_LATER)


def test_another_thread_may_import_keras_meanwhile() -> None:
    run(BESIDE_A_THREAD)
