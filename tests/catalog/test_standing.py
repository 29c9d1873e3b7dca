"""What gc reads of versions and stages, against what whole records say."""

from __future__ import annotations

import pytest
from tests.questions.conftest import Maker, make

__all__ = ["make"]

EVERY = ("published", "trial", "retracted", "replaced")


@pytest.fixture
def three(make: Maker):
    one = make("reviews", "1.0.0", info={"stages": {"download": "dl-reviews1.0.0", "none": None}})
    two = make("reviews", "1.1.0", info={"stages": {"download": "dl-reviews1.1.0"}})
    return one, two, make("wiki", "2.0.0", config="en")


def test_a_standing_is_the_record_without_documents(catalog, three) -> None:
    catalog.retract(three[0].id, "wrong", "ann", None)
    records = catalog.versions(include=EVERY)
    found = catalog.standings()
    assert [each.id for each in found] == [each.id for each in records]
    for standing, record in zip(found, records, strict=True):
        assert standing.aliased == bool(record.aliases)
        for name in (
            "dataset config version status path uri created retracted retract_reason removed name"
        ).split():
            assert getattr(standing, name) == getattr(record, name)


def test_by_folder(catalog, three) -> None:
    [found] = catalog.standings("datasets/reviews/1.0.0", dataset="reviews")
    assert found.id == three[0].id
    assert catalog.standings("datasets/reviews/1.0.0", dataset="wiki") == []
    assert catalog.standings("datasets/reviews/9.0.0") == []


def test_stages_behind_versions(catalog, three) -> None:
    assert catalog.stages_behind(()) == {"dl-reviews1.0.0", "dl-reviews1.1.0"}
    assert catalog.stages_behind({three[0].id}) == {"dl-reviews1.1.0"}
    catalog.take_away(catalog.retract(three[0].id, "wrong", "ann", None).id, reason="gc", who="ann")
    assert catalog.stages_behind(()) == {"dl-reviews1.1.0"}


def test_results_of_stages(catalog, three) -> None:
    run = catalog.begin_run("build", "reviews", "", "1.2.0", {})
    for place, state in enumerate(("succeeded", "succeeded", "failed")):
        catalog.record_stage(
            run, "reviews", "", "splits", f"sp{place}", state=state, result={"plan": f"p{place}"}
        )
    seen: list[object] = []
    catalog.see_results(["sp0", "sp2", "unknown"], lambda result: seen.append(result))
    assert seen == [{"plan": "p0"}]
    seen.clear()
    # The failed one is not gone on from, and the newest success of each key is.
    assert catalog.stages_to_go_on_from(lambda result: seen.append(result.get("plan"))) == {
        "sp1",
        "dl-reviews1.1.0",
        "sh-reviews1.1.0",
        "dl-wikien2.0.0",
        "sh-wikien2.0.0",
    }
    assert "p1" in seen and "p0" not in seen
