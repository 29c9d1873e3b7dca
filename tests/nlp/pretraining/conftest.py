"""Small text, its vocabulary, and files made of it."""

from __future__ import annotations

import itertools
import os
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from provender.nlp.pretraining import Options, TokenStore, join_parts, planning, tokenize_part
from provender.nlp.text import Tokenizer, make_tokenizer

SPECIAL = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
WORDS = [f"w{i}" for i in range(200)]
ENDINGS = [f"##e{i}" for i in range(40)]


def corpus(documents: int, seed: int = 0, longest: int = 30) -> str:
    """Text whose words are of the vocabulary: a third of them of two or three pieces."""
    rng = random.Random(seed)
    lines = []
    for _ in range(documents):
        for _ in range(rng.randint(1, longest)):
            words = []
            for _ in range(rng.randint(1, 25)):
                word = rng.choice(WORDS)
                for _ in range(rng.choice((0, 0, 1, 2)) if rng.random() < 0.6 else 0):
                    word += rng.choice(ENDINGS)[2:]
                words.append(word)
            lines.append(" ".join(words))
        lines.append("")
    return "\n".join(lines)


@pytest.fixture(scope="session")
def vocab(tmp_path_factory: pytest.TempPathFactory) -> str:
    file = tmp_path_factory.mktemp("vocabulary") / "vocab.txt"
    file.write_text("\n".join([*SPECIAL, *WORDS, *ENDINGS]) + "\n")
    return str(file)


@pytest.fixture(scope="session")
def text(tmp_path_factory: pytest.TempPathFactory) -> Path:
    file = tmp_path_factory.mktemp("text") / "text.txt"
    file.write_text(corpus(60))
    return file


@pytest.fixture(scope="session")
def tokenizer(vocab: str) -> Tokenizer:
    return make_tokenizer("WordPiece", vocab_file=vocab)


@pytest.fixture(scope="session")
def store(tmp_path_factory: pytest.TempPathFactory, text: Path, tokenizer: Tokenizer) -> TokenStore:
    folder = tmp_path_factory.mktemp("store")
    return make_store(folder, text, tokenizer)


def make_store(folder: Path, text: Path, tokenizer: Tokenizer) -> TokenStore:
    tokenize_part(text, 0, os.path.getsize(text), tokenizer, folder / "part")
    join_parts([folder / "part"], folder / "store")
    return TokenStore(folder / "store")


def documents_of(store: TokenStore) -> list[list[list[int]]]:
    """A store as documents of sentences of ids."""
    tokens = store.tokens.tolist()
    ends = [0, *store.sentences.tolist()]
    sentences = [tokens[a:b] for a, b in itertools.pairwise(ends)]
    cuts = [0, *store.documents.tolist()]
    return [sentences[a:b] for a, b in itertools.pairwise(cuts)]


def targets_of(store: TokenStore, options: Options) -> Callable[[int, int], int]:
    """The lengths that documents aim at in each pass, as drawn by counter.

    They are drawn once a document and pass, so rarely that two sets of draws give other numbers of
    instances; a slow implementation that is to be compared must aim at the same lengths.
    """
    every = np.arange(len(store.documents))
    drawn = [planning._targets(options, epoch, every) for epoch in range(options.dupe_factor)]
    return lambda epoch, document: int(drawn[epoch][document])


def examples_of(paths: Any, options: Options) -> dict[str, np.ndarray]:
    """The features of files as TensorFlow reads them, under version 1 names."""
    import tensorflow as tf

    length, most = options.max_seq_length, options.max_predictions_per_seq
    v2 = options.use_v2_feature_names
    ids, types = ("input_word_ids", "input_type_ids") if v2 else ("input_ids", "segment_ids")
    wanted = {
        ids: tf.io.FixedLenFeature([length], tf.int64),
        "input_mask": tf.io.FixedLenFeature([length], tf.int64),
        types: tf.io.FixedLenFeature([length], tf.int64),
        "masked_lm_positions": tf.io.FixedLenFeature([most], tf.int64),
        "masked_lm_ids": tf.io.FixedLenFeature([most], tf.int64),
        "masked_lm_weights": tf.io.FixedLenFeature([most], tf.float32),
        "next_sentence_labels": tf.io.FixedLenFeature([1], tf.int64),
    }
    records = tf.data.TFRecordDataset(
        list(map(str, paths)), compression_type="GZIP" if options.gzip_compress else ""
    )
    read = tf.io.parse_example(list(records.as_numpy_iterator()), wanted)
    found = {name: value.numpy() for name, value in read.items()}
    found["input_ids"], found["segment_ids"] = found.pop(ids), found.pop(types)
    return found
