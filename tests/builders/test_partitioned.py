"""Builders that are cut by time: a config for any piece, made from its name."""

from __future__ import annotations

from pathlib import Path

import pytest

from provender import build
from provender.builders.load import load
from provender.builders.spec import BuilderSpec
from provender.errors import SettingsError, UnknownReference
from provender.settings import load_settings

BUILDER = """
import tensorflow_datasets as tfds


class News(tfds.core.GeneratorBasedBuilder, skip_registration=True):
    VERSION = tfds.core.Version("1.0.0")
    PARTITIONED_BY = "day"

    def _info(self):
        features = tfds.features.FeaturesDict({"text": tfds.features.Text()})
        return tfds.core.DatasetInfo(builder=self, features=features)

    def _split_generators(self, dl_manager):
        config = self.builder_config
        return {"train": self._generate_examples(config.start.day, (config.stop - config.start).days)}

    def _generate_examples(self, day, days):
        for number in range(day):
            yield number, {"text": f"day {day} of {days}, {number}"}
"""


@pytest.fixture
def news(tmp_path: Path) -> str:
    file = tmp_path / "news.py"
    file.write_text(BUILDER)
    return f"{file}:News"


def test_each_piece_is_a_version_of_its_own(news, tmp_path) -> None:
    toml = tmp_path / "provender.toml"
    toml.write_text(f'[datasets.news]\nbuilder = "{news}"\npartition = "day"\n')
    settings = load_settings(
        file=str(toml), store=str(tmp_path / "store"), environ={"HOME": str(tmp_path / "home")}
    )
    assert settings.datasets["news"].partition == "day"
    first = build("news/2026-11-05", settings=settings, workers=1)
    second = build("news/2026-11-06", settings=settings, workers=1)
    assert [each.version.name for each in (first, second)] == [
        "news/2026-11-05:1.0.0", "news/2026-11-06:1.0.0",
    ]  # fmt: skip
    assert [each.version.examples for each in (first, second)] == [5, 6]
    assert build("news/2026-11-05", settings=settings, workers=1).outcome == "cached"

    import tensorflow_datasets as tfds

    read = tfds.builder_from_directory(first.version.uri)
    assert read.info.config_name == "2026-11-05"
    texts = [e["text"] for e in tfds.as_numpy(read.as_dataset(split="train", shuffle_files=False))]
    assert sorted(texts)[0] == b"day 5 of 1, 0"


@pytest.mark.parametrize("config", [None, "2026-11", "2026-02-30", "latest", "2026-11-05T00"])
def test_what_names_no_day_is_refused_with_an_example(news, config) -> None:
    with pytest.raises(UnknownReference) as caught:
        load(BuilderSpec(news, config))
    assert "NAME/2026-11-30" in str(caught.value)


def test_a_grain_that_does_not_exist_is_told_with_the_class(tmp_path) -> None:
    file = tmp_path / "news.py"
    file.write_text(BUILDER.replace('"day"', '"days"'))
    with pytest.raises(SettingsError, match="'days'") as caught:
        load(BuilderSpec(f"{file}:News", "2026-11-05"))
    assert "News.PARTITIONED_BY" in str(caught.value) and "mean day" in str(caught.value)


def test_a_grain_in_the_registry_is_checked(tmp_path) -> None:
    toml = tmp_path / "provender.toml"
    toml.write_text('[datasets.news]\nbuilder = "news.py:News"\npartition = "daily"\n')
    with pytest.raises(SettingsError, match="daily") as caught:
        load_settings(file=str(toml), environ={"HOME": str(tmp_path)})
    assert "line 3" in str(caught.value)
