"""From records to examples, and from examples to batches."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from provender.errors import SettingsError
from provender.nlp.config import DataConfig
from provender.nlp.reader.even import Counts, as_many_batches
from provender.nlp.reader.mixtures import Combine
from provender.nlp.reader.parsing import Parsing
from provender.nlp.reader.sharing import batch_rows

Dataset = Any


def examples(
    sources: Mapping[str, Dataset], params: DataConfig, parsing: Parsing, combine: Combine | None
) -> Dataset:
    """Everything up to, and without, batching.

    Args:
        sources: records by source name, shuffled already where they are to be.
        params: the configuration.
        parsing: the functions.
        combine: makes one dataset of several.

    Returns:
        Parsed examples; or records, if they are parsed in batches later.
    """
    train = bool(params.is_training)
    late = parsing.in_batches and not _freezes(params, parsing)
    in_chunks = not late and parsing.in_chunks
    if late or in_chunks:
        # Decoding keeps the number and the order of records, so it may as well come after.
        data = _combined(sources, combine)
        data = parsing.chunked(data) if in_chunks else data
    else:
        decoded = {name: parsing.decode(each) for name, each in sources.items()}
        data = _combined(decoded, combine)
        if parsing.sample_fn is not None:
            data = data.apply(parsing.sample_fn)
        data = parsing.parse(data)
    if parsing.filter_fn is not None:
        data = data.filter(parsing.filter_fn)
    if params.cache:
        data = data.cache()
        if train:
            data = data.repeat().shuffle(params.shuffle_buffer_size, seed=params.seed)
    return data


def _freezes(params: DataConfig, parsing: Parsing) -> bool:
    """Whether the cache must hold what the parser made, which it may have drawn at random."""
    return params.cache and parsing.batch_parser_fn is not None


def _combined(sources: Mapping[str, Dataset], combine: Combine | None) -> Dataset:
    return combine(sources) if combine is not None else next(iter(sources.values()))


def batches(
    data: Dataset,
    params: DataConfig,
    parsing: Parsing,
    input_context: Any,
    counts: Counts | None = None,
) -> Dataset:
    """Batching and what follows.

    Args:
        data: see `examples`.
        params: the configuration.
        parsing: the functions.
        input_context: which pipeline this is.
        counts: records of this pipeline and of others, where hosts evaluate together.

    Raises:
        SettingsError: the batch size cannot be divided among the replicas, or the data is known
            to be smaller than one batch and would all be left out.
    """
    import tensorflow as tf

    if parsing.transform_and_batch_fn is not None:
        data = parsing.transform_and_batch_fn(data, input_context)
    else:
        rows = batch_rows(params.global_batch_size, input_context)
        late = parsing.in_batches and not _freezes(params, parsing)
        if params.packing is not None:
            assert parsing.pack_fn is not None
            data = data.batch(params.packing.buffer_size)
        else:
            # A sample or a filter leaves numbers that no other host knows.
            whole = parsing.sample_fn is None and parsing.filter_fn is None
            data = _batched(data, rows, params, counts if whole else None)
        if late:
            data = data.map(parsing.batch, num_parallel_calls=tf.data.AUTOTUNE)
        if params.packing is not None:
            assert parsing.pack_fn is not None
            data = parsing.pack_fn(data, rows)
    if parsing.postprocess_fn is not None:
        data = data.map(parsing.postprocess_fn, num_parallel_calls=tf.data.AUTOTUNE)
    return data


def _batched(data: Dataset, rows: int, params: DataConfig, counts: Counts | None) -> Dataset:
    if counts is not None:
        return as_many_batches(data, rows, counts)
    if params.is_training or not params.drop_remainder:
        return data.batch(rows, drop_remainder=params.drop_remainder)
    import tensorflow as tf

    # Strategies with remote workers trace pipelines as graphs, where no number is known yet.
    known = int(data.cardinality()) if tf.executing_eagerly() else -1
    if known < 0:
        return _full_batches(data, rows)
    if 0 < known < rows:
        raise SettingsError(
            f"There are {known} examples, fewer than a batch of {rows}: drop_remainder would "
            "leave all of them out.",
            where="drop_remainder",
            hint="Set drop_remainder: false, or a smaller global_batch_size.",
        )
    return data.batch(rows, drop_remainder=True)


def _full_batches(data: Dataset, rows: int) -> Dataset:
    """Full batches only; an error where the data ends before the first one is full."""
    import tensorflow as tf

    spec = data.batch(rows, drop_remainder=True).element_spec
    shapes = [each.shape for each in tf.nest.flatten(spec, expand_composites=True)]

    def keep(number: Any, batch: Any) -> Any:
        size = _rows_of(batch)
        message = tf.strings.format(
            "There are {} examples, fewer than a batch of {}: drop_remainder would leave all of "
            "them out. Set drop_remainder: false, or a smaller global_batch_size.",
            (size, tf.constant(rows)),
        )
        check = tf.debugging.Assert((number > 0) | (size == rows), [message])
        with tf.control_dependencies([check] if check is not None else []):
            return size == rows

    def fixed(number: Any, batch: Any) -> Any:
        del number
        flat = tf.nest.flatten(batch, expand_composites=True)
        flat = [tf.ensure_shape(each, shape) for each, shape in zip(flat, shapes, strict=True)]
        return tf.nest.pack_sequence_as(batch, flat, expand_composites=True)

    return data.batch(rows).enumerate().filter(keep).map(fixed)


def _rows_of(batch: Any) -> Any:
    import tensorflow as tf

    first = tf.nest.flatten(batch)[0]
    if isinstance(first, tf.RaggedTensor):
        return tf.cast(first.nrows(), tf.int32)
    if isinstance(first, tf.SparseTensor):
        return tf.cast(first.dense_shape[0], tf.int32)
    return tf.shape(first)[0]
