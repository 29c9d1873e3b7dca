"""The rows of loaders, made the common way: each record parsed and mapped by itself."""

from __future__ import annotations

from typing import Any


def per_record(loader: Any, params: Any) -> Any:
    """The loader's rows, made the common way: each record parsed and mapped by itself."""
    import tensorflow as tf

    files = tf.data.Dataset.list_files(params.input_path)
    data = files.repeat().interleave(tf.data.TFRecordDataset, cycle_length=16)
    data = data.shuffle(params.shuffle_buffer_size)
    auto = tf.data.AUTOTUNE
    if hasattr(loader, "buckets"):
        return _dynamic_by_record(loader, params, data).prefetch(auto)
    features = loader.features()
    data = data.map(lambda each: tf.io.parse_single_example(each, features), auto)
    name = type(loader).__name__
    rows = params.global_batch_size
    if hasattr(loader, "assemble"):
        return data.map(loader.assemble, auto).batch(rows, drop_remainder=True).prefetch(auto)
    if name == "XLNetPretrainDataLoader":
        return _xlnet_by_record(loader, data).batch(rows, drop_remainder=True).prefetch(auto)
    if name == "WMTDataLoader":
        return _wmt_by_record(loader, params, data).prefetch(auto)
    # Text is batched before it is tokenized in the common form, too; only parsing differs.
    return _text_by_record(loader, params, data).prefetch(auto)


def _dynamic_by_record(loader: Any, params: Any, data: Any) -> Any:
    import tensorflow as tf

    integers = ("input_ids", "input_mask", "segment_ids", "masked_lm_positions", "masked_lm_ids")
    features: dict[str, Any] = {name: tf.io.VarLenFeature(tf.int64) for name in integers}
    features["masked_lm_weights"] = tf.io.VarLenFeature(tf.float32)
    features["next_sentence_labels"] = tf.io.FixedLenFeature([1], tf.int64)
    names = {"input_ids": "input_word_ids", "segment_ids": "input_type_ids"}

    def one(record: Any) -> dict[str, Any]:
        row = tf.io.parse_single_example(record, features)
        row = {
            names.get(name, name): tf.sparse.to_dense(each)
            if isinstance(each, tf.SparseTensor)
            else each
            for name, each in row.items()
        }
        length = tf.reduce_sum(row["input_mask"])
        for name in ("input_word_ids", "input_mask", "input_type_ids"):
            row[name] = row[name][:length]
        return {
            name: tf.cast(each, tf.int32) if each.dtype == tf.int64 else each
            for name, each in row.items()
        }

    lengths = [each.length for each in loader.buckets()]
    return data.map(one, tf.data.AUTOTUNE).bucket_by_sequence_length(
        lambda row: tf.size(row["input_word_ids"]),
        bucket_boundaries=[each + 1 for each in lengths[:-1]],
        bucket_batch_sizes=[params.global_batch_size] * len(lengths),
        drop_remainder=True,
    )


def _xlnet_by_record(loader: Any, data: Any) -> Any:
    import tensorflow as tf

    def one(number: Any, decoded: Any) -> Any:
        row = {
            name: value[tf.newaxis]
            if name != "boundary_indices"
            else tf.RaggedTensor.from_row_lengths(value, [tf.size(value)])
            for name, value in decoded.items()
        }
        made = loader._predicted(tf.stack([tf.constant(0, tf.int64), number]), row)
        return {name: value[0] for name, value in made.items()}

    return data.enumerate().map(one, tf.data.AUTOTUNE)


def _wmt_by_record(loader: Any, params: Any, data: Any) -> Any:
    import tensorflow as tf

    from provender.nlp.loaders.buckets import rows_per_bucket, upper_ends
    from provender.nlp.loaders.vocabulary import SentencePiece

    model = SentencePiece(params.sentencepiece_model_path, add_eos=True, needs=())
    most = params.max_seq_length

    def tokenize(decoded: Any) -> Any:
        return {
            "inputs": model.tokenize(decoded[params.src_lang][tf.newaxis]).flat_values,
            "targets": model.tokenize(decoded[params.tgt_lang][tf.newaxis]).flat_values,
        }

    def length(row: Any) -> Any:
        return tf.maximum(tf.size(row["inputs"]), tf.size(row["targets"]))

    data = data.map(tokenize, tf.data.AUTOTUNE).filter(lambda row: length(row) <= most)
    if params.static_batch:
        shapes = {"inputs": [most], "targets": [most]}
        return data.padded_batch(params.global_batch_size // most, shapes, drop_remainder=True)
    ends = upper_ends(most)
    sizes = rows_per_bucket(params.global_batch_size, ends)
    return data.bucket_by_sequence_length(length, ends[:-1], sizes, drop_remainder=True)


def _text_by_record(loader: Any, params: Any, data: Any) -> Any:
    import tensorflow as tf

    from provender.nlp.loaders.text_features import preprocessor_of
    from provender.nlp.loaders.vocabulary import CLS, MASK, SEP, WordPiece

    auto = tf.data.AUTOTUNE
    rows = params.global_batch_size
    if hasattr(loader, "_masking"):
        tokenizer = WordPiece(params.vocab_file_path, params.lower_case, (CLS, SEP, MASK))
        masked = loader._masking(tokenizer)
        if params.use_next_sentence_label:
            from provender.nlp.loaders.sentence_pairs import next_sentences, sentences

            def pair(number: Any, decoded: Any) -> Any:
                made = next_sentences(sentences(decoded["text"]), tf.stack([number, number]))
                return {"first": made.first, "second": made.second, "is_next": made.is_next}

            data = data.batch(params.doc_batch_size).enumerate().map(pair, auto).unbatch()
        data = data.batch(rows, drop_remainder=True).enumerate()
        return data.map(lambda n, each: masked(tf.stack([n, n]), each), auto)
    preprocess = preprocessor_of(params, "WordPiece")
    make = getattr(loader, "_rows", None) or loader._pairs
    return data.batch(rows, drop_remainder=True).map(lambda each: make(preprocess, each), auto)
