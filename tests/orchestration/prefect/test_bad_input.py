"""What goes wrong around a flow: a broken table, half a file, a catalog or a store that is away."""

from __future__ import annotations

import os
import threading
import time
from pathlib import Path

import pytest
from tests.orchestration.prefect.conftest import Listener, Place, make_place, prepare, task_runs

from provender.errors import (
    CatalogError,
    InputError,
    ManualFilesMissing,
    SettingsError,
    StoreError,
)

BROKEN = """
[datasets.broken]
builder = "lines.py:Lines"

[datasets.broken.prefect]
schedul = "0 3 * * *"
"""

MANUAL = """

class Manual(tfds.core.GeneratorBasedBuilder):
    VERSION = tfds.core.Version("1.0.0")
    MANUAL_DOWNLOAD_INSTRUCTIONS = "Ask Ada for lines.txt."
    MANUAL_FILES = ["lines.txt"]

    def _info(self):
        features = tfds.features.FeaturesDict({"text": tfds.features.Text()})
        return tfds.core.DatasetInfo(builder=self, features=features)

    def _split_generators(self, dl_manager):
        return {"train": self._generate_examples(dl_manager.manual_dir / "lines.txt")}

    def _generate_examples(self, path):
        for number, line in enumerate(path.read_text().splitlines()):
            yield number, {"text": line}
"""


class Away:
    """A folder that cannot be reached for a while: a file stands in its place."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.aside = folder, folder.with_name(f"{folder.name}-aside")
        self.times = 0

    def go(self) -> None:
        self.times += 1
        if self.folder.exists():
            self.folder.rename(self.aside)
        self.folder.write_text("not a folder")

    def come_back(self) -> None:
        self.folder.unlink()
        if self.aside.exists():
            self.aside.rename(self.folder)


def with_catalog_apart(place: Place) -> Place:
    """The same project, its catalog in a folder of its own."""
    toml = Path(place.file)
    toml.write_text('catalog = "sqlite:///records/catalog.db"\n' + toml.read_text())
    return place


@pytest.fixture
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """No pauses before further tries, but as many of them."""
    from provender.orchestration.prefect import retrying, stages

    monkeypatch.setattr(retrying, "DELAYS", (0.0, 0.0, 0.0))
    for task in (stages.encode_examples, stages.collect, stages.write_shards):
        monkeypatch.setattr(task, "retry_delay_seconds", [0, 0, 0])
        monkeypatch.setattr(task, "retry_jitter_factor", None)


def test_a_broken_table_is_told_to_who_builds_it_and_to_nobody_else(api, tmp_path) -> None:
    from provender.orchestration.prefect import refresh_all

    place = make_place(tmp_path, BROKEN)
    state = prepare(place, "broken")
    error = state.result(raise_on_failure=False)
    assert isinstance(error, SettingsError) and state.is_failed()
    line = Path(place.file).read_text().splitlines().index('schedul = "0 3 * * *"') + 1
    assert f"{place.file}, line {line}, [datasets.broken.prefect]" in str(error)
    assert "'schedul'" in str(error) and "'schedule'" in str(error)
    everything = refresh_all(config_file=place.file, return_state=True)
    assert everything.is_failed() and everything.message == "1 of 2 failed: broken"
    rows = {each["dataset"]: each for each in everything.result(raise_on_failure=False)}
    assert rows["lines"]["state"] == "Completed" and f"line {line}" in rows["broken"]["message"]


@pytest.mark.parametrize(
    ("away", "kind"),
    [
        ("records", CatalogError),
        pytest.param("store", StoreError, marks=pytest.mark.slow),
    ],
)
def test_what_stays_away_fails_clearly_and_the_next_run_succeeds(
    api, place, log, at_once, away, kind
) -> None:
    gone = Away(with_catalog_apart(place).root / away)
    gone.go()
    state = prepare(place)
    error = state.result(raise_on_failure=False)
    assert state.is_failed() and isinstance(error, kind)
    assert str(gone.folder) in str(error) and error.hint
    assert sum("It is tried again" in line for line in log.lines) == 3
    gone.come_back()
    assert prepare(place).name == "Completed" and len(place.shards()) == 6


def test_what_is_away_for_a_moment_costs_tries_and_nothing_that_is_done(
    api, place, log: Listener, at_once
) -> None:
    root = with_catalog_apart(place).root
    catalog, store = Away(root / "records"), Away(root / "store")
    # Between two tasks, where the flow itself asks the catalog; then while one has still to work.
    log.once("splits done", catalog.go)
    log.once("It is tried again", catalog.come_back)
    log.once(r"examples/train/part\S+ done", catalog.go)
    log.once("Retry 1/3", catalog.come_back)
    log.once("shards/train/00001 done", store.go)
    log.once("Retry 1/3", store.come_back)
    state = prepare(place)
    assert state.name == "Completed" and len(place.shards()) == 6
    assert (catalog.times, store.times, log.answers) == (2, 1, [])
    runs = task_runs(state)
    again = {each.name for each in runs if each.run_count == 2}
    assert again == {"encode train-00001", "write train-00002"}
    assert any("The store is away" in line for line in log.lines)
    assert {each.run_count for each in runs if each.name not in again} == {1}
    with place.catalog() as records:
        [run] = records.runs()
        assert run.outcome == "succeeded"
        ran = [each.key for each in records.stages(state="succeeded", limit=None)]
        assert len(ran) == len(set(ran)), "what was done was not done again"


def test_half_of_a_file_is_waited_for_and_never_read(api, place, log, monkeypatch) -> None:
    from provender.orchestration.prefect import stages

    code = place.root / "lines.py"
    code.write_text(code.read_text() + MANUAL)
    toml = Path(place.file)
    toml.write_text(toml.read_text() + '\n[datasets.manual]\nbuilder = "lines.py:Manual"\n')
    folder = place.root / "hand"
    folder.mkdir()

    def built() -> object:
        return prepare(place, "manual", manual_dir=str(folder)).result(raise_on_failure=False)

    missing = built()
    assert isinstance(missing, ManualFilesMissing) and "Ask Ada" in str(missing)

    path = folder / "lines.txt"
    path.write_text("one\n")
    monkeypatch.setattr(stages, "_GROWING_SECONDS", 0.5)
    growing = built()
    assert isinstance(growing, InputError) and "lines.txt never stops changing" in str(growing)
    monkeypatch.undo()

    os.utime(path)
    thread = threading.Thread(target=copy_slowly, args=(path, log))
    thread.start()
    whole = built()
    thread.join()
    assert isinstance(whole, dict) and whole["splits"] == {"train": 5}
    with place.catalog() as catalog:
        assert [run.outcome for run in catalog.runs("manual")] == ["succeeded", "failed", "failed"]


def copy_slowly(path: Path, log: Listener) -> None:
    """Goes on with a file once the flow has seen that it grows."""
    deadline = time.monotonic() + 100
    while sum("still being written: lines.txt" in line for line in log.lines) < 2:
        assert time.monotonic() < deadline
        time.sleep(0.1)
    for number in range(4):
        with path.open("a") as file:
            file.write(f"more {number}\n")
        time.sleep(0.2)
    # As long ago as whole files are.
    os.utime(path, (time.time() - 60,) * 2)
