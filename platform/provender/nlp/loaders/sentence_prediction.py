"""Classification and regression of sentences and pairs of them, from tokenized records."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

from provender.errors import SettingsError
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

LABEL_TYPES = ("int", "float")
_INPUTS = {
    "input_word_ids": "input_ids",
    "input_mask": "input_mask",
    "input_type_ids": "segment_ids",
}


@dataclasses.dataclass
class SentencePredictionDataConfig(DataConfig):
    """What `SentencePredictionDataLoader` reads.

    Attributes:
        seq_length: tokens of a record.
        label_type: ``int`` for classes, ``float`` for regression.
        include_example_id: hand on example_id.
        label_field: the feature with the label.
        label_name: ``(from, to)``: hand on the label ``from`` as ``to``, too.
        file_type: ``tfrecord`` or ``tfrecord_compressed`` (gzip).
    """

    input_path: str | list[str] | dict[str, str | list[str]] = ""
    global_batch_size: int = 32
    is_training: bool | None = True
    seq_length: int = 128
    label_type: str = "int"
    include_example_id: bool = False
    label_field: str = "label_ids"
    label_name: tuple[str, str] | None = None
    file_type: str = "tfrecord"


def check_label_type(label_type: str) -> None:
    """Raises SettingsError where the type is neither of classes nor of regression."""
    if label_type not in LABEL_TYPES:
        raise SettingsError(
            f"Unsupported label_type: {label_type!r}.",
            where="label_type",
            hint=f"Use {' or '.join(LABEL_TYPES)}.",
        )


def label_feature(label_type: str) -> Any:
    """How the label of a record is decoded: a scalar."""
    import tensorflow as tf

    return ints() if label_type == "int" else tf.io.FixedLenFeature([], tf.float32)


def label_spec(label_type: str) -> Any:
    """What the label is in a batch."""
    return spec("int32" if label_type == "int" else "float32")


@register_data_loader_cls(SentencePredictionDataConfig)
class SentencePredictionDataLoader(FeatureLoader):
    """Batches of sentences, or pairs, with a label.

    Raises:
        SettingsError: a length below 1, an unknown file_type or label_type.
    """

    def check(self) -> None:
        check_file_type(self._params.file_type)
        check_lengths(self._params, ("seq_length",))
        check_label_type(self._params.label_type)

    def features(self) -> dict[str, Any]:
        params = self._params
        found = {name: ints(params.seq_length) for name in _INPUTS.values()}
        found[params.label_field] = label_feature(params.label_type)
        if params.include_example_id:
            found["example_id"] = ints()
        return found

    def assemble(self, decoded: Mapping[str, Any]) -> dict[str, Any]:
        found = {out: narrow(decoded[name]) for out, name in _INPUTS.items()}
        if self._params.include_example_id:
            found["example_id"] = narrow(decoded["example_id"])
        return {**found, **self._labels(narrow(decoded[self._params.label_field]))}

    def _labels(self, label: Any) -> dict[str, Any]:
        params = self._params
        found = {params.label_field: label}
        if params.label_name and params.label_name[0] == params.label_field:
            found[params.label_name[1]] = label
        return found

    def element_spec(self) -> dict[str, Any]:
        params = self._params
        found = {name: spec("int32", params.seq_length) for name in _INPUTS}
        if params.include_example_id:
            found["example_id"] = spec("int32")
        return {**found, **self._labels(label_spec(params.label_type))}

    def value_ranges(self) -> dict[str, Range]:
        found: dict[str, Range] = {
            "input_word_ids": (0, None),
            "input_mask": (0, 1),
            "input_type_ids": (0, None),
        }
        if self._params.label_type == "int":
            found.update(dict.fromkeys(self._labels(None), (0, None)))
        return found
