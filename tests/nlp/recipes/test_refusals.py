"""What cannot be built says so before anything is done."""

from __future__ import annotations

import re
from typing import Any

import pytest
from tests.nlp.recipes.conftest import DOCUMENTS, Project, publish_stories, recipe

from provender.errors import BuilderError, ProvenderError
from provender.nlp.recipes.text import document


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"source": "storys:1.1.0"}, "source names storys:1.1.0, which is not published"),
        ({"source": "stories:9.9.9"}, "There is: stories:1.1.0"),
        ({"source": None}, "either a published version or files"),
        ({"input_file": "text.txt"}, "either a published version or files"),
        ({"source": None, "input_file": "no-*.txt"}, "input_file names no file"),
        ({"text": ["documents"]}, "There is no feature 'documents'"),
        ({"text": ["number"]}, "'number' of stories:1.1.0 holds no text"),
        ({"split": "test"}, "stories:1.1.0 has no split 'test'"),
        ({"vocab_file": "words.txt"}, "vocab_file names no file"),
        ({"vocab_file": "text.txt"}, r"\[PAD\]|special|vocabulary"),
        ({"dupe_factr": 3}, "Did you mean 'dupe_factor'"),
        ({"gzip_compress": True}, "not compressed"),
        ({"max_seq_length": 1}, "must be from 5"),
        ({"shards": 0}, "shards must be 1 or more"),
    ],
)
def test_said_before_work_begins(project: Project, changed: dict[str, Any], message: str) -> None:
    project.write(bert=recipe(**changed))
    with pytest.raises(ProvenderError) as caught:
        project.build("bert", workers=1)
    assert re.search(message, f"{caught.value.message} {caught.value.hint}")
    assert not (project.root / "home" / "building" / "examples").exists()


def test_a_retracted_source_is_not_built_from(project: Project) -> None:
    project.write(bert=recipe())
    catalog = project.session("bert").catalog
    version = catalog.version("stories", None, "1.1.0")
    assert version is not None
    catalog.retract(version.id, "wrong text", "me")
    with pytest.raises(ProvenderError, match="was retracted: wrong text"):
        project.build("bert", workers=1)


def test_too_many_shards_and_no_text(project: Project) -> None:
    project.write(bert=recipe(shards=2_000))
    with pytest.raises(BuilderError, match="cannot fill 2000 shards"):
        project.build("bert", workers=1)
    publish_stories(project, "2.0.0", ["", " \n", ""])
    project.write(bert=recipe(source="stories:2.0.0"))
    with pytest.raises(ProvenderError, match="text"):
        project.build("bert", workers=1)


def test_an_example_is_one_document() -> None:
    example = {"title": b" One \n\n", "lines": [b"a", "b\r\nc"], "none": b"\n"}
    assert document(example, ["title", "lines", "none"]) == b" One \na\nb\r\nc\n\n"
    assert document({"none": b""}, ["none"]) == b"\n"
    assert len(DOCUMENTS) == 40
