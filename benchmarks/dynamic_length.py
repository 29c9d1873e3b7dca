"""What dynamic length, scaled mask slots and packing are worth, from file to trained example.

Pretraining records of 512 tokens and 76 mask slots are made of real text, by the algorithm of BERT's
pretraining data, in two sets: *docs*, the documents as they are, and *wiki-like*, the same text cut
into documents of log-normal lengths (median 230 words, sigma 1). A BERT of 2 layers and 128 units
is trained on them, 16 rows a step, through the loaders: static, dynamic (buckets 128, 256, 384,
512), dynamic with mask slots scaled by bucket, and packed. What counts is examples by the CPU
seconds of this process, reading and training together, TensorFlow on one thread; the making of
graphs is left out, since a training does it once. The arms take turns, and the ratio of each to
static is the median of the rounds.

The published claim for dynamic against static is 1.5 to 1.9, on TPUs. The text is
`pydoc_data.topics`, which every CPython has, and whatever HTML the larger Debian documentation
packages have left in /usr/share/doc.
"""

from __future__ import annotations

import argparse
import html
import os
import re
import statistics
import tempfile
import time
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import numpy as np

LENGTH, SLOTS, VOCABULARY, ROWS = 512, 76, 8192, 16
BUCKETS = (128, 256, 384, 512)
PAD, CLS, SEP, MASK, FIRST = 0, 1, 2, 3, 4
RATE = 0.15
PACKAGES = ("python3*-doc", "python3.*", "postgresql-doc*", "git-doc", "git", "sqlite3-doc")
ARMS = ("static", "dynamic", "dynamic, scaled masks", "packed")
MOST_BYTES = 12 << 20

Document = list[list[int]]


def documents() -> list[Document]:
    """Documents of sentences of token ids; a token is a word or mark, its id a hash of it."""
    from pydoc_data.topics import topics

    texts = list(topics.values())
    size = sum(map(len, texts))
    for package in PACKAGES:
        for path in sorted(Path("/usr/share/doc").glob(f"{package}/**/*.html")):
            if size < MOST_BYTES:
                text = re.sub(
                    r"(?s)<(script|style).*?</\1>", " ", path.read_text("utf8", "replace")
                )
                text = re.sub(r"</(p|li|h\d|tr|pre|div)>", ".\n", text)
                texts.append(html.unescape(re.sub(r"<[^>]+>", "", text)))
                size += len(texts[-1])
    print(f"text: {size / 1e6:.1f} MB in {len(texts):,} documents")
    return [each for each in map(_sentences, texts) if each]


def _sentences(text: str) -> Document:
    made = []
    for sentence in re.split(r"(?<=[.!?:])\s+|\n\s*\n", text.lower()):
        words = re.findall(r"\w+|[^\w\s]", sentence)
        if words:
            made.append([FIRST + zlib.crc32(w.encode()) % (VOCABULARY - FIRST) for w in words])
    return made


def cut_like_wikipedia(docs: list[Document], rng: np.random.Generator) -> list[Document]:
    """The same sentences in documents of log-normal lengths: median 230 tokens, sigma 1."""
    made: list[Document] = []
    current: Document = []
    target = rng.lognormal(np.log(230), 1)
    for sentence in (each for doc in docs for each in doc):
        current.append(sentence)
        if sum(map(len, current)) >= target:
            made.append(current)
            current, target = [], rng.lognormal(np.log(230), 1)
    return [*made, current] if current else made


def pairs(
    docs: list[Document], rng: np.random.Generator
) -> Iterator[tuple[list[int], list[int], int]]:
    """A, B and whether B is random, of one pass over the documents; A and B fit a row."""
    for doc in docs:
        most = LENGTH - 3
        target = int(rng.integers(2, most + 1)) if rng.random() < 0.1 else most
        start = 0
        while start < len(doc):
            end, size = start, 0
            while end < len(doc) and size < target:
                size += len(doc[end])
                end += 1
            split = start + (int(rng.integers(1, end - start)) if end - start > 1 else 1)
            first = [token for each in doc[start:split] for token in each]
            is_random = end - start == 1 or rng.random() < 0.5
            if is_random:
                other = docs[int(rng.integers(len(docs)))]
                begin, second = int(rng.integers(len(other))), []
                for each in other[begin:]:
                    second += each
                    if len(second) >= target - len(first):
                        break
                start = split
            else:
                second = [token for each in doc[split:end] for token in each]
                start = end
            _truncate(first, second, most, rng)
            yield first, second, int(is_random)


def _truncate(first: list[int], second: list[int], most: int, rng: np.random.Generator) -> None:
    while len(first) + len(second) > most:
        longer = first if len(first) > len(second) else second
        del longer[0 if rng.random() < 0.5 else -1]


def write_records(path: Path, docs: list[Document], count: int, rng: np.random.Generator) -> None:
    """Writes `count` examples, drawn from as many passes as they take and shuffled."""
    import tensorflow as tf

    made: list[tuple[list[int], list[int], int]] = []
    while len(made) < 4 * count:
        made += pairs(docs, rng)
    with tf.io.TFRecordWriter(str(path)) as file:
        for index in rng.permutation(len(made))[:count]:
            file.write(_record(*made[index], rng))


def _record(first: list[int], second: list[int], label: int, rng: np.random.Generator) -> bytes:
    import tensorflow as tf

    ids = np.array([CLS, *first, SEP, *second, SEP])
    used = min(SLOTS, max(1, round(RATE * len(ids))))
    maskable = np.nonzero(ids >= FIRST)[0]
    positions = np.sort(rng.permutation(maskable)[:used])
    labels = ids[positions]
    ids[positions[rng.random(len(positions)) < 0.8]] = MASK
    types = np.arange(len(ids)) >= len(first) + 2

    def padded(values: Any, length: int, kind: str = "int64") -> Any:
        full = np.zeros(length, np.float32 if kind == "float" else np.int64)
        full[: len(values)] = values
        if kind == "float":
            return tf.train.Feature(float_list=tf.train.FloatList(value=full))
        return tf.train.Feature(int64_list=tf.train.Int64List(value=full))

    feature = {
        "input_word_ids": padded(ids, LENGTH),
        "input_mask": padded(np.ones(len(ids)), LENGTH),
        "input_type_ids": padded(types, LENGTH),
        "masked_lm_positions": padded(positions, SLOTS),
        "masked_lm_ids": padded(labels, SLOTS),
        "masked_lm_weights": padded(np.ones(len(positions)), SLOTS, "float"),
        "next_sentence_labels": padded([label], 1),
    }
    example = tf.train.Example(features=tf.train.Features(feature=feature))
    return bytes(example.SerializeToString())


def loader(arm: str, path: Path) -> Any:
    """The data of one arm: every example once, in batches of 16 rows."""
    from provender.nlp.dynamic import BertPretrainDynamicDataConfig
    from provender.nlp.loaders.bert_pretrain import BertPretrainDataConfig
    from provender.nlp.registry import get_data_loader

    values: dict[str, Any] = {
        "input_path": str(path),
        "global_batch_size": ROWS,
        "is_training": False,
        "drop_remainder": False,
        "use_v2_feature_names": True,
    }
    if arm.startswith("dynamic"):
        scaled = arm != "dynamic"
        config: Any = BertPretrainDynamicDataConfig(
            **values, seq_bucket_lengths=BUCKETS, scale_mask_slots=scaled
        )
    else:
        packing = {"max_predictions_per_seq": SLOTS + 4} if arm == "packed" else None
        config = BertPretrainDataConfig(**values).replace(packing=packing)
    return get_data_loader(config).load()


def model() -> Any:
    """A BERT of 2 layers; inputs of any length, a head on the masked positions and one on pairs."""
    import keras
    from keras import layers, ops

    def ints(name: str) -> Any:
        return keras.Input((None,), dtype="int32", name=name)

    inputs = {
        name: ints(name)
        for name in ("ids", "types", "positions", "masked_positions", "pair_positions")
    }
    inputs["attention"] = keras.Input((None, None), dtype="bool", name="attention")
    units = 128
    x = (
        layers.Embedding(VOCABULARY, units)(inputs["ids"])
        + layers.Embedding(2, units)(inputs["types"])
        + layers.Embedding(LENGTH, units)(inputs["positions"])
    )
    x = layers.LayerNormalization()(x)
    for _ in range(2):
        attended = layers.MultiHeadAttention(2, units // 2)(
            x, x, attention_mask=inputs["attention"]
        )
        x = layers.LayerNormalization()(x + attended)
        inner = layers.Dense(units)(layers.Dense(4 * units, activation="gelu")(x))
        x = layers.LayerNormalization()(x + inner)

    def rows_at(positions: Any) -> Any:
        return layers.Lambda(
            lambda each: ops.take_along_axis(each[0], each[1][:, :, None], axis=1),
            output_shape=(None, units),
        )([x, positions])

    masked = layers.Dense(units, activation="gelu")(rows_at(inputs["masked_positions"]))
    return keras.Model(
        inputs,
        {
            "masked": layers.Dense(VOCABULARY)(layers.LayerNormalization()(masked)),
            "pairs": layers.Dense(2)(rows_at(inputs["pair_positions"])),
        },
    )


def trainer(spec: dict[str, Any]) -> Any:
    """One training step on batches of this specification, whatever their lengths; the loss."""
    import keras
    import tensorflow as tf

    from provender.nlp.packing.attention import attention_mask

    bert = model()
    optimizer = keras.optimizers.Adam(1e-4)
    optimizer.build(bert.trainable_variables)

    def mean_loss(labels: Any, logits: Any, weights: Any) -> Any:
        loss = tf.nn.sparse_softmax_cross_entropy_with_logits(labels, logits)
        return tf.reduce_sum(loss * weights) / (tf.reduce_sum(weights) + 1e-5)

    anything = {name: tf.TensorSpec([None, None], each.dtype) for name, each in spec.items()}

    @tf.function(input_signature=[anything])
    def step(batch: dict[str, Any]) -> Any:
        ids, labels = batch["input_word_ids"], batch["next_sentence_labels"]
        segments = batch.get("segment_ids", batch["input_mask"])
        places = tf.zeros_like(ids) + tf.range(tf.shape(ids)[1])
        inputs = {
            "ids": ids,
            "types": batch["input_type_ids"],
            "positions": batch.get("position_ids", places),
            "masked_positions": batch["masked_lm_positions"],
            "pair_positions": batch.get("next_sentence_positions", tf.zeros_like(labels)),
            "attention": attention_mask(segments),
        }
        there = batch.get("next_sentence_weights", tf.ones_like(labels, tf.float32))
        with tf.GradientTape() as tape:
            out = bert(inputs, training=True)
            loss = mean_loss(batch["masked_lm_ids"], out["masked"], batch["masked_lm_weights"])
            loss += mean_loss(labels, out["pairs"], there)
        gradients = tape.gradient(loss, bert.trainable_variables)
        optimizer.apply_gradients(zip(gradients, bert.trainable_variables, strict=True))
        return loss

    return step


def measure(path: Path, rounds: int) -> None:
    """Trains through every arm in turns, and prints a table."""
    from provender.nlp.packing.padding import padding_of

    padding = {arm: padding_of(loader(arm, path)) for arm in ARMS}
    steps = {arm: trainer(loader(arm, path).element_spec) for arm in ARMS}
    for arm in ARMS:  # graphs are made before the clock runs
        for batch in loader(arm, path).take(1):
            steps[arm](batch)
    rates: dict[str, list[float]] = {arm: [] for arm in ARMS}
    for number in range(rounds):
        for arm in ARMS if number % 2 == 0 else ARMS[::-1]:
            data = loader(arm, path)
            start = time.process_time()
            for batch in data:
                steps[arm](batch)
            rates[arm].append(padding[arm].examples / (time.process_time() - start))
    print(f"{'':24}{'padding':>9}{'bound':>8}{'ex/CPU s':>10}{'to static':>11}")
    for arm in ARMS:
        ratios = [own / base for own, base in zip(rates[arm], rates["static"], strict=True)]
        print(
            f"{arm:24}{padding[arm].share:9.1%}{padding[arm].gain_over(padding['static']):8.2f}"
            f"{statistics.median(rates[arm]):10.2f}{statistics.median(ratios):11.2f}"
            f"   ({', '.join(f'{each:.2f}' for each in ratios)})",
            flush=True,
        )


def picture(path: Path, out: Path) -> None:
    """Draws the first 64 examples in static, dynamic and packed batches; padding is grey."""
    panels = []
    for arm, title in (("static", "static"), ("dynamic", "buckets"), ("packed", "packed")):
        rows: list[tuple[int, list[int]]] = []
        seen = 0
        for batch in loader(arm, path):
            numbers = np.asarray(batch.get("segment_ids", batch["input_mask"]))
            for row in numbers:
                ends = [int((row == each).sum()) for each in range(1, row.max() + 1)]
                if seen < 64:
                    rows.append((len(row), ends))
                    seen += len(ends)
        cells, tokens = sum(w for w, _ in rows), sum(sum(ends) for _, ends in rows)
        panels.append((f"{title}: {1 - tokens / cells:.0%} padding", rows))
    parts = []
    for column, (title, rows) in enumerate(panels):
        left = 10 + column * 280
        parts.append(f'<text x="{left}" y="20">{title}</text>')
        for number, (width, ends) in enumerate(rows):
            y, x = 30 + number * 5, float(left)
            parts.append(
                f'<rect x="{left}" y="{y}" width="{width / 2}" height="4" fill="#c9c9c9"/>'
            )
            for index, size in enumerate(ends):
                color = ("#2d6a9f", "#6fa8d6")[index % 2]
                parts.append(
                    f'<rect x="{x}" y="{y}" width="{size / 2}" height="4" fill="{color}"/>'
                )
                x += size / 2
    out.write_text(
        '<svg xmlns="http://www.w3.org/2000/svg" width="840" height="360" font-family="sans-serif"'
        ' font-size="14">\n<rect width="840" height="360" fill="white"/>\n'
        + "\n".join(parts)
        + "\n</svg>\n"
    )


def main() -> None:
    """Makes both sets, and measures or draws them."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--examples", type=int, default=1600)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--sets", nargs="+", default=["wiki-like", "docs"])
    parser.add_argument("--picture", type=Path, help="draw the padding to this SVG file instead")
    args = parser.parse_args()
    import tensorflow as tf

    tf.config.threading.set_intra_op_parallelism_threads(1)
    tf.config.threading.set_inter_op_parallelism_threads(1)
    rng = np.random.default_rng(0)
    docs = documents()
    sets = {"wiki-like": cut_like_wikipedia(docs, rng), "docs": docs}
    with tempfile.TemporaryDirectory() as folder:
        for name in args.sets:
            path = Path(folder) / f"{name}.tfrecord"
            write_records(path, sets[name], args.examples, rng)
            if args.picture:
                picture(path, args.picture)
                return
            print(f"\n{name}: {args.examples:,} examples, {ROWS} rows a step")
            measure(path, args.rounds)


if __name__ == "__main__":
    main()
