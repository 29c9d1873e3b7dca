"""A real server process, as people start it, and a real browser."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

PROGRAM = str(Path(sys.executable).parent / "provender")
CHROMIUM = next(
    filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None
)
WHY_NOT = "no Chromium here: apt-get install chromium"


@contextmanager
def served(home: Path, *options: str, environment: dict[str, str] | None = None) -> Iterator[Any]:
    """Runs ``provender ui`` and gives what it said: ``url``, and ``token`` where it made one."""
    env = {**os.environ, "HOME": str(home), "PROVENDER_HOME": str(home), **(environment or {})}
    env.pop("PROVENDER_UI_TOKEN", None) if environment is None else None
    process = subprocess.Popen(
        [PROGRAM, "ui", "--port", "0", "--json", *options],
        cwd=home,
        env=env,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        assert process.stdout is not None
        lines = []
        for line in process.stdout:
            lines.append(line)
            if line.rstrip() == "}":
                break
        assert lines, process.communicate()[1]
        yield json.loads("".join(lines))
    finally:
        process.send_signal(signal.SIGINT)
        try:
            _, errors = process.communicate(timeout=20)
        except subprocess.TimeoutExpired:
            process.kill()
            _, errors = process.communicate()
            raise AssertionError("the server did not end at Ctrl-C") from None
    assert process.returncode in (0, 130), errors
    assert "Traceback" not in errors, errors


@contextmanager
def browsing() -> Iterator[Any]:
    """A headless browser."""
    from playwright.sync_api import sync_playwright

    assert CHROMIUM is not None
    arguments: Sequence[str] = ["--no-sandbox"] if os.geteuid() == 0 else []
    with sync_playwright() as player:
        browser = player.chromium.launch(executable_path=CHROMIUM, args=list(arguments))
        try:
            yield browser
        finally:
            browser.close()
