"""The commands that ask the catalog: what they print, as text, as JSON and as files."""

from __future__ import annotations

import csv
import io
import json
import os
import subprocess
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from tests.cli.conftest import Project
from tests.questions.conftest import Maker

from provender.catalog import Catalog


class InProcess(Project):
    """The program without a process of its own, which would cost more than what it does."""

    capture: pytest.CaptureFixture[str]

    def run(self, *args: str, code: int = 0) -> subprocess.CompletedProcess[str]:
        from provender.cli.app import run

        self.capture.readouterr()
        found = run(list(args))
        said = self.capture.readouterr()
        assert found == code, said.out + said.err
        return subprocess.CompletedProcess(args, found, said.out, said.err)


@pytest.fixture
def asked(
    project: Project, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> Project:
    """A project whose catalog has versions, jobs and a set made from another."""
    with Catalog.open(project.folder / "data" / "catalog.db") as catalog:
        make = Maker(catalog)
        one = make("reviews", "1.0.0")
        make("reviews", "1.1.0", examples=120)
        make("tokens", "0.1.0", inputs=[one.id])
        catalog.record_consumption(one.id, "train-7", splits=["train"])
    monkeypatch.chdir(project.folder)
    for name, value in project.environ.items():
        monkeypatch.setenv(name, value)
    made = InProcess(project.folder)
    object.__setattr__(made, "capture", capfd)
    return made


def test_lineage_in_every_form(asked: Project) -> None:
    text = asked.run("lineage", "reviews:1.0.0").stdout
    assert text.startswith("reviews:1.0.0  published\n└─ reviews:shards/train/00000")
    assert asked.run("lineage", "reviews:1.0.0", "--direction", "up").stdout == text
    assert "made into:" in asked.run("lineage", "reviews:1.0.0", "--direction", "both").stdout
    down = asked.json("lineage", "reviews:1.0.0", "--down")["down"]
    assert "tokens:0.1.0" in {node["name"] for node in down["nodes"]}
    assert asked.json("lineage", "reviews:1.0.0", "--down") == json.loads(
        asked.run("lineage", "reviews:1.0.0", "--down", "--format", "json").stdout
    )
    drawn = asked.run("lineage", "tokens", "--format", "dot").stdout
    assert drawn.startswith("digraph lineage {")
    assert 'label="tokens:0.1.0"' in drawn
    assert "flowchart LR" in asked.run("lineage", "tokens", "--format", "mermaid").stdout
    events = asked.run("lineage", "tokens", "--format", "openlineage").stdout.splitlines()
    assert {json.loads(line)["job"]["name"] for line in events} >= {"build.tokens", "build.reviews"}
    few = asked.json("lineage", "tokens", "--depth", "1")["up"]
    assert len(few["edges"]) < len(asked.json("lineage", "tokens")["up"]["edges"])


def test_lineage_that_cannot_be_drawn(asked: Project) -> None:
    said = asked.run("lineage", "tokens", "--format", "mermeid", code=2).stderr
    assert "Did you mean mermaid?" in said
    assert (
        "Did you mean both?" in asked.run("lineage", "tokens", "--direction", "bth", code=2).stderr
    )
    assert (
        "contradicts"
        in asked.run("lineage", "tokens", "--up", "--direction", "down", code=2).stderr
    )
    assert "Did you mean tokens?" in asked.run("lineage", "token", code=3).stderr


def test_consumers_and_what_a_job_read(asked: Project) -> None:
    text = asked.run("consumers", "reviews:1.0.0").stdout
    assert "train-7" in text
    assert "tokens:0.1.0" in text
    doc = asked.json("consumers", "reviews:1.0.0")
    assert [(e["kind"], e["name"]) for e in doc["consumers"]] == [
        ("job", "train-7"),
        ("version", "tokens:0.1.0"),
    ]
    assert "Nothing on record" in asked.run("consumers", "tokens").stdout
    assert "reviews:1.0.0  published" in asked.run("consumed-by", "train-7").stdout
    asked.run("retract", "reviews:1.0.0", "--reason", "labels shifted")
    assert "labels shifted" in asked.run("consumed-by", "train-7").stdout
    assert asked.json("consumed-by", "train-7")["reads"][0]["status"] == "retracted"
    said = asked.run("consumed-by", "trian-7", code=3).stderr
    assert "Did you mean train-7?" in said


def test_aliases(asked: Project) -> None:
    assert asked.run("alias", "set", "reviews:1.0.0", "golden").stdout == (
        "@golden means reviews:1.0.0\n"
    )
    assert "already" in asked.run("alias", "set", "reviews:1.0.0", "golden").stdout
    assert "(was 1.0.0)" in asked.run("alias", "set", "reviews@latest", "golden").stdout
    assert [e["name"] for e in asked.json("alias", "ls", "reviews")] == ["golden", "latest"]
    assert [e["version"] for e in asked.json("alias", "ls", "reviews@golden")] == ["1.1.0"]
    assert "Did you mean @golden?" in asked.run("alias", "rm", "reviews@goldn", code=3).stderr
    assert "names no alias" in asked.run("alias", "rm", "reviews", code=2).stderr
    assert "it meant 1.1.0" in asked.run("alias", "rm", "reviews@golden").stdout
    moves = asked.json("alias", "history", "reviews@golden")
    assert [move["version"] for move in moves] == [None, "1.1.0", "1.0.0"]
    assert "(removed)" in asked.run("alias", "history", "reviews").stdout
    assert "cannot be an alias" in asked.run("alias", "set", "reviews", "a b", code=2).stderr
    asked.run("retract", "reviews:1.0.0", "--reason", "labels shifted")
    said = asked.run("alias", "set", "reviews:1.0.0", "golden", code=5).stderr
    assert "labels shifted" in said


def test_tags(asked: Project) -> None:
    assert asked.run("tag", "add", "reviews:1.0.0", "clean", "small").stdout == (
        "reviews:1.0.0  clean, small\n"
    )
    assert asked.json("tag", "add", "reviews:1.0.0", "clean")["new"] == []
    assert [e["tag"] for e in asked.json("tag", "ls", "reviews")] == ["clean", "small"]
    assert "reviews:1.0.0" in asked.run("tag", "ls", "--tag", "clean").stdout
    assert "Did you mean clean?" in asked.run("tag", "rm", "reviews:1.0.0", "claen", code=3).stderr
    assert asked.json("tag", "rm", "reviews:1.0.0", "clean")["tags"] == ["small"]
    assert "cannot be a tag" in asked.run("tag", "add", "reviews", "a b", code=2).stderr
    assert asked.run("tag", "ls", "tokens").stdout.startswith("It has no tag")


def test_search(asked: Project) -> None:
    asked.run("tag", "add", "reviews:1.0.0", "handpicked")
    assert "reviews:1.0.0  published  tag       handpicked" in asked.run("search", "handp").stdout
    doc = asked.json("search", "cc-by", "reviews")
    assert doc["hits"][0]["name"] == "reviews:1.1.0"
    assert {m["field"] for m in doc["hits"][0]["matches"]} >= {"name", "licence"}
    assert "Nothing has all of: zebra" in asked.run("search", "zebra").stdout
    cut = asked.run("search", "label", "--limit", "1")
    assert "Cut off after 1" in cut.stdout
    assert "licence" in asked.run("search", "cc-by", "reviews", "--verbose").stdout


def test_as_of(asked: Project) -> None:
    doc = asked.json("as-of", "reviews", "2999-01-01")
    assert (doc["version"]["version"], doc["how"], doc["until"]) == ("1.1.0", "alias", None)
    text = asked.run("as-of", "reviews:1.0.0", "2999-01-01").stdout
    assert "decided by  its number" in text
    said = asked.run("as-of", "reviews", "2001-01-01", code=3).stderr
    assert "The first, 1.0.0, was registered on" in said
    assert "is no time" in asked.run("as-of", "reviews", "last week", code=2).stderr


def test_sql_in_every_form(asked: Project) -> None:
    query = "SELECT dataset, version, examples, tags FROM v_versions ORDER BY created_at"
    table = asked.run("sql", query).stdout
    assert table.splitlines()[1].split() == ["reviews", "1.0.0", "100"]
    found = list(csv.DictReader(io.StringIO(asked.run("sql", query, "--format", "csv").stdout)))
    assert [row["examples"] for row in found] == ["100", "130", "100"]
    rows = json.loads(asked.run("sql", query, "--format", "json").stdout)
    assert rows == asked.json("sql", query)["rows"]
    assert rows[0] == {"dataset": "reviews", "version": "1.0.0", "examples": 100, "tags": None}
    asked.run("sql", query, "--output", "out.parquet")
    read = pq.read_table(asked.folder / "out.parquet")
    assert read.to_pylist() == rows
    asked.run("sql", query, "-o", "out.csv")
    assert (asked.folder / "out.csv").read_text() == asked.run(
        "sql", query, "--format", "csv"
    ).stdout
    done = asked.json("sql", query, "-o", "out.json")
    assert done == {"output": "out.json", "rows": 3, "truncated": False}
    assert json.loads((asked.folder / "out.json").read_text()) == rows
    assert not list(asked.folder.glob(".*.part"))


def test_sql_columns_of_one_name_and_mixed_types(asked: Project) -> None:
    query = "SELECT 1 AS a, 'x' AS a, 2.5 AS b, x'00ff' AS c UNION ALL SELECT 'y', 2, 3, NULL"
    rows = asked.json("sql", query)["rows"]
    assert rows[0] == {"a": 1, "a_2": "x", "b": 2.5, "c": "00ff"}
    asked.run("sql", query, "-o", "out.parquet")
    read = pq.read_table(asked.folder / "out.parquet")
    assert read.to_pydict() == {
        "a": ["1", "y"], "a_2": ["x", "2"], "b": [2.5, 3.0], "c": [b"\x00\xff", None],
    }  # fmt: skip


def test_sql_limits(asked: Project) -> None:
    query = "SELECT key FROM v_stage_runs"
    cut = asked.run("sql", query, "--limit", "2")
    assert len(cut.stdout.splitlines()) == 3
    assert "--limit 0 lifts it" in cut.stderr
    assert asked.json("sql", query, "--limit", "2")["truncated"] is True
    whole = asked.run("sql", query, "--limit", "0", "--format", "csv")
    assert (len(whole.stdout.splitlines()), whole.stderr) == (7, "")
    endless = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT 1 FROM n) SELECT count(*) FROM n"
    assert "longer than 1 seconds" in asked.run("sql", endless, "--timeout", "1", code=2).stderr


@pytest.mark.parametrize(
    ("args", "code", "said"),
    [
        (["DROP TABLE tag"], 2, "something else than read"),
        (["SELECT * FROM v_version"], 2, "Did you mean v_versions or version or version_id?"),
        (["SELECT 1", "--format", "parquet"], 2, "Add --output FILE"),
        (["SELECT 1", "--format", "cvs"], 2, "Did you mean csv?"),
        (["SELECT 1", "--output", "file.xlsx"], 2, "not clear from the name"),
        (["SELECT 1", "--output", "file.txt"], 2, "cannot be read back"),
        (["SELECT 1", "--output", "no/such/folder.csv"], 2, "cannot be written"),
        (["SELECT 1", "--limit", "-1"], 2, "0 or more"),
    ],
    ids=["writes", "typo", "parquet", "format", "suffix", "table", "folder", "limit"],
)
def test_sql_that_is_refused(asked: Project, args: list[str], code: int, said: str) -> None:
    done = asked.run("sql", *args, code=code)
    assert said in " ".join((done.stderr + done.stdout).split())


def test_export(asked: Project) -> None:
    lines = asked.run("export", "openlineage").stdout.splitlines()
    events = [json.loads(line) for line in lines]
    assert len(events) == 3 * 2 + 1
    assert asked.json("export", "openlineage") == events
    done = asked.json("export", "openlineage", "--output", "e.ndjson", "--stages")
    kept = (asked.folder / "e.ndjson").read_text().splitlines()
    assert done == {"output": "e.ndjson", "events": len(kept)}
    assert len(kept) == 3 * 2 + 3 * 2 * 2 + 1
    assert asked.run("export", "openlineage", "--since", "2999-01-01").stdout == ""
    assert asked.run("export", "openlineage", "--until", "2001-01-01").stdout == ""
    named = asked.run("export", "openlineage", "--namespace", "team").stdout
    assert json.loads(named.splitlines()[0])["job"]["namespace"] == "team"
    assert "is no time" in asked.run("export", "openlineage", "--since", "x", code=2).stderr


def completions(project: Project, *words: str) -> list[str]:
    line = " ".join(["provender", *words])
    done = subprocess.run(
        project.command(),
        cwd=project.folder,
        env={
            **project.environ,
            "_PROVENDER_COMPLETE": "complete_bash",
            "COMP_WORDS": line,
            "COMP_CWORD": str(len(words)),
        },
        capture_output=True,
        text=True,
        timeout=60,
    )
    return done.stdout.split()


def test_completion(asked: Project) -> None:
    asked.run("tag", "add", "reviews", "clean")
    assert completions(asked, "consumed-by", "tr") == ["train-7"]
    assert completions(asked, "tag", "ls", "--tag", "c") == ["clean"]
    assert completions(asked, "alias", "ls", "re") == ["reviews"]
    assert "as-of" in completions(asked, "as")


def test_nothing_is_left_beside_an_output_that_cannot_be_written(asked: Project) -> None:
    place = asked.folder / "there"
    place.mkdir()
    asked.run("sql", "SELECT 1", "--format", "csv", "--output", "there", code=2)
    assert os.listdir(place) == []
    assert not Path(asked.folder / ".there.part").exists()


def test_sql_numbers_that_json_does_not_have(asked: Project) -> None:
    done = asked.run("sql", "SELECT 1e999 AS big, -1e999 AS small", "--json")
    assert json.loads(done.stdout, parse_constant=pytest.fail)["rows"] == [
        {"big": "inf", "small": "-inf"}
    ]


def test_versions_of_one_number_or_alias(asked: Project) -> None:
    every = asked.json("versions", "reviews")
    assert [each["version"] for each in every] == ["1.1.0", "1.0.0"]
    assert [each["version"] for each in asked.json("versions", "reviews:1.0.0")] == ["1.0.0"]
    assert [each["version"] for each in asked.json("versions", "reviews@latest")] == ["1.1.0"]
    assert "1.0.0, 1.1.0" in asked.run("versions", "reviews:3.0.0", code=3).stderr


def test_a_tag_that_nothing_bears_names_the_nearest(asked: Project) -> None:
    assert "no tag yet" in asked.run("versions", "--tag", "reviewed").stdout
    asked.run("tag", "add", "reviews:1.0.0", "reviewed")
    for args in (("versions", "--tag", "revewed"), ("tag", "ls", "--tag", "revewed")):
        assert "Did you mean reviewed?" in asked.run(*args).stdout
    assert "No version of it" in asked.run("tag", "ls", "tokens", "--tag", "reviewed").stdout


def test_a_search_for_nothing(asked: Project) -> None:
    assert "no word" in asked.run("search", " ", code=2).stderr


def test_what_was_retracted_before_says_so(asked: Project) -> None:
    asked.run("retract", "reviews:1.0.0", "--reason", "labels shifted")
    done = asked.run(
        "retract", "reviews:1.0.0", "--reason", "other", "--successor", "reviews:1.1.0"
    )
    assert "was retracted before" in done.stdout and "labels shifted" in done.stdout
    assert "aliases" not in done.stdout + done.stderr
