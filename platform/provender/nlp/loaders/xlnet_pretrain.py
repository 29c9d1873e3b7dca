"""XLNet's permutation language model, from the files of `create_xlnet_pretraining_data`."""

from __future__ import annotations

import dataclasses
import logging
from typing import Any

from provender.errors import SettingsError
from provender.nlp.config import DataConfig
from provender.nlp.loaders.base import (
    ConfiguredLoader,
    Range,
    check_lengths,
    ints,
    narrow,
    spec,
)
from provender.nlp.loaders.batching import (
    DecodedBatches,
    full_batches,
    reading_whole_batches,
    rebatched,
    rows_of,
    with_seeds,
)
from provender.nlp.loaders.permutation import attention, targets
from provender.nlp.loaders.spans import STRATEGIES, Spans, choose
from provender.nlp.registry import register_data_loader_cls

_CHUNK = 64
"""Rows masked together: what is in between holds several times their [L, L] masks."""

_LOG = logging.getLogger("provender.nlp")


@dataclasses.dataclass
class XLNetPretrainDataConfig(DataConfig):
    """What `XLNetPretrainDataLoader` reads, and what is predicted.

    Attributes:
        seq_length: tokens of a record.
        max_predictions_per_seq: most tokens of a record that are predicted.
        reuse_length: tokens of the first part, which has an order of its own; 0 for one part.
        sample_strategy: ``single_token``, ``whole_word``, ``token_span`` or ``word_span``.
        min_num_tokens: least tokens of a span of tokens.
        max_num_tokens: most tokens of a span of tokens.
        min_num_words: least words of a span of words.
        max_num_words: most words of a span of words.
        permutation_size: tokens that are put in random order together.
        leak_ratio: how often a predicted token is seen by all, itself included.
        segment_sep_id: id of [SEP], never predicted.
        segment_cls_id: id of [CLS], never predicted.
    """

    global_batch_size: int = 512
    is_training: bool | None = True
    seq_length: int = 512
    max_predictions_per_seq: int = 76
    reuse_length: int = 256
    sample_strategy: str = "word_span"
    min_num_tokens: int = 1
    max_num_tokens: int = 5
    min_num_words: int = 1
    max_num_words: int = 5
    permutation_size: int = 256
    leak_ratio: float = 0.1
    segment_sep_id: int = 4
    segment_cls_id: int = 3


class UnknownStrategy(SettingsError, NotImplementedError):
    """A sample_strategy that there is not."""


@register_data_loader_cls(XLNetPretrainDataConfig)
class XLNetPretrainDataLoader(ConfiguredLoader):
    """Batches with targets and the mask of who may attend whom.

    Raises:
        UnknownStrategy: of sample_strategy (a NotImplementedError, too).
        SettingsError: lengths that do not fit one another.
    """

    def check(self) -> None:
        params = self._params
        check_lengths(params, ("seq_length", "max_predictions_per_seq", "permutation_size"))
        if params.sample_strategy not in STRATEGIES:
            raise UnknownStrategy(
                f"Unsupported sample_strategy: {params.sample_strategy!r}.",
                where="sample_strategy",
                hint=f"Use one of {', '.join(STRATEGIES)}.",
            )
        self._check_parts()
        for kind in ("tokens", "words"):
            least = getattr(params, f"min_num_{kind}")
            most = getattr(params, f"max_num_{kind}")
            if not 1 <= least <= most:
                raise SettingsError(
                    f"Spans have {least} to {most} {kind}.",
                    where=f"min_num_{kind}",
                    hint=f"Use 1 <= min_num_{kind} <= max_num_{kind}.",
                )

    def _check_parts(self) -> None:
        params = self._params
        reuse, size = params.reuse_length, params.permutation_size
        if not 0 <= reuse < params.seq_length:
            raise SettingsError(
                f"reuse_length is {reuse}, and seq_length {params.seq_length}.",
                where="reuse_length",
                hint="Use 0, or less than seq_length.",
            )
        parts = {"reuse_length": reuse, "seq_length - reuse_length": params.seq_length - reuse}
        if reuse and size > reuse:
            _LOG.warning("permutation_size %d is above reuse_length %d.", size, reuse)
        for name, length in parts.items():
            if length % size:
                raise SettingsError(
                    f"{name} is {length}, which is no multiple of permutation_size {size}.",
                    where="permutation_size",
                    hint="Use a permutation_size that divides both parts of the sequence.",
                )

    def features(self) -> dict[str, Any]:
        """Name -> what a record holds."""
        import tensorflow as tf

        seq = self._params.seq_length
        return {
            "input_word_ids": ints(seq),
            "input_type_ids": ints(seq),
            "boundary_indices": tf.io.RaggedFeature(tf.int64),
        }

    def load(self, input_context: Any = None) -> Any:
        """Batches; see `DataLoader.load`."""
        params = self._params

        def batched(decoded: DecodedBatches, context: Any) -> Any:
            rows = rows_of(params, context)
            chunk = min(rows, _CHUNK)
            data = with_seeds(decoded(chunk), params.seed, context, self._predicted)
            if chunk == rows:
                return full_batches(data, rows, params)
            return rebatched(data, rows, params)

        return reading_whole_batches(params, self.features(), batched).read(input_context)

    def _predicted(self, seed: Any, decoded: Any) -> dict[str, Any]:
        import tensorflow as tf

        params = self._params
        choice, order = (tf.random.split(seed, 2)[each] for each in range(2))
        ids = narrow(decoded["input_word_ids"])
        functional = (ids == params.segment_sep_id) | (ids == params.segment_cls_id)
        boundaries = tf.cast(decoded["boundary_indices"], tf.int32)
        predicted = choose(boundaries, tf.logical_not(functional), self._spans(), choice)
        wanted = targets(ids, predicted, params.max_predictions_per_seq)
        return {
            "input_word_ids": ids,
            "input_type_ids": narrow(decoded["input_type_ids"]),
            "permutation_mask": attention(
                predicted,
                permutation_size=params.permutation_size,
                reuse_length=params.reuse_length,
                leak_ratio=params.leak_ratio,
                seed=order,
            ),
            "masked_tokens": predicted,
            "target_mapping": wanted.mapping,
            "target": wanted.ids,
            "target_mask": wanted.mask,
        }

    def _spans(self) -> Spans:
        params = self._params
        words = params.sample_strategy == "word_span"
        return Spans(
            params.sample_strategy,
            params.max_predictions_per_seq,
            params.min_num_words if words else params.min_num_tokens,
            params.max_num_words if words else params.max_num_tokens,
        )

    def element_spec(self) -> dict[str, Any]:
        seq, slots = self._params.seq_length, self._params.max_predictions_per_seq
        return {
            "input_word_ids": spec("int32", seq),
            "input_type_ids": spec("int32", seq),
            "permutation_mask": spec("int32", seq, seq),
            "masked_tokens": spec("bool", seq),
            "target_mapping": spec("int32", slots, seq),
            "target": spec("int32", slots),
            "target_mask": spec("int32", slots),
        }

    def value_ranges(self) -> dict[str, Range]:
        return {
            "input_word_ids": (0, None),
            "input_type_ids": (0, None),
            "permutation_mask": (0, 1),
            "target_mapping": (0, 1),
            "target": (0, None),
            "target_mask": (0, 1),
        }
