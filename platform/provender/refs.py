"""How people name datasets: ``name[/config][:version | @alias]``, a class, or a file.

xsum                      the newest version that can be built, or the newest published
xsum:1.1.0                one version
wikipedia/en:1.0.0        a config of a builder
xsum@golden               what the alias points to
package.module:Class      a builder class
path/to/file.py:Class     a builder class in a file
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from pathlib import Path

from provender.errors import UnknownReference

_NAME = r"[a-z][a-z0-9_]*"
_VERSION = r"\d+\.\d+\.\d+"
_DATASET = re.compile(
    rf"(?P<name>{_NAME})(?:/(?P<config>[^:@\s]+))?(?::(?P<version>{_VERSION})|@(?P<alias>[A-Za-z][\w.-]*))?"
)
_CLASS = re.compile(r"(?P<module>[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)*):(?P<cls>[A-Za-z_]\w*)")


@dataclass(frozen=True)
class DatasetRef:
    """A parsed reference.

    Attributes:
        name: dataset name in snake case; empty for a class or file reference, where only the
            loaded class knows it.
        config: builder config name, or None for the default.
        version: ``x.y.z``, or None.
        alias: alias name, or None; never together with ``version``.
        target: ``module:Class`` or ``/abs/file.py:Class``, or None for a named dataset.
    """

    name: str = ""
    config: str | None = None
    version: str | None = None
    alias: str | None = None
    target: str | None = None

    def __str__(self) -> str:
        if self.target:
            return self.target
        text = self.name + (f"/{self.config}" if self.config else "")
        if self.version:
            return f"{text}:{self.version}"
        return f"{text}@{self.alias}" if self.alias else text

    @property
    def is_file(self) -> bool:
        """Whether the reference names a class inside a Python file."""
        return self.target is not None and self.target.rpartition(":")[0].endswith(".py")

    def with_(self, *, config: str | None = None, version: str | None = None) -> DatasetRef:
        """A copy with config and version replaced where given."""
        return replace(
            self,
            config=config or self.config,
            version=version or self.version,
            alias=None if version else self.alias,
        )

    @classmethod
    def parse(cls, text: str) -> DatasetRef:
        """Parses a reference as typed by a person.

        Args:
            text: one of the forms in the module's docstring; ``~`` is expanded in file paths.

        Returns:
            The reference; file paths are made absolute.

        Raises:
            UnknownReference: the text has none of the forms, or names a file that is not there.
        """
        text = text.strip()
        path, colon, attr = text.rpartition(":")
        if colon and path.endswith(".py"):
            file = Path(path).expanduser().absolute()
            if not file.is_file():
                raise UnknownReference(
                    f"There is no file {file}.",
                    where=text,
                    hint="Give the builder as path/to/file.py:ClassName.",
                )
            return cls(target=f"{file}:{attr}")
        if found := _DATASET.fullmatch(text):
            return cls(**found.groupdict())
        if found := _CLASS.fullmatch(text):
            return cls(target=text)
        raise UnknownReference(
            f"{text!r} does not name a dataset.",
            where=text,
            hint="Use name, name:1.0.0, name/config:1.0.0, name@alias, package.module:Class "
            "or path/to/file.py:Class.",
        )
