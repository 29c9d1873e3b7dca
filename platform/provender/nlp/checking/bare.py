"""The process in which a loader is checked: nothing of the caller is in it but the configuration.

Run as ``python -P -m provender.nlp.checking.bare REQUEST RESULT``; both are JSON files.
"""

from __future__ import annotations

import json
import re
import sys
import traceback
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from provender.errors import ProvenderError
from provender.nlp.checking.comparing import Seen, compare_specs, flattened, tpu_warnings
from provender.nlp.checking.findings import ERROR, WARNING, Finding, Report
from provender.nlp.checking.naming import config_class

_OUTSIDE = (
    "Only the configuration reaches the workers: no variable that other code sets, no "
    "environment, no path relative to a working directory. Make it a field of the configuration."
)
_HINTS = {
    "import": "The code must be importable by itself.",
    "config": "Mend the configuration file.",
    "load": _OUTSIDE,
    "spec": "element_spec is told from the configuration alone.",
    "batches": _OUTSIDE,
}


_ASSERTED = re.compile(r"assertion failed: \[(.*?)\]", re.S)
"""What a check inside a pipeline says, among what TensorFlow says around it."""


class _Stop(Exception):
    """A step failed, so the ones after it make no sense."""

    def __init__(self, finding: Finding) -> None:
        self.finding = finding


class _Step:
    """Turns whatever goes wrong inside into a finding."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: Any, error: BaseException | None, _: Any) -> None:
        if isinstance(error, Exception) and not isinstance(error, _Stop):
            raise _Stop(_finding(self._name, error)) from error


def check(request: Mapping[str, Any]) -> Report:
    """Runs the steps of a check.

    Args:
        request: ``loader`` (a name), ``config`` (a mapping), ``batches`` (how many to look at)
            and ``code`` (folders to import from).
    """
    sys.path[:0] = request["code"]
    names = {"loader": "", "config": ""}
    try:
        return _checked(request, names)
    except _Stop as stop:
        return Report(names["loader"], names["config"], findings=(stop.finding,))


def _checked(request: Mapping[str, Any], names: dict[str, str]) -> Report:
    from provender.nlp.registry import get_data_loader

    with _Step("import"):
        kind = config_class(request["loader"])
    names["config"] = _name(kind)
    with _Step("config"):
        params = kind().override(request["config"]).lock()
    with _Step("load"):
        loader = get_data_loader(params)
        names["loader"] = _name(type(loader))
        data = loader.load()
    given = flattened(data.element_spec)
    declared, findings = _declared(loader)
    if declared:
        findings += compare_specs(declared, given)
    ranges = loader.value_ranges() if hasattr(loader, "value_ranges") else {}
    seen = Seen(declared, ranges)
    try:
        with _Step("batches"):
            for batch in data.take(request["batches"]):
                seen.add(flattened(batch))
    except _Stop as stop:
        findings.append(stop.finding)
    else:
        findings += _none(params) if not seen.batches else []
    findings += [*seen.findings(), *tpu_warnings(given)]
    return Report(
        names["loader"],
        names["config"],
        batches=seen.batches,
        rows=seen.rows,
        outputs=seen.outputs(given),
        findings=tuple(findings),
    )


def _declared(loader: Any) -> tuple[dict[str, Any], list[Finding]]:
    try:
        with _Step("spec"):
            return flattened(loader.element_spec()), []
    except _Stop as stop:
        cause = stop.__cause__
        if isinstance(cause, NotImplementedError):
            hint = "Define element_spec, or there is nothing to compare batches with."
            return {}, [Finding("spec", WARNING, str(cause), hint=hint)]
        return {}, [stop.finding]


def _none(params: Any) -> list[Finding]:
    size = params.get("global_batch_size", 0)
    why = f"; a batch has {size}, and drop_remainder leaves a smaller one out"
    message = "load gives no batch: the data has too few rows"
    hint = "Use a smaller global_batch_size, or drop_remainder: false."
    return [
        Finding(
            "batches", ERROR, message + (why if params.get("drop_remainder") else ""), hint=hint
        )
    ]


def _finding(step: str, error: Exception) -> Finding:
    if isinstance(error, ProvenderError):
        return Finding(step, ERROR, error.message, error.where or "", error.hint or _HINTS[step])
    told = _ASSERTED.search(str(error))
    if told:
        return Finding(step, ERROR, told[1], hint="Mend the data or the configuration.")
    first = str(error).strip().splitlines() or [""]
    # TensorFlow puts what Python code inside its functions raised at the end.
    shown = first[-1].strip() if first[0].startswith("in user code") else first[0]
    return Finding(step, ERROR, f"{type(error).__name__}: {shown}", _place(error), _HINTS[step])


def _place(error: BaseException) -> str:
    """The last line of the loader's own code that the error went through."""
    own = [
        each
        for each in traceback.extract_tb(error.__traceback__)
        if "site-packages" not in each.filename and "/provender/nlp/" not in each.filename
    ]
    last = next((each for each in reversed(own) if not each.filename.startswith("<")), None)
    return f"{last.filename}:{last.lineno}" if last else ""


def _name(kind: type) -> str:
    return f"{kind.__module__}.{kind.__qualname__}"


def main() -> None:
    """Reads a request, writes a report."""
    request, result = sys.argv[1:]
    report = check(json.loads(Path(request).read_text(encoding="utf-8")))
    Path(result).write_text(json.dumps(report.to_json()), encoding="utf-8")


if __name__ == "__main__":
    main()
