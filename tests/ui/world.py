"""A catalog with something of everything: a built version, long histories, hostile names.

world = make(folder)          # builds digits with the real program, then adds rows by hand
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import sqlalchemy as sa

from provender.catalog import ArtifactRecord, Catalog, ShardRecord, SplitRecord, VersionRecord
from provender.catalog import tables as t
from provender.records import frame, write_offsets
from provender.statistics.histogram import Numbers

SCRIPT = "<script>window.pwned = 1</script>"
EVIL = f"evil{SCRIPT}\"'><img src=x onerror=window.pwned=2>\u202egnp.exe\x00\x1b[31m"
EVIL_TEXT = f"{SCRIPT}\u202eright to left\u2066 \x07 \ud7ff & &amp; </dd></body>"
LONG = "x" * (1 << 20)
PNG = bytes.fromhex(
    "89504e470d0a1a0a0000000d4948445200000001000000010802000000907753de"
    "0000000c4944415408d763f8cfc0000000030001c5d9a5a80000000049454e44ae426082"
)
_DAY = datetime(2026, 3, 2, 8, 0, tzinfo=UTC)


@dataclass
class World:
    """Where it is, and the ids that tests ask for."""

    home: Path
    catalog: Catalog
    ids: dict[str, str]
    frequent: str = ""

    @property
    def url(self) -> str:
        return f"sqlite:///{self.home / 'catalog.db'}"


def make(home: Path, *, hostile: bool = True) -> World:
    """Builds the world below a folder.

    Args:
        home: an empty folder, or none yet.
        hostile: whether the datasets of attackers are in it.
    """
    home.mkdir(parents=True, exist_ok=True)
    _build_digits(home)
    catalog = Catalog.open(f"sqlite:///{home / 'catalog.db'}")
    world = World(home, catalog, {})
    (made,) = catalog.versions("digits")
    world.ids |= {"digits": made.id, "digits-run": str(made.run_id)}
    catalog.record_consumption(made.id, "digits-classifier", splits=["train"])
    _stories(world, EVIL_TEXT if hostile else "The sea was calm.")
    _derived(world)
    if hostile:
        _evil(world)
    return world


def _build_digits(home: Path) -> None:
    environment = {**os.environ, "HOME": str(home), "PROVENDER_HOME": str(home)}
    program = str(Path(sys.executable).parent / "provender")
    subprocess.run([program, "build", "digits", "-q"], env=environment, check=True, cwd=home)
    subprocess.run([program, "build", "digits", "-q"], env=environment, check=True, cwd=home)


# A dataset with a history ------------------------------------------------------------------------


def _stories(world: World, frequent: str) -> None:
    catalog = world.catalog
    world.frequent = frequent
    first = _run(world, "stories", "1.0.0", 0, hits=(), examples=9_200)
    second = _run(
        world,
        "stories",
        "1.0.1",
        3,
        hits=first.stages[:2],
        examples=9_187,
        reason=[{"kind": "changed", "path": ["function clean"], "old": "body", "new": "body"}],
    )
    third = _run(world, "stories", "1.1.0", 20, hits=second.stages[:1], examples=12_480)
    trial = _run(world, "stories", "1.2.0", 24, hits=third.stages[:3], examples=500, trial=True)
    catalog.retract(first.version.id, "13 stories came twice", "ada", successor=second.version.id)
    catalog.set_alias("stories", "", "golden", second.version.id, who="ada")
    catalog.set_alias("stories", "", "golden", third.version.id, who="grace")
    catalog.add_tags(third.version.id, ["reviewed", "en"])
    for number in range(14):
        catalog.record_consumption(
            third.version.id,
            f"story-lm-{number % 3}",
            splits=["train"],
            facts={"model": "lm-small", "step": 1000 * number},
        )
    catalog.record_consumption(first.version.id, "story-lm-0", splits=["train", "test"])
    _failed_run(world)
    world.ids |= {
        "stories:1.0.0": first.version.id,
        "stories:1.0.1": second.version.id,
        "stories:1.1.0": third.version.id,
        "stories:1.2.0": trial.version.id,
        "run": third.run,
        "stage": third.stages[-1],
        "download": first.stages[0],
    }


@dataclass
class _Built:
    version: VersionRecord
    run: str
    stages: list[str]


def _run(
    world: World,
    dataset: str,
    number: str,
    day: int,
    *,
    hits: Sequence[str],
    examples: int,
    trial: bool = False,
    reason: Sequence[Mapping[str, Any]] = ({"kind": "first"},),
    inputs: Sequence[str] = (),
    config: str = "",
) -> _Built:
    """A run with a download, a plan, examples of two splits in parts, and twelve shards."""
    catalog = world.catalog
    begun = _DAY + timedelta(days=day)
    run = catalog.begin_run("build", dataset, config, number, {"workers": 4})
    mark = f"{dataset}{config}{number}"
    stages = list(hits)
    clock = 0.0

    def stage(key: str, seconds: float, inputs: Sequence[str], size: int = 1 << 20) -> str:
        nonlocal clock
        started = begun + timedelta(seconds=clock)
        if not key.startswith("shards"):
            clock += seconds
        name = "https://stories.example/archive.jsonl.zst" if key == "download" else "content"
        output = ArtifactRecord(_digest(mark, key), size, f"building/{mark}/{key}", name=name)
        made = catalog.record_stage(
            run,
            dataset,
            config,
            key,
            _digest(mark, key, "f")[:40],
            state="succeeded",
            reason=reason,
            outputs=[output],
            inputs=inputs,
            started=started,
            finished=started + timedelta(seconds=seconds),
        )
        return made.id

    catalog.record_hits(run, hits)
    for key, seconds in (
        ("download", 41.0),
        ("splits", 0.4),
        ("examples/train", 96.0),
        ("examples/test", 11.0),
    )[len(hits) :]:
        before = stages[1:2] if key.startswith("examples") else stages[:1]
        stages.append(stage(key, seconds, before or inputs, 64 << 20))
    shards = []
    for split, many, behind in (("train", 12, stages[2]), ("test", 1, stages[3])):
        for i in range(many):
            made = stage(f"shards/{split}/{i:05d}", 3.0 + i % 5, [behind])
            stages.append(made)
            clock += 1.5
            name = f"{dataset}-{split}.tfrecord-{i:05d}-of-{many:05d}"
            shards.append(
                ShardRecord(
                    split,
                    i,
                    many,
                    name,
                    5 << 20,
                    _digest(mark, name),
                    "0" * 8,
                    examples // many if split == "train" else examples // 10,
                    "t",
                    made,
                )
            )
    stages.append(stage("register", 1.2, stages[-13:]))
    splits = [
        SplitRecord("train", examples, 60 << 20, 12, story_statistics(examples, world.frequent)),
        SplitRecord(
            "test", examples // 10, 5 << 20, 1, story_statistics(examples // 10, world.frequent)
        ),
    ]
    version = catalog.register_version(
        dataset,
        config,
        number,
        _digest(mark)[:40],
        path=f"datasets/{dataset}/{number}",
        uri=str(world.home / "datasets" / dataset / number),
        splits=splits,
        shards=shards,
        features=_STORY_FEATURES,
        info=_info(dataset),
        run_id=run,
        lineage_inputs=[*stages, *inputs],
        status="trial" if trial else "published",
    )
    summary = {"version": version.name, "version_id": version.id}
    catalog.finish_run(run, "succeeded", summary)
    _move(catalog, t.run, run, begun, begun + timedelta(seconds=clock + 2))
    _move(catalog, t.version, version.id, begun + timedelta(seconds=clock))
    return _Built(version, run, stages)


def _move(
    catalog: Catalog, table: sa.Table, id: str, start: datetime, end: datetime | None = None
) -> None:
    """Sets times that the catalog otherwise takes from the clock."""
    values = {"created_at": start} if end is None else {"started_at": start, "finished_at": end}
    with catalog._engine.begin() as conn:
        conn.execute(table.update().where(table.c.id == id).values(**values))


def _failed_run(world: World) -> None:
    catalog = world.catalog
    run = catalog.begin_run("build", "stories", "", "1.3.0", {})
    error = {
        "type": "DownloadError",
        "message": "The server answered 503 five times.",
        "where": "https://stories.example/new.zst",
        "hint": "Try again later.",
        "facts": {},
    }
    catalog.record_stage(
        run,
        "stories",
        "",
        "download",
        "f" * 40,
        state="failed",
        error=error,
        reason=[{"kind": "forced"}],
        attempts=5,
    )
    catalog.finish_run(run, "failed", {"error": error})
    world.ids["failed"] = run


def _derived(world: World) -> None:
    upstream = world.ids["stories:1.0.1"]
    built = _run(
        world, "story_tokens", "1.0.0", 21, hits=(), examples=9_187, inputs=[upstream], config="bpe"
    )
    world.ids["tokens"] = built.version.id


_STORY_FEATURES = {
    "pythonClassName": "tensorflow_datasets.core.features.features_dict.FeaturesDict",
    "featuresDict": {
        "features": {
            "text": {
                "pythonClassName": "tensorflow_datasets.core.features.text_feature.Text",
                "text": {},
            },
            "topic": {
                "pythonClassName": "tensorflow_datasets.core.features.ClassLabel",
                "classLabel": {"numClasses": "4"},
            },
            "words": {
                "pythonClassName": "tensorflow_datasets.core.features.scalar.Scalar",
                "tensor": {"shape": {}, "dtype": "int64", "encoding": "none"},
            },
            "cast": {
                "pythonClassName": "tensorflow_datasets.core.features.sequence_feature.Sequence",
                "sequence": {
                    "feature": {
                        "pythonClassName": "tensorflow_datasets.core.features.features_dict.FeaturesDict",
                        "featuresDict": {
                            "features": {
                                "name": {"pythonClassName": "x.Text", "text": {}},
                                "age": {
                                    "pythonClassName": "x.Scalar",
                                    "tensor": {"shape": {}, "dtype": "int64"},
                                },
                            }
                        },
                    }
                },
            },
        }
    },
}


def _info(dataset: str) -> dict[str, Any]:
    return {
        "dataset_info": {
            "description": f"Short {dataset} for tests, written by nobody.",
            "citation": "@misc{nobody2026, title={Stories}}",
            "location": {"urls": ["https://stories.example/"]},
            "redistributionInfo": {"license": "CC-BY-4.0"},
        },
        "spec": {"source": "stories.builder:Stories"},
        "files": {
            "dataset_info.json": {"size": 900, "sha256": "a" * 64, "token": "t"},
            "features.json": {"size": 700, "sha256": "b" * 64, "token": "t"},
        },
    }


def story_statistics(examples: int, frequent: str) -> dict[str, Any]:
    rng = np.random.default_rng(examples)

    def numbers(values: np.ndarray) -> dict[str, Any]:
        found = Numbers(whole=True)
        found.add(values.astype(np.int64))
        return found.summary()

    lengths = np.clip(rng.lognormal(6, 0.6, examples), 20, None)
    counts = [[i, int(examples * share)] for i, share in enumerate((0.46, 0.31, 0.18, 0.05))]
    return {
        "format": 1,
        "examples": examples,
        "features": {
            "text": {
                "kind": "text",
                "sequence": False,
                "examples": examples,
                "missing": 0,
                "empty": 3,
                "characters": numbers(lengths),
                "bytes": numbers(lengths * 1.06),
                "distinct": {"count": examples - 2, "exact": False},
                "frequent": {
                    "exact": False,
                    "sample": 400,
                    "values": [
                        {"value": "Once upon a time …", "share": 0.004},
                        {"value": frequent, "share": 0.002},
                    ],
                },
            },
            "topic": {
                "kind": "label",
                "sequence": False,
                "examples": examples,
                "missing": 0,
                "empty": 0,
                "labels": {
                    "classes": 4,
                    "counts": counts,
                    "names": {"0": "animals", "1": "sea", "2": "city", "3": "space"},
                },
                "distinct": {"count": 4, "exact": True},
            },
            "words": {
                "kind": "int",
                "sequence": False,
                "examples": examples,
                "missing": 0,
                "empty": 0,
                "numbers": numbers(lengths / 5.2),
            },
        },
    }


# What attackers would register ---------------------------------------------------------------------


def _evil(world: World) -> None:
    catalog = world.catalog
    folder = world.home / "datasets" / "evil" / "1.0.0"
    (folder / ".provender" / "index").mkdir(parents=True)
    texts = [
        EVIL_TEXT.encode("utf-8", "replace"),
        LONG.encode(),
        b"\xff\xfe raw",
        "שלום عالم".encode(),
    ]
    records = [
        example_bytes({"text": [text], "picture": [PNG], EVIL: [b"odd name"]}) for text in texts
    ]
    framed = frame(records)
    name = "evil-train.tfrecord-00000-of-00001"
    (folder / name).write_bytes(b"".join(framed))
    offsets = np.cumsum([0, *map(len, framed)])
    write_offsets(folder / ".provender" / "index" / f"{name}.offsets", offsets)
    run = catalog.begin_run(SCRIPT, EVIL, "", "1.0.0", {SCRIPT: EVIL}, {"dag": EVIL})
    stage = catalog.record_stage(
        run,
        EVIL,
        "",
        f"shards/{SCRIPT}/00000",
        "e" * 40,
        state="failed",
        reason=[{"kind": "failed", "error": EVIL_TEXT}],
        error={"message": EVIL, "hint": SCRIPT},
        outputs=[ArtifactRecord("javascript:alert(1)", 3, EVIL, name="javascript:alert(1)")],
    )
    features = {
        "featuresDict": {
            "features": {
                "text": {"text": {}},
                EVIL: {"text": {}},
                "picture": {"image": {"dtype": "uint8", "encodingFormat": "png"}},
            }
        }
    }
    info = {
        "dataset_info": {
            "description": LONG + SCRIPT,
            "citation": "\udc80" + EVIL,
            "location": {"urls": ["javascript:alert(document.domain)"]},
        },
        "spec": {"source": EVIL},
    }
    version = catalog.register_version(
        EVIL,
        EVIL,
        "1.0.0",
        "e" * 40,
        path="datasets/evil/1.0.0",
        uri=EVIL,
        splits=[SplitRecord("train", 4, 2 << 20, 1), SplitRecord(EVIL, 0, 0, 0)],
        shards=[ShardRecord("train", 0, 1, name, 2 << 20, "e" * 64, "e" * 8, 4, "t", stage.id)],
        features=features,
        info=info,
        run_id=run,
        aliases=[EVIL[:200]],
    )
    catalog.finish_run(run, EVIL[:100], {"error": {"message": EVIL}})
    catalog.record_consumption(version.id, EVIL, splits=[EVIL], facts={SCRIPT: LONG})
    catalog.retract(version.id, EVIL_TEXT, EVIL)
    long = catalog.register_version(
        LONG,
        "",
        "1.0.0",
        "d" * 40,
        path="datasets/long/1.0.0",
        uri="x",
        splits=[SplitRecord("train", 1, 1, 1)],
        shards=[],
        features={},
        info={},
    )
    world.ids |= {"evil": version.id, "evil-run": run, "evil-stage": stage.id, "long": long.id}


def example_bytes(features: Mapping[str, Sequence[bytes]]) -> bytes:
    """A serialized ``tf.train.Example`` of byte lists."""
    entries = b""
    for name, values in features.items():
        listed = b"".join(_field(1, value) for value in values)
        key = name.encode("utf-8", "replace")
        entries += _field(1, _field(1, key) + _field(2, _field(1, listed)))
    return _field(1, entries)


def _field(number: int, body: bytes) -> bytes:
    size, head = len(body), bytearray([number << 3 | 2])
    while size > 127:
        head.append(size & 127 | 128)
        size >>= 7
    return bytes([*head, size]) + body


def _digest(*parts: str) -> str:
    import hashlib

    return hashlib.sha256("\n".join(parts).encode("utf-8", "replace")).hexdigest()
