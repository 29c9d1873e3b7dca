"""A project with published text, and recipes that make examples of it."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from tests.nlp.pretraining.conftest import ENDINGS, SPECIAL, WORDS, corpus

import provender
from provender.data import Dataset
from provender.engine.build import Built, build
from provender.engine.decide import decide
from provender.engine.plan import Plan, reason_text
from provender.engine.session import Options, Session, open_session
from provender.records.tfrecord import iter_records
from provender.refs import DatasetRef
from provender.settings import Settings

DOCUMENTS = [each.strip("\n") for each in corpus(40).split("\n\n") if each.strip()]
FLAGS = {"max_seq_length": 64, "max_predictions_per_seq": 9, "dupe_factor": 2, "shards": 3}


@dataclass
class Project:
    """A folder with a provender.toml."""

    root: Path

    @property
    def settings(self) -> Settings:
        home = str(self.root / "home")
        return provender.load_settings(
            cwd=str(self.root), environ={"HOME": home, "PROVENDER_HOME": home}
        )

    def write(self, **datasets: dict[str, Any]) -> None:
        """Writes provender.toml: dataset -> arguments of a recipe, its version and ``builder`` among
        them; by default of `BertPretraining`.
        """
        lines = []
        for name, kwargs in datasets.items():
            version = kwargs.pop("version", "1.0.0")
            builder = kwargs.pop("builder", "BertPretraining")
            lines += [
                f"[datasets.{name}]",
                f'builder = "provender.nlp.recipes:{builder}"',
                f'version = "{version}"',
                f"[datasets.{name}.kwargs]",
                *(f"{key} = {_toml(value)}" for key, value in kwargs.items()),
            ]
        (self.root / "provender.toml").write_text("\n".join(lines) + "\n")

    def session(self, ref: str, **options: Any) -> Session:
        return open_session(DatasetRef.parse(ref), self.settings, Options(**options))

    def plan(self, ref: str) -> Plan:
        return decide(self.session(ref))

    def why(self, ref: str, stage: str = "download") -> str:
        [step] = [each for each in self.plan(ref).steps if each.key == stage]
        return "; ".join(map(reason_text, step.reasons))

    def build(self, ref: str, **options: Any) -> Built:
        return build(self.session(ref, **options))

    def records(self, built: Any) -> list[bytes]:
        return [record for each in shards_of(built.version.uri) for record in records_of(each)]


def _toml(value: Any) -> str:
    if isinstance(value, dict):
        return "{" + ", ".join(f"{key} = {_toml(each)}" for key, each in value.items()) + "}"
    return json.dumps(value)


def shards_of(folder: str) -> list[Path]:
    return sorted(path for path in Path(folder).glob("*.tfrecord-*") if path.suffix != ".offsets")


def records_of(path: Path) -> list[bytes]:
    return [payload for _, payload in iter_records(path)]


def publish_stories(project: Project, version: str, documents: list[str]) -> None:
    rows = {"document": documents, "number": list(range(len(documents)))}
    Dataset.from_dict(rows).publish(
        "stories", version=version, num_shards=3, settings=project.settings, workers=1
    )


@pytest.fixture
def project(tmp_path: Path) -> Project:
    """A project with ``stories:1.1.0``, a vocabulary and the text as a file."""
    (tmp_path / "vocab.txt").write_text("\n".join([*SPECIAL, *WORDS, *ENDINGS]) + "\n")
    (tmp_path / "text.txt").write_text("\n\n".join(DOCUMENTS) + "\n")
    found = Project(tmp_path)
    publish_stories(found, "1.1.0", DOCUMENTS)
    return found


def recipe(**changed: Any) -> dict[str, Any]:
    """Arguments of a recipe."""
    usual = {"source": "stories:1.1.0", "text": ["document"], "vocab_file": "vocab.txt", **FLAGS}
    return {name: value for name, value in (usual | changed).items() if value is not None}
