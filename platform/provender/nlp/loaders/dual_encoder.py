"""Pairs of texts that two towers encode: retrieval, bitext mining."""

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
    spec,
)
from provender.nlp.loaders.preprocessing import Preprocessor, check_way
from provender.nlp.loaders.segments import check_room
from provender.nlp.loaders.text_features import (
    check_text_source,
    preprocessor_of,
    text_reader,
    texts_of,
)
from provender.nlp.loaders.vocabulary import WORDPIECE
from provender.nlp.registry import register_data_loader_cls

_ROWS = ("word_ids", "mask", "type_ids")


@dataclasses.dataclass
class DualEncoderDataConfig(DataConfig):
    """What `DualEncoderDataLoader` reads, and how it is tokenized.

    Attributes:
        vocab_file: WordPiece vocabulary, one piece a line.
        preprocessing_hub_module_url: a preprocessing SavedModel in place of ``vocab_file``.
        lower_case: lower-case and strip accents.
        left_text_fields: features of the left text, one segment each.
        right_text_fields: features of the right text, one segment each.
        seq_length: tokens of each text.
        file_type: ``tfrecord`` or ``tfrecord_compressed`` (gzip).
    """

    input_path: str | list[str] | dict[str, str | list[str]] = ""
    global_batch_size: int = 32
    vocab_file: str = ""
    preprocessing_hub_module_url: str = ""
    lower_case: bool = True
    left_text_fields: tuple[str, ...] = ("left_input",)
    right_text_fields: tuple[str, ...] = ("right_input",)
    is_training: bool | None = True
    seq_length: int = 128
    file_type: str = "tfrecord"


@register_data_loader_cls(DualEncoderDataConfig)
class DualEncoderDataLoader(ConfiguredLoader):
    """Batches of pairs: ``left_word_ids``, ``left_mask``, ``left_type_ids`` and the same of right.

    Raises:
        SettingsError: not exactly one source, no text fields of a side, not exactly one of
            vocab_file and preprocessing_hub_module_url, an unknown file_type.
    """

    def check(self) -> None:
        params = self._params
        check_text_source(params)
        check_way(params.vocab_file, params.preprocessing_hub_module_url)
        check_file_type(params.file_type)
        check_lengths(params, ("seq_length",))
        for side, names in self._sides().items():
            if not names:
                raise SettingsError(
                    f"{side}_text_fields are not given.",
                    where=f"{side}_text_fields",
                    hint="Name the features with the text.",
                )
            check_room(params.seq_length, len(names))

    def _sides(self) -> dict[str, tuple[str, ...]]:
        return {"left": self._params.left_text_fields, "right": self._params.right_text_fields}

    def features(self) -> dict[str, Any]:
        """Name -> what a record of a file or version holds."""
        import tensorflow as tf

        names = [name for side in self._sides().values() for name in side]
        return {name: tf.io.FixedLenFeature([], tf.string) for name in names}

    def load(self, input_context: Any = None) -> Any:
        """Batches; see `DataLoader.load`."""
        params = self._params
        preprocess = preprocessor_of(params, WORDPIECE)
        reader = text_reader(
            params, self.features(), lambda example: self._pairs(preprocess, example)
        )
        return reader.read(input_context)

    def _pairs(self, preprocess: Preprocessor, example: Mapping[str, Any]) -> dict[str, Any]:
        found = {}
        for side, names in self._sides().items():
            rows = preprocess(texts_of(example, names))
            found.update({f"{side}_{name}": row for name, row in zip(_ROWS, rows, strict=True)})
        return found

    def element_spec(self) -> dict[str, Any]:
        seq = self._params.seq_length
        return {f"{side}_{name}": spec("int32", seq) for side in self._sides() for name in _ROWS}

    def value_ranges(self) -> dict[str, Range]:
        found: dict[str, Range] = {}
        for side, names in self._sides().items():
            found[f"{side}_word_ids"] = (0, None)
            found[f"{side}_mask"] = (0, 1)
            found[f"{side}_type_ids"] = (0, len(names) - 1)
        return found
