"""docs/catalog.md: every query runs on both databases and answers what it says, and the views are
those that there are."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from provender.catalog import VIEWS
from provender.questions import Questions

PAGE = (Path(__file__).parents[2] / "docs" / "catalog.md").read_text(encoding="utf-8")


def queries() -> dict[str, str]:
    """The last question asked before a query -> the query."""
    found: dict[str, str] = {}
    parts = re.split(r"```sql\n(.*?)```", PAGE, flags=re.S)
    for text, query in zip(parts[::2], parts[1::2], strict=False):
        asked = re.findall(r"^([A-Z][^\n]*?\?)", text, re.M)
        name = asked[-1] if asked else f"{list(found)[-1]} (more)"
        found[name] = query
    return found


ANSWERS = {
    "Which versions exist, and what is in them?": lambda rows: (
        [(r["dataset"], r["version"], r["examples"]) for r in rows]
        == [
            ("reviews", "1.1.0", 130),
            ("reviews", "1.0.0", 100),
            ("tokens", "0.1.0", 100),
            ("wiki", "2.0.0", 100),
            ("wiki", "2.0.0", 100),
        ]
    ),
    "Which versions exist, and what is in them? (more)": lambda rows: (
        [(r["version"], r["split"], r["examples"]) for r in rows]
        == [("1.1.0", "train", 120), ("1.1.0", "test", 10)]
    ),
    "What was this model trained on?": lambda rows: (
        [(r["dataset"], r["version"], r["status"], json.loads(r["splits"])) for r in rows]
        == [
            ("reviews", "1.0.0", "retracted", ["train", "test"]),
            ("reviews", "1.0.0", "retracted", ["train"]),
        ]
    ),
    "And what was that made from, step by step, back to what came from outside?": lambda rows: (
        ("reviews:shards/train/00000", "reviews:download")
        in {(r["child_name"], r["parent_name"]) for r in rows}
    ),
    "What changed between two versions?": lambda rows: (
        [tuple(r.values()) for r in rows] == [("test", 10, 10), ("train", 90, 120)]
    ),
    "Why did last night's build rerun?": lambda rows: (
        json.loads(next(r["reason"] for r in rows if r["key"].startswith("shards")))
        == [{"kind": "forced"}]
    ),
    "Who would break if this version went away?": lambda rows: (
        [(r["job"], r["dataset"], r["reads"]) for r in rows]
        == [("eval-2", "tokens", 1), ("train-7", "reviews", 2)]
    ),
    "Which jobs read something that was taken back since?": lambda rows: (
        [tuple(r.values()) for r in rows] == [("train-7", "reviews", "1.0.0", "labels shifted")]
    ),
    "What did an alias mean at some time?": lambda rows: (
        [(r["version"], r["moved_by"]) for r in rows] == [("1.1.0", "ann")]
    ),
    "What did reuse save, dataset by dataset?": lambda rows: (
        [(r["dataset"], r["hits"]) for r in rows] == [("reviews", 1)]
    ),
    "Which stages take longest, and which fail?": lambda rows: (
        {(r["dataset"], r["stage"]) for r in rows} >= {("reviews", "download"), ("wiki", "shards")}
    ),
    "Which labels are rare?": lambda rows: (
        [(r["split"], r["feature"], r["distinct_values"]) for r in rows] == [("train", "label", 2)]
    ),
}


def test_every_query_has_an_answer_to_compare_with() -> None:
    assert list(queries()) == list(ANSWERS)


def test_every_query_answers_its_question(ask: Questions, story, catalog) -> None:
    hit = catalog.stages(dataset="reviews", key="download")[0]
    catalog.record_hits(story.two.run_id, [hit.id])
    about = {"kind": "label", "examples": 90, "distinct": {"count": 2}, "numbers": {}}
    catalog.set_statistics(story.two.id, {"train": {"features": {"label": about}}})
    catalog.retract(story.one.id, "labels shifted", "ann", story.two.id)
    for name, query in queries().items():
        found = ask.sql(query)
        rows = [dict(zip(found.columns, row, strict=True)) for row in found.rows]
        assert ANSWERS[name](rows), (name, rows)


def view_lines() -> list[str]:
    """The page's description of the views."""
    return re.findall(r"^(?:\* `v_\w+`|  \* `).*$", PAGE, re.M)


def described() -> list[str]:
    """The same, made from the code's."""
    lines = []
    for view, columns in VIEWS.items():
        lines.append(f"* `{view}`")
        lines += [f"  * `{column}`: {meaning}" for column, meaning in columns.items()]
    return lines


def test_the_views_are_described_as_they_are() -> None:
    assert view_lines() == described()


@pytest.mark.parametrize("name", [n for n in dir(Questions) if not n.startswith("_")])
def test_every_question_is_on_the_page(name: str) -> None:
    if name not in ("close", "settings", "raw"):
        assert f"`{name}(" in PAGE
