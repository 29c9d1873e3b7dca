"""Small datasets, built once by the real engine."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest

UPKEEP = Path(__file__).parents[1] / "upkeep" / "conftest.py"

ODD = """
import numpy as np
import tensorflow as tf
import tensorflow_datasets as tfds

F = tfds.features


class Odd(tfds.core.GeneratorBasedBuilder, skip_registration=True):
    VERSION = tfds.core.Version("2.0.0")
    BUILDER_CONFIGS = [tfds.core.BuilderConfig(name="plain"), tfds.core.BuilderConfig(name="other")]

    def _info(self):
        return tfds.core.DatasetInfo(builder=self, features=F.FeaturesDict({
            "text": F.Text(),
            "label": F.ClassLabel(names=["calm", "loud"]),
            "number": F.ClassLabel(num_classes=9),
            "half": F.Scalar(np.float32),
            "flag": F.Scalar(np.bool_),
            "big": F.Scalar(np.uint64),
            "grid": F.Tensor(shape=(2, 3), dtype=np.int32),
            "open": F.Tensor(shape=(None, 2), dtype=np.int64),
            "packed": F.Tensor(shape=(2, 2), dtype=np.float64, encoding="zlib"),
            "image": F.Image(shape=(8, 8, 1), encoding_format="png"),
            "tags": F.Sequence(F.ClassLabel(names=["a", "b", "c"])),
            "turns": F.Sequence({"who": F.Text(), "at": F.Tensor(shape=(2,), dtype=np.int64)}),
            "deep": F.Sequence(F.Sequence(F.Sequence(F.Scalar(np.int64)))),
            "inner": {"kind": F.ClassLabel(names=["k0", "k1"]), "name": F.Text()},
            "steps": F.Dataset({"x": F.Scalar(np.int64)}),
            "box": F.BBoxFeature(),
            "both": F.Translation(languages=["de", "en"]),
            "empty": F.Sequence(F.Text()),
            "words": F.Tensor(shape=(None,), dtype=np.str_),
            "maybe": F.Scalar(np.int32, optional=True),
            "brain": F.Tensor(shape=(2,), dtype=tf.bfloat16, encoding="bytes"),
            "voice": F.Audio(shape=(None, 2), dtype=np.int32),
            "clip": F.Video(shape=(None, 2, 2, 3), encoding_format="png"),
            "pair": F.Video(shape=(2, 2, 2, 3), encoding_format="png"),
            "shots": F.Sequence({"pixels": F.Image(shape=(2, 2, 3), encoding_format="png")}),
            "many": F.TranslationVariableLanguages(languages=["de", "en"]),
            "nothing": F.Tensor(shape=(0,), dtype=np.int32),
        }), supervised_keys=({"text": "text", "inner": "inner"}, "label"))

    def _split_generators(self, dl_manager):
        return {"train": self._generate_examples(7), "test": self._generate_examples(2)}

    def _generate_examples(self, count):
        from provender.builders._png import encode_grey

        for i in range(count):
            yield i, {
                "text": f"täxt {i}", "label": i % 2, "number": i, "half": i + 0.5,
                "flag": i % 2 == 0, "big": 2**64 - 1 - i,
                "grid": np.arange(6, dtype=np.int32).reshape(2, 3) * i,
                "open": np.arange(2 * (i + 1)).reshape(-1, 2),
                "packed": np.eye(2) * i,
                "image": encode_grey(bytes(range(64)), 8, 8),
                "tags": [n % 3 for n in range(i % 4)],
                "turns": [{"who": f"w{n}", "at": [n, n + 1]} for n in range(i % 3)],
                "deep": [[[1], [2, i]], [], [[]]] if i % 2 else [],
                "inner": {"kind": i % 2, "name": f"n{i}"},
                "steps": [{"x": n} for n in range(i % 3)],
                "box": F.BBox(ymin=0.0, xmin=0.25, ymax=0.5, xmax=1.0),
                "both": {"de": f"ja {i}", "en": f"yes {i}"},
                "empty": [],
                "words": [f"w{n}" for n in range(i % 3)],
                "maybe": None if i % 2 else i,
                "brain": np.array([i, i + 0.5]).astype(tf.bfloat16.as_numpy_dtype),
                "voice": np.full((i, 2), i, np.int32),
                "clip": np.full((1 + i % 3, 2, 2, 3), i, np.uint8),
                "pair": np.full((2, 2, 2, 3), i, np.uint8),
                "shots": [{"pixels": np.full((2, 2, 3), n, np.uint8)} for n in range(i % 3)],
                "many": {"de": ["ja", "doch"], "en": "yes"} if i % 2 else {"en": "no"},
                "nothing": np.zeros((0,), np.int32),
            }
"""


def _upkeep() -> ModuleType:
    key = "provender_upkeep_tests_conftest"
    if key not in sys.modules:
        spec = importlib.util.spec_from_file_location(key, UPKEEP)
        assert spec and spec.loader
        module = importlib.util.module_from_spec(spec)
        sys.modules[key] = module
        spec.loader.exec_module(module)
    return sys.modules[key]


notes = _upkeep().notes
copied = _upkeep().copied
flip = _upkeep().flip
engine = _upkeep().engine
gcs_server = _upkeep().gcs_server
gcs_bucket = _upkeep().gcs_bucket


@pytest.fixture(scope="session")
def odd(tmp_path_factory: pytest.TempPathFactory) -> Iterator:
    """A version with one feature of each kind; building it imports TensorFlow."""
    from provender.catalog import Catalog
    from provender.store import Store

    base = _upkeep()
    home = tmp_path_factory.mktemp("odd")
    file = home / "odd_builder.py"
    file.write_text(ODD)
    settings = base.settings_for(home)
    version = base.make(file, settings, "Odd", num_shards=2)
    with Catalog.open(settings.catalog) as catalog:
        yield base.Place(settings, catalog, Store.open(settings.store), file, version)
