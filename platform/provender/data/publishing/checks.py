"""What cannot be published is refused before anything is done, with the way out."""

from __future__ import annotations

import io
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from provender.data.errors import FeatureTypeError
from provender.data.features import (
    FeatureType,
    Image,
    LargeList,
    List,
    Translation,
    TranslationVariableLanguages,
    Value,
)
from provender.data.features.compound import _Array
from provender.data.features.media import _File
from provender.data.features.tfds import to_tfds
from provender.errors import SplitError, UnknownReference
from provender.stages.splits import check_name

if TYPE_CHECKING:
    from provender.data.dataset import Dataset

_ROWS = 10_000
_CHANNELS = {"1": 1, "L": 1, "I;16": 1, "LA": 4, "RGBA": 4, "PA": 4}


def check_reference(name: str, config: str | None, version: str) -> None:
    """Refuses names and numbers that no published version can have.

    Raises:
        UnknownReference: the name, config or number cannot be used; the hint says why.
    """
    from provender.refs import DatasetRef

    text = f"{name}/{config}:{version}" if config else f"{name}:{version}"
    ref = DatasetRef.parse(text)
    if (ref.name, ref.config, ref.version) != (name, config or None, version):
        raise UnknownReference(
            f"{text!r} is no name of a version.",
            where="publish",
            hint='Give the parts apart: publish("reviews", config="en", version="1.0.0").',
        )


def check_splits(splits: Mapping[str, Dataset]) -> None:
    """Refuses splits that cannot stand together in one version.

    Raises:
        SplitError: there is none, one is empty, or a name cannot be used.
        FeatureTypeError: the splits have other columns.
    """
    if not splits:
        raise SplitError("A version needs at least one split.", where="publish")
    first_name, first = next(iter(splits.items()))
    for name, dataset in splits.items():
        check_name(name)
        if not len(dataset):
            raise SplitError(
                f"Split {name!r} has no rows.",
                where=f"split {name}",
                hint="Leave it out: TFDS cannot read a split without examples.",
            )
        if dataset.features != first.features:
            raise FeatureTypeError(
                f"Split {name!r} has other columns than {first_name!r}: "
                f"{_difference(first.features, dataset.features)}.",
                where=f"split {name}",
                hint=f"Cast it: splits[{name!r}].cast(splits[{first_name!r}].features), "
                "or publish it under another name or config.",
            )


def _difference(first: Mapping[str, Any], second: Mapping[str, Any]) -> str:
    parts = [f"no {name!r}" for name in first if name not in second]
    parts += [f"{name!r} besides" for name in second if name not in first]
    parts += [
        f"{name!r} is {second[name]!r}, not {first[name]!r}"
        for name in first
        if name in second and first[name] != second[name]
    ]
    return "; ".join(parts[:4]) or "in another order"


def check_columns(splits: Mapping[str, Dataset]) -> dict[str, int]:
    """Refuses columns that tf.Example cannot hold as they are.

    Args:
        splits: datasets of the same columns.

    Returns:
        Column -> channels of the images whose feature does not say.

    Raises:
        FeatureTypeError: a column of another type, or with nulls; names it and the way out.
        BuilderError: a column that TFDS refuses.
    """
    from provender.records import check_features

    first = next(iter(splits.values()))
    channels = {
        name: _channels(first, name, feature)
        for name, feature in first.features.items()
        if _image_of(feature) is not None
    }
    check_features(to_tfds(first.features, channels))
    for split, dataset in splits.items():
        for name, feature in dataset.features.items():
            _refuse_nulls(split, dataset, name, feature)
    return channels


def _image_of(feature: FeatureType) -> Image | None:
    while isinstance(feature, List | LargeList):
        feature = feature.feature
    return feature if isinstance(feature, Image) and feature.mode is None else None


def _channels(dataset: Dataset, name: str, feature: FeatureType) -> int:
    """Channels of the first image of a column; TFDS gives every image of a feature as many."""
    from PIL import Image as Pillow

    image = _image_of(feature)
    value: Any = None
    for table in dataset._tables(100, 0, min(100, len(dataset))):
        for value in table.column(name).to_pylist():
            while isinstance(value, list):
                value = value[0] if value else None
            if value is not None:
                break
        if value is not None:
            break
    if value is None or image is None:
        return 3
    try:
        with Pillow.open(io.BytesIO(image.content(value))) as opened:
            return _CHANNELS.get(opened.mode, 3)
    except OSError as error:
        raise FeatureTypeError(
            f"The first image of column {name!r} cannot be decoded: {error}.",
            where=f"column {name!r}",
        ) from error


def _refuse_nulls(split: str, dataset: Dataset, name: str, feature: FeatureType) -> None:
    whole = dataset.data.column(name)
    if not any(_null_in(chunk, feature, name) for chunk in whole.chunks):
        return
    row = 0
    for table in dataset._tables(_ROWS):
        for chunk in table.column(name).chunks:
            if path := _null_in(chunk, feature, name):
                at = row + _first_null(chunk, feature, name)
                raise _null_error(split, name, feature, path, at)
            row += len(chunk)


def _null_in(array: pa.Array, feature: FeatureType, path: str) -> str | None:
    """Where in a column a null is, or None."""
    if isinstance(array.type, pa.BaseExtensionType):
        array = array.storage
    if array.null_count:
        return path
    if isinstance(feature, _File):
        return None
    if isinstance(feature, Translation | TranslationVariableLanguages):
        feature = feature.flatten()
    if isinstance(feature, Mapping):
        for name, part in zip([each.name for each in array.type], array.flatten(), strict=True):
            if found := _null_in(part, feature[name], f"{path}/{name}"):
                return found
        return None
    if isinstance(feature, List | LargeList):
        return _null_in(array.flatten(), feature.feature, f"{path}[]")
    if isinstance(feature, _Array):
        for _ in feature.shape:
            array = array.flatten()
            if array.null_count:
                return f"{path}[]"
    return None


def _first_null(array: pa.Array, feature: FeatureType, path: str) -> int:
    low, high = 0, len(array)
    while high - low > 1:
        middle = (low + high) // 2
        if _null_in(array.slice(low, middle - low), feature, path):
            high = middle
        else:
            low = middle
    return low


def _filling(feature: FeatureType) -> str | None:
    """Python text of a value that a column can hold where it has none; None if none suggests itself."""
    if isinstance(feature, List | LargeList):
        return "[]" if getattr(feature, "length", -1) < 0 else None
    if not isinstance(feature, Value):
        return None  # a class, a file or an array that stands for nothing is up to the user
    kind = feature.pa_type
    types = pa.types
    if types.is_boolean(kind):
        return "False"
    if types.is_integer(kind):
        return "0"
    if types.is_floating(kind):
        return "0.0"
    if types.is_string(kind) or types.is_large_string(kind):
        return '""'
    return 'b""' if types.is_binary(kind) or types.is_large_binary(kind) else None


def _null_error(
    split: str, name: str, feature: FeatureType, path: str, row: int
) -> FeatureTypeError:
    column = f"row[{name!r}]"
    if path == name:
        hint = f"Leave such rows out: ds.filter(lambda row: {column} is not None)"
        filling = _filling(feature)
        if filling is not None:
            value = f"{filling} if {column} is None else {column}"
            hint += f", or fill them in: ds.map(lambda row: {{{name!r}: {value}}})"
        hint += "."
    else:
        hint = (
            f"Fill them in: ds.map(lambda row: {{{name!r}: ...}}), or ds.remove_columns({name!r})."
        )
    return FeatureTypeError(
        f"Column {path!r} has no value in row {row} of split {split!r}, and tf.Example has no "
        "nulls.",
        where=f"column {path!r}, split {split}, row {row}",
        hint=hint,
        facts={"column": name, "path": path, "split": split, "row": row},
    )
