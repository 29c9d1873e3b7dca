"""Masked language model pretraining data with fixed lengths, as `create_pretraining_data` writes it."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

from provender.nlp.config import DataConfig
from provender.nlp.loaders.base import (
    FeatureLoader,
    Range,
    check_file_type,
    check_lengths,
    ints,
    masked_lm_spec,
    narrow,
    spec,
)
from provender.nlp.packing.dataset import packed_spec, room_of
from provender.nlp.packing.fields import Fields, bert_fields
from provender.nlp.packing.fit import Room
from provender.nlp.packing.loading import packing_reader
from provender.nlp.registry import register_data_loader_cls

_V1 = {"input_word_ids": "input_ids", "input_type_ids": "segment_ids"}
"""Output -> the name it had in files of the first kind."""


@dataclasses.dataclass
class BertPretrainDataConfig(DataConfig):
    """What `BertPretrainDataLoader` reads.

    Attributes:
        seq_length: tokens of a record; that of the files.
        max_predictions_per_seq: mask slots of a record; that of the files.
        use_next_sentence_label: whether there are next sentence labels.
        use_position_id: whether records hold position ids.
        use_v2_feature_names: records say input_word_ids and input_type_ids, not input_ids and
            segment_ids.
        file_type: ``tfrecord`` or ``tfrecord_compressed`` (gzip).
    """

    input_path: str | list[str] | dict[str, str | list[str]] = ""
    global_batch_size: int = 512
    is_training: bool | None = True
    seq_length: int = 512
    max_predictions_per_seq: int = 76
    use_next_sentence_label: bool = True
    use_position_id: bool = False
    use_v2_feature_names: bool = False
    file_type: str = "tfrecord"


@register_data_loader_cls(BertPretrainDataConfig)
class BertPretrainDataLoader(FeatureLoader):
    """Batches of pretraining records; with ``packing``, several to a row.

    Raises:
        SettingsError: a length below 1, or an unknown file_type.
    """

    def check(self) -> None:
        check_file_type(self._params.file_type)
        check_lengths(self._params, ("seq_length", "max_predictions_per_seq"))
        if self._params.packing is not None:
            self._room()

    def packing_fields(self) -> Fields:
        params = self._params
        return bert_fields(
            next_sentence=params.use_next_sentence_label, position_ids=params.use_position_id
        )

    def _room(self) -> Room:
        params = self._params
        return room_of(
            params.packing,
            seq_length=params.seq_length,
            max_predictions_per_seq=params.max_predictions_per_seq,
        )

    def load(self, input_context: Any = None) -> Any:
        if self._params.packing is None:
            return super().load(input_context)
        return packing_reader(
            self._params, self.features(), self.assemble, self.packing_fields(), self._room()
        ).read(input_context)

    def features(self) -> dict[str, Any]:
        import tensorflow as tf

        params = self._params
        seq, slots = params.seq_length, params.max_predictions_per_seq
        named = {} if params.use_v2_feature_names else _V1
        found = {
            **{
                named.get(each, each): ints(seq)
                for each in ("input_word_ids", "input_mask", "input_type_ids")
            },
            "masked_lm_positions": ints(slots),
            "masked_lm_ids": ints(slots),
            "masked_lm_weights": tf.io.FixedLenFeature([slots], tf.float32),
        }
        if params.use_next_sentence_label:
            found["next_sentence_labels"] = ints(1)
        if params.use_position_id:
            found["position_ids"] = ints(seq)
        return found

    def assemble(self, decoded: Mapping[str, Any]) -> dict[str, Any]:
        new = {} if self._params.use_v2_feature_names else {old: out for out, old in _V1.items()}
        return {new.get(name, name): narrow(value) for name, value in decoded.items()}

    def element_spec(self) -> dict[str, Any]:
        params = self._params
        found = masked_lm_spec(params.seq_length, params.max_predictions_per_seq)
        if params.use_next_sentence_label:
            found["next_sentence_labels"] = spec("int32", 1)
        if params.use_position_id:
            found["position_ids"] = spec("int32", params.seq_length)
        if params.packing is not None:
            return packed_spec(found, self.packing_fields(), self._room())
        return found

    def value_ranges(self) -> dict[str, Range]:
        packed = self._params.packing is not None
        last = (self._room().tokens if packed else self._params.seq_length) - 1
        return {
            "input_word_ids": (0, None),
            "input_mask": (0, 1),
            "input_type_ids": (0, None),
            "masked_lm_positions": (0, last),
            "masked_lm_ids": (0, None),
            "masked_lm_weights": (0, 1),
            "next_sentence_labels": (0, 1),
        }
