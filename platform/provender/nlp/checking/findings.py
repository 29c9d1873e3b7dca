"""What a check of a loader found."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

ERROR, WARNING = "error", "warning"


@dataclass(frozen=True)
class Finding:
    """One thing that is wrong.

    Attributes:
        step: where it came up: ``import``, ``config``, ``load``, ``spec``, ``batches``,
            ``values`` or ``tpu``.
        severity: ``error``, or ``warning`` for what works but not everywhere.
        message: what is wrong.
        where: an output, option, or place in a file.
        hint: what to do.
    """

    step: str
    severity: str
    message: str
    where: str = ""
    hint: str = ""

    def to_json(self) -> dict[str, Any]:
        """As a document."""
        return asdict(self)


@dataclass(frozen=True)
class Output:
    """One output of a loader.

    Attributes:
        name: in the element; of a pair ``x.name`` and ``y``.
        declared: dtype and shape that the loader declares; empty where it does not.
        given: dtype and shape that `load` gives.
        least: smallest value seen; None of text, or where nothing was read.
        greatest: largest value seen.
    """

    name: str
    declared: str
    given: str
    least: float | None = None
    greatest: float | None = None

    def to_json(self) -> dict[str, Any]:
        """As a document."""
        return asdict(self)


@dataclass(frozen=True)
class Report:
    """A check's result.

    Attributes:
        loader: the loader's class; empty where none was found.
        config: its configuration's class.
        batches: how many batches were looked at.
        rows: examples in them.
        outputs: what each holds.
        findings: what is wrong, in the order of the steps.
    """

    loader: str = ""
    config: str = ""
    batches: int = 0
    rows: int = 0
    outputs: tuple[Output, ...] = ()
    findings: tuple[Finding, ...] = ()

    @property
    def ok(self) -> bool:
        """Whether there is no error; there may be warnings."""
        return all(each.severity != ERROR for each in self.findings)

    def to_json(self) -> dict[str, Any]:
        """As a document; `from_json` reads it."""
        return {
            "ok": self.ok,
            "loader": self.loader,
            "config": self.config,
            "batches": self.batches,
            "rows": self.rows,
            "outputs": [each.to_json() for each in self.outputs],
            "findings": [each.to_json() for each in self.findings],
        }

    @classmethod
    def from_json(cls, document: Mapping[str, Any]) -> Report:
        """A report from its document."""
        return cls(
            loader=document["loader"],
            config=document["config"],
            batches=document["batches"],
            rows=document["rows"],
            outputs=tuple(Output(**each) for each in document["outputs"]),
            findings=tuple(Finding(**each) for each in document["findings"]),
        )
