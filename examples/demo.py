"""The demo: real datasets through all stages, then again, then with one line changed.

Everything it makes lies in `demo/`; run it twice to see the second run do nothing.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
DEMO = ROOT / "demo"
PROVENDER = Path(sys.executable).with_name("provender")


def main() -> int:
    """Runs the demo; returns the exit code."""
    DEMO.mkdir(exist_ok=True)
    _say("Digits: 1,797 images of handwritten digits that scikit-learn ships.")
    _write_settings(_make_xsum_archive())
    _run("build", "digits")
    _say("The same again: nothing is left to do, and nothing is imported to find that out.")
    _run("build", "digits")
    _say("XSum, from a small archive in the true format (one article is missing on purpose).")
    _run("build", "xsum")
    _say("A builder of one's own, with a helper beside it.")
    _lay_builder(version="1.0.0", change=False)
    _run("build", "builder/topics.py:Topics")
    _say("One line of the helper changes. The number 1.0.0 is published, so this is refused:")
    _lay_builder(version="1.0.0", change=True)
    _run("build", "builder/topics.py:Topics", expect=5)
    _say("With VERSION raised, the plan shows what has to run, and why; then it runs.")
    _lay_builder(version="1.1.0", change=True)
    _run("plan", "builder/topics.py:Topics")
    _run("build", "builder/topics.py:Topics")
    _run("versions")
    _run("head", "topics:1.1.0", "--split", "test", "-n", "1")
    _say(f"The versions are plain TFDS directories below {DEMO / 'store' / 'datasets'}.")
    return 0


def _say(text: str) -> None:
    print(f"\n# {text}", flush=True)


def _run(*arguments: str, expect: int = 0) -> None:
    print(f"$ provender {' '.join(arguments)}", flush=True)
    environment = {**os.environ, "HOME": str(DEMO)}
    done = subprocess.run([PROVENDER, *arguments], cwd=DEMO, env=environment, check=False)
    if done.returncode != expect:
        sys.exit(f"demo: exit code {done.returncode} instead of {expect}")


def _make_xsum_archive() -> str:
    """Packs the demo's articles and returns the URL of their split ids."""
    script = ROOT / "examples" / "xsum_demo" / "make_archive.py"
    folder = DEMO / "store" / "manual" / "xsum"
    ids = folder / "xsum-demo-split-ids.json"
    if not ids.exists():
        subprocess.run([sys.executable, script, folder], check=True, capture_output=True)
    return ids.as_uri()


def _write_settings(split_ids_url: str) -> None:
    lines = [
        'store = "store"',
        "",
        "[datasets.xsum]",
        'builder = "provender.builders.xsum:Xsum"',
        f"kwargs = {{ split_ids_url = {json.dumps(split_ids_url)} }}",
    ]
    (DEMO / "provender.toml").write_text("\n".join(lines) + "\n", encoding="utf-8")


def _lay_builder(*, version: str, change: bool) -> None:
    """Copies the builder and its helper, with one line changed or not."""
    folder = DEMO / "builder"
    folder.mkdir(exist_ok=True)
    for name in ("topics.py", "cleaning.py"):
        text = (ROOT / "examples" / "demo_builder" / name).read_text(encoding="utf-8")
        text = text.replace('Version("1.0.0")', f'Version("{version}")')
        if change:
            text = text.replace("return text.strip()", "return text.strip().lower()")
        if not (folder / name).exists() or (folder / name).read_text(encoding="utf-8") != text:
            (folder / name).write_text(text, encoding="utf-8")


if __name__ == "__main__":
    sys.exit(main())
