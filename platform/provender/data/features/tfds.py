"""Features of published versions: from their features.json, and to TFDS's own classes.

tf.Example holds lists of bytes, float32 and int64. What columns of other types become:

kind in the version            feature
Text                           Value("string")
Tensor of strings              Value("binary"): nothing says that it is text
Scalar / Tensor ()             Value(dtype)
Tensor (n)                     List(Value(dtype), length=n); without length where n is unknown
Tensor of 2 to 5 dimensions    Array2D ... Array5D
Tensor, other                  nested List
ClassLabel                     ClassLabel
Image, LabeledImage            Image, with the mode that has its channels
Image of float32               nested List of float32 (H, W, 1)
Video                          List(Image)
Audio                          List(Value(dtype)), or Audio where the files are stored
BBoxFeature                    List(Value("float32"), length=4)
Sequence(x)                    List(x); of a dict: a dict of lists
Dataset({...})                 List({...})
Translation(...)               Translation(...)
FeaturesDict                   dict
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from provender.data.errors import FeatureTypeError
from provender.data.features.compound import (
    Array2D,
    Array3D,
    Array4D,
    Array5D,
    Json,
    Translation,
    TranslationVariableLanguages,
    _Array,
)
from provender.data.features.features import Features
from provender.data.features.media import Audio, Image
from provender.data.features.types import (
    ClassLabel,
    FeatureType,
    LargeList,
    List,
    Value,
)

_ARRAYS = {2: Array2D, 3: Array3D, 4: Array4D, 5: Array5D}
_MODES = {1: "L", 2: "LA", 3: "RGB", 4: "RGBA"}


@dataclass(frozen=True, slots=True)
class Leaf:
    """One stored feature of a version.

    Attributes:
        name: its name in the example, keys joined by "/".
        kind: "text", "bytes", "label", "number", "image", "pixels" (an image of float32) or
            "sound" (a file).
        dtype: of the elements, as in features.json.
        shape: within one item of the sequences it lies in; None where unknown.
        packed: "none", "bytes" or "zlib": a tensor stored as its array's bytes.
        lengths: for each sequence that it lies in, outermost first: its length or -1.
        feature: of one item.
    """

    name: str
    kind: str
    dtype: str
    shape: tuple[int | None, ...]
    packed: str
    lengths: tuple[int, ...]
    feature: FeatureType

    @property
    def is_dynamic(self) -> bool:
        """Whether each tensor's shape is stored beside it."""
        return self.packed != "none" and sum(each is None for each in self.shape) > 1


@dataclass(frozen=True, slots=True)
class Rows:
    """Parallel lists that are read as a list of dicts (a TFDS ``Dataset`` feature)."""

    fields: Mapping[str, Any]
    depth: int


Tree = Any
"""A `Leaf`, a `Rows`, or a dict of names to trees."""


def from_tfds(features_json: Mapping[str, Any], labels: Mapping[str, Sequence[str]]) -> Features:
    """The features of a published version.

    Args:
        features_json: features.json as a document.
        labels: stem of a ``*.labels.txt`` file -> class names.

    Raises:
        FeatureTypeError: a kind of feature that cannot be read without TFDS.
    """
    return Features(
        {name: feature_of_tree(each) for name, each in tree_of(features_json, labels).items()}
    )


def tree_of(
    features_json: Mapping[str, Any], labels: Mapping[str, Sequence[str]]
) -> dict[str, Tree]:
    """How the features of a version lie in its examples.

    Raises:
        FeatureTypeError: as `from_tfds`.
    """
    made = _tree(features_json, (), (), labels)
    return made if isinstance(made, dict) else {"": made}


def feature_of_tree(tree: Tree) -> FeatureType:
    """The feature of a part of a tree."""
    if isinstance(tree, Leaf):
        return _wrapped(tree.feature, tree.lengths)
    if isinstance(tree, Rows):
        inner: FeatureType = List(
            {
                name: _peeled(feature_of_tree(each), tree.depth + 1)
                for name, each in tree.fields.items()
            }
        )
        for _ in range(tree.depth):
            inner = List(inner)
        return inner
    if isinstance(tree, _Pairs):
        return (
            tree.feature
            if not tree.lengths
            else {n: feature_of_tree(t) for n, t in tree.fields.items()}
        )
    return {name: feature_of_tree(each) for name, each in tree.items()}


@dataclass(frozen=True, slots=True)
class _Pairs:
    """A translation: several leaves that are one feature."""

    fields: Mapping[str, Leaf]
    feature: FeatureType
    lengths: tuple[int, ...]


def _wrapped(feature: FeatureType, lengths: Sequence[int]) -> FeatureType:
    for length in reversed(lengths):
        feature = List(feature, length)
    return feature


def _peeled(feature: FeatureType, levels: int) -> FeatureType:
    """A feature without its outer lists; of a dict that of each field."""
    if levels == 0:
        return feature
    if isinstance(feature, Mapping):
        return {name: _peeled(each, levels) for name, each in feature.items()}
    return _peeled(feature.feature, levels - 1)


def _tree(
    doc: Mapping[str, Any],
    path: tuple[str, ...],
    lengths: tuple[int, ...],
    labels: Mapping[str, Sequence[str]],
) -> Tree:
    if "featuresDict" in doc:
        inner = doc["featuresDict"].get("features", {})
        return {name: _tree(each, (*path, name), lengths, labels) for name, each in inner.items()}
    if "sequence" in doc:
        length = int(doc["sequence"].get("length", -1) or -1)
        made = _tree(doc["sequence"]["feature"], path, (*lengths, length), labels)
        is_dataset = str(doc.get("pythonClassName", "")).endswith(".Dataset")
        return Rows(made, len(lengths)) if is_dataset and isinstance(made, dict) else made
    return _leaf(doc, path, lengths, labels)


def _leaf(
    doc: Mapping[str, Any],
    path: tuple[str, ...],
    lengths: tuple[int, ...],
    labels: Mapping[str, Sequence[str]],
) -> Tree:
    name = "/".join(path)
    if "text" in doc:
        return Leaf(name, "text", "string", (), "none", lengths, Value("string"))
    if "classLabel" in doc:
        return Leaf(name, "label", "int64", (), "none", lengths, _label(doc, path, labels))
    if "translation" in doc:
        return _translation(doc["translation"], path, lengths)
    if "image" in doc:
        return _image(doc["image"], name, lengths)
    if "video" in doc:
        frames = _shape(doc["video"])
        inner = {
            **doc["video"],
            "shape": {"dimensions": [-1 if s is None else s for s in frames[1:]]},
        }
        return _image(inner, name, (*lengths, -1 if not frames or frames[0] is None else frames[0]))
    for kind in ("tensor", "boundingBox", "audio"):
        if kind in doc:
            return _tensor(doc[kind], name, lengths, is_audio=kind == "audio")
    raise FeatureTypeError(
        f"Feature {name!r} is a {doc.get('pythonClassName', 'feature of an unknown kind')}, "
        "which only TFDS itself can read.",
        where=f"feature {name!r}",
        hint="Read the other columns, or read the version with tfds.builder_from_directory.",
    )


def _label(
    doc: Mapping[str, Any], path: tuple[str, ...], labels: Mapping[str, Sequence[str]]
) -> FeatureType:
    names = labels.get("-".join(each.replace("/", ".") for each in path))
    count = int(doc["classLabel"].get("numClasses", 0) or 0)
    if names and len(set(names)) == len(names) and count in (0, len(names)):
        return ClassLabel(names=list(names))
    return ClassLabel(num_classes=count) if count else Value("int64")


def _translation(doc: Mapping[str, Any], path: tuple[str, ...], lengths: tuple[int, ...]) -> Tree:
    languages = list(doc.get("languages", ()))
    if doc.get("variableLanguagesPerExample"):
        names, inner = ["language", "translation"], (*lengths, -1)
        feature: FeatureType = TranslationVariableLanguages(languages)
    else:
        names, inner = sorted(languages), lengths
        feature = Translation(languages)
    fields = {
        each: Leaf("/".join((*path, each)), "text", "string", (), "none", inner, Value("string"))
        for each in names
    }
    return _Pairs(fields, feature, lengths)


def _image(doc: Mapping[str, Any], name: str, lengths: tuple[int, ...]) -> Leaf:
    shape = _shape(doc)
    if doc.get("dtype") == "float32":
        inner = _tensor_feature("float32", shape or (None, None, 1))
        return Leaf(name, "pixels", "float32", (), "none", lengths, inner)
    channels = shape[-1] if len(shape) == 3 else None
    mode = _MODES.get(channels or 0) if doc.get("dtype", "uint8") == "uint8" else None
    return Leaf(name, "image", "uint8", (), "none", lengths, Image(mode=mode))


def _tensor(doc: Mapping[str, Any], name: str, lengths: tuple[int, ...], is_audio: bool) -> Leaf:
    dtype, shape = str(doc.get("dtype") or "string"), _shape(doc)
    packed = str(doc.get("encoding") or "none").lower()
    if is_audio and (doc.get("lazyDecode") or dtype in ("string", "object")):
        rate = int(doc.get("sampleRate", 0) or 0) or None
        return Leaf(name, "sound", "string", (), "none", lengths, Audio(sampling_rate=rate))
    kind = "bytes" if dtype in ("string", "object", "str", "bytes") else "number"
    dtype = "string" if kind == "bytes" else dtype
    return Leaf(name, kind, dtype, shape, packed, lengths, _tensor_feature(dtype, shape))


def _tensor_feature(dtype: str, shape: tuple[int | None, ...]) -> FeatureType:
    dtype = "binary" if dtype == "string" else dtype
    if not shape:
        return Value(dtype)
    if len(shape) in _ARRAYS and all(each is not None for each in shape[1:]):
        return _ARRAYS[len(shape)](shape, dtype)
    feature: FeatureType = Value(dtype)
    for size in reversed(shape):
        feature = List(feature, -1 if size is None else size)
    return feature


def _shape(doc: Mapping[str, Any]) -> tuple[int | None, ...]:
    sizes = [int(each) for each in (doc.get("shape") or {}).get("dimensions", ())]
    return tuple(None if each < 0 else each for each in sizes)


# --- to TFDS -------------------------------------------------------------------------------------


def to_tfds(features: Mapping[str, FeatureType], channels: Mapping[str, int] | None = None) -> Any:
    """The TFDS FeaturesDict that stores these columns.

    Args:
        features: the columns.
        channels: column -> channels of an `Image` whose ``mode`` does not say; 3 otherwise.

    Raises:
        FeatureTypeError: a column that tf.Example cannot hold as it is; names it and the way out.
    """
    from provender.records.schema import connectors

    if not features:
        raise FeatureTypeError("A dataset without columns cannot be published.")
    tfds = connectors()
    return tfds.FeaturesDict(
        {
            name: _Conversion(name, each, (channels or {}).get(name, 3), tfds).of(each, name)
            for name, each in features.items()
        }
    )


_STORABLE = {
    "bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "float32",
}  # fmt: skip
_WAYS_OUT = {
    "float64": ("tf.Example has float32 only; 0.1 would come back as 0.10000000149", "float32"),
    "float16": ("tf.Example has float32 only, and TFDS does not read float16 from it", "float32"),
    "null": ("it has no values", "string"),
    "date": ("tf.Example has no dates", "string"),
    "decimal": ("tf.Example has no decimals", "string"),
    "timestamp": ("tf.Example has no points in time", "int64"),
    "duration": ("tf.Example has no durations", "int64"),
    "time": ("tf.Example has no times of day", "string"),
}
_CHANNELS = {"L": 1, "LA": 4, "RGB": 3, "RGBA": 4}


def _holds_lists(feature: FeatureType) -> bool:
    if isinstance(feature, Mapping):
        return any(_holds_lists(each) for each in feature.values())
    return isinstance(feature, List | LargeList | TranslationVariableLanguages)


def _as_lists(feature: _Array) -> FeatureType:
    made: FeatureType = Value(feature.dtype)
    for size in reversed(feature.shape):
        made = List(made, -1 if size is None else size)
    return made


@dataclass(frozen=True, slots=True)
class _Conversion:
    """One column on its way to TFDS.

    Attributes:
        column: its name.
        whole: its feature.
        channels: of images whose mode does not say.
        tfds: TFDS's feature classes.
    """

    column: str
    whole: FeatureType
    channels: int
    tfds: Any

    def of(self, feature: FeatureType, where: str) -> Any:
        """The TFDS feature of a part of the column."""
        import numpy as np

        tfds = self.tfds
        if isinstance(feature, Mapping):
            if not feature:
                raise self._refused(where, "a dict without fields")
            parts = {name: self.of(each, f"{where}/{name}") for name, each in feature.items()}
            return tfds.FeaturesDict(parts)
        if isinstance(feature, List | LargeList):
            length = feature.length if isinstance(feature, List) else -1
            inner = self.of(feature.feature, f"{where}[]")
            # TFDS writes lists of lists as ragged ones, and cannot read them if all lengths are told.
            told = length >= 0 and "[]" not in where and not _holds_lists(feature.feature)
            return tfds.Sequence(inner, length=length if told else None)
        if isinstance(feature, ClassLabel):
            return tfds.ClassLabel(names=feature.names)
        if isinstance(feature, Translation):
            return tfds.Translation(languages=sorted(feature.languages))
        if isinstance(feature, TranslationVariableLanguages):
            return tfds.TranslationVariableLanguages(languages=feature.languages)
        if isinstance(feature, Image):
            count = _CHANNELS.get(feature.mode or "", self.channels if feature.mode is None else 3)
            return tfds.Image(shape=(None, None, count))
        if isinstance(feature, Json):
            return tfds.Text()
        if isinstance(feature, _Array):
            if feature.shape[0] is None and "[]" in where:
                raise self._refused(
                    where,
                    "TFDS does not keep tensors of several sizes in one list apart",
                    f'ds.cast_column("{self.column}", ...) to lists of lists, which it does: '
                    f"{_as_lists(feature)!r} in place of {feature!r}.",
                )
            return tfds.Tensor(shape=feature.shape, dtype=self._dtype(feature.dtype, where))
        if isinstance(feature, Value):
            if feature.dtype in ("string", "large_string", "string_view"):
                return tfds.Text()
            if "binary" in feature.dtype:
                return tfds.Tensor(shape=(), dtype=np.object_)
            return tfds.Scalar(dtype=self._dtype(feature.dtype, where))
        raise self._refused(
            where,
            f"TFDS has no place for {type(feature).__name__} files",
            f"Store what they hold, e.g. ds.map(lambda row: {{{self.column!r}: "
            f"row[{self.column!r}]['bytes']}}) of a column cast to decode=False.",
        )

    def _dtype(self, dtype: str, where: str) -> Any:
        import numpy as np

        if dtype in _STORABLE:
            return np.bool_ if dtype == "bool" else np.dtype(dtype).type
        if dtype in ("string", "binary"):
            return np.object_
        why, other = next(
            (each for name, each in _WAYS_OUT.items() if dtype.startswith(name)),
            (f"tf.Example does not hold {dtype}", "string"),
        )
        target = repr(self.whole).replace(repr(dtype), repr(other))
        raise self._refused(where, why, f'ds.cast_column("{self.column}", {target})')

    def _refused(self, where: str, why: str, hint: str | None = None) -> FeatureTypeError:
        return FeatureTypeError(
            f"Column {self.column!r} cannot be published as {self.whole!r}: {why}.",
            where=f"column {where!r}",
            hint=hint or f'ds.remove_columns("{self.column}")',
            facts={"column": self.column, "feature": repr(self.whole), "why": why},
        )
