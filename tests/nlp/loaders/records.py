"""Small files of each kind that the loaders read."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

SEQ, SLOTS, ROWS = 16, 4, 40

WORDS = ["the", "cat", "sat", "on", "mat", "dog", "ran", "home", "xy", "Straße", "É", "don't"]
PIECES = [
    "[PAD]",
    "[UNK]",
    "[CLS]",
    "[SEP]",
    "[MASK]",
    *(chr(97 + each) for each in range(26)),
    *(f"##{chr(97 + each)}" for each in range(26)),
    *("the", "cat", "sat", "on", "mat", "dog", "ran", "home", "!", ",", ".", "'"),
]


def example(values: Mapping[str, Any]) -> bytes:
    """A serialized example: ints, floats and text, single or in a list."""
    import tensorflow as tf

    def feature(value: Any) -> Any:
        array = np.atleast_1d(np.asarray(value, dtype=None))
        if array.dtype.kind == "f":
            return tf.train.Feature(float_list=tf.train.FloatList(value=array))
        if array.dtype.kind == "U":
            data = [str(each).encode() for each in array]
            return tf.train.Feature(bytes_list=tf.train.BytesList(value=data))
        return tf.train.Feature(int64_list=tf.train.Int64List(value=array))

    features = {name: feature(value) for name, value in values.items()}
    return tf.train.Example(features=tf.train.Features(feature=features)).SerializeToString()


def write(path: Path, rows: Iterable[Mapping[str, Any]], gzip: bool = False) -> str:
    """Writes a TFRecord file and gives its path."""
    import tensorflow as tf

    with tf.io.TFRecordWriter(str(path), "GZIP" if gzip else "") as writer:
        for row in rows:
            writer.write(example(row))
    return str(path)


def inputs(rng: np.random.Generator, seq: int = SEQ) -> dict[str, Any]:
    """Ids, mask and types of one record under their old names."""
    length = int(rng.integers(4, seq + 1))
    mask = (np.arange(seq) < length).astype(int)
    return {
        "input_ids": rng.integers(5, len(PIECES), seq) * mask,
        "input_mask": mask,
        "segment_ids": (np.arange(seq) >= 4).astype(int) * mask,
    }


def pretraining(count: int = ROWS, v2: bool = False, seq: int = SEQ) -> list[dict[str, Any]]:
    rng = np.random.default_rng(1)
    rows = []
    for _ in range(count):
        row = {
            **inputs(rng, seq),
            "masked_lm_positions": rng.integers(0, seq, SLOTS),
            "masked_lm_ids": rng.integers(5, len(PIECES), SLOTS),
            "masked_lm_weights": rng.integers(0, 2, SLOTS).astype(float),
            "next_sentence_labels": rng.integers(0, 2, 1),
            "position_ids": np.arange(seq),
        }
        if v2:
            row["input_word_ids"] = row.pop("input_ids")
            row["input_type_ids"] = row.pop("segment_ids")
        rows.append(row)
    return rows


def labelled(count: int = ROWS) -> list[dict[str, Any]]:
    """Records of classification, regression, tagging and question answering in one."""
    rng = np.random.default_rng(2)
    return [
        {
            **inputs(rng),
            "label_ids": index % 3,
            "score": index / 4,
            "example_id": 100 + index,
            "is_real_example": 1,
            "start_positions": index % SEQ,
            "end_positions": (index + 1) % SEQ,
            "is_impossible": index % 2,
            "unique_ids": 1_000_000_000 + index,
            "class_index": SEQ - 1,
            "paragraph_mask": rng.integers(0, 2, SEQ),
        }
        for index in range(count)
    ]


def tagged(count: int = ROWS) -> list[dict[str, Any]]:
    rng = np.random.default_rng(3)
    return [
        {
            **inputs(rng),
            "label_ids": rng.integers(-1, 5, SEQ),
            "sentence_id": index // 2,
            "sub_sentence_id": index % 2,
        }
        for index in range(count)
    ]


def sentence(rng: np.random.Generator, least: int = 1, most: int = 12) -> str:
    return " ".join(rng.choice(WORDS, rng.integers(least, most + 1)))


def texts(count: int = ROWS, most: int = 12) -> list[dict[str, Any]]:
    """Records with documents, pairs, translations and labels as text."""
    rng = np.random.default_rng(4)
    return [
        {
            "text": "\n".join(sentence(rng, 2) for _ in range(rng.integers(2, 6))),
            "premise": sentence(rng, most=most),
            "hypothesis": sentence(rng, most=most),
            "left_input": sentence(rng, most=most),
            "right_input": sentence(rng, most=most),
            "en": sentence(rng, most=most),
            "de": sentence(rng, most=most),
            "label": index % 3,
            "score": index / 4,
            "example_id": 100 + index,
            "unique_id": index,
        }
        for index in range(count)
    ]


def xlnet(count: int = ROWS, seq: int = 32) -> list[dict[str, Any]]:
    """Records with [SEP] at a third and before the last place, and [CLS] at the last."""
    rng = np.random.default_rng(5)
    rows = []
    for _ in range(count):
        ids = rng.integers(10, 500, seq)
        ids[[seq // 3, seq - 2]], ids[seq - 1] = 4, 3
        begins = sorted(rng.choice(seq, seq // 2, replace=False))
        types = (np.arange(seq) > seq // 3).astype(int)
        types[-1] = 2
        rows.append(
            {
                "input_word_ids": ids,
                "input_type_ids": types,
                "boundary_indices": [*begins, seq],
                "label": [1],
            }
        )
    return rows


def vocabulary(path: Path, without: Iterable[str] = ()) -> str:
    """Writes a WordPiece vocabulary and gives its path."""
    left_out = set(without)
    path.write_text("".join(f"{each}\n" for each in PIECES if each not in left_out))
    return str(path)


def sentencepiece(prefix: Path, **options: Any) -> str:
    """Trains a small SentencePiece model and gives its path."""
    import sentencepiece as spm

    rng = np.random.default_rng(6)
    text = prefix.with_suffix(".txt")
    text.write_text("\n".join(sentence(rng, 3) for _ in range(500)))
    spm.SentencePieceTrainer.train(
        input=str(text),
        model_prefix=str(prefix),
        vocab_size=options.pop("vocab_size", 60),
        hard_vocab_limit=False,
        user_defined_symbols=options.pop("symbols", ["[CLS]", "[SEP]", "[MASK]"]),
        minloglevel=3,
        **options,
    )
    return f"{prefix}.model"
