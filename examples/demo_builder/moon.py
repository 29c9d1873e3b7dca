"""A dataset that is cut by time, one version a day: how much of the moon is lit, hour by hour."""

import math
from datetime import UTC, datetime, timedelta

import numpy as np
import tensorflow_datasets as tfds

NEW_MOON = datetime(2000, 1, 6, 18, 14, tzinfo=UTC)
MONTH = timedelta(days=29.530588853)


def lit(moment):
    """The share of the moon that is lit, from the mean length of its months: right to a day."""
    return (1 - math.cos(math.tau * ((moment - NEW_MOON) / MONTH))) / 2


class Moon(tfds.core.GeneratorBasedBuilder):
    """The moon of one day."""

    VERSION = tfds.core.Version("1.0.0")
    PARTITIONED_BY = "day"

    def _info(self):
        return tfds.core.DatasetInfo(
            builder=self,
            features=tfds.features.FeaturesDict({"hour": np.int64, "lit": np.float32}),
        )

    def _split_generators(self, dl_manager):
        return {"train": self._generate_examples(self.builder_config.start)}

    def _generate_examples(self, start):
        for hour in range(24):
            yield hour, {"hour": hour, "lit": lit(start + timedelta(hours=hour))}
