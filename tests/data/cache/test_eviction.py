"""The size limit: the least recently used goes, what is used or written stays, the dead are swept."""

from __future__ import annotations

import gc
import json
import os
import time
from pathlib import Path

import pytest
from tests.data.cache.programs import FP, OTHER, RECIPE, compute, is_right, pieces, start

from provender.data.cache import Recipe, TransformCache, upkeep
from provender.data.cache.upkeep import evict, listed, named, verify
from provender.errors import UnknownReference

DAY = 86400


def fingerprint(number: int) -> str:
    return f"{number:04x}" * 10


def used(cache: TransformCache, name: str, days_ago: float) -> None:
    when = time.time() - days_ago * DAY
    os.utime(Path(cache.entry_folder(name)) / "manifest.json", (when, when))


def size(cache: TransformCache) -> int:
    entries = cache.folder / "entries"
    return sum(each.stat().st_size for each in entries.rglob("*") if each.is_file())


def names(cache: TransformCache) -> set[str]:
    return {each.name for each in (cache.folder / "entries").glob("*/*")}


@pytest.fixture
def full(cache: TransformCache) -> TransformCache:
    """Five entries, the first the longest unused; none of them in use."""
    for number in range(5):
        compute(cache, fingerprint(number), total=64)
        used(cache, fingerprint(number), 5 - number)
    gc.collect()
    return cache


def test_without_a_limit_nothing_goes(full: TransformCache) -> None:
    assert full.shrink() == []
    assert len(names(full)) == 5


def test_the_least_recently_used_go_until_the_rest_fits(full: TransformCache) -> None:
    one = size(full) // 5
    assert full.shrink(3 * one + 100) == [fingerprint(0), fingerprint(1)]
    assert names(full) == {fingerprint(2), fingerprint(3), fingerprint(4)}
    assert list((full.folder / "trash").iterdir()) == []
    assert full.shrink(3 * one + 100) == []


def test_a_hit_is_a_use(full: TransformCache) -> None:
    entry = full.find(fingerprint(0))
    assert entry is not None
    entry.release()
    assert full.shrink(size(full) - 1) == [fingerprint(1)]


def test_after_each_commit_the_cache_is_within_its_limit(full: TransformCache) -> None:
    one = size(full) // 5
    full.limit = 3 * one + 100
    for number in range(5, 12):
        compute(full, fingerprint(number), total=64)
        gc.collect()
        assert size(full) <= full.limit
        assert fingerprint(number) in names(full)


def test_what_this_process_uses_stays(full: TransformCache) -> None:
    entry = full.find(fingerprint(0))
    used(full, fingerprint(0), 9)
    assert full.shrink(0) == [fingerprint(number) for number in (1, 2, 3, 4)]
    assert is_right(entry, 64)


def test_being_too_full_is_told_once(
    full: TransformCache, caplog: pytest.LogCaptureFixture
) -> None:
    entry = full.find(fingerprint(0))
    for _ in range(2):
        full.shrink(0)
    told = [each.getMessage() for each in caplog.records if each.levelname == "WARNING"]
    assert len(told) == 1
    assert "all of it is in use" in told[0]
    del entry


def test_what_another_process_uses_stays_until_it_dies(full: TransformCache) -> None:
    text = """
        entry = TransformCache(sys.argv[1]).find(sys.argv[2])
        assert entry is not None
        print("ready", flush=True)
        sys.stdin.read()
        """
    child = start(text, full.root, fingerprint(0))
    assert child.stdout is not None
    assert child.stdout.readline() == "ready\n"
    used(full, fingerprint(0), 9)
    assert [each.state for each in listed(full)] == ["ready"] * 4 + ["in use"]
    assert fingerprint(0) not in full.shrink(0)
    assert not evict(full, fingerprint(0))
    child.kill()
    child.communicate()
    assert full.shrink(0) == [fingerprint(0)]


def test_what_is_being_written_stays(full: TransformCache) -> None:
    with full.writing(FP, RECIPE) as work:
        work.missing(5)
        with work.segment(0, 5) as out:
            from tests.data.cache.programs import doubled

            out.write(doubled(0, 5))
        for path in Path(full.entry_folder(FP)).iterdir():
            os.utime(path, (0, 0))
        full.shrink(0)
        assert names(full) == {FP}
        assert [each.state for each in listed(full)] == ["writing"]
        work.commit()
    assert is_right(full.find(FP), 5)


def test_unfinished_results_count_and_go_too(full: TransformCache) -> None:
    def fails(row: int) -> None:
        if row == 50:
            raise ValueError

    with pytest.raises(ValueError):
        compute(full, FP, total=64, before=fails)
    for path in Path(full.entry_folder(FP)).iterdir():
        os.utime(path, (time.time() - 9 * DAY,) * 2)
    assert [each.state for each in listed(full)][-1] == "unfinished"
    assert full.shrink(size(full) - 1) == [FP]


def test_a_pin_that_comes_between_brings_the_entry_back(
    full: TransformCache, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[int] = []

    def in_use(cache: TransformCache) -> frozenset[str]:
        asked.append(1)
        return frozenset() if len(asked) == 1 else frozenset({fingerprint(0)})

    monkeypatch.setattr(TransformCache, "in_use", in_use)
    assert not evict(full, fingerprint(0))
    assert is_right(full.find(fingerprint(0)), 64)


def test_an_interrupted_removal_is_finished(full: TransformCache) -> None:
    trash = full.folder / "trash" / "x"
    trash.mkdir(parents=True)
    (trash / "piece").write_bytes(b"x" * 1000)
    full.shrink(1 << 30)
    assert not trash.exists()


def test_folders_in_which_nothing_was_finished_go_after_a_day(full: TransformCache) -> None:
    with pytest.raises(ValueError), full.writing(FP, RECIPE):
        raise ValueError
    full.shrink(1 << 30)
    assert FP in names(full)
    os.utime(Path(full.entry_folder(FP)) / "why.json", (0, 0))
    full.shrink(1 << 30)
    assert FP not in names(full)


def test_many_entries_are_not_counted_each_time(
    cache: TransformCache, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(upkeep, "_ALWAYS_COUNT", 2)
    counted: list[int] = []
    count = upkeep._count
    monkeypatch.setattr(upkeep, "_count", lambda *args: counted.append(1) or count(*args))
    cache.limit = 1 << 30
    for number in range(6):
        compute(cache, fingerprint(number), total=16)
    assert len(counted) == 3
    usage = json.loads((cache.folder / "usage.json").read_text())
    assert usage["entries"] == 3
    assert usage["bytes"] == size(cache)
    cache.limit = usage["bytes"]
    compute(cache, fingerprint(7), total=16)
    assert len(counted) == 4


def test_listing_tells_what_there_is(full: TransformCache) -> None:
    found = listed(full)
    assert [each.fingerprint for each in found] == [fingerprint(each) for each in (4, 3, 2, 1, 0)]
    newest = found[0]
    assert (newest.rows, newest.state, newest.recipe) == (64, "ready", RECIPE)
    assert sum(each.bytes for each in found) == size(full)


def test_names_are_found_by_their_first_digits(cache: TransformCache) -> None:
    compute(cache, FP, total=1)
    compute(cache, "abcd" * 10, total=1)
    assert named(cache, "abab") == FP
    assert named(cache, "ABCD") == "abcd" * 10
    with pytest.raises(UnknownReference, match="2 entries begin with 'ab'"):
        named(cache, "ab")
    with pytest.raises(UnknownReference, match="has no entry 'abce'") as caught:
        named(cache, "abce")
    assert "abcd" in str(caught.value.hint)
    with pytest.raises(UnknownReference):
        named(cache, "")


def test_verifying_reads_everything_and_mends(cache: TransformCache) -> None:
    entry = compute(cache)
    assert verify(cache, FP).state == "ok"
    path = pieces(entry)[4]
    data = bytearray(path.read_bytes())
    data[-9] ^= 1
    path.write_bytes(data)
    found = verify(cache, FP)
    assert (found.state, found.pieces, found.damaged) == ("damaged", 16, (path.name,))
    assert path.exists()
    assert verify(cache, FP, fix=True).state == "dropped"
    assert not path.exists()
    assert verify(cache, FP).state == "unfinished"
    calls: list[int] = []
    compute(cache, calls=calls)
    assert calls == list(range(100, 125))


def test_verifying_a_damaged_manifest(cache: TransformCache) -> None:
    entry = compute(cache, OTHER, recipe=Recipe("sort"))
    (entry.folder / "manifest.json").write_text("{}")
    assert verify(cache, OTHER).damaged == ("manifest.json",)
    assert verify(cache, OTHER, fix=True).state == "dropped"
    assert verify(cache, OTHER).state == "unfinished"
