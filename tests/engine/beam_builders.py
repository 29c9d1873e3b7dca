"""Builders that generate with Apache Beam, loaded as a file by both TFDS and Provender.

Read by `test_beam`, in a Python that has Beam.
"""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Any

import apache_beam as beam
import numpy as np
import tensorflow_datasets as tfds


class _Base(tfds.core.GeneratorBasedBuilder, skip_registration=True):
    VERSION = tfds.core.Version("1.0.0")
    IN_ORDER = False

    def _info(self) -> Any:
        return tfds.core.DatasetInfo(
            builder=self,
            description=f"The piped {type(self).__name__}.",
            features=self.features_of(),
            disable_shuffling=self.IN_ORDER,
        )

    def features_of(self) -> Any:
        return tfds.features.FeaturesDict({"text": tfds.features.Text(), "n": np.int64})


def row(i: int) -> tuple[Any, Any]:
    return i, {"text": f"row {i}", "n": i}


class Dict(_Base):
    """The usual style; helpers of the module are used within the pipeline."""

    def _split_generators(self, dl_manager: Any) -> Any:
        return {"train": self._generate_examples(2000), "test": self._generate_examples(50)}

    def _generate_examples(self, count: int) -> Any:
        return beam.Create(range(count)) | beam.Map(row)


class Shared(_Base):
    """Splits that hang from one collection, of a pipeline that `_split_generators` is given."""

    def _split_generators(self, dl_manager: Any, pipeline: Any) -> Any:
        rows = pipeline | "numbers" >> beam.Create(range(300))
        return {
            "even": rows | "even" >> beam.Filter(lambda i: i % 2 == 0) | "e" >> beam.Map(row),
            "odd": self._generate_examples(rows),
        }

    def _generate_examples(self, rows: Any) -> Any:
        return rows | "odd" >> beam.Filter(lambda i: i % 2 == 1) | "o" >> beam.Map(row)


class Legacy(tfds.core.BeamBasedBuilder, skip_registration=True):
    """The older base class, whose method is called `_build_pcollection`."""

    VERSION = tfds.core.Version("1.0.0")
    _info = _Base._info
    features_of = _Base.features_of
    IN_ORDER = False

    def _split_generators(self, dl_manager: Any) -> Any:
        return [tfds.core.SplitGenerator(name="train", gen_kwargs={"count": 64})]

    def _build_pcollection(self, pipeline: Any, count: int) -> Any:
        return pipeline | beam.Create(range(count)) | beam.Map(row)


class InOrder(_Base):
    """Ordered by key; the ranges are ranges of numbers, and some of them hold nothing."""

    IN_ORDER = True

    def _split_generators(self, dl_manager: Any) -> Any:
        return {"train": self._generate_examples([*range(40), *range(900, 1000)])}

    def _generate_examples(self, keys: list[int]) -> Any:
        return beam.Create(keys) | beam.Map(row)


class Images(_Base):
    """Arrays that are encoded within the pipeline, and nested sequences."""

    def features_of(self) -> Any:
        return tfds.features.FeaturesDict(
            {
                "image": tfds.features.Image(shape=(4, 5, 3)),
                "tags": tfds.features.Sequence({"name": tfds.features.Text(), "at": np.float32}),
            }
        )

    def _split_generators(self, dl_manager: Any) -> Any:
        return {"train": self._generate_examples(60)}

    def _generate_examples(self, count: int) -> Any:
        def example(i: int) -> Any:
            image = np.random.default_rng(i).integers(0, 255, (4, 5, 3), dtype=np.uint8)
            tags = [{"name": f"tag {j}", "at": j / 4} for j in range(i % 4)]
            return f"key/{i}", {"image": image, "tags": tags}

        return beam.Create(range(count)) | beam.Map(example)


class Twice(_Base):
    """Two examples under one key."""

    def _split_generators(self, dl_manager: Any) -> Any:
        return {"train": self._generate_examples()}

    def _generate_examples(self) -> Any:
        return beam.Create([0, 1, 2, 1]) | beam.Map(row)


class Broken(_Base):
    """A step of the user's that raises."""

    def _split_generators(self, dl_manager: Any) -> Any:
        return {"train": self._generate_examples()}

    def _generate_examples(self) -> Any:
        def half(i: int) -> Any:
            if i == 7:
                raise ValueError("row 7 is bad")
            return row(i)

        return beam.Create(range(10)) | beam.Map(half)


class Unfit(_Base):
    """An example that its features do not fit."""

    def _split_generators(self, dl_manager: Any) -> Any:
        return {"train": self._generate_examples()}

    def _generate_examples(self) -> Any:
        return beam.Create([3]) | beam.Map(lambda i: (i, {"text": "t", "n": "three"}))


class Plain(_Base):
    """No Beam at all."""

    def _split_generators(self, dl_manager: Any) -> Any:
        return {"train": self._generate_examples()}

    def _generate_examples(self) -> Any:
        yield row(0)


class Empty(_Base):
    """A split without examples."""

    def _split_generators(self, dl_manager: Any) -> Any:
        return {"train": self._generate_examples(3), "none": self._generate_examples(0)}

    def _generate_examples(self, count: int) -> Any:
        return beam.Create(range(count)) | beam.Map(row)


class Held(_Base):
    """Waits in its second split until a file is there; says in another that it waits."""

    def _split_generators(self, dl_manager: Any) -> Any:
        return {
            "first": self._generate_examples(100, False),
            "held": self._generate_examples(9, True),
        }

    def _generate_examples(self, count: int, held: bool) -> Any:
        def wait(i: int) -> Any:
            place = Path(os.environ["HELD_AT"])
            if held and i == 5:
                (place / f"waits-{os.getpid()}").touch()
                while not (place / "go").exists():
                    time.sleep(0.02)
            return row(i)

        return beam.Create(range(count)) | beam.Map(wait)
