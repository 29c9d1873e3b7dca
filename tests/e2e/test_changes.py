"""What reruns, and why, when one thing changes at a time."""

from __future__ import annotations

import os

import pytest
from tests.e2e.conftest import Project, not_hit, reasons, states

from provender.errors import ConflictError

ALL = {
    "download",
    "splits",
    "examples/train",
    "examples/test",
    "shards/train",
    "shards/test",
    "register",
}
BELOW_EXAMPLES = ALL - {"download", "splits"}


def test_second_build_runs_nothing_and_adds_one_row(pairs: Project) -> None:
    first = pairs.build()
    assert first.outcome == "succeeded"
    session = pairs.session("pairs.py:Pairs")
    before = _rows(session.catalog)
    second = pairs.build()
    assert second.outcome == "cached"
    assert second.ran == ()
    assert second.version.id == first.version.id
    after = _rows(session.catalog)
    assert {t: after[t] - before[t] for t in after if after[t] != before[t]} == {"run": 1}
    session.catalog.close()


def _rows(catalog: object) -> dict[str, int]:
    names = catalog.sql("SELECT name FROM sqlite_master WHERE type = 'table'").rows
    # The search index is the database's own, over the rows of search_part.
    other = ("sqlite_", "alembic", "search_index")
    tables = [name for (name,) in names if not name.startswith(other)]
    return {name: catalog.sql(f"SELECT count(*) FROM {name}").rows[0][0] for name in tables}


@pytest.mark.parametrize(
    ("name", "old", "new"),
    [
        ("pairs.py", "Two splits from two files.", "Another docstring."),
        ("pairs.py", '"""A builder."""', '"""Words."""\n# and a comment'),
        ("helping.py", "# Cuts a line.", "# Cuts a line, said otherwise."),
        ("helping.py", "def shape(line):", "def shape(line: str) -> str:"),
        ("helping.py", "LIMIT = 40", "LIMIT = (40)\nUNUSED = 3"),
    ],
)
def test_what_cannot_change_the_output_reruns_nothing(
    pairs: Project, name: str, old: str, new: str
) -> None:
    pairs.build()
    pairs.edit(name, old, new)
    assert not_hit(pairs.plan()) == set()


def test_generate_examples_reruns_examples_onward(pairs: Project) -> None:
    pairs.build()
    pairs.edit("pairs.py", "number % 3}", "(number + 1) % 3}")
    plan = pairs.plan()
    assert not_hit(plan) == BELOW_EXAMPLES
    [text] = reasons(plan, "examples/train")
    assert "_generate_examples" in text
    assert "number % 3" in text
    assert "(number + 1) % 3" in text


def test_helper_in_another_module_is_named(pairs: Project) -> None:
    pairs.build()
    pairs.edit("helping.py", "line.strip()", "line.strip().upper()")
    plan = pairs.plan()
    assert not_hit(plan) == BELOW_EXAMPLES
    [text] = reasons(plan, "examples/test")
    assert "helping.shape()" in text
    assert "upper" in text


def test_helpers_constant_shows_old_and_new_value(pairs: Project) -> None:
    pairs.build()
    pairs.edit("helping.py", "LIMIT = 40", "LIMIT = 4")
    plan = pairs.plan()
    assert not_hit(plan) == BELOW_EXAMPLES
    assert reasons(plan, "examples/train") == ["global helping.LIMIT: 40 -> 4"]


def test_one_splits_input_reruns_that_split_only(pairs: Project) -> None:
    pairs.build(trial=True)
    (pairs.root / "data/test.txt").write_text("other\nlines\n")
    plan = pairs.plan(trial=True)
    assert states(plan)["download"] == "run"
    assert "changed upstream" in reasons(plan, "download")[0]
    built = pairs.build(trial=True)
    assert set(built.ran) == {
        "download",
        "splits",
        "examples/test",
        "shards/test/00000",
        "register",
    }
    assert {s.name: s.examples for s in built.version.splits} == {"train": 50, "test": 2}


def test_upstream_file_with_equal_bytes_stops_at_the_download(pairs: Project) -> None:
    first = pairs.build()
    path = pairs.root / "data/train.txt"
    path.write_bytes(path.read_bytes())
    os.utime(path, (1, 1))
    built = pairs.build()
    assert built.ran == ("download",)
    assert built.version.id == first.version.id


def test_changed_upstream_bytes_under_a_published_number_are_refused(pairs: Project) -> None:
    pairs.build()
    (pairs.root / "data/train.txt").write_text("other\n")
    with pytest.raises(ConflictError) as caught:
        pairs.build()
    assert "argument path" in str(caught.value)
    assert pairs.plan().version is None or not pairs.plan().done


def test_shard_count_reruns_shards_onward(pairs: Project) -> None:
    pairs.build(trial=True)
    plan = pairs.plan(trial=True, num_shards=4)
    assert not_hit(plan) == {"shards/train", "shards/test", "register"}
    assert any("shards: 1 -> 4" in text for text in reasons(plan, "shards/train/00000"))
    built = pairs.build(trial=True, num_shards=4)
    assert [s.shards for s in built.version.splits] == [4, 4]


def test_force_reruns_the_named_stage_and_stops_where_it_comes_out_equal(pairs: Project) -> None:
    pairs.build()
    built = pairs.build(force=("examples/train",))
    assert built.ran == ("examples/train",)
    assert built.outcome == "succeeded"


def test_version_number_alone_reruns_only_register(pairs: Project) -> None:
    pairs.build()
    pairs.edit("pairs.py", 'Version("1.0.0")', 'Version("1.0.1")')
    built = pairs.build()
    assert built.ran == ("register",)
    assert built.version.version == "1.0.1"


def test_published_number_with_changed_code_is_refused_with_the_diff(pairs: Project) -> None:
    first = pairs.build()
    pairs.edit("helping.py", "LIMIT = 40", "LIMIT = 4")
    with pytest.raises(ConflictError) as caught:
        pairs.build()
    text = str(caught.value)
    assert "pairs:1.0.0 is published" in text
    assert "LIMIT: 40 -> 4" in text
    assert "VERSION" in text
    assert "retract" in text
    session = pairs.session("pairs.py:Pairs")
    session.catalog.retract(first.version.id, "wrong limit", "someone")
    session.catalog.close()
    again = pairs.build()
    assert again.version.id != first.version.id
    assert again.version.version == "1.0.0"


def test_features_and_config_count(pairs: Project) -> None:
    pairs.build()
    pairs.edit("pairs.py", "num_classes=3", "num_classes=4")
    plan = pairs.plan()
    assert not_hit(plan) == BELOW_EXAMPLES
    assert plan.conflict is not None


def test_an_edit_is_seen_in_the_process_that_built_before(pairs: Project) -> None:
    """The module is loaded anew: what is planned is what worker processes would run."""
    pairs.build(trial=True)
    pairs.edit("helping.py", "line.strip()", "line.strip().upper()")
    built = pairs.build(trial=True)
    assert "examples/train" in built.ran
    shard = pairs.root / "store" / built.version.path / "pairs-train.tfrecord-00000-of-00001"
    assert b"TRAIN LINE 1" in shard.read_bytes()


def test_store_that_was_moved_is_read_once_and_reused(pairs: Project) -> None:
    import shutil

    pairs.build()
    shutil.copytree(pairs.root / "store", pairs.root / "copy")
    shutil.rmtree(pairs.root / "store")
    (pairs.root / "copy").rename(pairs.root / "store")
    assert pairs.build().outcome == "cached"


def test_plain_build_after_another_number_of_shards_means_the_same_version(pairs: Project) -> None:
    first = pairs.build(num_shards=3)
    second = pairs.build()
    assert second.outcome == "cached"
    assert second.version.id == first.version.id
    with pytest.raises(ConflictError, match="3 -> 5"):
        pairs.build(num_shards=5)


def test_content_that_was_retracted_is_not_published_again(pairs: Project) -> None:
    first = pairs.build()
    session = pairs.session("pairs.py:Pairs")
    session.catalog.retract(first.version.id, "has private lines", "ada")
    with pytest.raises(ConflictError, match=r"ada retracted: has private lines") as caught:
        pairs.build()
    assert "--undo" in str(caught.value)
    assert (pairs.root / "store" / first.version.path / "dataset_info.json").is_file()
    session.catalog.reinstate(first.version.id)
    session.catalog.close()
    assert pairs.build().outcome == "cached"
