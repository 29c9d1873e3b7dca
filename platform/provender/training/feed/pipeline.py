"""The `tf.data` pipeline of a version: records, order, batches, values.

Batches are made of serialized examples and parsed as a whole. What can only be parsed one by one
(images of unknown size, nested datasets) is parsed as TFDS does it.
"""

from __future__ import annotations

import functools
import random
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from provender.errors import BuilderError
from provender.training.feed.options import FeedOptions
from provender.training.feed.parsing import Parser
from provender.training.feed.plan import Piece, cut
from provender.training.feed.routes import Route

Dataset = Any
_CHUNK = 128
"""Examples parsed together where single ones are wanted."""

_FOR_EVER = 1 << 62


def pipeline(
    pieces: Sequence[Piece],
    route: Route,
    parse: Parser,
    options: FeedOptions,
    supervised: Any = None,
) -> Dataset:
    """Builds the pipeline.

    Args:
        pieces: the records, in order.
        route: the way to their files.
        parse: makes tensors of records.
        options: how.
        supervised: structure of feature names that a supervised example has, or None.

    Returns:
        A `tf.data.Dataset`, of which the number of elements is known where it is finite.
    """
    import tensorflow as tf

    examples = sum(len(each) for each in pieces)
    finish = _finisher(options, supervised)
    if parse.batch is not None and options.preprocess is None:
        dataset = _batches(pieces, route, options)
        dataset = dataset.map(_batch_work(parse, finish), num_parallel_calls=_calls(options))
        if options.batch_size is None:
            dataset = _unbatched(dataset)
    else:
        dataset = _one_by_one(_passes(pieces, route, options), parse, options, finish)
    dataset = dataset.apply(tf.data.experimental.assert_cardinality(_count(examples, options)))
    dataset = dataset.prefetch(tf.data.AUTOTUNE if options.prefetch is None else options.prefetch)
    settings = tf.data.Options()
    settings.deterministic = options.deterministic
    # Files are already shared out among pipelines.
    settings.experimental_distribute.auto_shard_policy = tf.data.experimental.AutoShardPolicy.OFF
    # The seeds of shuffles are functions of the pass, so no state outside the iterator is needed to
    # go on from a checkpoint.
    settings.experimental_external_state_policy = tf.data.experimental.ExternalStatePolicy.IGNORE
    return dataset.with_options(settings)


def _unbatched(dataset: Dataset) -> Dataset:
    """Single examples, of the types that TFDS gives."""
    import tensorflow as tf

    dataset = dataset.unbatch()
    spec = dataset.element_spec
    # A row of a ragged batch is a tensor that calls itself ragged, which `padded_batch` refuses.
    if not any(
        isinstance(each, tf.RaggedTensorSpec) and not each.ragged_rank
        for each in tf.nest.flatten(spec)
    ):
        return dataset

    def same(*values: Any) -> Any:
        return values if isinstance(spec, tuple) else values[0]

    return dataset.map(tf.autograph.experimental.do_not_convert(same))


def _batches(pieces: Sequence[Piece], route: Route, options: FeedOptions) -> Dataset:
    """Batches of serialized examples of all passes."""
    size = options.batch_size or _CHUNK
    drop = options.drop_remainder and options.batch_size is not None
    in_order = options.cycle_length == 1 and not options.shuffle and not options.shuffle_files
    if in_order and route.in_blocks:
        return _passes(pieces, route, options, size).rebatch(size, drop)
    return _passes(pieces, route, options).batch(size, drop)


def _batch_work(parse: Parser, finish: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """What is done with a batch of records."""
    import tensorflow as tf

    def work(records: Any) -> Any:
        return finish(parse.batch(records))  # type: ignore[misc]

    if parse.decodes:
        return work
    # Nothing here branches on a tensor, and to find that out AutoGraph rewrites the source of all
    # that is called: half a second before the first batch.
    plain: Callable[[Any], Any] = tf.autograph.experimental.do_not_convert(work)
    return plain


def _count(examples: int, options: FeedOptions) -> int:
    import tensorflow as tf

    if options.repeat is None:
        return int(tf.data.INFINITE_CARDINALITY) if examples else 0
    examples = max(examples * options.repeat - options.start, 0)
    if options.batch_size is None:
        return examples
    full, rest = divmod(examples, options.batch_size)
    return full + (1 if rest and not options.drop_remainder else 0)


def _calls(options: FeedOptions) -> int | None:
    import os

    import tensorflow as tf

    if options.parallel_calls is not None:
        return options.parallel_calls
    # Handing batches to other threads costs more than it gains on a few cores (docs/ml-engineer.md).
    return tf.data.AUTOTUNE if (os.cpu_count() or 1) > 4 else None


def _passes(
    pieces: Sequence[Piece], route: Route, options: FeedOptions, block: int | None = None
) -> Dataset:
    """Serialized examples of all passes; in file order also in blocks of about ``block``.

    Passes are the elements of a range, each with the seed of its number. `Dataset.repeat` would
    draw the seeds of later passes from a generator whose state a checkpoint does not hold.
    """
    import tensorflow as tf

    def one(number: Any) -> Dataset:
        seed = _seed(base, number) if options.reshuffle else _seed(base, options.epoch)
        dataset = _records(pieces, route, options, seed, block)
        if options.shuffle:
            dataset = dataset.shuffle(options.shuffle, seed=seed, reshuffle_each_iteration=False)
        return dataset

    base = options.seed if options.seed is not None else random.SystemRandom().getrandbits(31)
    done, rest = divmod(options.start, max(sum(len(each) for each in pieces), 1))
    first = options.epoch + done
    stop = _FOR_EVER if options.repeat is None else options.epoch + options.repeat
    if first >= stop:
        return _records((), route, options, None, block)
    begun = _rest_of_pass(pieces, route, options, rest, lambda: one(first), block)
    if first + 1 == stop:
        return begun
    return begun.concatenate(tf.data.Dataset.range(first + 1, stop).flat_map(one))


def _rest_of_pass(
    pieces: Sequence[Piece],
    route: Route,
    options: FeedOptions,
    start: int,
    whole: Callable[[], Dataset],
    block: int | None,
) -> Dataset:
    """One pass from its example number ``start`` on."""
    if options.shuffle or options.shuffle_files or options.cycle_length > 1:
        return whole().skip(start) if start else whole()
    # In file order, nothing before is read.
    return _records(cut(pieces, start), route, options, None, block)


def _seed(base: int, number: Any) -> Any:
    """A seed that is a function of the user's seed and the number of the pass."""
    import tensorflow as tf

    # An odd factor spreads neighbouring passes over the whole range; sums of seed and pass would
    # make pass 1 of one seed equal to pass 0 of the next.
    return tf.cast(base, tf.int64) * 6364136223846793005 + tf.cast(number, tf.int64) * 1442695041


def _records(
    pieces: Sequence[Piece], route: Route, options: FeedOptions, seed: Any, block: int | None
) -> Dataset:
    """Serialized examples of one pass, in order; in blocks if ``block`` says of how many."""
    import tensorflow as tf

    if not pieces:
        shape = (0,) if block is None else (0, 1)
        return tf.data.Dataset.from_tensor_slices(tf.zeros(shape, tf.string))
    if options.cycle_length == 1 and not options.shuffle_files and block is None:
        # One reader over all files: a dataset for each file would cost every record a hand-over.
        records = route.records(pieces)
        if records is not None:
            return records
    files = tf.data.Dataset.from_tensor_slices(
        (
            route.names(pieces),
            tf.constant([each.start for each in pieces], tf.int64),
            tf.constant([len(each) for each in pieces], tf.int64),
        )
    )
    if options.shuffle_files:
        files = files.shuffle(len(pieces), seed=seed, reshuffle_each_iteration=False)
    files = route.files(files)
    way = route.read if block is None else functools.partial(route.blocks, size=block)
    read = tf.autograph.experimental.do_not_convert(
        functools.partial(way, whole=all(each.whole for each in pieces))
    )
    if options.cycle_length == 1:
        return files.flat_map(read)
    return files.interleave(
        read,
        cycle_length=options.cycle_length,
        block_length=options.block_length,
        num_parallel_calls=_calls(options),
    )


def _one_by_one(
    dataset: Dataset, parse: Parser, options: FeedOptions, finish: Callable[[Any], Any]
) -> Dataset:
    import tensorflow as tf

    def work(record: Any) -> Any:
        example = parse.single(record)
        return options.preprocess(example) if options.preprocess else example

    dataset = dataset.map(
        work,
        num_parallel_calls=options.parallel_calls or tf.data.AUTOTUNE,
    )
    if options.batch_size is None:
        return dataset.map(finish)
    specs = tf.nest.flatten(dataset.element_spec)
    nested = any(isinstance(each, tf.RaggedTensorSpec) for each in specs)
    ragged = nested or any(
        None in (each.shape or ()) for each in specs if isinstance(each, tf.TensorSpec)
    )
    if options.pad and not nested:
        dataset = dataset.padded_batch(options.batch_size, drop_remainder=options.drop_remainder)
    elif ragged:
        dataset = dataset.ragged_batch(options.batch_size, drop_remainder=options.drop_remainder)
    else:
        dataset = dataset.batch(options.batch_size, drop_remainder=options.drop_remainder)
    return dataset.map(finish)


def _finisher(options: FeedOptions, supervised: Any) -> Callable[[Any], Any]:
    """What is done to parsed values last: padding, and choosing input and target."""

    def finish(values: Any) -> Any:
        import tensorflow as tf

        if options.pad and options.batch_size is not None:
            values = tf.nest.map_structure(
                lambda each: each.to_tensor() if isinstance(each, tf.RaggedTensor) else each,
                values,
                expand_composites=False,
            )
        return _chosen(values, supervised) if supervised is not None else values

    return finish


def _chosen(values: Mapping[str, Any], structure: Any) -> Any:
    if isinstance(structure, str):
        return values[structure]
    if isinstance(structure, Mapping):
        return {name: _chosen(values, each) for name, each in structure.items()}
    return tuple(_chosen(values, each) for each in structure)


def supervised_structure(document: Mapping[str, Any], where: str) -> Any:
    """The structure of a supervised example, from ``dataset_info.json``.

    Raises:
        BuilderError: the builder declared none.
    """
    found = document.get("supervisedKeys")
    if not found:
        raise BuilderError(
            "The builder declares no supervised keys, so there is no (input, target).",
            where=where,
            hint="Leave out as_supervised and choose features yourself, or use columns=[...].",
        )
    return _structure(found)


def _structure(document: Mapping[str, Any]) -> Any:
    """A `SupervisedKeys` message of TFDS: a feature key, or tuples and dicts of them."""
    if "featureKey" in document:
        return document["featureKey"]
    if "tuple" in document:
        return tuple(_structure(each) for each in document["tuple"].get("items", []))
    if "dict" in document:
        return {name: _structure(each) for name, each in document["dict"]["dict"].items()}
    if "input" in document and "output" in document:
        return (document["input"], document["output"])
    return document
