"""Search: what is found, in what order, and that the index follows what happens."""

from __future__ import annotations

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.questions.conftest import FEATURES, info

from provender.catalog import searching
from provender.catalog.words import feature_names, indexed, part, words_of
from provender.errors import CatalogError


def names(hits):
    return [hit.name for hit in hits]


def fields(hit):
    return {match.field for match in hit.matches}


@pytest.mark.parametrize(
    ("asked", "field"),
    [
        ("reviews", "name"),
        ("golden", "alias"),
        ("topleft", "feature"),
        ("test", "split"),
        ("cc0", "licence"),
        ("shiny", "tag"),
        ("job-42", "job"),
        ("example.org/home", "url"),
        ("data.example.org/reviews.zip", "url"),
        ("sentiment", "description"),
    ],
)
def test_every_field_is_searched(catalog, make, asked, field):
    about = info("Texts with a sentiment.", "CC0", "https://example.org/home")
    version = make("reviews", "1.0.0", info=about)
    other = make("tiles", "1.0.0", features={"image": {}}, info=info("Maps.", "MIT", ""))
    catalog.set_alias("reviews", "", "golden", version.id)
    catalog.add_tags(version.id, ["shiny"])
    catalog.record_consumption(version.id, "job-42")
    hits = catalog.search(asked)
    assert hits[0].dataset == "reviews"
    assert field in fields(hits[0])
    assert hits[0].version_id == version.id
    assert other.id not in {hit.version_id for hit in hits} or asked == "test"


def test_all_words_must_be_there_but_anywhere(catalog, make):
    make("reviews", "1.0.0", info=info("Film opinions.", "CC0"))
    make("films", "1.0.0", info=info("Film stills.", "MIT"))
    assert names(catalog.search("film")) == ["films:1.0.0", "reviews:1.0.0"]
    assert names(catalog.search("film cc0")) == ["reviews:1.0.0"]
    assert names(catalog.search("FILM opin train")) == ["reviews:1.0.0"]
    assert catalog.search("film zebra") == []
    assert catalog.search("") == catalog.search("  -- !! ") == []


def test_order(catalog, make):
    make("about_news", "1.0.0", info=info("Something else."))
    make("news", "1.0.0", info=info("Something else."))
    make("newsgroups", "1.0.0", info=info("Something else."))
    make("speech", "1.0.0", info=info("Read from the news."))
    found = catalog.search("news")
    assert [hit.dataset for hit in found] == ["news", "newsgroups", "about_news", "speech"]
    assert found == sorted(found, key=lambda hit: -hit.score)


def test_the_version_that_says_so_is_shown(catalog, make):
    one = make("reviews", "1.0.0", info=info("With a typo."))
    two = make("reviews", "1.1.0", info=info("Without."))
    (hit,) = catalog.search("typo")
    assert (hit.version_id, hit.version) == (one.id, "1.0.0")
    (hit,) = catalog.search("reviews")
    assert (hit.version_id, hit.version) == (two.id, "1.1.0")
    (hit,) = catalog.search("without")
    assert hit.version_id == two.id
    catalog.retract(two.id, "bad", "ann")
    (hit,) = catalog.search("without")
    assert hit.status == "retracted"


def test_one_text_is_kept_once_however_many_versions_have_it(catalog, make, rows):
    make("reviews", "1.0.0")
    before = rows()["search_part"]
    last = [make("reviews", f"1.{i}.0") for i in range(1, 5)][-1]
    assert rows()["search_part"] == before
    (hit,) = catalog.search("label")
    assert hit.version_id == last.id


def test_the_index_follows_aliases_and_tags(catalog, make):
    one, two = make("reviews", "1.0.0"), make("reviews", "1.1.0")
    catalog.set_alias("reviews", "", "golden", one.id)
    assert catalog.search("golden")[0].version_id == one.id
    catalog.set_alias("reviews", "", "golden", two.id)
    assert catalog.search("golden")[0].version_id == two.id
    catalog.set_alias("reviews", "", "golden", None)
    assert catalog.search("golden") == []
    catalog.add_tags(one.id, ["clean"])
    catalog.add_tags(two.id, ["clean"])
    assert catalog.search("clean")[0].version_id == two.id
    catalog.remove_tags(two.id, ["clean"])
    assert catalog.search("clean")[0].version_id == one.id
    catalog.remove_tags(one.id, ["clean"])
    assert catalog.search("clean") == []


def test_a_registration_that_fails_leaves_no_words(catalog, make, rows):
    before = rows()
    with pytest.raises((TypeError, CatalogError)):
        make("reviews", "1.0.0", info={"dataset_info": {"description": {1, 2}}})
    after = rows()
    assert {n: after[n] for n in ("search_part", "version")} == {
        n: before[n] for n in ("search_part", "version")
    }
    assert catalog.search("reviews") == []


def test_configs_are_found_apart(catalog, make):
    make("wiki", "1.0.0", config="en")
    make("wiki", "1.0.0", config="de")
    assert names(catalog.search("wiki de")) == ["wiki/de:1.0.0"]
    assert names(catalog.search("wiki/en"))[0] == "wiki/en:1.0.0"


def test_common_words_still_find_the_rare_ones(catalog, make, monkeypatch):
    monkeypatch.setattr(searching, "_MOST_PARTS", 5)
    for i in range(12):
        make(f"set_{i}", "1.0.0", info=info("A plain set.", "CC0"))
    make("rare", "1.0.0", info=info("A plain set of zebras.", "CC0"))
    assert names(catalog.search("plain zebras")) == ["rare:1.0.0"]
    assert names(catalog.search("zebras plain cc0 label")) == ["rare:1.0.0"]
    assert names(catalog.search("rare")) == ["rare:1.0.0"]
    # More of one word than are counted: some of them, and every dataset that is called so.
    assert len(catalog.search("plain", limit=50)) >= 5
    assert len(catalog.search("set", limit=50)) >= 5
    assert names(catalog.search("set_11"))[0] == "set_11:1.0.0"


HOSTILE = [
    "' OR 1=1 --",
    '" OR "" : *',
    "NEAR(a b) AND NOT c",
    "a:b & !c | (d)",
    "<script>alert(1)</script>",
    "\x00\x01",
    "x" * 100_000,
    "\ud800 half a pair",
    "\u202eesrever",
    "%_*?",
    "name:reviews",
    "=reviews",
    "ﬁne ②",
    "数据 наборы",
]


@pytest.mark.parametrize("asked", HOSTILE, ids=range(len(HOSTILE)))
def test_hostile_questions_and_texts(catalog, make, asked):
    make("plain", "1.0.0")
    make("odd", "1.0.0", info=info(asked.replace("\x00", ""), "CC0"))
    assert {hit.dataset for hit in catalog.search(asked)} <= {"plain", "odd"}
    assert catalog.search("plain")[0].dataset == "plain"
    if len(words_of(asked)) > 1 or "数" in asked:
        assert "odd" in {hit.dataset for hit in catalog.search(asked)}


@given(st.text(max_size=60))
def test_a_text_is_found_by_each_of_its_words(text):
    made = part("description", text)
    words = words_of(text)
    assert (made is None) == (not words)
    assert all(word == word.lower() and word.isalnum() for word in words)
    assert len(words) == len(set(words))
    if made is not None:
        assert made["words"].split(" ") == words
        assert words_of(unicodedata.normalize("NFD", text)) == words


def test_words():
    assert words_of("pixelValues of HTTPServer2") == [
        "pixelvalues", "pixel", "values", "of", "httpserver2", "http", "server",
    ]  # fmt: skip
    assert words_of("wmt14_translate/de-en") == ["wmt14", "wmt", "14", "translate", "de", "en"]
    assert words_of("Größe Café") == ["große", "cafe"]
    assert indexed("name", "xsum") == "xsum =xsum"
    assert indexed("job", "xsum") == "xsum"


def test_feature_names():
    assert list(feature_names(FEATURES)) == ["text", "label", "boxes", "boxes/topLeft"]
    assert list(feature_names({"text": {"type": "Text"}})) == ["text"]
    assert list(feature_names({})) == []
    deep = {"pythonClassName": "x.Text"}
    for _ in range(5000):
        deep = {"featuresDict": {"features": {"a": deep}}}
    assert len(list(feature_names(deep))) == 5000
    assert list(feature_names({"featuresDict": {"features": "nonsense"}})) == []
