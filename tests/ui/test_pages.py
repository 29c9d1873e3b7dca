"""Each page: what it says, and what it does with names that mean harm."""

from __future__ import annotations

import html
import re
from collections.abc import Callable
from html.parser import HTMLParser
from pathlib import Path

import pytest
from fastapi.testclient import TestClient
from tests.catalog.pg_server import start
from tests.ui.world import LONG, PNG, World

from provender.catalog import Catalog, SplitRecord
from provender.errors import CatalogError
from provender.settings import load_settings
from provender.store import Store
from provender.ui import create_app
from provender.ui.opening import open_read_only

VOID = {"meta", "link", "input", "br", "img", "hr"}


class Checker(HTMLParser):
    """Reads a page as strictly as a browser does not: everything closed, nothing active."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.links: list[str] = []
        self.labels: list[str] = []
        self.faults: list[str] = []
        self.text: list[str] = []

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        found = dict(attributes)
        if len(found) != len(attributes):
            self.faults.append(f"{tag}: an attribute comes twice")
        for name, value in found.items():
            if name.startswith("on") or name == "style":
                self.faults.append(f"{tag} {name}={value}")
            if name in ("href", "src", "action"):
                self.links.append(str(value))
        if tag == "script" and not found.get("src"):
            self.faults.append("inline script")
        if tag == "img" and not found.get("alt"):
            self.faults.append("img without alt")
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        self.handle_starttag(tag, attributes)
        if tag not in VOID:
            self.open.pop()

    def handle_endtag(self, tag: str) -> None:
        if not self.open or self.open.pop() != tag:
            self.faults.append(f"</{tag}> closes something else")

    def handle_data(self, data: str) -> None:
        self.text.append(data)


def check(page: str) -> Checker:
    """The page, read; its faults are asserted to be none."""
    checker = Checker()
    checker.feed(page)
    checker.close()
    assert checker.faults == [] and checker.open == []
    for link in checker.links:
        assert link.startswith(("/", "#", "https://", "http://")), link
    return checker


def words(page: str) -> str:
    return " ".join(" ".join(check(page).text).split())


def all_pages(world: World) -> list[str]:
    ids = world.ids
    versions = [ids[name] for name in ("digits", "stories:1.1.0", "stories:1.0.0", "evil", "long")]
    return [
        "/",
        "/?page=9",
        "/datasets/digits",
        "/datasets/stories",
        "/datasets/story_tokens?config=bpe",
        "/runs",
        "/runs?dataset=stories",
        "/runs?page=7",
        "/jobs",
        "/jobs?name=story-lm-0",
        "/diff",
        "/search",
        "/search?q=stories",
        "/search?q=nothingatall",
        "/search?q=script",
        "/api",
        f"/dataset?of={ids['evil']}",
        f"/dataset?of={ids['long']}",
        *(
            f"/versions/{id}{part}"
            for id in versions
            for part in ("", "/files", "/consumers", "/examples")
        ),
        *(
            f"/lineage/{id}?direction={way}&depth=8"
            for id in versions
            for way in ("up", "down", "both")
        ),
        *(f"/runs/{ids[name]}" for name in ("run", "digits-run", "failed", "evil-run")),
        *(f"/stages/{ids[name]}" for name in ("stage", "download", "evil-stage")),
        f"/diff?a={ids['stories:1.0.1']}&b={ids['stories:1.1.0']}",
        f"/diff?a={ids['evil']}&b={ids['digits']}",
    ]


def test_every_page_is_sound_and_leads_nowhere_wrong(client: TestClient, world: World) -> None:
    todo, done = all_pages(world), set()
    while todo:
        path = todo.pop()
        if path in done or len(done) > 400:
            continue
        done.add(path)
        answer = client.get(path)
        assert answer.status_code in (200, 303), (path, answer.status_code)
        if "text/html" not in answer.headers.get("content-type", ""):
            continue
        assert len(answer.content) < 400_000, path
        found = check(answer.text)
        assert answer.text.count("<script") == 1, path
        todo += [
            link
            for link in found.links
            if link.startswith("/") and "/logout" not in link and "apart=" not in link
        ]
    assert len(done) > 100


def test_datasets(client: TestClient) -> None:
    said = words(client.get("/").text)
    assert re.search(r"stories 1\.1\.0 13,728 65 MiB 2 1 1", said)
    assert "digits:1.0.0 published 1,797" in said


def test_a_dataset_has_its_versions_aliases_and_counts(client: TestClient) -> None:
    said = words(client.get("/datasets/stories").text)
    assert "2 published versions, 1 trial, 1 retracted" in said
    assert "@ golden @ latest en reviewed" in said
    assert "train 12,480 , test 1,248" in said
    assert "@ golden 1.1.0" in said and "grace" in said


def test_a_version_says_what_is_in_it(client: TestClient, world: World) -> None:
    page = client.get(f"/versions/{world.ids['stories:1.1.0']}").text
    said = words(page)
    for text in (
        "13,728 examples",
        "train 12,480",
        "topic ClassLabel",
        "4 classes",
        "name Text",
        "animals",
        "5,740",
        "median",
        "CC-BY-4.0",
        "stories.builder:Stories",
        "https://stories.example/archive.jsonl.zst",
        "story-lm-1",
        "Changes since 1.0.1",
    ):
        assert text in said, text
    assert page.count('class="histogram"') >= 4
    assert "12,480 values from" in page


def test_a_retracted_version_says_why_by_whom_and_what_instead(
    client: TestClient, world: World
) -> None:
    said = words(client.get(f"/versions/{world.ids['stories:1.0.0']}").text)
    assert "This version was taken back by ada" in said
    assert "13 stories came twice" in said and "Use stories:1.0.1 instead." in said


def test_examples_with_images_and_labels(client: TestClient, world: World) -> None:
    id = world.ids["digits"]
    page = client.get(f"/versions/{id}/examples?split=test&first=290").text
    sources = [html.unescape(each) for each in re.findall(r'<img[^>]* src="([^"]*)"', page)]
    assert len(sources) == 7 and "291 to 297 of 297" in words(page)
    answer = client.get(sources[0])
    assert answer.headers["content-type"] == "image/png" and answer.content.startswith(PNG[:8])
    assert "sandbox" in answer.headers["content-security-policy"]
    past = client.get(f"/versions/{id}/examples?split=test&first=297")
    assert past.status_code == 200 and "no examples there" in past.text
    assert client.get(f"/versions/{id}/examples?split=nope").status_code == 404


def test_only_images_are_served_as_images(client: TestClient, world: World) -> None:
    id = world.ids["evil"]
    good = client.get(f"/versions/{id}/image?split=train&example=0&feature=picture")
    assert good.content == PNG
    for query in (
        "example=0&feature=text",
        "example=9&feature=picture",
        "example=0&feature=nope",
        "example=0&feature=picture&item=1",
    ):
        assert client.get(f"/versions/{id}/image?split=train&{query}").status_code == 404


def test_examples_that_are_gone_do_not_take_the_page_away(client: TestClient, world: World) -> None:
    answer = client.get(f"/versions/{world.ids['stories:1.1.0']}")
    assert answer.status_code == 200 and "The examples cannot be shown" in answer.text


def test_a_run_is_a_time_chart_with_reasons(client: TestClient, world: World) -> None:
    page = client.get(f"/runs/{world.ids['run']}").text
    said = words(page)
    assert "hit 1" in said and "succeeded 17" in said
    assert "nothing it depends on changed since run" in said and "never run before" in said
    assert page.count('class="span"') == 18
    failed = words(client.get(f"/runs/{world.ids['failed']}").text)
    assert "The server answered 503 five times." in failed and "Try again later." in failed


def test_a_run_that_found_everything_ready(client: TestClient, world: World) -> None:
    noop = next(each for each in world.catalog.runs("digits") if each.outcome == "cached")
    said = words(client.get(f"/runs/{noop.id}").text)
    assert "Everything was ready: the run found digits:1.0.0" in said


def test_who_reads_a_version_now(client: TestClient, world: World) -> None:
    id = world.ids["stories:1.0.1"]
    assert "Reading it now" not in client.get(f"/versions/{id}").text
    with world.catalog.lease(id, "nightly evaluation"):
        said = words(client.get(f"/versions/{id}").text)
    assert "Reading it now" in said and "nightly evaluation" in said


def test_a_derived_version_names_what_it_was_made_from(client: TestClient, world: World) -> None:
    said = words(client.get(f"/versions/{world.ids['tokens']}").text)
    assert "Made from other versions stories:1.0.1 published" in said


def test_a_lineage_leads_from_version_to_version(client: TestClient, world: World) -> None:
    start, derived = world.ids["stories:1.0.1"], world.ids["tokens"]
    page = client.get(f"/lineage/{start}?direction=down&depth=8").text
    assert f'href="/lineage/{derived}?direction=down&amp;depth=8"' in page
    said = words(client.get(f"/lineage/{derived}?direction=up&depth=12").text)
    assert "stories:download" in said and "story_tokens/bpe:shards/train/00000..00011" in said


def test_jobs(client: TestClient) -> None:
    assert "story-lm-2" in client.get("/jobs").text
    said = words(client.get("/jobs?name=story-lm-0").text)
    assert "stories:1.0.0 retracted train, test" in said


@pytest.mark.parametrize(
    ("path", "says"),
    [
        ("/datasets/storys", "Did you mean stories"),
        ("/datasets/story_tokens", "has no config"),
        ("/versions/" + "0" * 32, "no version with id"),
        ("/versions/..%2f..%2fetc", "no page"),
        ("/runs/ffff", "no run"),
        ("/stages/xyz", "no stage"),
        ("/lineage/" + "0" * 64, "knows no version, stage or artifact"),
        ("/jobs?name=story-lm-O", "Did you mean story-lm-"),
        ("/go?ref=storis", "Did you mean stories"),
        ("/go?ref=stories:9.9.9", "no version 9.9.9"),
        ("/go?ref=stories@gold", "Did you mean @golden"),
        ("/go?ref=%00%1b", "does not name a dataset"),
        ("/nowhere", "no page at this address"),
    ],
)
def test_what_is_not_there_is_told_with_what_is(client: TestClient, path: str, says: str) -> None:
    answer = client.get(path)
    assert answer.status_code == 404
    assert says in words(answer.text)


@pytest.mark.parametrize("query", ["page=0", "page=x", "page=99999999999999999999", "page=-1"])
def test_senseless_parameters(client: TestClient, query: str) -> None:
    answer = client.get(f"/?{query}")
    assert answer.status_code == 400 and "page" in words(answer.text)


def test_references_lead_to_their_version(client: TestClient, world: World) -> None:
    where = f"/versions/{world.ids['stories:1.1.0']}"
    for path in (
        "/go?ref=stories",
        "/go?ref=stories@golden",
        "/search?q=stories@golden",
        "/search?q=stories:1.1.0",
        f"/search?q={world.ids['stories:1.1.0']}",
    ):
        assert client.get(path).headers["location"] == where


def test_a_megabyte_is_cut(client: TestClient, world: World) -> None:
    for path in (f"/versions/{world.ids['evil']}", f"/versions/{world.ids['long']}", "/", "/jobs"):
        page = client.get(path).text
        assert len(page) < 100_000 and LONG[:5_000] not in page
        assert "1,048,576 characters" in page or "1,048,609 characters" in page or path == "/jobs"


def test_bidi_controls_never_reach_a_page(client: TestClient, world: World) -> None:
    for path in all_pages(world):
        page = client.get(path).text
        assert not set("\u202e\u2066\u202a\u2067") & set(page), path
        assert not re.search("[\x00-\x08\x0b-\x1f\x7f]", page), path


def test_javascript_addresses_are_no_links(client: TestClient, world: World) -> None:
    for path in (f"/versions/{world.ids['evil']}", f"/stages/{world.ids['evil-stage']}"):
        page = client.get(path).text
        assert "javascript:" in words(page) and 'href="javascript' not in page


def test_pages_are_paged(client: TestClient, world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("provender.ui.reading.ROWS", 2)
    seen: list[str] = []
    path = "/datasets/stories"
    while True:
        page = client.get(path).text
        seen += re.findall(r"<td class=\"name t\"><a href=\"/versions/(\w+)", page)
        following = re.search(r'rel="next" href="([^"]*)"', page)
        if not following:
            break
        path = html.unescape(following[1])
    assert len(seen) == len(set(seen)) == 4


# The catalog ---------------------------------------------------------------------------------------


def test_the_database_keeps_pages_from_writing(world: World) -> None:
    catalog = open_read_only(world.url)
    with pytest.raises(CatalogError, match="readonly"):
        catalog.begin_run("build", "x", None, None)
    assert catalog.datasets()
    catalog.close()


def test_a_catalog_that_is_not_there_is_told_and_found_later(tmp_path: Path) -> None:
    settings = load_settings(store=str(tmp_path), cwd=tmp_path, environ={})
    client = TestClient(create_app(settings), base_url="http://127.0.0.1")
    answer = client.get("/")
    assert answer.status_code == 503 and "There is no catalog yet" in answer.text
    assert client.get("/api/datasets").json()["error"]["type"] == "CatalogError"
    assert not (tmp_path / "catalog.db").exists()
    Catalog.open(settings.catalog).close()
    assert "The catalog holds no dataset yet" in client.get("/").text


def test_an_older_catalog_is_not_touched(tmp_path: Path) -> None:
    import sqlite3

    file = tmp_path / "catalog.db"
    Catalog.open(file).close()
    with sqlite3.connect(file) as conn:
        conn.execute("UPDATE alembic_version SET version_num = '0001'")
    conn.close()
    with pytest.raises(CatalogError, match="has revision 0001") as caught:
        open_read_only(f"sqlite:///{file}")
    assert "provender db upgrade" in str(caught.value)


def test_links_of_a_page_survive_odd_names(visit: Callable[..., TestClient], world: World) -> None:
    client = visit()
    for path in ("/", "/runs", "/jobs"):
        for link in check(client.get(path).text).links:
            if link.startswith("/") and "evil" in link:
                assert client.get(link).status_code == 200


def test_pages_on_postgresql(tmp_path: Path) -> None:
    """The same pages, and the same lock against writing, on the other database."""
    with start() as server:
        url = server.new_database()
        with pytest.raises(CatalogError, match="empty"):
            open_read_only(url)
        with Catalog.open(url) as catalog:
            run = catalog.begin_run("build", "letters", None, "1.0.0", {})
            made = catalog.record_stage(
                run, "letters", None, "download", "f" * 40, state="succeeded"
            )
            catalog.register_version(
                "letters",
                None,
                "1.0.0",
                "a" * 40,
                path="letters",
                uri="letters",
                splits=[SplitRecord("train", 26, 260, 1)],
                shards=[],
                features={},
                info={},
                run_id=run,
                lineage_inputs=[made.id],
            )
            catalog.finish_run(run, "succeeded")
        catalog = open_read_only(url)
        with pytest.raises(CatalogError, match="read-only"):
            catalog.begin_run("build", "x", None, None)
        app = create_app(catalog, store=Store.open(str(tmp_path)))
        client = TestClient(app, base_url="http://127.0.0.1")
        todo, done = {"/", "/runs", "/jobs", "/search?q=letters"}, set()
        while todo:
            path = todo.pop()
            done.add(path)
            answer = client.get(path)
            assert answer.status_code == 200, path
            if "text/html" in answer.headers["content-type"]:
                found = {link for link in check(answer.text).links if link.startswith("/")}
                todo |= found - done
        assert any(path.startswith("/lineage/") for path in done)
        catalog.close()
