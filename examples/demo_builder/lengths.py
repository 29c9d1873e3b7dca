"""A builder that generates with Apache Beam: the lengths of a few words."""

from typing import Any

import apache_beam as beam
import numpy as np
import tensorflow_datasets as tfds

WORDS = ("shard", "stage", "split", "version", "fingerprint", "catalog", "store")


def example(word: str) -> tuple[str, dict[str, Any]]:
    """The key and the example of one word."""
    return word, {"word": word, "letters": len(word)}


class Lengths(tfds.core.GeneratorBasedBuilder):
    """Words and their lengths."""

    VERSION = tfds.core.Version("1.0.0")

    def _info(self) -> tfds.core.DatasetInfo:
        return tfds.core.DatasetInfo(
            builder=self,
            features=tfds.features.FeaturesDict(
                {"word": tfds.features.Text(), "letters": np.int64}
            ),
        )

    def _split_generators(self, dl_manager: tfds.download.DownloadManager) -> dict[str, Any]:
        return {"train": self._generate_examples(WORDS)}

    def _generate_examples(self, words: tuple[str, ...]) -> Any:
        return beam.Create(words) | beam.Map(example)
