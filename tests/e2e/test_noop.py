"""A build with nothing to do costs next to nothing, and `why` says what would be done otherwise."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.e2e.conftest import Project
from tests.e2e.processes import command, environment

from provender.catalog import Catalog

BUILDER_OF_MANY = """
import pathlib

import tensorflow_datasets as tfds

TOUCHED = pathlib.Path({touched!r})

class Wide(tfds.core.GeneratorBasedBuilder):
    VERSION = tfds.core.Version("1.0.0")

    def _info(self):
        return tfds.core.DatasetInfo(
            builder=self,
            description="wide",
            features=tfds.features.FeaturesDict({{"n": tfds.features.Text()}}),
        )

    def _split_generators(self, dl_manager):
        path = dl_manager.download({url!r})
        return {{name: self._generate_examples(path) for name in ("train", "test", "dev")}}

    def _generate_examples(self, path):
        TOUCHED.touch()
        with open(path) as file:
            for number, _ in enumerate(file):
                yield number, {{"n": str(number)}}
"""
MODULES = """
import atexit, json, sys
from pathlib import Path

atexit.register(lambda: Path(report).write_text(json.dumps(sorted(sys.modules))))
from provender.cli import main
report = sys.argv.pop(1)
main()
"""
ROWS = "SELECT name FROM sqlite_master WHERE type = 'table'"


@pytest.fixture
def wide(project: Project) -> Project:
    """A published version of twenty-one stages."""
    source = project.write("data/numbers.txt", "".join(f"{i}\n" for i in range(40)))
    touched = str(project.root / "generated")
    text = BUILDER_OF_MANY.format(touched=touched, url=source.as_uri())
    project.write("wide.py", text)
    built = project.build("wide.py:Wide", num_shards=5)
    assert len(built.version.info["stages"]) == 3 + 3 + 3 * 5
    (project.root / "generated").unlink()
    return project


def rows(project: Project) -> dict[str, int]:
    with Catalog.open(project.settings.catalog) as catalog:
        # The search index is the database's own, over the rows of search_part.
        own = ("sqlite_", "search_index")
        names = [name for (name,) in catalog.sql(ROWS).rows if not name.startswith(own)]
        return {n: catalog.sql(f'SELECT count(*) FROM "{n}"').rows[0][0] for n in names}


def watched(project: Project, *args: str, **extra: str) -> tuple[dict[str, Any], set[str]]:
    """Runs the command line with ``--json``; gives its document, and the modules imported."""
    report = project.root / "modules.json"
    done = subprocess.run(
        [sys.executable, "-c", MODULES, str(report), "--json", *args],
        capture_output=True, text=True, timeout=120, check=False,
        cwd=project.root, env=environment(project, PROVENDER_WORKERS="1", **extra),
    )  # fmt: skip
    assert done.returncode == 0, (done.stdout[-2000:], done.stderr[-3000:])
    return json.loads(done.stdout), set(json.loads(report.read_text()))


def check_cheap(project: Project) -> None:
    before = rows(project)
    doc, modules = watched(project, "build", "wide.py:Wide", "--num-shards", "5")
    assert doc["outcome"] == "cached"
    assert doc["ran"] == []
    heavy = {"tensorflow", "tensorflow_datasets", "numpy", "pandas", "pyarrow", "etils", "fsspec"}
    heavy |= {"wide", "provender_file_wide", "alembic", "httpx"}
    assert heavy & modules == set()
    after = rows(project)
    assert {name: after[name] - before[name] for name in after if after[name] != before[name]} == {
        "run": 1
    }
    assert not (project.root / "generated").exists()


def test_nothing_to_do(wide: Project) -> None:
    check_cheap(wide)


def test_nothing_to_do_after_the_file_was_touched(wide: Project) -> None:
    """Looking whether a touched file still says the same takes one import; the next time none."""
    path = wide.root / "wide.py"
    os.utime(path, (path.stat().st_atime, path.stat().st_mtime + 5))
    path.write_bytes(path.read_bytes())
    before = rows(wide)
    doc, _ = watched(wide, "build", "wide.py:Wide", "--num-shards", "5")
    assert doc["outcome"] == "cached"
    assert sum(rows(wide).values()) - sum(before.values()) == 1
    assert not (wide.root / "generated").exists()
    check_cheap(wide)


def test_nothing_to_do_after_a_comment(wide: Project) -> None:
    wide.edit("wide.py", "import pathlib", "import pathlib  # for the mark")
    before = rows(wide)
    doc, _ = watched(wide, "build", "wide.py:Wide", "--num-shards", "5")
    assert doc["outcome"] == "cached"
    assert sum(rows(wide).values()) - sum(before.values()) == 1
    check_cheap(wide)


@pytest.mark.parametrize("where", ["module", "_info"])
def test_a_builder_that_reads_the_environment_is_imported_every_time(
    wide: Project, where: str
) -> None:
    text = (
        (wide.root / "wide.py").read_text().replace("import pathlib", "import os\nimport pathlib")
    )
    if where == "module":
        text = text.replace("class Wide", 'FIRST = int(os.environ.get("FIRST", "0"))\n\nclass Wide')
        text = text.replace("str(number)", "str(FIRST + number)")
        changed = "global wide.FIRST: 0 -> 7"
    else:
        text = text.replace('description="wide"', 'description=os.environ.get("FIRST", "0")')
        changed = "'0' -> '7'"
    (wide.root / "wide.py").write_text(text)
    args = ("wide.py:Wide", "--trial")
    watched(wide, "build", *args)
    doc, modules = watched(wide, "build", *args)
    assert doc["outcome"] == "cached"
    assert "tensorflow_datasets" in modules, "only importing the module shows what it reads"
    doc, _ = watched(wide, "plan", *args, FIRST="7")
    why = [text for step in doc["steps"] for text in step["why"]]
    assert any(changed in text for text in why), why
    doc, _ = watched(wide, "build", *args, FIRST="7")
    assert doc["outcome"] == "succeeded"


# -- why -----------------------------------------------------------------------------------------------


def upstream(pairs: Project) -> None:
    (pairs.root / "data/train.txt").write_text("another\n")


def edit(*args: str) -> Callable[[Project], None]:
    return lambda pairs: pairs.edit(*args)


CHANGES: dict[str, tuple[Callable[[Project], None], str, list[str]]] = {
    "a helper's constant": (
        edit("helping.py", "LIMIT = 40", "LIMIT = 4"), "examples/train",
        ["global helping.LIMIT", "40 -> 4"],
    ),
    "a helper's body": (
        edit("helping.py", "line.strip()", "line.rstrip()"), "examples/test",
        ["function helping.shape()", "line.strip()", "line.rstrip()"],
    ),
    "the generator": (
        edit("pairs.py", "number % 3}", "number % 2}"), "examples/train",
        ["_generate_examples()", "number % 3", "number % 2"],
    ),
    "the features": (
        edit("pairs.py", "num_classes=3", "num_classes=4"), "examples/train",
        ["'label'", "'3' -> '4'"],
    ),
    "the plan": (
        edit("pairs.py", '"test": ', '"dev": '), "download",
        ["_split_generators()", "'test': ", "'dev': "],
    ),
    "a file upstream": (upstream, "download", ["train.txt", "changed upstream", "->"]),
}  # fmt: skip


@pytest.mark.parametrize("name", CHANGES)
def test_why_says_old_and_new(pairs: Project, name: str) -> None:
    change, stage, parts = CHANGES[name]
    pairs.build()
    change(pairs)
    said = command(pairs, "why", "pairs.py:Pairs", stage, COLUMNS="4000").stdout
    for part in parts:
        assert part in said, said
    doc = json.loads(command(pairs, "--json", "why", "pairs.py:Pairs", stage).stdout)
    assert doc["about"] == "plan"
    assert [each["stage"] for each in doc["stages"]] == [stage]


def test_why_of_a_finished_build_is_that_of_its_runs(pairs: Project) -> None:
    pairs.build()
    doc = json.loads(command(pairs, "--json", "why", "pairs.py:Pairs").stdout)
    assert doc["about"] == "ready"
    assert {text for each in doc["stages"] for text in each["why"]} == {"never run before"}


def test_the_memory_of_a_builder_is_one_small_file(wide: Project) -> None:
    [file] = Path(wide.settings.home).glob("facts/*.json")
    assert file.stat().st_size < 200_000
