"""Killed, failed and interrupted computations: finished pieces stay, and nothing wrong is served."""

from __future__ import annotations

import random
import signal
import subprocess
import time
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.data.cache.programs import FP, RECIPE, compute, is_right, run, start
from tests.store.processes import die_at_event, fork, wait

from provender.data.cache import Recipe, TransformCache
from provender.data.cache.manifest import Why

LIMIT = 1 << 30


def test_killed_after_300_of_400_rows_about_100_are_left(cache: TransformCache) -> None:
    text = """
        import os, signal
        compute(TransformCache(sys.argv[1]),
                before=lambda row: row == 300 and os.kill(os.getpid(), signal.SIGKILL))
        """
    run(text, cache.root, code=-signal.SIGKILL)
    assert cache.find(FP) is None
    calls: list[int] = []
    assert is_right(compute(cache, calls=calls))
    assert calls == list(range(300, 400))
    leftovers = list(cache.folder.rglob(".tmp-*"))
    assert leftovers == []


@pytest.mark.parametrize("event", range(0, 230, 7))
def test_killed_at_any_file_system_call(cache: TransformCache, event: int) -> None:
    """Two kills in a row, at different points, then a run that is left alone."""
    for number in (event, event // 2 + 3):

        def act(number: int = number) -> None:
            die_at_event(number)
            compute(TransformCache(cache.root, limit=LIMIT), total=64, step=2)

        assert wait(fork(act)) in (0, -signal.SIGKILL)
    found = cache.find(FP)
    assert found is None or is_right(found, 64)
    calls: list[int] = []
    entry = compute(TransformCache(cache.root, limit=LIMIT), total=64, calls=calls)
    assert is_right(entry, 64)
    assert len(calls) == len(set(calls))
    assert is_right(cache.find(FP), 64)
    names = {each.name for each in entry.folder.iterdir()}
    assert names == {"manifest.json", "why.json", *(each.name for each in entry.files)}
    cache.shrink(LIMIT)
    assert list((cache.folder / "locks").iterdir()) == []


@settings(
    max_examples=12, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(seed=st.integers(0, 2**32 - 1))
def test_killed_at_any_time(tmp_path: Path, seed: int) -> None:
    chance = random.Random(seed)
    cache = TransformCache(tmp_path / f"{seed}")

    def act() -> None:
        compute(cache, total=300, before=lambda row: time.sleep(0.0002))

    pid = fork(act)
    time.sleep(chance.uniform(0.0, 0.12))
    subprocess.run(["kill", "-9", str(pid)], check=True)
    ended = wait(pid)
    calls: list[int] = []
    entry = compute(cache, total=300, calls=calls)
    assert is_right(entry, 300)
    assert ended != 0 or calls == []
    assert not any(each.name.startswith(".tmp-") for each in entry.folder.iterdir())


def test_an_exception_keeps_all_rows_before_it(cache: TransformCache) -> None:
    def fails(row: int) -> None:
        if row == 317:
            raise ZeroDivisionError(row)

    calls: list[int] = []
    with pytest.raises(ZeroDivisionError):
        compute(cache, before=fails, calls=calls)
    assert cache.find(FP) is None
    again: list[int] = []
    assert is_right(compute(cache, calls=again))
    assert again == list(range(315, 400))


def test_failing_at_one_row_again_and_again_makes_progress_before_it(cache: TransformCache) -> None:
    for row in (50, 120, 260, 399):

        def fails(each: int, row: int = row) -> None:
            if each == row:
                raise ValueError(row)

        calls: list[int] = []
        with pytest.raises(ValueError):
            compute(cache, before=fails, calls=calls)
        assert len(calls) < 150
    assert is_right(compute(cache))


def test_a_batched_transform_goes_on_at_whole_batches(cache: TransformCache) -> None:
    def fails(row: int) -> None:
        if row == 170:
            raise ValueError

    with pytest.raises(ValueError):
        compute(cache, align=50, step=50, before=fails)
    calls: list[int] = []
    assert is_right(compute(cache, align=50, step=50, calls=calls))
    assert calls == list(range(150, 400))


def test_pieces_that_do_not_fit_the_alignment_are_not_used(cache: TransformCache) -> None:
    def fails(row: int) -> None:
        if row == 170:
            raise ValueError

    with pytest.raises(ValueError):
        compute(cache, align=1, before=fails)
    calls: list[int] = []
    assert is_right(compute(cache, align=64, step=64, calls=calls))
    assert len(calls) == len(set(calls))


def test_interrupted_from_the_keyboard(cache: TransformCache) -> None:
    text = """
        import time
        def slow(row):
            if row == 210:
                print("ready", flush=True)
                time.sleep(60)
        compute(TransformCache(sys.argv[1]), before=slow)
        """
    child = start(text, cache.root)
    assert child.stdout is not None
    assert child.stdout.readline() == "ready\n"
    child.send_signal(signal.SIGINT)
    child.communicate(timeout=30)
    calls: list[int] = []
    assert is_right(compute(cache, calls=calls))
    assert calls == list(range(210, 400))


def test_why_an_unfinished_result_is_computed(cache: TransformCache) -> None:
    def fails(row: int) -> None:
        if row == 170:
            raise ValueError

    for _ in range(2):
        with pytest.raises(ValueError):
            compute(cache, before=fails)
    about = Why.read(str(compute(cache).folder))
    assert about is not None
    assert about.reasons == ({"kind": "first"}, {"kind": "unfinished"})


def test_damage_in_an_unfinished_result_is_noticed(cache: TransformCache) -> None:
    def fails(row: int) -> None:
        if row == 170:
            raise ValueError

    with pytest.raises(ValueError):
        compute(cache, before=fails)
    [piece, *_] = sorted(Path(cache.entry_folder(FP)).glob("*.arrow"))
    data = bytearray(piece.read_bytes())
    data[-20] ^= 4
    piece.write_bytes(data)
    calls: list[int] = []
    assert is_right(compute(cache, calls=calls))
    assert calls == [*range(25), *range(170, 400)]


def test_temporary_files_of_the_dead_are_swept_from_other_entries(cache: TransformCache) -> None:
    text = """
        import os, signal
        cache = TransformCache(sys.argv[1])
        with cache.writing("12" * 20, Recipe("map")) as work:
            work.missing(10)
            with work.segment(0, 10) as out:
                out._writer.cut_seconds = 1e9
                import provender.data.cache.segments as s
                s._FLUSH_BYTES = 0
                out.write(doubled(0, 5))
                out.mark(5)
                os.kill(os.getpid(), signal.SIGKILL)
        """
    run(text, cache.root, code=-signal.SIGKILL)
    dead = TransformCache(cache.root).entry_folder("12" * 20)
    assert [each.name[:5] for each in Path(dead).iterdir() if each.suffix == ""] == [".tmp-"]
    cache.limit = LIMIT
    compute(cache, recipe=Recipe("map"), total=20)
    assert [each.name for each in Path(dead).iterdir()] == ["why.json"]
    assert list((cache.folder / "locks").iterdir()) == []
    assert RECIPE.title == "map(double)"
