"""Builders of every style, loaded as a file by both TFDS and Provender.

Read by `test_golden`; what they yield is a function of this file and of the two environment
variables below.
"""

from __future__ import annotations

import io
import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow_datasets as tfds

from provender.builders import DatasetBuilder

ARCHIVE_URL = os.environ.get("GOLDEN_ARCHIVE_URL", "")
HELD_AT = 2_600
HELD_TEXT = 64 << 10

Pairs = Iterator[tuple[Any, Any]]


def picture(seed: int, height: int, width: int) -> np.ndarray:
    return np.random.default_rng(seed).integers(0, 255, (height, width, 3), dtype=np.uint8)


def png(array: np.ndarray) -> bytes:
    from PIL import Image

    out = io.BytesIO()
    Image.fromarray(array).save(out, "PNG")
    return out.getvalue()


class _Base(tfds.core.GeneratorBasedBuilder, skip_registration=True):
    VERSION = tfds.core.Version("1.0.0")
    FEATURES: Any = None
    IN_ORDER = False

    def _info(self) -> Any:
        return tfds.core.DatasetInfo(
            builder=self,
            description=f"The golden {type(self).__name__}; ünïcode, too.",
            citation="@misc{golden}",
            homepage="https://example.org/golden",
            features=self.features_of(),
            disable_shuffling=self.IN_ORDER,
        )

    def features_of(self) -> Any:
        return tfds.features.FeaturesDict({"text": tfds.features.Text(), "n": np.int64})


class GoldenText(_Base):
    """Text, class labels by name and number, two splits, keys with both kinds of slashes."""

    def features_of(self) -> Any:
        return tfds.features.FeaturesDict(
            {
                "text": tfds.features.Text(),
                "label": tfds.features.ClassLabel(names=["no", "yes", "maybe"]),
                "weight": np.float32,
                "é": np.int32,
            }
        )

    def _split_generators(self, dl_manager: Any) -> Any:
        return {
            "train": self._generate_examples(0, 1500),
            tfds.Split.TEST: self._generate_examples(first=1500, count=40),
        }

    def _generate_examples(self, first: int, count: int) -> Pairs:
        for i in range(first, first + count):
            yield (
                f"folder\\file_{i}",
                {
                    "text": f"x{i} \0 \ufeff \r\n é中" * (i % 40),
                    "label": ["no", 1, "maybe", -1][i % 4],
                    "weight": i / 7,
                    "é": i - 100,
                },
            )


class GoldenNested(_Base):
    """Sequences in sequences, dicts in sequences, tensors of unknown shape."""

    def features_of(self) -> Any:
        f = tfds.features
        return f.FeaturesDict(
            {
                "faces": f.Sequence({"box": f.BBoxFeature(), "name": f.Text()}),
                "tokens": f.Sequence(f.Sequence(np.int32)),
                "three": f.Sequence(np.float32, length=3),
                "tags": f.Sequence(f.ClassLabel(num_classes=7)),
                "meta": {"height": np.uint8, "deep": {"ok": np.bool_}},
                "grid": f.Tensor(shape=(2, None), dtype=np.uint8),
                "pair": f.Translation(languages=["en", "de"]),
            }
        )

    def _split_generators(self, dl_manager: Any) -> Any:
        return {"train": self._generate_examples(600)}

    def _generate_examples(self, count: int) -> Pairs:
        for i in range(count):
            boxes = [tfds.features.BBox(0.1, 0.2, 0.3, 0.5 + j / 10) for j in range(i % 4)]
            yield (
                i,
                {
                    "faces": [{"box": box, "name": f"face {i}"} for box in boxes],
                    "tokens": [list(range(j)) for j in range(i % 5)],
                    "three": [0.5, i, -i],
                    "tags": [j % 7 for j in range(i % 3)],
                    "meta": {"height": i % 256, "deep": {"ok": i % 2 == 0}},
                    "grid": np.full((2, i % 6), i % 200, np.uint8),
                    "pair": {"en": f"one {i}", "de": f"eins {i}"},
                },
            )


class GoldenImages(_Base):
    """Images given as arrays, as PNG bytes and as open files."""

    def features_of(self) -> Any:
        return tfds.features.FeaturesDict(
            {
                "array": tfds.features.Image(shape=(8, 8, 3)),
                "any_size": tfds.features.Image(),
                "png": tfds.features.Image(shape=(None, None, 3), encoding_format="png"),
                "file": tfds.features.Image(encoding_format="png"),
                "label": tfds.features.ClassLabel(num_classes=10),
            }
        )

    def _split_generators(self, dl_manager: Any) -> Any:
        return {"train": self._generate_examples(120)}

    def _generate_examples(self, count: int) -> Pairs:
        for i in range(count):
            data = png(picture(i, 6, 5 + i % 3))
            yield (
                f"{i}.png",
                {
                    "array": picture(i, 8, 8),
                    "any_size": picture(i, 3, 1 + i % 4),
                    "png": data,
                    "file": io.BytesIO(data),
                    "label": i % 10,
                },
            )


class GoldenInOrder(_Base):
    """The generator's order is kept: by integer keys, else as the examples come."""

    IN_ORDER = True

    def _split_generators(self, dl_manager: Any) -> Any:
        return {
            "numbered": self._generate_examples([(i * 7919) % 1801 for i in range(1800)]),
            "named": self._generate_examples([f"key {1800 - i}" for i in range(1800)]),
        }

    def _generate_examples(self, keys: list[Any]) -> Pairs:
        for i, key in enumerate(keys):
            yield key, {"text": str(key), "n": i}


class GoldenKeys(_Base):
    """Keys of every kind: integers, large and negative ones too, text, bytes, arrays of one."""

    def _split_generators(self, dl_manager: Any) -> Any:
        return {
            "integers": self._generate_examples([0, -1, 1 << 70, *range(5, 900)]),
            "text": self._generate_examples(["", "é", "a/b", *map(str, range(900))]),
            "bytes": self._generate_examples([b"\xff", *(b"%d" % i for i in range(700))]),
            "numpy": self._generate_examples([0], numpy=True),
        }

    def _generate_examples(self, keys: list[Any], numpy: bool = False) -> Pairs:
        for key in np.arange(700).reshape(-1, 1) if numpy else keys:
            yield key, {"text": repr(key), "n": 1}


class GoldenConfig(tfds.core.BuilderConfig):
    def __init__(self, *, word: str, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.word = word


class GoldenConfigs(_Base):
    """Two configs, the second one the default."""

    BUILDER_CONFIGS = [  # noqa: RUF012 - as builders write it
        GoldenConfig(name="short", word="s", description="The short one."),
        GoldenConfig(name="long", word="long " * 20, description="The long one."),
    ]
    DEFAULT_BUILDER_CONFIG_NAME = "long"

    def _split_generators(self, dl_manager: Any) -> Any:
        return {"train": self._generate_examples()}

    def _generate_examples(self) -> Pairs:
        for i in range(600):
            yield i, {"text": self.builder_config.word * (i % 5), "n": i}


class GoldenLegacy(_Base):
    """The older style: a list of SplitGenerator."""

    def _split_generators(self, dl_manager: Any) -> Any:
        return [
            tfds.core.SplitGenerator(
                name=tfds.Split.TRAIN, gen_kwargs={"path": Path("/nowhere"), "count": 900}
            ),
            tfds.core.SplitGenerator(name="extra", gen_kwargs={"path": "x", "count": 3}),
        ]

    def _generate_examples(self, path: Any, count: int) -> Pairs:
        for i in range(count):
            yield f"{path}-{i}", {"text": str(path), "n": i}


def outside(count: int) -> Pairs:
    for i in range(count):
        yield f"outside {i}", {"text": "outside", "n": i}


class GoldenMethods(_Base):
    """Generators of other names: a method, a function of the module, a plain list."""

    def _split_generators(self, dl_manager: Any) -> Any:
        self.prefix = "state that planning left"
        return {
            "method": self._rows("m", count=700),
            "function": outside(600),
            "list": [(i, {"text": "listed", "n": i}) for i in range(30)],
        }

    def _rows(self, letter: str, *, count: int) -> Pairs:
        for i in range(count):
            yield i, {"text": self.prefix + letter, "n": i}

    def _generate_examples(self) -> Pairs:
        yield from ()


class GoldenArchive(_Base):
    """A downloaded archive that is read as a stream, and unpacked for another split."""

    def _split_generators(self, dl_manager: Any) -> Any:
        archive = dl_manager.download(ARCHIVE_URL)
        folder = dl_manager.extract(archive)
        return {
            "streamed": self._generate_examples(dl_manager.iter_archive(archive)),
            "unpacked": self._unpacked(folder),
        }

    def _generate_examples(self, files: Any) -> Pairs:
        for i, (name, file) in enumerate(files):
            yield name, {"text": file.read(), "n": i}

    def _unpacked(self, folder: Any) -> Pairs:
        for path in sorted(folder.glob("*/*.txt")):
            yield path.name, {"text": path.read_text(), "n": 0}


class GoldenSharded(tfds.core.ShardBasedBuilder, skip_registration=True):
    """Its shards are its iterators, in their order."""

    VERSION = tfds.core.Version("2.0.1")

    def _info(self) -> Any:
        return tfds.core.DatasetInfo(
            builder=self,
            features=tfds.features.FeaturesDict(
                {"text": tfds.features.Text(), "label": tfds.features.ClassLabel(num_classes=3)}
            ),
        )

    def _shard_iterators_per_split(self, dl_manager: Any) -> Any:
        return {
            "train": [self._shard(i, 40 + i) for i in range(3)],
            "test": [self._shard(9, 5)],
        }

    def _shard(self, shard: int, count: int) -> Any:
        def rows() -> Pairs:
            for i in range(count):
                yield f"{shard}-{i}", {"text": f"shard {shard} row {i}", "label": i % 3}

        return rows


class GoldenOpaque(DatasetBuilder, skip_registration=True):
    """It writes its own files."""

    VERSION = tfds.core.Version("1.0.0")

    def _info(self) -> Any:
        return tfds.core.DatasetInfo(
            builder=self,
            description="Writes its own files.",
            features=tfds.features.FeaturesDict({"text": tfds.features.Text()}),
        )

    def _download_and_prepare(self, dl_manager: Any, download_config: Any = None) -> None:
        from provender.records import frame

        template = tfds.core.ShardedFileTemplate(
            data_dir=self.data_path,
            dataset_name=self.name,
            split="train",
            filetype_suffix="tfrecord",
        )
        payloads = [self.info.features.serialize_example({"text": f"row {i}"}) for i in range(50)]
        Path(template.sharded_filepath(shard_index=0, num_shards=1)).write_bytes(
            b"".join(frame(payloads))
        )
        size = sum(map(len, payloads))
        split = tfds.core.SplitInfo(
            name="train", shard_lengths=[50], num_bytes=size, filename_template=template
        )
        self.info.set_splits(tfds.core.splits.SplitDict([split]))

    def _as_dataset(
        self, split: Any, decoders: Any = None, read_config: Any = None, shuffle_files: Any = False
    ) -> Any:
        return tfds.builder_from_directory(self.data_dir).as_dataset(split=split)


class GoldenHeld(_Base):
    """Large enough for several runs a part; stops late in the split while a file exists."""

    def _split_generators(self, dl_manager: Any) -> Any:
        return {"train": self._generate_examples(3_000)}

    def _generate_examples(self, count: int) -> Pairs:
        hold = os.environ.get("GOLDEN_HOLD")
        for i in range(count):
            while hold and i == HELD_AT and Path(hold).exists():
                time.sleep(0.02)
            yield i, {"text": f"{i:08d}" * (HELD_TEXT // 8), "n": i}
