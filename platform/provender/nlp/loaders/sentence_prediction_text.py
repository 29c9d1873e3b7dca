"""Classification and regression of sentences and pairs of them, tokenized while they are read."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

from provender.errors import SettingsError
from provender.nlp.config import DataConfig
from provender.nlp.loaders.base import (
    ConfiguredLoader,
    Range,
    check_file_type,
    check_lengths,
    ints,
    narrow,
    spec,
)
from provender.nlp.loaders.preprocessing import Preprocessor, check_way
from provender.nlp.loaders.segments import check_room
from provender.nlp.loaders.sentence_prediction import (
    check_label_type,
    label_feature,
    label_spec,
)
from provender.nlp.loaders.text_features import (
    check_text_source,
    preprocessor_of,
    text_reader,
    texts_of,
    tfds_specs,
)
from provender.nlp.loaders.vocabulary import check_tokenization
from provender.nlp.registry import register_data_loader_cls

_ROWS = ("input_word_ids", "input_mask", "input_type_ids")


@dataclasses.dataclass
class SentencePredictionTextDataConfig(DataConfig):
    """What `SentencePredictionTextDataLoader` reads, and how it is tokenized.

    Attributes:
        seq_length: tokens of a row.
        label_type: ``int`` for classes, ``float`` for regression.
        text_fields: features with the text, one segment each. Must be given.
        label_field: the feature with the label.
        include_example_id: hand on example_id.
        tokenization: ``WordPiece`` or ``SentencePiece``.
        vocab_file: the vocabulary or the SentencePiece model.
        lower_case: lower-case and strip accents.
        preprocessing_hub_module_url: a preprocessing SavedModel in place of ``vocab_file``.
        file_type: ``tfrecord`` or ``tfrecord_compressed`` (gzip).
    """

    input_path: str | list[str] | dict[str, str | list[str]] = ""
    global_batch_size: int = 32
    is_training: bool | None = True
    seq_length: int = 128
    label_type: str = "int"
    text_fields: list[str] | None = None
    label_field: str = "label"
    include_example_id: bool = False
    tokenization: str = "WordPiece"
    vocab_file: str = ""
    lower_case: bool = True
    preprocessing_hub_module_url: str = ""
    file_type: str = "tfrecord"


@register_data_loader_cls(SentencePredictionTextDataConfig)
class SentencePredictionTextDataLoader(ConfiguredLoader):
    """Batches of sentences, or pairs, with a label. Of TFDS every other feature is handed on.

    Raises:
        SettingsError: not exactly one source, no text_fields, not exactly one of vocab_file and
            preprocessing_hub_module_url, an unknown tokenization, file_type or label_type.
    """

    def check(self) -> None:
        params = self._params
        check_tokenization(params.tokenization)
        check_file_type(params.file_type)
        check_label_type(params.label_type)
        check_text_source(params)
        if not params.text_fields:
            raise SettingsError(
                "text_fields are not given.",
                where="text_fields",
                hint="Name the features with the text, such as [premise, hypothesis].",
            )
        check_way(params.vocab_file, params.preprocessing_hub_module_url)
        check_lengths(params, ("seq_length",))
        check_room(params.seq_length, len(params.text_fields))

    def features(self) -> dict[str, Any]:
        """Name -> what a record of a file or version holds."""
        import tensorflow as tf

        params = self._params
        found = {name: tf.io.FixedLenFeature([], tf.string) for name in params.text_fields}
        found[params.label_field] = label_feature(params.label_type)
        if params.include_example_id:
            found["example_id"] = ints()
        return found

    def load(self, input_context: Any = None) -> Any:
        """Batches; see `DataLoader.load`."""
        params = self._params
        preprocess = preprocessor_of(params, params.tokenization)
        reader = text_reader(
            params, self.features(), lambda example: self._rows(preprocess, example)
        )
        return reader.read(input_context)

    def _rows(self, preprocess: Preprocessor, example: Mapping[str, Any]) -> dict[str, Any]:
        names = self._params.text_fields
        rows = preprocess(texts_of(example, names))
        others = {name: narrow(value) for name, value in example.items() if name not in names}
        return {**others, **dict(zip(_ROWS, rows, strict=True))}

    def element_spec(self) -> dict[str, Any]:
        params = self._params
        found = {name: spec("int32", params.seq_length) for name in _ROWS}
        if params.tfds_name:
            others = {
                name: spec("int32" if each.dtype.name == "int64" else each.dtype.name, *each.shape)
                for name, each in tfds_specs(params).items()
                if name not in params.text_fields
            }
            return {**others, **found}
        found[params.label_field] = label_spec(params.label_type)
        if params.include_example_id:
            found["example_id"] = spec("int32")
        return found

    def value_ranges(self) -> dict[str, Range]:
        last = len(self._params.text_fields) - 1
        return {
            "input_word_ids": (0, None),
            "input_mask": (0, 1),
            "input_type_ids": (0, last),
        }
