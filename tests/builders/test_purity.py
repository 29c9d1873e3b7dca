"""Purity: what loading may read beside the source makes a builder be imported every time."""

from __future__ import annotations

from pathlib import Path

import pytest

from provender.builders.purity import reads_only_source

FRAME = """
import os
import time
from pathlib import Path

{top}

def helper():
    return {helper}

class Own:
    {attribute}

    def _info(self):
        return {info}

    def _generate_examples(self, path):
        yield 0, open(path).read()
"""
PLAIN = {"top": "WORD = 1", "helper": "1", "attribute": "VERSION = '1.0.0'", "info": "WORD"}


def is_pure(tmp_path: Path, **parts: str) -> bool:
    file = tmp_path / "own.py"
    file.write_text(FRAME.format(**{**PLAIN, **parts}))
    return reads_only_source([str(file)])


def test_reading_while_generating_is_pure(tmp_path: Path) -> None:
    assert is_pure(tmp_path)


@pytest.mark.parametrize(
    "parts",
    [
        {"top": "WORD = os.environ.get('WORD')"},
        {"top": "WORD = os.getenv('WORD')"},
        {"top": "WORD = Path('names.txt').read_text()"},
        {"top": "if os.environ.get('X'):\n    WORD = 2"},
        {"top": "try:\n    WORD = open('x').read()\nexcept OSError:\n    WORD = 1"},
        {"top": "with open('x') as file:\n    WORD = file.read()"},
        {"top": "for WORD in Path('.').iterdir():\n    pass"},
        {"top": "def other(x=os.environ): pass"},
        {"attribute": "VERSION = os.environ['V']"},
        {"attribute": "VERSION = str(time.time())"},
        {"info": "open('labels.txt').read()"},
        {"info": "helper()", "helper": "os.environ"},
        {"info": "self.helper()", "helper": "Path.home()"},
        {"top": "WORD = helper()", "helper": "exec('1')"},
        {"info": "ClassLabel(names_file='labels.txt')"},
    ],
    ids=str,
)
def test_reading_while_loading_is_not(tmp_path: Path, parts: dict[str, str]) -> None:
    assert not is_pure(tmp_path, **parts)


@pytest.mark.parametrize(
    "parts",
    [
        {"helper": "os.environ"},
        {"top": "# open('x')\nWORD = 'os.environ'"},
        {"info": "helper()", "helper": "WORD"},
    ],
    ids=str,
)
def test_what_loading_cannot_reach_does_not_count(tmp_path: Path, parts: dict[str, str]) -> None:
    assert is_pure(tmp_path, **parts)


def test_any_of_several_files_counts(tmp_path: Path) -> None:
    own, other = tmp_path / "own.py", tmp_path / "other.py"
    own.write_text("import other\nWORD = other.word()")
    other.write_text("import os\ndef word():\n    return os.environ['W']")
    assert not reads_only_source([own, other])
    assert reads_only_source([own])


@pytest.mark.parametrize("content", [b"def broken(:", b"\xff\xfe", b"x = '\0'"])
def test_a_file_that_cannot_be_read_is_not_pure(tmp_path: Path, content: bytes) -> None:
    file = tmp_path / "own.py"
    file.write_bytes(content)
    assert not reads_only_source([file])
    assert not reads_only_source([tmp_path / "nothing.py"])


def test_nothing_is_pure() -> None:
    assert reads_only_source([])
