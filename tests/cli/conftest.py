"""The real program, run as people run it, on builders small enough to build in a second."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

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

    @property
    def environ(self) -> dict[str, str]:
        kept = {k: v for k, v in os.environ.items() if not k.startswith("PROVENDER_")}
        kept.pop("COLUMNS", None)
        return {**kept, "PROVENDER_HOME": str(self.folder / "home"), "TERM": "xterm-256color"}

    def command(self, *args: str) -> list[str]:
        return [sys.executable, "-c", "from provender.cli import main; main()", *args]

    def run(self, *args: str, code: int = 0) -> subprocess.CompletedProcess[str]:
        """Runs the program and checks its exit code."""
        done = subprocess.run(
            self.command(*args),
            cwd=self.folder,
            env=self.environ,
            capture_output=True,
            text=True,
            timeout=120,
        )
        assert done.returncode == code, done.stdout + done.stderr
        return done

    def json(self, *args: str, code: int = 0) -> Any:
        """Runs the program with --json and reads what it printed."""
        return json.loads(self.run(*args, "--json", code=code).stdout)


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
