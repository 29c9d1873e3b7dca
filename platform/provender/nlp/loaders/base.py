"""What the loaders of this package have in common."""

from __future__ import annotations

import abc
import random
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from provender.errors import SettingsError
from provender.nlp.config import DataConfig
from provender.nlp.packing.fields import Fields
from provender.nlp.reader import InputReader
from provender.nlp.reader.files import dataset_fn_of
from provender.nlp.reader.sharing import batch_rows
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


def rows_of(params: DataConfig, input_context: Any) -> int:
    """Rows of one replica's batch."""
    return batch_rows(params.global_batch_size, input_context)


def reading_whole_batches(
    params: DataConfig, features: Mapping[str, Any], transform_and_batch: Callable[..., Any]
) -> InputReader:
    """A reader whose ``transform_and_batch`` gets records as they were read.

    With features alone the reader would decode each record before it; `decoded_batches` decodes
    a whole batch at once. The features still tell the reader what the files must hold.
    """
    return InputReader(
        params,
        dataset_fn=dataset_fn_of(params.get("file_type", "tfrecord")),
        decoder_fn=lambda record: record,
        features=features,
        transform_and_batch_fn=transform_and_batch,
    )


def decoded_batches(
    dataset: Any, features: Mapping[str, Any], rows: int, drop_remainder: bool
) -> Any:
    """Batches of decoded features.

    Args:
        dataset: serialized records, or examples that are decoded already, as TFDS gives them.
        features: name -> how a record is decoded; of a decoded example the same names are taken.
        rows: records of a batch.
        drop_remainder: leave a last, smaller batch out.
    """
    import tensorflow as tf

    def parse(records: Any) -> Any:
        if not isinstance(records, Mapping):
            return tf.io.parse_example(records, dict(features))
        return {name: decoded_feature(records, name) for name in features}

    batches = dataset.batch(rows, drop_remainder=drop_remainder)
    return batches.map(parse, num_parallel_calls=tf.data.AUTOTUNE)


def decoded_feature(example: Mapping[str, Any], name: str) -> Any:
    """A feature of an example by name.

    Raises:
        SettingsError: the example has no such feature.
    """
    if name not in example:
        raise SettingsError(
            f"The data has no feature {name!r}.",
            where=name,
            hint=f"It has {', '.join(sorted(example))}.",
        )
    return example[name]


def with_seeds(
    dataset: Any, seed: int | None, input_context: Any, function: Any, stream: int = 0
) -> Any:
    """Maps ``function(seed, element)``, with another seed for each element of each pipeline.

    With a configured seed the k-th element of a pipeline has the same seed in every run, however
    many threads map; so what `function` draws is the same, too.

    Args:
        dataset: what is mapped.
        seed: of the configuration; None draws one for this run.
        input_context: tells pipelines apart; None for the only one.
        function: (int64 [2], element) -> element.
        stream: another number for each use in one pipeline, so that they draw independently.
    """
    import tensorflow as tf

    base = seed if seed is not None else random.SystemRandom().getrandbits(31)
    base += stream << 40
    count, index = (
        (input_context.num_input_pipelines, input_context.input_pipeline_id)
        if input_context is not None
        else (1, 0)
    )
    return dataset.enumerate().map(
        lambda number, element: function(tf.stack([base, number * count + index]), element),
        num_parallel_calls=tf.data.AUTOTUNE,
    )
