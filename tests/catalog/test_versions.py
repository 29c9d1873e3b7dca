"""Versions: registering, reading, taking back."""

from __future__ import annotations

import pytest

from provender.catalog import ShardRecord, SplitRecord
from provender.errors import CatalogError, ConflictError, UnknownReference


def test_a_version_is_read_as_it_was_registered(catalog, publish):
    stored = publish("1.0.0", "fp", config="big", tree={"name": "register"}, run_id="r" * 32)
    assert catalog.version("toy", "big", "1.0.0") == stored
    assert catalog.version_by_fingerprint("fp") == stored
    assert catalog.version_by_id(stored.id) == stored
    assert catalog.version_by_alias("toy", "big", "latest") == stored
    assert (stored.name, stored.status, stored.aliases) == (
        "toy/big:1.0.0",
        "published",
        ("latest",),
    )
    assert stored.splits == (
        SplitRecord("train", 90, 900, 1),
        SplitRecord("test", 10, 99, 1),
    )
    assert catalog.statistics(stored.id) == {"train": {"mean": 4.5}, "test": {}}
    assert (stored.examples, stored.bytes) == (100, 999)
    assert stored.features == {"text": {"type": "Text"}}
    assert catalog.tree("fp") == {"name": "register"}
    test, train = catalog.shards(stored.id)
    assert test == ShardRecord("test", 0, 1, "toy-test.tfrecord", 99, "cc", "dd", 10, "", None)
    assert (train.split, train.token, train.stage_id is not None) == ("train", "t1", True)


def test_unknown_versions(catalog, publish):
    publish()
    assert catalog.version("toy", None, "9.9.9") is None
    assert catalog.version("toy", "big", "1.0.0") is None
    assert catalog.version_by_fingerprint("nope") is None
    assert catalog.version_by_alias("toy", None, "nope") is None
    with pytest.raises(UnknownReference, match="no version with id"):
        catalog.version_by_id("nope")


def test_registering_again_gives_the_first_row_and_changes_nothing(catalog, publish, rows):
    first = publish("1.0.0", "fp")
    newer = publish("1.1.0")
    before = rows()
    again = catalog.register_version(
        "toy", None, "1.0.0", "fp",
        path="elsewhere", uri="elsewhere", splits=[], shards=[], features={}, info={},
    )  # fmt: skip
    assert again.id == first.id
    assert again.path == first.path
    assert again.splits == first.splits
    assert rows() == before
    assert catalog.version_by_alias("toy", None, "latest") == newer


def test_other_content_under_a_published_number_is_refused(catalog, publish, rows):
    first = publish("1.0.0", "old" * 20)
    before = rows()
    with pytest.raises(ConflictError, match="already published with other content") as caught:
        catalog.register_version(
            "toy", None, "1.0.0", "new" * 20,
            path="p", uri="u", splits=[], shards=[], features={}, info={}, tree={"name": "t"},
        )  # fmt: skip
    assert caught.value.facts == {
        "version_id": first.id,
        "published_fingerprint": "old" * 20,
        "fingerprint": "new" * 20,
    }
    assert "retract toy:1.0.0" in caught.value.hint
    assert rows() == before
    assert publish("1.0.0", "other config", config="big").status == "published"


def test_one_fingerprint_is_one_version(publish):
    publish("1.0.0", "fp")
    with pytest.raises(ConflictError, match=r"toy:2\.0\.0 has the fingerprint of toy:1\.0\.0"):
        publish("2.0.0", "fp")
    with pytest.raises(ConflictError, match="another version"):
        publish("1.0.0", "fp", dataset="other")


def test_a_retracted_number_is_free_but_its_content_is_not(catalog, publish):
    bad = publish("1.0.0", "bad")
    catalog.retract(bad.id, "leaked labels", "ada")
    with pytest.raises(ConflictError, match="retracted by ada: leaked labels"):
        publish("1.0.0", "bad")
    good = publish("1.0.0", "good")
    assert catalog.version("toy", None, "1.0.0") == good
    assert [one.status for one in catalog.versions("toy")] == ["published", "retracted"]
    assert catalog.versions("toy", include=["retracted"])[0].retract_reason == "leaked labels"


def test_retracting_moves_latest_back_and_drops_other_aliases(catalog, publish):
    old, new = publish("1.0.0"), publish("1.1.0", aliases=("latest", "golden"))
    back = catalog.retract(new.id, "wrong", "ada")
    assert (back.status, back.retracted_by, back.retract_reason) == ("retracted", "ada", "wrong")
    assert back.retracted is not None
    assert back.aliases == ()
    assert catalog.retract(new.id, "again", "bob") == back
    assert {name: one.version_id for name, one in catalog.aliases("toy").items()} == {
        "latest": old.id
    }
    newest = catalog.alias_history("toy", name="golden")[0]
    assert (newest.version, newest.by) == (None, "ada")


def test_retracting_with_a_successor_moves_all_aliases(catalog, publish):
    old, new = publish("1.0.0", aliases=("golden",)), publish("1.0.1", aliases=())
    gone = catalog.retract(old.id, "typo", "ada", successor=new.id)
    assert gone.successor_id == new.id
    assert catalog.version_by_alias("toy", None, "golden").id == new.id
    with pytest.raises(UnknownReference):
        catalog.retract(new.id, "typo", "ada", successor="nope")
    with pytest.raises(UnknownReference):
        catalog.retract("nope", "typo", "ada")


def test_reinstating(catalog, publish):
    first = publish("1.0.0", "fp")
    catalog.retract(first.id, "by mistake", "ada")
    back = catalog.reinstate(first.id)
    assert (back.status, back.retracted, back.retract_reason) == ("published", None, None)
    assert catalog.reinstate(first.id) == back
    catalog.retract(first.id, "really", "ada")
    publish("1.0.0", "other")
    with pytest.raises(ConflictError, match="published again"):
        catalog.reinstate(first.id)
    trial = publish("3.0.0", status="trial")
    with pytest.raises(ConflictError, match="trial"):
        catalog.reinstate(trial.id)


def test_a_trial_takes_the_place_of_the_one_before(catalog, publish):
    first = publish("1.0.0", "t1", status="trial")
    assert first.aliases == ()
    second = publish("1.0.0", "t2", status="trial")
    assert catalog.versions("toy") == [second]
    [replaced] = catalog.versions("toy", include=["replaced"])
    assert (replaced.id, replaced.successor_id) == (first.id, second.id)
    back = publish("1.0.0", "t1", status="trial", path="again")
    assert (back.id, back.status, back.path, back.successor_id) == (
        first.id,
        "trial",
        "again",
        None,
    )
    assert [one.id for one in catalog.versions("toy")] == [first.id]


def test_trials_and_published_versions_live_side_by_side(catalog, publish):
    published = publish("1.0.0", "p")
    trial = publish("1.0.0", "t", status="trial")
    assert catalog.version("toy", None, "1.0.0") == published
    assert catalog.version("toy", None, "1.0.0", include=["trial"]) == trial
    assert publish("1.0.0", "p", status="trial") == published
    with pytest.raises(ConflictError):
        publish("1.0.0", "t")


def test_a_trial_becomes_published(catalog, publish):
    trial = publish("1.0.0", "fp", status="trial", path="trial")
    published = publish("1.0.0", "fp", path="final")
    assert (published.id, published.status, published.path) == (trial.id, "published", "final")
    assert published.aliases == ("latest",)
    assert len(catalog.shards(published.id)) == 2


def test_datasets(catalog, publish):
    publish("1.0.0")
    bad = publish("1.1.0")
    publish("2.0.0", status="trial")
    publish("1.0.0", "c", config="big", aliases=())
    catalog.retract(bad.id, "x", "y")
    plain, big = catalog.datasets()
    assert (plain.dataset, plain.config, plain.published, plain.trial, plain.retracted) == (
        "toy", "", 1, 1, 1,
    )  # fmt: skip
    assert (plain.latest, big.latest) == ("1.0.0", None)


def test_listing_versions(catalog, publish):
    made = [publish("1.0.0"), publish("1.1.0", config="big"), publish("2.0.0", dataset="other")]
    assert [one.id for one in catalog.versions()] == [one.id for one in made[::-1]]
    assert [one.id for one in catalog.versions("toy", config="")] == [made[0].id]
    assert len(catalog.versions(limit=1)) == 1


def test_shard_tokens(catalog, publish):
    version = publish()
    catalog.set_shard_token(version.id, "train", 0, "repaired")
    assert catalog.shards(version.id)[1].token == "repaired"
    with pytest.raises(UnknownReference, match="no shard 7"):
        catalog.set_shard_tokens(version.id, {("train", 0): "x", ("train", 7): "y"})
    assert catalog.shards(version.id)[1].token == "repaired"


def test_nothing_of_a_failed_registration_stays(catalog, rows):
    before = rows()
    twice = [ShardRecord("train", 0, 1, "f", 1, "s", "c", 1)] * 2
    with pytest.raises(CatalogError):
        catalog.register_version(
            "toy", None, "1.0.0", "fp",
            path="p", uri="u", splits=[], shards=twice, features={}, info={},
        )  # fmt: skip
    assert rows() == before


def test_aliases_and_their_history(catalog, publish):
    first, second = publish("1.0.0"), publish("1.1.0")
    catalog.set_alias("toy", None, "golden", first.id, who="ada", run_id="r")
    catalog.set_alias("toy", None, "golden", first.id, who="bob")
    catalog.set_alias("toy", None, "golden", second.id, who="bob")
    golden = catalog.aliases("toy")["golden"]
    assert (golden.version, golden.version_id, golden.set_by) == ("1.1.0", second.id, "bob")
    catalog.set_alias("toy", None, "golden", None, who="eve")
    catalog.set_alias("toy", None, "golden", None, who="eve")
    assert list(catalog.aliases("toy")) == ["latest"]
    assert [(move.version, move.by, move.run_id) for move in catalog.alias_history("toy", None, "golden")] == [
        (None, "eve", None), ("1.1.0", "bob", None), ("1.0.0", "ada", "r"),
    ]  # fmt: skip


def test_an_alias_points_only_inside_its_dataset(catalog, publish):
    other = publish("1.0.0", "x", dataset="other")
    publish()
    for dataset, version in [("toy", other.id), ("toy", "nope"), ("unknown", other.id)]:
        with pytest.raises(UnknownReference):
            catalog.set_alias(dataset, None, "golden", version)
