"""Files that people place by hand."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path

import pytest

from provender.builders.download import DigestMemory, check_manual
from provender.errors import ChecksumMismatch, ManualFilesMissing

HOW = """
    Go to https://example.org/form, sign it,
    and place the three files.
"""
NAMES = ["a.tar.gz", "b*.csv", "sub/c [1].txt"]


def check(folder: Path | None, declared: object = (), **options: object) -> tuple:  # type: ignore[type-arg]
    return check_manual(folder, declared, dataset="demo", instructions=HOW, **options)  # type: ignore[arg-type]


@pytest.mark.parametrize("state", ["none", "absent", "empty"])
def test_nothing_there(tmp_path: Path, state: str) -> None:
    folder = None if state == "none" else tmp_path / "manual"
    if folder and state == "empty":
        folder.mkdir()
    with pytest.raises(ManualFilesMissing) as caught:
        check(folder)
    assert "sign it" in (caught.value.hint or "")
    assert "demo" in caught.value.message
    with pytest.raises(ManualFilesMissing) as caught:
        check(folder, NAMES)
    assert caught.value.facts["missing"] == NAMES


def test_all_missing_names_come_at_once_with_their_paths(tmp_path: Path) -> None:
    (tmp_path / "b1.csv").write_text("x")
    with pytest.raises(ManualFilesMissing) as caught:
        check(tmp_path, NAMES)
    text = str(caught.value)
    assert str(tmp_path / "a.tar.gz") in text
    assert str(tmp_path / "sub/c [1].txt") in text
    assert "b*.csv" not in text
    (tmp_path / "a.tar.gz").symlink_to(tmp_path / "gone")
    with pytest.raises(ManualFilesMissing, match=r"a\.tar\.gz"):
        check(tmp_path, NAMES)


def test_globs_literal_names_and_folders(tmp_path: Path) -> None:
    (tmp_path / "sub").mkdir()
    for name in ("b2.csv", "b1.csv", "sub/c [1].txt", "other"):
        (tmp_path / name).write_text(name)
    assert [f.name for f in check(tmp_path, NAMES[1:])] == ["b1.csv", "b2.csv", "sub/c [1].txt"]
    assert [f.name for f in check(tmp_path)] == ["b1.csv", "b2.csv", "other", "sub/c [1].txt"]
    [folder] = check(tmp_path, ["sub"])
    assert folder.size == len("sub/c [1].txt")
    before = folder.token
    (tmp_path / "sub" / "more").write_text("x")
    assert check(tmp_path, ["sub"])[0].token != before


def test_behind_a_link_the_content_counts(tmp_path: Path) -> None:
    memory = DigestMemory(tmp_path / "memory")
    manual = tmp_path / "manual"
    manual.mkdir()
    (tmp_path / "one").write_text("one")
    (manual / "a").symlink_to(tmp_path / "one")
    [linked] = check(manual, ["a"], digests=memory)
    assert linked.sha256 == hashlib.sha256(b"one").hexdigest()
    (tmp_path / "one").write_text("two")
    assert check(manual, ["a"], digests=memory)[0].sha256 == hashlib.sha256(b"two").hexdigest()
    (tmp_path / "three").write_text("one")
    (manual / "a").unlink()
    (manual / "a").symlink_to(tmp_path / "three")
    assert check(manual, ["a"], digests=memory)[0].token == linked.token


def test_a_declared_digest_is_checked(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("one")
    good = hashlib.sha256(b"one").hexdigest()
    assert check(tmp_path, {"a": good.upper()})[0].sha256 == good
    with pytest.raises(ChecksumMismatch) as caught:
        check(tmp_path, {"a": "0" * 64})
    assert good in str(caught.value)
    assert str(tmp_path / "a") in str(caught.value)


def test_digests_are_remembered_until_the_file_looks_different(tmp_path: Path) -> None:
    memory = DigestMemory(tmp_path / "memory")
    path = tmp_path / "big"
    path.write_bytes(b"x" * 1000)
    os.utime(path, (1, 1))
    first = memory.digest(path)
    # Unreadable by content from here on, were it read: the answer comes from the memory.
    entry = next((tmp_path / "memory").rglob("*.json"))
    entry.write_text(entry.read_text().replace(first.sha256, "f" * 64))
    assert memory.digest(path).sha256 == "f" * 64
    # Same size, same time, other content: the change time gives it away.
    path.write_bytes(b"y" * 1000)
    os.utime(path, (1, 1))
    assert memory.digest(path).sha256 == hashlib.sha256(b"y" * 1000).hexdigest()


def test_a_file_just_written_is_not_remembered(tmp_path: Path) -> None:
    memory = DigestMemory(tmp_path / "memory")
    (tmp_path / "f").write_bytes(b"x")
    memory.digest(tmp_path / "f")
    assert not list((tmp_path / "memory").rglob("*.json"))
