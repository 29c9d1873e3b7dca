"""TFDS, writing deterministically, as the yardstick; and the whole path from examples to shards."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pytest

from provender.records import (
    KeyHasher,
    RunWriter,
    compile_encoder,
    plan_order,
    shard_bounds,
    shard_count,
    shard_name,
    write_shard,
)

Pairs = Iterable[tuple[Any, Any]]
NAME = "golden"


@pytest.fixture(scope="session")
def tfds() -> Any:
    """tensorflow_datasets, serializing with ``deterministic=True``.

    Its own call leaves the order of map entries to protobuf, which orders them anew per process.
    """
    import tensorflow_datasets
    from tensorflow_datasets.core import example_serializer

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(
            example_serializer.ExampleSerializer,
            "serialize_example",
            lambda self, example: self.get_tf_example(example).SerializeToString(
                deterministic=True
            ),
        )
        yield tensorflow_datasets


@pytest.fixture
def tfds_shards(tfds: Any, tmp_path: Path) -> Callable[..., dict[str, bytes]]:
    """Builds with TFDS: file name -> bytes of every shard."""

    def build(
        features: Any,
        splits: dict[str, Callable[[], Pairs]],
        *,
        num_shards: int | None = None,
        in_order: bool = False,
    ) -> dict[str, bytes]:
        class Golden(tfds.core.GeneratorBasedBuilder, skip_registration=True):
            VERSION = tfds.core.Version("1.0.0")
            name = NAME
            pkg_dir_path = tmp_path

            def _info(self) -> Any:
                return tfds.core.DatasetInfo(
                    builder=self, features=features, disable_shuffling=in_order
                )

            def _split_generators(self, dl_manager: Any) -> Any:
                return {split: make() for split, make in splits.items()}

            def _generate_examples(self) -> Any:
                return iter(())

        builder = Golden(data_dir=tmp_path / "tfds")
        builder.download_and_prepare(
            download_config=tfds.download.DownloadConfig(num_shards=num_shards)
        )
        files = sorted(Path(builder.data_dir).glob("*.tfrecord*"))
        return {file.name: file.read_bytes() for file in files}

    return build


def build_shards(
    directory: Path,
    features: Any,
    splits: dict[str, Callable[[], Pairs]],
    *,
    parts: int = 1,
    num_shards: int | None = None,
    in_order: bool = False,
    **writer: Any,
) -> dict[str, bytes]:
    """Builds with Provender: file name -> bytes of every shard."""
    encode = compile_encoder(features)
    out = directory / "out"
    out.mkdir(parents=True)
    files: dict[str, bytes] = {}
    for split, make in splits.items():
        runs = directory / "runs" / split
        hasher = KeyHasher(split, in_order=in_order)
        results = [
            RunWriter(runs, part, parts, hasher=hasher, encode=encode, **writer).write_part(make())
            for part in range(parts)
        ]
        order = plan_order(runs, results)
        count = shard_count(order.payload_bytes, order.examples, num_shards)
        for i, (start, end) in enumerate(shard_bounds(order.examples, count)):
            path = out / shard_name(NAME, split, i, count)
            shard = write_shard(order, start, end, path)
            files[path.name] = path.read_bytes()
            assert shard.size == len(files[path.name])
    return files
