"""A reference means one version, or the error says what there is."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from provender.catalog import Catalog, VersionRecord
from provender.errors import ConflictError, SettingsError, UnknownReference
from provender.refs import DatasetRef
from provender.upkeep import find_version, retract


@pytest.fixture
def catalog(tmp_path: Path) -> Iterator[Catalog]:
    with Catalog.open(tmp_path / "catalog.db") as catalog:
        yield catalog


def register(
    catalog: Catalog, name: str, number: str, config: str = "", status: str = "published", **spec
) -> VersionRecord:
    fingerprint = f"{name}/{config}/{number}/{status}".encode().hex().ljust(32, "0")
    return catalog.register_version(
        name, config, number, fingerprint, status=status, path=f"datasets/{name}/{number}",
        uri=f"/store/datasets/{name}/{number}", splits=[], shards=[], features={},
        info={"spec": {"source": f"pkg:{name.title()}", "config": config or None, **spec}},
    )  # fmt: skip


def find(catalog: Catalog, text: str, **options) -> str:
    found = find_version(catalog, DatasetRef.parse(text), **options)
    return f"{found.name} {found.status}"


def test_newest_number_and_alias(catalog):
    old = register(catalog, "notes", "1.0.0")
    register(catalog, "notes", "1.1.0")
    catalog.set_alias("notes", "", "golden", old.id)
    assert find(catalog, "notes") == "notes:1.1.0 published"
    assert find(catalog, "notes:1.0.0") == "notes:1.0.0 published"
    assert find(catalog, "notes@golden") == "notes:1.0.0 published"
    assert find(catalog, "notes@latest") == "notes:1.1.0 published"
    assert find(catalog, "pkg:Notes") == "notes:1.1.0 published"


def test_latest_that_was_set_back_by_hand_is_what_a_bare_name_means(catalog):
    old = register(catalog, "notes", "1.0.0")
    register(catalog, "notes", "1.1.0")
    catalog.set_alias("notes", "", "latest", old.id)
    assert find(catalog, "notes") == "notes:1.0.0 published"


def test_a_trial_counts_only_by_number_and_only_alone(catalog):
    register(catalog, "notes", "1.0.0", status="trial")
    assert find(catalog, "notes:1.0.0") == "notes:1.0.0 trial"
    with pytest.raises(UnknownReference, match="no published version") as caught:
        find(catalog, "notes")
    assert "1.0.0 (trial)" in str(caught.value.hint)
    register(catalog, "notes", "1.0.0")
    assert find(catalog, "notes:1.0.0") == "notes:1.0.0 published"


def test_what_is_unknown_is_told_with_what_there_is(catalog):
    with pytest.raises(UnknownReference, match="no version of a dataset 'notes'") as caught:
        find(catalog, "notes")
    assert "holds no dataset yet" in str(caught.value.hint)
    register(catalog, "notes", "1.0.0")
    register(catalog, "notes", "1.10.0")
    register(catalog, "notes", "1.9.0")
    register(catalog, "books", "2.0.0")
    with pytest.raises(UnknownReference) as caught:
        find(catalog, "note")
    assert caught.value.hint == "Did you mean notes?"
    with pytest.raises(UnknownReference) as caught:
        find(catalog, "zebra")
    assert caught.value.hint == "There are: books, notes."
    with pytest.raises(UnknownReference, match=r"no version 3\.0\.0") as caught:
        find(catalog, "notes:3.0.0")
    assert caught.value.hint == "There are: 1.0.0, 1.9.0, 1.10.0. Aliases: @latest."
    with pytest.raises(UnknownReference, match="no alias 'lates'") as caught:
        find(catalog, "notes@lates")
    assert caught.value.hint == "Did you mean @latest?"
    with pytest.raises(UnknownReference, match="has not built any version"):
        find(catalog, "pkg:Other")


def test_configs(catalog):
    register(catalog, "wiki", "1.0.0", "en")
    assert find(catalog, "wiki") == "wiki/en:1.0.0 published"  # the only one
    register(catalog, "wiki", "1.0.0", "de")
    with pytest.raises(UnknownReference, match="wiki has several configs") as caught:
        find(catalog, "wiki")
    assert caught.value.hint == "There are: wiki/de, wiki/en."
    assert find(catalog, "wiki/de") == "wiki/de:1.0.0 published"
    with pytest.raises(UnknownReference, match="no config 'dd'") as caught:
        find(catalog, "wiki/dd:1.0.0")
    assert caught.value.hint == "Did you mean wiki/de?"
    register(catalog, "wiki", "1.0.0", "simple", config_asked=None)
    assert find(catalog, "wiki/simple") == "wiki/simple:1.0.0 published"


def test_the_builders_default_config_is_what_a_bare_name_means(catalog):
    register(catalog, "wiki", "1.0.0", "de")
    default = {"config": None}
    catalog.register_version(
        "wiki", "en", "1.0.0", "ab" * 16, path="datasets/wiki/en/1.0.0", uri="/x", splits=[],
        shards=[], features={}, info={"spec": {"source": "pkg:Wiki", **default}},
    )  # fmt: skip
    assert find(catalog, "wiki") == "wiki/en:1.0.0 published"


def test_a_retracted_version_says_who_when_why_and_what_instead(catalog):
    old = register(catalog, "notes", "1.0.0")
    new = register(catalog, "notes", "1.1.0")
    retract(catalog, old, "labels were swapped", who="ada", successor=new)
    with pytest.raises(UnknownReference) as caught:
        find(catalog, "notes:1.0.0")
    message = str(caught.value)
    assert "notes:1.0.0 was retracted by ada on " in message
    assert "labels were swapped" in message
    assert "Use notes:1.1.0 instead." in message
    assert caught.value.facts["successor"] == "notes:1.1.0"
    assert caught.value.facts["when"].startswith("20")
    assert find(catalog, "notes:1.0.0", retracted=True) == "notes:1.0.0 retracted"


def test_when_all_is_retracted(catalog):
    retract(catalog, register(catalog, "notes", "1.0.0"), "wrong")
    with pytest.raises(UnknownReference, match="no published version") as caught:
        find(catalog, "notes")
    assert "1.0.0 (retracted)" in str(caught.value.hint)
    assert find(catalog, "notes", retracted=True) == "notes:1.0.0 retracted"


def test_retracting_twice_is_once(catalog):
    version = register(catalog, "notes", "1.0.0")
    first = retract(catalog, version, "wrong", who="ada")
    again = retract(catalog, first, "other words", who="bob")
    assert (again.retract_reason, again.retracted_by) == ("wrong", "ada")


def test_who_is_this_account_by_default(catalog):
    assert retract(catalog, register(catalog, "notes", "1.0.0"), "wrong").retracted_by


def test_what_cannot_be_retracted(catalog):
    version = register(catalog, "notes", "1.0.0")
    other = register(catalog, "books", "1.0.0")
    trial = register(catalog, "notes", "2.0.0", status="trial")
    with pytest.raises(SettingsError, match="without a reason"):
        retract(catalog, version, "  ")
    with pytest.raises(ConflictError, match="is a trial"):
        retract(catalog, trial, "wrong")
    for successor, why in (
        (version, "itself"),
        (other, "another dataset"),
        (trial, "not published"),
    ):
        with pytest.raises(ConflictError, match=why):
            retract(catalog, version, "wrong", successor=successor)
    assert find(catalog, "notes") == "notes:1.0.0 published"
