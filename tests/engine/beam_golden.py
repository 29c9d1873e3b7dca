"""Prepares builders with TFDS's own Beam writer: `python beam_golden.py FOLDER CLASS:SHARDS ...`.

Serialization is made deterministic, as in the other golden tests: TFDS leaves the order of a map's
entries to protobuf, which orders them anew in each process.
"""

from __future__ import annotations

import sys
from typing import Any

import tensorflow_datasets as tfds
from tensorflow_datasets.core import example_serializer, registered


def deterministic(self: Any, example: Any) -> bytes:
    return self.get_tf_example(example).SerializeToString(deterministic=True)


def main() -> None:
    example_serializer.ExampleSerializer.serialize_example = deterministic
    with registered.skip_registration():
        import beam_builders
    folder, *cases = sys.argv[1:]
    for case in cases:
        name, _, shards = case.partition(":")
        config = tfds.download.DownloadConfig(
            beam_runner="DirectRunner", num_shards=int(shards) if shards else None
        )
        made = getattr(beam_builders, name)(data_dir=f"{folder}/{name}-{shards or 'auto'}")
        made.download_and_prepare(download_config=config)


if __name__ == "__main__":
    main()
