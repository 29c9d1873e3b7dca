"""Digits: 1,797 handwritten digits of 8 x 8 pixels, from the copy inside scikit-learn.

A dataset that needs neither network nor manual files, for demonstrations and tests.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import tensorflow_datasets as tfds

from provender.builders._png import encode_grey

SIDE = 8
TRAIN_ROWS = 1500
_INK_LEVELS = 16

_DESCRIPTION = """\
Grey images of handwritten digits, 8 x 8 pixels, with the digit as label: the 1,797 rows that
scikit-learn ships as `load_digits`, which are the test part of the UCI set "Optical Recognition
of Handwritten Digits" (13 writers). The ink counts 0 to 16 of the source are spread over 0 to 255,
`round(count * 255 / 16)`, halves up.
"""

_CITATION = """\
@misc{alpaydin1998optical,
  author = {Alpaydin, Ethem and Kaynak, Cenk},
  title = {Optical Recognition of Handwritten Digits},
  year = {1998},
  publisher = {UCI Machine Learning Repository},
  doi = {10.24432/C50P49},
}
"""

# Ink count -> grey level. The 17 levels are all different, so the source can be had back:
# count == round(level * 16 / 255).
_GREY = bytes((count * 255 + _INK_LEVELS // 2) // _INK_LEVELS for count in range(_INK_LEVELS + 1))


class Digits(tfds.core.GeneratorBasedBuilder, skip_registration=True):  # type: ignore[call-arg]
    """The digits of scikit-learn as PNG images; row number as key.

    The splits are cut from the source in its order: rows 0 to 1,499 train, rows 1,500 to 1,796
    test. The rows are not independent, since those of one writer lie together; a random split
    would put the same hands into both parts and flatter every model.
    """

    name = "digits"
    VERSION = tfds.core.Version("1.0.0")
    RELEASE_NOTES = {"1.0.0": "The 1,797 rows of scikit-learn, split 1,500 to 297."}  # noqa: RUF012

    def _info(self) -> tfds.core.DatasetInfo:
        import numpy as np

        return tfds.core.DatasetInfo(
            builder=self,
            description=_DESCRIPTION,
            features=tfds.features.FeaturesDict(
                {
                    "image": tfds.features.Image(
                        shape=(SIDE, SIDE, 1), dtype=np.uint8, encoding_format="png"
                    ),
                    "label": tfds.features.ClassLabel(num_classes=10),
                }
            ),
            supervised_keys=("image", "label"),
            homepage="https://archive.ics.uci.edu/dataset/80/optical+recognition+of+handwritten+digits",
            citation=_CITATION,
        )

    def _split_generators(self, dl_manager: Any) -> dict[str, Iterator[tuple[int, dict[str, Any]]]]:
        del dl_manager
        return {
            "train": self._generate_examples(first=0, end=TRAIN_ROWS),
            "test": self._generate_examples(first=TRAIN_ROWS, end=None),
        }

    def _generate_examples(
        self, first: int, end: int | None
    ) -> Iterator[tuple[int, dict[str, Any]]]:
        """Yields ``(row, {"image": PNG bytes, "label": int})`` of rows ``first`` to ``end``."""
        # Encoded here, so that building needs no TensorFlow: the Image feature stores bytes as is.
        from sklearn.datasets import load_digits

        source = load_digits()
        images = source.images[first:end].astype("uint8")
        labels = source.target[first:end].tolist()
        for row, (image, label) in enumerate(zip(images, labels, strict=True), start=first):
            pixels = image.tobytes().translate(_GREY.ljust(256, b"\xff"))
            yield row, {"image": encode_grey(pixels, SIDE, SIDE), "label": label}
