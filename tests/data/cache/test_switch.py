"""Caching off: computed anew, under random names, gone at the end, whatever the end is."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.data.cache.programs import FP, compute, is_right, program, run
from tests.store.processes import fork, wait

from provender.catalog import Catalog
from provender.data.cache import (
    TransformCache,
    disable_caching,
    enable_caching,
    is_caching_enabled,
    switch,
)
from provender.data.cache.manifest import Why


@pytest.fixture(scope="module")
def catalog(tmp_path_factory: pytest.TempPathFactory) -> str:
    """One catalog for all, since making one takes longer than a test."""
    url = f"sqlite:///{tmp_path_factory.mktemp('catalog')}/catalog.db"
    Catalog.open(url).close()
    return url


@pytest.fixture(autouse=True)
def own_settings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, catalog: str) -> Iterator[None]:
    monkeypatch.setenv("PROVENDER_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("PROVENDER_CATALOG", catalog)
    monkeypatch.delenv("PROVENDER_CACHE", raising=False)
    monkeypatch.chdir(tmp_path)
    yield
    enable_caching()


def environ(tmp_path: Path) -> dict[str, str]:
    (tmp_path / "tmp").mkdir(exist_ok=True)
    return {**os.environ, "TMPDIR": str(tmp_path / "tmp")}


def test_it_is_on_from_the_start_and_can_be_turned_off_and_on() -> None:
    assert is_caching_enabled()
    disable_caching()
    assert not is_caching_enabled()
    enable_caching()
    assert is_caching_enabled()


def test_the_settings_say_where_it_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert TransformCache.current().folder == tmp_path / "home" / "cache"
    assert TransformCache.current().limit == 50 << 30
    assert TransformCache.current() is TransformCache.current()
    monkeypatch.setenv("PROVENDER_CACHE", str(tmp_path / "elsewhere"))
    monkeypatch.setenv("PROVENDER_CACHE_LIMIT", "1 GB")
    assert TransformCache.current().folder == tmp_path / "elsewhere"
    assert TransformCache.current().limit == 10**9


def test_off_means_computed_anew_in_other_places() -> None:
    kept: list[int] = []
    on = compute(TransformCache.current(), calls=kept)
    disable_caching()
    calls: list[int] = []
    first = compute(TransformCache.current(), calls=calls)
    second = compute(TransformCache.current(), calls=calls)
    assert len(calls) == 800
    assert is_right(first)
    assert is_right(second)
    assert first.folder != second.folder
    assert FP not in str(first.folder)
    assert first.fingerprint == second.fingerprint == on.fingerprint
    about = Why.read(str(first.folder))
    assert about is not None
    assert about.reasons == ({"kind": "not kept", "why": "caching is off"},)
    enable_caching()
    compute(TransformCache.current(), calls=calls)
    assert len(calls) == 800


def test_a_failure_leaves_nothing_in_the_temporary_folder() -> None:
    def fails(row: int) -> None:
        if row == 100:
            raise ValueError

    cache = TransformCache.temporary()
    with pytest.raises(ValueError):
        compute(cache, before=fails)
    entries = [each for each in (cache.folder / "entries").glob("*/*") if list(each.iterdir())]
    assert all((each / "manifest.json").exists() for each in entries)


OFF = """
    import os, time
    from provender.data.cache import disable_caching, is_caching_enabled
    disable_caching()
    entry = compute(TransformCache.current())
    print(entry.folder, flush=True)
    """


def test_the_folder_is_gone_at_exit(tmp_path: Path) -> None:
    folders = [Path(run(OFF, env=environ(tmp_path)).strip()) for _ in range(2)]
    assert folders[0].is_relative_to(tmp_path / "tmp")
    assert len(set(folders)) == 2
    assert list((tmp_path / "tmp").iterdir()) == []


def test_the_folder_is_gone_after_an_error(tmp_path: Path) -> None:
    run(OFF + "\n    raise SystemExit(3)", code=3, env=environ(tmp_path))
    assert list((tmp_path / "tmp").iterdir()) == []


def test_what_a_killed_process_left_goes_with_the_next(tmp_path: Path) -> None:
    environment = environ(tmp_path)
    killed = OFF + "\n    import signal; os.kill(os.getpid(), signal.SIGKILL)"
    left = Path(run(killed, code=-signal.SIGKILL, env=environment).strip())
    assert left.exists()
    waiting = subprocess.Popen(
        program(OFF + "\n    sys.stdin.read()"),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env=environment,
    )
    assert waiting.stdout is not None
    alive = Path(waiting.stdout.readline().strip())
    assert not left.exists()
    run(OFF, env=environment)
    assert alive.exists()
    waiting.communicate("")
    assert list((tmp_path / "tmp").iterdir()) == []


def test_a_forked_child_has_its_own_folder_and_takes_nothing_away() -> None:
    disable_caching()
    entry = compute(TransformCache.current())

    def act() -> None:
        mine = compute(TransformCache.current())
        assert mine.folder.parents[2] != entry.folder.parents[2]
        switch._remove(str(entry.folder.parents[2]), os.getppid())

    assert wait(fork(act)) == 0
    assert is_right(entry)
    assert entry.folder.exists()


@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_a_child_of_multiprocessing_cleans_up(tmp_path: Path, method: str) -> None:
    text = f"""
        import multiprocessing
        from tests.data.cache import test_switch
        if __name__ == "__main__":
            multiprocessing.set_start_method({method!r})
            child = multiprocessing.Process(target=test_switch.compute_without_caching)
            child.start()
            child.join()
            sys.exit(child.exitcode)
        """
    run(text, env=environ(tmp_path))
    assert list((tmp_path / "tmp").iterdir()) == []


def compute_without_caching() -> None:
    disable_caching()
    assert is_right(compute(TransformCache.current()))


def test_entries_of_the_temporary_folder_can_be_sent_to_workers(tmp_path: Path) -> None:
    text = OFF + (
        """
    import pickle, subprocess
    (folder := Path(sys.argv[1])).write_bytes(pickle.dumps(entry))
    code = "import pickle, sys; print(pickle.load(open(sys.argv[1], 'rb')).table().num_rows)"
    print(subprocess.run([sys.executable, "-c", code, sys.argv[1]], capture_output=True, text=True))
    """
    )
    assert "stdout='400\\n'" in run(text, tmp_path / "entry", env=environ(tmp_path))
