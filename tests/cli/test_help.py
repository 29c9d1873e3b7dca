from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import typer.main

from provender.cli.app import app

HEAVY = ("sqlalchemy", "pydantic", "numpy", "tensorflow_datasets", "tensorflow", "rich", "fsspec")
DOCS = Path(__file__).parents[2] / "docs" / "cli.md"
TABLES = (
    "datasets",
    "plan",
    "why",
    "lineage",
    "show",
    "versions",
    "runs",
    "stages",
    "verify",
    "head",
    "pull",
    "doctor",
    "cache ls",
    "cache rm",
    "cache why",
    "cache verify",
    "retract",
    "sql",
    "consumers",
    "consumed-by",
    "search",
    "as-of",
    "alias set",
    "alias ls",
    "alias rm",
    "alias history",
    "tag add",
    "tag rm",
    "tag ls",
    "export openlineage",
    "build",
    "init",
    "db status",
    "db check",
    "db backup",
    "db restore",
)


def commands(group: Any = None, before: tuple[str, ...] = ()) -> dict[str, Any]:
    """Every command by its full name, groups included."""
    group = group or typer.main.get_command(app)
    found = {}
    for name, each in group.commands.items():
        path = (*before, name)
        found[" ".join(path)] = each
        if hasattr(each, "commands"):
            found |= commands(each, path)
    return found


@pytest.mark.parametrize("name", commands())
def test_help_says_what_it_is_for_and_shows_an_example(name: str) -> None:
    command = commands()[name]
    text = command.get_help(command.make_context(name, [], resilient_parsing=True))
    examples = text.partition("Example")[2]
    assert f"provender {name}" in examples
    assert command.help.strip()
    for parameter in command.params:
        assert getattr(parameter, "help", None), f"{name}: {parameter.name} is not explained"


@pytest.mark.parametrize("name", TABLES)
def test_every_command_that_prints_also_prints_json(name: str) -> None:
    assert any("--json" in each.opts for each in commands()[name].params)


def test_docs_tell_of_every_command_and_of_no_other() -> None:
    headings = {
        line.removeprefix("### ").partition("`provender ")[2].rstrip("`")
        for line in DOCS.read_text().splitlines()
        if line.startswith("### `provender ")
    }
    wanted = {name for name, each in commands().items() if not hasattr(each, "commands")}
    assert {
        heading.partition(" REF")[0].partition(" [")[0].strip() for heading in headings
    } == wanted


def test_docs_name_every_option() -> None:
    text = DOCS.read_text()
    options = {
        option
        for each in commands().values()
        for p in each.params
        for option in p.opts
        if option.startswith("--")
    }
    assert {option for option in options if option not in text} == set()


def test_help_loads_nothing_heavy() -> None:
    program = (
        "import atexit, sys\nfrom provender.cli import main\nsys.argv = ['provender', '--help']\n"
        f"atexit.register(lambda: print([m for m in {HEAVY} if m in sys.modules], file=sys.stderr))\n"
        "main()"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.returncode == 0
    assert "build" in done.stdout
    assert done.stderr.strip() == "[]"


def test_program_version() -> None:
    line = [sys.executable, "-m", "provender", "--version"]
    done = subprocess.run(line, capture_output=True, text=True)
    assert done.stdout.startswith("provender ")
    assert done.returncode == 0
