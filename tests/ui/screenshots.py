"""Makes the pictures of docs/ui.md anew.

python -m tests.ui.screenshots docs/images
"""

from __future__ import annotations

import sys
import tempfile
from io import BytesIO
from pathlib import Path

from PIL import Image
from tests.ui.serving import browsing, served
from tests.ui.world import World, make

DESKTOP, PHONE = (1200, 760), (375, 720)


def shots(world: World) -> dict[str, tuple[str, str, tuple[int, int], str | None]]:
    """File name -> path, colour scheme, window, what to scroll to."""
    ids = world.ids
    return {
        "ui-version.png": (f"/versions/{ids['digits']}", "light", DESKTOP, None),
        "ui-statistics.png": (f"/versions/{ids['stories:1.1.0']}", "light", DESKTOP, "#statistics"),
        "ui-examples.png": (
            f"/versions/{ids['digits']}/examples?split=train",
            "dark",
            DESKTOP,
            None,
        ),
        "ui-lineage.png": (f"/lineage/{ids['stories:1.1.0']}?depth=5", "light", DESKTOP, None),
        "ui-run.png": (f"/runs/{ids['run']}", "dark", DESKTOP, None),
        "ui-diff.png": (
            f"/diff?a={ids['stories:1.0.1']}&b={ids['stories:1.1.0']}",
            "light",
            DESKTOP,
            None,
        ),
        "ui-phone.png": (f"/runs/{ids['run']}", "light", PHONE, None),
    }


def main(folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as place:
        world = make(Path(place), hostile=False)
        with served(world.home) as said, browsing() as browser:
            for name, (path, scheme, (width, height), spot) in shots(world).items():
                context = browser.new_context(
                    viewport={"width": width, "height": height}, color_scheme=scheme
                )
                page = context.new_page()
                page.goto(said["url"].rstrip("/") + path)
                if spot:
                    page.locator(spot).evaluate("element => element.scrollIntoView()")
                small = Image.open(BytesIO(page.screenshot())).convert("RGB").quantize(64, dither=0)
                small.save(folder / name, optimize=True)
                context.close()
        world.catalog.close()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
