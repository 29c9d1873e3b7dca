"""Answers as pandas frames."""

from __future__ import annotations

import pickle
from datetime import UTC, datetime

import pandas as pd
import pytest

from provender.catalog import LineageEdge, RunRecord, SearchHit
from provender.questions import Consumer, Reading, Rows, StageRun, VersionSummary
from provender.questions.frames import columns_of


def test_a_frame_has_every_field_and_property(ask, story):
    frame = ask.versions("reviews").to_frame()
    assert list(frame["version"]) == ["1.1.0", "1.0.0"]
    assert list(frame["name"]) == ["reviews:1.1.0", "reviews:1.0.0"]
    assert list(frame["examples"]) == [130, 100]
    assert frame["examples"].dtype == "int64"
    assert str(frame["created"].dtype) == "datetime64[ns, UTC]"
    assert frame["retracted"].isna().all()
    assert frame["splits"][0][0].name == "train"
    assert frame["created"][0].to_pydatetime() == story.two.created
    runs = ask.runs().to_frame()
    assert runs["seconds"].dtype == "float64"
    assert (runs["seconds"] >= 0).all()


@pytest.mark.parametrize(
    "kind", [VersionSummary, RunRecord, SearchHit, Consumer, Reading, StageRun, LineageEdge]
)
def test_an_empty_frame_has_the_same_columns_and_types(kind):
    empty = Rows([], kind).to_frame()
    assert list(empty.columns) == list(columns_of(kind))
    assert len(empty) == 0
    for name, hint in columns_of(kind).items():
        if hint is datetime or hint == datetime | None:
            assert str(empty[name].dtype) == "datetime64[ns, UTC]", name
        elif hint is int:
            assert empty[name].dtype == "int64", name


def test_frames_of_the_same_kind_fit_together(ask, story):
    both = pd.concat([Rows([], VersionSummary).to_frame(), ask.versions().to_frame()])
    assert str(both["created"].dtype) == "datetime64[ns, UTC]"
    assert len(both) == 5


def test_rows():
    edges = [LineageEdge("a", "b", None), LineageEdge("b", "c", "d")]
    rows = Rows.cut(edges, LineageEdge, 1)
    assert (tuple(rows), rows.more) == ((edges[0],), True)
    assert repr(rows) == "<1+ rows of LineageEdge>"
    assert Rows.cut(edges, LineageEdge, None).more is False
    again = pickle.loads(pickle.dumps(rows))
    assert (again, again.kind, again.more) == (rows, LineageEdge, True)
    hash(rows)


def test_none_in_numbers_and_times():
    from provender.catalog import Match

    hit = SearchHit("a", "", None, None, None, 1.5, (Match("name", "a", None, None),))
    frame = Rows([hit], SearchHit).to_frame()
    assert frame["score"].dtype == "float64"
    assert frame["version"][0] is None
    when = datetime(2026, 1, 1, tzinfo=UTC)
    who = Consumer("job", "j", "", "v", "i", 1, (), (), (), when, None)
    frame = Rows([who], Consumer).to_frame()
    assert frame["first"][0] == pd.Timestamp(when)
    assert pd.isna(frame["last"][0])
