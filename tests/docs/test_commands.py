"""Every command line shown in README and docs is run, in order, in a folder of its own."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PAGES = ["README.md", *sorted(str(p.relative_to(ROOT)) for p in (ROOT / "docs").glob("*.md"))]


def commands(page: str) -> list[str]:
    """The lines after ``$`` in the page's console blocks."""
    text = (ROOT / page).read_text(encoding="utf-8")
    blocks = re.findall(r"^```console\n(.*?)^```", text, re.S | re.M)
    return [line[2:] for block in blocks for line in block.splitlines() if line.startswith("$ ")]


@pytest.mark.parametrize("page", [page for page in PAGES if commands(page)])
def test_commands_of_page(page: str, tmp_path: Path, request: pytest.FixtureRequest) -> None:
    shutil.copytree(ROOT / "examples" / "demo_builder", tmp_path / "builder")
    environment = {
        **os.environ,
        "HOME": str(tmp_path / "home"),
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
    }
    if any("$BEAM_PYTHON" in line for line in commands(page)):
        environment["BEAM_PYTHON"] = request.getfixturevalue("beam_python")
    for line in commands(page):
        done = subprocess.run(
            ["bash", "-c", line], cwd=tmp_path, env=environment, capture_output=True, text=True
        )
        shown = f"{page}: {line}\n{done.stdout}\n{done.stderr}"
        assert done.returncode == 0, shown
        assert "Traceback" not in done.stderr, shown


def test_readme_names_every_page() -> None:
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    missing = [page for page in PAGES if page != "README.md" and page not in readme]
    assert missing == []


@pytest.mark.parametrize("page", PAGES)
def test_links_lead_somewhere(page: str) -> None:
    text = (ROOT / page).read_text(encoding="utf-8")
    for target in re.findall(r"\]\(([^)#:]+)\)", text):
        assert ((ROOT / page).parent / target).exists(), target


def test_platform_is_no_package() -> None:
    """`platform` stays a plain folder: a package of that name would hide the standard library's."""
    assert not (ROOT / "platform" / "__init__.py").exists()
