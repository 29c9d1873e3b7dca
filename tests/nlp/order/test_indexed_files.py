"""Files read by number: found once, checked always."""

from __future__ import annotations

import gzip
import os
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from provender.errors import DamageError, MissingFiles, SettingsError
from provender.nlp.order import files as files_module
from provender.nlp.order import indexing
from provender.nlp.order.files import RecordBlocks, RecordFile
from provender.nlp.order.indexing import offsets_of, scan
from provender.records import write_offsets
from provender.records.tfrecord import frame_joined

Make = Callable[..., list[Path]]


def blocks_of(paths: list[Path]) -> RecordBlocks:
    return RecordBlocks(
        [
            RecordFile(path.name, 0, len(found) - 1, lambda path=path, found=found: (path, found))
            for path in paths
            for found in [scan(path)]
        ]
    )


@given(st.lists(st.binary(max_size=40), max_size=30))
def test_scan_finds_every_record(tmp_path_factory: pytest.TempPathFactory, records: list[bytes]):
    path = tmp_path_factory.mktemp("scan") / "a.tfrecord"
    data, sizes = frame_joined(records) if records else (b"", [])
    path.write_bytes(data)
    assert scan(path).tolist() == np.cumsum([0, *(size + 16 for size in sizes)]).tolist()


@given(st.lists(st.integers(0, 59), max_size=90))
def test_records_in_the_order_asked_for(
    tmp_path_factory: pytest.TempPathFactory, numbers: list[int]
) -> None:
    folder = tmp_path_factory.getbasetemp() / "fixed"
    if not folder.exists():
        folder.mkdir()
        for at in range(3):
            records = [b"%d" % each for each in range(20 * at, 20 * at + 20)]
            (folder / f"{at}").write_bytes(frame_joined(records)[0])
    blocks = blocks_of([folder / f"{at}" for at in range(3)])
    assert blocks.read(np.array(numbers, np.int64)) == [b"%d" % each for each in numbers]


def test_more_files_than_may_stay_open(make_files: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(files_module, "_MOST_OPEN", 2)
    blocks = blocks_of(make_files("a", *[3] * 6))
    before = len(os.listdir("/proc/self/fd"))
    for _ in range(2):
        assert blocks.read(np.arange(18)) == [b"a/%d" % each for each in range(18)]
    assert len(os.listdir("/proc/self/fd")) == before + 2
    blocks.close()
    assert len(os.listdir("/proc/self/fd")) == before


def test_the_index_is_remembered(
    make_files: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    [path] = make_files("a", 10)
    first = offsets_of(path, tmp_path / "home").tolist()
    monkeypatch.setattr(indexing, "scan", _refuse)
    assert offsets_of(path, tmp_path / "home").tolist() == first


def _refuse(path: Path) -> np.ndarray:
    message = f"{path} is walked once more"
    raise AssertionError(message)


def test_a_file_written_anew_is_walked_anew(make_files: Make, tmp_path: Path) -> None:
    [path] = make_files("a", 10)
    offsets_of(path, tmp_path / "home")
    path.write_bytes(frame_joined([b"x" * 50] * 3)[0])
    assert len(offsets_of(path, tmp_path / "home")) == 4


def test_an_index_beside_the_file_is_used(make_files: Make, tmp_path: Path) -> None:
    [path] = make_files("a", 10)
    write_offsets(Path(f"{path}.offsets"), scan(path))
    offsets_of(path, tmp_path / "home")
    assert not (tmp_path / "home").exists()


def test_a_stale_index_beside_the_file_is_not(make_files: Make, tmp_path: Path) -> None:
    [path] = make_files("a", 10)
    write_offsets(Path(f"{path}.offsets"), scan(path))
    os.utime(f"{path}.offsets", (1, 1))
    assert len(offsets_of(path, tmp_path / "home")) == 11
    assert (tmp_path / "home").exists()


def test_a_damaged_record_is_named(make_files: Make) -> None:
    [path] = make_files("a", 5)
    blocks = blocks_of([path])
    data = bytearray(path.read_bytes())
    data[2 * 19 + 13] ^= 1
    path.write_bytes(data)
    with pytest.raises(DamageError, match=r"record 2 at byte 38 of a-0\.tfrecord"):
        blocks.read(np.arange(5))
    assert blocks.read(np.array([4, 0])) == [b"a/4", b"a/0"]


def test_a_file_replaced_under_the_reader(make_files: Make) -> None:
    [path] = make_files("a", 5)
    blocks = blocks_of([path])
    path.write_bytes(b"x")
    with pytest.raises(DamageError, match="has 1 bytes, its index says 95"):
        blocks.read(np.array([0]))


@pytest.mark.parametrize("cut", [1, 10, 18])
def test_a_file_that_is_cut_off(make_files: Make, tmp_path: Path, cut: int) -> None:
    [path] = make_files("a", 5)
    path.write_bytes(path.read_bytes()[:-cut])
    with pytest.raises(DamageError, match="record 4"):
        offsets_of(path, tmp_path)


def test_what_is_no_record_file(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_bytes(b"a few words that are not a record file at all")
    with pytest.raises(DamageError, match="record 0"):
        offsets_of(path, tmp_path)


def test_compressed_files_are_refused(make_files: Make, tmp_path: Path) -> None:
    [path] = make_files("a", 500)
    path.write_bytes(gzip.compress(path.read_bytes()))
    with pytest.raises(SettingsError, match="is compressed"):
        offsets_of(path, tmp_path)


def test_a_missing_file(tmp_path: Path) -> None:
    with pytest.raises(MissingFiles, match=r"no file b.tfrecord"):
        offsets_of(tmp_path / "b.tfrecord", tmp_path)
