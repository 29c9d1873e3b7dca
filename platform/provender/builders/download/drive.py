"""Google Drive's page between a large file's URL and its bytes.

For files too large for its virus scanner Drive answers with an HTML form; submitting the form's
hidden fields yields the file. Over quota, or without access, it answers with HTML and no form.
"""

from __future__ import annotations

from html.parser import HTMLParser
from typing import TYPE_CHECKING
from urllib.parse import urlencode, urljoin

from provender.builders.download.source import Permanent

if TYPE_CHECKING:
    import httpx

_HOSTS = ("drive.google.com", "docs.google.com", "drive.usercontent.google.com")
_HINT = (
    "Open the URL in a browser (quota, sign-in or a moved file), then place the file in manual_dir "
    "under its registered name, or add a mirror."
)


def is_interstitial(response: httpx.Response) -> bool:
    """Whether a response is one of Drive's pages instead of a file."""
    return (
        response.url.host in _HOSTS
        and response.headers.get("content-type", "").lower().startswith("text/html")
        and "content-disposition" not in response.headers
    )


def confirmed_url(page_url: str, html: str) -> str:
    """The URL that the page's download form leads to.

    Args:
        page_url: the page's own URL, against which a relative form action is resolved.
        html: the page.

    Raises:
        Permanent: the page has no form: over quota, or not shared.
    """
    form = _Form()
    form.feed(html)
    target = urljoin(page_url, form.action or "")
    if not form.action or target == page_url:
        raise Permanent("Google Drive answered with a page instead of the file", hint=_HINT)
    return f"{target}?{urlencode(form.fields)}" if form.fields else target


class _Form(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.action: str | None = None
        self.fields: dict[str, str] = {}
        self._inside = False

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        named = dict(attrs)
        if tag == "form" and self.action is None:
            self.action, self._inside = named.get("action"), True
        elif (
            tag == "input" and self._inside and named.get("name") and named.get("type") != "submit"
        ):
            self.fields[str(named["name"])] = named.get("value") or ""

    def handle_endtag(self, tag: str) -> None:
        if tag == "form":
            self._inside = False
