"""Finding and writing: hits, damage, moved folders, read-only folders, forced recomputation."""

from __future__ import annotations

import dataclasses
import gc
import json
import logging
import os
import pickle
import shutil
import subprocess
import threading
import time
from pathlib import Path

import pyarrow as pa
import pytest
from tests.data.cache.programs import (
    FP,
    OTHER,
    RECIPE,
    compute,
    doubled,
    is_right,
    pieces,
    program,
    run,
)

from provender.data.cache import Entry, Recipe, TransformCache, proof
from provender.data.cache.manifest import MANIFEST, Manifest
from provender.errors import ProvenderError, SettingsError, StoreError


def flip(path: Path, at: int = -9) -> None:
    """Changes one byte and sets the modification time back."""
    about = path.stat()
    data = bytearray(path.read_bytes())
    data[at] ^= 1
    path.write_bytes(data)
    os.utime(path, ns=(about.st_atime_ns, about.st_mtime_ns))


def test_computed_once_and_found_in_another_process(tmp_path: Path) -> None:
    text = """
        calls = []
        entry = compute(TransformCache(sys.argv[1]), calls=calls)
        assert is_right(entry)
        print(len(calls))
        """
    assert [run(text, tmp_path / "cache") for _ in range(2)] == ["400\n", "0\n"]


def test_nothing_is_found_before_it_is_complete(cache: TransformCache) -> None:
    assert cache.find(FP) is None
    assert not cache.folder.exists()
    with cache.writing(FP, RECIPE) as work:
        assert cache.find(FP) is None
        for start, stop in work.missing(20):
            with work.segment(start, stop) as out:
                out.write(doubled(start, stop))
        assert cache.find(FP) is None
        entry = work.commit(None, 20)
    assert is_right(entry, 20)
    assert is_right(cache.find(FP), 20)
    assert cache.find(OTHER) is None


def test_what_is_given_to_commit_comes_back(cache: TransformCache) -> None:
    class Features:
        def to_dict(self) -> dict[str, object]:
            return {"x": {"_type": "Value", "dtype": "int64"}}

    with cache.writing(FP, RECIPE) as work:
        work.missing(0)
        schema = doubled(0, 0).schema.with_metadata({"k": "v"})
        work.commit(Features(), 0, schema=schema, facts={"split": "train"})
    entry = cache.find(FP)
    assert entry is not None
    assert entry.features == {"x": {"_type": "Value", "dtype": "int64"}}
    assert entry.facts == {"split": "train"}
    assert entry.schema.metadata == {b"k": b"v"}
    assert (entry.rows, entry.size, entry.segments, entry.files) == (0, 0, (), [])
    assert entry.table().equals(doubled(0, 0))
    assert entry.manifest.recipe == RECIPE
    assert "map(double)" in repr(entry)


def test_a_result_that_is_not_whole_is_not_committed(cache: TransformCache) -> None:
    with pytest.raises(ProvenderError, match="input rows 5-10, 15-20 were not written"):
        with cache.writing(FP, RECIPE) as work:
            work.missing(20)
            for start, stop in ((0, 5), (10, 15)):
                with work.segment(start, stop) as out:
                    out.write(doubled(start, stop))
            work.commit()
    with pytest.raises(ProvenderError, match="hold 20 rows, but 21 were made"):
        with cache.writing(FP, RECIPE) as work:
            assert [(each.start, each.stop) for each in work.segments] == [(0, 5), (10, 15)]
            assert work.read(work.segments[1]).equals(doubled(10, 15))
            for start, stop in work.missing(20):
                with work.segment(start, stop) as out:
                    out.write(doubled(start, stop))
            work.commit(rows=21)
    assert cache.find(FP) is None


def test_pieces_of_other_types_are_refused(cache: TransformCache) -> None:
    with pytest.raises(ProvenderError, match=r"Input rows 5-9 gave other types .* x: string"):
        with cache.writing(FP, RECIPE) as work:
            work.missing(9)
            with work.segment(0, 5) as out:
                out.write(doubled(0, 5))
            with work.segment(5, 9) as out:
                out.write(pa.table({"x": list("abcd")}))
            work.commit()
    with cache.writing(FP, RECIPE) as work:
        work.drop(work.segments[1:])
        assert work.missing(9) == [(start, start + 1) for start in range(5, 9)]
        with work.segment(5, 9) as out:
            out.write(doubled(5, 9))
        work.commit()
    assert is_right(cache.find(FP), 9)


def test_a_result_without_rows_needs_a_schema(cache: TransformCache) -> None:
    with pytest.raises(ProvenderError, match="needs a schema"):
        with cache.writing(FP, RECIPE) as work:
            work.missing(0)
            work.commit()


def test_an_input_of_unknown_length(cache: TransformCache) -> None:
    with cache.writing(FP, RECIPE) as work:
        with work.segment(0) as out:
            for start in range(0, 30, 10):
                out.write(doubled(start, start + 10))
                out.mark(start + 10)
        work.commit()
    assert is_right(cache.find(FP), 30)


@pytest.mark.parametrize("text", ["", "xyz", "../../etc/passwd", "AB" * 20, "ab" * 33, "a" * 15])
def test_what_cannot_be_a_fingerprint(cache: TransformCache, text: str) -> None:
    with pytest.raises(SettingsError, match="cannot be a fingerprint"):
        cache.find(text)


# --- damage ------------------------------------------------------------------------------------------


def damage_by_flipping(path: Path) -> None:
    flip(path)


def damage_by_cutting(path: Path) -> None:
    with path.open("r+b") as file:
        file.truncate(path.stat().st_size - 2)


def damage_by_removing(path: Path) -> None:
    path.unlink()


def damage_by_emptying(path: Path) -> None:
    path.write_bytes(b"")


@pytest.mark.parametrize("always_read", [True, False], ids=["small", "large"])
@pytest.mark.parametrize(
    "damage", [damage_by_flipping, damage_by_cutting, damage_by_removing, damage_by_emptying]
)
def test_damage_is_noticed_and_that_range_alone_is_computed_again(
    cache: TransformCache, damage: object, always_read: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not always_read:
        monkeypatch.setattr(proof, "ALWAYS_READ_BYTES", 0)
        monkeypatch.setattr(proof, "_RACY_NS", 0)
    entry = compute(cache)
    assert is_right(cache.find(FP))
    damage(pieces(entry)[3])  # type: ignore[operator]
    assert cache.find(FP) is None
    calls: list[int] = []
    assert is_right(compute(cache, calls=calls))
    assert calls == list(range(75, 100))
    assert is_right(cache.find(FP))


def test_an_open_table_survives_that_its_file_is_replaced(cache: TransformCache) -> None:
    entry = compute(cache)
    table = entry.table()
    pieces(entry)[0].unlink()
    assert table.equals(doubled(0, 400))
    assert cache.find(FP) is None
    compute(cache)
    assert table.equals(doubled(0, 400))


def test_a_damaged_manifest_costs_no_computation(cache: TransformCache) -> None:
    for damage in (damage_by_flipping, damage_by_cutting, damage_by_emptying):
        entry = compute(cache)
        damage(entry.folder / MANIFEST)
        assert cache.find(FP) is None
        calls: list[int] = []
        assert is_right(compute(cache, calls=calls))
        assert calls == []


def test_a_manifest_of_another_entry_is_not_believed(cache: TransformCache) -> None:
    entry = compute(cache)
    shutil.copytree(entry.folder, cache.entry_folder(OTHER))
    assert cache.find(OTHER) is None
    assert is_right(cache.find(FP))


def test_a_file_that_was_only_touched_is_a_hit(
    cache: TransformCache, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(proof, "ALWAYS_READ_BYTES", 0)
    for path in pieces(compute(cache)):
        os.utime(path)
    assert is_right(cache.find(FP))


def test_a_large_entry_is_read_once_and_again_only_where_it_changed(
    cache: TransformCache, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(proof, "ALWAYS_READ_BYTES", 0)
    monkeypatch.setattr(proof, "_RACY_NS", 0)
    read: list[str] = []
    digest_of = proof.digest_of
    monkeypatch.setattr(proof, "digest_of", lambda path: read.append(path) or digest_of(path))
    entry = compute(cache)
    assert is_right(cache.find(FP))
    assert sorted(read) == [str(each) for each in pieces(entry)]
    read.clear()
    assert is_right(cache.find(FP))
    assert read == []
    os.utime(pieces(entry)[2])
    assert is_right(cache.find(FP))
    assert read == [str(pieces(entry)[2])]
    read.clear()
    monkeypatch.setattr(proof, "_boot", lambda: "another boot")
    assert is_right(cache.find(FP))
    assert len(read) == 16


def test_a_young_file_is_not_remembered_as_proven(
    cache: TransformCache, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Within one tick of the clock a change would not show."""
    monkeypatch.setattr(proof, "ALWAYS_READ_BYTES", 0)
    entry = compute(cache)
    assert is_right(cache.find(FP))
    assert not (entry.folder / proof.MEMO).exists()


# --- moving, copying, sending ---------------------------------------------------------------------


@pytest.mark.parametrize("how", [shutil.copytree, shutil.move])
def test_a_cache_can_be_moved_and_copied(
    cache: TransformCache, tmp_path: Path, how: object
) -> None:
    folder = compute(cache).folder
    for path in folder.iterdir():
        assert str(tmp_path) not in path.read_bytes().decode("latin-1")
    how(str(cache.folder), str(tmp_path / "elsewhere"))  # type: ignore[operator]
    calls: list[int] = []
    assert is_right(compute(TransformCache(tmp_path / "elsewhere"), calls=calls))
    assert calls == []


def test_one_entry_can_be_copied_into_another_cache(cache: TransformCache, tmp_path: Path) -> None:
    other = TransformCache(tmp_path / "other")
    shutil.copytree(compute(cache).folder, other.entry_folder(FP))
    assert is_right(other.find(FP))


def test_entries_can_be_sent_to_other_processes(cache: TransformCache, tmp_path: Path) -> None:
    (tmp_path / "entry").write_bytes(pickle.dumps(compute(cache)))
    text = """
        import pickle
        from pathlib import Path
        entry = pickle.loads(Path(sys.argv[1]).read_bytes())
        assert is_right(entry), entry
        """
    run(text, tmp_path / "entry")
    shutil.rmtree(cache.folder)
    with pytest.raises(StoreError, match="was removed from the transform cache"):
        pickle.loads((tmp_path / "entry").read_bytes())


def test_nothing_in_the_cache_is_pickled(cache: TransformCache) -> None:
    folder = compute(cache).folder
    for path in cache.folder.rglob("*"):
        if path.is_file():
            assert path.suffix in (".arrow", ".json") or path.parent.name == "pins", path
    json.loads((folder / MANIFEST).read_bytes().split(b"\n")[0])


# --- read-only folders ----------------------------------------------------------------------------


def test_a_read_only_cache_gives_hits(tmp_path: Path) -> None:
    cache = TransformCache(tmp_path / "cache")
    flipped = pieces(compute(cache, OTHER))[0]
    flip(flipped)
    compute(cache)
    view = tmp_path / "view"
    view.mkdir()
    script = (
        f"mount --bind {cache.folder} {view} && mount -o remount,bind,ro {view} || exit 77; "
        'exec "$@"'
    )
    text = """
        import logging
        from provender.errors import StoreError
        cache = TransformCache(sys.argv[1])
        assert is_right(cache.find(FP))
        assert is_right(cache.find(FP))
        assert cache.find(OTHER) is None     # damaged
        try:
            compute(cache, "12" * 20)
        except StoreError as error:
            print(error)
        """
    done = subprocess.run(
        ["unshare", "--mount", "sh", "-c", script, "sh", *program(text), str(view)],
        capture_output=True,
        text=True,
    )
    if done.returncode == 77 or "unshare" in done.stderr:
        pytest.skip(f"nothing can be mounted here: {done.stderr}")
    assert done.returncode == 0, done.stderr
    assert "The transform cache cannot be written: Read-only file system." in done.stdout
    assert "cannot be mended" in done.stderr


# --- forced recomputation -------------------------------------------------------------------------


def test_fresh_computes_again_and_replaces(cache: TransformCache) -> None:
    old = compute(cache)
    table = old.table()
    calls: list[int] = []
    new = compute(cache, total=200, fresh=True, calls=calls)
    assert len(calls) == 200
    assert is_right(new, 200)
    assert is_right(cache.find(FP), 200)
    assert table.equals(doubled(0, 400))


# --- threads --------------------------------------------------------------------------------------


def test_threads_compute_one_result_once(cache: TransformCache) -> None:
    calls: list[int] = []
    entries: list[Entry] = []

    def work() -> None:
        entries.append(compute(cache, calls=calls, before=lambda row: time.sleep(0.0005)))

    threads = [threading.Thread(target=work) for _ in range(4)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    assert sorted(calls) == list(range(400))
    assert len(entries) == 4
    assert all(is_right(each) for each in entries)


def test_a_thread_that_waits_for_itself_is_told(cache: TransformCache) -> None:
    with pytest.raises(ProvenderError, match="asks for its own result"):
        with cache.writing(FP, RECIPE):
            compute(cache)


def test_nested_results_of_other_fingerprints(cache: TransformCache) -> None:
    with cache.writing(FP, RECIPE):
        assert is_right(compute(cache, OTHER))


# --- what is said ---------------------------------------------------------------------------------


def test_one_line_says_why_and_a_hit_says_nothing(
    cache: TransformCache, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "provender.data")
    compute(cache)
    [line] = [each.getMessage() for each in caplog.records]
    assert line == "map(double) of numbers is computed (abababababab): never run before"
    caplog.clear()
    compute(cache)
    assert caplog.records == []


def test_entries_are_let_go_by_the_garbage_collector(cache: TransformCache) -> None:
    entry = compute(cache)
    assert cache.in_use() == {FP}
    again = cache.find(FP)
    assert again is not None
    del entry
    gc.collect()
    assert cache.in_use() == {FP}
    again.release()
    again.release()
    assert cache.in_use() == frozenset()
    compute(cache)
    gc.collect()
    assert cache.in_use() == frozenset()


def test_many_uses_do_not_make_the_list_of_uses_long(cache: TransformCache) -> None:
    kept = compute(cache)
    cache._pins._COMPACT = 50  # type: ignore[misc]
    for _ in range(300):
        entry = cache.find(FP)
        assert entry is not None
        cache._pins.pin(OTHER)()
    lines = [path.read_text().count("\n") for path in (cache.folder / "pins").iterdir()]
    assert max(lines) < 60
    assert cache.in_use() == {FP}
    del kept, entry


def test_a_manifest_cannot_name_files_elsewhere(cache: TransformCache, tmp_path: Path) -> None:
    """Even one that is consistent in itself, in a cache that came from somewhere."""
    (tmp_path / "precious.arrow").write_bytes(b"x")
    entry = compute(cache, total=1)
    [segment] = entry.segments
    outside = dataclasses.replace(segment, digest="/../../../../../../precious")
    dataclasses.replace(entry.manifest, segments=(outside,)).write(str(entry.folder))
    assert cache.find(FP) is None
    assert (tmp_path / "precious.arrow").exists()
    assert is_right(compute(cache, total=1), 1)


def test_manifests_read_back_as_they_were_written(cache: TransformCache) -> None:
    entry = compute(cache, recipe=Recipe("map", "ü/ñ", "d", "c", ("ff" * 20,), {"k": "'v'"}))
    read = Manifest.read(str(entry.folder), FP)
    assert read == entry.manifest
    assert read is not None
    assert read.recipe.parents == ("ff" * 20,)
