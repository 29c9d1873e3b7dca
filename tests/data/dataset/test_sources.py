"""Datasets of generators, frames, files and other sources."""

from __future__ import annotations

from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from tests.data.dataset.programs import Lab

from provender.data import Array2D, ClassLabel, Dataset, DatasetDict, Features, Image, Value
from provender.data.cache import TransformCache
from provender.data.errors import ColumnLengthError, FeatureTypeError, FormatError
from provender.errors import InputError, SettingsError


def numbers(count: int = 300, start: int = 0) -> Iterator[dict[str, Any]]:
    for at in range(start, start + count):
        yield {"n": at, "late": None if at < 250 else 0.5}


def test_a_generator() -> None:
    ds = Dataset.from_generator(numbers, gen_kwargs={"count": 300})
    assert ds["n"][:] == list(range(300))
    assert ds.features == Features({"n": Value("int64"), "late": Value("float64")})
    assert ds[249]["late"] is None
    assert ds.split == "train"
    again = Dataset.from_generator(numbers, gen_kwargs={"count": 300})
    assert again._fingerprint == ds._fingerprint
    assert Dataset.from_generator(numbers, gen_kwargs={"count": 5})._fingerprint != ds._fingerprint


def shards(starts: list[int]) -> Iterator[dict[str, Any]]:
    for start in starts:
        yield from ({"n": start + at} for at in range(10))


def test_a_generator_with_shards() -> None:
    ds = Dataset.from_generator(shards, gen_kwargs={"starts": [0, 100, 200]})
    assert ds["n"][:] == [start + at for start in (0, 100, 200) for at in range(10)]


def test_a_generator_with_features_and_a_name() -> None:
    def label() -> Iterator[dict[str, Any]]:
        yield {"x": "yes", "m": np.ones((2, 3))}
        yield {"x": 0, "m": np.zeros((2, 3))}

    features = Features({"x": ClassLabel(names=["no", "yes"]), "m": Array2D((2, 3), "float32")})
    ds = Dataset.from_generator(label, features=features, fingerprint="mine", split="test")
    assert ds["x"][:] == [1, 0]
    assert ds.features == features
    assert ds._fingerprint == "mine"
    assert ds.with_format("numpy")[0]["m"].shape == (2, 3)


def test_a_generator_that_fails() -> None:
    def bad() -> Iterator[Any]:
        yield {"n": 1}
        yield 5

    with pytest.raises(InputError, match="not a dict"):
        Dataset.from_generator(bad)

    def mixed() -> Iterator[dict[str, Any]]:
        yield from ({"n": at if at < 1500 else "x"} for at in range(2000))

    with pytest.raises(FeatureTypeError, match=r"row 1500"):
        Dataset.from_generator(mixed)


def test_a_killed_generator_goes_on(tmp_path: Path) -> None:
    lab = Lab(tmp_path)
    program = """
def rows(starts):
    for start in starts:
        for at in range(start, start + 10):
            called()
            if at == 35 and os.environ.get("STOP"):
                time.sleep(60)
            yield {"n": at}

ds = Dataset.from_generator(rows, gen_kwargs={"starts": [0, 10, 20, 30, 40]})
tell(n=ds["n"][:])
"""
    lab.env["STOP"] = "1"
    process = lab.start(program)
    lab.wait_for_calls(36)
    process.kill()
    process.communicate()
    del lab.env["STOP"]
    assert lab.run(program).told == {"n": list(range(50))}
    assert lab.run(program).calls == 0


def test_kept_in_memory() -> None:
    ds = Dataset.from_generator(numbers, keep_in_memory=True)
    assert len(ds) == 300
    assert ds.cache_files == []
    assert not list(TransformCache.current().folder.glob("entries/*/*/manifest.json"))


def test_an_unhashable_generator(recwarn: pytest.WarningsRecorder) -> None:
    lines = (each for each in "ab")

    def rows() -> Iterator[dict[str, Any]]:
        for line in lines:
            yield {"x": line}

    first = Dataset.from_generator(rows)
    assert first["x"][:] == ["a", "b"]
    assert len(Dataset.from_generator(rows)) == 0
    assert not list(TransformCache.current().folder.glob("entries/*/*/manifest.json"))


def test_dicts_and_lists() -> None:
    ds = Dataset.from_dict({"a": np.arange(3), "b": [[1], [], None], "c": ["x", None, "y"]})
    assert ds[1] == {"a": 1, "b": [], "c": None}
    with pytest.raises(ColumnLengthError, match="a: 1, b: 2"):
        Dataset.from_dict({"a": [1], "b": [1, 2]})
    with pytest.raises(FeatureTypeError, match="row 1"):
        Dataset.from_list([{"a": 1}, {"a": "x"}])
    wanted = Features({"a": Value("float32"), "b": ClassLabel(names=["n", "y"])})
    made = Dataset.from_list([{"a": 1, "b": "y"}, {"b": 0}], features=wanted)
    assert made.to_list() == [{"a": 1.0, "b": 1}, {"a": None, "b": 0}]
    assert Dataset.from_list([]).shape == (0, 0)


def test_frames() -> None:
    pd = import_module("pandas")
    frame = pd.DataFrame({"a": [1, 2], "t": ["x", None], "c": pd.Categorical(["u", "v"])})
    ds = Dataset.from_pandas(frame)
    assert ds.to_list() == [{"a": 1, "t": "x", "c": "u"}, {"a": 2, "t": None, "c": "v"}]
    assert ds.to_pandas()["a"].tolist() == [1, 2]
    named = Dataset.from_pandas(frame.set_index("a"), preserve_index=True)
    assert set(named.column_names) == {"a", "t", "c"}
    assert [len(each) for each in ds.to_pandas(batch_size=1, batched=True)] == [1, 1]


def test_images_stay_bytes_until_they_are_read() -> None:
    pillow = import_module("PIL.Image")
    images = [pillow.new("RGB", (4, 5), (each, 0, 0)) for each in range(3)]
    ds = Dataset.from_dict({"i": [0, 1, 2], "image": images})
    assert isinstance(ds.features["image"], Image)
    opened: list[int] = []

    def number(row: Any) -> dict[str, Any]:
        opened.append("image" in row._piece.lists)
        return {"n": row["i"]}

    made = ds.map(number)
    assert not any(opened)
    assert made[2]["image"].getpixel((0, 0)) == (2, 0, 0)
    red = made.map(lambda row: {"red": row["image"].getpixel((0, 0))[0]})
    assert red["red"][:] == [0, 1, 2]
    brighter = made.map(lambda row: {"image": row["image"].point(lambda x: x + 10)})
    assert isinstance(brighter.features["image"], Image)
    assert brighter[0]["image"].getpixel((0, 0)) == (10, 10, 10)


def test_files_of_every_kind(tmp_path: Path) -> None:
    ds = Dataset.from_dict({"a": [1, 2, 3], "t": ["x", "y", "z"]})
    ds.to_csv(tmp_path / "d.csv")
    ds.to_json(tmp_path / "d.jsonl")
    ds.to_parquet(tmp_path / "d.parquet")
    (tmp_path / "d.txt").write_text("x\ny\nz\n")
    for made in (
        Dataset.from_csv(tmp_path / "d.csv"),
        Dataset.from_json(str(tmp_path / "d.jsonl")),
        Dataset.from_parquet([tmp_path / "d.parquet"]),
    ):
        assert made.to_list() == ds.to_list()
    assert Dataset.from_parquet(tmp_path / "d.parquet", columns=["t"]).column_names == ["t"]
    assert Dataset.from_text(tmp_path / "d.txt", split="test").to_list() == [
        {"text": each} for each in "xyz"
    ]
    both = DatasetDict.from_csv({"one": tmp_path / "d.csv", "two": tmp_path / "d.csv"})
    assert both.num_rows == {"one": 3, "two": 3}
    assert both["two"].split == "two"
    with pytest.raises(SettingsError, match=r"DatasetDict\.from_csv"):
        Dataset.from_csv({"a": "x"})


def test_shards_read_at_the_same_time(tmp_path: Path) -> None:
    paths = []
    for at in range(1, 6):
        paths.append(tmp_path / f"{at}.parquet")
        Dataset.from_dict({"a": list(range(at * 100, at * 100 + 20 * at))}).to_parquet(paths[-1])
    together = Dataset.from_parquet(paths, num_proc=3)
    wanted = [a for at in range(1, 6) for a in range(at * 100, at * 100 + 20 * at)]
    assert together["a"][:] == wanted
    entry = TransformCache.current().find(together._fingerprint)
    assert entry is not None
    victim = entry.files[2]
    entry.release()
    victim.unlink()
    assert Dataset.from_parquet(paths, num_proc=2)["a"][:] == wanted
    assert Dataset.from_parquet(paths)._fingerprint == together._fingerprint


def test_json_keeps_numbers_and_texts_exactly(tmp_path: Path) -> None:
    ds = Dataset.from_dict({"f": [0.1234567890123456, float("nan")], "t": ["ä/\n", "\u2028"]})
    ds.to_json(tmp_path / "d.jsonl")
    again = Dataset.from_json(str(tmp_path / "d.jsonl"))
    assert again["f"][0] == 0.1234567890123456
    assert again["f"][1] is None
    assert again["t"][:] == ds["t"][:]
    with pytest.raises(FeatureTypeError, match="Bytes that are no text"):
        Dataset.from_dict({"b": [b"\xff\xfe"]}).to_json(tmp_path / "no.jsonl")
    assert not (tmp_path / "no.jsonl").exists()


def test_streams_and_back() -> None:
    ds = Dataset.from_dict({"a": list(range(20))}).shuffle(seed=1)
    stream = ds.to_iterable_dataset(num_shards=4)
    assert [row["a"] for row in stream] == ds["a"][:]
    assert stream.num_shards == 4
    some = ds.add_column("b", ["x"] * 20).with_format("numpy", columns=["a"])
    assert [list(row) for row in some.to_iterable_dataset()] == [["a"]] * 20
    twice = ds.with_transform(lambda batch: {"n": [a * 2 for a in batch["a"]]})
    assert list(twice.to_iterable_dataset()) == list(twice)
    with pytest.raises(SettingsError, match="cannot be cut into 21 shards"):
        ds.to_iterable_dataset(num_shards=21)


def test_the_table_constructor() -> None:
    table = pa.table({"a": [1, 2, 3]})
    ds = Dataset(table)
    assert ds._fingerprint == Dataset.from_dict({"a": [1, 2, 3]})._fingerprint
    ordered = Dataset(table, indices_table=pa.table({"indices": pa.array([2, 0], pa.uint64())}))
    assert ordered["a"][:] == [3, 1]
    assert Dataset(table, fingerprint="abc")._fingerprint == "abc"
    chunked = pa.concat_tables([table.slice(0, 1), table.slice(1)])
    assert Dataset(chunked)._fingerprint == ds._fingerprint


def test_runs_of_rows_cost_nothing() -> None:
    """A million million row numbers fit into no memory."""
    ds = Dataset(
        pa.table({"x": pa.Array.from_buffers(pa.null(), 10**12, [None])}), fingerprint="0" * 40
    )
    part = ds.select(range(10**11, 9 * 10**11)).skip(5).take(6 * 10**11).shard(7, 3)
    assert len(part) == (6 * 10**11 + 3) // 7
    assert part[-1] == {"x": None}
    assert part[3:5] == {"x": [None, None]}
    assert len(part._fingerprint) == 40


def test_arrow_streams(tmp_path: Path) -> None:
    ds = Dataset.from_dict({"a": [1, 2], "b": ["x", "y"]}).class_encode_column("b")
    cast = ds.cast(ds.features, cache_file_name=str(tmp_path / "x.arrow"))
    assert cast.to_list() == ds.to_list()
    for made in (
        Dataset.from_file(tmp_path / "x.arrow"),
        Dataset.from_buffer((tmp_path / "x.arrow").read_bytes()),
    ):
        assert made.to_list() == ds.to_list()
        assert made.features == ds.features
    with pytest.raises(InputError, match="no Arrow stream"):
        Dataset.from_buffer(b"12345678")
    with pytest.raises(InputError, match="cannot be read as Arrow"):
        Dataset.from_file(tmp_path / "nothing.arrow")


def test_large_results_of_casts_go_through_the_cache(monkeypatch: pytest.MonkeyPatch) -> None:
    from provender.data.dataset import columns, ordering

    monkeypatch.setattr(columns, "IN_MEMORY", 10)
    monkeypatch.setattr(ordering, "IN_MEMORY", 10)
    monkeypatch.setattr(ordering, "CACHED_SORT", 10)
    ds = Dataset.from_dict({"a": list(range(100)), "t": [str(-i) for i in range(100)]})
    ds = ds.with_format("numpy", columns=["a"])
    cast = ds.cast_column("a", Value("float32"))
    assert cast.features["a"] == Value("float32")
    assert cast.cache_files
    assert cast.format == ds.format
    flat = ds.shuffle(seed=1).flatten_indices()
    assert flat.cache_files
    assert flat._fingerprint == ds.shuffle(seed=1)._fingerprint
    assert flat["a"][:].tolist() == ds.shuffle(seed=1)["a"][:].tolist()
    by_text = [ds.sort("t") for _ in range(2)]
    assert [each["t"][:3] for each in by_text] == [["-1", "-10", "-11"]] * 2
    monkeypatch.setattr(columns, "IN_MEMORY", 1 << 20)
    assert ds.cast_column("a", Value("float32"))._fingerprint == cast._fingerprint


def test_datasets_can_be_pickled_and_copied() -> None:
    import copy
    import pickle

    ds = Dataset.from_dict({"a": list(range(50))}).shuffle(seed=2).with_format("numpy")
    for other in (pickle.loads(pickle.dumps(ds)), copy.deepcopy(ds), copy.copy(ds)):
        assert other["a"][:].tolist() == ds["a"][:].tolist()
        assert other._fingerprint == ds._fingerprint
        assert other.format == ds.format
    one = pickle.loads(pickle.dumps(Dataset.from_dict({"a": list(range(1000))}).select(range(3))))
    assert len(pickle.dumps(one)) < 3000


def test_formats_that_do_not_exist() -> None:
    ds = Dataset.from_dict({"a": [1]})
    with pytest.raises(FormatError, match="numpy"):
        ds.with_format("numpi")
    with pytest.raises(FormatError, match="output_all_columns"):
        ds.add_column("b", [1]).with_format("pandas", columns=["a"], output_all_columns=True)
    with ds.formatted_as("numpy"):
        assert ds.format["type"] == "numpy"
    assert ds.format["type"] is None
    ds.set_transform(lambda batch: {"b": [0 for _ in batch["a"]]})
    assert ds[0] == {"b": 0}
    ds.reset_format()
    assert ds[0] == {"a": 1}
