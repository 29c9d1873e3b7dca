"""Features made of several values: tensors, translations, JSON."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any, ClassVar

import pyarrow as pa

from provender.data.errors import FeatureTypeError
from provender.data.features.dtypes import ALIASES, arrow_type
from provender.data.features.types import Feature, FeatureType, List, Value


@dataclass(eq=True, unsafe_hash=True)
class _Array(Feature):
    """A tensor of known shape, stored as nested lists.

    Args:
        shape: size of each dimension; the first may be None (differs from row to row).
        dtype: type of the elements.

    Raises:
        FeatureTypeError: wrong number of dimensions, or None beyond the first.
    """

    shape: tuple[int | None, ...]
    dtype: str
    id: str | None = field(default=None, repr=False)
    rank: ClassVar[int] = 0

    def __post_init__(self) -> None:
        self.shape = tuple(self.shape)
        self.dtype = ALIASES.get(self.dtype, self.dtype)
        arrow_type(self.dtype)
        if len(self.shape) != self.rank:
            raise FeatureTypeError(
                f"{type(self).__name__} has {self.rank} dimensions, its shape {self.shape} "
                f"has {len(self.shape)}."
            )
        if any(each is None for each in self.shape[1:]):
            raise FeatureTypeError(
                f"Only the first dimension of {type(self).__name__} may be None, got {self.shape}.",
                hint="List(List(Value(...))) holds tensors of any shape.",
            )

    def storage(self) -> pa.DataType:
        kind = arrow_type(self.dtype)
        for _ in self.shape:
            kind = pa.list_(kind)
        return kind


class Array2D(_Array):
    """A tensor of two dimensions, see `Array3D` for the arguments."""

    rank: ClassVar[int] = 2


class Array3D(_Array):
    """A tensor of three dimensions: ``shape`` (the first may be None) and ``dtype``."""

    rank: ClassVar[int] = 3


class Array4D(_Array):
    """A tensor of four dimensions, see `Array3D` for the arguments."""

    rank: ClassVar[int] = 4


class Array5D(_Array):
    """A tensor of five dimensions, see `Array3D` for the arguments."""

    rank: ClassVar[int] = 5


@dataclass(eq=True)
class Translation(Feature):
    """A text in each of several languages; stored as a struct of strings.

    Args:
        languages: language codes.
    """

    languages: list[str]
    id: str | None = field(default=None, repr=False)

    def storage(self) -> pa.DataType:
        return pa.struct({each: pa.string() for each in sorted(self.languages)})

    def flatten(self) -> dict[str, FeatureType]:
        """The features that it is made of."""
        return {each: Value("string") for each in sorted(self.languages)}

    def __hash__(self) -> int:
        return hash(tuple(self.languages))


@dataclass(eq=True)
class TranslationVariableLanguages(Feature):
    """Texts in some of several languages; stored as lists of languages and of translations.

    Args:
        languages: language codes that may come, or None for any.
    """

    languages: list[str] | None = None
    num_languages: int | None = None
    id: str | None = field(default=None, repr=False)
    encodes: ClassVar[bool] = True

    def __post_init__(self) -> None:
        self.languages = sorted(set(self.languages)) if self.languages else None
        self.num_languages = len(self.languages) if self.languages else None

    def __hash__(self) -> int:
        return hash(tuple(self.languages or ()))

    def storage(self) -> pa.DataType:
        texts = pa.list_(pa.string())
        return pa.struct({"language": texts, "translation": texts})

    def flatten(self) -> dict[str, FeatureType]:
        """The features that it is made of."""
        return {"language": List(Value("string")), "translation": List(Value("string"))}

    def encode_example(self, value: Any) -> Any:
        """Sorted pairs of language and text, from ``{language: text or texts}``.

        Raises:
            FeatureTypeError: a language that is not among ``languages``.
        """
        if value is None or set(value) == {"language", "translation"}:
            return value
        if self.languages and (others := set(value) - set(self.languages)):
            raise FeatureTypeError(
                f"Languages {', '.join(sorted(others))} are not among {', '.join(self.languages)}."
            )
        pairs: list[tuple[str, str]] = []
        for language, text in value.items():
            texts = [text] if isinstance(text, str) else list(text)
            pairs += [(language, each) for each in texts]
        pairs.sort()
        return {"language": [each for each, _ in pairs], "translation": [each for _, each in pairs]}


@dataclass(eq=True, unsafe_hash=True)
class Json(Feature):
    """Any JSON value, stored as its text.

    Args:
        decode: whether reading parses the text.
    """

    decode: bool = True
    id: str | None = field(default=None, repr=False)
    decodes: ClassVar[bool] = True
    encodes: ClassVar[bool] = True

    def storage(self) -> pa.DataType:
        return pa.string()

    def encode_example(self, value: Any) -> Any:
        """The JSON text of a value; a string that is JSON already stays as it is."""
        if value is None:
            return None
        if isinstance(value, str):
            try:
                json.loads(value)
            except ValueError:
                return json.dumps(value)
            return value
        return json.dumps(value)

    def decode_example(self, value: Any) -> Any:
        return json.loads(value)
