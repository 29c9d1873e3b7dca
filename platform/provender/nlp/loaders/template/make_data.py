"""Writes reviews.tfrecord and my_loader.yaml into a folder: python make_data.py [FOLDER]."""

from __future__ import annotations

import random
import sys
from pathlib import Path

_ROWS, _LENGTH = 200, 16


def main(folder: str = ".") -> None:
    """Writes both files.

    Args:
        folder: where to.
    """
    import tensorflow as tf

    def numbers(*values: int) -> tf.train.Feature:
        return tf.train.Feature(int64_list=tf.train.Int64List(value=values))

    draw = random.Random(0)  # noqa: S311
    # A worker has another working directory, so the configuration gets the whole path.
    place = Path(folder).absolute()
    data = place / "reviews.tfrecord"
    with tf.io.TFRecordWriter(str(data)) as writer:
        for _ in range(_ROWS):
            words = [draw.randint(1, 999) for _ in range(draw.randint(3, _LENGTH))]
            share = tf.train.Feature(float_list=tf.train.FloatList(value=[draw.random()]))
            features = {
                "input_ids": numbers(*words, *[0] * (_LENGTH - len(words))),
                "stars": numbers(draw.randint(1, 5)),
                "votes": numbers(draw.randint(0, 9)),
                "helpful": share,
            }
            record = tf.train.Example(features=tf.train.Features(feature=features))
            writer.write(record.SerializeToString())
    lines = [f"input_path: {data}", f"seq_length: {_LENGTH}", "global_batch_size: 16"]
    (place / "my_loader.yaml").write_text("\n".join(lines) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main(*sys.argv[1:2])
