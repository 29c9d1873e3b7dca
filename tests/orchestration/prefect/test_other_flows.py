"""The flows over the whole project, and over a span of time."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from tests.orchestration.backfill.test_backfill import BUILDER as NEWS
from tests.orchestration.prefect.conftest import Place, artifacts, make_place, prepare

from provender.orchestration.backfill.planning import BROKEN, BUILT, CACHED, LEFT


def test_one_dataset_that_fails_stops_no_other(api, tmp_path) -> None:
    from provender.orchestration.prefect import refresh_all

    place = make_place(tmp_path, '\n[datasets.broken]\nbuilder = "nowhere.py:Lines"\n')
    text = (tmp_path / "provender.toml").read_text()
    (tmp_path / "provender.toml").write_text(text.replace("[datasets.lines]", "[datasets.zlines]"))
    state = refresh_all(config_file=place.file, return_state=True)
    assert state.is_failed() and "1 of 2 failed: broken" in state.message
    good = refresh_all(only=["zlines"], config_file=place.file, return_state=True)
    assert good.name == "Cached", "the run before had built it"
    bad = refresh_all(only=["other"], config_file=place.file, return_state=True)
    assert bad.is_failed() and "other" in str(bad.result(raise_on_failure=False))


def test_retention_lists_and_then_removes(api, place) -> None:
    from provender.orchestration.prefect import retention

    prepare(place, max_examples=10)
    listed = retention(grace_days=0, config_file=place.file)
    assert not listed["applied"] and "version" in {each["kind"] for each in listed["items"]}
    assert list((place.root / "store" / "trials").glob("**/*.tfrecord*"))
    removed = retention(apply=True, grace_days=0, config_file=place.file)
    assert removed["applied"] and removed["run"]
    assert not list((place.root / "store" / "trials").glob("**/*.tfrecord*"))


def make_news(root: Path) -> Place:
    """A project with one dataset that is cut by days."""
    root.mkdir(parents=True, exist_ok=True)
    (root / "news.py").write_text(NEWS)
    (root / "provender.toml").write_text(
        'store = "store"\nhome = "home/provender"\nworkers = 1\n\n'
        '[datasets.news]\nbuilder = "news.py:News"\npartition = "day"\n'
    )
    return Place(root)


@pytest.mark.slow
def test_a_span_of_days_is_filled_and_gone_on_with(api, tmp_path) -> None:
    from provender.orchestration.prefect import backfill

    place = make_news(tmp_path / "project")
    (place.root / "broken-2026-11-03").touch()
    assert prepare(place, "news/2026-11-02").name == "Completed"

    def fill(**more: Any) -> tuple[Any, list[str]]:
        span = ("news", "2026-11-01", "2026-11-03")
        state = backfill(*span, config_file=place.file, return_state=True, **more)
        pieces = state.result(raise_on_failure=False)["pieces"]
        return state, [each["state"] for each in pieces]

    state, pieces = fill()
    assert state.is_failed() and pieces == [BUILT, CACHED, BROKEN]
    rows = json.loads(artifacts("backfill-news")[-1].data)
    assert [row["piece"][-2:] for row in rows] == ["01", "02", "03"]
    assert "2026-11-03 is broken" in rows[2]["why"] and rows[0]["version"]
    (place.root / "broken-2026-11-03").unlink()
    state, pieces = fill()
    assert state.name == "Cached" and pieces == [CACHED, CACHED, LEFT]
    state, pieces = fill(reprocess="failed")
    assert state.name == "Completed" and pieces == [CACHED, CACHED, BUILT]
    with place.catalog() as catalog:
        found = reversed(catalog.runs("news", limit=None))
        runs = {run.config: run.orchestrator for run in found}
        assert len(catalog.versions("news")) == 3
    assert runs["2026-11-01"]["parent_flow_run_id"] != runs["2026-11-03"]["parent_flow_run_id"]


def test_a_span_of_what_is_not_cut_by_time_says_what_is_missing(api, place) -> None:
    from provender.orchestration.prefect import backfill

    state = backfill("lines", "2026-11-01", "2026-11-02", config_file=place.file, return_state=True)
    assert state.is_failed() and "Nothing says how lines is cut by time" in state.message
