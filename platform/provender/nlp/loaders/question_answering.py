"""Questions whose answer is a span of a passage (SQuAD)."""

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

_RENAMED = {"input_ids": "input_word_ids", "segment_ids": "input_type_ids"}
_ANSWER = ("start_positions", "end_positions")


@dataclasses.dataclass
class QADataConfig(DataConfig):
    """What `QuestionAnsweringDataLoader` reads, and how the records were made.

    Attributes:
        seq_length: tokens of a record.
        version_2_with_negative: there are questions without an answer (SQuAD 2).
        input_preprocessed_data_path: folder for records made of raw evaluation data.
        doc_stride: tokens from one window of a passage to the next.
        query_length: most tokens of a question.
        vocab_file: of the tokenizer that made the records.
        tokenization: ``WordPiece`` or ``SentencePiece``.
        do_lower_case: whether the records are lower-cased.
        xlnet_format: records are laid out for XLNet, with class_index and paragraph_mask.
        file_type: ``tfrecord`` or ``tfrecord_compressed`` (gzip).
    """

    global_batch_size: int = 48
    is_training: bool | None = True
    seq_length: int = 384
    version_2_with_negative: bool = False
    input_preprocessed_data_path: str = ""
    doc_stride: int = 128
    query_length: int = 64
    vocab_file: str = ""
    tokenization: str = "WordPiece"
    do_lower_case: bool = True
    xlnet_format: bool = False
    file_type: str = "tfrecord"


@register_data_loader_cls(QADataConfig)
class QuestionAnsweringDataLoader(FeatureLoader):
    """Batches ``(inputs, answers)``; in evaluation answers are ``{}`` and inputs have unique_ids.

    Raises:
        SettingsError: a length below 1, or an unknown file_type.
    """

    def check(self) -> None:
        check_file_type(self._params.file_type)
        check_lengths(self._params, ("seq_length",))

    def features(self) -> dict[str, Any]:
        params = self._params
        seq = params.seq_length
        found = {name: ints(seq) for name in ("input_ids", "input_mask", "segment_ids")}
        if params.xlnet_format:
            found.update(class_index=ints(), paragraph_mask=ints(seq))
            if params.is_training:
                found["is_impossible"] = ints()
        names = _ANSWER if params.is_training else ("unique_ids",)
        return {**found, **{name: ints() for name in names}}

    def assemble(self, decoded: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
        inputs, answers = self._split({name: narrow(each) for name, each in decoded.items()})
        return inputs, answers

    def element_spec(self) -> tuple[dict[str, Any], dict[str, Any]]:
        return self._split(
            {name: spec("int32", *feature.shape) for name, feature in self.features().items()}
        )

    def _split(self, values: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
        of_answer = (*_ANSWER, "is_impossible")
        inputs = {
            _RENAMED.get(name, name): value
            for name, value in values.items()
            if name not in of_answer
        }
        answers = {name: value for name, value in values.items() if name in of_answer}
        if self._params.xlnet_format and self._params.is_training:
            # XLNet predicts the end of the answer from its start.
            inputs["start_positions"] = values["start_positions"]
        return inputs, answers

    def value_ranges(self) -> dict[str, Range]:
        last = self._params.seq_length - 1
        return {
            "x.input_word_ids": (0, None),
            "x.input_mask": (0, 1),
            "x.input_type_ids": (0, None),
            "x.paragraph_mask": (0, 1),
            "x.class_index": (0, last),
            "x.start_positions": (0, last),
            "y.start_positions": (0, last),
            "y.end_positions": (0, last),
            "y.is_impossible": (0, 1),
        }
