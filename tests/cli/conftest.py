"""The real program, run as people run it, on builders small enough to build in a second."""

from __future__ import annotations

import itertools
import json
import os
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import pytest
from tests.data.dataset.programs import zygote

LOADED = ("provender.cli.app", "provender.engine.build", "tensorflow_datasets")
"""What most commands import when they run; it takes longer than most of them."""

BUILDERS = """
import time

import tensorflow_datasets as tfds


class Base(tfds.core.GeneratorBasedBuilder, skip_registration=True):
    VERSION = tfds.core.Version("1.0.0")

    def _info(self):
        features = {"text": tfds.features.Text(), "label": tfds.features.ClassLabel(names=["a", "b"])}
        return tfds.core.DatasetInfo(builder=self, features=tfds.features.FeaturesDict(features))

    def _split_generators(self, dl_manager):
        return {"train": self._generate_examples(20), "test": self._generate_examples(5)}

    def _generate_examples(self, count):
        for i in range(count):
            yield i, {"text": f"row {i}", "label": i % 2}


class Tiny(Base):
    def _split_generators(self, dl_manager):
        print("noise on standard output")
        return super()._split_generators(dl_manager)


class Manual(Base):
    MANUAL_DOWNLOAD_INSTRUCTIONS = "Register at example.org, then put data.csv here."
    MANUAL_FILES = ("data.csv",)


class Breaks(Base):
    def _generate_examples(self, count):
        yield 0, {"text": "fine", "label": 0}
        raise KeyError("no such column")


class Slow(Base):
    def _generate_examples(self, count):
        for i in range(10 * count):
            time.sleep(0.1)
            yield i, {"text": f"row {i}", "label": 0}
"""


@dataclass(frozen=True)
class Project:
    """A project folder of its own, and the program run inside it."""

    folder: Path

    # Commands that were run as people run them.
    _started: ClassVar[set[tuple[str, ...]]] = set()

    @property
    def environ(self) -> dict[str, str]:
        kept = {k: v for k, v in os.environ.items() if not k.startswith("PROVENDER_")}
        kept.pop("COLUMNS", None)
        return {**kept, "PROVENDER_HOME": str(self.folder / "home"), "TERM": "xterm-256color"}

    def command(self, *args: str) -> list[str]:
        return [sys.executable, "-c", "from provender.cli import main; main()", *args]

    def run(self, *args: str, code: int = 0) -> subprocess.CompletedProcess[str]:
        """Runs the program and checks its exit code.

        Each command is started by itself the first time, and from then on in a fork of a process
        that has its libraries loaded.
        """
        command = tuple(itertools.takewhile(_is_word, args))[:2]
        if command in self._started:
            done = self._forked(args)
        else:
            done = self._alone(args)
            self._started.add(command)
        assert done.returncode == code, done.stdout + done.stderr
        return done

    def _alone(self, args: tuple[str, ...]) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            self.command(*args),
            cwd=self.folder,
            env=self.environ,
            capture_output=True,
            text=True,
            timeout=120,
        )

    def _forked(self, args: tuple[str, ...]) -> subprocess.CompletedProcess[str]:
        with tempfile.TemporaryDirectory() as folder:
            program = Path(folder) / "command.py"
            program.write_text(
                f"import sys; sys.argv[1:] = {list(args)!r}\n"
                "from provender.cli import main; main()\n"
            )
            ended = zygote(*LOADED).run(program, self.folder, self.environ, program.parent)
        return subprocess.CompletedProcess(args, *ended)

    def json(self, *args: str, code: int = 0) -> Any:
        """Runs the program with --json and reads what it printed."""
        return json.loads(self.run(*args, "--json", code=code).stdout)


def _is_word(argument: str) -> bool:
    return argument.replace("-", "x").isalpha()


def _project(folder: Path) -> Project:
    (folder / "sets.py").write_text(BUILDERS)
    project = Project(folder)
    (folder / "provender.toml").write_text('store = "data"\nworkers = 1\n')
    return project


@pytest.fixture
def project(tmp_path: Path) -> Project:
    return _project(tmp_path)


@pytest.fixture(scope="session")
def first_build(tmp_path_factory: pytest.TempPathFactory) -> tuple[Project, str]:
    """A project with one dataset built, and what the build printed."""
    project = _project(tmp_path_factory.mktemp("project"))
    (project.folder / "provender.toml").write_text(
        'store = "data"\nworkers = 1\n\n[datasets.tiny]\nbuilder = "sets.py:Tiny"\nnum_shards = 3\n'
    )
    (project.folder / "changed.py").write_text(BUILDERS.replace("i % 2}", "(i + 1) % 2}"))
    return project, project.run("build", "tiny").stdout


@pytest.fixture
def built(first_build: tuple[Project, str]) -> Project:
    """The project with one dataset built; tests must leave it as it is."""
    return first_build[0]
