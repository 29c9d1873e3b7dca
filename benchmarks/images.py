"""Images next to TFDS: 20,000 of 32 x 32 x 3, stored as PNG, in one run.

    python benchmarks/images.py [--examples 20000] [--runs 3] [--json]

Once as arrays, which each side has to encode, and once as PNG files, which pass through. Measured
as in `build.py`.
"""

from __future__ import annotations

import argparse
import json
import os

from build import WAYS, compare, in_place, table

IMAGES = """
import io

import numpy as np
import tensorflow_datasets as tfds

COUNT = {{count}}
AS_FILES = {as_files}


class BenchImages(tfds.core.GeneratorBasedBuilder):
    VERSION = tfds.core.Version("1.0.0")

    def _info(self):
        return tfds.core.DatasetInfo(
            builder=self,
            features=tfds.features.FeaturesDict(
                {{{{
                    "image": tfds.features.Image(shape=(32, 32, 3)),
                    "label": tfds.features.ClassLabel(num_classes=10),
                }}}}
            ),
        )

    def _split_generators(self, dl_manager):
        return {{{{"train": self._generate_examples(COUNT)}}}}

    def _generate_examples(self, count):
        from PIL import Image

        rng = np.random.default_rng(7)
        pool = []
        for _ in range(500):
            rough = rng.integers(0, 255, (8, 8, 3), dtype=np.uint8)
            array = np.asarray(Image.fromarray(rough).resize((32, 32)))
            if AS_FILES:
                out = io.BytesIO()
                Image.fromarray(array).save(out, "PNG")
                pool.append(out.getvalue())
            else:
                pool.append(array)
        for i in range(count):
            image = pool[i % 500]
            yield i, {{{{"image": io.BytesIO(image) if AS_FILES else image, "label": i % 10}}}}
"""


def main() -> None:
    """Measures and prints."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--examples", type=int, default=20_000)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--json", action="store_true")
    args = parser.parse_args()
    found = {}
    for kind, as_files in (("arrays", False), ("PNG files", True)):
        source = IMAGES.format(as_files=as_files)
        found[kind] = in_place(
            lambda place, text=source: compare(
                text, "BenchImages", args.examples, args.runs, place, WAYS
            )
        )
    if args.json:
        print(json.dumps({kind: [row.to_json() for row in rows] for kind, rows in found.items()}))
        return
    for kind, rows in found.items():
        print(
            f"{args.examples:,} images given as {kind}; median of {args.runs}; "
            f"load {os.getloadavg()[0]:.1f}"
        )
        print(table(rows), end="\n\n")


if __name__ == "__main__":
    main()
