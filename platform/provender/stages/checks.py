"""Checks of a version before it is published: pure functions from figures to findings.

What may be asked for is `provender.settings.Checks`; the figures are those of
`provender.statistics`. A check that has nothing to look at says so and does not fail; only what was
looked at and found wrong does.
"""

from __future__ import annotations

import difflib
import importlib
import importlib.util
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from provender.errors import SettingsError

if TYPE_CHECKING:
    from provender.settings import Checks

PASSED, FAILED, ALLOWED, SKIPPED = "passed", "failed", "allowed", "skipped"

Figures = Mapping[str, Mapping[str, Any]]
"""Split name -> its figures."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """What one check found in one place.

    Attributes:
        name: the check.
        scope: split, or split/feature; empty for the whole version.
        state: `PASSED`, `FAILED` or `SKIPPED`.
        message: one sentence with the numbers.
        measured: the number found.
        bound: the number asked for.
    """

    name: str
    scope: str
    state: str
    message: str
    measured: float | None = None
    bound: float | None = None

    @property
    def label(self) -> str:
        """``name``, or ``name:scope``: what ``--allow`` takes."""
        return f"{self.name}:{self.scope}" if self.scope else self.name

    def to_json(self) -> dict[str, Any]:
        """The outcome, JSON-ready."""
        return asdict(self)


@dataclass(frozen=True, slots=True)
class Before:
    """The version that drift is measured against: its name, its figures."""

    name: str
    figures: Figures


def evaluate(
    checks: Checks,
    counts: Mapping[str, int],
    figures: Figures,
    before: Before | None,
    functions: Mapping[str, Callable[[Figures], Any]],
) -> list[Outcome]:
    """Makes all checks.

    Args:
        checks: what is asked for.
        counts: split name -> examples.
        figures: what is to be published; may lack splits, or be empty.
        before: what was published last, or None.
        functions: the project's own checks, by name.

    Returns:
        At least one outcome a check, failed ones with the numbers that failed.
    """
    found: list[Outcome] = []
    found += _counts("min_examples", checks.min_examples, counts, lambda n, bound: n >= bound)
    found += _counts("max_examples", checks.max_examples, counts, lambda n, bound: n <= bound)
    if checks.label_balance:
        judged = _balance(checks.label_balance, figures)
        found += _or_skipped("label_balance", checks.label_balance, judged, figures)
    if checks.no_empty:
        judged = _no_empty(checks.no_empty, figures)
        found += _or_skipped("no_empty", checks.no_empty, judged, figures)
    if checks.max_drift:
        found += _drift(checks.max_drift, figures, before)
        found += _unknown("max_drift", checks.max_drift, figures)
    for name, function in functions.items():
        found += _own(name, function, figures)
    return found


def _or_skipped(
    name: str, asked: Iterable[str], found: Iterable[Outcome], figures: Figures
) -> list[Outcome]:
    judged = [*found, *_unknown(name, asked, figures)]
    return judged or [Outcome(name, "", SKIPPED, "No split has statistics of such a feature.")]


def _unknown(name: str, asked: Iterable[str], figures: Figures) -> list[Outcome]:
    """Says of every feature that is asked about by name and is not there that it is not."""
    known = {feature for doc in figures.values() for feature in doc.get("features") or {}}
    if not known:
        return []
    found = []
    for each in asked:
        if each != "*" and each not in known:
            near = difflib.get_close_matches(each, known, 1)
            hint = (
                f"did you mean {near[0]!r}?" if near else f"there are {', '.join(sorted(known))}."
            )
            message = f"There is no feature {each!r}; {hint}"
            found.append(Outcome(name, each, SKIPPED, message))
    return found


def _state(good: bool) -> str:
    return PASSED if good else FAILED


# -- numbers of examples ------------------------------------------------------------------------------


def _counts(
    name: str,
    bounds: Mapping[str, float],
    counts: Mapping[str, int],
    good: Callable[[float, float], bool],
) -> Iterator[Outcome]:
    word = "at least" if name.startswith("min") else "at most"
    for split, bound in bounds.items():
        if split == "*":
            number, scope, what = sum(counts.values()), "", "The version"
        elif split in counts:
            number, scope, what = counts[split], split, f"Split {split}"
        else:
            message = f"There is no split {split!r}; there are {', '.join(counts)}."
            yield Outcome(name, split, FAILED, message, 0, bound)
            continue
        message = f"{what} has {number:,} examples, {word} {bound:,} are asked for."
        yield Outcome(name, scope, _state(good(number, bound)), message, number, bound)


# -- features ---------------------------------------------------------------------------------------


def _features(
    asked: Iterable[str], figures: Figures, fits: Callable[[Mapping[str, Any]], bool]
) -> Iterator[tuple[str, str, Mapping[str, Any]]]:
    """Scope, the entry of the rules that names it, and figures of every feature that is meant."""
    rules = set(asked)
    for split, doc in figures.items():
        for name, about in (doc.get("features") or {}).items():
            rule = name if name in rules else "*"
            if rule in rules and fits(about):
                yield f"{split}/{name}", rule, about


def _balance(rules: Mapping[str, float], figures: Figures) -> Iterator[Outcome]:
    def fits(about: Mapping[str, Any]) -> bool:
        return "labels" in about and any(label >= 0 and n for label, n in about["labels"]["counts"])

    for scope, rule, about in _features(rules, figures, fits):
        counts = {label: n for label, n in about["labels"]["counts"] if label >= 0}
        names = about["labels"]["names"]
        if about["labels"].get("others", {}).get("unused_classes"):
            counts[-1] = 0
        rare, common = min(counts, key=counts.__getitem__), max(counts, key=counts.__getitem__)
        ratio = counts[rare] / counts[common]

        def told(label: int, names: Mapping[str, str] = names) -> str:
            return repr(names.get(str(label), label)) if label >= 0 else "an unused class"

        message = (
            f"The rarest class, {told(rare)}, has {counts[rare]:,} examples and the most common, "
            f"{told(common)}, {counts[common]:,}: {ratio:.3g}, at least {rules[rule]:g} is asked for."
        )
        yield Outcome(
            "label_balance", scope, _state(ratio >= rules[rule]), message, ratio, rules[rule]
        )


def _no_empty(rules: Iterable[str], figures: Figures) -> Iterator[Outcome]:
    for scope, _, about in _features(rules, figures, lambda about: True):
        bad = about["missing"] + about["empty"]
        nan = about.get("numbers", {}).get("nan", 0)
        message = f"{about['missing']:,} missing, {about['empty']:,} empty" + (
            f", {nan:,} not a number" if nan else ""
        )
        message += f" of {about['examples']:,} examples; none is asked for."
        yield Outcome("no_empty", scope, _state(not bad and not nan), message, bad + nan, 0)


def _drift(rules: Mapping[str, float], figures: Figures, before: Before | None) -> list[Outcome]:
    from provender.statistics import drift

    if before is None:
        return [Outcome("max_drift", "", SKIPPED, "No other version is published to compare with.")]
    found = []
    for split, doc in figures.items():
        for each in drift(before.figures.get(split) or {}, doc, split):
            bound = rules.get(each.feature, rules.get("*"))
            if bound is None:
                continue
            message = (
                f"Drift from {before.name} is {each.distance:.3f}, most in {each.main}; "
                f"at most {bound:g} is asked for."
            )
            state = _state(each.distance <= bound)
            scope = f"{split}/{each.feature}"
            found.append(Outcome("max_drift", scope, state, message, each.distance, bound))
    if not found:
        message = f"{before.name} has no statistics of the same features."
        return [Outcome("max_drift", "", SKIPPED, message)]
    return found


# -- the project's own ---------------------------------------------------------------------------------


def load_function(source: str, folder: Path | None) -> Callable[[Figures], Any]:
    """Imports a check: ``module:function`` or ``file.py:function``.

    Args:
        source: where it is.
        folder: where modules are looked for besides ``sys.path``, and what files are relative to.

    Raises:
        SettingsError: there is no such thing, or importing it raised.
    """
    place, _, name = source.rpartition(":")
    where = f"checks.function = {source!r}"
    if not place or not name:
        raise SettingsError(
            f"{source!r} names no function.", where=where, hint='function = "checks.py:my_check"'
        )
    try:
        module = _file(place, folder) if place.endswith(".py") else _module(place, folder)
    except Exception as error:
        raise SettingsError(
            f"The check {source} cannot be loaded: {type(error).__name__}: {error}", where=where
        ) from error
    function = getattr(module, name, None)
    if not callable(function):
        raise SettingsError(f"{place} has no function {name!r}.", where=where)
    return function  # type: ignore[no-any-return]


def _file(place: str, folder: Path | None) -> Any:
    path = (folder or Path()) / place
    spec = importlib.util.spec_from_file_location(f"provender_check_{path.stem}", path)
    if spec is None or spec.loader is None or not path.is_file():
        message = f"there is no file {path}"
        raise FileNotFoundError(message)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def _module(name: str, folder: Path | None) -> Any:
    if folder is None:
        return importlib.import_module(name)
    sys.path.insert(0, str(folder))
    try:
        return importlib.import_module(name)
    finally:
        sys.path.remove(str(folder))


def _own(name: str, function: Callable[[Figures], Any], figures: Figures) -> list[Outcome]:
    """Calls a check; it gives the problems it finds as texts, none at all, or one text."""
    try:
        found = function(figures)
        problems = [found] if isinstance(found, str) else [str(each) for each in found or ()]
    except Exception as error:  # noqa: BLE001 - the project's code may raise anything
        return [Outcome(name, "", FAILED, f"It raised {type(error).__name__}: {error}")]
    if not problems:
        return [Outcome(name, "", PASSED, "No problem found.")]
    return [Outcome(name, "", FAILED, each) for each in problems]
