"""Sources over real servers that refuse, cut, delay and change: complete, in order, and little read."""

from __future__ import annotations

import json
import re
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from provender.data.sources import (
    JsonLinesSource,
    ParquetSource,
    ReadOptions,
    TextSource,
    VersionSource,
)
from provender.data.sources.access import ByteStream, open_reader, place_of, transfer
from provender.errors import DamageError, StoreError

pytestmark = pytest.mark.usefixtures("no_threads_left")


@pytest.fixture
def published(gcs, make_version, tmp_path) -> Any:
    """Puts a version into the bucket; gives its source data."""

    def publish(count: int, shards: int, pad: int = 0) -> Any:
        folder = tmp_path / "upload"
        data = make_version(count, shards, pad=pad, folder=folder, at=f"{gcs.url}/v")
        for path in folder.rglob("*"):
            if path.is_file():
                gcs.store.write(f"v/{path.relative_to(folder)}", path.read_bytes())
        gcs.proxy.log.clear()
        return data

    return publish


def data_requests(gcs: Any) -> list[str]:
    return [line for line in gcs.proxy.log if "alt=media" in line]


def opened(gcs: Any) -> set[str]:
    return {found[0] for line in gcs.proxy.log if (found := re.search(r"tfrecord-\d{5}", line))}


def test_the_first_row_of_64_shards_reads_one(gcs, published) -> None:
    source = VersionSource(published(6400, 64, pad=2000))
    chunks = source.read(0)
    assert next(chunks).table["i"][0].as_py() == 0
    chunks.close()
    assert opened(gcs) == {"tfrecord-00000"}
    (asked,) = data_requests(gcs)
    assert "generation=" in asked


def test_a_stream_with_faults_is_complete_and_in_order(gcs, published, read) -> None:
    data = published(2000, 4, pad=500)
    gcs.proxy.faults += [
        gcs.Fault("status", "alt=media", times=3, status=503),
        gcs.Fault("cut answer", "alt=media", times=6),
        gcs.Fault("status", "alt=media", times=2, status=429, headers={"Retry-After": "0"}),
        gcs.Fault("lost answer", "alt=media", times=2),
    ]
    assert [row["i"] for row in read.rows(VersionSource(data))] == list(range(2000))
    assert all(fault.times == 0 for fault in gcs.proxy.faults)


def test_a_cut_read_goes_on_at_the_byte(gcs) -> None:
    gcs.put("a.txt", b"x" * 50_000 + b"y" * 50_000)
    file = place_of(f"{gcs.url}/a.txt").stat(f"{gcs.url}/a.txt")
    asked: list[str] = []

    with open_reader(file) as reader:
        real = transfer.ranged

        async def watched(request: Any, *args: Any, **kwargs: Any) -> bytes:
            def recorded(headers: Any) -> Any:
                asked.append(headers["Range"])
                return request(headers)

            return await real(recorded, *args, **kwargs)

        from provender.data.sources.access import gcs as module

        module.ranged, kept = watched, module.ranged
        try:
            gcs.proxy.faults.append(gcs.Fault("cut answer", "alt=media"))
            data = reader.read(0, 100_000)
        finally:
            module.ranged = kept
    assert data == b"x" * 50_000 + b"y" * 50_000
    assert asked == ["bytes=0-99999", "bytes=50000-99999"]


def test_an_object_replaced_under_a_stream_is_refused(gcs) -> None:
    gcs.put("a.jsonl", b'{"i": 1}\n' * 60_000)
    source = JsonLinesSource(place_of(gcs.url).find(f"{gcs.url}/a.jsonl"))
    chunks = source.read(0)
    next(chunks)
    gcs.put("a.jsonl", b'{"i": 2}\n' * 60_000)
    with pytest.raises(StoreError, match="changed while it was in use"):
        list(chunks)
    again = JsonLinesSource(place_of(gcs.url).find(f"{gcs.url}/a.jsonl"))
    assert again.identity != source.identity


def test_another_object_in_a_shards_place_is_refused(
    gcs, published, make_version, tmp_path, read
) -> None:
    data = published(100, 2)
    other = make_version(120, 2, pad=1, folder=tmp_path / "other")
    gcs.put(f"v/{data.shards[0].name}", Path(other.shards[0].url).read_bytes())
    with pytest.raises(DamageError, match="is not the file that was published"):
        read.rows(VersionSource(data))
    skipping = VersionSource(data, ReadOptions(on_error="skip"))
    assert len(read.rows(skipping)) == 50
    assert skipping.skipped == {"shards": 1}


def test_damage_in_an_object_is_told_by_record(gcs, published, read) -> None:
    data = published(100, 2)
    broken = bytearray(gcs.store.read(f"v/{data.shards[1].name}"))
    broken[-10] ^= 1
    gcs.put(f"v/{data.shards[1].name}", bytes(broken))
    with pytest.raises(DamageError, match="record 49 at byte"):
        read.rows(VersionSource(data))
    skipping = VersionSource(data, ReadOptions(on_error="skip"))
    assert len(read.rows(skipping)) == 99


def test_resuming_costs_one_range(gcs, published, read) -> None:
    source = VersionSource(published(3000, 2, pad=300))
    chunks = source.read(1)
    place = next(chunks).next
    chunks.close()
    gcs.proxy.log.clear()
    again = source.read(1, place)
    assert next(again).row == place["row"]
    again.close()
    assert len(data_requests(gcs)) == 1


def test_rows_at_random_are_few_reads(gcs, published) -> None:
    source = VersionSource(published(3000, 3, pad=100))
    wanted = np.concatenate([np.arange(1500, 1800)[::-1], [5]])
    assert source.rows_at(wanted)["i"].to_pylist() == wanted.tolist()
    assert len(data_requests(gcs)) == 4  # two indexes, two ranges
    gcs.proxy.log.clear()
    source.rows_at(wanted)
    assert len(data_requests(gcs)) == 2


def test_a_missing_shard_is_named(gcs, published, read) -> None:
    data = published(30, 3)
    gcs.store.remove(f"v/{data.shards[1].name}")
    with pytest.raises(StoreError, match=f"missing: {data.shards[1].name}"):
        read.rows(VersionSource(data))


@pytest.fixture
def shards(tmp_path, monkeypatch) -> Path:
    """A shard cache of its own."""
    from provender.training import shard_cache

    monkeypatch.setenv("PROVENDER_SHARD_CACHE", str(tmp_path / "shards"))
    monkeypatch.setattr(shard_cache, "_warned", set())
    return tmp_path / "shards"


def test_shards_are_read_from_the_cache_the_second_time(gcs, published, read, shards) -> None:
    source = VersionSource(published(900, 3, pad=300), ReadOptions(cache=True))
    gcs.proxy.faults.append(gcs.Fault("cut answer", "alt=media", times=2))
    assert [row["i"] for row in read.rows(source)] == list(range(900))
    assert len([path for path in shards.rglob("*") if path.is_file() and "." not in path.name]) == 3
    gcs.proxy.log.clear()
    assert [row["i"] for row in read.rows(source)] == list(range(900))
    assert source.rows_at(np.array([899, 0]))["i"].to_pylist() == [899, 0]
    assert [line for line in data_requests(gcs) if "index" not in line] == []


def test_a_cache_without_room_is_passed_by_with_one_warning(
    gcs, published, read, shards, monkeypatch
) -> None:
    monkeypatch.setenv("PROVENDER_SHARD_CACHE_LIMIT", "1000")
    source = VersionSource(published(300, 3, pad=300), ReadOptions(cache=True))
    with pytest.warns(RuntimeWarning, match="streamed from their store") as caught:
        assert [row["i"] for row in read.rows(source)] == list(range(300))
    assert len(caught) == 1


def test_a_disk_that_fills_up_while_a_shard_comes(gcs, published, shards, tmp_path) -> None:
    """The file size limit stands for a full disk: both end a write in the middle."""
    import pickle
    import subprocess
    import sys

    data = published(3000, 1, pad=500)
    (tmp_path / "data.pkl").write_bytes(pickle.dumps(data))
    script = f"""
import pickle, resource, signal, warnings
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (500_000, 500_000))
from provender.data.sources import ReadOptions, VersionSource
data = pickle.load(open({str(tmp_path / "data.pkl")!r}, "rb"))
source = VersionSource(data, ReadOptions(cache=True))
with warnings.catch_warnings(record=True) as told:
    warnings.simplefilter("always")
    rows = sum(chunk.count for chunk in source.read(0))
print(rows, sum("shard cache" in str(each.message) for each in told))
"""
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True, timeout=120
    )
    assert done.stdout.split() == ["3000", "1"]
    assert list(shards.rglob("*.part*")) == []


@pytest.mark.parametrize("rows", [50, 40_000])
def test_parquet_over_ranges(gcs, tmp_path, read, rows: int) -> None:
    table = pa.table(
        {"i": range(rows), "t": [f"{i * 7919 % 1000003:08d}" * 4 for i in range(rows)]}
    )
    pq.write_table(table, tmp_path / "a.parquet", row_group_size=rows // 2, data_page_size=20_000)
    gcs.put("a.parquet", (tmp_path / "a.parquet").read_bytes())
    size = (tmp_path / "a.parquet").stat().st_size
    source = ParquetSource(place_of(gcs.url).find(f"{gcs.url}/*.parquet"))
    gcs.proxy.faults.append(gcs.Fault("cut answer", "alt=media", times=2))
    assert read.check(source, every=rows // 3) == table.to_pylist()
    gcs.proxy.log.clear()
    only = read.rows(source.columns(["i"]))
    assert only == [{"i": i} for i in range(rows)]
    if rows > 50:
        asked = sum(_length(line) for line in gcs.proxy.log)
        assert asked == 0 or asked < size  # what was not asked for is not read
    assert source.rows_at(np.array([rows - 1, 0]))["i"].to_pylist() == [rows - 1, 0]


def _length(line: str) -> int:
    found = re.search(r"bytes=(\d+)-(\d+)", line)
    return int(found[2]) - int(found[1]) + 1 if found else 0


def test_globs_and_contents_come_from_the_listing(gcs) -> None:
    for name in ("a/x-1.txt", "a/x-2.txt", "a/b/x-3.txt", "a/y.txt"):
        gcs.put(name, name.encode())
    place = place_of(gcs.url)
    gcs.proxy.log.clear()
    found = [file.url for file in place.find(f"{gcs.url}/a/x-*.txt")]
    assert found == [f"{gcs.url}/a/x-1.txt", f"{gcs.url}/a/x-2.txt"]
    assert [f.stem for f in place.find(f"{gcs.url}/a/**/x-[1-3].txt")] == [
        "x-3.txt",
        "x-1.txt",
        "x-2.txt",
    ]
    assert len(gcs.proxy.log) == 2
    assert all(file.content.startswith("crc32c:") for file in place.find(f"{gcs.url}/a/*"))
    with pytest.raises(StoreError, match="no bucket"):
        place_of("gs://no-such-bucket-here").find("gs://no-such-bucket-here/*.txt")


def _lines(count: int) -> bytes:
    return b"".join(b'{"i": %d}\n' % i for i in range(count))


@pytest.mark.parametrize("ranges", [True, False])
def test_a_web_server_with_and_without_ranges(web, read, ranges: bool) -> None:
    web.body, web.ranges = _lines(20_000), ranges
    web.cuts = 3
    source = JsonLinesSource(place_of(web.url).find(web.url))
    assert read.rows(source) == [{"i": i} for i in range(20_000)]
    assert web.cuts == 0 or not ranges
    assert read.rows(source.reshard(4)) == [{"i": i} for i in range(20_000)]


def test_a_web_file_that_changes_is_refused(web) -> None:
    web.body = _lines(50_000)
    source = JsonLinesSource(place_of(web.url).find(web.url))
    chunks = source.read(0)
    next(chunks)
    web.tag = '"2"'
    with pytest.raises(StoreError, match="ETag"):
        list(chunks)


def test_a_web_file_that_is_missing_has_no_files(web) -> None:
    assert place_of(web.url).find(f"http://127.0.0.1:{web.server_port + 0}/data.jsonl") != []
    with pytest.raises(StoreError, match="no listing"):
        place_of(web.url).find(web.url.replace("data", "*"))


def test_a_server_that_keeps_refusing_is_given_up(web, monkeypatch) -> None:
    web.body = _lines(50_000)
    file = place_of(web.url).stat(web.url)
    web.cuts = 10_000
    with open_reader(file) as reader:
        # Every try brings a third of what is left, so it ends all the same.
        assert reader.read(0, 300_000) == web.body[:300_000]
    web.cuts = 0

    async def refuse(*args: Any, **kwargs: Any) -> Any:
        raise ConnectionError("refused")

    from provender.data.sources.access import http

    monkeypatch.setattr(http.Http, "request", lambda self, session, url, headers: _Refusing())
    with open_reader(file) as reader, pytest.raises(StoreError, match=r"at byte 5 \(7 tries\)"):
        reader.read(5, 10)


class _Refusing:
    async def __aenter__(self) -> Any:
        raise ConnectionError("refused")

    async def __aexit__(self, *exc: object) -> None:
        return None


def test_closing_a_stream_does_not_wait_for_the_server(web) -> None:
    web.body = _lines(300_000)
    web.delay, web.delay_from = 20.0, 60_000
    source = JsonLinesSource(place_of(web.url).find(web.url), sample=1000)
    chunks = source.read(0)
    next(chunks)
    with open_reader(place_of(web.url).stat(web.url)) as reader:
        stream = ByteStream(reader, 0)
        next(stream)
        stream._fill()
        begun = time.monotonic()
        stream.close()
        chunks.close()
    assert time.monotonic() - begun < 5  # a hang limit; the server answers after 20 seconds


def test_what_is_read_ahead_is_bounded(web) -> None:
    web.body = b"x" * 3_000_000
    with open_reader(place_of(web.url).stat(web.url)) as reader:
        stream = ByteStream(reader, ahead=400_000)
        total = len(next(stream)) + len(next(stream))
        assert total < 300_000
        assert stream._under_way <= 400_000 + 256 * 1024
        assert sum(map(len, stream)) + total == 3_000_000


def test_memory_files_and_other_file_systems(read) -> None:
    import fsspec

    fs = fsspec.filesystem("memory")
    for number in range(2):
        fs.pipe(f"/lines/{number}.txt", f"a{number}\nb{number}\n".encode())
    found = place_of("memory://lines").find("memory://lines/*.txt")
    source = TextSource(found)
    assert [row["text"] for row in read.check(source)] == ["a0", "b0", "a1", "b1"]
    first = source.identity
    fs.pipe("/lines/1.txt", b"other\nb1\n")
    changed = TextSource(place_of("memory://lines").find("memory://lines/*.txt"))
    assert changed.identity != first


def test_a_file_in_an_archive(tmp_path, read) -> None:
    import zipfile

    with zipfile.ZipFile(tmp_path / "a.zip", "w") as archive:
        archive.writestr("in/a.jsonl", json.dumps({"i": 1}) + "\n")
    url = f"zip://in/a.jsonl::file://{tmp_path}/a.zip"
    assert read.check(JsonLinesSource(place_of(url).find(url))) == [{"i": 1}]


@pytest.mark.parametrize("names", [SimpleNamespace(a="x", b="y")], ids=["pair"])
def test_connections_are_kept_apart_by_options(names) -> None:
    one = place_of("https://example.org/a", {"headers": {"k": names.a}})
    two = place_of("https://example.org/a", {"headers": {"k": names.b}})
    assert one is not two
    assert place_of("https://example.org/b", {"headers": {"k": names.a}}) is one


def test_secrets_in_addresses_are_not_shown(web, read) -> None:
    from provender.data.loading.data_files import resolve
    from provender.errors import InputError

    secret = "s3cr3tvalue"
    url = f"{web.url}?token={secret}"
    web.files[f"/data.jsonl?token={secret}"] = b'{"i": x}\n'
    (file,) = resolve(url)["train"]
    with pytest.raises(InputError) as caught:
        read.rows(JsonLinesSource([file]))
    assert "data.jsonl" in str(caught.value)
    assert secret not in str(caught.value) + repr(caught.value.facts) + repr(file.options)
    with pytest.raises(StoreError) as refused:
        resolve(f"{web.base}/*.jsonl?token={secret}")
    assert secret not in str(refused.value)
