"""Builders that prepare in steps: whose code counts for what, and what such a builder must not do."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import provender
from provender.engine.build import Built, build
from provender.engine.decide import decide
from provender.engine.plan import reason_text
from provender.engine.session import Options, Session, open_session
from provender.errors import BuilderError
from provender.nlp.pretraining.examples import decode
from provender.records.tfrecord import iter_records
from provender.refs import DatasetRef
from provender.settings import Settings

BUILDER = '''
import functools

import numpy as np
import tensorflow_datasets as tfds

from provender.builders.steps import InSteps


class Squares(InSteps, tfds.core.ShardBasedBuilder):
    """Numbers, their squares in a step, and the sums of those in another."""

    VERSION = tfds.core.Version("1.0.0")
    STEPS = {"squares": ("count",), "sums": ()}

    def __init__(self, *, count=10, more=0, **kwargs):
        self._count, self._more = count, more
        super().__init__(**kwargs)

    def _info(self):
        features = tfds.features.FeaturesDict({"sum": tfds.features.Scalar(np.int64)})
        return tfds.core.DatasetInfo(builder=self, features=features)

    def make_squares(self, part):
        for number in part.share(self._count):
            part.told(number, self._count, "numbers")
            path = part.folder / f"{number:03d}"
            path.write_text(str(number * number))
            yield path

    def make_sums(self, part):
        files = sorted(self.made["squares"].iterdir())
        for number in part.share(len(files)):
            path = part.folder / f"sum-{number:03d}"
            path.write_text(str(sum(int(each.read_text()) for each in files[: number + 1])))
            yield path

    def join_sums(self, folder, parts):
        return sorted(folder.glob("sum-*"))

    def _shard_iterators_per_split(self, dl_manager):
        return {"train": [functools.partial(self._examples, each) for each in range(2)]}

    def _examples(self, shard):
        for number, path in enumerate(sorted(self.made["sums"].iterdir())[shard::2]):
            yield f"{shard}-{number}", {"sum": int(path.read_text()) + self._more}
'''


class Project:
    """A folder with a builder in it."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.file = root / "squares.py"
        self.file.write_text(BUILDER)

    @property
    def settings(self) -> Settings:
        home = str(self.root / "home")
        return provender.load_settings(
            cwd=str(self.root), environ={"HOME": home, "PROVENDER_HOME": home}
        )

    def edit(self, old: str, new: str) -> None:
        text = self.file.read_text()
        assert old in text
        self.file.write_text(text.replace(old, new))

    def session(self, **options: object) -> Session:
        ref = DatasetRef.parse(f"{self.file}:Squares")
        return open_session(ref, self.settings, Options(**options))  # type: ignore[arg-type]

    def build(self, **options: object) -> Built:
        return build(self.session(**options))

    def sums(self, built: Built) -> list[bytes]:
        shards = sorted(Path(built.version.uri).glob("*.tfrecord-*-of-00002"))
        return [payload for each in shards for _, payload in iter_records(each)]


@pytest.fixture
def project(tmp_path: Path) -> Project:
    return Project(tmp_path)


def steps_of(built: Built) -> list[str]:
    return [each for each in built.ran if each.startswith("examples/") and "/part" not in each]


def test_each_step_counts_its_own_code(project: Project) -> None:
    first = project.build(workers=1)
    assert first.version.examples == 10
    assert steps_of(first) == ["examples/squares", "examples/sums"]
    assert decide(project.session()).done

    project.edit("int(path.read_text()) + self._more", "int(path.read_text()) + self._more + 1")
    project.edit('Version("1.0.0")', 'Version("1.1.0")')
    second = project.build(workers=1)
    assert steps_of(second) == [] and project.sums(second) != project.sums(first)

    project.edit("files[: number + 1]", "files[:number]")
    project.edit('Version("1.1.0")', 'Version("1.2.0")')
    third = project.build(workers=2)
    assert steps_of(third) == ["examples/sums"] and project.sums(third) != project.sums(second)

    # Written otherwise, but the same squares: what is made of them is left alone.
    project.edit("str(number * number)", "str(number**2)")
    project.edit('Version("1.2.0")', 'Version("1.3.0")')
    assert steps_of(project.build(workers=3)) == ["examples/squares"]
    project.edit("count=10", "count=12")
    [step] = [each for each in decide(project.session()).steps if each.key == "examples/squares"]
    assert step.state != "hit"


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("def make_sums", "def makes_sums", r"Step 'sums' has no method make_sums"),
        ('"sums": ()', '"a sum": ()', r"Step 'a sum' has no method"),
        ('part.folder / f"sum-', 'part.folder.parent / f"sum-', r"no file of its folder"),
        ("            yield path\n\n    def make_sums", "            yield path / 'no'\n\n    def make_sums", r"no file of its folder"),
        ("str(number * number)", "str(number / 0)", r"make_squares raised ZeroDivisionError"),
        ("return sorted(folder", "return 1 / 0 or sorted(folder", r"join_sums raised ZeroDivision"),
    ],
)  # fmt: skip
def test_what_a_step_gets_wrong_is_said(project: Project, old: str, new: str, message: str) -> None:
    project.edit(old, new)
    with pytest.raises(BuilderError, match=message):
        project.build(workers=1)
    assert not list((project.root / "home").glob("datasets/squares/*"))


RECORD = """
        from provender.builders.steps import Serialized
        from provender.training.messages import example_class
        for number in {numbers}:
            made = example_class()()
            made.features.feature["{name}"].{kind}_list.value.extend([number]{more})
            yield number, Serialized(made.SerializeToString(deterministic=True))
"""


def serialized(project: Project, **changed: str) -> None:
    """Makes the builder give records of two numbers in each shard."""
    text = project.file.read_text()
    body = text.partition("def _examples(self, shard):\n")[2]
    made = RECORD.format(
        **{"numbers": "(7 + shard, 300)", "name": "sum", "kind": "int64", "more": "", **changed}
    )
    project.edit(body, made.removeprefix("\n"))


def test_examples_may_be_records(project: Project) -> None:
    serialized(project)
    built = project.build(workers=1)
    assert [decode(each)["sum"].tolist() for each in project.sums(built)] == [
        [7],
        [300],
        [8],
        [300],
    ]
    catalog = project.session().catalog
    [split] = catalog.statistics(built.version.id).values()
    assert split["examples"] == 4 and "300" in str(split["features"]["sum"])


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"name": "sun"}, r"does not hold the features"),
        ({"kind": "float"}, r"does not hold the features"),
        ({"more": " * 2"}, r"is not what the features make of its example"),
    ],
)
def test_a_record_of_other_features(
    project: Project, changed: dict[str, str], message: str
) -> None:
    serialized(project, **changed)
    with pytest.raises(BuilderError, match=message):
        project.build(workers=1)


def test_only_shards_can_be_prepared_in_steps(project: Project) -> None:
    project.edit("tfds.core.ShardBasedBuilder", "tfds.core.GeneratorBasedBuilder")
    project.edit("def _shard_iterators_per_split", "def _split_generators")
    project.edit("def _examples", "def _generate_examples")
    with pytest.raises(BuilderError, match="Only a ShardBasedBuilder prepares in steps"):
        project.build(workers=1)


def test_a_failed_step_goes_on_and_is_told_of(project: Project) -> None:
    project.edit("number * number)", "number * number if number < 9 else 1 / 0)")
    with pytest.raises(BuilderError):
        project.build(workers=2)
    rows = project.session().catalog.stages(key="examples/squares", limit=None)
    assert {each.key.rpartition("/")[2]: each.state for each in rows} == {
        "part-0-of-2": "succeeded",
        "part-1-of-2": "failed",
    }
    project.edit("number < 9", "number < 99")
    [step] = [each for each in decide(project.session()).steps if each.key == "examples/squares"]
    assert not re.search("unfinished", " ".join(map(reason_text, step.reasons)))
    assert project.build(workers=2).version.examples == 10
