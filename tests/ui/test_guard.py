"""Who may look: hosts, tokens, sessions, headers."""

from __future__ import annotations

import html
import re
import time
from collections.abc import Callable

import pytest
from fastapi import HTTPException
from fastapi.testclient import TestClient

from provender.errors import SettingsError
from provender.ui.guard import (
    COOKIE,
    LOOPBACK_HOSTS,
    Rules,
    is_session,
    local_target,
    new_session,
)

TOKEN = "correct-horse-battery-staple"
HTML = {"accept": "text/html"}
Visit = Callable[..., TestClient]


@pytest.mark.parametrize("path", ["/", "/api/datasets", "/static/pages.css", "/nowhere", "/login"])
def test_headers_are_on_every_answer(client: TestClient, path: str) -> None:
    headers = client.get(path).headers
    policy = headers["content-security-policy"]
    assert "default-src 'none'" in policy and "frame-ancestors 'none'" in policy
    assert "unsafe" not in policy and "http" not in policy
    assert headers["x-content-type-options"] == "nosniff"
    assert headers["x-frame-options"] == "DENY"
    assert "set-cookie" not in headers


def test_headers_are_on_crashes(visit: Visit, monkeypatch: pytest.MonkeyPatch) -> None:
    client = visit()
    client = TestClient(client.app, base_url="http://127.0.0.1", raise_server_exceptions=False)
    monkeypatch.setattr("provender.ui.reading.Library.datasets", lambda *_: 1 / 0)
    answer = client.get("/")
    assert answer.status_code == 500 and "division" not in answer.text
    assert "default-src 'none'" in answer.headers["content-security-policy"]


def test_other_sites_can_frame_only_if_told(visit: Visit) -> None:
    headers = visit(frame_ancestors=["'self'"]).get("/").headers
    assert "frame-ancestors 'self'" in headers["content-security-policy"]
    assert "x-frame-options" not in headers


@pytest.mark.parametrize(
    ("host", "status"),
    [
        ("127.0.0.1:8420", 200),
        ("LOCALHOST", 200),
        ("[::1]:99", 200),
        ("evil.example", 421),
        ("127.0.0.1.evil.example:8420", 421),
        ("localhost.evil.example", 421),
        ("[::1].evil.example", 421),
        ("", 421),
    ],
)
def test_host_header(visit: Visit, host: str, status: int) -> None:
    client = visit(hosts=LOOPBACK_HOSTS)
    assert client.get("/", headers={"host": host}).status_code == status


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "PATCH"])
@pytest.mark.parametrize("path", ["/", "/runs", "/api/datasets", "/versions/abc"])
def test_nothing_can_be_sent(client: TestClient, method: str, path: str) -> None:
    assert client.request(method, path).status_code == 405


def test_head_is_get_without_a_body(client: TestClient) -> None:
    answer = client.head("/")
    assert answer.status_code == 200
    assert int(answer.headers["content-length"]) > 1000


# Tokens ------------------------------------------------------------------------------------------


def test_token_is_needed_everywhere_but_for_the_door(visit: Visit) -> None:
    client = visit(token=TOKEN)
    for path in ("/", "/runs", "/search?q=a", "/nowhere"):
        answer = client.get(path, headers=HTML)
        assert answer.status_code == 303 and answer.headers["location"].startswith("/login?next=/")
    for path in ("/api", "/api/datasets", "/api/openapi.json", "/"):
        answer = client.get(path)
        assert answer.status_code == 401 and "Bearer" in answer.headers["www-authenticate"]
        assert "stories" not in answer.text
    assert client.get("/login").status_code == 200
    assert client.get("/static/pages.css").status_code == 200


@pytest.mark.parametrize(
    ("header", "status"),
    [
        (f"Bearer {TOKEN}", 200),
        (f"bearer  {TOKEN}", 200),
        (f"Bearer {TOKEN}x", 401),
        ("Bearer ", 401),
        (f"Basic {TOKEN}", 401),
        ("", 401),
    ],
)
def test_bearer(visit: Visit, header: str, status: int) -> None:
    answer = visit(token=TOKEN).get("/api/datasets", headers={"authorization": header})
    assert answer.status_code == status


def test_signing_in_and_out(visit: Visit) -> None:
    client = visit(token=TOKEN)
    form = client.get("/login?next=/runs%3Fpage%3D2", headers=HTML).text
    assert 'value="/runs?page=2"' in form and TOKEN not in form
    answer = client.post("/login", data={"token": TOKEN, "next": "/runs?page=2"})
    assert answer.status_code == 303 and answer.headers["location"] == "/runs?page=2"
    cookie = answer.headers["set-cookie"]
    assert "HttpOnly" in cookie and "SameSite=strict" in cookie and TOKEN not in cookie
    assert client.get("/", headers=HTML).status_code == 200
    assert "Sign out" in client.get("/", headers=HTML).text
    assert client.post("/logout").headers["location"] == "/login"
    assert client.get("/", headers=HTML).status_code == 303


def test_a_wrong_token_is_told_and_opens_nothing(visit: Visit) -> None:
    client = visit(token=TOKEN)
    answer = client.post("/login", data={"token": "wrong", "next": "//evil.example"})
    assert answer.status_code == 303 and answer.headers["location"] == "/login?wrong=1&next=/"
    assert "set-cookie" not in answer.headers
    page = client.get(answer.headers["location"])
    assert page.status_code == 401 and "not the token" in page.text


def test_a_huge_form_is_refused(visit: Visit) -> None:
    assert visit(token=TOKEN).post("/login", data={"token": "x" * 10_000}).status_code == 413


def test_sessions_cannot_be_made_up() -> None:
    good = new_session(TOKEN)
    assert is_session(good, TOKEN)
    assert not is_session(good, TOKEN + "x")
    ends, _, signature = good.partition(".")
    assert not is_session(f"{int(ends) + 1}.{signature}", TOKEN)
    assert not is_session(new_session(TOKEN, time.time() - 13 * 3600), TOKEN)
    for text in ("", ".", "x.y", f"{ends}.", f".{signature}", "9" * 400):
        assert not is_session(text, TOKEN)


def test_a_made_up_cookie_opens_nothing(visit: Visit) -> None:
    client = visit(token=TOKEN)
    client.cookies.set(COOKIE, f"{int(time.time()) + 999}.{'0' * 64}")
    assert client.get("/api/datasets").status_code == 401


def test_a_short_token_is_refused() -> None:
    with pytest.raises(SettingsError, match="16 characters"):
        Rules("short")


@pytest.mark.parametrize(
    ("asked", "goes"),
    [
        ("/runs?page=2", "/runs?page=2"),
        ("//evil.example", "/"),
        ("/\\evil.example", "/"),
        ("https://evil.example", "/"),
        ("/a\r\nSet-Cookie: b", "/"),
        ("/\t/evil.example", "/"),
        ("", "/"),
    ],
)
def test_signing_in_leads_to_these_pages_only(asked: str, goes: str) -> None:
    assert local_target(asked) == goes


# Inside another application ----------------------------------------------------------------------


def test_mounted_below_a_path(visit: Visit) -> None:
    from fastapi import FastAPI

    outer = FastAPI()
    outer.mount("/inner/pages", visit(token=TOKEN).app)
    client = TestClient(outer, base_url="http://127.0.0.1", follow_redirects=False)
    away = client.get("/inner/pages/runs", headers=HTML)
    assert away.headers["location"] == "/inner/pages/login?next=/runs"
    answer = client.post("/inner/pages/login", data={"token": TOKEN, "next": "/runs"})
    assert answer.headers["location"] == "/inner/pages/runs"
    assert "Path=/inner/pages" in answer.headers["set-cookie"]
    page = client.get("/inner/pages/", headers=HTML).text
    links = list(map(html.unescape, re.findall(r'(?:href|src|action)="([^"]*)"', page)))
    assert links and all(
        each.startswith("/inner/pages/") for each in links if not each.startswith("#")
    )
    for link in links:
        if "logout" not in link and "#" not in link:
            assert client.get(link, headers=HTML).status_code in (200, 303), link


def test_behind_a_proxy_that_strips_a_prefix(visit: Visit) -> None:
    page = visit(root_path="/data/").get("/").text
    assert 'href="/data/runs"' in page and 'href="/runs"' not in page


def test_authorize_decides(visit: Visit) -> None:
    client = visit(authorize=lambda request, _: request.headers.get("x-user") == "ada")
    assert client.get("/").status_code == 403
    assert client.get("/api/datasets").status_code == 403
    assert client.get("/", headers={"x-user": "ada"}).status_code == 200


def test_authorize_hides_datasets(visit: Visit, world) -> None:
    client = visit(authorize=lambda _, dataset: dataset != "stories")
    version, run = world.ids["stories:1.1.0"], world.ids["run"]
    for path in (
        "/",
        "/runs",
        "/jobs",
        "/search?q=short",
        "/api/datasets",
        "/api/runs",
        "/api/jobs",
        "/api/search?q=stories",
    ):
        answer = client.get(path)
        assert answer.status_code == 200
        assert "stories:" not in answer.text and "/datasets/stories" not in answer.text, path
    for path in (
        "/datasets/stories",
        f"/versions/{version}",
        f"/versions/{version}/files",
        f"/versions/{version}/examples",
        f"/versions/{version}/consumers",
        f"/lineage/{version}",
        f"/runs/{run}",
        f"/stages/{world.ids['stage']}",
        "/runs?dataset=stories",
        f"/api/versions/{version}",
        f"/api/lineage/{version}",
        f"/api/runs/{run}",
        f"/api/stages/{world.ids['stage']}",
        "/api/datasets/stories",
        "/api/runs?dataset=stories",
        "/api/resolve?ref=stories",
    ):
        assert client.get(path).status_code == 403, path
    derived = client.get(f"/lineage/{world.ids['tokens']}?depth=12")
    assert derived.status_code == 200 and "stories:" not in derived.text
    for path in (
        "/datasets/storis",
        "/go?ref=storis",
        "/search?q=storis",
        "/diff?a=storis&b=digits",
        "/api/resolve?ref=storis",
        "/api/datasets/nothing",
        "/datasets/nothing",
    ):
        assert "stories" not in client.get(path).text, path


def test_an_authorize_that_answers_nothing_lets_nobody_in(visit: Visit) -> None:
    async def late(request: object, dataset: str | None) -> bool:
        return False

    for authorize in (late, lambda *_: None, lambda *_: 1):
        made = visit(authorize=authorize)
        client = TestClient(made.app, base_url="http://127.0.0.1", raise_server_exceptions=False)
        assert client.get("/").status_code == 500


def test_authorize_may_raise_its_own_answer(visit: Visit) -> None:
    def ask(request: object, dataset: str | None) -> bool:
        raise HTTPException(401, "Who are you?", {"WWW-Authenticate": "Basic"})

    answer = visit(authorize=ask).get("/api/datasets")
    assert answer.status_code == 401 and answer.headers["www-authenticate"] == "Basic"
    assert answer.json()["error"]["message"] == "Who are you?"
