"""Examples: found by the index, bounded, and honest about what was not read."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
import pytest
from tests.ui.world import PNG, example_bytes

from provender.catalog import ShardRecord, SplitRecord, VersionRecord
from provender.errors import DamageError, StoreError, UnknownReference
from provender.records import frame, write_offsets
from provender.store import Store
from provender.ui import examples
from provender.ui.examples import ExampleReader

TEXT = {
    "featuresDict": {
        "features": {
            "text": {"text": {}},
            "pictures": {"sequence": {"feature": {"image": {"encodingFormat": "png"}}}},
        }
    }
}


class Made:
    """A version of some shards, each with the sizes of its texts."""

    def __init__(self, folder: Path, *shards: list[int], index: bool = True) -> None:
        self.reader = ExampleReader(Store.open(str(folder)))
        self.shards, number = [], 0
        place = folder / "v"
        (place / ".provender" / "index").mkdir(parents=True)
        for i, sizes in enumerate(shards):
            texts = [f"{number + n:06d}".encode().ljust(size, b".") for n, size in enumerate(sizes)]
            number += len(sizes)
            framed = frame([example_bytes({"text": [t], "pictures": [PNG] * 9}) for t in texts])
            name = f"v-train.tfrecord-{i:05d}-of-{len(shards):05d}"
            (place / name).write_bytes(b"".join(framed))
            if index:
                offsets = np.cumsum([0, *map(len, framed)])
                write_offsets(place / ".provender" / "index" / f"{name}.offsets", offsets)
            self.shards.append(
                ShardRecord("train", i, len(shards), name, 0, "", "", len(sizes), "", None)
            )
        self.version = VersionRecord(
            id="0" * 32,
            dataset="v",
            config="",
            version="1.0.0",
            fingerprint="f",
            status="published",
            path="v",
            uri="v",
            splits=(SplitRecord("train", number, 0, 1),),
            aliases=(),
            features=TEXT,
            info={},
            run_id=None,
            created=datetime.now(UTC),
        )

    def page(self, first: int, count: int) -> list[tuple[int, str | None]]:
        found = self.reader.page(self.version, self.shards, "train", first, count)
        self.note = found.note
        return [
            (each.number, None if each.fields is None else each.fields[0].value[:6])
            for each in found.examples
        ]


@pytest.mark.parametrize("first", [0, 3, 4, 5, 9, 11])
def test_any_place_of_a_split(tmp_path: Path, first: int) -> None:
    made = Made(tmp_path, [10] * 4, [], [10] * 7, [10])
    wanted = range(first, min(first + 5, 12))
    assert made.page(first, 5) == [(n, f"{n:06d}") for n in wanted]
    assert made.note == ""


def test_beyond_the_end(tmp_path: Path) -> None:
    made = Made(tmp_path, [10] * 4)
    assert made.page(4, 5) == [] and made.page(1 << 50, 5) == []


def test_large_records_are_not_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = Made(tmp_path, [10, 9_000, 10, 10])
    read = []
    store = type(made.reader._store)
    original = store.read_range
    monkeypatch.setattr(
        store, "read_range", lambda *args: read.append(len(found := original(*args))) or found
    )
    monkeypatch.setattr(examples, "PAGE_BYTES", 4_000)
    monkeypatch.setattr(ExampleReader._records, "__defaults__", (4_000,))
    found = made.page(0, 4)
    assert found[:2] == [(0, "000000"), (1, None)] and len(found) == 4
    assert "not read" in made.note and sum(read) < 5_000
    assert made.page(2, 2) == [(2, "000002"), (3, "000003")]


def test_without_an_index_the_beginning_is_shown(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = Made(tmp_path, [500] * 10, index=False)
    assert made.page(2, 3) == [(2, "000002"), (3, "000003"), (4, "000004")]
    monkeypatch.setattr(ExampleReader._records, "__defaults__", (4_000,))
    found = made.page(0, 10)
    assert 0 < len(found) < 10 and "no offset index" in made.note


def test_several_images_of_one_feature(tmp_path: Path) -> None:
    made = Made(tmp_path, [10])
    (example,) = made.reader.page(made.version, made.shards, "train", 0, 1).examples
    assert example.fields is not None
    pictures = example.fields[1]
    assert (pictures.name, pictures.images, pictures.more) == ("pictures", 6, 3)
    image = made.reader.image(made.version, made.shards, "train", 0, "pictures", 8)
    assert image == (PNG, "image/png")


def test_an_image_is_found_though_its_page_was_forgotten(tmp_path: Path) -> None:
    made = Made(tmp_path, [10] * 5)
    assert made.reader.image(made.version, made.shards, "train", 4, "pictures", 0)[0] == PNG
    with pytest.raises(UnknownReference):
        made.reader.image(made.version, made.shards, "train", 5, "pictures", 0)


def test_what_is_remembered_is_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(examples, "_KEPT_BYTES", 5_000)
    made = Made(tmp_path, [500] * 40)
    for first in range(0, 40, 5):
        made.page(first, 5)
    kept = made.reader._kept
    assert sum(map(len, kept.values())) == made.reader._kept_bytes <= 5_000
    assert list(kept)[-1][2] == 39


@pytest.mark.parametrize("at", [2, 9, 20, -2])
def test_damage_is_told(tmp_path: Path, at: int) -> None:
    made = Made(tmp_path, [10] * 3)
    file = tmp_path / "v" / made.shards[0].name
    data = bytearray(file.read_bytes())
    data[at] ^= 0xFF
    file.write_bytes(data)
    with pytest.raises(DamageError):
        made.page(0, 3)


def test_a_shard_that_is_cut_off(tmp_path: Path) -> None:
    made = Made(tmp_path, [10] * 3)
    file = tmp_path / "v" / made.shards[0].name
    file.write_bytes(file.read_bytes()[:-5])
    assert made.page(0, 2) == [(0, "000000"), (1, "000001")]
    with pytest.raises(DamageError):
        made.page(0, 3)


def test_an_index_of_another_file_is_not_trusted(tmp_path: Path) -> None:
    made = Made(tmp_path, [10] * 3)
    index = tmp_path / "v" / ".provender" / "index" / f"{made.shards[0].name}.offsets"
    write_offsets(index, [0, 5, 9, 1 << 60])
    with pytest.raises(DamageError):
        made.page(0, 2)


def test_a_shard_that_is_gone(tmp_path: Path) -> None:
    made = Made(tmp_path, [10] * 3)
    (tmp_path / "v" / made.shards[0].name).unlink()
    with pytest.raises(DamageError, match="missing"):
        made.page(0, 3)


def test_other_formats_and_splits(tmp_path: Path) -> None:
    made = Made(tmp_path, [10])
    with pytest.raises(UnknownReference, match="no split"):
        made.reader.page(made.version, made.shards, "test", 0, 1)
    other = replace(made.version, info={"dataset_info": {"fileFormat": "riegeli"}})
    with pytest.raises(StoreError, match="riegeli"):
        made.reader.page(other, made.shards, "train", 0, 1)
