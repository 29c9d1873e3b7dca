"""Names of splits, spelt as Hugging Face Datasets spells them."""

from __future__ import annotations

from typing import Any, ClassVar


class NamedSplit(str):
    """A split's name, or an expression; an ordinary text in all else."""

    __slots__ = ()

    def __repr__(self) -> str:
        return f"NamedSplit({str(self)!r})"

    def __reduce__(self) -> tuple[Any, ...]:
        return NamedSplit, (str(self),)


class Split(NamedSplit):
    """The usual names: ``Split.TRAIN``, ``VALIDATION``, ``TEST``, ``ALL``; ``Split("x")`` is another."""

    __slots__ = ()

    TRAIN: ClassVar[NamedSplit] = NamedSplit("train")
    VALIDATION: ClassVar[NamedSplit] = NamedSplit("validation")
    TEST: ClassVar[NamedSplit] = NamedSplit("test")
    ALL: ClassVar[NamedSplit] = NamedSplit("all")

    def __new__(cls, name: str) -> NamedSplit:  # type: ignore[misc]
        return NamedSplit(name)
