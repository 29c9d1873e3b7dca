"""From serialized tf.Examples to columns: Provender beside tf.io.parse_example and upb, in one run.

    python benchmarks/examples_decode.py [--rows 100000] [--rounds 5] [--batch 4096]

For several kinds of rows, the same records are decoded, in turns, by

    provender   `ExampleReader.table`: Arrow columns, without TensorFlow
    tf          `tf.io.parse_example` on batches, compiled (`tf.function`), one intra-op thread
    upb         ``Example.FromString`` and a walk over its features, into Python lists

Printed are rows per CPU second (user and system, median of the rounds) and the ratio to Provender.
The last table is about rows as people read them: ``formatter("python").rows`` and
``formatter("numpy").rows`` over the decoded columns.
"""

from __future__ import annotations

import argparse
import os
import statistics
import time
from collections.abc import Callable
from typing import Any

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import numpy as np


def kinds(f: Any) -> dict[str, tuple[Any, Callable[[int], dict[str, Any]]]]:
    """Name -> (features, function that makes row i)."""
    rng = np.random.default_rng(3)
    words = [f"{rng.integers(1 << 24):06x}" for _ in range(2000)]
    texts = [" ".join(words[j] for j in rng.integers(0, 2000, 150)) for _ in range(199)]
    short = [f"row number {i} of some" for i in range(997)]
    ids = [rng.integers(0, 50_000, 128) for _ in range(97)]
    pixels = rng.integers(0, 256, (28, 28, 1)).astype(np.uint8)
    return {
        "text + 3 numbers": (
            f.FeaturesDict(
                {
                    "text": f.Text(),
                    "id": np.int64,
                    "label": f.ClassLabel(num_classes=10),
                    "score": np.float32,
                }
            ),
            lambda i: {"text": short[i % 997], "id": i, "label": i % 10, "score": i / 7},
        ),
        "1 KB text + label": (
            f.FeaturesDict({"text": f.Text(), "label": f.ClassLabel(num_classes=10)}),
            lambda i: {"text": texts[i % 199], "label": i % 10},
        ),
        "128 token ids": (
            f.FeaturesDict({"ids": f.Sequence(np.int64), "label": np.int64}),
            lambda i: {"ids": ids[i % 97], "label": i % 10},
        ),
        "image bytes + label": (
            f.FeaturesDict({"image": f.Image(shape=(28, 28, 1)), "label": np.int64}),
            lambda i: {"image": pixels, "label": i % 10},
        ),
        "784 floats": (
            f.FeaturesDict({"x": f.Tensor(shape=(784,), dtype=np.float32)}),
            lambda i: {"x": np.full(784, i, np.float32)},
        ),
    }


def tf_parser(features: Any) -> Callable[[Any], Any]:
    import tensorflow as tf

    tf.config.threading.set_intra_op_parallelism_threads(1)
    specs = {}
    for name, info in features.get_serialized_info().items():
        dtype = {"O": tf.string, "U": tf.string, "f": tf.float32}.get(
            np.dtype(info.np_dtype).kind, tf.int64
        )
        if info.shape and info.shape[0] is None:
            specs[name] = tf.io.RaggedFeature(dtype)
        else:
            specs[name] = tf.io.FixedLenFeature(info.shape, dtype)
    return tf.function(lambda records: tf.io.parse_example(records, specs))


def upb_walk(records: list[bytes]) -> dict[str, list[Any]]:
    from tensorflow_datasets.proto import tf_example_pb2

    columns: dict[str, list[Any]] = {}
    for record in records:
        for name, feature in tf_example_pb2.Example.FromString(record).features.feature.items():
            kind = feature.WhichOneof("kind")
            columns.setdefault(name, []).append(list(getattr(feature, kind).value))
    return columns


def measured(runs: dict[str, Callable[[], Any]], rounds: int) -> dict[str, float]:
    """CPU seconds of each, median of the rounds; they take turns."""
    times: dict[str, list[float]] = {name: [] for name in runs}
    for run in runs.values():
        run()
    for _ in range(rounds):
        for name, run in runs.items():
            start = time.process_time()
            run()
            times[name].append(time.process_time() - start)
    return {name: statistics.median(each) for name, each in times.items()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=100_000)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--batch", type=int, default=4096)
    asked = parser.parse_args()

    import json
    import tempfile
    from pathlib import Path

    import tensorflow as tf
    from tensorflow_datasets.core import features as f

    from provender.data.examples import ExampleReader
    from provender.data.formats import formatter
    from provender.records import compile_encoder

    print(f"{'rows of':22}{'provender':>14}{'tf':>20}{'upb':>20}   rows per CPU second")
    decoded = None
    for name, (features, make) in kinds(f).items():
        encode = compile_encoder(features)
        count = asked.rows if "784" not in name and "KB" not in name else asked.rows // 4
        records = [encode(make(i)) for i in range(count)]
        with tempfile.TemporaryDirectory() as place:
            features.save_config(place)
            doc = json.loads((Path(place) / "features.json").read_text())
        reader = ExampleReader(doc, {})
        parse = tf_parser(features)
        batches = [records[i : i + asked.batch] for i in range(0, count, asked.batch)]
        found = measured(
            {
                "provender": lambda reader=reader, batches=batches: [
                    reader.table(each) for each in batches
                ],
                "tf": lambda parse=parse, batches=batches: [
                    parse(tf.constant(each)) for each in batches
                ],
                "upb": lambda batches=batches: [upb_walk(each) for each in batches],
            },
            asked.rounds,
        )
        own = found["provender"]
        parts = [f"{count / own:14,.0f}"]
        parts += [f"{count / found[n]:13,.0f} ({found[n] / own:4.1f})" for n in ("tf", "upb")]
        print(f"{name:22}{''.join(parts)}")
        decoded = decoded or reader.table(records)
    print()
    for form in ("python", "numpy"):
        made = formatter(form)

        def run(made: Any = made) -> None:
            for _ in made.rows(decoded):
                pass

        seconds = measured({form: run}, asked.rounds)[form]
        print(f"formatter({form!r}).rows: {decoded.num_rows / seconds:,.0f} rows per CPU second")


if __name__ == "__main__":
    main()
