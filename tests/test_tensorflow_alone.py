"""TensorFlow for reading only, in processes of their own: what is imported cannot be taken back."""

from __future__ import annotations

import gc
import resource
import subprocess
import sys
import weakref
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest

from provender import build, load_settings, tensorflow_alone

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
import gc, sys
import provender
settings = provender.load_settings(cwd=sys.argv[1], environ={"HOME": sys.argv[1]})
full = gc.get_stats()[2]["collections"]
[batch] = provender.load("small", split="train", batch_size=3, settings=settings)
import tensorflow as tf
assert gc.get_stats()[2]["collections"] <= full + 1
assert gc.isenabled() and not gc.get_freeze_count()
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
# What was put off or hurried must not be missing later.
TENSORFLOW_AS_EVER = """
class Counter(tf.Module):
    def __init__(self):
        self.count = tf.Variable(0)

    @tf.function(input_signature=[tf.TensorSpec((), tf.int32)])
    def up(self, to):
        while self.count < to:
            self.count.assign_add(1)
        return self.count.read_value()

counter = Counter()
assert counter.up(5) == 5
tf.saved_model.save(counter, sys.argv[1] + "/counter")
loaded = tf.saved_model.load(sys.argv[1] + "/counter")
assert loaded.up(7) == 7
strategy = tf.distribute.MirroredStrategy(["CPU:0"])
data = provender.load("small", split="train", batch_size=2, settings=settings)
total = 0
for each in strategy.experimental_distribute_dataset(data):
    local = strategy.run(lambda batch: tf.reduce_sum(batch["number"]), args=(each,))
    total += int(strategy.reduce("sum", local, axis=None))
assert total == 3
"""
KERAS_SAVED = """
with strategy.scope():
    model = tf.keras.Sequential([tf.keras.Input((1,)), tf.keras.layers.Dense(1)])
    model.compile("adam", "mse")
model.export(sys.argv[1] + "/model", verbose=False)
"""
# A model that Keras exported is read by a process that has not imported Keras.
KERAS_EXPORTED = """
model = tf.saved_model.load(sys.argv[1] + "/model")
assert model.serve(tf.zeros((2, 1))).shape == (2, 1)
assert "keras" not in sys.modules
"""
IN_A_THREAD = """
import sys, threading
import provender
settings = provender.load_settings(cwd=sys.argv[1], environ={"HOME": sys.argv[1]})
found = []
def read():
    found.extend(provender.load("small", split="train", batch_size=3, settings=settings))
threads = [threading.Thread(target=read) for _ in range(3)]
[each.start() for each in threads]
import tensorflow as tf
import keras
[each.join() for each in threads]
assert [int(tf.reduce_sum(each["number"])) for each in found] == [3] * 3
assert tf.keras.layers.Dense is keras.layers.Dense
assert not any('Keras' in type(each).__name__ for each in sys.meta_path)
import gc
assert gc.isenabled() and not gc.get_freeze_count()
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


def run(program: str, folder: str) -> None:
    # AutoGraph reads the source of what it converts.
    file = Path(folder) / "program.py"
    file.write_text(program)
    command = [sys.executable, str(file), folder]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> str:
    home = tmp_path_factory.mktemp("home")
    (home / "small.py").write_text(BUILDER)
    settings = load_settings(cwd=home, environ={"HOME": str(home)})
    build(f"{home / 'small.py'}:Small", settings=settings, workers=1)
    return str(home)


def test_a_version_is_read_without_keras_which_comes_when_it_is_used(home: str) -> None:
    run(READING + TENSORFLOW_AS_EVER + KERAS_LATER + KERAS_SAVED, home)


@pytest.mark.slow
def test_a_model_that_keras_exported_is_loaded_without_it(home: str) -> None:
    run(
        "import tensorflow as tf, provender, sys; strategy = tf.distribute.get_strategy()"
        + KERAS_SAVED,
        home,
    )
    run(READING + KERAS_EXPORTED, home)


@pytest.mark.slow
def test_threads_may_load_while_others_import(home: str) -> None:
    run(IN_A_THREAD, home)


def test_another_thread_may_import_keras_meanwhile(tmp_path: Path) -> None:
    (tmp_path / "keras" / "src").mkdir(parents=True)
    (tmp_path / "keras" / "__init__.py").write_text("import keras.src\n")
    (tmp_path / "keras" / "src" / "__init__.py").write_text("DENSE = 1\n")
    run(BESIDE_A_THREAD, str(tmp_path))


@pytest.fixture
def thawed() -> Iterator[None]:
    """Without what the test run froze."""
    gc.unfreeze()
    yield
    gc.freeze()


class Ring:
    def __init__(self) -> None:
        self.itself = self


def test_nothing_is_collected_while_modules_are_imported(
    thawed: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    with tensorflow_alone._uncollected():
        assert not gc.isenabled()
        monkeypatch.setitem(sys.modules, "one_more", ModuleType("one_more"))
        ring = Ring()
    assert gc.isenabled()
    assert not gc.get_freeze_count()
    # It was not gone through, and is as old as what was there before.
    assert any(each is ring for each in gc.get_objects(generation=2))
    seen = weakref.ref(ring)
    del ring
    gc.collect()
    assert seen() is None


def test_objects_stay_young_where_nothing_was_imported(thawed: None) -> None:
    with tensorflow_alone._uncollected():
        ring = Ring()
    assert not any(each is ring for each in gc.get_objects(generation=2))


def test_a_failed_import_turns_the_collector_on_again() -> None:
    with pytest.raises(ModuleNotFoundError), tensorflow_alone._uncollected():
        import no_such_module  # noqa: F401
    assert gc.isenabled()


def test_a_collector_that_is_off_stays_off() -> None:
    gc.disable()
    try:
        with tensorflow_alone._uncollected():
            pass
        assert not gc.isenabled()
    finally:
        gc.enable()


def test_what_a_program_froze_stays_frozen(monkeypatch: pytest.MonkeyPatch) -> None:
    gc.freeze()
    frozen = gc.get_freeze_count()
    with tensorflow_alone._uncollected():
        monkeypatch.setitem(sys.modules, "one_more", ModuleType("one_more"))
    # Frozen objects that are no longer used are freed.
    assert frozen * 0.9 < gc.get_freeze_count() <= frozen


def test_calls_have_room_however_deep_they_are() -> None:
    def faults(depth: int) -> int:
        """Pages taken from the system by calls in a loop, so many calls deep."""
        if depth:
            return faults(depth - 1)
        before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
        for _ in range(400):
            callee()
        return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before

    def callee(*_: int, a: int = 1, b: int = 2, c: int = 3, d: int = 4, e: int = 5) -> list[int]:
        return [a, b, c, d, e, a, b, c, d, e, a, b, c, d, e]

    def deepest() -> int:
        return max(faults(depth) for depth in range(600))

    assert tensorflow_alone._with_room(deepest) < 100
    if sys.version_info < (3, 14):
        assert deepest() >= 400  # or else the room is of no use


def test_what_is_called_with_room_may_fail() -> None:
    with pytest.raises(ZeroDivisionError):
        tensorflow_alone._with_room(lambda: 1 // 0)
