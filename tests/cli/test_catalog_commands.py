from __future__ import annotations

import datetime
import json
import sqlite3
from contextlib import closing

from tests.cli.conftest import Project


def test_show(built: Project) -> None:
    text = built.run("show", "tiny").stdout
    assert "tiny:1.0.0  published" in text
    assert "aliases      latest" in text
    assert "label    ClassLabel 2 classes" in text
    doc = built.json("show", "tiny@latest")
    assert doc["examples"] == 25
    assert doc["splits"][0]["shards"] == 3
    assert doc["created"].endswith("Z")
    datetime.datetime.fromisoformat(doc["created"])


def test_versions_datasets_and_sql(built: Project) -> None:
    assert built.json("versions", "tiny")[0]["aliases"] == ["latest"]
    assert built.json("datasets")[0]["latest"] == "1.0.0"
    every = {each["dataset"]: each["source"] for each in built.json("datasets", "--all")}
    assert every["tiny"] == "catalog"
    assert every["digits"] == "provender"
    assert every["mnist"] == "tfds"
    rows = built.json("sql", "SELECT dataset FROM v_versions")["rows"]
    assert rows == [{"dataset": "tiny"}]


def test_runs_and_stages(built: Project) -> None:
    run = built.json("runs", "tiny")[-1]
    assert (run["kind"], run["outcome"]) == ("build", "succeeded")
    text = built.run("runs", run["id"][:8]).stdout
    assert "build of tiny:1.0.0  succeeded" in text
    assert "shards/train/00000..00002  3 succeeded" in text
    stages = {each["key"]: each for each in built.json("stages", "--run", run["id"])}
    assert stages["shards/test/00000"]["why"] == ["never run before"]
    assert stages["shards/test/00000"]["seconds"] >= 0
    assert built.json("stages", "tiny")[0]["host"]
    assert "Give a dataset or a run" in built.run("stages", code=2).stderr


def test_runs_and_stages_of_one_version(built: Project) -> None:
    run = built.json("runs", "tiny")[-1]
    for ref in ("tiny:1.0.0", "tiny@latest"):
        found = built.json("runs", ref)
        assert {each["version"] for each in found} == {"1.0.0"}
        assert run["id"] in {each["id"] for each in found}
        stages = built.json("stages", ref)
        assert stages == built.json("stages", "--run", run["id"])
    for command in ("runs", "stages"):
        assert "There are: 1.0.0" in built.run(command, "tiny:3.0.0", code=3).stderr


def test_why_and_lineage(built: Project) -> None:
    doc = built.json("why", "tiny", "shards/train")
    assert doc["about"] == "ready"
    assert [each["stage"] for each in doc["stages"]] == [f"shards/train/0000{i}" for i in range(3)]
    assert "never run before" in built.run("why", "tiny").stdout
    assert "There are: " in built.run("why", "tiny", "nothing", code=3).stderr
    tree = built.run("lineage", "tiny").stdout.splitlines()
    assert tree[0].startswith("tiny:1.0.0")
    assert any("└─" in line and "tiny:examples/train" in line for line in tree)
    graph = built.json("lineage", "tiny", "--up", "--depth", "1")["up"]
    assert graph["nodes"][0]["kind"] == "version"


def test_verify_pull_head(built: Project, tmp_path_factory: object) -> None:
    assert "files ok" in built.run("verify", "tiny").stdout
    assert built.json("verify", "tiny", "--quick")["ok"] is True
    examples = built.json("head", "tiny", "--split", "test", "-n", "2")
    assert len(examples) == 2
    assert examples[0]["text"].startswith("row ")
    assert "text " in built.run("head", "tiny", "-n", "1").stdout
    report = built.json("pull", "tiny", "copy")
    assert report["files"] > 0
    assert built.json("pull", "tiny", "copy")["files"] == 0
    info = built.folder / "copy" / "tiny" / "1.0.0" / "dataset_info.json"
    assert json.loads(info.read_text())["name"] == "tiny"


def test_a_damaged_shard_is_found_and_put_back(project: Project) -> None:
    project.run("build", "sets.py:Tiny")
    shard = next((project.folder / "data/datasets/tiny/1.0.0").glob("tiny-train*"))
    good = shard.read_bytes()
    shard.unlink()
    shard.write_bytes(good[:-1] + bytes([good[-1] ^ 1]))
    done = project.run("verify", "tiny", code=6)
    assert shard.name in done.stdout
    assert "provender build tiny:1.0.0" in done.stdout
    project.run("build", "tiny")
    assert shard.read_bytes() == good
    project.run("retract", "tiny", "--reason", "labels shifted")
    assert "labels shifted" in project.run("show", "tiny:1.0.0").stdout
    assert project.json("versions", "tiny")[0]["status"] == "retracted"


def test_init_database_and_doctor(project: Project) -> None:
    assert "is there already" in project.run("init", code=2).stderr
    project.run("init", "--force", "--store", "bytes")
    assert 'store = "bytes"' in (project.folder / "provender.toml").read_text()
    assert (project.folder / "bytes" / "catalog.db").is_file()
    status = project.json("db", "status")
    assert status["state"] == "current"
    assert project.json("db", "check") == {"catalog": status["catalog"], "differences": []}
    assert "already" in project.run("db", "upgrade").stdout
    assert isinstance(project.json("doctor"), list)


def test_a_catalog_of_another_age_says_what_mends_it(project: Project) -> None:
    project.run("db", "upgrade")
    for revision, state, said in (
        ("0003", "older", "provender db upgrade"),
        ("0099", "newer", "Update Provender here"),
    ):
        with closing(sqlite3.connect(project.folder / "data" / "catalog.db")) as conn, conn:
            conn.execute("UPDATE alembic_version SET version_num = ?", (revision,))
        assert said in project.run("db", "status", code=7).stdout
        assert project.json("db", "status", code=7)["state"] == state
        assert said in project.run("ui", "--port", "0", code=7).stderr
