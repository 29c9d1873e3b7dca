"""The difference of two versions."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from fastapi import APIRouter
from fastapi.responses import Response

from provender.errors import ProvenderError, UnknownReference
from provender.ui.parameters import Text, Viewing
from provender.ui.units import number
from provender.ui.view import View

router = APIRouter(include_in_schema=False)
_OFFERED = 60


@dataclass(frozen=True)
class Moved:
    """How far a feature moved, as a row of a table.

    Attributes:
        distance: between 0 (alike) and 1 (nothing in common).
        figures: (name, before, after), those that differ.
    """

    split: str
    feature: str
    distance: float
    part: str
    figures: list[tuple[str, str, str]]


@router.get("/diff")
def diff(
    at: Viewing, a: Text = "", b: Text = "", examples: bool = False, key: Text = ""
) -> Response:
    """What differs between two versions, or the form that asks which."""
    if not a or not b:
        return _form(at, a, b)
    try:
        before, after = (
            at.library.version(at.library.find(a)),
            at.library.version(at.library.find(b)),
        )
    except UnknownReference as error:
        return _form(at, a, b, error)
    at.check(before.dataset, after.dataset)
    found = at.library.diff(before, after)
    contents, trouble = None, None
    if examples:
        try:
            contents = at.library.diff_examples(before, after, key or None)
        except ProvenderError as error:
            trouble = error
    return at.page(
        "diff.html",
        a=before,
        b=after,
        diff=found,
        moved=[_moved(each) for each in sorted(found.drift, key=lambda each: -each.distance)[:100]],
        more_moved=max(0, len(found.drift) - 100),
        most=max((max(each.examples) for each in found.splits), default=0),
        contents=contents,
        trouble=trouble,
        readable=at.library.can_compare(before, after),
        key=key,
    )


def _form(at: View, a: str, b: str, error: UnknownReference | None = None) -> Response:
    offered = [each.name for each in at.library.newest(_OFFERED) if at.sees(each.dataset)]
    return at.page(
        "diff_form.html",
        status=200 if error is None else 404,
        a=_typed(at, a),
        b=_typed(at, b),
        offered=[each for each in offered if len(each) <= 200],
        error=None if error is None else at.discreet(error),
    )


def _typed(at: View, ref: str) -> str:
    """What to put into the form: names rather than ids."""
    if not ref:
        return ""
    try:
        found = at.library.summary(at.library.find(ref))
    except UnknownReference:
        return ref
    return found.name if at.sees(found.dataset) else ref


def _moved(drift: Any) -> Moved:
    names = [name for name in drift.before if name in drift.after]
    figures = [
        (name, _shown(drift.before[name]), _shown(drift.after[name]))
        for name in names
        if drift.before[name] != drift.after[name] and name != "examples"
    ]
    return Moved(drift.split, drift.feature, float(drift.distance), drift.main, figures)


def _shown(value: Any) -> str:
    return number(value) if isinstance(value, (int, float)) else str(value)
