"""Names of files and of versions."""

from __future__ import annotations

from pathlib import Path

import fsspec
import pytest
from tests.nlp.pretraining.conftest import SPECIAL, WORDS, corpus

from provender.errors import DamageError, MissingFiles, SettingsError, UnknownReference
from provender.nlp.inspecting import look, sources_of
from provender.nlp.pretraining import Options, create
from provender.nlp.pretraining.publishing import publish
from provender.settings import Settings, load_settings


def settings_of(home: Path) -> Settings:
    return load_settings(cwd=home, environ={"HOME": str(home), "PROVENDER_HOME": str(home)})


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Files ``a`` and ``b.gz``, and the version ``tiny:1.0.0`` of three shards."""
    home = tmp_path_factory.mktemp("home")
    (home / "vocab.txt").write_text("\n".join([*SPECIAL, *WORDS]) + "\n")
    (home / "text").write_text(corpus(20))
    options = Options(vocab_file=str(home / "vocab.txt"), dupe_factor=2)
    create(str(home / "text"), f"{home}/a", options)
    zipped = Options(vocab_file=str(home / "vocab.txt"), dupe_factor=2, gzip_compress=True)
    create(str(home / "text"), f"{home}/b.gz", zipped)
    publish(str(home / "text"), "tiny:1.0.0", options, shards=3, settings=settings_of(home))
    return home


def test_files_and_versions_hold_the_same(home: Path) -> None:
    settings = settings_of(home)
    plain = look(sources_of([f"{home}/a"]))
    assert look(sources_of([f"{home}/b.*"])) == plain
    assert look(sources_of(["tiny:1.0.0"], settings=settings)) == plain
    both = look(sources_of([f"{home}/a", "tiny@latest"], settings=settings))
    assert both.records == 2 * plain.records
    part = look(sources_of(["tiny"], split="train[:50%]", settings=settings))
    assert part.records == pytest.approx(plain.records / 2, abs=1)
    assert part.shown == plain.shown


def test_files_elsewhere(home: Path) -> None:
    system = fsspec.filesystem("memory")
    for name in ("a", "b.gz"):
        system.pipe(f"/looked/{name}", (home / name).read_bytes())
    plain = look(sources_of([f"{home}/a"]))
    assert look(sources_of(["memory://looked/a"])) == plain
    assert look(sources_of(["memory://looked/*.gz"])) == plain
    system.pipe("/looked/cut", (home / "a").read_bytes()[:-9])
    with pytest.raises(DamageError, match="ends inside a record") as caught:
        look(sources_of(["memory://looked/cut"]))
    assert caught.value.where == "memory://looked/cut"
    with pytest.raises(MissingFiles):
        list(sources_of(["memory://looked/none"]))


def test_what_is_not_there_is_told(home: Path) -> None:
    settings = settings_of(home)
    for names, split, kind, said in [
        (["nothing"], None, MissingFiles, "matches no file"),
        ([f"{home}/*.none"], None, MissingFiles, "matches no file"),
        (["tiny:2.0.0"], None, UnknownReference, "no version 2.0.0"),
        (["tiny:1.0.0"], "test", UnknownReference, "no split 'test'"),
        ([f"{home}/a"], "train", SettingsError, "none is named"),
    ]:
        with pytest.raises(kind, match=said):
            list(sources_of(names, split=split, settings=settings))
