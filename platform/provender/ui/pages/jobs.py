"""Jobs, and what each of them has read."""

from __future__ import annotations

from fastapi import APIRouter
from fastapi.responses import Response

from provender.ui.parameters import PageNumber, Text, Viewing
from provender.ui.reading import Page
from provender.ui.view import View

router = APIRouter(include_in_schema=False)


@router.get("/jobs")
def jobs(at: Viewing, name: Text = "", page: PageNumber = 1) -> Response:
    """Reads by all jobs, or by one."""
    found = seen(at, at.library.readings(page, job=name or None))
    if not name:
        return at.page("jobs.html", page=found, address=lambda number: at.link.jobs(page=number))
    return at.page(
        "job.html", job=name, page=found, address=lambda number: at.link.job(name, page=number)
    )


def seen(at: View, page: Page) -> Page:
    """A page of reads without those of datasets that are not for this visitor."""
    kept = [each for each in page.items if at.sees(each.name.partition(":")[0].partition("/")[0])]
    return Page(kept, page.number, page.more)
