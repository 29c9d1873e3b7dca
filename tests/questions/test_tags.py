"""Tags: on, off, and by whom."""

from __future__ import annotations

import pytest

from provender.errors import SettingsError, UnknownReference


def test_on_and_off(catalog, make, ask):
    one, two = make("reviews", "1.0.0"), make("reviews", "1.1.0")
    assert catalog.add_tags(one.id, ["clean", "small", "clean"], who="ann") == ["clean", "small"]
    assert catalog.add_tags(one.id, ["clean", "new"], who="bob") == ["new"]
    assert ask.version(one.id).summary.tags == ("clean", "new", "small")
    catalog.add_tags(two.id, ["clean"], who="bob")
    assert [(e.tag, e.name, e.set_by) for e in ask.tags()] == [
        ("clean", "reviews:1.1.0", "bob"),
        ("clean", "reviews:1.0.0", "ann"),
        ("new", "reviews:1.0.0", "bob"),
        ("small", "reviews:1.0.0", "ann"),
    ]
    assert [e.name for e in ask.tags(tag="clean")] == ["reviews:1.1.0", "reviews:1.0.0"]
    assert len(ask.tags("reviews:1.0.0")) == 3
    assert len(ask.tags("reviews")) == 4
    assert ask.tags(limit=1).more
    assert [v.version for v in ask.versions(tag="small")] == ["1.0.0"]
    assert catalog.sql("SELECT tags FROM v_versions WHERE version = '1.0.0'").rows == (
        ("clean,new,small",),
    )
    assert catalog.remove_tags(one.id, ["clean", "nothing"]) == ["clean"]
    assert ask.version(one.id).summary.tags == ("new", "small")


@pytest.mark.parametrize("name", ["", " a", "a b", "-a", "a,b", "ä", "x" * 101, "<script>", "a\n"])
def test_what_cannot_be_a_tag(catalog, make, rows, name):
    version = make("reviews", "1.0.0")
    before = rows()
    with pytest.raises(SettingsError, match="cannot be a tag"):
        catalog.add_tags(version.id, ["fine", name])
    assert rows() == before


def test_an_unknown_version(catalog, rows):
    before = rows()
    with pytest.raises(UnknownReference):
        catalog.add_tags("0" * 32, ["fine"])
    with pytest.raises(UnknownReference):
        catalog.remove_tags("0" * 32, ["fine"])
    assert rows() == before


@pytest.mark.parametrize("name", ["", "1", "a b", "a/b", "x@y", "ä"])
def test_what_cannot_be_an_alias(catalog, make, name):
    version = make("reviews", "1.0.0")
    with pytest.raises(SettingsError, match="cannot be an alias"):
        catalog.set_alias("reviews", "", name, version.id)


def test_aliases_and_their_history(ask, story):
    assert [(a.name, a.version) for a in ask.aliases("reviews")] == [("latest", "1.1.0")]
    moves = ask.alias_history("reviews", "golden")
    assert [(m.version, m.by) for m in moves] == [(None, "cy"), ("1.1.0", "bob"), ("1.0.0", "ann")]
    assert len(ask.alias_history("reviews")) == 5
    seen = ask.sql("SELECT version FROM v_alias_history WHERE alias = 'golden' ORDER BY move")
    assert seen.rows == (("1.0.0",), ("1.1.0",), (None,))
