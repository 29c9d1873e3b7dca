"""Generators and files whose shards worker processes read at the same time."""

from __future__ import annotations

import json
import os
import re
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from provender.data import Dataset, Features, Value, load_dataset
from provender.data.cache import TransformCache
from provender.data.errors import FeatureTypeError, TransformError
from provender.errors import SettingsError


def rows_of(starts: list[int], size: int, folder: str | None = None) -> Iterator[dict[str, Any]]:
    """Rows; notes the process and the shard."""
    for start in starts:
        if folder is not None:
            (Path(folder) / f"{start}-{os.getpid()}").touch()
        for at in range(start, start + size):
            yield {"i": at, "t": f"t{at}"}


def entries() -> int:
    return len(list(TransformCache.current().folder.glob("entries/*/*/manifest.json")))


def test_shards_of_a_generator_in_worker_processes(tmp_path: Path) -> None:
    (tmp_path / "seen").mkdir()
    given = {"starts": [0, 1500, 3000, 4500], "size": 1500, "folder": str(tmp_path / "seen")}
    made = Dataset.from_generator(rows_of, gen_kwargs=given, num_proc=2)
    assert made["i"][:] == list(range(6000))
    assert made[4321] == {"i": 4321, "t": "t4321"}
    seen = [each.name.split("-") for each in (tmp_path / "seen").iterdir()]
    assert sorted(start for start, _ in seen) == ["0", "1500", "3000", "4500"]
    assert len({pid for _, pid in seen}) == 2
    assert str(os.getpid()) not in {pid for _, pid in seen}
    again = Dataset.from_generator(rows_of, gen_kwargs=given)
    assert again._fingerprint == made._fingerprint
    assert len(list((tmp_path / "seen").iterdir())) == 4
    alone = Dataset.from_generator(rows_of, gen_kwargs=given, load_from_cache_file=False)
    assert alone.data.equals(made.data)
    assert alone.features == made.features


def test_files_whose_rows_nobody_counted(tmp_path: Path) -> None:
    for part in range(3):
        lines = [json.dumps({"i": part * 10 + at, "t": "x" * at}) for at in range(10)]
        (tmp_path / f"{part}.jsonl").write_text("\n".join(lines) + "\n")
    made = load_dataset("json", data_files=str(tmp_path / "*.jsonl"), split="train", num_proc=2)
    assert made["i"][:] == list(range(30))
    assert made["t"][29] == "x" * 9


def test_types_are_one_over_all_shards() -> None:
    def generate(kinds: list[str]) -> Iterator[dict[str, Any]]:
        for kind in kinds:
            for at in range(1200):
                if kind == "none":
                    yield {"v": None}
                elif kind == "late":
                    yield {"v": None if at < 1100 else at}
                else:
                    yield {"v": at if kind == "int" else at / 2}

    given = {"kinds": ["none", "int", "float", "late"]}
    made = Dataset.from_generator(generate, gen_kwargs=given, num_proc=2)
    assert made.features == Features({"v": Value("float64")})
    values = made["v"][:]
    assert values[:1200] == [None] * 1200
    assert values[1200:1203] == [0.0, 1.0, 2.0]
    assert values[2401] == 0.5
    assert values[-1] == 1199.0
    assert values[3600] is None


def test_shards_that_are_done_are_not_read_again(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    seen, ok = tmp_path / "seen", tmp_path / "ok"
    seen.mkdir()

    def generate(parts: list[int]) -> Iterator[dict[str, Any]]:
        for part in parts:
            (seen / f"{part}-{len(list(seen.iterdir()))}").touch()
            for at in range(700):
                if part == 3 and at == 600 and not ok.exists():
                    # A worker begins its next shard once its last one is kept: two are, when all
                    # four have begun.
                    deadline = time.monotonic() + 60
                    while len(list(seen.iterdir())) < 4 and time.monotonic() < deadline:
                        time.sleep(0.05)
                    message = "not yet"
                    raise RuntimeError(message)
                yield {"i": part * 700 + at}

    parts = {"parts": [0, 1, 2, 3]}
    with pytest.raises(TransformError, match=r"raised RuntimeError: not yet in shard 3") as caught:
        Dataset.from_generator(generate, gen_kwargs=parts, num_proc=2)
    assert caught.value.facts["shard"] == 3
    assert isinstance(caught.value.__cause__, RuntimeError)
    assert entries() == 0
    ok.touch()
    with caplog.at_level("INFO", "provender.data"):
        made = Dataset.from_generator(generate, gen_kwargs=parts, num_proc=2)
    assert made["i"][:] == list(range(2800))
    [kept] = map(int, re.findall(r"going on from (\d) finished pieces", caplog.text))
    calls = [each.name.split("-")[0] for each in seen.iterdir()]
    assert kept in (2, 3)
    assert calls.count("3") == 2
    assert len(calls) == 4 + 4 - kept


@pytest.mark.parametrize("first", [None, 2], ids=["alone first", "two workers first"])
def test_another_number_of_processes_after_a_failure(tmp_path: Path, first: int | None) -> None:
    ok = tmp_path / "ok"

    def generate(parts: list[int]) -> Iterator[dict[str, Any]]:
        for part in parts:
            for at in range(3):
                if part == 3 and at == 1 and not ok.exists():
                    message = "not yet"
                    raise RuntimeError(message)
                yield {"i": part * 3 + at}

    parts = {"parts": [0, 1, 2, 3, 4]}
    with pytest.raises((TransformError, RuntimeError), match="not yet"):
        Dataset.from_generator(generate, gen_kwargs=parts, num_proc=first)
    ok.touch()
    second = 2 if first is None else None
    made = Dataset.from_generator(generate, gen_kwargs=parts, num_proc=second)
    assert made["i"][:] == list(range(15))


def test_a_type_that_changes_within_a_shard() -> None:
    def generate(parts: list[int]) -> Iterator[dict[str, Any]]:
        for part in parts:
            for at in range(2000):
                yield {"v": "text" if part == 1 and at == 1500 else at}

    with pytest.raises(FeatureTypeError, match=r"row 1500") as caught:
        Dataset.from_generator(generate, gen_kwargs={"parts": [0, 1]}, num_proc=2)
    assert "shard 1" in str(caught.value.where)


def test_nothing_to_share_out() -> None:
    def generate(size: int) -> Iterator[dict[str, Any]]:
        yield from ({"i": at} for at in range(size))

    with pytest.raises(SettingsError, match=r"num_proc=2 has nothing to share out"):
        Dataset.from_generator(generate, gen_kwargs={"size": 3}, num_proc=2)
    assert len(Dataset.from_generator(generate, gen_kwargs={"size": 3}, num_proc=1)) == 3


@pytest.mark.parametrize("method", ["to_csv", "to_json"])
def test_exports_write_in_one_process(tmp_path: Path, method: str) -> None:
    ds = Dataset.from_dict({"a": [1, 2]})
    path = tmp_path / "out"
    with pytest.raises(SettingsError, match=re.escape(f"{method} writes in one process, not in 4")):
        getattr(ds, method)(path, num_proc=4)
    assert not path.exists()
    assert getattr(ds, method)(path, num_proc=1) == path.stat().st_size
