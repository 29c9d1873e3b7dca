"""Token labels: named entities, parts of speech."""

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
    narrow,
    spec,
)
from provender.nlp.registry import register_data_loader_cls

_IDS = ("sentence_id", "sub_sentence_id")
_INPUTS = {
    "input_word_ids": "input_ids",
    "input_mask": "input_mask",
    "input_type_ids": "segment_ids",
}


@dataclasses.dataclass
class TaggingDataConfig(DataConfig):
    """What `TaggingDataLoader` reads. ``global_batch_size`` must be set.

    Attributes:
        seq_length: tokens of a record.
        include_sentence_id: hand on sentence_id and sub_sentence_id, which tell the pieces of a
            long sentence.
        file_type: ``tfrecord`` or ``tfrecord_compressed`` (gzip).
    """

    is_training: bool | None = True
    seq_length: int = 128
    include_sentence_id: bool = False
    file_type: str = "tfrecord"


@register_data_loader_cls(TaggingDataConfig)
class TaggingDataLoader(FeatureLoader):
    """Batches ``(inputs, labels)``; the label -1 is to be ignored.

    Raises:
        SettingsError: a length below 1, or an unknown file_type.
    """

    def check(self) -> None:
        check_file_type(self._params.file_type)
        check_lengths(self._params, ("seq_length",))

    def features(self) -> dict[str, Any]:
        seq = self._params.seq_length
        found = {name: ints(seq) for name in (*_INPUTS.values(), "label_ids")}
        if self._params.include_sentence_id:
            found.update({name: ints() for name in _IDS})
        return found

    def assemble(self, decoded: Mapping[str, Any]) -> tuple[dict[str, Any], Any]:
        inputs = {out: narrow(decoded[name]) for out, name in _INPUTS.items()}
        if self._params.include_sentence_id:
            inputs.update({name: narrow(decoded[name]) for name in _IDS})
        return inputs, narrow(decoded["label_ids"])

    def element_spec(self) -> tuple[dict[str, Any], Any]:
        seq = self._params.seq_length
        inputs = {name: spec("int32", seq) for name in _INPUTS}
        if self._params.include_sentence_id:
            inputs.update({name: spec("int32") for name in _IDS})
        return inputs, spec("int32", seq)

    def value_ranges(self) -> dict[str, Range]:
        return {
            "x.input_word_ids": (0, None),
            "x.input_mask": (0, 1),
            "x.input_type_ids": (0, None),
            "y": (-1, None),
        }
