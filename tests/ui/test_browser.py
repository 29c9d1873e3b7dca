"""The pages in a real browser, from a real server process."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from tests.ui.serving import CHROMIUM, WHY_NOT, browsing, served
from tests.ui.world import World

pytestmark = pytest.mark.skipif(CHROMIUM is None, reason=WHY_NOT)

LEFT = "net::ERR_ABORTED"
"""What becomes of requests that still run when one goes on to another page."""
PHONE = {"width": 375, "height": 740}
DESKTOP = {"width": 1280, "height": 800}


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with browsing() as found:
        yield found


@pytest.fixture(scope="module")
def url(world: World) -> Iterator[str]:
    with served(world.home) as said:
        yield said["url"].rstrip("/")


@pytest.fixture
def open_page(browser: Any, url: str) -> Iterator[Callable[..., Any]]:
    """Opens a page in a window of its own; afterwards no error may have been seen by any."""
    contexts, seen = [], []

    def opened(path: str = "/", **options: Any) -> Any:
        context = browser.new_context(**{"viewport": DESKTOP, **options})
        contexts.append(context)
        page = context.new_page()
        page.set_default_timeout(15_000)
        page.on("console", lambda said: seen.append(said.text) if said.type != "log" else None)
        page.on("pageerror", lambda error: seen.append(str(error)))
        page.on(
            "requestfailed",
            lambda request: (
                seen.append(f"failed: {request.url}") if request.failure != LEFT else None
            ),
        )
        page.on("dialog", lambda dialog: seen.append(f"dialog: {dialog.message}"))
        page.on(
            "request",
            lambda request: (
                None if request.url.startswith(url) else seen.append(f"elsewhere: {request.url}")
            ),
        )
        page.goto(url + path)
        return page

    yield opened
    for context in contexts:
        context.close()
    assert seen == []


def pages(world: World) -> list[str]:
    ids = world.ids
    return [
        "/",
        "/datasets/stories",
        "/runs",
        "/jobs",
        "/jobs?name=story-lm-0",
        "/search?q=stories",
        "/diff",
        f"/diff?a={ids['stories:1.0.1']}&b={ids['stories:1.1.0']}",
        "/api",
        f"/versions/{ids['digits']}",
        f"/versions/{ids['stories:1.1.0']}",
        f"/versions/{ids['stories:1.0.0']}",
        f"/versions/{ids['evil']}",
        f"/versions/{ids['evil']}/files",
        f"/versions/{ids['digits']}/examples?split=train",
        f"/versions/{ids['stories:1.1.0']}/consumers",
        f"/versions/{ids['long']}",
        f"/lineage/{ids['tokens']}?depth=12",
        f"/lineage/{ids['evil']}?direction=both",
        f"/runs/{ids['run']}",
        f"/runs/{ids['failed']}",
        f"/runs/{ids['evil-run']}",
        f"/stages/{ids['stage']}",
        f"/stages/{ids['evil-stage']}",
    ]


@pytest.mark.parametrize("viewport", [DESKTOP, PHONE], ids=["desktop", "phone"])
def test_every_page_opens_and_never_scrolls_sideways(
    open_page: Callable[..., Any], world: World, url: str, viewport: dict[str, int]
) -> None:
    page = open_page(viewport=viewport)
    for path in pages(world):
        page.goto(url + path)
        assert page.locator("h1").count() == 1, path
        assert page.locator("main").is_visible()
        wide = page.evaluate("document.documentElement.scrollWidth")
        assert wide <= viewport["width"], path
        assert page.evaluate("window.pwned") is None, path
        broken = page.evaluate(
            "Promise.all([...document.images].map(i => i.decode().then(() => '', () => i.src)))"
        )
        assert not any(broken), path


def test_a_lineage_is_walked_by_clicks(open_page: Callable[..., Any], world: World) -> None:
    page = open_page("/")
    page.click("text=story_tokens/bpe >> nth=0")
    page.click("td.name a:has-text('1.0.0')")
    page.click("nav[aria-label='On this page'] >> text=Lineage")
    assert page.locator("h1").inner_text() == "Lineage of story_tokens/bpe:1.0.0"
    page.click("nav.choices a:text-is('12')")
    boxes = page.locator("a.box")
    assert boxes.count() == 16
    # A stack of shards opens into its members.
    page.click("a.box.many:has-text('story_tokens/bpe')")
    assert boxes.count() == 27 and "apart=" in page.url
    page.click("text=Stack alike stages again")
    assert boxes.count() == 16
    page.click("text=versions only")
    assert boxes.count() == 2
    page.click("text=all of it")
    assert page.evaluate("picture.scrollWidth <= picture.clientWidth")
    page.click("a.box.version:has-text('stories:1.0.1')")
    assert "boxes=versions" in page.url
    page.click("text=stages too")
    page.click("text=to read")
    assert page.locator("h1").inner_text() == "Lineage of stories:1.0.1"
    page.click("a.box:has-text('register')")
    assert page.locator("h1").inner_text() == "Lineage of stories:register"
    page.click("text=what came of it")
    page.click("a.box.version:has-text('story_tokens/bpe:1.0.0')")
    page.click("text=Open this version")
    assert page.url.endswith(f"/versions/{world.ids['tokens']}")
    page.go_back()
    assert page.locator("h1").inner_text() == "Lineage of story_tokens/bpe:1.0.0"


def test_everything_is_reached_by_keyboard(open_page: Callable[..., Any], world: World) -> None:
    page = open_page("/")
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.textContent") == "Skip to the content"
    assert page.evaluate("document.activeElement.getBoundingClientRect().top") >= 0
    page.keyboard.press("Enter")
    assert page.evaluate("document.activeElement.id") == "main"
    page.keyboard.press("/")
    assert page.evaluate("document.activeElement.id") == "words"
    page.keyboard.type("stories@golden")
    page.keyboard.press("Enter")
    page.wait_for_url(f"**/versions/{world.ids['stories:1.1.0']}")
    reached = set()
    for _ in range(200):
        page.keyboard.press("Tab")
        if page.evaluate("document.activeElement === document.body"):
            break  # past the last one
        reached.add(page.evaluate("document.activeElement.textContent.trim()"))
        outline = page.evaluate("getComputedStyle(document.activeElement).outlineStyle")
        assert outline != "none", page.evaluate("document.activeElement.outerHTML")
    else:
        pytest.fail("the keyboard is caught somewhere")
    assert {"Datasets", "Lineage", "Files", "Changes since 1.0.1"} <= reached


def test_arrow_keys_move_in_the_lineage(open_page: Callable[..., Any], world: World) -> None:
    page = open_page(f"/lineage/{world.ids['stories:1.1.0']}?depth=12")
    focused = "document.activeElement.getAttribute('aria-label')"
    page.locator("a.box.start").focus()
    page.keyboard.press("ArrowLeft")
    assert page.evaluate(focused).startswith("stories:register")
    page.keyboard.press("ArrowLeft")
    first = page.evaluate(focused)
    page.keyboard.press("ArrowDown" if "test" in first else "ArrowUp")
    second = page.evaluate(focused)
    assert {"shards/test" in first, "shards/test" in second} == {True, False}
    page.keyboard.press("ArrowRight")
    page.keyboard.press("Enter")
    page.wait_for_url("**/lineage/*direction=up*")
    assert page.locator("h1").inner_text() == "Lineage of stories:register"


def test_dark_and_light(open_page: Callable[..., Any], url: str) -> None:
    lightness = (
        "(() => { const [r, g, b] = getComputedStyle(document.body).backgroundColor"
        ".match(/\\d+/g).map(Number); return (r + g + b) / 3; })()"
    )
    light, dark = open_page(color_scheme="light"), open_page(color_scheme="dark")
    assert light.evaluate(lightness) > 200 and dark.evaluate(lightness) < 60
    light.click("#theme")  # auto -> light
    light.click("#theme")  # light -> dark
    assert light.evaluate(lightness) < 60
    light.goto(f"{url}/runs")
    assert light.evaluate(lightness) < 60  # remembered
    light.click("#theme")  # dark -> auto
    assert light.evaluate(lightness) > 200
    dark.click("#theme")
    assert dark.evaluate(lightness) > 200


_CONTRASTS = """
() => {
  const numbers = (color) => color.match(/[\\d.]+/g).map(Number);
  const shine = ([r, g, b]) => [r, g, b].map((v) => v / 255)
    .map((v) => v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4)
    .reduce((sum, v, i) => sum + v * [0.2126, 0.7152, 0.0722][i], 0);
  const ground = (element) => {
    for (let at = element; at; at = at.parentElement) {
      const found = numbers(getComputedStyle(at).backgroundColor);
      if (found.length < 4 || found[3] === 1) return found;
    }
    return [255, 255, 255];
  };
  const weak = [];
  for (const element of document.querySelectorAll("body *:not(svg, svg *, script, .unseen)")) {
    const own = [...element.childNodes].some((n) => n.nodeType === 3 && n.textContent.trim());
    if (!own || !element.checkVisibility() || element.closest(".skip, .unseen")) continue;
    const a = shine(numbers(getComputedStyle(element).color)), b = shine(ground(element));
    const contrast = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
    if (contrast < 4.5) weak.push(`${contrast.toFixed(2)} ${element.outerHTML.slice(0, 120)}`);
  }
  return weak;
}
"""


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_text_stands_out_from_its_ground(
    open_page: Callable[..., Any], world: World, url: str, scheme: str
) -> None:
    """WCAG 2.2, criterion 1.4.3: a contrast of 4.5 to 1."""
    page = open_page(color_scheme=scheme)
    for path in pages(world):
        page.goto(url + path)
        assert page.evaluate(_CONTRASTS) == [], path


def test_controls_have_names(open_page: Callable[..., Any], world: World, url: str) -> None:
    page = open_page()
    nameless = (
        "[...document.querySelectorAll('a, button, input:not([type=hidden]), [role=region]')]"
        ".filter(e => !(e.textContent.trim() || e.getAttribute('aria-label') || e.labels?.length))"
        ".map(e => e.outerHTML)"
    )
    doubles = (
        "[...document.querySelectorAll('[id]')].map(e => e.id)"
        ".filter((id, i, all) => all.indexOf(id) !== i)"
    )
    for path in pages(world):
        page.goto(url + path)
        assert page.evaluate(nameless) == [], path
        assert page.evaluate(doubles) == [], path
        assert page.locator("main, header, footer").count() == 3


def test_without_scripts(open_page: Callable[..., Any], world: World) -> None:
    page = open_page("/datasets/stories", java_script_enabled=False)
    assert not page.locator("#theme").is_visible()
    page.locator("input[name=a]").nth(2).check()
    page.locator("input[name=b]").nth(1).check()
    page.click("button:has-text('Compare')")
    assert page.locator("h1").inner_text() == "stories:1.0.1 to stories:1.1.0"
    page.fill("#words", "animals")
    page.press("#words", "Enter")
    assert page.locator("h1").inner_text() == "Search"


def test_examples_of_two_versions_are_compared(open_page: Callable[..., Any], world: World) -> None:
    id = world.ids["digits"]
    page = open_page(f"/diff?a={id}&b={id}")
    assert "the same examples" in page.locator("main").inner_text()
    page.click("text=Compare the examples")
    assert re.search(r"same\s+1,500", page.locator("main").inner_text())


def test_what_is_not_there_leads_on(open_page: Callable[..., Any], url: str) -> None:
    page = open_page("/")
    page.fill("#words", "storys@latest")
    page.press("#words", "Enter")
    page.click("text=stories >> nth=0")
    assert page.locator("h1").inner_text() == "stories 1.1.0"


def test_signing_in(browser: Any, world: World) -> None:
    with served(world.home, "--host", "0.0.0.0") as said:
        address = said["url"].replace("0.0.0.0", "127.0.0.1")
        context = browser.new_context(viewport=PHONE)
        page = context.new_page()
        page.goto(f"{address}runs")
        assert "/login?next=" in page.url
        page.fill("input[type=password]", "not the token at all")
        page.click("button:has-text('Sign in')")
        assert "That is not the token." in page.locator("main").inner_text()
        page.fill("input[type=password]", said["token"])
        page.keyboard.press("Enter")
        page.wait_for_url(re.compile(r"\d/runs$"))
        assert page.locator("h1").inner_text() == "Runs"
        page.click("text=Sign out")
        page.goto(f"{address}runs")
        assert "/login?next=" in page.url
        context.close()
