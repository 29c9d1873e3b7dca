"""The kinds of features a column can have.

Names, arguments and stored Arrow types are those of Hugging Face Datasets. Every kind knows its
Arrow type, how a Python value is encoded for it, and how a stored value is decoded.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import InitVar, dataclass, field, is_dataclass
from pathlib import Path
from typing import Any, ClassVar

import pyarrow as pa

from provender.data.errors import FeatureTypeError
from provender.data.features.dtypes import ALIASES, arrow_type

FeatureType = Any
"""A `Feature`, or a dict of names to features (a struct)."""

KINDS: dict[str, type[Feature]] = {}
"""Class name -> class, as ``_type`` names it in JSON."""


class Feature:
    """Base of all kinds.

    Attributes:
        decodes: whether reading a value does more than making a Python object of it.
        encodes: whether Python values need `encode_example` before Arrow takes them.
    """

    decodes: ClassVar[bool] = False
    encodes: ClassVar[bool] = False

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        KINDS[cls.__name__] = cls

    def storage(self) -> pa.DataType:
        """The Arrow type of a column."""
        raise NotImplementedError

    @property
    def _type(self) -> str:
        """The kind, as JSON names it."""
        return type(self).__name__

    def __call__(self) -> pa.DataType:
        return self.storage()

    def encode_example(self, value: Any) -> Any:
        """What Arrow stores of a Python value; None stays None."""
        return value

    def decode_example(self, value: Any) -> Any:
        """The Python value of what is stored; never called with None."""
        return value

    @property
    def is_decoded(self) -> bool:
        """Whether reading decodes."""
        return self.decodes and getattr(self, "decode", True)


@dataclass(repr=False, eq=True, unsafe_hash=True)
class Value(Feature):
    """A scalar of one type.

    Args:
        dtype: ``bool``, ``int8`` ... ``uint64``, ``float16`` ... ``float64``, ``string``,
            ``large_string``, ``binary``, ``date32``, ``timestamp[us]``, ``decimal128(10, 2)`` ...
            (see `provender.data.features.dtypes`).

    Raises:
        FeatureTypeError: there is no such type.
    """

    dtype: str
    id: str | None = field(default=None, repr=False)
    encodes: ClassVar[bool] = False

    def __post_init__(self) -> None:
        self.dtype = ALIASES.get(self.dtype, self.dtype)
        arrow_type(self.dtype)

    @property
    def pa_type(self) -> pa.DataType:
        """The Arrow type."""
        return arrow_type(self.dtype)

    def storage(self) -> pa.DataType:
        return arrow_type(self.dtype)

    def encode_example(self, value: Any) -> Any:
        """The value as this type, where nothing is lost: "5" is 5 for an int, 2.5 is refused.

        Raises:
            FeatureTypeError: the value cannot be one of this type.
        """
        if value is None:
            return None
        try:
            return _as_scalar(value, arrow_type(self.dtype))
        except (TypeError, ValueError, OverflowError) as error:
            raise _not_a(self.dtype, value) from error

    def __repr__(self) -> str:
        return f"Value({self.dtype!r})"


def _as_scalar(value: Any, kind: pa.DataType) -> Any:
    types = pa.types
    if types.is_boolean(kind):
        if isinstance(value, str) or value not in (0, 1):
            raise ValueError
        return bool(value)
    if types.is_integer(kind):
        number = int(value)
        if not isinstance(value, str | bytes) and number != value:
            raise ValueError
        return number
    if types.is_floating(kind):
        return float(value)
    if types.is_string(kind) or types.is_large_string(kind) or types.is_string_view(kind):
        return value.decode() if isinstance(value, bytes) else str(value)
    return value


def _not_a(dtype: str, value: Any) -> FeatureTypeError:
    shown = repr(value)
    shown = shown if len(shown) <= 80 else shown[:77] + "..."
    return FeatureTypeError(
        f"{shown} ({type(value).__name__}) is not a {dtype}.",
        facts={"expected": dtype, "found": type(value).__name__, "value": shown},
    )


@dataclass(eq=True)
class ClassLabel(Feature):
    """Class numbers with names; stored as int64, -1 means that the class is not known.

    Args:
        num_classes: number of classes, named "0", "1", ... where no names are given.
        names: a name for each class, in order, each once.
        names_file: file with a name a line.

    Raises:
        FeatureTypeError: none of them is given, they contradict, or a name comes twice.
    """

    num_classes: InitVar[int | None] = None
    names: list[str] = None  # type: ignore[assignment]
    names_file: InitVar[str | None] = None
    id: str | None = field(default=None, repr=False)
    dtype: ClassVar[str] = "int64"
    encodes: ClassVar[bool] = True

    def __post_init__(self, num_classes: int | None, names_file: str | None) -> None:
        # A pseudo-field that is not given arrives as the property of the same name.
        num_classes = num_classes if isinstance(num_classes, int) else None
        if names_file is not None:
            if self.names is not None:
                raise FeatureTypeError("ClassLabel takes names or names_file, not both.")
            text = Path(names_file).read_text(encoding="utf-8")
            self.names = [line.strip() for line in text.split("\n") if line.strip()]
        if self.names is None:
            if num_classes is None:
                raise FeatureTypeError("ClassLabel needs num_classes, names or names_file.")
            self.names = [str(each) for each in range(num_classes)]
        if isinstance(self.names, str) or not isinstance(self.names, Iterable):
            raise FeatureTypeError(f"Class names must be a list, not {self.names!r}.")
        self.names = [str(each) for each in self.names]
        if num_classes is not None and num_classes != len(self.names):
            raise FeatureTypeError(
                f"{len(self.names)} class names were given for num_classes={num_classes}."
            )
        self._numbers = {name: number for number, name in enumerate(self.names)}
        if len(self._numbers) != len(self.names):
            twice = sorted({each for each in self.names if self.names.count(each) > 1})
            raise FeatureTypeError(f"Class names must differ; more than once: {', '.join(twice)}.")

    def __hash__(self) -> int:
        return hash(tuple(self.names))

    @property
    def pa_type(self) -> pa.DataType:
        """The Arrow type."""
        return pa.int64()

    def storage(self) -> pa.DataType:
        return pa.int64()

    def str2int(self, values: Any) -> Any:
        """Number of a class name, or numbers of several; "3" is the number 3 if no class is so named.

        Raises:
            FeatureTypeError: no class has that name.
        """
        if isinstance(values, str):
            return self._number(values)
        return [self._number(each) for each in values]

    def int2str(self, values: Any) -> Any:
        """Name of a class number, or names of several.

        Raises:
            FeatureTypeError: no class has that number.
        """
        if not isinstance(values, Iterable):
            return self._name(values)
        return [self._name(each) for each in values]

    def _number(self, name: Any) -> int:
        name = str(name)
        for each in (name, name.strip()):
            if each in self._numbers:
                return self._numbers[each]
        try:
            number = int(name)
        except ValueError:
            number = -2
        if -1 <= number < len(self.names):
            return number
        import difflib

        near = difflib.get_close_matches(name, self.names, 3, 0.5)
        raise FeatureTypeError(
            f"There is no class {name!r}.",
            hint=f"Did you mean {' or '.join(near)}?" if near else f"Classes: {self._shown()}",
            facts={"value": name, "classes": len(self.names)},
        )

    def _name(self, number: Any) -> str:
        if not 0 <= number < len(self.names):
            raise FeatureTypeError(
                f"There is no class number {number}; there are {len(self.names)} classes.",
                facts={"value": int(number), "classes": len(self.names)},
            )
        return self.names[int(number)]

    def _shown(self) -> str:
        return ", ".join(self.names[:10]) + (", ..." if len(self.names) > 10 else "")

    def encode_example(self, value: Any) -> Any:
        """The class number of a name or number.

        Raises:
            FeatureTypeError: there is no such class.
        """
        if value is None:
            return None
        if isinstance(value, str):
            return self._number(value)
        if isinstance(value, bytes):
            return self._number(value.decode())
        number = int(value)
        if number != value or not -1 <= number < len(self.names):
            raise FeatureTypeError(
                f"There is no class number {value!r}; there are {len(self.names)} classes "
                "(-1 means unknown).",
                facts={"value": str(value), "classes": len(self.names)},
            )
        return number


# A dataclass pseudo-field cannot be read back, so the number of classes becomes a property after
# the class is made.
ClassLabel.num_classes = property(lambda self: len(self.names))  # type: ignore[assignment, attr-defined]


class Sequence(Feature):
    """A list; of a dict: a dict of lists, which is how TFDS's Sequence lays it out.

    A call makes a `List`, or a dict of them; the class is there to be called and for
    ``isinstance``.
    """

    def __new__(cls, feature: Any = None, length: int = -1, **kwargs: Any) -> Any:
        """Makes the list.

        Args:
            feature: of each item.
            length: number of items, or -1 for any.
            **kwargs: as for `List`.
        """
        if cls is Sequence:
            if isinstance(feature, dict) and any(
                not isinstance(each, List) for each in feature.values()
            ):
                return {key: List(each, length, **kwargs) for key, each in feature.items()}
            return super().__new__(List)
        return super().__new__(cls)


@dataclass(repr=False, eq=True)
class List(Sequence):
    """A list of items of one kind, stored with 32-bit offsets or, of a fixed length, without.

    Args:
        feature: of each item.
        length: number of items, or -1 for any.
    """

    feature: FeatureType
    length: int = -1
    id: str | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        self.feature = lists_of(self.feature)

    def storage(self) -> pa.DataType:
        return pa.list_(type_of(self.feature), self.length)

    def __hash__(self) -> int:
        return hash((repr(self.feature), self.length))

    def __repr__(self) -> str:
        return f"List({self.feature!r}" + (f", length={self.length})" if self.length >= 0 else ")")


@dataclass(repr=False, eq=True)
class LargeList(Feature):
    """A list of items of one kind, stored with 64-bit offsets.

    Args:
        feature: of each item.
    """

    feature: FeatureType
    id: str | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        self.feature = lists_of(self.feature)

    def storage(self) -> pa.DataType:
        return pa.large_list(type_of(self.feature))

    def __hash__(self) -> int:
        return hash(("large", repr(self.feature)))

    def __repr__(self) -> str:
        return f"LargeList({self.feature!r})"


def lists_of(feature: FeatureType) -> FeatureType:
    """The feature with ``[feature]``, an old spelling of lists, written as `List`.

    Raises:
        FeatureTypeError: it is not a feature.
    """
    if isinstance(feature, list | tuple):
        if len(feature) != 1:
            raise FeatureTypeError(f"A list feature has one item, the inner feature: {feature!r}.")
        return List(lists_of(feature[0]))
    if isinstance(feature, Mapping):
        made = {name: lists_of(each) for name, each in feature.items()}
        return type(feature)(made) if isinstance(feature, dict) else made
    if isinstance(feature, str):
        return Value(feature)
    if isinstance(feature, pa.DataType):
        from provender.data.features.arrow import feature_of

        return feature_of(feature)
    if isinstance(feature, Feature):
        return feature
    if _of_other_library(feature):
        from provender.data.features.arrow import from_doc, to_doc

        return from_doc(to_doc(feature))
    raise FeatureTypeError(
        f"{feature!r} is not a feature.",
        hint='Write Value("int64"), ClassLabel(names=[...]), List(...), Image() or a dict of them.',
    )


def _of_other_library(feature: Any) -> bool:
    """Whether it is a feature of Hugging Face Datasets: a dataclass that names its kind."""
    kind = getattr(feature, "_type", None)
    return (
        is_dataclass(feature)
        and not isinstance(feature, type)
        and kind == type(feature).__name__
        and kind in KINDS
    )


def type_of(feature: FeatureType) -> pa.DataType:
    """The Arrow type of a feature."""
    if isinstance(feature, Mapping):
        return pa.struct([pa.field(name, type_of(each)) for name, each in feature.items()])
    kind: pa.DataType = feature.storage()
    return kind
