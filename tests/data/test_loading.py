"""`load_dataset`: every way in, what it gives, and what it says when there is nothing."""

from __future__ import annotations

import json
import os
import pickle
import shutil
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.data.upkeep_fixtures import notes

from provender.data import (
    Dataset,
    DatasetDict,
    IterableDataset,
    NamedSplit,
    Split,
    load_dataset,
    load_from_disk,
)
from provender.data.errors import ColumnError
from provender.data.features import ClassLabel, Features, Value
from provender.data.loading import borrowed
from provender.data.loading.data_files import expand_braces, resolve
from provender.data.loading.formats import kind_of_name
from provender.data.sources import JsonLinesSource
from provender.errors import InputError, ProvenderError, SettingsError, SplitError, UnknownReference
from provender.training.splits import even_splits

__all__ = ["notes"]


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A home of its own: nothing cached before, nothing left behind."""
    monkeypatch.setenv("PROVENDER_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("PROVENDER_STORE", str(tmp_path / "store"))
    monkeypatch.chdir(tmp_path)
    return tmp_path


def lines(start: int, stop: int) -> str:
    return "".join(json.dumps({"i": i, "t": f"t{i}"}) + "\n" for i in range(start, stop))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    home = tmp_path / "files"
    home.mkdir()
    (home / "train-0.jsonl").write_text(lines(0, 10))
    (home / "train-1.jsonl").write_text(lines(10, 20))
    (home / "test.jsonl").write_text(lines(100, 105))
    return home


def numbers(dataset: Any) -> list[int]:
    return [row["i"] for row in dataset]


# ---------------------------------------------------------------------- which files


@pytest.mark.parametrize("streaming", [False, True])
def test_data_files_in_every_form(folder, streaming: bool) -> None:
    forms: list[tuple[Any, list[int]]] = [
        (str(folder / "train-0.jsonl"), [*range(10)]),
        (folder / "train-0.jsonl", [*range(10)]),
        (f"{folder}/train-*.jsonl", [*range(20)]),
        (f"{folder}/train-{{0,1}}.jsonl", [*range(20)]),
        (f"{folder}/train-{{0..1}}.jsonl", [*range(20)]),
        (
            [str(folder / "train-1.jsonl"), str(folder / "train-0.jsonl")],
            [*range(10, 20), *range(10)],
        ),
        (f"file://{folder}/test.jsonl", [*range(100, 105)]),
    ]
    for form, expected in forms:
        found = load_dataset("json", data_files=form, split="train", streaming=streaming)
        assert numbers(found) == expected
        assert isinstance(found, IterableDataset if streaming else Dataset)


def test_splits_come_as_a_dict(folder) -> None:
    found = load_dataset(
        "json", data_files={"a": "train-*.jsonl", "b": "test.jsonl"}, data_dir=folder
    )
    assert isinstance(found, DatasetDict)
    assert {split: len(ds) for split, ds in found.items()} == {"a": 20, "b": 5}
    streams = load_dataset(
        "json",
        data_files={"a": "train-*.jsonl", "b": "test.jsonl"},
        data_dir=folder,
        streaming=True,
    )
    assert {split: numbers(ds)[0] for split, ds in streams.items()} == {"a": 0, "b": 100}


def test_a_folder_tells_splits_and_format_by_its_names(folder) -> None:
    for found in (load_dataset(str(folder)), load_dataset("json", data_dir=folder)):
        assert {split: numbers(ds) for split, ds in found.items()} == {
            "train": [*range(20)],
            "test": [*range(100, 105)],
        }
    assert numbers(load_dataset(folder, data_files="test.jsonl", split="train")) == [
        *range(100, 105)
    ]
    assert numbers(load_dataset(str(folder / "test.jsonl"), split="train")) == [*range(100, 105)]


def test_other_formats(tmp_path) -> None:
    (tmp_path / "a.tsv").write_text("i\tt\n1\tx\n")
    (tmp_path / "a.txt").write_text("one\ntwo\n")
    pq.write_table(pa.table({"i": [1, 2]}), tmp_path / "a.parquet")
    assert load_dataset("./a.tsv", split="train")[0] == {"i": 1, "t": "x"}
    assert load_dataset("csv", data_files="a.tsv", sep="\t", split="train")[0] == {"i": 1, "t": "x"}
    assert load_dataset("text", data_files="a.txt", split="train")["text"][:] == ["one", "two"]
    assert numbers(load_dataset("./a.parquet", split="train", streaming=True)) == [1, 2]


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("a.jsonl.gz", "json"),
        ("x-train.tfrecord-00000-of-00010", "tfrecord"),
        ("a.tar", "tar"),
        ("a.TXT", "text"),
        ("a.csv.zst", "csv"),
        ("a.unknown", None),
        ("noext", None),
    ],
)
def test_formats_by_name(name: str, kind: str | None) -> None:
    assert kind_of_name(name) == kind


@pytest.mark.parametrize(
    ("pattern", "expected"),
    [
        ("a{b,c}d", ["abd", "acd"]),
        ("{a,b{c,d}}", ["a", "bc", "bd"]),
        ("{08..10}", ["08", "09", "10"]),
        ("{3..1}", ["3", "2", "1"]),
        ("{a}", ["{a}"]),
        ("{a", ["{a"]),
        ("{,x}y", ["y", "xy"]),
    ],
)
def test_braces(pattern: str, expected: list[str]) -> None:
    assert expand_braces(pattern) == expected


def test_a_bracket_in_a_real_name_is_no_pattern(tmp_path) -> None:
    (tmp_path / "a[1].jsonl").write_text(lines(0, 1))
    assert len(resolve(str(tmp_path / "a[1].jsonl"))["train"]) == 1


# ---------------------------------------------------------------------- which rows


@pytest.mark.parametrize("streaming", [False, True])
@pytest.mark.parametrize(
    ("split", "expected"),
    [
        ("train", [*range(20)]),
        ("train[:3]", [0, 1, 2]),
        ("train[-2:]", [18, 19]),
        ("train[10%:20%]+test[:2]", [2, 3, 100, 101]),
        ("train[33%:66%]", [*range(7, 13)]),
        ("test+train[5:6]", [*range(100, 105), 5]),
        ("all", [*range(20), *range(100, 105)]),
        ("train[9:11]", [9, 10]),
    ],
)
def test_split_expressions(folder, split: str, expected: list[int], streaming: bool) -> None:
    assert numbers(load_dataset(str(folder), split=split, streaming=streaming)) == expected


def test_even_splits(folder) -> None:
    parts = [numbers(load_dataset(str(folder), split=part)) for part in even_splits("train", 3)]
    assert parts == [[*range(7)], [*range(7, 14)], [*range(14, 20)]]


def test_an_unknown_split_says_what_there_is(folder) -> None:
    for split in ("tran", "tran[:3]"):
        with pytest.raises(UnknownReference, match="no split 'tran'") as caught:
            load_dataset(str(folder), split=split)
        assert "Did you mean 'train'? The splits are train, test." in str(caught.value.hint)
    with pytest.raises(SplitError, match="not a split expression"):
        load_dataset(str(folder), split="train[1")


@pytest.mark.parametrize("streaming", [False, True])
def test_a_slice_of_files_ends_where_they_do(folder, streaming: bool) -> None:
    for split, expected in (
        ("test[:30]", [*range(100, 105)]),
        ("test[-30:]", [*range(100, 105)]),
        ("test[7:9]", []),
        ("test[2:30]+train[:1]", [102, 103, 104, 0]),
    ):
        with pytest.warns(UserWarning, match="leaves the split, which has 5 rows") as caught:
            found = load_dataset(str(folder), split=split, streaming=streaming)
        assert numbers(found) == expected
        assert [each.filename for each in caught] == [__file__]


@pytest.mark.parametrize("streaming", [False, True])
def test_a_list_of_splits_is_a_list_of_datasets(folder, tmp_path, streaming: bool) -> None:
    found = load_dataset(str(folder), split=["train[:2]", "test"], streaming=streaming)
    assert [numbers(each) for each in found] == [[0, 1], [*range(100, 105)]]
    assert [str(each.split) for each in found] == ["train[:2]", "test"]
    Dataset.from_dict({"i": [1, 2, 3]}).save_to_disk(tmp_path / "saved")
    found = load_dataset(str(tmp_path / "saved"), split=["train[:1]", "train[1:]"])
    assert [numbers(each) for each in found] == [[1], [2, 3]]


def test_names_of_splits(folder) -> None:
    class Theirs:
        def to_spec(self) -> str:
            return "train[1:3]"

    class Named:
        def __str__(self) -> str:
            return "test"

    assert numbers(load_dataset(str(folder), split=Split.TEST)) == [*range(100, 105)]
    assert numbers(load_dataset(str(folder), split=Split("train"))) == [*range(20)]
    assert numbers(load_dataset(str(folder), split=Named())) == [*range(100, 105)]
    assert numbers(load_dataset(str(folder), split=Theirs())) == [1, 2]
    import tensorflow_datasets as tfds

    tenths = tfds.core.ReadInstruction("train", from_=10, to=20, unit="%")
    assert numbers(load_dataset(str(folder), split=tenths)) == [2, 3]
    with pytest.raises(SplitError, match="3 is not a split"):
        load_dataset(str(folder), split=3)
    made = Dataset.from_json(str(folder / "test.jsonl"))
    assert type(made.split) is NamedSplit
    assert (made.split, repr(made.split)) == ("train", "NamedSplit('train')")
    assert Dataset.from_json(str(folder / "test.jsonl"), split="x").split == "x"
    assert pickle.loads(pickle.dumps(Split.TRAIN)) == "train"


def test_a_cache_folder_for_one_call(folder, tmp_path) -> None:
    place = tmp_path / "elsewhere"
    found = load_dataset(str(folder), split="train", cache_dir=place)
    assert all(str(place) in each["filename"] for each in found.cache_files)
    made = Dataset.from_json(str(folder / "test.jsonl"), cache_dir=str(place))
    assert all(str(place) in each["filename"] for each in made.cache_files)
    assert not (tmp_path / "home" / "cache").exists()


def test_data_is_read_again_on_demand(folder, monkeypatch) -> None:
    load_dataset(str(folder), split="test")
    read: list[int] = []
    real = JsonLinesSource.read

    def counted(self: Any, *args: Any, **kwargs: Any) -> Any:
        read.append(1)
        return real(self, *args, **kwargs)

    monkeypatch.setattr(JsonLinesSource, "read", counted)
    for mode, reads in (
        ("reuse_dataset_if_exists", 0),
        ("force_redownload", 1),
        ("reuse_cache_if_exists", 1),
    ):
        read.clear()
        found = load_dataset(str(folder), split="test", download_mode=mode)
        assert (numbers(found), len(read)) == ([*range(100, 105)], reads)


def test_arguments_for_a_hub(folder, notes) -> None:
    read = {"split": "test", "verification_mode": "no_checks", "trust_remote_code": True}
    assert numbers(load_dataset(str(folder), **read, revision="main")) == [*range(100, 105)]
    with pytest.warns(UserWarning, match="revision= is not used"):
        load_dataset(str(folder), **read, revision="abc")
    with pytest.warns(UserWarning, match="token= is only used for hf://"):
        load_dataset(str(folder), **read, token="secret")
    for name in ("download_mode", "verification_mode"):
        with pytest.raises(SettingsError, match=f"{name} cannot be 'some'"):
            load_dataset(str(folder), **{name: "some"})
    with pytest.raises(SettingsError, match="has no revision") as caught:
        load_dataset("notes", revision="1.0.0")
    assert 'load_dataset("notes:1.0.0")' in str(caught.value)


def test_a_token_reaches_the_hub() -> None:
    asked = {"train": ["hf://datasets/a/b.csv"]}
    assert borrowed.storage_options("csv", asked, {"x": 1}, "secret") == {
        "x": 1,
        "token": "secret",
    }
    assert borrowed.storage_options("csv", asked, {"token": "own"}, True) == {"token": "own"}


def test_arguments_of_pandas(tmp_path) -> None:
    text = 'a,b,c\n1,x,2020-01-02\n2,,2021-01-01\n3,"NA",2022-01-01\n'
    (tmp_path / "d.csv").write_text(text)

    def read(**how: Any) -> Any:
        return load_dataset("csv", data_files="d.csv", split="train", **how)

    assert read(usecols=["c", "a"]).column_names == read(usecols=[0, 2]).column_names == ["a", "c"]
    assert read(na_filter=False)["b"][:] == ["x", "", "NA"]
    assert read(quoting=3)["b"][:] == ["x", None, '"NA"']
    assert read(dtype={"a": "float32"}).features["a"] == Value("float32")
    assert read(dtype=str)["a"][:] == ["1", "2", "3"]
    assert read(dtype={"a": int}).features["a"] == Value("int64")
    assert read(dtype={"c": "timestamp[s]"})["c"][0].year == 2020
    assert read(nrows=None, index_col=False, parse_dates=None).num_rows == 3
    for name, value, way in (
        ("nrows", 2, "train"),
        ("index_col", 0, "usecols"),
        ("parse_dates", ["c"], "dtype"),
    ):
        with pytest.raises(SettingsError, match=f"argument '{name}'") as caught:
            read(**{name: value})
        assert way in str(caught.value.hint)
    for bad in ({"usecols": ["d"]}, {"dtype": {"d": "int64"}}):
        with pytest.raises(ColumnError, match="'d'"):
            read(**bad)
    with pytest.raises(InputError, match="Quoting cannot be 2"):
        read(quoting=2)


def test_filters_of_parquet_name_the_way_out(tmp_path) -> None:
    pq.write_table(pa.table({"i": [1, 2]}), tmp_path / "a.parquet")
    with pytest.raises(SettingsError, match="argument 'filters'") as caught:
        Dataset.from_parquet("a.parquet", filters=[("i", ">", 1)])
    assert ".filter(" in str(caught.value.hint)


def test_what_is_missing_is_a_file_not_found(tmp_path) -> None:
    (tmp_path / "empty").mkdir()
    for ask in (
        lambda: load_dataset("json", data_files="nothing-*.jsonl"),
        lambda: load_dataset("./empty"),
        lambda: load_dataset("./nowhere"),
        lambda: load_from_disk("nowhere"),
        lambda: load_from_disk("empty"),
        lambda: DatasetDict.load_from_disk("empty"),
    ):
        with pytest.raises(FileNotFoundError) as caught:
            ask()
        assert isinstance(caught.value, ProvenderError)


def test_columns_and_features(folder) -> None:
    found = load_dataset(str(folder), split="train", columns=["t"])
    assert found.column_names == ["t"]
    with pytest.raises(ColumnError, match="'tt'"):
        load_dataset(str(folder), split="train", columns=["tt"])
    features = Features({"i": ClassLabel(names=[f"n{i}" for i in range(20)]), "t": Value("string")})
    labels = load_dataset("json", data_files=str(folder / "train-0.jsonl"), features=features)
    assert labels["train"].features == features
    assert labels["train"].features["i"].int2str(labels["train"][3]["i"]) == "n3"


# ---------------------------------------------------------------------- what is refused


def test_what_is_not_there_is_told_with_what_is(folder) -> None:
    with pytest.raises(InputError, match="No file matches") as caught:
        load_dataset("json", data_files=str(folder / "train-7.jsonl"))
    assert "train-0.jsonl" in str(caught.value.hint)
    with pytest.raises(InputError, match="No file matches"):
        load_dataset("json", data_files=f"{folder}/*.csv")
    with pytest.raises(UnknownReference, match="no such file or folder"):
        load_dataset("./nowhere")
    with pytest.raises(InputError, match="No files were named"):
        load_dataset("json")
    (folder / "sub").mkdir()
    with pytest.raises(InputError, match="no data files"):
        load_dataset(str(folder / "sub"))


def test_arguments_that_make_no_sense(folder) -> None:
    file = str(folder / "test.jsonl")
    with pytest.raises(SettingsError, match="'seperator'"):
        load_dataset("json", data_files=file, seperator=";")
    with pytest.raises(SettingsError, match="'spilt'") as caught:
        load_dataset("json", data_files=file, spilt="train")
    assert "Did you mean split?" in str(caught.value.hint)
    with pytest.raises(SettingsError, match="on_error"):
        load_dataset("json", data_files=file, on_error="ignore")
    with pytest.raises(SettingsError, match="config 'en'"):
        load_dataset("json", "en", data_files=file)


def test_files_of_no_known_format(tmp_path) -> None:
    (tmp_path / "a.xyz").write_text("x")
    with pytest.raises(InputError, match="do not tell their format"):
        load_dataset("./a.xyz")


# ---------------------------------------------------------------------- the cache


def test_content_decides_what_is_read_again(folder, monkeypatch) -> None:
    from provender.data.sources.jsonl import JsonLinesSource

    parsed = []
    real = JsonLinesSource._parse

    def counted(self: Any, part: Any, block: Any, at: int, schema: Any) -> Any:
        parsed.append(at)
        return real(self, part, block, at, schema)

    monkeypatch.setattr(JsonLinesSource, "_parse", counted)
    file = folder / "test.jsonl"

    def load(path: Path = file) -> tuple[list[int], bool]:
        parsed.clear()
        found = numbers(load_dataset("json", data_files=str(path), split="train"))
        return found, bool(parsed)

    assert load() == ([*range(100, 105)], True)
    assert load() == ([*range(100, 105)], False)
    os.utime(file, ns=(1, 1))  # touched
    assert load() == ([*range(100, 105)], False)
    shutil.copy(file, folder / "copy.jsonl")
    assert load(folder / "copy.jsonl") == ([*range(100, 105)], False)
    times = file.stat()
    file.write_text(lines(200, 205))  # other bytes, same size, and the old time
    os.utime(file, ns=(times.st_atime_ns, times.st_mtime_ns))
    assert load() == ([*range(200, 205)], True)


def test_damage_that_was_passed_over_is_not_remembered(folder) -> None:
    file = folder / "test.jsonl"
    whole = file.read_text()
    file.write_text(whole.replace('"i": 102', '"i": x'))
    with pytest.raises(InputError, match="not a JSON object"):
        load_dataset("json", data_files=str(file), split="train", features=_FEATURES)
    some = load_dataset(
        "json", data_files=str(file), split="train", on_error="skip", features=_FEATURES
    )
    assert numbers(some) == [100, 101, 103, 104]
    with pytest.raises(InputError, match="not a JSON object"):
        load_dataset("json", data_files=str(file), split="train", features=_FEATURES)


_FEATURES = Features({"i": Value("int64"), "t": Value("string")})


# ---------------------------------------------------------------------- saved, published, built


def test_a_saved_dataset(tmp_path, folder) -> None:
    dataset = load_dataset(str(folder))
    dataset.save_to_disk(tmp_path / "saved")
    dataset["test"].save_to_disk(tmp_path / "one")
    assert {k: len(v) for k, v in load_dataset(str(tmp_path / "saved")).items()} == {
        "train": 20,
        "test": 5,
    }
    assert numbers(load_dataset(str(tmp_path / "saved"), split="train[:2]")) == [0, 1]
    assert numbers(load_dataset(tmp_path / "one", split="train", streaming=True)) == [
        *range(100, 105)
    ]


def test_a_folder_wins_over_a_name(tmp_path) -> None:
    (tmp_path / "mnist").mkdir()
    (tmp_path / "mnist" / "a.txt").write_text("one\n")
    assert load_dataset("mnist", split="train")[0] == {"text": "one"}


def test_a_saved_dataset_takes_no_other_arguments(tmp_path, folder) -> None:
    load_dataset(str(folder), split="test").save_to_disk(tmp_path / "one")
    with pytest.raises(SettingsError, match="'sep'"):
        load_dataset(str(tmp_path / "one"), sep=";")
    found = load_dataset(str(tmp_path / "one"), split="train[1:2]+train[:1]", columns=["i"])
    assert list(found) == [{"i": 101}, {"i": 100}]


def test_a_stream_is_not_prepared(folder) -> None:
    with pytest.raises(SettingsError, match="neither prepared"):
        load_dataset(str(folder), streaming=True, num_proc=2)
