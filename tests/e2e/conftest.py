"""A project folder to build in: files, settings, plans and builds."""

from __future__ import annotations

import re
import textwrap
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from provender.engine.build import Built, build
from provender.engine.decide import decide
from provender.engine.plan import Plan, reason_text
from provender.engine.session import Options, Session, open_session
from provender.refs import DatasetRef
from provender.settings import Settings, load_settings

BUILDER = '''
"""A builder."""
import tensorflow_datasets as tfds
from helping import shape

class Pairs(tfds.core.GeneratorBasedBuilder):
    """Two splits from two files."""

    VERSION = tfds.core.Version("1.0.0")

    def _info(self):
        return tfds.core.DatasetInfo(
            builder=self,
            description="pairs",
            features=tfds.features.FeaturesDict(
                {"text": tfds.features.Text(), "label": tfds.features.ClassLabel(num_classes=3)}
            ),
        )

    def _split_generators(self, dl_manager):
        paths = dl_manager.download({"train": TRAIN_URL, "test": TEST_URL})
        return {name: self._generate_examples(path) for name, path in paths.items()}

    def _generate_examples(self, path):
        with open(path, encoding="utf-8") as file:
            for number, line in enumerate(file):
                yield number, {"text": shape(line), "label": number % 3}
'''

HELPER = '''
"""Helps."""

LIMIT = 40

def shape(line):
    # Cuts a line.
    return line.strip()[:LIMIT]
'''


@dataclass
class Project:
    """A folder with provender.toml-less settings of its own."""

    root: Path
    settings: Settings

    def write(self, name: str, text: str) -> Path:
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(textwrap.dedent(text).lstrip("\n"), encoding="utf-8")
        return path

    def edit(self, name: str, old: str, new: str) -> None:
        path = self.root / name
        text = path.read_text(encoding="utf-8")
        assert old in text
        path.write_text(text.replace(old, new), encoding="utf-8")

    def session(self, ref: str, **options: Any) -> Session:
        options.setdefault("workers", 1)
        if ".py:" in ref:
            ref = str(self.root / ref)
        return open_session(DatasetRef.parse(ref), self.settings, Options(**options))

    def plan(self, ref: str = "pairs.py:Pairs", **options: Any) -> Plan:
        session = self.session(ref, **options)
        try:
            return decide(session)
        finally:
            session.catalog.close()

    def build(self, ref: str = "pairs.py:Pairs", **options: Any) -> Built:
        session = self.session(ref, **options)
        try:
            return build(session)
        finally:
            session.catalog.close()


def states(plan: Plan) -> dict[str, str]:
    """Stage key -> state; ``x+`` for what runs or waits to run."""
    return {step.key: step.state for step in plan.steps}


def not_hit(plan: Plan) -> set[str]:
    """The stages that a plan does not reuse, shards without their number."""
    return {re.sub(r"/\d+$", "", step.key) for step in plan.steps if step.state != "hit"}


def reasons(plan: Plan, key: str) -> list[str]:
    """The texts of why a stage runs."""
    step = next(step for step in plan.steps if step.key == key)
    return [reason_text(each) for each in step.reasons]


@pytest.fixture
def project(tmp_path: Path) -> Project:
    """An empty project."""
    settings = load_settings(
        store=str(tmp_path / "store"), cwd=tmp_path, environ={"HOME": str(tmp_path / "home")}
    )
    return Project(tmp_path, settings)


@pytest.fixture
def pairs(project: Project) -> Project:
    """A project with the builder `Pairs`, two input files and a helper module."""
    for name in ("train", "test"):
        lines = "".join(f"{name} line {i}\n" for i in range(50))
        path = project.write(f"data/{name}.txt", lines)
        url = path.as_uri()
        text = BUILDER if name == "train" else (project.root / "pairs.py").read_text()
        project.write("pairs.py", text.replace(f"{name.upper()}_URL", repr(url)))
    project.write("helping.py", HELPER)
    return project
