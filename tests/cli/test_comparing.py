"""``stats`` and ``diff`` as people run them."""

from __future__ import annotations

import pytest

CHANGED = {"row {i}": "line {i}"}


@pytest.fixture(scope="module")
def two(first_build, tmp_path_factory):
    """A project with two versions of one dataset; tests must leave it as it is."""
    import shutil

    project, _ = first_build
    folder = tmp_path_factory.mktemp("two") / "project"
    shutil.copytree(project.folder, folder)
    copy = type(project)(folder)
    text = (folder / "sets.py").read_text()
    (folder / "sets.py").write_text(
        text.replace('"1.0.0"', '"1.1.0"').replace(
            'yield i, {"text": f"row {i}", "label": i % 2}',
            'yield i + 2, {"text": f"row {i + 2}", "label": i % 2}',
            1,
        )
    )
    copy.run("build", "tiny")
    return copy


def test_stats_is_a_table_with_small_histograms(built) -> None:
    shown = built.run("stats", "tiny").stdout
    lines = shown.splitlines()
    assert lines[0].startswith("train: 20 examples, ")
    text = next(line for line in lines if line.startswith("text"))
    assert text.split()[1:6] == ["text", "0", "0", "20", "characters"]
    assert any(level in text for level in "▁▂▃▄▅▆▇█")
    assert "a 50%, b 50%" in next(line for line in lines if line.startswith("label"))


def test_stats_of_one_split_and_feature(built) -> None:
    shown = built.run("stats", "tiny", "--split", "test", "--feature", "label").stdout
    assert shown.startswith("test: 5 examples") and "train" not in shown
    assert any(line.split()[:3] == ["a", "3", "60.0%"] for line in shown.splitlines())


def test_stats_as_json(built) -> None:
    doc = built.json("stats", "tiny", "--feature", "text")
    assert doc["version"] == "tiny:1.0.0"
    train = doc["splits"]["train"]
    assert (
        list(train["features"]) == ["text"] and train["features"]["text"]["characters"]["max"] == 6
    )


@pytest.mark.parametrize(
    ("args", "said"),
    [
        (("--split", "trian"), "Did you mean 'train'?"),
        (("--feature", "lable"), "Did you mean 'label'?"),
    ],
    ids=["split", "feature"],
)
def test_stats_of_what_is_not_there(built, args, said) -> None:
    assert said in built.run("stats", "tiny", *args, code=3).stderr


def test_stats_of_a_version_that_has_none(two) -> None:
    """As after an update: they are made on request, and kept."""
    import sqlite3

    with sqlite3.connect(two.folder / "data" / "catalog.db") as catalog:
        catalog.execute(
            "UPDATE split_stat SET statistics = '{}' WHERE version_id IN "
            "(SELECT id FROM version WHERE version = '1.0.0')"
        )
    told = two.run("stats", "tiny:1.0.0", code=3).stderr
    assert "has no statistics" in told and "--compute" in told
    assert "note: tiny:1.0.0 has no statistics yet" in two.run("diff", "tiny:1.0.0", "tiny").stdout
    assert "train: 20 examples" in two.run("stats", "tiny:1.0.0", "--compute").stdout
    assert "train: 20 examples" in two.run("stats", "tiny:1.0.0").stdout


def test_diff_tells_what_was_recorded(two) -> None:
    shown = two.run("diff", "tiny:1.0.0", "tiny:1.1.0").stdout
    assert shown.startswith("tiny:1.0.0 -> tiny:1.1.0")
    assert "_generate_examples" in shown and "version" in shown


def test_diff_by_key(two) -> None:
    shown = two.run("diff", "tiny:1.0.0", "tiny:1.1.0", "--key", "text", "--samples", "1").stdout
    row = next(
        line for line in shown.splitlines() if line.startswith("train ") and "2" in line.split()
    )
    assert "examples, by text" in shown and "train: added" in shown and "row 21" in shown
    doc = two.json("diff", "tiny:1.0.0", "tiny:1.1.0", "--key", "text")
    train = doc["examples"]["splits"][0]
    assert [train[each] for each in ("added", "removed", "changed", "same")] == [2, 2, 0, 18], row


def test_a_declared_key_is_used(two) -> None:
    file = two.folder / "provender.toml"
    kept = file.read_text()
    try:
        file.write_text(f'{kept}key = "text"\n')
        assert (
            two.json("diff", "tiny:1.0.0", "tiny:1.1.0", "--examples")["examples"]["key"] == "text"
        )
    finally:
        file.write_text(kept)


def test_diff_of_a_version_and_itself(built) -> None:
    shown = built.run("diff", "tiny", "tiny", "--examples").stdout
    assert "Both hold the same." in shown
    assert built.json("diff", "tiny", "tiny")["same"] is True


def test_diff_of_what_is_not_there(two) -> None:
    assert "no version 9.9.9" in two.run("diff", "tiny:1.0.0", "tiny:9.9.9", code=3).stderr
    told = two.run("diff", "tiny:1.0.0", "tiny:1.1.0", "--key", "txet", code=3).stderr
    assert "Did you mean 'text'?" in told
