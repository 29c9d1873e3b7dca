"""Folders: what is kept, what is refused, and folders in object stores."""

from __future__ import annotations

import importlib.util
import io
import json
import os
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

from provender.data import ClassLabel, Dataset, DatasetDict, Features, Value, load_from_disk
from provender.errors import DamageError, InputError, SettingsError


@pytest.fixture
def ds() -> Dataset:
    features = Features({"a": Value("int16"), "label": ClassLabel(names=["n", "y"])})
    return Dataset.from_dict({"a": list(range(50)), "label": [0, 1] * 25}, features=features)


def test_everything_comes_back(ds: Dataset, tmp_path: Path) -> None:
    ds._info.description = "Numbers."
    chosen = ds.shuffle(seed=1).with_format("numpy", columns=["a"])
    chosen.save_to_disk(tmp_path / "d", num_shards=3)
    again = Dataset.load_from_disk(tmp_path / "d")
    assert again.with_format(None).to_list() == chosen.with_format(None).to_list()
    assert again.features == ds.features
    assert again.format == chosen.format
    assert again._fingerprint == chosen._fingerprint
    assert again.description == "Numbers."
    assert sorted(os.listdir(tmp_path / "d")) == [
        "data-00000-of-00003.arrow", "data-00001-of-00003.arrow", "data-00002-of-00003.arrow",
        "dataset_info.json", "state.json",
    ]  # fmt: skip


def test_a_dataset_can_be_saved_over_itself(ds: Dataset, tmp_path: Path) -> None:
    ds.save_to_disk(tmp_path / "d", num_shards=4)
    again = load_from_disk(tmp_path / "d")
    assert isinstance(again, Dataset)
    again.select(range(5)).save_to_disk(tmp_path / "d")
    assert load_from_disk(tmp_path / "d").num_rows == 5
    assert len(list((tmp_path / "d").glob("*.arrow"))) == 1
    assert again["a"][:] == list(range(50))


def test_files_by_size(ds: Dataset, tmp_path: Path) -> None:
    ds.save_to_disk(tmp_path / "d", max_shard_size=100, num_proc=2)
    assert len(list((tmp_path / "d").glob("*.arrow"))) == 6
    assert load_from_disk(tmp_path / "d", keep_in_memory=True).num_rows == 50
    with pytest.raises(SettingsError, match="not both"):
        ds.save_to_disk(tmp_path / "e", max_shard_size="1MB", num_shards=2)
    with pytest.raises(SettingsError, match="'many'"):
        ds.save_to_disk(tmp_path / "e", max_shard_size="many")


def test_folders_without_a_dataset(ds: Dataset, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"state.json is missing"):
        Dataset.load_from_disk(tmp_path / "nothing")
    DatasetDict({"train": ds}).save_to_disk(tmp_path / "dict")
    with pytest.raises(InputError, match="It holds splits"):
        Dataset.load_from_disk(tmp_path / "dict")
    ds.save_to_disk(tmp_path / "one")
    with pytest.raises(InputError, match=r"Dataset.load_from_disk"):
        DatasetDict.load_from_disk(tmp_path / "one")


def test_damage_is_refused(ds: Dataset, tmp_path: Path) -> None:
    ds.save_to_disk(tmp_path / "d", num_shards=2)
    victim = tmp_path / "d" / "data-00001-of-00002.arrow"
    data = victim.read_bytes()
    for bad, said in ((data[:-8], "instead of"), (data[:-300] + b"\1" + data[-299:], "digest")):
        victim.write_bytes(bad)
        with pytest.raises(DamageError, match=said):
            load_from_disk(tmp_path / "d")
    victim.unlink()
    with pytest.raises(DamageError, match="is missing"):
        load_from_disk(tmp_path / "d")


def test_a_save_that_fails_leaves_no_dataset(ds: Dataset, tmp_path: Path) -> None:
    ds.save_to_disk(tmp_path / "d")
    (tmp_path / "d" / "data-00000-of-00001.arrow").unlink()
    (tmp_path / "d" / "data-00000-of-00001.arrow").mkdir()
    with pytest.raises(Exception, match=r"data-00000|irectory"):
        ds.save_to_disk(tmp_path / "d")
    with pytest.raises(InputError, match="save_to_disk went through"):
        load_from_disk(tmp_path / "d")


def test_a_format_that_cannot_be_written_down(ds: Dataset, tmp_path: Path) -> None:
    import numpy as np

    with pytest.raises(SettingsError, match="dtype"):
        ds.with_format("numpy", dtype=np.int8).save_to_disk(tmp_path / "d")


def test_bytes_of_files_go_along(tmp_path: Path) -> None:
    pillow = import_module("PIL.Image")
    pillow.new("RGB", (3, 3), (7, 8, 9)).save(tmp_path / "x.png")
    from provender.data import Image

    ds = Dataset.from_dict({"image": [str(tmp_path / "x.png")]}, Features({"image": Image()}))
    ds.save_to_disk(tmp_path / "d")
    (tmp_path / "x.png").unlink()
    assert load_from_disk(tmp_path / "d")[0]["image"].getpixel((0, 0)) == (7, 8, 9)


@pytest.fixture
def bucket(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    path = Path(__file__).parents[2] / "store" / "gcs_server.py"
    spec = importlib.util.spec_from_file_location("gcs_server_for_datasets", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    import sys

    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    import gcsfs

    with module.start() as server:
        for key, value in server.env().items():
            monkeypatch.setenv(key, value)
        gcsfs.GCSFileSystem.clear_instance_cache()
        yield server.bucket()
    gcsfs.GCSFileSystem.clear_instance_cache()


def test_an_object_store(ds: Dataset, bucket: str, tmp_path: Path) -> None:
    url = f"{bucket}/some/folder"
    ds.save_to_disk(url, num_shards=2)
    again = Dataset.load_from_disk(url)
    assert again.to_list() == ds.to_list()
    assert again._fingerprint == ds._fingerprint
    assert len(again.cache_files) == 2
    DatasetDict({"a": ds, "b": ds.select([1])}).save_to_disk(f"{bucket}/dict")
    assert load_from_disk(f"{bucket}/dict").num_rows == {"a": 50, "b": 1}
    ds.to_parquet(f"{bucket}/x.parquet")
    ds.to_csv(f"{bucket}/x.csv")
    import gcsfs

    fs: Any = gcsfs.GCSFileSystem()
    assert fs.cat_file(f"{bucket}/x.csv").splitlines()[1] == b"0,0"
    state = json.loads(fs.cat_file(f"{url}/state.json"))
    state["_data_files"][0]["xxh3_128"] = "0" * 32
    fs.pipe_file(f"{url}/state.json", json.dumps(state).encode())
    with pytest.raises(DamageError, match="digest"):
        Dataset.load_from_disk(url)
    with pytest.raises(InputError, match="is missing"):
        Dataset.load_from_disk(f"{bucket}/nothing")


def test_json_lines_are_written_as_hugging_face_datasets_writes_them() -> None:
    hf = import_module("datasets")
    columns = {"a": [3, 4], "s": ["x", "y z"], "n": [None, 1], "l": [[1], [2, 3]], "b": [True] * 2}
    written = []
    for kind in (hf.Dataset, Dataset):
        out = io.BytesIO()
        count = kind.from_dict(columns).to_json(out, batch_size=1)
        assert count == len(out.getvalue())
        written.append(out.getvalue())
    assert written[0] == written[1]
    assert written[1].endswith(b"}\n")
