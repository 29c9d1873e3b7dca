"""Batches beside what a loader declares."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from provender.nlp.checking.findings import ERROR, WARNING, Finding, Output

_NOT_ON_TPU = ("int64", "uint64", "float64", "string")


def flattened(structure: Any) -> dict[str, Any]:
    """Name -> leaf of an element: of a dict its keys, of a pair ``x.key``, ``y`` or ``y.key``."""
    if isinstance(structure, tuple) and not hasattr(structure, "_fields"):
        names = ("x", "y", "w") if len(structure) <= 3 else tuple(map(str, range(len(structure))))
        parts = zip(names, structure, strict=False)
        return {name: leaf for prefix, part in parts for name, leaf in _named(part, prefix).items()}
    return _named(structure, "")


def _named(part: Any, prefix: str) -> dict[str, Any]:
    if not isinstance(part, Mapping):
        return {prefix or "output": part}
    found: dict[str, Any] = {}
    for key, value in part.items():
        found.update(_named(value, f"{prefix}.{key}" if prefix else str(key)))
    return found


def worded(spec: Any) -> str:
    """A spec as ``int32 [?, 128]``."""
    shape = getattr(spec, "shape", None)
    if shape is None or shape.rank is None:
        return f"{getattr(spec, 'dtype', spec)!r}".replace("tf.", "")
    sizes = ", ".join("?" if size is None else str(size) for size in shape)
    return f"{spec.dtype.name} [{sizes}]"


def compare_specs(declared: Mapping[str, Any], given: Mapping[str, Any]) -> list[Finding]:
    """What `load` gives otherwise than declared: missing and further outputs, dtypes, shapes."""
    found = []
    for name in [each for each in declared if each not in given]:
        message = f"declared, and load does not give it; it gives {', '.join(given)}"
        found.append(_error("spec", name, message))
    for name, spec in given.items():
        if name not in declared:
            found.append(_error("spec", name, "load gives it, and it is not declared"))
        elif not _fits(spec, declared[name]):
            message = f"{worded(declared[name])} is declared, and load gives {worded(spec)}"
            found.append(_error("spec", name, message))
    return found


def _fits(given: Any, declared: Any) -> bool:
    if given.dtype != declared.dtype:
        return False
    return bool(declared.shape.is_compatible_with(given.shape))


def tpu_warnings(given: Mapping[str, Any]) -> list[Finding]:
    """Outputs that a TPU does not take."""
    return [
        Finding(
            "tpu",
            WARNING,
            f"a TPU takes no {spec.dtype.name}",
            name,
            "Cast it, or drop it before the batch goes to the device.",
        )
        for name, spec in given.items()
        if getattr(spec, "dtype", None) is not None and spec.dtype.name in _NOT_ON_TPU
    ]


class Seen:
    """Collects what batches hold.

    Args:
        declared: name -> spec.
        ranges: name -> least and greatest value that is allowed.
    """

    def __init__(self, declared: Mapping[str, Any], ranges: Mapping[str, Any]) -> None:
        self._declared, self._ranges = declared, ranges
        self._least: dict[str, float] = {}
        self._greatest: dict[str, float] = {}
        self._found: dict[tuple[str, str], Finding] = {}
        self.batches = 0
        self.rows = 0

    def add(self, batch: Mapping[str, Any]) -> None:
        """Looks at one batch: name -> tensor."""
        rows = {value.shape[0] for value in batch.values() if value.shape.rank}
        self.rows += max(rows, default=1)
        if len(rows) > 1:
            self._note("batches", "", f"outputs have different numbers of rows: {sorted(rows)}")
        for name, value in batch.items():
            declared = self._declared.get(name)
            if declared is not None and not declared.shape.is_compatible_with(value.shape):
                message = (
                    f"{worded(declared)} is declared, and batch {self.batches} has {worded(value)}"
                )
                self._note("batches", name, message)
            self._look_at(name, value)
        self.batches += 1

    def _look_at(self, name: str, value: Any) -> None:
        import numpy as np

        array = np.asarray(value)
        if array.dtype.kind not in "iufb" or not array.size:
            return
        if array.dtype.kind == "f" and not np.isfinite(array).all():
            self._note("values", name, f"batch {self.batches} has values that are no numbers")
            return
        least, greatest = float(array.min()), float(array.max())
        self._least[name] = min(least, self._least.get(name, math.inf))
        self._greatest[name] = max(greatest, self._greatest.get(name, -math.inf))
        low, high = self._ranges.get(name, (None, None))
        if (low is not None and least < low) or (high is not None and greatest > high):
            allowed = " to ".join("..." if each is None else f"{each:g}" for each in (low, high))
            message = (
                f"{allowed} is declared, and batch {self.batches} has {least:g} to {greatest:g}"
            )
            self._note("values", name, message)

    def _note(self, step: str, name: str, message: str) -> None:
        """Keeps the first finding of a step for each output."""
        self._found.setdefault((step, name), _error(step, name, message))

    def findings(self) -> list[Finding]:
        """What is wrong with the batches."""
        return list(self._found.values())

    def outputs(self, given: Mapping[str, Any]) -> tuple[Output, ...]:
        """What each output holds."""
        return tuple(
            Output(
                name,
                worded(self._declared[name]) if name in self._declared else "",
                worded(spec),
                self._least.get(name),
                self._greatest.get(name),
            )
            for name, spec in given.items()
        )


def _error(step: str, name: str, message: str) -> Finding:
    return Finding(step, ERROR, message, name)
