"""``provender cache``: listing, removing, verifying."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from tests.data.cache.programs import FP, OTHER, compute, pieces, start

from provender.data.cache import Recipe, TransformCache


@pytest.fixture
def cache(tmp_path: Path) -> TransformCache:
    cache = TransformCache(tmp_path / "cache")
    compute(cache, FP, recipe=Recipe("map", "double", dataset="numbers", config="small")).release()
    compute(cache, OTHER, recipe=Recipe("sort", dataset="numbers"), total=50).release()
    old = time.time() - 10 * 86400
    os.utime(Path(cache.entry_folder(FP)) / "manifest.json", (old, old))
    return cache


def provender(cache: TransformCache, *args: str, code: int = 0) -> str:
    environment = {
        **os.environ,
        "PROVENDER_HOME": str(cache.folder.parent / "home"),
        "PROVENDER_CACHE": cache.root,
    }
    done = subprocess.run(
        [sys.executable, "-c", "from provender.cli import main; main()", "cache", *args],
        cwd=cache.folder.parent,
        env=environment,
        capture_output=True,
        text=True,
    )
    assert done.returncode == code, done.stdout + done.stderr
    return done.stdout + done.stderr


def document(cache: TransformCache, *args: str, code: int = 0) -> Any:
    return json.loads(provender(cache, *args, "--json", code=code))


def test_ls(cache: TransformCache) -> None:
    lines = provender(cache, "ls").splitlines()
    assert lines[0].split()[:5] == ["fingerprint", "transform", "dataset", "rows", "size"]
    assert lines[1].split()[:4] == [OTHER[:12], "sort", "numbers", "50"]
    assert lines[2].split()[:4] == [FP[:12], "map(double)", "numbers/small", "400"]
    assert lines[3].startswith("2 entries, ")
    assert f"(limit 50 GiB) in {cache.root}" in lines[3]
    found = document(cache, "ls")
    assert [each["fingerprint"] for each in found["entries"]] == [OTHER, FP]
    assert found["bytes"] == sum(each["bytes"] for each in found["entries"])
    assert found["entries"][1]["used"].endswith("Z")
    assert found["limit"] == 50 << 30


def test_an_empty_cache(tmp_path: Path) -> None:
    cache = TransformCache(tmp_path / "none")
    assert provender(cache, "ls").startswith("0 entries, 0 B")
    assert "0 of 0 entries ok" in provender(cache, "verify")
    assert "0 entries removed" in provender(cache, "rm", "--all")
    assert not cache.folder.exists()


def test_rm_by_name(cache: TransformCache) -> None:
    found = document(cache, "rm", FP[:5], "--dry-run")
    assert [each["fingerprint"] for each in found["removed"]] == [FP]
    assert found["dry_run"] is True
    assert cache.find(FP) is not None
    cache.find(FP).release()  # type: ignore[union-attr]
    text = provender(cache, "rm", FP[:5])
    assert f"{FP[:12]}  map(double)" in text
    assert "1 entry removed" in text
    assert cache.find(FP) is None
    assert cache.find(OTHER) is not None


@pytest.mark.parametrize(
    ("args", "gone"),
    [
        (["--all"], [OTHER, FP]),
        (["--older-than", "9d"], [FP]),
        (["--older-than", "2w"], []),
        (["--to-size", "15kB"], [FP]),
        (["--to-size", "1GB"], []),
        (["--to-size", "0"], [OTHER, FP]),
    ],
    ids=" ".join,
)
def test_rm_by_age_and_size(cache: TransformCache, args: list[str], gone: list[str]) -> None:
    found = document(cache, "rm", *args)
    assert sorted(each["fingerprint"] for each in found["removed"]) == sorted(gone)
    left = [each["fingerprint"] for each in document(cache, "ls")["entries"]]
    assert sorted([*left, *gone]) == sorted([FP, OTHER])


@pytest.mark.parametrize(
    ("args", "code", "text"),
    [
        ([], 2, "in one way"),
        (["--all", "--older-than", "1d"], 2, "in one way"),
        (["--older-than", "soon"], 2, "must be an age"),
        (["--to-size", "lots"], 2, "must be a size"),
        (["0000"], 3, "has no entry '0000'"),
    ],
    ids=["nothing", "two ways", "no age", "no size", "unknown"],
)
def test_rm_refuses(cache: TransformCache, args: list[str], code: int, text: str) -> None:
    assert text in provender(cache, "rm", *args, code=code)
    assert len(document(cache, "ls")["entries"]) == 2


def test_an_unfinished_result_is_told_of(cache: TransformCache) -> None:
    def fails(row: int) -> None:
        if row == 30:
            raise ValueError

    with pytest.raises(ValueError):
        compute(cache, "12" * 20, recipe=Recipe("filter", "odd"), total=50, before=fails)
    [found] = [each for each in document(cache, "ls")["entries"] if each["rows"] is None]
    assert (found["transform"], found["state"]) == ("filter", "unfinished")
    why = document(cache, "why", "1212")
    assert (why["state"], why["why"]) == ("unfinished", ["never run before"])
    assert "filter(odd)" in provender(cache, "why", "1212")


def test_rm_keeps_what_is_in_use(cache: TransformCache) -> None:
    text = """
        entry = TransformCache(sys.argv[1]).find(FP)
        print("ready", flush=True)
        sys.stdin.read()
        """
    child = start(text, cache.root)
    assert child.stdout is not None
    child.stdout.readline()
    shown = provender(cache, "rm", "--all")
    assert f"{FP[:12]}  kept: a live process has it in use" in shown
    assert "1 entry removed" in shown
    child.communicate("")
    assert [each["fingerprint"] for each in document(cache, "ls")["entries"]] == [FP]


def test_verify(cache: TransformCache) -> None:
    assert "2 of 2 entries ok" in provender(cache, "verify")
    path = sorted(Path(cache.entry_folder(FP)).glob("*.arrow"))[1]
    data = bytearray(path.read_bytes())
    data[-9] ^= 1
    path.write_bytes(data)
    shown = provender(cache, "verify", code=6)
    assert path.name in shown
    assert "1 of 2 entries ok" in shown
    assert "provender cache verify --fix" in shown
    assert "1 of 1 entries ok" in provender(cache, "verify", OTHER[:6])
    found = document(cache, "verify", "--fix")
    assert found["damaged"] == 1
    assert {each["state"] for each in found["entries"]} == {"ok", "dropped"}
    calls: list[int] = []
    entry = compute(cache, FP, calls=calls)
    assert calls == list(range(25, 50))
    assert len(pieces(entry)) == 16
