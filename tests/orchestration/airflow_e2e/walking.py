"""A walk through Airflow's own pages in a real browser: signed in, tab by tab."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from urllib.parse import quote

from tests.ui.serving import browsing

WINDOW = {"width": 1280, "height": 800}
PATIENCE = 90_000
"""Milliseconds for a page on a busy machine; reached only where it fails."""


class Walk:
    """A signed-in window.

    Args:
        page: of playwright.
        url: address of Airflow.

    Attributes:
        elsewhere: addresses outside Airflow that its pages have asked for.
    """

    def __init__(self, page: Any, url: str) -> None:
        self.page = page
        self.url = url
        self.elsewhere: list[str] = []
        page.set_default_timeout(PATIENCE)
        page.on("request", self._seen)

    def _seen(self, request: Any) -> None:
        if not request.url.startswith((self.url, "data:", "blob:")):
            self.elsewhere.append(request.url)

    def sign_in(self, user: str, password: str) -> None:
        self.page.goto(f"{self.url}/auth/login")
        self.page.fill("input[name=username]", user)
        self.page.fill("input[name=password]", password)
        self.page.click("button[type=submit]")
        self.page.wait_for_url(lambda url: "/auth/login" not in url)

    def frame(self, path: str) -> Any:
        """Opens a page of Airflow that shows one of ours, and gives the latter."""
        self.page.goto(f"{self.url}{path}")
        found = self.page.frame_locator("iframe")
        found.locator("main h1").wait_for()
        return found

    def dag(self, dag_id: str) -> Any:
        """What the DAG's tab shows."""
        return self.frame(f"/dags/{dag_id}/plugin/provender-dag")

    def run(self, dag_id: str, run_id: str) -> Any:
        """What the run's tab shows."""
        return self.frame(f"/dags/{dag_id}/runs/{quote(run_id)}/plugin/provender-dag-run")

    def task(self, dag_id: str, run_id: str, task_id: str, map_index: int | None = None) -> Any:
        """What the tab of a task instance shows."""
        place = f"/dags/{dag_id}/runs/{quote(run_id)}/tasks/{task_id}"
        mapped = "" if map_index is None else f"/mapped/{map_index}"
        return self.frame(f"{place}{mapped}/plugin/provender-task-instance")

    def form(self, dag_id: str) -> Any:
        """The form of a new run."""
        self.page.goto(f"{self.url}/dags/{dag_id}")
        self.page.get_by_test_id("trigger-dag-button").click()
        form = self.page.get_by_role("dialog")
        form.get_by_text("Run again from").wait_for()
        return form


@contextmanager
def walking(url: str, user: str, password: str) -> Iterator[Walk]:
    """A browser that has signed in to Airflow."""
    with browsing() as browser:
        context = browser.new_context(viewport=WINDOW, color_scheme="light")
        walk = Walk(context.new_page(), url)
        walk.sign_in(user, password)
        yield walk
        context.close()
