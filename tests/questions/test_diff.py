"""Two built versions compared, on cases made by hand."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from provender.catalog import Catalog, VersionRecord
from provender.engine.build import build
from provender.engine.session import Options, open_session
from provender.errors import DamageError, UnknownReference
from provender.questions.asking import Questions
from provender.questions.diff import diff
from provender.refs import DatasetRef
from provender.settings import Settings, load_settings
from provender.store import Store

BUILDER = """
import tensorflow_datasets as tfds


class Notes(tfds.core.GeneratorBasedBuilder, skip_registration=True):
    VERSION = tfds.core.Version("{version}")

    def _info(self):
        return tfds.core.DatasetInfo(
            builder=self,
            description="{description}",
            features=tfds.features.FeaturesDict({{
                "id": tfds.features.Text(),
                "text": tfds.features.Text(),
                "label": tfds.features.ClassLabel(names=["calm", "loud"]),
                {more}
            }}),
        )

    def _split_generators(self, dl_manager):
        return {{"train": self._generate_examples(), "test": self._few()}}

    def _generate_examples(self):
        for i in range({start}, {end}):
            text = "changed" if i in {changed} else f"note {{i}}"
            yield i, {{"id": f"id-{{i}}", "text": text, "label": i % 2, {value}}}

    def _few(self):
        for i in range(10):
            yield i, {{"id": f"id-{{i}}", "text": "same", "label": 0, {value}}}
"""
FIRST = {
    "version": "1.0.0", "description": "Notes.", "more": "", "value": "", "start": 0, "end": 400,
    "changed": "()",
}  # fmt: skip
SECOND = {**FIRST, "version": "1.1.0", "start": 5, "end": 407, "changed": "(20, 21, 22)"}
WIDER = {
    **FIRST, "version": "2.0.0", "description": "Notes, with sizes.",
    "more": '"size": tfds.features.Scalar(__import__("numpy").int64),', "value": '"size": i',
}  # fmt: skip


class Place(NamedTuple):
    settings: Settings
    catalog: Catalog
    store: Store
    versions: dict[str, VersionRecord]


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    home = tmp_path_factory.mktemp("diff")
    settings = load_settings(
        store=str(home / "store"), catalog=f"sqlite:///{home}/catalog.db", cwd=home,
        environ={"HOME": str(home)},
    )  # fmt: skip
    found = {}
    for about in (FIRST, SECOND, WIDER):
        file = home / f"v{about['version'].replace('.', '')}" / "notes.py"
        file.parent.mkdir()
        file.write_text(BUILDER.format(**about))
        options = Options(workers=1, num_shards=3)
        session = open_session(DatasetRef.parse(f"{file}:Notes"), settings, options)
        found[about["version"]] = build(session).version
    with Catalog.open(settings.catalog) as catalog:
        yield Place(settings, catalog, Store.open(settings.store), found)


def compare(place: Place, a: str, b: str, **options):
    return diff(place.catalog, place.store, place.versions[a], place.versions[b], **options)


def test_a_version_and_itself(place: Place) -> None:
    found = compare(place, "1.0.0", "1.0.0", examples=True, key="id")
    assert found.same and found.examples is not None
    assert [found.examples.count(each) for each in ("added", "removed", "changed", "same")] == [
        0, 0, 0, 410,
    ]  # fmt: skip
    assert max(each.distance for each in found.drift) == 0


def test_by_key_added_removed_and_changed_are_told_apart(place: Place) -> None:
    found = compare(place, "1.0.0", "1.1.0", key="id", examples=True, samples=10)
    assert found.examples is not None
    train, test = found.examples.splits
    assert (train.split, train.added, train.removed, train.changed) == ("train", 7, 5, 3)
    assert train.same == 400 - 5 - 3 and train.fields == {"text": 3}
    assert {each["id"] for each in train.removed_samples} == {f"id-{i}" for i in range(5)}
    assert {each["id"] for each in train.added_samples} == {f"id-{i}" for i in range(400, 407)}
    assert {each["key"] for each in train.changed_samples} == {"id-20", "id-21", "id-22"}
    first = next(each for each in train.changed_samples if each["key"] == "id-20")
    assert first["fields"] == {"text": ["note 20", "changed"]}
    assert (test.added, test.removed, test.changed, test.same) == (0, 0, 0, 10)


def test_by_content_a_change_is_one_removed_and_one_added(place: Place) -> None:
    found = compare(place, "1.0.0", "1.1.0", examples=True, samples=2, splits=["train"])
    assert found.examples is not None
    [train] = found.examples.splits
    assert (train.added, train.removed, train.changed, train.same) == (10, 8, 0, 392)
    assert len(train.added_samples) == len(train.removed_samples) == 2


def test_what_was_recorded_tells_splits_causes_and_drift(place: Place) -> None:
    found = compare(place, "1.0.0", "1.1.0")
    assert [(each.name, each.change, each.examples) for each in found.splits] == [
        ("train", "changed", (400, 402)),
        ("test", "same", (10, 10)),
    ]
    assert not found.features and [each.path for each in found.metadata] == ["version"]
    assert any("_generate_examples" in each.text for each in found.causes)
    assert {each.feature for each in found.drift} == {"id", "text", "label"}
    assert found.examples is None and not found.same


def test_features_that_came_are_told_and_left_out_of_the_comparison(place: Place) -> None:
    found = compare(place, "1.0.0", "2.0.0", examples=True, key="id")
    assert [(each.name, each.change, each.before) for each in found.features] == [
        ("size", "added", None)
    ]
    assert "description" in {each.path for each in found.metadata}
    assert found.examples is not None and found.examples.compared == ("id", "label", "text")
    assert [found.examples.count(each) for each in ("added", "removed", "changed", "same")] == [
        0, 0, 0, 410,
    ]  # fmt: skip


def test_the_answer_is_json(place: Place) -> None:
    import json

    doc = compare(place, "1.0.0", "1.1.0", examples=True, key="id").to_json()
    assert json.loads(json.dumps(doc))["examples"]["splits"][0]["changed"] == 3


def test_unknown_names_are_told_with_near_ones(place: Place) -> None:
    with pytest.raises(UnknownReference, match="no feature 'idd'") as caught:
        compare(place, "1.0.0", "1.1.0", examples=True, key="idd")
    assert "'id'" in (caught.value.hint or "")
    with pytest.raises(UnknownReference, match="has a split 'trian'") as caught:
        compare(place, "1.0.0", "1.1.0", examples=True, splits=["trian"])
    assert "'train'" in (caught.value.hint or "")


def test_progress_counts_what_is_read_alone(place: Place) -> None:
    told: list[tuple[int, int]] = []
    compare(place, "1.0.0", "1.1.0", examples=True, progress=lambda *each: told.append(each))
    # The test split is the same on both sides, and is not read.
    assert told[-1] == (802, 802)


def test_through_the_questions(place: Place) -> None:
    ask = Questions(place.catalog, place.settings)
    found = ask.diff("notes:1.0.0", "notes:1.1.0", examples=True, key="id")
    assert found.examples is not None and found.examples.count("changed") == 3


def test_many_parts_give_what_one_gives(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    from provender.questions.diff import digests

    whole = compare(place, "1.0.0", "1.1.0", examples=True, key="id")
    monkeypatch.setattr(digests, "BUDGET", 1000)
    assert compare(place, "1.0.0", "1.1.0", examples=True, key="id") == whole


def test_a_shard_that_is_gone_is_named(place: Place, tmp_path: Path) -> None:
    version = place.versions["1.1.0"]
    shard = Path(place.store.path(version.path)) / place.catalog.shards(version.id)[-1].name
    kept = shard.rename(tmp_path / "kept")
    try:
        with pytest.raises(DamageError, match=shard.name):
            compare(place, "1.0.0", "1.1.0", examples=True)
    finally:
        kept.rename(shard)
