"""What the loaders of this package have in common."""

from __future__ import annotations

import abc
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from provender.errors import SettingsError
from provender.nlp.config import DataConfig
from provender.nlp.packing.fields import Fields
from provender.nlp.reader import InputReader
from provender.nlp.reader.files import dataset_fn_of
from provender.nlp.registry import DataLoader

Range = tuple[float | None, float | None]
"""Least and greatest value, both allowed; None has no limit."""


class ConfiguredLoader(DataLoader):
    """A data loader that is made from its configuration and from nothing else.

    On a TPU pod every host makes its own loader and runs the whole `load`. So a loader keeps no
    state between calls and reads nothing that its configuration does not name.

    Args:
        params: the configuration.

    Raises:
        SettingsError: the configuration contradicts itself; see the loader's class.
    """

    def __init__(self, params: Any) -> None:
        self._params = params
        self.check()
        if params.packing is not None and self.packing_fields() is None:
            raise SettingsError(
                f"{type(self).__name__} cannot pack several examples into a row.",
                where="packing",
                hint="Leave packing out, or pack its examples with provender.nlp.packing.",
            )

    def check(self) -> None:
        """Refuses configurations that cannot work; called once, nothing has been opened yet."""

    def packing_fields(self) -> Fields | None:
        """The outputs' roles in a packed row; None where the loader offers no packing."""
        return None

    def value_ranges(self) -> Mapping[str, Range]:
        """Limits of the values of some outputs, by name; of a nested one ``x.name``.

        `provender nlp check-loader` compares batches with it.
        """
        return {}


class FeatureLoader(ConfiguredLoader):
    """A loader of records with declared features, each of which becomes one row.

    Subclasses say what a record holds and what becomes of it. Records are batched first and a
    whole batch is parsed at once, unless `record_filter` has to see single ones; rows are the
    same either way.
    """

    @abc.abstractmethod
    def features(self) -> dict[str, Any]:
        """Name -> `tf.io.FixedLenFeature` of what a record holds."""

    @abc.abstractmethod
    def assemble(self, decoded: Mapping[str, Any]) -> Any:
        """Outputs of decoded features; every tensor may have a leading batch dimension or none."""

    def record_filter(self) -> Callable[[Any], Any] | None:
        """What decides for each assembled row whether it is kept; None keeps all."""
        return None

    def load(self, input_context: Any = None) -> Any:
        """Batches; see `DataLoader.load`."""
        params = self._params
        reader = InputReader(
            params,
            dataset_fn=dataset_fn_of(params.get("file_type", "tfrecord")),
            parser_fn=self.assemble,
            filter_fn=self.record_filter(),
            features=self.features(),
            batch_parser_fn=self.assemble,
        )
        return reader.read(input_context)


def check_file_type(file_type: str) -> None:
    """Raises SettingsError where the type of file is none that is read."""
    dataset_fn_of(file_type)


def check_lengths(params: DataConfig, names: Iterable[str]) -> None:
    """Raises SettingsError where one of these fields is not above 0."""
    for name in names:
        if getattr(params, name) < 1:
            raise SettingsError(
                f"{name} is {getattr(params, name)}.", where=name, hint="Use a number above 0."
            )


def narrow(value: Any) -> Any:
    """The tensor with int32 in place of int64, which TPUs do not have."""
    import tensorflow as tf

    return tf.cast(value, tf.int32) if value.dtype == tf.int64 else value


def ints(*shape: int) -> Any:
    """`tf.io.FixedLenFeature` of int64."""
    import tensorflow as tf

    return tf.io.FixedLenFeature(shape, tf.int64)


def spec(dtype: str, *shape: int | None) -> Any:
    """`tf.TensorSpec` of a batch: any number of rows of this shape."""
    import tensorflow as tf

    return tf.TensorSpec((None, *shape), tf.dtypes.as_dtype(dtype))


def masked_lm_spec(seq: int | None, slots: int | None) -> dict[str, Any]:
    """`tf.TensorSpec` of what every masked language model reads, without next sentence labels.

    Args:
        seq: tokens of a row; None where batches differ.
        slots: masks of a row; None where batches differ.
    """
    return {
        "input_word_ids": spec("int32", seq),
        "input_mask": spec("int32", seq),
        "input_type_ids": spec("int32", seq),
        "masked_lm_positions": spec("int32", slots),
        "masked_lm_ids": spec("int32", slots),
        "masked_lm_weights": spec("float32", slots),
    }
