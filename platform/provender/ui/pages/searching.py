"""Search."""

from __future__ import annotations

import re

from fastapi import APIRouter
from fastapi.responses import RedirectResponse, Response

from provender.errors import UnknownReference
from provender.ui.parameters import Text, Viewing
from provender.ui.reading import Page

router = APIRouter(include_in_schema=False)
_HITS = 40
# A name with a number or an alias, or an id: people who type that know where they want to go.
_REFERENCE = re.compile(
    r"[a-z][a-z0-9_]*(?:/[^:@\s]+)?(?::\d+\.\d+\.\d+|@[A-Za-z][\w.-]*)|[0-9a-f]{32}"
)


@router.get("/search")
def search(at: Viewing, q: Text = "") -> Response:
    """What matches some words; a reference that means a version leads straight there."""
    words = q.strip()
    if _REFERENCE.fullmatch(words):
        try:
            return RedirectResponse(at.link.version(at.library.find(words)), 303)
        except UnknownReference:
            pass  # then it may still be a word of something
    hits = at.library.search(words, _HITS) if words else Page([])
    return at.page(
        "search.html",
        words=words,
        hits=[each for each in hits.items if at.sees(each.dataset)],
        more=hits.more,
        near=[]
        if hits.items or not words
        else [each for each in at.library.near_datasets(words) if at.sees(each)],
    )
