"""Next-sentence pairs and packing, from text to rows."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tensorflow as tf
from tests.nlp.loaders import records
from tests.nlp.loaders.conftest import Files

from provender.nlp import loaders
from provender.nlp.loaders.segments import ROUND_ROBIN, WATERFALL, pack
from provender.nlp.loaders.sentence_pairs import next_sentences, sentences
from provender.nlp.loaders.vocabulary import WordPiece
from provender.nlp.registry import get_data_loader


def documents(count: int, lines: int) -> tf.RaggedTensor:
    texts = ["\n".join(f"{doc}-{line}" for line in range(lines)) for doc in range(count)]
    return sentences(tf.constant(texts))


def pairs(docs: tf.RaggedTensor, seed: int = 1) -> list[tuple[str, str, bool]]:
    made = next_sentences(docs, tf.constant([seed, 0], tf.int64))
    return [
        (a.decode(), b.decode(), bool(is_next))
        for a, b, is_next in zip(
            made.first.numpy(), made.second.numpy(), made.is_next.numpy(), strict=True
        )
    ]


def test_lines_are_sentences_and_empty_ones_are_none() -> None:
    found = sentences(tf.constant(["a b \n\n  c\n", "", "d"]))
    assert found.to_list() == [[b"a b", b"c"], [], [b"d"]]


def test_half_are_next_and_random_ones_are_of_other_documents() -> None:
    found = pairs(documents(50, 40))
    assert len(found) == 50 * 40
    for first, second, is_next in found:
        (doc, line), (other, place) = first.split("-"), second.split("-")
        if is_next:
            assert (other, int(place)) == (doc, int(line) + 1)
        else:
            assert other != doc
        assert not (is_next and int(line) == 39)
    inner = [is_next for first, _, is_next in found if not first.endswith("-39")]
    assert np.mean(inner) == pytest.approx(0.5, abs=0.03)
    drawn = [int(second.split("-")[0]) for _, second, is_next in found if not is_next]
    assert min(np.bincount(drawn, minlength=50)) > 0


def test_one_document_has_next_sentences_only() -> None:
    assert pairs(documents(1, 3)) == [("0-0", "0-1", True), ("0-1", "0-2", True)]
    assert pairs(sentences(tf.constant(["", "a\nb"]))) == [("a", "b", True)]
    assert pairs(sentences(tf.constant([""]))) == []


@pytest.fixture(scope="module")
def tokenizer(files: Files) -> WordPiece:
    return WordPiece(files.vocabulary, lower_case=True)


@pytest.mark.parametrize("lengths", [(0, 9), (3, 3), (9, 2), (20, 20), (1, 0), (5, 6), (6, 5)])
@pytest.mark.parametrize("trim", [ROUND_ROBIN, WATERFALL])
def test_segments_are_trimmed_joined_and_padded(
    lengths: tuple[int, int], trim: str, tokenizer: WordPiece
) -> None:
    seq = 12
    segments = [
        tf.ragged.constant([[40 + each] * size], dtype=tf.int32)
        for each, size in enumerate(lengths)
    ]
    ids, mask, types = (np.asarray(each)[0] for each in pack(segments, tokenizer, seq, trim))
    room = seq - 3
    first, second = lengths
    if trim == WATERFALL:
        kept = (min(first, room), min(second, max(0, room - first)))
    else:
        dealt = [0, 0]
        while sum(dealt) < room and dealt != list(lengths):
            for each in (0, 1):
                if dealt[each] < lengths[each] and sum(dealt) < room:
                    dealt[each] += 1
        kept = (dealt[0], dealt[1])
    row = [tokenizer.cls_id, *[40] * kept[0], tokenizer.sep_id, *[41] * kept[1], tokenizer.sep_id]
    assert ids.tolist() == row + [0] * (seq - len(row))
    assert mask.tolist() == [1] * len(row) + [0] * (seq - len(row))
    assert types.tolist() == [0] * (kept[0] + 2) + [1] * (kept[1] + 1) + [0] * (seq - len(row))


def loader(files: Files, **options: Any) -> Any:
    base = {
        "input_path": files.texts,
        "vocab_file_path": files.vocabulary,
        "seq_length": 32,
        "max_predictions_per_seq": 5,
        "global_batch_size": 16,
        "is_training": False,
        "seed": 1,
    }
    return get_data_loader(loaders.BertPretrainTextDataConfig().override({**base, **options}))


def read(files: Files, **options: Any) -> dict[str, np.ndarray]:
    batches = list(loader(files, **options).load())
    return {name: np.concatenate([each[name] for each in batches]) for name in batches[0]}


def unmasked(rows: dict[str, np.ndarray]) -> np.ndarray:
    ids = rows["input_word_ids"].copy()
    for row in range(len(ids)):
        used = rows["masked_lm_weights"][row] > 0
        ids[row, rows["masked_lm_positions"][row][used]] = rows["masked_lm_ids"][row][used]
    return ids


def test_rows_are_the_text_once_masks_are_undone(files: Files, tokenizer: WordPiece) -> None:
    found = read(
        files,
        use_next_sentence_label=False,
        text_field_names=["en", "de"],
        lower_case=True,
        drop_remainder=False,
    )
    source = records.texts()
    segments = [
        tokenizer.tokenize(tf.constant([row[name] for row in source])) for name in ("en", "de")
    ]
    ids, mask, types = pack(segments, tokenizer, 32, WATERFALL)
    np.testing.assert_array_equal(unmasked(found), ids)
    np.testing.assert_array_equal(found["input_mask"], mask)
    np.testing.assert_array_equal(found["input_type_ids"], types)


def test_every_sentence_is_the_first_of_one_row(files: Files) -> None:
    found = read(files, drop_remainder=False)
    lines = sum(len(row["text"].split("\n")) for row in records.texts())
    assert len(found["input_word_ids"]) == lines
    assert found["next_sentence_labels"].dtype == bool


def test_both_formats_say_the_same(files: Files) -> None:
    plain = read(files)
    offline = read(files, next_sentence_labels_format="offline")
    np.testing.assert_array_equal(plain["input_word_ids"], offline["input_word_ids"])
    np.testing.assert_array_equal(
        (~plain["next_sentence_labels"]).astype(np.int32)[:, None],
        offline["next_sentence_labels"],
    )


def test_one_seed_gives_one_result_and_pipelines_differ(files: Files) -> None:
    data = loader(files).load()
    first, again = next(iter(data)), next(iter(data))
    anew = next(iter(loader(files).load()))
    for name in first:
        np.testing.assert_array_equal(first[name], again[name])
        np.testing.assert_array_equal(first[name], anew[name])
    other = next(iter(loader(files, seed=2).load()))
    assert (first["masked_lm_positions"].numpy() != other["masked_lm_positions"].numpy()).any()
    context = tf.distribute.InputContext(2, 1, 2)
    second = next(iter(loader(files, sharding=False).load(context)))
    assert (second["masked_lm_positions"].numpy() != first["masked_lm_positions"].numpy()[:8]).any()


def test_accents_and_capitals_are_kept_unless_lower_case(files: Files, tmp_path: Path) -> None:
    path = records.write(tmp_path / "cased", [{"text": "The cat"}])
    options = {
        "input_path": path,
        "use_next_sentence_label": False,
        "drop_remainder": False,
    }
    unknown = records.PIECES.index("[UNK]")
    assert unknown in unmasked(read(files, **options))[0]
    assert unknown not in unmasked(read(files, **options, lower_case=True))[0]
