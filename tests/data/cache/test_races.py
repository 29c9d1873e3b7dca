"""Several processes and one result: one computes, the others wait, and take over from the dead."""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import signal
import time
from pathlib import Path

import pytest
from tests.data.cache.programs import FP, OTHER, RECIPE, compute, doubled, is_right, run, start
from tests.store.processes import fork, race, wait

from provender.data.cache import TransformCache
from provender.data.cache.locking import EntryLock, Pins, pinned

SLOWLY = """
    import os, time
    log = os.open(sys.argv[2], os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    def slow(row):
        os.write(log, f"{os.getpid()} {row}\\n".encode())
        time.sleep(0.002)
    entry = compute(TransformCache(sys.argv[1]), total=200, before=slow)
    assert is_right(entry, 200)
    """


def rows(log: Path) -> list[int]:
    return [int(line.split()[1]) for line in log.read_text().splitlines()]


@pytest.mark.parametrize("count", [2, 4])
def test_one_computes_and_the_others_wait(
    cache: TransformCache, tmp_path: Path, count: int
) -> None:
    children = [start(SLOWLY, cache.root, tmp_path / "log") for _ in range(count)]
    for each in children:
        out = each.communicate(timeout=60)
        assert each.returncode == 0, out
    assert sorted(rows(tmp_path / "log")) == list(range(200))
    assert len({line.split()[0] for line in (tmp_path / "log").read_text().splitlines()}) == 1


def test_a_waiter_takes_over_from_the_dead_and_keeps_its_pieces(
    cache: TransformCache, tmp_path: Path
) -> None:
    log = tmp_path / "log"
    first = start(SLOWLY, cache.root, log)
    while not log.exists() or len(rows(log)) < 100:
        time.sleep(0.01)
    waiters = [start(SLOWLY, cache.root, log) for _ in range(2)]
    time.sleep(0.05)
    first.kill()
    first.communicate()
    for each in waiters:
        out = each.communicate(timeout=60)
        assert each.returncode == 0, out
    done = rows(log)
    assert set(done) == set(range(200))
    assert len(done) <= 200 + 13  # at most the piece that was open is computed twice


def test_a_suspended_process_is_waited_for(cache: TransformCache, tmp_path: Path) -> None:
    log = tmp_path / "log"
    first = start(SLOWLY, cache.root, log)
    while not log.exists() or len(rows(log)) < 20:
        time.sleep(0.01)
    first.send_signal(signal.SIGSTOP)
    waiter = start(SLOWLY, cache.root, log)
    time.sleep(1)
    assert waiter.poll() is None
    first.send_signal(signal.SIGCONT)
    for each in (first, waiter):
        out = each.communicate(timeout=60)
        assert each.returncode == 0, out
    assert sorted(rows(log)) == list(range(200))


def test_who_is_waited_for_is_told(cache: TransformCache) -> None:
    ready, go = os.pipe(), os.pipe()

    def act() -> None:
        with cache.writing(FP, RECIPE):
            os.write(ready[1], b"x")
            os.read(go[0], 1)

    pid = fork(act)
    os.read(ready[0], 1)
    told: list[str] = []

    def on_wait(holder: str) -> None:
        told.append(holder)
        os.write(go[1], b"x")

    with cache.writing(FP, RECIPE, on_wait=on_wait) as work:
        assert work.waited
        assert work.entry is None
    assert wait(pid) == 0
    assert told == [f"process {pid} on {os.uname().nodename}"]


def test_a_forked_child_does_not_hold_the_work_of_its_dead_parent(cache: TransformCache) -> None:
    """A pool's workers outlive a parent that is killed; the next run must not wait for them."""
    text = """
        import os, signal, time
        cache = TransformCache(sys.argv[1])
        with cache.writing(FP, RECIPE) as work:
            work.missing(400)
            child = os.fork()
            if child == 0:
                os.close(1); os.close(2)
                time.sleep(20)
                os._exit(0)
            print(child, flush=True)
            os.kill(os.getpid(), signal.SIGKILL)
        """
    child = int(run(text, cache.root, code=-signal.SIGKILL))
    try:
        began = time.monotonic()
        assert is_right(compute(cache))
        assert time.monotonic() - began < 10
        os.kill(child, 0)  # it lived all the while
    finally:
        os.kill(child, signal.SIGKILL)


def test_a_forked_child_that_returns_through_the_block_gives_nothing_back(
    cache: TransformCache,
) -> None:
    with cache.writing(FP, RECIPE) as work:
        assert work.missing(5)

        def act() -> None:
            lock = EntryLock(cache.lock_path(FP))
            assert not lock.try_acquire()

        pid = os.fork()
        if pid == 0:
            code = 1
            try:
                with pytest.raises(Exception, match="Only the process that began"):
                    work.commit()
                code = 0
            finally:
                os._exit(code)
        assert wait(pid) == 0
        assert wait(fork(act)) == 0


def test_a_worker_that_outlives_its_parent_does_no_harm(
    cache: TransformCache, tmp_path: Path
) -> None:
    """Its pieces come after those of the run that took over; the result is still one of each."""
    text = """
        import os, signal, time
        from pathlib import Path
        cache = TransformCache(sys.argv[1])
        with cache.writing(FP, RECIPE) as work:
            work.missing(400)
            child = os.fork()
            if child == 0:
                os.close(1); os.close(2)
                from provender.data.cache import SegmentWriter
                writer = SegmentWriter.attach(work.handle())
                for start in range(0, 400, 40):
                    with writer.segment(start, start + 40) as out:
                        out.write(doubled(start, start + 40))
                    time.sleep(0.02)
                Path(sys.argv[2]).touch()
                os._exit(0)
            os.kill(os.getpid(), signal.SIGKILL)
        """
    run(text, cache.root, tmp_path / "done", code=-signal.SIGKILL)
    entry = compute(cache, before=lambda row: time.sleep(0.001))
    assert is_right(entry)
    while not (tmp_path / "done").exists():
        time.sleep(0.01)
    assert is_right(cache.find(FP))
    assert is_right(entry)


def test_a_pool_of_spawned_workers(cache: TransformCache) -> None:
    with cache.writing(FP, RECIPE) as work:
        todo = work.missing(64)
        context = multiprocessing.get_context("spawn")
        with context.Pool(2) as pool:
            pool.starmap(write_one, [(work.handle(), *each) for each in todo])
        work.commit()
    assert is_right(cache.find(FP), 64)


def write_one(handle: str, first: int, last: int) -> None:
    from provender.data.cache import SegmentWriter

    with SegmentWriter.attach(handle).segment(first, last) as out:
        out.write(doubled(first, last))


def damage(path: Path | None) -> None:
    if path is not None:
        with path.open("r+b") as file:
            file.seek(-9, 2)
            file.write(b"\xff")


def test_finding_while_others_damage_mend_and_remove(cache: TransformCache) -> None:
    """Whatever is found is right, and everybody comes to an end."""
    from provender.data.cache.upkeep import evict

    compute(cache, total=64)

    def act(i: int) -> None:
        until = time.monotonic() + 2
        mine = TransformCache(cache.root)
        while time.monotonic() < until:
            if i == 0:
                evict(mine, FP)
            elif i == 1:
                with contextlib.suppress(FileNotFoundError):
                    damage(next(Path(mine.entry_folder(FP)).glob("0*.arrow"), None))
            else:
                # Damage can come right after the proof; the proof itself must not be wrong.
                compute(mine, total=64).release()
            time.sleep(0.001)

    assert race(4, act) == [0, 0, 0, 0]
    assert is_right(compute(cache, total=64), 64)


# --- locks and pins -------------------------------------------------------------------------------


def test_locks_exclude_and_leave_no_file(tmp_path: Path) -> None:
    path = str(tmp_path / "locks" / "x")

    def act(i: int) -> None:
        for _ in range(200):
            lock = EntryLock(path)
            lock.acquire()
            try:
                handle = os.open(tmp_path / "inside", os.O_CREAT | os.O_EXCL | os.O_WRONLY)
                os.close(handle)
                (tmp_path / "inside").unlink()
            finally:
                lock.release()

    assert race(3, act) == [0, 0, 0]
    assert list((tmp_path / "locks").iterdir()) == []


def test_pins_end_with_their_process(cache: TransformCache) -> None:
    folder = cache.folder / "pins"
    text = """
        entry = compute(TransformCache(sys.argv[1]))
        print("ready", flush=True)
        sys.stdin.read()
        """
    child = start(text, cache.root)
    assert child.stdout is not None
    child.stdout.readline()
    assert pinned(str(folder)) == {FP}
    child.kill()
    child.communicate()
    assert pinned(str(folder)) == frozenset()
    assert list(folder.iterdir()) == []


def test_pins_of_a_forked_child_are_its_own(tmp_path: Path) -> None:
    pins = Pins(str(tmp_path))
    unpin = pins.pin(FP)

    def act() -> None:
        unpin()  # the parent's: nothing happens
        pins.pin(OTHER)
        assert pinned(str(tmp_path)) == {FP, OTHER}

    assert wait(fork(act)) == 0
    assert pinned(str(tmp_path)) == {FP}
    unpin()
    assert pinned(str(tmp_path)) == frozenset()


def test_where_there_are_no_locks_work_goes_on_with_a_warning(
    cache: TransformCache, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    import errno

    from provender.data.cache import locking

    def refuses(handle: int, how: int) -> None:
        raise OSError(errno.ENOLCK, "No locks available")

    monkeypatch.setattr(locking.fcntl, "flock", refuses)
    monkeypatch.setattr(locking, "_told_no_locks", False)
    assert is_right(compute(cache))
    assert is_right(compute(cache, OTHER))
    [told] = [each.getMessage() for each in caplog.records if each.levelname == "WARNING"]
    assert "has no locks" in told
    assert cache.in_use() == {FP, OTHER} or cache.in_use() == frozenset()
