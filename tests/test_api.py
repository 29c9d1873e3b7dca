"""The Python face: plan, build, and a builder with the interface of TFDS."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import provender
from provender.errors import SettingsError, UnknownReference
from provender.settings import Settings, load_settings

SOURCE = """
import tensorflow_datasets as tfds

class ApiSet(tfds.core.GeneratorBasedBuilder, skip_registration=True):
    VERSION = tfds.core.Version("1.1.0")
    SUPPORTED_VERSIONS = [tfds.core.Version("1.0.0")]
    BUILDER_CONFIGS = [tfds.core.BuilderConfig(name=n) for n in ("one", "other")]

    def __init__(self, word="w", **kwargs):
        self.word = word
        super().__init__(**kwargs)

    def _info(self):
        return tfds.core.DatasetInfo(
            builder=self, features=tfds.features.FeaturesDict({"text": tfds.features.Text()})
        )

    def _split_generators(self, dl_manager):
        return {"train": self._generate_examples()}

    def _generate_examples(self):
        for i in range(10):
            yield i, {"text": self.word + self.builder_config.name}
"""


@pytest.fixture
def settings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Settings]:
    monkeypatch.setattr(sys, "path", list(sys.path))
    (tmp_path / "api_set.py").write_text(SOURCE)
    (tmp_path / "provender.toml").write_text(
        'store = "store"\n[datasets.api_set]\nbuilder = "api_set.py:ApiSet"\n'
    )
    yield load_settings(cwd=tmp_path, environ={"HOME": str(tmp_path)})
    sys.modules.pop("api_set", None)


def test_plan_changes_nothing_but_the_catalog_file(settings: Settings) -> None:
    plan = provender.plan("api_set", settings=settings)
    assert not plan.done
    assert plan.steps[0].key == "download"
    assert not (Path(settings.store) / "datasets").exists()
    assert not (Path(settings.store) / "building").exists()


def test_build_then_nothing_to_do(settings: Settings) -> None:
    events: list[Any] = []
    built = provender.build("api_set/other", settings=settings, tell=events.append, workers=1)
    assert (built.outcome, built.version.config, built.version.version) == (
        "succeeded",
        "other",
        "1.1.0",
    )
    assert events[0]["event"] == "plan"
    assert [e["stage"] for e in events if e["event"] == "done"][-1] == "register"
    assert provender.plan("api_set/other", settings=settings).done
    again = provender.build("api_set/other", settings=settings)
    assert (again.outcome, again.ran, again.version.id) == ("cached", (), built.version.id)


def test_a_name_that_was_built_needs_no_project_any_more(
    settings: Settings, tmp_path: Path
) -> None:
    provender.build(f"{tmp_path}/api_set.py:ApiSet", settings=settings, workers=1)
    bare = load_settings(store=settings.store, cwd=tmp_path.parent, environ={"HOME": str(tmp_path)})
    assert bare.datasets == {}
    assert provender.build("api_set", settings=bare).outcome == "cached"


def test_options_are_checked(settings: Settings) -> None:
    for wrong in ({"workers": 0}, {"num_shards": -1}, {"max_examples": 0}):
        with pytest.raises(SettingsError, match="1 or more"):
            provender.build("api_set", settings=settings, **wrong)


def test_unknown_names(settings: Settings) -> None:
    with pytest.raises(UnknownReference, match="no dataset 'api_sett'") as error:
        provender.builder("api_sett", settings=settings)
    assert "api_set" in error.value.facts["near"]
    with pytest.raises(UnknownReference, match="no config 'two'"):
        provender.build("api_set/two", settings=settings)


def test_a_builder_takes_config_version_and_keywords(settings: Settings) -> None:
    builder = provender.builder(
        "api_set", config="other", version="1.0.0", word="hello ", settings=settings
    )
    assert str(builder.version) == "1.0.0"
    assert builder.builder_config.name == "other"
    assert builder.word == "hello "
    assert builder.version_record is None
    builder.download_and_prepare(workers=1)
    record = builder.version_record
    assert record is not None
    assert (record.version, record.config, record.status) == ("1.0.0", "other", "published")
    assert builder.info.splits["train"].num_examples == 10
    assert builder.data_dir == record.uri


def test_max_examples_makes_a_trial(settings: Settings) -> None:
    builder = provender.builder("api_set", settings=settings)
    builder.download_and_prepare(max_examples=3, workers=1)
    assert builder.version_record is not None
    assert builder.version_record.status == "trial"
    assert builder.info.splits["train"].num_examples == 3


def test_a_builder_shows_what_it_is_and_hides_what_it_lacks(settings: Settings) -> None:
    builder = provender.builder("api_set", settings=settings)
    assert "api_set.py:ApiSet" in repr(builder)
    with pytest.raises(AttributeError):
        _ = builder.nothing_like_it
    with pytest.raises(AttributeError):
        _ = builder._nothing_like_it
