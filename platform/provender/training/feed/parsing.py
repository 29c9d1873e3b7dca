"""Whole batches of serialized examples to tensors, as ``features.json`` says.

One `tf.io.parse_example` call parses a batch; TFDS calls `parse_single_example` for each example,
which costs fifteen times the CPU. The meaning of the parsed values is TFDS's own: its feature
classes, made from ``features.json`` without the builder, say how each leaf is stored and decode
what is encoded (images, compressed tensors, audio). How nested features lie in a `tf.train.Example`
is described in `provender.training.features`.
"""

from __future__ import annotations

import difflib
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from provender.errors import SettingsError, UnknownReference

Tensors = Any
Parse = Callable[[Any], Tensors]


@dataclass(frozen=True)
class Parser:
    """How records become tensors.

    Attributes:
        features: the TFDS feature of the parsed columns.
        batch: parses a batch of serialized examples at once; None where a feature can only be
            parsed one example at a time.
        single: parses one serialized example, as TFDS does.
        decodes: whether ``batch`` runs the features' own code, which may be anybody's.
    """

    features: Any
    batch: Parse | None
    single: Parse
    decodes: bool = False


def parser(
    document: Mapping[str, Any],
    columns: Sequence[str] | None = None,
    decoders: Any = None,
    where: str = "",
) -> Parser:
    """Makes the parser of a version.

    Args:
        document: features.json, parsed.
        columns: top-level features wanted; None means all.
        decoders: TFDS decoders: a nested dict by feature, or `tfds.decode.PartialDecoding`.
        where: named in errors: the version.

    Returns:
        The parser.

    Raises:
        UnknownReference: a column or a decoded feature that the version does not have.
        SettingsError: what stands for a decoder is none.
    """
    import tensorflow_datasets as tfds
    from tensorflow_datasets.core import decode as tfds_decode

    features = tfds.features.FeatureConnector.from_json(dict(document))
    if isinstance(decoders, tfds_decode.PartialDecoding):
        features, decoders = _partial(features, decoders, where)
    check_decoders(features, decoders, where)
    if columns is not None:
        features = only(features, columns, where)
        if decoders is not None:
            decoders = {name: each for name, each in decoders.items() if name in columns}

    def single(serialized: Any) -> Tensors:
        return features.deserialize_example(serialized, decoders=decoders)

    leaves = _leaves(features, decoders)
    if not leaves:
        return Parser(features, None, single)
    decodes = any(leaf.decode is not None for leaf in leaves)
    return Parser(features, _batch_parser(features, leaves), single, decodes)


def only(features: Any, columns: Sequence[str], where: str) -> Any:
    """The chosen top-level features.

    Raises:
        UnknownReference: a name that is none; the message says what there is.
    """
    import tensorflow_datasets as tfds

    known = list(features.keys()) if hasattr(features, "keys") else []
    for name in columns:
        if name not in known:
            raise _unknown_feature(name, known, where)
    if isinstance(features, tfds.features.Sequence):
        inner = features.feature
        return tfds.features.Sequence(
            {name: inner[name] for name in columns}, length=features._length
        )
    return tfds.features.FeaturesDict({name: features[name] for name in columns})


def _unknown_feature(name: str, known: Sequence[str], where: str) -> UnknownReference:
    last = name.rpartition("/")[2]
    near = difflib.get_close_matches(last, known, 1)
    return UnknownReference(
        f"There is no feature {name!r}.",
        where=where,
        hint=(f"Did you mean {near[0]!r}? " if near else "")
        + f"The features are {', '.join(known)}.",
        facts={"features": list(known)},
    )


def _partial(features: Any, decoding: Any, where: str) -> tuple[Any, Any]:
    """The features that a `tfds.decode.PartialDecoding` names, and its decoders."""
    try:
        return decoding.extract_features(features), decoding.decoders
    except ValueError as error:
        raise UnknownReference(
            f"The partial decoding does not fit the features: {error}",
            where=where,
            hint=f"The features are {', '.join(_inner_features(features))}.",
        ) from error


def check_decoders(features: Any, decoders: Any, where: str, path: str = "") -> None:
    """Looks whether each decoder stands for a feature.

    Args:
        features: the TFDS feature that ``decoders`` is for.
        decoders: a decoder, or a nested dict of them by feature, or None.
        where: named in errors: the version.
        path: the feature's name.

    Raises:
        UnknownReference: a name that is no feature's.
        SettingsError: something that is no decoder.
    """
    from tensorflow_datasets.core import decode

    if decoders is None or (path and isinstance(decoders, decode.Decoder)):
        return
    if not isinstance(decoders, Mapping):
        raise SettingsError(
            f"{path or 'decoders'} has no decoder but {decoders!r}.",
            where=where,
            hint="Give a dict of decoders by feature, made by tfds.decode.SkipDecoding() or "
            "tfds.decode.make_decoder, or a tfds.decode.PartialDecoding.",
        )
    inner = _inner_features(features)
    for name, each in decoders.items():
        full = f"{path}/{name}" if path else str(name)
        if name not in inner:
            raise _unknown_feature(full, list(inner), where)
        check_decoders(inner[name], each, where, full)


def _inner_features(features: Any) -> Mapping[str, Any]:
    """The named features in a feature: of a dict, or of the dicts in a sequence."""
    while hasattr(features, "feature"):
        features = features.feature
    return dict(features.items()) if hasattr(features, "items") else {}


@dataclass(frozen=True)
class _Leaf:
    """A stored value that can be parsed for a whole batch at once.

    Attributes:
        key: its name in the example.
        info: how it is stored (`tfds.core.features.TensorInfo`).
        levels: ragged dimensions of one example: 0 where every example stores one shape.
        inner: static shape below the ragged dimensions, or of the whole value without any.
        decode: makes the value of one stored string; None where they are the same.
        spec: of one decoded value, where there is a `decode`.
    """

    key: str
    info: Any
    levels: int
    inner: tuple[int, ...]
    decode: Parse | None = None
    spec: Any = None


def _leaves(features: Any, decoders: Any) -> list[_Leaf] | None:
    """The leaves, in the order of `features.flat_features`; None if one needs single parsing."""
    if not hasattr(features, "flat_features"):
        return None
    infos = features.flat_serialized_info
    keys = features._flatten(_keys(features.get_serialized_info(), ()))
    custom = features._flatten(decoders)
    found = []
    for feature, info, key, decoder in zip(
        features.flat_features, infos, keys, custom, strict=True
    ):
        leaf = None if isinstance(info, dict) else _leaf(feature, info, key, decoder)
        if leaf is None:
            return None
        found.append(leaf)
    return found


def _keys(info: Any, path: tuple[str, ...]) -> Any:
    """The structure of stored values with, at each leaf, its name in the example."""
    if isinstance(info, dict):
        return {name: _keys(each, (*path, name)) for name, each in info.items()}
    return "/".join(path)


def _leaf(feature: Any, info: Any, key: str, decoder: Any) -> _Leaf | None:
    # Batches of tensors without values end the process: parsing and unbatching divide by their size.
    if info.dataset_lvl or not isinstance(key, str) or 0 in info.shape:
        return None
    unknown = [at for at, size in enumerate(info.shape) if size is None]
    if not unknown:
        levels, inner = 0, tuple(info.shape)
    elif unknown == [0]:
        levels, inner = 1, tuple(info.shape[1:])
    elif info.sequence_rank > 1 and None not in info.shape[info.sequence_rank :]:
        levels, inner = info.sequence_rank, tuple(info.shape[info.sequence_rank :])
    else:
        return None
    if _skips(decoder) or (decoder is None and as_stored(feature)):
        return _Leaf(key, info, levels, inner)
    if decoder is not None or len(info.shape) != info.sequence_rank:
        return None
    if None in (feature.shape or (None,)):
        return None
    return _Leaf(key, info, levels, inner, feature.decode_example, _spec(feature))


def _skips(decoder: Any) -> bool:
    from tensorflow_datasets.core import decode

    return type(decoder) is decode.SkipDecoding


def as_stored(feature: Any) -> bool:
    """Whether a feature's values are its stored values."""
    import tensorflow_datasets as tfds

    if type(feature) in (tfds.features.Text, tfds.features.ClassLabel):
        return True
    if type(feature) is tfds.features.Audio and feature._lazy_decode:
        return False
    plain = (
        tfds.features.Tensor,
        tfds.features.Scalar,
        tfds.features.BBoxFeature,
        tfds.features.Audio,
    )
    if type(feature) in plain:
        return not feature._encoded_to_bytes and not feature._dynamic_shape
    return False


def _spec(feature: Any) -> Any:
    import tensorflow as tf

    return tf.TensorSpec(feature.shape, feature.tf_dtype)


def _batch_parser(features: Any, leaves: Sequence[_Leaf]) -> Parse:
    specs: dict[str, Any] = {}
    for leaf in leaves:
        specs.update(_stored(leaf))

    def batch(serialized: Any) -> Tensors:
        import tensorflow as tf

        parsed = tf.io.parse_example(serialized, specs)
        return features._nest([_value(leaf, parsed) for leaf in leaves])

    return batch


def _stored(leaf: _Leaf) -> dict[str, Any]:
    """What `tf.io.parse_example` is told of a leaf."""
    import tensorflow as tf

    kind = leaf.info.tf_dtype
    if kind.is_integer or kind.is_bool:
        kind = tf.int64
    elif kind.is_floating:
        kind = tf.float32
    else:
        kind = tf.string
    if not leaf.levels:
        return {leaf.key: tf.io.FixedLenFeature(leaf.inner, kind, leaf.info.default_value)}
    if leaf.levels == 1:
        return {leaf.key: tf.io.RaggedFeature(kind, row_splits_dtype=tf.int64)}
    lengths = {
        f"{leaf.key}/ragged_row_lengths_{level}": tf.io.RaggedFeature(
            tf.int64, row_splits_dtype=tf.int64
        )
        for level in range(leaf.levels - 1)
    }
    return {
        f"{leaf.key}/ragged_flat_values": tf.io.RaggedFeature(kind, row_splits_dtype=tf.int64),
        **lengths,
    }


def _value(leaf: _Leaf, parsed: Mapping[str, Any]) -> Any:
    """A leaf of a batch of examples."""
    import tensorflow as tf

    if leaf.levels == 0:
        value = _cast(parsed[leaf.key], leaf)
        if leaf.decode is None:
            return value
        flat = _decoded(tf.reshape(value, (-1,)), leaf)
        return tf.reshape(flat, (-1, *leaf.inner, *leaf.spec.shape)) if leaf.inner else flat
    if leaf.levels == 1:
        stored = parsed[leaf.key]
        splits = stored.row_splits
        if leaf.inner:
            splits //= math.prod(leaf.inner)
        return tf.RaggedTensor.from_row_splits(
            _inner(stored.flat_values, leaf), splits, validate=False
        )
    flat = _inner(parsed[f"{leaf.key}/ragged_flat_values"].flat_values, leaf)
    lengths = [parsed[f"{leaf.key}/ragged_row_lengths_{level}"] for level in range(leaf.levels - 1)]
    return tf.RaggedTensor.from_nested_row_lengths(
        flat, [lengths[0].row_lengths(), *(each.flat_values for each in lengths)], validate=False
    )


def _inner(flat: Any, leaf: _Leaf) -> Any:
    """Stored values one after the other, as values with a static shape."""
    import tensorflow as tf

    flat = _cast(flat, leaf)
    inner = leaf.inner
    if leaf.decode is not None:
        flat, inner = _decoded(flat, leaf), (*inner, *leaf.spec.shape)
    return tf.reshape(flat, (-1, *inner)) if leaf.inner else flat


def _decoded(flat: Any, leaf: _Leaf) -> Any:
    import tensorflow as tf

    return tf.map_fn(leaf.decode, flat, fn_output_signature=leaf.spec)


def _cast(value: Any, leaf: _Leaf) -> Any:
    import tensorflow as tf

    return value if value.dtype == leaf.info.tf_dtype else tf.cast(value, leaf.info.tf_dtype)
