"""Facts: all that a plan asks of a builder, remembered while its sources are unchanged."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from provender.builders.facts import BuilderFacts, facts_of
from provender.builders.load import OPAQUE, SHARDS
from provender.builders.spec import BuilderSpec

SOURCE = """
import tensorflow_datasets as tfds
import facts_helper
{top}

class Config(tfds.core.BuilderConfig):
    def __init__(self, *, word="w", **kwargs):
        super().__init__(**kwargs)
        self.word = word

class Own(tfds.core.GeneratorBasedBuilder, skip_registration=True):
    VERSION = tfds.core.Version("{version}")
    BUILDER_CONFIGS = [Config(name="one", word="{word}", description="{prose}")]

    def _info(self):
        return tfds.core.DatasetInfo(
            builder=self,
            description="{prose}",
            features=tfds.features.FeaturesDict({{"text": tfds.features.Text(){feature}}}),
            disable_shuffling={in_order},
        )

    def _split_generators(self, dl_manager):
        return {{"train": self._generate_examples({plan})}}

    def _generate_examples(self, count):
        {generate}
        yield 0, {{"text": facts_helper.clean("a")}}
"""
PLAIN = {
    "top": "",
    "version": "1.0.0",
    "word": "w",
    "prose": "Prose.",
    "feature": "",
    "in_order": "False",
    "plan": "3",
    "generate": "pass",
}


class Project:
    """A builder file with a helper beside it, and a memory of facts."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.file = folder / "facts_own.py"
        self.helper = folder / "facts_helper.py"
        self.memory = folder / "memory"
        self.helper.write_text("def clean(text):\n    return text\n")
        self.write()

    def write(self, **parts: str) -> None:
        self.file.write_text(SOURCE.format(**{**PLAIN, **parts}))

    def facts(self, **spec: object) -> BuilderFacts:
        wanted = BuilderSpec(f"{self.file}:Own", **spec)  # type: ignore[arg-type]
        return facts_of(wanted, self.memory, self.folder / "checksums")

    def elsewhere(self) -> dict[str, object]:
        """Facts asked for in a new process: their JSON, and what had to be imported."""
        code = (
            "import json, sys\nfrom pathlib import Path\n"
            "from provender.builders.facts import facts_of\n"
            "from provender.builders.spec import BuilderSpec\n"
            "facts = facts_of(BuilderSpec(sys.argv[1]), Path(sys.argv[2]), Path(sys.argv[3]))\n"
            "print(json.dumps({'facts': facts.to_json(), 'modules': sorted(sys.modules)}))"
        )
        run = subprocess.run(
            [
                sys.executable,
                "-c",
                code,
                f"{self.file}:Own",
                self.memory,
                self.folder / "checksums",
            ],
            capture_output=True,
            text=True,
            check=True,
        )
        return dict(json.loads(run.stdout))

    @property
    def remembered(self) -> list[Path]:
        return sorted(self.memory.glob("*.json"))


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Project]:
    monkeypatch.setattr(sys, "path", list(sys.path))
    yield Project(tmp_path)
    for name in ("facts_own", "facts_helper"):
        sys.modules.pop(name, None)


def test_facts(project: Project) -> None:
    found = project.facts()
    assert (found.name, found.config, found.version, found.ref) == (
        "own",
        "one",
        "1.0.0",
        "own/one",
    )
    assert set(found.code) == {"_split_generators", "_generate_examples"}
    assert found.in_order is False
    assert found.manual is None
    assert found.info["description"] == "Prose."
    assert BuilderFacts.from_json(json.loads(json.dumps(found.to_json()))) == found


def test_a_second_process_imports_neither_tfds_nor_the_builder(project: Project) -> None:
    found = project.facts()
    elsewhere = project.elsewhere()
    assert elsewhere["facts"] == json.loads(json.dumps(found.to_json()))
    heavy = {"tensorflow", "tensorflow_datasets", "numpy", "facts_own", "facts_helper"}
    assert heavy & set(elsewhere["modules"]) == set()  # type: ignore[call-overload]


@pytest.mark.parametrize("which", ["file", "helper"])
def test_a_touched_file_is_looked_at_again_and_gives_the_same(project: Project, which: str) -> None:
    found = project.facts()
    path: Path = getattr(project, which)
    os.utime(path, ns=(1, 1))
    elsewhere = project.elsewhere()
    assert "tensorflow_datasets" in elsewhere["modules"]  # type: ignore[operator]
    assert elsewhere["facts"] == json.loads(json.dumps(found.to_json()))


def test_a_helper_changed_to_one_of_equal_size_and_time_is_noticed(project: Project) -> None:
    found = project.facts()
    stat = project.helper.stat()
    project.helper.write_text("def clean(text):\n    return 'b' \n")
    assert project.helper.stat().st_size == stat.st_size
    os.utime(project.helper, ns=(stat.st_atime_ns, stat.st_mtime_ns))
    changed = project.elsewhere()["facts"]["code"]  # type: ignore[index]
    assert changed["_generate_examples"] != found.code["_generate_examples"].to_json()


@pytest.mark.parametrize("name", ["README.md", "CITATIONS.bib", "TAGS.txt", "checksums.tsv"])
def test_a_file_that_tfds_reads_from_beside_is_noticed_when_it_appears(
    project: Project, name: str
) -> None:
    project.facts()
    text = "http://a\t1\t" + "0" * 64 + "\ta.txt\n" if name == "checksums.tsv" else "text"
    (project.folder / name).write_text("" if name == "TAGS.txt" else text)
    assert "tensorflow_datasets" in project.elsewhere()["modules"]  # type: ignore[operator]


def test_module_code_that_reads_the_environment_is_never_remembered(project: Project) -> None:
    project.write(top="import os\nWORD = os.environ.get('FACTS_WORD')")
    project.facts()
    assert project.remembered == []


def test_a_damaged_memory_is_made_anew(project: Project) -> None:
    found = project.facts()
    (file,) = project.remembered
    for content in (b"", b"{", b"[]", b"{}", b"null"):
        file.write_bytes(content)
        assert project.facts() == found


def test_specs_are_remembered_apart(project: Project) -> None:
    assert project.facts() == project.facts(config="one").__class__(
        **{**vars_of(project.facts(config="one")), "spec": project.facts().spec}
    )
    assert len(project.remembered) == 2


def vars_of(facts: BuilderFacts) -> dict[str, object]:
    return {name: getattr(facts, name) for name in facts.__dataclass_fields__}


@pytest.mark.parametrize(
    ("parts", "differ"),
    [
        ({"generate": "x = 1"}, {"_generate_examples"}),
        ({"plan": "4"}, {"_split_generators"}),
        ({"word": "v"}, {"setting"}),
        ({"feature": ", 'n': tfds.features.Text()"}, {"features"}),
        ({"in_order": "True"}, {"in_order", "info"}),
        ({"prose": "Other prose."}, {"info"}),
        ({"top": "# a comment\nUNUSED = 1"}, set()),
        ({"version": "1.0.1"}, {"version", "info"}),
        (
            {"version": "1.0.1", "generate": "x = self.version"},
            {"version", "info", "_generate_examples"},
        ),
    ],
    ids=lambda value: str(sorted(value)) if isinstance(value, set) else str(value),
)
def test_each_part_shows_in_its_own_place(
    project: Project, parts: dict[str, str], differ: set[str]
) -> None:
    old = project.facts()
    project.write(**parts)
    new = project.facts()
    found = {name for name in old.code if old.code[name] != new.code[name]}
    found |= {
        name
        for name in ("setting", "features", "version", "in_order", "info", "manual", "checksums")
        if getattr(old, name) != getattr(new, name)
    }
    assert found == differ


def test_a_changed_helper_is_named(project: Project) -> None:
    old = project.facts().code["_generate_examples"]
    project.helper.write_text("def clean(text):\n    return text.strip()\n")
    new = project.facts().code["_generate_examples"]
    from provender.fingerprint import Hasher

    assert any("facts_helper.clean" in str(change) for change in Hasher.explain(old, new))


def test_constructor_arguments_are_part_of_the_setting(project: Project) -> None:
    text = SOURCE.format(**PLAIN).replace(
        "    def _info",
        "    def __init__(self, lang='en', **kwargs):\n        self.lang = lang\n"
        "        super().__init__(**kwargs)\n\n    def _info",
        1,
    )
    project.file.write_text(text)
    english, german = project.facts(), project.facts(kwargs={"lang": "de"})
    assert english.setting != german.setting
    assert english.code == german.code


def test_kinds_and_manual_files(project: Project) -> None:
    project.file.write_text(
        "import tensorflow_datasets as tfds\nfrom provender.builders import DatasetBuilder\n"
        "class Own(DatasetBuilder, skip_registration=True):\n"
        "    VERSION = tfds.core.Version('1.0.0')\n"
        "    MANUAL_DOWNLOAD_INSTRUCTIONS = '''\n      Get it.\n        By hand.\n    '''\n"
        "    MANUAL_FILES = ('a.zip', '*.txt')\n"
        "    def _info(self):\n"
        "        return tfds.core.DatasetInfo(builder=self, features=tfds.features.FeaturesDict("
        "{'a': tfds.features.Text()}))\n"
        "    def _download_and_prepare(self, dl_manager, download_config=None):\n        pass\n"
    )
    found = project.facts()
    assert found.kind == OPAQUE
    assert set(found.code) == {"_download_and_prepare"}
    assert found.manual == {
        "instructions": "Get it.\n  By hand.",
        "files": {"a.zip": None, "*.txt": None},
    }
    project.file.write_text(
        "import tensorflow_datasets as tfds\n"
        "class Own(tfds.core.ShardBasedBuilder, skip_registration=True):\n"
        "    VERSION = tfds.core.Version('1.0.0')\n"
        "    def _info(self):\n"
        "        return tfds.core.DatasetInfo(builder=self, features=tfds.features.FeaturesDict("
        "{'a': tfds.features.Text()}))\n"
        "    def _shard_iterators_per_split(self, dl_manager):\n        return {}\n"
    )
    found = project.facts()
    assert found.kind == SHARDS
    assert set(found.code) == {"_shard_iterators_per_split"}
