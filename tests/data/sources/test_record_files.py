"""Parquet, TFRecord, tar, Arrow, versions, generators and tables as sources."""

from __future__ import annotations

import io
import json
import pickle
import tarfile
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from provender.data.errors import ColumnError
from provender.data.features import ClassLabel, Features, List, Value
from provender.data.sources import (
    ArrowSource,
    CastSource,
    ConcatSource,
    GeneratorSource,
    ParquetSource,
    PiecesSource,
    ReadOptions,
    TableSource,
    TarSource,
    TFRecordSource,
    VersionSource,
)
from provender.data.sources.access import open_reader, place_of
from provender.data.sources.combined import row_range
from provender.data.sources.frames import frames
from provender.errors import (
    ArchiveError,
    DamageError,
    InputError,
    ProvenderError,
    StoreError,
    UnknownReference,
)


def table(start: int, stop: int) -> pa.Table:
    return pa.table({"i": range(start, stop), "t": [f"text {i}" for i in range(start, stop)]})


@pytest.fixture
def parquet(tmp_path: Path) -> list[Any]:
    found = []
    for number in range(3):
        path = tmp_path / f"p{number}.parquet"
        pq.write_table(table(number * 100, number * 100 + 100), path, row_group_size=30)
        found += place_of(str(path)).find(str(path))
    return found


# ---------------------------------------------------------------------- parquet


def test_parquet(parquet, read) -> None:
    source = ParquetSource(parquet)
    assert read.check(source, every=7) == table(0, 300).to_pylist()
    assert source.features == Features({"i": Value("int64"), "t": Value("string")})
    assert source.total_rows == 300
    assert read.rows(source.columns(["t"]), 0)[:1] == [{"t": "text 0"}]


@pytest.mark.parametrize("pieces", [None, 4, 12, 1000])
def test_parquet_is_cut_at_row_groups(parquet, read, pieces: int | None) -> None:
    cut = ParquetSource(parquet).reshard(pieces)
    assert cut.num_shards == {None: 12, 4: 4, 12: 12, 1000: 12}[pieces]
    assert read.check(cut, every=11) == table(0, 300).to_pylist()


def test_parquet_at_random(parquet) -> None:
    source = ParquetSource(parquet)
    wanted = np.random.default_rng(0).integers(0, 300, 500)
    assert source.rows_at(wanted)["i"].to_pylist() == wanted.tolist()
    assert source.columns(["i"]).rows_at(np.array([299, 0])).to_pylist() == [{"i": 299}, {"i": 0}]
    assert source.rows_at(np.array([], np.int64)).num_rows == 0
    with pytest.raises(UnknownReference, match="Row 300"):
        source.rows_at(np.array([300]))


def test_parquet_keeps_types_and_labels(tmp_path, read) -> None:
    features = Features({"l": ClassLabel(names=["a", "b"]), "v": List(Value("float32"))})
    made = pa.table({"l": [0, 1], "v": [[1.0], []]}, schema=features.arrow_schema)
    pq.write_table(made, tmp_path / "x.parquet")
    source = ParquetSource(place_of("/").find(str(tmp_path / "x.parquet")))
    assert source.features == features
    wanted = Features({"l": Value("string"), "v": List(Value("float64"))})
    cast = ParquetSource(place_of("/").find(str(tmp_path / "x.parquet")), features=wanted)
    assert cast.features == wanted
    assert read.rows(cast)[0] == {"l": "a", "v": [1.0]} or read.rows(cast)[0] == {
        "l": "0",
        "v": [1.0],
    }


def test_damaged_parquet(parquet, tmp_path, read) -> None:
    whole = Path(parquet[1].url).read_bytes()
    Path(parquet[1].url).write_bytes(whole[:-100])
    files = [place_of(f.url).stat(f.url) for f in parquet]
    with pytest.raises(DamageError, match="no whole Parquet file") as caught:
        read.rows(ParquetSource(files))
    assert caught.value.where == parquet[1].url
    skipping = ParquetSource(files, options=ReadOptions(on_error="skip"))
    assert len(read.rows(skipping)) == 200
    assert skipping.skipped == {"shards": 1}


# ---------------------------------------------------------------------- TFRecord


def test_tfrecord_columns_are_found(files, records, read) -> None:
    payloads = [records.example(i=i, t=f"é{i}", v=[1.5] * (i % 3), b=b"\xff") for i in range(30)]
    source = TFRecordSource(files(records.framed(payloads[:20]), records.framed(payloads[20:])))
    assert source.features == Features(
        {
            "b": Value("binary"),
            "i": Value("int64"),
            "t": Value("string"),
            "v": List(Value("float32")),
        }
    )
    expected = [{"b": b"\xff", "i": i, "t": f"é{i}", "v": [1.5] * (i % 3)} for i in range(30)]
    assert read.check(source, every=3) == expected
    assert read.rows(source.columns(["i"]), 1)[0] == {"i": 20}


def test_tfrecord_with_features(files, records, read) -> None:
    data = records.framed([records.example(i=i, t="x") for i in range(3)])
    features = Features({"i": ClassLabel(names=["a", "b", "c"]), "w": Value("string")})
    source = TFRecordSource(files(data), features=features)
    assert read.rows(source) == [{"i": i, "w": None} for i in range(3)]
    by_json = TFRecordSource(files(data), features_json=records.features)
    assert read.check(by_json) == [{"i": i, "t": "x"} for i in range(3)]


@settings(
    max_examples=60,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(
    sizes=st.lists(st.integers(0, 90), max_size=12),
    block=st.sampled_from([1, 5, 11, 12, 13, 40, 1000]),
    begin=st.integers(0, 12),
)
def test_frames_in_blocks_of_any_size(files, records, sizes, block: int, begin: int) -> None:
    payloads = [bytes([number]) * size for number, size in enumerate(sizes)]
    (file,) = files(records.framed(payloads) if payloads else b"")
    begin = min(begin, len(sizes))
    byte = sum(size + 16 for size in sizes[:begin])
    found, at = [], begin
    with open_reader(file) as reader:
        for part in frames(reader, "f", byte, begin, block=block):
            assert (part.record, part.byte) == (at, byte)
            assert len(part.damaged()) == 0
            for start, length in zip(part.starts.tolist(), part.lengths.tolist(), strict=True):
                found.append(part.data[start : start + length])
            at, byte = at + len(part), part.end
    assert found == payloads[begin:]
    assert byte == file.size


@pytest.mark.parametrize("block", [7, 64, 1000])
def test_a_file_cut_off_anywhere_says_so(files, records, block: int) -> None:
    whole = records.framed([b"x" * 20] * 3)
    for length in range(1, len(whole)):
        if length % 36 == 0:
            continue
        (file,) = files(whole[:length])
        with open_reader(file) as reader, pytest.raises(DamageError) as caught:
            for _ in frames(reader, "f", block=block):
                pass
        assert caught.value.facts == {
            "file": "f",
            "record": length // 36,
            "offset": length // 36 * 36,
        }


@pytest.mark.parametrize("place", ["payload", "header"])
def test_a_damaged_record_is_named_and_can_be_skipped(files, records, read, place: str) -> None:
    data = bytearray(records.framed([records.example(i=i, t="x" * 50) for i in range(100)]))
    each = len(data) // 100
    begin = records.framed([records.example(i=i, t="x" * 50) for i in range(40)])
    offset = len(begin)
    data[offset + (2 if place == "header" else each // 2)] ^= 1
    (file,) = files(bytes(data))
    with pytest.raises(DamageError, match=f"record 40 at byte {offset:,}") as caught:
        read.rows(TFRecordSource([file]))
    assert caught.value.facts == {"file": file.name, "record": 40, "offset": offset}
    source = TFRecordSource([file], options=ReadOptions(on_error="skip"))
    assert [row["i"] for row in read.rows(source)] == [i for i in range(100) if i != 40]
    assert source.skipped == {"records": 1}


# ---------------------------------------------------------------------- published versions


def expected(count: int) -> list[dict[str, Any]]:
    return [{"i": i, "t": f"text {i} "} for i in range(count)]


def test_version(make_version, read) -> None:
    source = VersionSource(make_version(100, 3))
    assert read.check(source, every=9) == expected(100)
    assert source.features == Features({"i": Value("int64"), "t": Value("string")})
    assert read.rows(source.columns(["t"]), 2)[-1] == {"t": "text 99 "}
    again = pickle.loads(pickle.dumps(source))
    assert (again.identity, read.rows(again)) == (source.identity, expected(100))


@pytest.mark.parametrize("pieces", [None, 7, 1000])
def test_version_is_cut_by_its_index(make_version, read, pieces: int | None) -> None:
    cut = VersionSource(make_version(100, 3)).reshard(pieces)
    assert cut.num_shards == {None: 12, 7: 7, 1000: 100}[pieces]
    assert read.check(cut, every=5) == expected(100)
    wanted = np.array([99, 3, 3, 50])
    assert cut.rows_at(wanted)["i"].to_pylist() == wanted.tolist()


def test_version_at_random(make_version) -> None:
    source = VersionSource(make_version(1000, 7))
    wanted = np.random.default_rng(1).integers(0, 1000, 3000)
    assert source.rows_at(wanted).to_pylist() == [expected(1000)[i] for i in wanted]
    assert source.columns(["i"]).rows_at(np.array([], np.int64)).num_rows == 0


def _damage(shard: Any, record: int, where: str) -> int:
    from provender.records.offsets import read_offsets

    offset = int(read_offsets(Path(shard.index))[record])
    path = Path(shard.url)
    data = bytearray(path.read_bytes())
    data[offset + (2 if where == "header" else 20)] ^= 1
    path.write_bytes(bytes(data))
    return offset


@pytest.mark.parametrize("where", ["payload", "header"])
def test_damage_in_a_version(make_version, read, where: str) -> None:
    data = make_version(90, 3)
    offset = _damage(data.shards[1], 12, where)
    source = VersionSource(data)
    with pytest.raises(DamageError, match=f"record 12 at byte {offset:,} of {data.shards[1].name}"):
        read.rows(source)
    with pytest.raises(DamageError, match=f"record 12 at byte {offset:,}"):
        source.rows_at(np.array([42]))
    skipping = VersionSource(data, ReadOptions(on_error="skip"))
    assert [row["i"] for row in read.rows(skipping)] == [i for i in range(90) if i != 42]
    assert skipping.skipped == {"records": 1}


def test_a_shard_cut_off(make_version, read) -> None:
    data = make_version(90, 3)
    path = Path(data.shards[1].url)
    path.write_bytes(path.read_bytes()[:-5])
    with pytest.raises(DamageError, match="record 29 at byte"):
        read.rows(VersionSource(data))
    skipping = VersionSource(data, ReadOptions(on_error="skip"))
    assert len(read.rows(skipping)) == 89


def test_a_shard_that_lacks_its_last_records(make_version, read) -> None:
    from provender.records.offsets import read_offsets

    data = make_version(90, 3)
    path = Path(data.shards[1].url)
    path.write_bytes(path.read_bytes()[: int(read_offsets(Path(data.shards[1].index))[20])])
    with pytest.raises(DamageError, match="ends after record 19 of 30: record 20"):
        read.rows(VersionSource(data))


def test_a_missing_shard(make_version, read) -> None:
    data = make_version(90, 3)
    Path(data.shards[1].url).unlink()
    with pytest.raises(StoreError, match=f"missing: {data.shards[1].name}") as caught:
        read.rows(VersionSource(data))
    assert "provender build v:1.0.0" in str(caught.value.hint)
    skipping = VersionSource(data, ReadOptions(on_error="skip"))
    assert [row["i"] for row in read.rows(skipping)] == [*range(30), *range(60, 90)]
    assert skipping.skipped == {"shards": 1}


def test_without_its_index_a_shard_is_still_read_in_order(make_version, read) -> None:
    data = make_version(90, 3)
    Path(data.shards[1].index).unlink()
    source = VersionSource(data)
    assert read.rows(source, 1, row=7)[0]["i"] == 37
    with pytest.raises(DamageError, match="no offset index"):
        source.rows_at(np.array([40]))


# ---------------------------------------------------------------------- tar


def _tar(members: list[tuple[str, bytes]], mode: str = "w") -> bytes:
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode=mode) as tar:
        for name, data in members:
            info = tarfile.TarInfo(name)
            info.size = len(data)
            tar.addfile(info, io.BytesIO(data))
    return out.getvalue()


def _samples(count: int) -> list[tuple[str, bytes]]:
    found = []
    for i in range(count):
        # Long names are kept in headers of their own.
        key = f"{'d' * (1 + i % 2 * 120)}/{i:04d}"
        found += [(f"{key}.txt", f"text {i}".encode()), (f"{key}.cls", str(i).encode())]
        found += [(f"{key}.meta.json", json.dumps({"n": i}).encode()), (f"{key}.bin", b"\xff")]
    return found


@pytest.mark.parametrize("mode", ["w", "w:gz"])
def test_tar(files, read, mode: str) -> None:
    suffix = ".tar" if mode == "w" else ".tar.gz"
    source = TarSource(
        files(_tar(_samples(40), mode), _tar(_samples(3), mode), name="t{}" + suffix)
    )
    found = read.check(source, every=9)
    assert len(found) == 43
    assert found[5] == {
        "txt": "text 5",
        "cls": 5,
        "meta.json": {"n": 5},
        "bin": b"\xff",
        "__key__": f"{'d' * 121}/0005",
        "__url__": source.shard_name(0),
    }
    assert read.rows(source.columns(["cls"]), 1) == [{"cls": i} for i in range(3)]


def test_tar_images_have_the_feature(files, read) -> None:
    from provender.builders._png import encode_grey

    png = encode_grey(bytes(range(64)), 8, 8)
    source = TarSource(files(_tar([("a.png", png), ("a.cls", b"1")]), name="t{}.tar"))
    assert type(source.features["png"]).__name__ == "Image"
    assert read.rows(source)[0]["png"] == {"bytes": png, "path": "a.png"}


def test_a_tar_cannot_lead_outside_or_link(files, read) -> None:
    with pytest.raises(ArchiveError, match="outside"):
        read.rows(TarSource(files(_tar([("../../etc/a.txt", b"x")]))))
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as tar:
        link = tarfile.TarInfo("a.txt")
        link.type, link.linkname = tarfile.SYMTYPE, "/etc/passwd"
        tar.addfile(link)
    with pytest.raises(ArchiveError, match="no regular file"):
        read.rows(TarSource(files(out.getvalue())))


def test_pickles_in_a_tar_stay_bytes(files, read) -> None:
    data = pickle.dumps({"a": 1})
    assert read.rows(TarSource(files(_tar([("a.pkl", data)]))))[0]["pkl"] == data


def test_a_tar_cut_off(files, read) -> None:
    whole = _tar(_samples(400))
    (file,) = files(whole[: len(whole) // 2 + 700])
    with pytest.raises(DamageError, match="damaged near byte"):
        read.rows(TarSource([file]))
    skipping = TarSource([file], options=ReadOptions(on_error="skip"))
    assert 100 < len(read.rows(skipping)) < 300


# ---------------------------------------------------------------------- arrow, tables, generators


@pytest.mark.parametrize("kind", ["stream", "file"])
def test_arrow_files(tmp_path, read, kind: str) -> None:
    path = tmp_path / "a.arrow"
    make = pa.ipc.new_stream if kind == "stream" else pa.ipc.new_file
    with make(str(path), table(0, 1).schema) as out:
        out.write_table(table(0, 50), max_chunksize=7)
    source = ArrowSource(place_of(str(path)).find(str(path)))
    assert read.check(source, every=5) == table(0, 50).to_pylist()
    assert source.rows_at(np.array([49, 0]))["i"].to_pylist() == [49, 0]
    path.write_bytes(path.read_bytes()[:-300])
    with pytest.raises(DamageError, match="no whole Arrow file"):
        read.rows(ArrowSource(place_of(str(path)).find(str(path))))


def test_table(read) -> None:
    source = TableSource(table(0, 100), num_shards=3)
    assert read.check(source, every=4) == table(0, 100).to_pylist()
    assert source.rows_at(np.array([99, 0, 50]))["i"].to_pylist() == [99, 0, 50]
    assert read.check(source.select_shards([2, 0]), every=9)[0]["i"] == 66
    assert source.select_shards([2]).rows_at(np.array([1]))["i"].to_pylist() == [67]
    assert read.check(source.reshard(7), every=9) == table(0, 100).to_pylist()
    assert source.reshard(7).num_shards == 7
    assert (
        TableSource(table(0, 9)).identity
        == TableSource(pa.concat_tables([table(0, 4), table(4, 9)])).identity
    )


def test_generator(read) -> None:
    def rows(parts, times=1):
        for part in parts:
            for i in range(10):
                yield {"part": part, "i": i * times}

    source = GeneratorSource(rows, {"parts": ["a", "b", "c"], "times": 2})
    assert source.num_shards == 3
    assert read.check(source)[10] == {"part": "b", "i": 0}
    assert [row["part"] for row in read.check(source.select_shards([2, 0]))][::10] == ["c", "a"]
    assert source.identity != GeneratorSource(rows, {"parts": ["a", "b", "c"], "times": 3}).identity
    with pytest.raises(InputError, match="equally long"):
        GeneratorSource(rows, {"parts": [1], "times": [1, 2]})


def test_a_generator_is_not_run_further_than_needed() -> None:
    made = []

    def rows():
        for i in range(1000):
            made.append(i)
            yield {"i": i}

    chunks = GeneratorSource(rows).read(0)
    assert next(chunks).count == 1
    chunks.close()
    assert made == [0]


def test_rows_before_a_generators_error_are_given(read) -> None:
    def rows():
        for i in range(5):
            yield {"i": i}
        raise ValueError("broken")

    found = []
    with pytest.raises(ValueError, match="broken"):
        for chunk in GeneratorSource(rows).read(0):
            found += chunk.rows
    assert found == [{"i": i} for i in range(5)]


def test_a_generator_of_something_else(read) -> None:
    with pytest.raises(InputError, match="Row 0 is int, not a dict"):
        read.rows(GeneratorSource(lambda: iter([1])))


# ---------------------------------------------------------------------- made of others


def test_pieces_and_joins(read) -> None:
    one, two = TableSource(table(0, 50), num_shards=2), TableSource(table(50, 80))
    both = ConcatSource([one, two])
    assert read.check(both, every=7) == table(0, 80).to_pylist()
    assert both.rows_at(np.array([79, 0, 50, 49]))["i"].to_pylist() == [79, 0, 50, 49]
    part = row_range(both, 20, 60)
    assert read.check(part, every=3) == table(20, 60).to_pylist()
    assert part.rows_at(np.array([0, 39]))["i"].to_pylist() == [20, 59]
    assert read.check(part.reshard(9), every=5) == table(20, 60).to_pylist()
    assert read.rows(part.columns(["i"]))[0] == {"i": 20}
    assert row_range(both, 5, 5).num_shards == 0
    open_end = PiecesSource(both, [(1, 20, None), (0, 3, 3)])
    assert [row["i"] for row in read.check(open_end)] == [45, 46, 47, 48, 49]
    with pytest.raises(InputError, match="different columns"):
        ConcatSource([one, TableSource(pa.table({"x": [1]}))])


def test_cast(read) -> None:
    wanted = Features({"i": Value("string")})
    source = CastSource(TableSource(table(0, 3)), wanted)
    assert read.check(source) == [{"i": "0"}, {"i": "1"}, {"i": "2"}]
    assert source.rows_at(np.array([2])).to_pylist() == [{"i": "2"}]
    with pytest.raises(ColumnError, match="no column 'j'"):
        CastSource(TableSource(table(0, 3)), Features({"j": Value("string")}))


def test_unknown_columns_and_shards_are_named(parquet) -> None:
    source = ParquetSource(parquet)
    with pytest.raises(ColumnError, match="no column 'ii'") as caught:
        source.columns(["ii"])
    assert "'i'" in str(caught.value.hint)
    with pytest.raises(UnknownReference, match="Shard 3"):
        source.select_shards([3])


def test_what_has_no_random_access_says_so(files) -> None:
    with pytest.raises(ProvenderError, match="no random access"):
        GeneratorSource(lambda: iter([])).rows_at(np.array([0]))
