"""Compiles a TFDS feature schema to a function from example to ``tf.train.Example`` bytes.

The bytes equal those of TFDS with ``SerializeToString(deterministic=True)``. For the common
features (text, labels, scalars, tensors, encoded images, sequences of scalars, nested dicts) one
function per schema is generated, which costs a tenth of TFDS's path; a value that it does not
know exactly goes through TFDS's own code, so what is accepted, converted or refused is the same.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from provender.errors import ExampleError, ProvenderError
from provender.records import leaves, protobuf
from provender.records.images import without_tensorflow
from provender.records.schema import check_features, connectors, same_dtype, serializer

Encoder = Callable[[Any], bytes]

_SHOWN = 200


def compile_encoder(features: Any) -> Encoder:
    """The encoder of a schema.

    Args:
        features: a ``tfds.features.FeaturesDict`` (or another top-level feature).

    Returns:
        A function from one example, as ``_generate_examples`` yields it, to the serialized
        ``tf.train.Example``. It raises ExampleError, naming the feature and the value, wherever
        TFDS would refuse the example.

    Raises:
        BuilderError: as `check_features`.
    """
    check_features(features)
    features = without_tensorflow(features)
    slow = _SlowPath(features)
    plan = _plan(features)
    return slow if plan is None else plan.compile(slow)


# --- the schema, taken apart -------------------------------------------------------------------


@dataclass(slots=True)
class _Field:
    """One feature of a compiled schema.

    Attributes:
        path: keys that lead to the value.
        kind: "text", "label", "leaf" (pure: may be redone) or "own" (the feature's own code, which
            may consume the value, e.g. read a file object: never to be run twice).
        tool: prefix or entry table, or leaf function.
        optional: None means absent.
        grouped: it makes several map entries, whose names begin with this name and a slash.
    """

    path: tuple[str, ...]
    kind: str
    tool: Any
    optional: bool = False
    grouped: bool = False

    @property
    def name(self) -> str:
        return "/".join(self.path)


def _plan(features: Any) -> _Plan | None:
    """How to encode ``features`` quickly, or None where only TFDS's own code will do."""
    if type(features) is not connectors().FeaturesDict:
        return None
    plan = _Plan()
    return plan if _add_dict(features, (), plan) and plan.is_unambiguous() else None


def _add_dict(feature: Any, path: tuple[str, ...], plan: _Plan) -> bool:
    if not len(feature):
        return False
    plan.dicts.append((path, len(feature)))
    for name, inner in feature.items():
        here = (*path, name)
        if type(inner) is not connectors().FeaturesDict:
            plan.fields.append(_make_field(here, inner))
        elif not _add_dict(inner, here, plan):
            return False
    return True


def _make_field(path: tuple[str, ...], feature: Any) -> _Field:
    tfds = connectors()
    key = "/".join(path).encode()
    info = feature.get_serialized_info()
    kind = type(feature)
    grouped = isinstance(info, Mapping)
    if kind is tfds.Sequence and not grouped:
        leaf = _sequence_leaf(key, feature, info)
        if leaf is not None:
            return _Field(path, "leaf", leaf)
    if grouped or info.sequence_rank:
        grouped = grouped or info.sequence_rank > 1
        return _Field(path, "own", leaves.grouped_leaf(key.decode(), feature), grouped=grouped)
    optional = bool(info.optional)
    if kind is tfds.Text and feature.encoder is None:
        return _Field(path, "text", leaves.TextPrefixes(key), optional)
    if kind is tfds.ClassLabel:
        return _Field(path, "label", leaves.LabelEntries(key, feature))
    if kind in (tfds.Tensor, tfds.Scalar) and same_dtype(feature.get_tensor_info(), info):
        if info.shape == () and np.dtype(info.np_dtype).kind == "O":
            return _Field(path, "text", leaves.TextPrefixes(key), optional)
        leaf = _tensor_leaf(key, info)
        if leaf is not None:
            return _Field(path, "leaf", leaf, optional)
    return _Field(path, "own", leaves.converted_leaf(key, feature, info))


def _tensor_leaf(key: bytes, info: Any) -> leaves.Leaf | None:
    dtype = np.dtype(info.np_dtype)
    if dtype.kind not in "biuf":
        return None
    if info.shape:
        return leaves.array_leaf(key, dtype, info.shape)
    return _scalar_leaf(key, dtype)


def _scalar_leaf(key: bytes, dtype: np.dtype) -> leaves.Leaf | None:
    if dtype.kind == "b":
        return leaves.bool_leaf(key)
    if dtype.kind in "iu":
        return leaves.int_leaf(key, dtype)
    return leaves.float_leaf(key, dtype) if dtype.itemsize in (4, 8) else None


def _sequence_leaf(key: bytes, feature: Any, info: Any) -> leaves.Leaf | None:
    """A sequence of scalars; deeper ones become ragged fields, which TFDS lays out."""
    tfds = connectors()
    inner = feature.feature
    if info.sequence_rank != 1 or len(info.shape) != 1:
        return None
    length = info.shape[0]
    optional = getattr(inner.get_serialized_info(), "optional", False)
    if optional:
        return None
    if type(inner) is tfds.Text and inner.encoder is None:
        return leaves.texts_leaf(key, length)
    if type(inner) is tfds.ClassLabel:
        return leaves.labels_leaf(key, inner, length)
    dtype = np.dtype(info.np_dtype)
    plain = type(inner) in (tfds.Tensor, tfds.Scalar) and same_dtype(inner.get_tensor_info(), info)
    if plain and (dtype.kind in "biu" or (dtype.kind == "f" and dtype.itemsize in (4, 8))):
        return leaves.numbers_leaf(key, dtype, length)
    return None


# --- the generated function --------------------------------------------------------------------


@dataclass(slots=True)
class _Plan:
    """A schema that the fast path covers: its dicts (path, number of keys) and its fields."""

    dicts: list[tuple[tuple[str, ...], int]] = field(default_factory=list)
    fields: list[_Field] = field(default_factory=list)

    def is_unambiguous(self) -> bool:
        """Whether no two fields make entries of one name or within each other's group.

        (A key may hold a slash: ``{"a/b": ...}`` beside ``{"a": {"b": ...}}``.)
        """
        names = [item.name for item in self.fields]
        groups = [item.name + "/" for item in self.fields if item.grouped]
        inside = any(name.startswith(group) for name in names for group in groups)
        return len(set(names)) == len(names) and not inside

    def compile(self, slow: _SlowPath) -> Encoder:
        """Generates the encoder."""
        ordered = sorted(
            self.fields,
            key=lambda item: protobuf.map_order(item.name + "/" * item.grouped),
        )
        space: dict[str, Any] = {
            "slow": slow,
            "lengths": leaves.ExamplePrefixes(),
            "join": b"".join,
        }
        pure: list[str] = []
        own: list[str] = []
        pieces: list[str] = []
        for i, item in enumerate(ordered):
            space[f"t{i}"] = item.tool
            lines, made = _field_source(item, i)
            (own if item.kind == "own" else pure).extend(lines)
            pieces += made
        nested = self._dict_source()
        body = [
            "def encode(example):",
            "    try:",
            *(f"        {line}" for line in [*nested, *pure] or ["pass"]),
            "    except Exception:",
            "        return slow(example)",
            *(f"    {line}" for line in own),
            f"    size = {' + '.join(f'len({piece})' for piece in pieces)}",
            f"    return join((lengths[size], {', '.join(pieces)}))",
        ]
        # The text is made of positions and repr()s of the schema's own keys; nothing is read from
        # outside. A generated function saves the calls and loops that dominate small examples.
        exec("\n".join(body), space)  # noqa: S102
        encoder: Encoder = space["encode"]
        return encoder

    def _dict_source(self) -> list[str]:
        lines = []
        for path, count in self.dicts:
            lines += [
                f"if len({_dict_variable(path)}) != {count}: return slow(example)",
            ]
            lines += [
                f"{_dict_variable(inner)} = {_dict_variable(path)}[{inner[-1]!r}]"
                for inner, _ in self.dicts
                if inner[:-1] == path and inner
            ]
        return lines


def _dict_variable(path: tuple[str, ...]) -> str:
    if not path:
        return "example"
    return "d_" + "_".join(part.encode().hex() for part in path)


def _field_source(item: _Field, i: int) -> tuple[list[str], list[str]]:
    """The statements that encode one field, and the variables that hold its bytes, in order."""
    value = f"{_dict_variable(item.path[:-1])}[{item.path[-1]!r}]"
    if item.kind == "label":
        return [f"e{i} = t{i}[{value}]"], [f"e{i}"]
    if item.kind == "own":
        call = [
            f"try: e{i} = t{i}({value})",
            f"except Exception as error: slow.refuse({item.name!r}, {value}, error)",
        ]
        return call, [f"e{i}"]
    if item.kind == "leaf":
        guard = f"b'' if v{i} is None else " if item.optional else ""
        return [f"v{i} = {value}", f"e{i} = {guard}t{i}(v{i})"], [f"e{i}"]
    absent_too = f" and v{i} is not None" if item.optional else ""
    lines = [
        f"v{i} = {value}",
        f"if v{i}.__class__ is str: v{i} = v{i}.encode()",
        f"elif v{i}.__class__ is not bytes{absent_too}: return slow(example)",
        f"p{i} = t{i}[len(v{i})]",
    ]
    if item.optional:
        lines[-1:] = [f"if v{i} is None: p{i} = v{i} = b''", f"else: {lines[-1]}"]
    return lines, [f"p{i}", f"v{i}"]


# --- everything else ---------------------------------------------------------------------------


class _SlowPath:
    """TFDS's own encoding, laid out in our order, and the errors that name a value."""

    def __init__(self, features: Any) -> None:
        self._features = features
        self._serializer = serializer(features.get_serialized_info())

    def __call__(self, example: Any) -> bytes:
        try:
            encoded = self._features.encode_example(example)
            proto = self._serializer.get_tf_example(encoded)
            features = proto.features.feature
            return protobuf.example({n: features[n].SerializeToString() for n in features})
        except ProvenderError:
            raise
        except Exception as error:
            name, value = self._culprit(example)
            raise _bad_value(name, value, error) from error

    @staticmethod
    def refuse(name: str, value: Any, error: Exception) -> None:
        """Raises the ExampleError for a value that a feature's own code refused."""
        if isinstance(error, ProvenderError):
            raise error
        raise _bad_value(name, value, error) from error

    def _culprit(self, example: Any) -> tuple[str, Any]:
        """The first feature that is refused when tried alone, and its value."""
        if not hasattr(self._features, "items"):
            return "", example
        wanted = dict(self._features.items())
        if not isinstance(example, Mapping):
            return "", example
        if set(example) != set(wanted):
            missing = sorted(set(wanted) - set(example))
            extra = sorted(map(str, set(example) - set(wanted)))
            return f"missing {missing}, not in the schema {extra}", dict(example)
        alone = connectors().FeaturesDict
        for name, feature in wanted.items():
            try:
                _SlowPath(alone({name: feature}))._run({name: example[name]})
            except Exception:  # noqa: BLE001 - any refusal names this feature
                return name, example[name]
        return "", example

    def _run(self, example: Any) -> None:
        self._serializer.get_tf_example(self._features.encode_example(example))


def _bad_value(name: str, value: Any, error: BaseException) -> ExampleError:
    shown = _short(value)
    return ExampleError(
        f"Feature {name!r} cannot hold {shown}: {_last_line(error)}"
        if name
        else f"The example cannot be encoded: {_last_line(error)}",
        where=f"feature {name!r}" if name else "the whole example",
        hint="make _generate_examples yield what the feature declares",
        facts={"feature": name, "value": shown, "error": f"{type(error).__name__}: {error}"[:2000]},
    )


def _short(value: Any) -> str:
    if isinstance(value, (str, bytes)) and len(value) > _SHOWN:
        value = value[:_SHOWN]
    text = repr(value)
    return text if len(text) <= _SHOWN else text[: _SHOWN - 1] + "…"


def _last_line(error: BaseException) -> str:
    lines = [line for line in str(error).splitlines() if line.strip()]
    return lines[-1].strip() if lines else type(error).__name__
