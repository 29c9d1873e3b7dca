"""Pieces that several processes need are done once, whoever dies."""

from __future__ import annotations

import fcntl
import multiprocessing
import os
import signal
import threading
import time
from pathlib import Path

from provender.nlp.recipes.together import do_together

PIECES = 12


def work(folder: Path, die_at: int | None = None) -> None:
    """Does all pieces; each leaves a line in a log and a file."""

    def do(number: int) -> None:
        if number == die_at:
            os.kill(os.getpid(), signal.SIGKILL)
        with (folder / "log").open("a") as log:
            log.write(f"{number}\n")
        time.sleep(0.01)
        (folder / f"{number}.done").touch()

    pieces = [
        ((folder / f"{i}.done").exists, lambda i=i: do(i))  # type: ignore[misc]
        for i in range(PIECES)
    ]
    do_together(folder, "step", pieces)
    assert len(list(folder.glob("*.done"))) == PIECES


def done(folder: Path) -> list[int]:
    return sorted(map(int, (folder / "log").read_text().split()))


def test_processes_share_the_pieces(tmp_path: Path) -> None:
    context = multiprocessing.get_context("spawn")
    several = [context.Process(target=work, args=(tmp_path,)) for _ in range(4)]
    for each in several:
        each.start()
    for each in several:
        each.join()
    assert [each.exitcode for each in several] == [0] * 4
    assert done(tmp_path) == list(range(PIECES))


def test_what_a_dead_process_was_at_is_done_by_another(tmp_path: Path) -> None:
    context = multiprocessing.get_context("spawn")
    dying = context.Process(target=work, args=(tmp_path, 5))
    dying.start()
    dying.join()
    assert dying.exitcode == -signal.SIGKILL and done(tmp_path) == list(range(5))
    work(tmp_path)
    assert done(tmp_path) == list(range(PIECES))


def test_who_has_nothing_left_waits_for_the_others(tmp_path: Path) -> None:
    """A piece in other hands is waited for, and done here if those hands let go of it undone."""
    with (tmp_path / "step-000003").open("wb") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        thread = threading.Thread(target=work, args=(tmp_path,))
        thread.start()
        while len(list(tmp_path.glob("*.done"))) < PIECES - 1:
            time.sleep(0.01)
        time.sleep(0.1)
        assert thread.is_alive() and not (tmp_path / "3.done").exists()
    thread.join(10)
    assert done(tmp_path) == list(range(PIECES))


def test_nothing_to_do_touches_nothing(tmp_path: Path) -> None:
    do_together(tmp_path, "step", [(lambda: True, lambda: None)] * 3)
    assert list(tmp_path.iterdir()) == []
