"""A catalog with a history, on SQLite and on a real PostgreSQL."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from types import SimpleNamespace
from typing import Any

import pytest
from tests.catalog.conftest import _templates, backend, catalog, pg_server, rows, url

from provender.catalog import ArtifactRecord, Catalog, ShardRecord, SplitRecord, VersionRecord
from provender.questions import Questions

__all__ = ["_templates", "backend", "catalog", "pg_server", "rows", "url"]

FEATURES = {
    "pythonClassName": "tensorflow_datasets.core.features.features_dict.FeaturesDict",
    "featuresDict": {
        "features": {
            "text": {
                "pythonClassName": "tensorflow_datasets.core.features.text_feature.Text",
                "text": {},
            },
            "label": {
                "pythonClassName": "tensorflow_datasets.core.features.class_label_feature.ClassLabel",
                "classLabel": {"numClasses": "2"},
            },
            "boxes": {
                "pythonClassName": "tensorflow_datasets.core.features.sequence_feature.Sequence",
                "sequence": {
                    "feature": {
                        "pythonClassName": "tensorflow_datasets.core.features.features_dict.FeaturesDict",
                        "featuresDict": {
                            "features": {
                                "topLeft": {
                                    "pythonClassName": "tensorflow_datasets.core.features.tensor_feature.Tensor",
                                    "tensor": {"shape": {"dimensions": ["2"]}, "dtype": "float32"},
                                }
                            }
                        },
                    }
                },
            },
        }
    },
}


def info(description: str, licence: str = "CC-BY 4.0", home: str = "https://example.org/r") -> Any:
    """What a build registers beside the features."""
    return {
        "dataset_info": {
            "description": description,
            "redistributionInfo": {"license": licence},
            "location": {"urls": [home]},
        },
        "spec": {"source": "sets.py:Reviews"},
    }


class Maker:
    """Registers versions the way a build does: a run, stages, and the version they make."""

    def __init__(self, catalog: Catalog) -> None:
        self.catalog = catalog

    def __call__(self, dataset: str, number: str, **given: Any) -> VersionRecord:
        config = given.get("config", "")
        name = f"{dataset}{config}{number}{given.get('salt', '')}"
        run = self.catalog.begin_run("build", dataset, config, number, {"workers": 2})
        stages = self._stages(dataset, config, name, run, given)
        examples = given.get("examples", 90)
        version = self.catalog.register_version(
            dataset,
            config,
            number,
            f"fp-{name}",
            path=f"datasets/{dataset}/{number}",
            uri=f"/store/datasets/{dataset}/{number}",
            splits=[SplitRecord("train", examples, 900, 1), SplitRecord("test", 10, 99, 1)],
            shards=[
                ShardRecord("train", 0, 1, "t", 900, "a", "b", examples, "t1", stages["shard"]),
                ShardRecord("test", 0, 1, "u", 99, "c", "d", 10),
            ],
            features=given.get("features", FEATURES),
            info=given.get("info", info(f"The {dataset} set.")),
            status=given.get("status", "published"),
            run_id=run,
            lineage_inputs=[stages["download"], *given.get("inputs", ())],
            who="ann",
        )
        self.catalog.record_hits(run, given.get("hits", ()))
        self.catalog.finish_run(run, "succeeded", {"version": version.name})
        return version

    def _stages(
        self, dataset: str, config: str, name: str, run: str, given: dict[str, Any]
    ) -> dict[str, str]:
        address = f"https://data.example.org/{dataset}.zip"
        fetched = ArtifactRecord(f"sha-{dataset}", 50, "objects/x", kind="download", name=address)
        download = self.catalog.record_stage(
            run, dataset, config, "download", f"dl-{name}", state="succeeded", outputs=[fetched]
        )
        made = ArtifactRecord(f"shard-of-{name}", 7, "building/x", kind="shard", name="shard")
        shard = self.catalog.record_stage(
            run,
            dataset,
            config,
            "shards/train/00000",
            f"sh-{name}",
            state="succeeded",
            reason=given.get("reason", [{"kind": "first"}]),
            outputs=[made],
            inputs=[f"sha-{dataset}", *given.get("inputs", ())],
        )
        return {"download": download.id, "shard": shard.id}


@pytest.fixture
def make(catalog: Catalog) -> Maker:
    return Maker(catalog)


@pytest.fixture
def ask(catalog: Catalog) -> Questions:
    return Questions(catalog)


def now() -> datetime:
    """A moment that nothing recorded before or after shares."""
    time.sleep(0.003)
    found = datetime.now(UTC)
    time.sleep(0.003)
    return found


@pytest.fixture
def story(catalog: Catalog, make: Maker) -> Iterator[Any]:
    """Two versions of reviews, a set made from the first, jobs, aliases, and a retraction."""
    told = SimpleNamespace(start=now())
    told.one = make("reviews", "1.0.0")
    told.after_one = now()
    catalog.set_alias("reviews", "", "golden", told.one.id, who="ann")
    told.golden_is_one = now()
    told.two = make(
        "reviews",
        "1.1.0",
        examples=120,
        reason=[{"kind": "forced"}],
        info=info("The reviews set.", "CC0"),
    )
    told.after_two = now()
    catalog.set_alias("reviews", "", "golden", told.two.id, who="bob")
    told.golden_is_two = now()
    catalog.set_alias("reviews", "", "golden", None, who="cy")
    told.golden_is_gone = now()
    told.tokens = make("tokens", "0.1.0", inputs=[told.one.id])
    catalog.record_consumption(told.one.id, "train-7", splits=["train"], facts={"model": "m7"})
    catalog.record_consumption(told.one.id, "train-7", splits=["train", "test"])
    catalog.record_consumption(told.two.id, "train-8", splits=["train"])
    catalog.record_consumption(told.tokens.id, "eval-2", splits=["test"])
    told.english = make("wiki", "2.0.0", config="en")
    told.german = make("wiki", "2.0.0", config="de")
    yield told


Make = Callable[..., VersionRecord]
