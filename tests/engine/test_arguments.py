"""Arguments of a builder that name files: found from anywhere, and counted by content."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from provender.engine.build import build
from provender.engine.decide import decide
from provender.engine.plan import reason_text
from provender.engine.session import Options, Session, open_session
from provender.engine.staged import begin
from provender.engine.staged.running import reopened
from provender.errors import MissingFiles, UnknownReference
from provender.records.tfrecord import iter_records
from provender.refs import DatasetRef
from provender.settings import Settings, load_settings

BUILDER = '''
import tensorflow_datasets as tfds

class Words(tfds.core.GeneratorBasedBuilder):
    """A word an example, from the files that it is given."""

    ARGUMENTS = {"words": "file", "title": "name"}

    def __init__(self, *, words, title="words", version=None, **kwargs):
        self.name = title
        self.VERSION = tfds.core.Version(version or "1.0.0")
        self._words = words
        super().__init__(**kwargs)

    def _info(self):
        features = tfds.features.FeaturesDict({"word": tfds.features.Text()})
        return tfds.core.DatasetInfo(builder=self, features=features)

    def _split_generators(self, dl_manager):
        return {"train": self._generate_examples()}

    def _generate_examples(self):
        import pathlib
        files = [self._words] if isinstance(self._words, str) else self._words
        for name in files:
            for word in pathlib.Path(name).read_text().split():
                yield word, {"word": word}
'''


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / "project").mkdir()
    (tmp_path / "project" / "words.py").write_text(BUILDER)
    (tmp_path / "project" / "a.txt").write_text("one two")
    (tmp_path / "project" / "b.txt").write_text("three")
    return tmp_path


def settings_of(root: Path, words: Any) -> Settings:
    text = f'[datasets.counted]\nbuilder = "words.py:Words"\n[datasets.counted.kwargs]\nwords = {json.dumps(words)}\n'
    (root / "project" / "provender.toml").write_text(text)
    home = str(root / "home")
    return load_settings(cwd=str(root / "project"), environ={"HOME": home, "PROVENDER_HOME": home})


def opened(settings: Settings) -> Session:
    return open_session(DatasetRef.parse("counted"), settings, Options(workers=1))


def why(settings: Settings) -> list[str]:
    return [reason_text(each) for each in decide(opened(settings)).steps[0].reasons]


def test_files_count_by_content_from_wherever_they_are_asked_for(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(root)
    settings = settings_of(root, "*.txt")
    session = opened(settings)
    assert session.facts.name == "counted"
    assert session.work.site.spec.kwargs["words"] == [
        str(root / "project" / name) for name in ("a.txt", "b.txt")
    ]
    built = build(session)
    assert built.version.name == "counted:1.0.0" and built.version.examples == 3
    [shard] = Path(built.version.uri).glob("*.tfrecord-00000-of-00001")
    assert len(list(iter_records(shard))) == 3
    assert decide(opened(settings)).done

    # A name is nothing; the order and the content are what counts.
    shutil.move(root / "project" / "b.txt", root / "project" / "c.txt")
    assert decide(opened(settings)).done
    (root / "project" / "c.txt").write_text("four")
    [reason] = why(settings)
    assert reason.startswith("setting -> words, file 1: ")
    [reason] = why(settings_of(root, ["a.txt"]))
    assert reason.startswith("setting -> words, file 1: removed")


def test_another_process_means_the_same_files(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    settings = settings_of(root, "a.txt")
    doc = begin("counted", settings, Options(), orchestrator={"name": "test", "run": "1"})
    monkeypatch.chdir("/")
    session, first = reopened(doc, settings), opened(settings)
    assert session.work.site.spec.kwargs == first.work.site.spec.kwargs
    assert session.facts.setting == first.facts.setting


def test_a_file_that_is_missing_is_named(root: Path) -> None:
    with pytest.raises(MissingFiles, match=f"words names no file: {root}/project/d.txt"):
        opened(settings_of(root, "d.txt"))


FOLDERS = '''
import pathlib
import tensorflow_datasets as tfds

class Filed(tfds.core.GeneratorBasedBuilder):
    """The lines of the files of folders, and what versions stand where."""

    VERSION = tfds.core.Version("1.0.0")
    ARGUMENTS = {"folder": "folder", "parents": "version"}

    def __init__(self, *, folder, parents=None, **kwargs):
        self._folders = folder if isinstance(folder, dict) else {"": folder}
        self._parents = parents
        super().__init__(**kwargs)

    def _info(self):
        features = tfds.features.FeaturesDict({"line": tfds.features.Text()})
        return tfds.core.DatasetInfo(builder=self, features=features)

    def _split_generators(self, dl_manager):
        return {"train": self._generate_examples()}

    def _generate_examples(self):
        for name, folder in self._folders.items():
            for path in sorted(pathlib.Path(folder).rglob("*.txt")):
                yield f"{name} {path.name}", {"line": path.read_text()}
        for name, place in (self._parents or {}).items():
            yield name, {"line": " ".join((name, place["name"], *sorted(place["splits"])))}
'''


def with_folders(root: Path, **kwargs: Any) -> Settings:
    (root / "project" / "filed.py").write_text(FOLDERS)
    written = [f"{name} = {_toml(value)}" for name, value in kwargs.items()]
    lines = ["[datasets.filed]", 'builder = "filed.py:Filed"', "[datasets.filed.kwargs]", *written]
    lines += ["[datasets.counted]", 'builder = "words.py:Words"']
    lines += ["[datasets.counted.kwargs]", 'words = "a.txt"']
    (root / "project" / "provender.toml").write_text("\n".join(lines))
    home = str(root / "home")
    return load_settings(cwd=str(root / "project"), environ={"HOME": home, "PROVENDER_HOME": home})


def _toml(value: Any) -> str:
    if isinstance(value, dict):
        return "{" + ", ".join(f'"{key}" = {_toml(each)}' for key, each in value.items()) + "}"
    return json.dumps(value)


def filed(settings: Settings) -> Session:
    return open_session(DatasetRef.parse("filed"), settings, Options(workers=1))


def reasons(settings: Settings) -> list[str]:
    return [reason_text(each) for each in decide(filed(settings)).steps[0].reasons]


def lines(built: Any) -> list[bytes]:
    [shard] = Path(built.version.uri).glob("*.tfrecord-00000-of-00001")
    return sorted(payload for _, payload in iter_records(shard))


def test_a_folder_counts_by_what_is_in_it(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    data = root / "project" / "data"
    (data / "deep").mkdir(parents=True)
    (data / "x.txt").write_text("one")
    (data / "deep" / "y.txt").write_text("two")
    monkeypatch.chdir(root)
    settings = with_folders(root, folder="data")
    assert len(lines(build(filed(settings)))) == 2
    # Neither its own name counts, nor what is hidden; names in it do.
    shutil.copytree(data, root / "project" / "moved")
    (root / "project" / "moved" / ".note").write_text("hidden")
    (root / "project" / "moved" / ".hidden").mkdir()
    (root / "project" / "moved" / ".hidden" / "z.txt").write_text("hidden")
    settings = with_folders(root, folder="moved")
    assert decide(filed(settings)).done
    (root / "project" / "moved" / "deep" / "y.txt").write_text("three")
    [reason] = reasons(settings)
    assert reason.startswith("setting -> folder, deep/y.txt: ")
    for i in range(300):
        (root / "project" / "moved" / f"{i}.txt").write_text(str(i))
    assert any("folder, 302 files" in each for each in reasons(settings))
    for name, said in (("nowhere", "is not there"), ("empty", "is empty")):
        (root / "project" / "empty").mkdir(exist_ok=True)
        with pytest.raises(MissingFiles, match=f"folder names {said}: {root}/project/{name}"):
            filed(with_folders(root, folder=name))


def test_several_by_name(root: Path) -> None:
    for name in ("a", "b"):
        (root / "project" / name).mkdir()
        (root / "project" / name / "x.txt").write_text(name)
    settings = with_folders(root, folder={"first": "a", "second": "b"})
    counted = build(open_session(DatasetRef.parse("counted"), settings, Options(workers=1)))
    given = {"folder": {"first": "a", "second": "b"}, "parents": {"words": "counted"}}
    settings = with_folders(root, **given)
    session = filed(settings)
    assert session.parents == (counted.version.id,)
    built = build(session)
    assert any(b"words counted:1.0.0 train" in each for each in lines(built))
    assert session.facts.spec.kwargs["parents"] == {"words": "counted:1.0.0"}
    nodes = session.catalog.lineage(built.version.id).nodes
    assert "counted:1.0.0" in {each.name for each in nodes}
    (root / "project" / "b" / "x.txt").write_text("c")
    [reason] = reasons(settings)
    assert reason.startswith("setting -> folder, second, x.txt: ")
    wrong = {**given, "parents": {"words": "nothing:1.0.0"}}
    with pytest.raises(UnknownReference, match=r"parents, words names nothing:1\.0\.0"):
        filed(with_folders(root, **wrong))
