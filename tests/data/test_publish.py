"""Publishing rows: read back by plain TFDS, with lineage, conflict rules, and after a kill."""

from __future__ import annotations

import errno
import io
import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from provender.catalog import Catalog
from provender.data import (
    Array2D,
    ClassLabel,
    Dataset,
    DatasetDict,
    Features,
    Image,
    LargeList,
    List,
    Translation,
    TranslationVariableLanguages,
    Value,
)
from provender.data.errors import FeatureTypeError
from provender.data.features import Json
from provender.data.publishing import Published
from provender.engine.operations import operation
from provender.errors import (
    BuilderError,
    ConflictError,
    DiskFull,
    ProvenderError,
    SettingsError,
    SplitError,
    UnknownReference,
)
from provender.settings import load_settings
from provender.stages.site import Workplace
from provender.store import Store

ROOT = Path(__file__).parents[2]


@pytest.fixture(autouse=True)
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name in ("STORE", "HOME", "SCRATCH", "CACHE", "MANUAL_DIR"):
        monkeypatch.setenv(f"PROVENDER_{name}", str(tmp_path / name.lower()))
    monkeypatch.setenv("PROVENDER_CATALOG", f"sqlite:///{tmp_path}/catalog.db")
    monkeypatch.setenv("PROVENDER_WORKERS", "2")
    monkeypatch.chdir(tmp_path)
    return tmp_path


class Here:
    """Stands in for the pool of worker processes, which take seconds to start: works here."""

    def __init__(self, work: Workplace, workers: int) -> None:
        self.workers, self._work = 1, work

    def start(self) -> None: ...

    def close(self) -> None: ...

    def takes(self, op: str) -> bool:
        return True

    def call(self, op: str, args: Any, progress: Any) -> Any:
        return json.loads(json.dumps(operation(op)(self._work, args, progress)))


@pytest.fixture
def here(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("provender.engine.pieces.Pool", Here)


def publish(dataset: Dataset | DatasetDict, name: str, **options: Any) -> Published:
    return dataset.publish(name, **options)


def catalog() -> Catalog:
    return Catalog.open(load_settings().catalog)


def tfds_rows(uri: str, split: str = "train") -> list[Any]:
    import tensorflow_datasets as tfds

    builder = tfds.builder_from_directory(uri)
    return list(tfds.as_numpy(builder.as_dataset(split=split)))


def numbers(count: int = 50) -> Dataset:
    return Dataset.from_dict({"n": list(range(count)), "t": [f"row {i}" for i in range(count)]})


def png(channels: int) -> bytes:
    from PIL import Image as Pillow

    pixels = np.arange(4 * channels, dtype=np.uint8).reshape(2, 2, channels)
    out = io.BytesIO()
    Pillow.fromarray(pixels[..., 0] if channels == 1 else pixels).save(out, "PNG")
    return out.getvalue()


KINDS: dict[str, tuple[Any, Any, Any]] = {
    # column: feature, value, what TFDS reads
    "text": (Value("string"), "é\0x", "é\0x".encode()),
    "large": (Value("large_string"), "abc", b"abc"),
    "raw": (Value("binary"), b"\xff\0", b"\xff\0"),
    "tiny": (Value("int8"), -5, -5),
    "big": (Value("int64"), -(2**63), -(2**63)),
    "huge": (Value("uint64"), 2**64 - 1, 2**64 - 1),
    "yes": (Value("bool"), True, True),
    "real": (Value("float32"), 0.5, 0.5),
    "label": (ClassLabel(names=["no", "yes"]), 1, 1),
    "unknown": (ClassLabel(names=["no", "yes"]), -1, -1),
    "ids": (List(Value("int32")), [1, 2, 3], [1, 2, 3]),
    "none": (List(Value("int32")), [], []),
    "pair": (List(Value("float32"), length=2), [0.5, 1.5], [0.5, 1.5]),
    "words": (LargeList(Value("string")), ["a", ""], [b"a", b""]),
    "deep": (List(List(Value("int64"))), [[1], [], [2, 3]], [[1], [], [2, 3]]),
    "nested": (
        {"a": Value("int64"), "b": {"c": Value("string")}},
        {"a": 1, "b": {"c": "x"}},
        {"a": 1, "b": {"c": b"x"}},
    ),
    "answers": (
        List({"start": Value("int32"), "text": Value("string")}),
        [{"start": 1, "text": "a"}, {"start": 2, "text": "b"}],
        {"start": [1, 2], "text": [b"a", b"b"]},
    ),
    "square": (List(List(Value("int64"), length=2), length=2), [[1, 2], [3, 4]], [[1, 2], [3, 4]]),
    "matrix": (Array2D((2, 3), "int32"), [[1, 2, 3], [4, 5, 6]], [[1, 2, 3], [4, 5, 6]]),
    "tall": (Array2D((None, 2), "float32"), [[1, 2], [3, 4], [5, 6]], [[1, 2], [3, 4], [5, 6]]),
    "pair_of_texts": (
        Translation(["en", "de"]),
        {"en": "a", "de": "b"},
        {"en": b"a", "de": b"b"},
    ),
    "texts": (
        TranslationVariableLanguages(["en", "de"]),
        {"en": ["x", "y"], "de": "z"},
        {"language": [b"de", b"en", b"en"], "translation": [b"z", b"x", b"y"]},
    ),
    "json": (Json(), {"a": [1]}, b'{"a": [1]}'),
    "gray": (Image(), png(1), np.arange(4).reshape(2, 2, 1).tolist()),
    "color": (Image(mode="RGB"), png(3), np.arange(12).reshape(2, 2, 3).tolist()),
    "images": (List(Image()), [png(3)], [np.arange(12).reshape(2, 2, 3).tolist()]),
}


def plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: plain(each) for name, each in value.items()}
    if hasattr(value, "to_list"):
        return value.to_list()
    return value.tolist() if hasattr(value, "tolist") else value


@pytest.mark.usefixtures("here")
def test_every_kind_of_column_is_read_by_plain_tfds() -> None:
    features = Features({name: feature for name, (feature, _, _) in KINDS.items()})
    rows = [{name: value for name, (_, value, _) in KINDS.items()}] * 3
    made = publish(Dataset.from_list(rows, features=features), "kinds", version="1.0.0")
    assert made.outcome == "succeeded" and made.version.examples == 3
    read = tfds_rows(made.version.uri)
    assert len(read) == 3
    for row in read:
        for name, (_, _, expected) in KINDS.items():
            assert plain(row[name]) == expected, name


def test_rows_keep_their_order_over_shards_and_workers() -> None:
    ds = numbers(1000).shuffle(seed=3)
    made = publish(ds, "ordered", version="1.0.0", num_shards=7, workers=2)
    assert made.version.splits[0].shards == 7
    assert publish(ds, "ordered", version="1.0.0").is_hit
    with pytest.raises(ConflictError, match="7 -> 2"):
        publish(ds, "ordered", version="1.0.0", num_shards=2)
    assert [row["n"] for row in tfds_rows(made.version.uri)] == ds["n"][:]
    folder = Path(made.version.uri)
    info = json.loads((folder / "dataset_info.json").read_text())
    assert info["disableShuffling"] is True
    assert not list((Path.cwd() / "scratch" / "publishing").glob("*"))


@pytest.mark.usefixtures("here")
def test_the_same_again_is_a_hit_and_says_so(capsys: pytest.CaptureFixture[str]) -> None:
    first = publish(numbers(), "again", version="1.0.0")
    seen: list[Any] = []
    second = publish(numbers(), "again", version="1.0.0", tell=seen.append)
    assert second.is_hit and not second.built.ran and "nothing was done" in str(second)
    assert second.version.id == first.version.id
    assert [each["event"] for each in seen] == ["plan"]
    assert not (Path.cwd() / "scratch" / "publishing").is_dir() or not list(
        (Path.cwd() / "scratch" / "publishing").iterdir()
    )


@pytest.mark.usefixtures("here")
def test_other_rows_under_one_number_are_refused_with_what_differs() -> None:
    publish(numbers(50), "number", version="1.0.0")
    with pytest.raises(ConflictError, match=r"split 'train': 50 -> 49 rows") as caught:
        publish(numbers(50).select(range(49)), "number", version="1.0.0")
    assert "another number" in str(caught.value.hint)
    renamed = numbers(50).rename_column("t", "text")
    with pytest.raises(ConflictError, match="other 50 rows"):
        publish(renamed, "number", version="1.0.0")
    with pytest.raises(ConflictError, match="a new split 'more'"):
        publish(DatasetDict(train=numbers(50), more=numbers(3)), "number", version="1.0.0")
    assert publish(renamed, "number", version="1.1.0").outcome == "succeeded"
    assert publish(numbers(50), "number", version="1.0.0").is_hit


@pytest.mark.usefixtures("here")
def test_splits_and_config() -> None:
    splits = DatasetDict(train=numbers(20), test=numbers(5))
    made = publish(splits, "parts", config="small", version="2.0.0", description="Two parts.")
    assert made.version.name == "parts/small:2.0.0"
    assert {each.name: each.examples for each in made.version.splits} == {"train": 20, "test": 5}
    assert [row["n"] for row in tfds_rows(made.version.uri, "test")] == list(range(5))
    info = json.loads((Path(made.version.uri) / "dataset_info.json").read_text())
    assert info["description"] == "Two parts."
    one = publish(numbers(4), "parts", config="tiny", version="2.0.0", split="validation")
    assert one.version.splits[0].name == "validation"


REFUSED: dict[str, tuple[Any, list[Any], str, str]] = {
    "float64": (Value("float64"), [0.5], "float32 only", "ds.cast_column(\"x\", Value('float32'))"),
    "in_a_list": (
        List(Value("float64")),
        [[0.5]],
        "float32 only",
        "ds.cast_column(\"x\", List(Value('float32')))",
    ),
    "tensor": (
        Array2D((1, 1), "float64"),
        [[[0.5]]],
        "float32 only",
        "Array2D(shape=(1, 1), dtype='float32'",
    ),
    "in_a_dict": (
        {"a": Value("float16")},
        [{"a": 0.5}],
        "float32 only",
        "{'a': Value('float32')}",
    ),
    "sizes": (
        List(Array2D((None, 2), "float32")),
        [[[[1, 2]], [[3, 4], [5, 6]]]],
        "several sizes in one list",
        "List(List(Value('float32'), length=2))",
    ),
    "nothing": (Value("null"), [None], "no values", "Value('string')"),
    "date": (Value("date32"), [None], "no dates", "Value('string')"),
    "time": (Value("timestamp[us]"), [None], "points in time", "Value('int64')"),
    "null": (Value("string"), ["a", None], "no value in row 1", "ds.filter(lambda row: row['x']"),
    "null_in_list": (List(Value("int64")), [[1], [2, None]], "'x[]' has no value in row 1", "map"),
    "null_in_dict": ({"a": Value("int64")}, [{"a": None}], "'x/a' has no value", "map"),
}


@pytest.mark.parametrize("case", REFUSED)
@pytest.mark.usefixtures("here")
def test_what_tf_example_cannot_hold_is_refused_with_the_way_out(case: str) -> None:
    feature, values, why, way_out = REFUSED[case]
    ds = Dataset.from_dict({"x": values}, features=Features({"x": feature}))
    with pytest.raises(FeatureTypeError) as caught:
        publish(ds, "refused", version="1.0.0")
    assert why in caught.value.message and way_out in str(caught.value.hint)
    assert caught.value.facts["column"] == "x"
    assert catalog().versions("refused") == []
    assert not (Path.cwd() / "scratch" / "publishing").exists()


@pytest.mark.usefixtures("here")
def test_nulls_in_rows_that_were_left_out_do_not_matter() -> None:
    ds = Dataset.from_dict({"x": ["a", None, "b"]}).filter(lambda row: row["x"] is not None)
    made = publish(ds, "filtered", version="1.0.0")
    assert [row["x"] for row in tfds_rows(made.version.uri)] == [b"a", b"b"]


@pytest.mark.usefixtures("here")
def test_the_way_out_works() -> None:
    ds = Dataset.from_dict({"x": [0.5, 1.5]}).cast_column("x", Value("float32"))
    made = publish(ds, "cast", version="1.0.0")
    assert [row["x"] for row in tfds_rows(made.version.uri)] == [0.5, 1.5]


@pytest.mark.usefixtures("here")
def test_names_numbers_and_splits_that_cannot_be() -> None:
    with pytest.raises(ProvenderError):
        publish(numbers(), "No Name", version="1.0.0")
    with pytest.raises(UnknownReference):
        publish(numbers(), "name/config", version="1.0.0")
    with pytest.raises(ProvenderError):
        publish(numbers(), "name", version="1")
    with pytest.raises(SplitError, match="'all'"):
        publish(numbers(), "name", version="1.0.0", split="all")
    with pytest.raises(SplitError, match="no rows"):
        publish(numbers().select([]), "name", version="1.0.0")
    with pytest.raises(FeatureTypeError, match="other columns than 'train'"):
        splits = DatasetDict(train=numbers(), test=numbers().remove_columns("t"))
        publish(splits, "name", version="1.0.0")
    with pytest.raises(SettingsError, match="own split names"):
        publish(DatasetDict(train=numbers()), "name", version="1.0.0", split="train")
    with pytest.raises(SplitError, match="not there: tset"):
        publish(numbers(), "name", version="1.0.0", num_shards={"tset": 2})


def shout(row: dict[str, Any]) -> dict[str, Any]:
    return {"t": row["t"].upper()}


@pytest.mark.usefixtures("here")
def test_lineage_leads_through_the_transforms_to_the_version_they_began_with() -> None:
    from provender.data import load_dataset

    first = publish(numbers(30), "source", version="1.0.0")
    loaded = load_dataset("source:1.0.0", split="train")
    made = publish(
        loaded.map(shout).filter(lambda row: row["n"] % 2 == 0), "target", version="1.0.0"
    )
    graph = catalog().lineage(made.version.id)
    names = {node.id: node.name for node in graph.nodes}
    assert names[first.version.id] == "source:1.0.0"
    assert {name for name in names.values() if "transform/map/shout" in name}
    above: dict[str, set[str]] = {}
    for edge in graph.edges:
        above.setdefault(edge.child, set()).add(edge.parent)
    todo, reached = [made.version.id], set()
    while todo:
        todo += above.get(each := todo.pop(), set()) - reached
        reached.add(each)
    assert first.version.id in reached
    down = catalog().lineage(first.version.id, "down")
    assert made.version.id in {node.id for node in down.nodes}
    assert [row["t"] for row in tfds_rows(made.version.uri)][:2] == [b"ROW 0", b"ROW 2"]


KILLED = """
import os, signal
from provender.data import Dataset

def tell(event):
    if event["event"] == "done" and event["stage"] == "shards/train/00002":
        os.kill(os.getpid(), signal.SIGKILL)

if __name__ == "__main__":
    ds = Dataset.from_dict({"n": list(range(50)), "t": [f"row {i}" for i in range(50)]})
    ds.publish("killed", version="1.0.0", num_shards=6, workers=1, tell=tell)
"""


def test_a_killed_publication_goes_on_where_it_stopped(tmp_path: Path) -> None:
    script = tmp_path / "killed.py"
    script.write_text(KILLED)
    done = subprocess.run([sys.executable, str(script)], cwd=tmp_path, timeout=120, check=False)
    assert done.returncode == -signal.SIGKILL
    assert catalog().versions("killed") == []
    made = publish(numbers(50), "killed", version="1.0.0", num_shards=6)
    ran = [key for key in made.built.ran if key.startswith("shards/")]
    assert 0 < len(ran) <= 4 and "shards/train/00000" not in ran
    assert [row["n"] for row in tfds_rows(made.version.uri)] == list(range(50))


@pytest.mark.usefixtures("here")
def test_rows_that_are_gone_are_asked_for_when_a_shard_is_to_be_mended() -> None:
    from provender.api import build

    made = publish(numbers(), "mend", version="1.0.0")
    assert build("mend").outcome == "cached"
    shard = next(Path(made.version.uri).glob("*.tfrecord*"))
    whole = shard.read_bytes()
    shard.unlink()
    with pytest.raises(BuilderError, match="not on this machine any more") as caught:
        build("mend")
    assert "Publish the dataset again" in str(caught.value)
    assert publish(numbers(), "mend", version="1.0.0").version.id == made.version.id
    assert shard.read_bytes() == whole


@pytest.mark.usefixtures("here")
def test_images_named_by_path_travel_with_the_version(tmp_path: Path) -> None:
    (tmp_path / "a.png").write_bytes(png(3))
    ds = Dataset.from_dict(
        {"image": [str(tmp_path / "a.png")]}, features=Features({"image": Image()})
    )
    made = publish(ds, "files", version="1.0.0")
    (tmp_path / "a.png").unlink()
    assert tfds_rows(made.version.uri)[0]["image"].shape == (2, 2, 3)


def test_to_and_from_a_bucket(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import importlib.util

    from provender.data import load_dataset
    from provender.training import pull

    found = importlib.util.spec_from_file_location(
        "gcs", ROOT / "tests" / "store" / "gcs_server.py"
    )
    assert found and found.loader
    gcs = importlib.util.module_from_spec(found)
    sys.modules["gcs"] = gcs
    found.loader.exec_module(gcs)
    with gcs.start() as server:
        for name, value in server.env().items():
            monkeypatch.setenv(name, value)
        monkeypatch.setenv("PROVENDER_STORE", f"{server.bucket()}/lake")
        made = publish(numbers(200), "cloud", version="1.0.0", num_shards=3)
        assert made.version.uri.startswith("gs://")
        assert publish(numbers(200), "cloud", version="1.0.0", num_shards=3).is_hit
        read = load_dataset("cloud:1.0.0", split="train")
        assert read["n"][:] == list(range(200)) and read["t"][5] == "row 5"
        report = pull(Store.open(load_settings().store), made.version, str(tmp_path / "here"))
    assert [row["n"] for row in tfds_rows(report.dest)] == list(range(200))


TWICE = """
from provender.data import Dataset

if __name__ == "__main__":
    ds = Dataset.from_dict({"n": list(range(50)), "t": [f"row {i}" for i in range(50)]})
    print(ds.publish("twice", version="1.0.0", num_shards=3, workers=1, tell=lambda _: None).outcome)
"""


def test_two_processes_that_publish_the_same_make_one_version(tmp_path: Path) -> None:
    script = tmp_path / "twice.py"
    script.write_text(TWICE)
    running = [
        subprocess.Popen(
            [sys.executable, str(script)], cwd=tmp_path, stdout=subprocess.PIPE, text=True
        )
        for _ in range(2)
    ]
    outcomes = sorted(each.communicate(timeout=120)[0].strip() for each in running)
    assert outcomes in (["reused", "succeeded"], ["cached", "succeeded"])
    assert len(catalog().versions("twice")) == 1
    assert len(tfds_rows(catalog().versions("twice")[0].uri)) == 50


@pytest.mark.usefixtures("here")
def test_a_full_disk_is_named_and_the_next_try_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    import pyarrow as pa

    real = pa.ipc.new_stream

    def full(sink: Any, schema: Any) -> Any:
        if "train-00001" in str(Path(f"/proc/self/fd/{sink.fileno()}").readlink()):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return real(sink, schema)

    with monkeypatch.context() as patch, pytest.raises(DiskFull, match="space"):
        patch.setattr(pa.ipc, "new_stream", full)
        publish(numbers(), "full", version="1.0.0", num_shards=3)
    folder = next((Path.cwd() / "scratch" / "publishing").iterdir())
    assert [each.name for each in folder.iterdir()] == ["train-00000.arrow"]
    assert publish(numbers(), "full", version="1.0.0", num_shards=3).outcome == "succeeded"
    assert not folder.exists()
