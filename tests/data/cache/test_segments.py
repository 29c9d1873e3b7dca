"""One piece: what is committed, when, and what is left of one that failed."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pytest
from tests.data.cache.programs import FP, RECIPE, compute, doubled, is_right, run

from provender.data.cache import Segment, SegmentWriter, TransformCache
from provender.data.cache.proof import damaged, digest_of
from provender.errors import DiskFull, ProvenderError, StoreError


def files(folder: Path) -> list[str]:
    return sorted(each.name for each in folder.iterdir())


def spans(folder: Path) -> list[tuple[int, int, int]]:
    found = [Segment.from_file(name) for name in files(folder)]
    return [(each.start, each.stop, each.rows) for each in found if each]


def test_a_clean_end_commits_all_under_a_name_that_proves_it(tmp_path: Path) -> None:
    with SegmentWriter(tmp_path).segment(5, 10) as out:
        out.write(doubled(5, 8))
        out.write(doubled(8, 10))
    [segment] = out.segments
    assert files(tmp_path) == [segment.file]
    path = tmp_path / segment.file
    assert (segment.start, segment.stop, segment.rows) == (5, 10, 5)
    assert segment.size == path.stat().st_size
    assert segment.digest == digest_of(str(path))
    assert damaged(str(tmp_path), [segment]) == []
    assert pa.ipc.open_stream(path.read_bytes()).read_all().equals(doubled(5, 10))


@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt, SystemExit])
def test_an_error_keeps_what_was_marked(tmp_path: Path, error: type[BaseException]) -> None:
    with pytest.raises(error), SegmentWriter(tmp_path).segment(0, 10) as out:
        out.write(doubled(0, 3))
        out.mark(3)
        out.write(doubled(3, 5))
        raise error
    assert spans(tmp_path) == [(0, 3, 3)]
    assert len(files(tmp_path)) == 1


@pytest.mark.parametrize("marked", [None, 0, 4])
def test_an_error_leaves_nothing_where_nothing_whole_is_there(
    tmp_path: Path, marked: int | None
) -> None:
    """4 is no multiple of the batch size: what was made of a part of a batch is not kept."""
    with pytest.raises(ValueError), SegmentWriter(tmp_path, align=3).segment(0, 9) as out:
        out.write(doubled(0, 4))
        if marked is not None:
            out.mark(marked)
        raise ValueError
    assert files(tmp_path) == []


def test_slow_work_is_committed_on_the_way(tmp_path: Path) -> None:
    with SegmentWriter(tmp_path, align=2, cut_seconds=0).segment(0, 9) as out:
        for row in range(9):
            out.write(doubled(row, row + 1))
            out.mark(row + 1)
    assert spans(tmp_path) == [(0, 2, 2), (2, 4, 2), (4, 6, 2), (6, 8, 2), (8, 9, 1)]
    assert out.rows == 9
    assert [each.file for each in out.segments] == files(tmp_path)


def test_a_range_that_gives_no_rows(tmp_path: Path) -> None:
    with SegmentWriter(tmp_path).segment(0, 9) as out:
        out.write(doubled(0, 0))
    assert spans(tmp_path) == [(0, 9, 0)]


def test_a_range_for_which_nothing_was_written_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ProvenderError, match="Nothing was written for the input rows 0 to 9"):
        with SegmentWriter(tmp_path).segment(0, 9):
            pass
    assert files(tmp_path) == []


def test_an_end_that_is_not_known_before(tmp_path: Path) -> None:
    with SegmentWriter(tmp_path).segment(7) as out:
        out.write(doubled(7, 12))
        out.mark(12)
        out.write(doubled(12, 14))
    assert spans(tmp_path) == [(7, 14, 7)]
    with SegmentWriter(tmp_path).segment(14):
        pass
    assert spans(tmp_path) == [(7, 14, 7)]


def test_rows_that_differ_in_schema_are_refused_and_named(tmp_path: Path) -> None:
    with pytest.raises(ProvenderError, match=r"x: string after x: int64"):
        with SegmentWriter(tmp_path).segment(0, 9) as out:
            out.write(doubled(0, 3))
            out.write(pa.table({"x": ["a"]}))
    assert files(tmp_path) == []


def test_metadata_of_the_first_table_is_kept(tmp_path: Path) -> None:
    first = doubled(0, 1).replace_schema_metadata({"huggingface": "{}"})
    with SegmentWriter(tmp_path).segment(0, 2) as out:
        out.write(first)
        out.write(doubled(1, 2))
    stream = pa.ipc.open_stream((tmp_path / out.segments[0].file).read_bytes())
    assert stream.schema.metadata == {b"huggingface": b"{}"}


def test_many_small_writes_become_one_batch(tmp_path: Path) -> None:
    with SegmentWriter(tmp_path).segment(0, 100) as out:
        for row in range(100):
            out.write(doubled(row, row + 1))
            out.mark(row + 1)
    data = (tmp_path / out.segments[0].file).read_bytes()
    assert len(list(pa.ipc.open_stream(data))) == 1


def test_slices_are_written_without_what_lies_around_them(tmp_path: Path) -> None:
    large = doubled(0, 100_000)
    with SegmentWriter(tmp_path).segment(0, 10) as out:
        out.write(large.slice(500, 10))
    assert out.segments[0].size < 2000


@pytest.mark.parametrize(
    "array",
    [
        pa.array(["a", None, "b"]).dictionary_encode(),
        pa.array([[1], [], None]),
        pa.array([{"a": 1, "b": "x"}, None, {"a": None, "b": ""}]),
        pa.array([None, None, None]),
        pa.array([b"\0", b"", None], pa.large_binary()),
        pa.FixedShapeTensorArray.from_numpy_ndarray(
            __import__("numpy").arange(12.0).reshape(3, 2, 2)
        ),
    ],
    ids=["dictionary", "list", "struct", "null", "large binary", "extension"],
)
def test_every_kind_of_column_comes_back(cache: TransformCache, array: pa.Array) -> None:
    table = pa.table({"c": array})
    with cache.writing(FP, RECIPE) as work:
        for start, stop in work.missing(3):
            with work.segment(start, stop) as out:
                out.write(table.slice(start, stop - start))
        work.commit()
    entry = cache.find(FP)
    assert entry is not None
    assert entry.table().to_pylist() == table.to_pylist()
    assert entry.schema.equals(table.schema)


def test_a_worker_commits_through_a_handle(cache: TransformCache) -> None:
    with cache.writing(FP, RECIPE) as work:
        todo = work.missing(400, 10)
        run(
            """
            from provender.data.cache import SegmentWriter
            writer = SegmentWriter.attach(sys.argv[1])
            assert writer.align == 10
            for start in range(0, 400, 20):
                with writer.segment(start, start + 20) as out:
                    out.write(doubled(start, start + 20))
            """,
            work.handle(),
        )
        assert todo == [(start, start + 20) for start in range(0, 400, 20)]
        work.commit(rows=400)
    assert is_right(cache.find(FP))


# --- full disks and folders that cannot be written -------------------------------------------------


def test_a_full_disk_is_told_and_finished_pieces_are_gone_on_from(tmp_path: Path) -> None:
    disk = tmp_path / "disk"
    disk.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=600k", "none", str(disk)]
    mounted = subprocess.run(mount, capture_output=True)
    if mounted.returncode:
        pytest.skip(f"no small disk can be made here: {mounted.stderr.decode()}")
    try:
        cache = TransformCache(disk / "cache")
        total = 200_000
        with pytest.raises(DiskFull, match="No space is left in the transform cache") as caught:
            with cache.writing(FP, RECIPE) as work:
                for start, stop in work.missing(total):
                    with work.segment(start, stop) as out:
                        out.write(doubled(start, stop))
                        out.mark(stop)
                work.commit()
        assert "provender cache rm" in str(caught.value.hint)
        assert caught.value.facts["free"] is not None
        folder = Path(cache.entry_folder(FP))
        assert not [name for name in files(folder) if name.startswith(".tmp")]
        kept = spans(folder)
        assert kept
        subprocess.run(["mount", "-o", "remount,size=8m", str(disk)], check=True)
        with cache.writing(FP, RECIPE) as work:
            assert len(work.segments) == len(kept)
            for start, stop in work.missing(total):
                assert start >= kept[-1][1]
                with work.segment(start, stop) as out:
                    out.write(doubled(start, stop))
            work.commit()
        assert is_right(cache.find(FP), total)
    finally:
        subprocess.run(["umount", "-l", str(disk)], check=True)


def test_a_disk_that_is_full_at_any_point(tmp_path: Path) -> None:
    """Sizes from nothing to nearly enough: each time an error, and a right result afterwards."""
    disk = tmp_path / "disk"
    disk.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=4k", "none", str(disk)]
    mounted = subprocess.run(mount, capture_output=True)
    if mounted.returncode:
        pytest.skip(f"no small disk can be made here: {mounted.stderr.decode()}")
    failed = 0
    try:
        for number, size in enumerate(range(4, 120, 8)):
            subprocess.run(["mount", "-o", f"remount,size={size}k", str(disk)], check=True)
            cache = TransformCache(disk / str(number), limit=1 << 30)
            calls: list[int] = []
            try:
                compute(cache, total=64, calls=calls)
            except DiskFull:
                failed += 1
                found = cache.find(FP)
                assert found is None or is_right(found, 64)
            subprocess.run(["mount", "-o", "remount,size=1m", str(disk)], check=True)
            assert is_right(compute(cache, total=64, calls=calls), 64)
            assert is_right(cache.find(FP), 64)
            assert len(calls) <= 64 + 4
            shutil.rmtree(cache.folder)
    finally:
        subprocess.run(["umount", "-l", str(disk)], check=True)
    assert failed > 5


def test_a_file_size_limit_is_a_full_disk(tmp_path: Path) -> None:
    text = run(
        """
        import resource, signal
        from provender.errors import DiskFull
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (40_000, 40_000))
        cache = TransformCache(sys.argv[1])
        try:
            compute(cache, total=400_000, step=25_000)
        except DiskFull as error:
            print(error)
        print(cache.find(FP))
        """,
        tmp_path,
    )
    assert "No space is left in the transform cache for" in text
    assert text.endswith("None\n")
    assert is_right_after(tmp_path)


def is_right_after(folder: Path) -> bool:
    return is_right(compute(TransformCache(folder), total=400_000, step=25_000), 400_000)


def test_a_folder_that_is_a_file(tmp_path: Path) -> None:
    (tmp_path / "cache").write_text("")
    cache = TransformCache(tmp_path / "cache")
    assert cache.find(FP) is None
    with pytest.raises(StoreError, match="cannot be written") as caught:
        with cache.writing(FP, RECIPE):
            pass
    assert "PROVENDER_CACHE" in str(caught.value.hint)


def test_importing_the_writer_does_not_load_arrow() -> None:
    program = (
        "import sys; from provender.data.cache import SegmentWriter, TransformCache, units;"
        "print([m for m in ('pyarrow', 'numpy', 'sqlalchemy', 'xxhash') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.stdout.strip() == "[]", done.stderr
