"""A data loader of one's own: reviews with stars and a share of helpful votes.

Copy this file, and change what is marked with CHANGE. Check it with
`provender nlp check-loader my_loader.yaml --loader my_loader.py:ReviewDataConfig`.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

from provender.errors import SettingsError
from provender.nlp.config import DataConfig
from provender.nlp.loaders.base import FeatureLoader, Range, check_lengths, ints, narrow, spec
from provender.nlp.registry import register_data_loader_cls


# CHANGE: everything the loader needs to know is a field with a default. Nothing else reaches a
# TPU host: no global variable, no environment, no path relative to a working directory.
@dataclasses.dataclass
class ReviewDataConfig(DataConfig):
    """What `ReviewDataLoader` reads.

    Attributes:
        seq_length: tokens of a review.
        least_votes: votes below which a review is left out.
    """

    global_batch_size: int = 32
    is_training: bool | None = True
    seq_length: int = 128
    least_votes: int = 0


@register_data_loader_cls(ReviewDataConfig)
class ReviewDataLoader(FeatureLoader):
    """Batches of reviews: ``(inputs, stars)``."""

    def check(self) -> None:
        # CHANGE: refuse what cannot work, before anything is opened.
        check_lengths(self._params, ("seq_length",))
        if self._params.least_votes < 0:
            raise SettingsError(
                f"least_votes is {self._params.least_votes}.",
                where="least_votes",
                hint="Use 0 or more.",
            )

    def features(self) -> dict[str, Any]:
        # CHANGE: what a record holds.
        import tensorflow as tf

        return {
            "input_ids": ints(self._params.seq_length),
            "stars": ints(),
            "votes": ints(),
            "helpful": tf.io.FixedLenFeature([], tf.float32),
        }

    def assemble(self, decoded: Mapping[str, Any]) -> tuple[dict[str, Any], Any]:
        # CHANGE: what becomes of it. This runs on a whole batch, or on one record where
        # record_filter is defined; so use operations that do not mind a leading dimension.
        import tensorflow as tf

        ids = narrow(decoded["input_ids"])
        inputs = {
            "input_word_ids": ids,
            "input_mask": tf.cast(ids > 0, tf.int32),
            "votes": narrow(decoded["votes"]),
            "helpful": decoded["helpful"],
        }
        return inputs, narrow(decoded["stars"])

    def record_filter(self) -> Any:
        # CHANGE, or delete: without it records are parsed a batch at a time, for a fraction of
        # the CPU time.
        least = self._params.least_votes
        return (lambda inputs, stars: inputs["votes"] >= least) if least else None

    def element_spec(self) -> tuple[dict[str, Any], Any]:
        # CHANGE: what load gives, told from the configuration alone. `spec` leaves the number of
        # rows open.
        seq = self._params.seq_length
        inputs = {
            "input_word_ids": spec("int32", seq),
            "input_mask": spec("int32", seq),
            "votes": spec("int32"),
            "helpful": spec("float32"),
        }
        return inputs, spec("int32")

    def value_ranges(self) -> dict[str, Range]:
        # CHANGE: least and greatest values; x. are the inputs and y the target.
        return {
            "x.input_word_ids": (0, None),
            "x.input_mask": (0, 1),
            "x.votes": (self._params.least_votes, None),
            "x.helpful": (0, 1),
            "y": (1, 5),
        }
