"""Schemas that are checked, compiled and used in a process that must not import TensorFlow."""

from __future__ import annotations

import subprocess
import sys
import textwrap

PROGRAM = """
    import sys

    class Refuse:
        def find_spec(self, name, path=None, target=None):
            if name == "tensorflow":
                raise AssertionError("TensorFlow is imported")

    sys.meta_path.insert(0, Refuse())

    import numpy as np
    import tensorflow_datasets as tfds
    from provender.records import check_features, compile_encoder

    f = tfds.features
    box = f.BBox(0.0, 0.25, 0.5, 1.0)
    image = np.arange(48, dtype=np.uint8).reshape(4, 4, 3)
    FIELDS = {
        "text": (f.Text(), "a"),
        "optional": (f.Text(optional=True), None),
        "label": (f.ClassLabel(names=["no", "yes"]), "yes"),
        "scalar": (f.Scalar(np.int32), 3),
        "real": (np.float32, 0.5),
        "flag": (np.bool_, True),
        "string": (np.str_, "x"),
        "tensor": (f.Tensor(shape=(3,), dtype=np.float32), [1, 2, 3]),
        "grid": (f.Tensor(shape=(2, None), dtype=np.float64), np.ones((2, 3))),
        "big": (f.Tensor(shape=(2,), dtype=np.uint64), [1, 2**64 - 1]),
        "packed": (
            f.Tensor(shape=(None, None), dtype=np.float32, encoding="zlib"),
            np.ones((2, 3), np.float32),
        ),
        "raw": (f.Tensor(shape=(3,), dtype=np.uint8, encoding="bytes"), np.arange(3, dtype="u1")),
        "numbers": (f.Sequence(np.int64), [1, 2]),
        "reals": (f.Sequence(np.float32, length=2), [0.5, 1]),
        "labels": (f.Sequence(f.ClassLabel(num_classes=3)), [0, 2]),
        "texts": (f.Sequence(f.Text()), ["a", b"b"]),
        "vectors": (f.Sequence(f.Tensor(shape=(2,), dtype=np.float32)), [[1, 2], [3, 4]]),
        "ragged": (f.Sequence(f.Sequence(np.int64)), [[1], [], [2, 3]]),
        "deeper": (f.Sequence(f.Sequence(f.Sequence(np.float32))), [[[0.5], []], []]),
        "objects": (
            f.Sequence({"box": f.BBoxFeature(), "ids": f.Sequence(np.int64), "is": np.bool_}),
            [{"box": box, "ids": [1, 2], "is": True}, {"box": box, "ids": [], "is": False}],
        ),
        "none": (f.Sequence({"box": f.BBoxFeature(), "name": f.Text()}), []),
        "box": (f.BBoxFeature(), box),
        "pair": (f.Translation(languages=["en", "de"]), {"en": "a", "de": "b"}),
        "many": (
            f.TranslationVariableLanguages(languages=["en", "de"]), {"en": "a", "de": ["b", "c"]}
        ),
        "inner": ({"deep": {"x": f.Text(), "y": f.Sequence(np.int32)}}, {"deep": {"x": "", "y": [1]}}),
        "image": (f.Image(), image),
        "deep_image": (f.Image(shape=(4, 4, 3), dtype=np.uint16), image.astype(np.uint16)),
        "real_image": (f.Image(shape=(4, 4, 1), dtype=np.float32), np.ones((4, 4, 1), np.float32)),
        "mask": (f.LabeledImage(labels=3, shape=(None, None, 1)), image[:, :, :1]),
        "frames": (f.Sequence(f.Image()), np.stack([image, image])),
        "crops": (f.Sequence({"image": f.Image(), "id": np.int64}), [{"image": image, "id": 1}]),
        "nested": (f.Dataset({"a": np.int64}), [{"a": 1}, {"a": 2}]),
    }
    for name, (kind, value) in FIELDS.items():
        features = f.FeaturesDict({name: kind})
        check_features(features)
        assert compile_encoder(features)({name: value}), name
    features = f.FeaturesDict({name: kind for name, (kind, _) in FIELDS.items()})
    check_features(features)
    assert compile_encoder(features)({name: value for name, (_, value) in FIELDS.items()})
    assert "tensorflow" not in sys.modules
"""


def test_plain_features_and_array_images_need_no_tensorflow() -> None:
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(PROGRAM)],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
