"""The first examples equal what TFDS reads, and cost no more than their bytes."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from provender.errors import DamageError, StoreError, UnknownReference
from provender.store import Store
from provender.training import head

SHARD = "notes-train.tfrecord-00000-of-00003"


def test_texts_and_labels_by_name(notes):
    found = head(notes.store, notes.version)
    assert len(found) == 5
    for each in found:
        number = int(each["text"].split()[1])
        assert each["label"] == ("calm", "loud")[number % 2]
        assert each["text"] == f"note {number} " + "x" * (number % 50)


def test_counts_splits_and_shards(notes):
    every = head(notes.store, notes.version, "train", 10_000)
    assert len(every) == 300
    assert len({each["text"] for each in every}) == 300
    assert head(notes.store, notes.version, "train", 150) == every[:150]  # beyond one shard
    assert len(head(notes.store, notes.version, "test", 50)) == 20
    assert head(notes.store, notes.version, count=0) == []
    with pytest.raises(UnknownReference, match="no split 'dev'") as caught:
        head(notes.store, notes.version, "dev")
    assert "train, test" in str(caught.value.hint)


def test_only_the_bytes_needed_are_read(notes, monkeypatch):
    from provender.store.local import LocalStore

    read: list[int] = []
    real = LocalStore.read_range

    def counted(self, rel, start, length):
        read.append(length)
        return real(self, rel, start, length)

    monkeypatch.setattr(LocalStore, "read_range", counted)
    monkeypatch.setattr(LocalStore, "open_file", _refused(LocalStore.open_file, "tfrecord"))
    assert len(head(notes.store, notes.version, "train", 3)) == 3
    assert sum(read) < 600
    assert notes.path(SHARD).stat().st_size > 5_000


def _refused(real, name):
    """Opening a shard as a whole is refused, unless it is for a range."""

    def open_file(self, rel, **options):
        assert sys._getframe(1).f_code.co_name == "read_range" or name not in rel
        return real(self, rel, **options)

    return open_file


def test_without_an_index(copied):
    wanted = head(copied.store, copied.version, "train", 120)
    for index in copied.path(".provender/index").iterdir():
        index.unlink()
    assert head(copied.store, copied.version, "train", 120) == wanted


def test_damage_is_named(copied, flip):
    flip(copied.path(SHARD), 30)
    with pytest.raises(DamageError, match=f"record 0 at byte 0 of {SHARD}"):
        head(copied.store, copied.version)
    copied.path(SHARD).unlink()
    with pytest.raises(DamageError, match=f"{SHARD} of notes:1.0.0 is missing"):
        head(copied.store, copied.version)


def test_a_format_that_cannot_be_read(notes):
    from dataclasses import replace

    info = {**notes.version.info["dataset_info"], "fileFormat": "array_record"}
    version = replace(notes.version, info={**notes.version.info, "dataset_info": info})
    with pytest.raises(StoreError, match="array_record"):
        head(notes.store, version)


def test_on_gs(notes, gcs_bucket):
    store = Store.open(f"{gcs_bucket}/data")
    for path in sorted(Path(notes.path("")).rglob("*")):
        if path.is_file():
            store.put(path, notes.rel(str(path.relative_to(notes.path("")))))
    assert head(store, notes.version, "test", 3) == head(notes.store, notes.version, "test", 3)


def test_no_tensorflow(notes, tmp_path):
    """In a process of its own: neither TensorFlow nor TFDS is imported."""
    import pickle

    (tmp_path / "x").write_bytes(pickle.dumps((notes.store, notes.version)))
    code = (
        "import sys,pickle,json; from provender.training import head;"
        "print(json.dumps(head(*pickle.load(open(sys.argv[1],'rb')), count=2)));"
        "print([m for m in ('tensorflow','tensorflow_datasets') if m in sys.modules])"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, str(tmp_path / "x")],
        capture_output=True, text=True, timeout=60, check=True,
    )  # fmt: skip
    shown, modules = done.stdout.splitlines()
    assert json.loads(shown) == head(notes.store, notes.version, count=2)
    assert modules == "[]"


# -- one feature of each kind, against TFDS -----------------------------------------------------------


def plain(value):
    """What TFDS gives, in the shape that `head` promises."""
    import numpy as np

    if isinstance(value, dict):
        return {name: plain(each) for name, each in value.items()}
    if isinstance(value, bytes):
        return value.decode()
    if hasattr(value, "to_list"):
        return plain(value.to_list())
    if isinstance(value, np.ndarray | np.generic):
        return plain(value.tolist())
    if isinstance(value, list | tuple):
        return [plain(each) for each in value]
    return value


def test_every_kind_of_feature_equals_what_tfds_reads(odd):
    import tensorflow_datasets as tfds

    builder = tfds.builder_from_directory(str(odd.path("")))
    read_config = tfds.ReadConfig(interleave_cycle_length=1)
    skip = tfds.decode.SkipDecoding()
    decoders = {**dict.fromkeys(("image", "clip", "pair"), skip), "shots": {"pixels": skip}}
    data = builder.as_dataset(split="train", decoders=decoders, read_config=read_config)
    features = builder.info.features
    wanted = []
    for example in data:
        steps = [plain(each) for each in example.pop("steps").as_numpy_iterator()]
        image = example.pop("image").numpy()
        frames = {name: example.pop(name).numpy() for name in ("clip", "pair")}
        shots = example.pop("shots")["pixels"].numpy()
        each = {name: plain(_numpy(value)) for name, value in example.items()}
        if each["number"] % 2:
            each["maybe"] = None  # TensorFlow has no None, and shows the least number
        for name, stored in frames.items():
            each[name] = [{"bytes": len(frame), "png": "2x2"} for frame in stored]
        each["shots"] = {"pixels": [{"bytes": len(frame), "png": "2x2"} for frame in shots]}
        each["steps"] = steps
        each["image"] = {"bytes": len(image), "png": "8x8"}
        each["label"] = features["label"].names[each["label"]]
        each["tags"] = [features["tags"].feature.names[n] for n in each["tags"]]
        each["inner"]["kind"] = features["inner"]["kind"].names[each["inner"]["kind"]]
        wanted.append(each)
    found = head(odd.store, odd.version, "train", 100)
    assert len(found) == 7
    assert found == wanted
    json.dumps(found)


def _numpy(value):
    if isinstance(value, dict):
        return {name: _numpy(each) for name, each in value.items()}
    return value if hasattr(value, "to_list") else value.numpy()


def test_features_of_unknown_kinds_come_as_stored():
    from provender.training.features import decoder

    doc = {"featuresDict": {"features": {
        "mine": {"pythonClassName": "my.Feature", "jsonFeature": {"json": "{}"}},
        "wave": {"pythonClassName": "my.Wave", "jsonFeature": {"json": "{}"}},
        "gone": {"pythonClassName": "my.Wave", "jsonFeature": {"json": "{}"}},
        "large": {"tensor": {"shape": {"dimensions": ["20", "20"]}, "dtype": "float32"}},
    }}}  # fmt: skip
    example = {
        "mine": [b"hello"], "wave/rate": [8000], "wave/data": [b"\xff\x00"],
        "large": [0.5] * 400,
    }  # fmt: skip
    assert decoder(doc, {})(example) == {
        "mine": "hello",
        "wave": {"data": {"bytes": 2}, "rate": 8000},
        "gone": None,
        "large": {"shape": [20, 20], "dtype": "float32"},
    }
