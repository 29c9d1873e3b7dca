"""Every command line shown in README and docs is run, in order, in a folder of its own."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest
from tests.data.dataset.programs import zygote

ROOT = Path(__file__).resolve().parents[2]
PAGES = ["README.md", *sorted(str(p.relative_to(ROOT)) for p in (ROOT / "docs").glob("*.md"))]


def commands(page: str) -> list[str]:
    """The lines after ``$`` in the page's console blocks."""
    text = (ROOT / page).read_text(encoding="utf-8")
    blocks = re.findall(r"^```console\n(.*?)^```", text, re.S | re.M)
    return [line[2:] for block in blocks for line in block.splitlines() if line.startswith("$ ")]


# What nearly every command imports; it takes longer than most of them.
_LOADED = ("provender.cli.app", "provender.engine.build", "tensorflow_datasets", "pyarrow.parquet")
_COMMAND = "import sys; from provender.cli import main; sys.argv = {words!r}; main()"


def forked(line: str, cwd: Path, env: Mapping[str, str]) -> subprocess.CompletedProcess[str]:
    """Runs a line that is one plain command of Provender, in a process that has it loaded."""
    words = shlex.split(line)
    outputs = cwd / "home"
    outputs.mkdir(exist_ok=True)
    program = outputs / "command.py"
    program.write_text(_COMMAND.format(words=words))
    return subprocess.CompletedProcess(line, *zygote(*_LOADED).run(program, cwd, env, outputs))


def in_shell(line: str, cwd: Path, env: Mapping[str, str]) -> subprocess.CompletedProcess[str]:
    """Runs a line as it is typed."""
    return subprocess.run(["bash", "-c", line], cwd=cwd, env=env, capture_output=True, text=True)


def plain(line: str) -> bool:
    """Whether a shell would make of a line just what `shlex` makes of it."""
    outside = re.sub(r"'[^']*'|\"[^\"$`\\]*\"", "", line)
    return line.startswith("provender ") and not re.search(r"[^\w\s./:=,@+%-]", outside)


@pytest.mark.parametrize("page", [page for page in PAGES if commands(page)])
def test_commands_of_page(page: str, tmp_path: Path, request: pytest.FixtureRequest) -> None:
    shutil.copytree(ROOT / "examples" / "demo_builder", tmp_path / "builder")
    environment = {
        **os.environ,
        "HOME": str(tmp_path / "home"),
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
    }
    # The first page is run to the letter. The others show that their lines are right; that each
    # command starts by itself, and what worker processes do, are claims of other tests.
    to_the_letter = page == "README.md"
    if not to_the_letter:
        environment.setdefault("PROVENDER_WORKERS", "1")
    if any("$BEAM_PYTHON" in line for line in commands(page)):
        environment["BEAM_PYTHON"] = request.getfixturevalue("beam_python")
    for line in commands(page):
        run = in_shell if to_the_letter or not plain(line) else forked
        done = run(line, tmp_path, environment)
        shown = f"{page}: {line}\n{done.stdout}\n{done.stderr}"
        assert done.returncode == 0, shown
        assert "Traceback" not in done.stderr, shown


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ('provender sql "SELECT count(*) FROM v_versions"', True),
        ("provender head moon/2026-11-03 --split train -n 1", True),
        ("provender nlp create --input-file 'text/*.txt'", True),
        ("provender nlp create --input-file text/*.txt", False),
        ("provender build topics || test $? = 5", False),
        ('provender show "$NAME"', False),
        ("python letters.py", False),
    ],
)
def test_which_lines_need_a_shell(line: str, expected: bool) -> None:
    assert plain(line) is expected


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
