"""Fingerprints of datasets: of content at the start, then one link a transform.

A link depends on the fingerprint of the dataset before, the transform's name, and those parameters
that can change its output. What cannot (worker counts, descriptions, sizes of writes) is never
given to `link`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pyarrow as pa

    from provender.data.features import Features
    from provender.fingerprint import Tree


class Print:
    """A fingerprint that is computed when it is first asked for.

    Slicing or renaming costs nothing until someone needs to know whether the result is cached.

    Args:
        make: computes it, or the digest itself.
        passing: why it is another one in every process, e.g. what could not be fingerprinted;
            None for one that lasts.

    Attributes:
        passing: as given. Nothing that is found by such a fingerprint may outlive the process.
    """

    __slots__ = ("_make", "_value", "passing")

    def __init__(self, make: Callable[[], str] | str, passing: str | None = None) -> None:
        self.passing = passing
        self._value = make if isinstance(make, str) else None
        self._make = None if isinstance(make, str) else make

    def get(self) -> str:
        """The fingerprint, 40 hexadecimal characters unless the user chose another."""
        if self._value is None:
            assert self._make is not None
            self._value = self._make()
            self._make = None
        return self._value

    def lasting(self) -> str:
        """The fingerprint, for what refers to the dataset.

        Raises:
            Unhashable: it is another one in every process.
        """
        from provender.fingerprint.graph import Unhashable

        if self.passing is not None:
            reason = f"a dataset whose own fingerprint does not last: {self.passing}"
            raise Unhashable(reason)
        return self.get()

    def then(self, name: str, /, **parameters: Any) -> Print:
        """The fingerprint after a transform; it lasts if this one does.

        Args:
            name: of the transform, with a number that is raised when its results change.
            **parameters: what can change its output; anything that `Hasher` takes. They must not
                change afterwards.
        """
        return Print(lambda: link(name, self.get(), parameters), self.passing)

    def __reduce__(self) -> tuple[Any, ...]:
        return (Print, (self.get(), self.passing))


def passing_of(prints: Iterable[Print]) -> str | None:
    """Why what is made of several datasets has no lasting fingerprint; None if it has one."""
    return next((each.passing for each in prints if each.passing is not None), None)


def link(name: str, before: str, parameters: Mapping[str, Any]) -> str:
    """The fingerprint after one transform.

    Args:
        name: of the transform, with a number.
        before: fingerprint of the dataset that it is applied to.
        parameters: name -> value. A value that is a `Tree` stands for itself.
    """
    return grown(name, before, parameters).digest


def grown(name: str, before: str, parameters: Mapping[str, Any]) -> Tree:
    """As `link`, as the tree of named digests whose root is the fingerprint."""
    from provender.fingerprint import Tree, combine

    return combine(name, {"input": Tree("input", "dataset", before, before[:12]), **parameters})


def digest_part(name: str, digest: str) -> Tree:
    """A parameter of which only the fingerprint is known."""
    from provender.fingerprint import Tree

    return Tree(name, "fingerprint", digest)


def content_print(table: pa.Table, features: Features) -> Print:
    """The fingerprint of rows by what they are: values and types, not how they are cut or stored."""

    def make() -> str:
        from provender.fingerprint import Hasher

        bare = table.replace_schema_metadata(None)
        return Hasher.hash(("provender dataset 1", features.to_dict(), bare))

    return Print(make)
