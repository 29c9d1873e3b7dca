"""The demo's own dataset: the help texts that every Python ships, one example a topic."""

from pydoc_data import topics

import cleaning
import tensorflow_datasets as tfds


class Topics(tfds.core.GeneratorBasedBuilder):
    """Python's help topics, as `help("SLICINGS")` shows them."""

    VERSION = tfds.core.Version("1.0.0")

    def _info(self):
        return tfds.core.DatasetInfo(
            builder=self,
            description="The help topics of the Python language reference.",
            features=tfds.features.FeaturesDict(
                {"topic": tfds.features.Text(), "text": tfds.features.Text()}
            ),
        )

    def _split_generators(self, dl_manager):
        names = sorted(topics.topics)
        return {
            "train": self._generate_examples([n for i, n in enumerate(names) if i % 5]),
            "test": self._generate_examples(names[::5]),
        }

    def _generate_examples(self, names):
        for name in names:
            yield name, {"topic": name, "text": cleaning.clean(topics.topics[name])}
