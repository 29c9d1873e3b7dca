"""Translation: pairs of sentences, tokenized by SentencePiece, batched by tokens or by rows."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

from provender.errors import SettingsError
from provender.nlp.config import DataConfig
from provender.nlp.loaders.base import (
    ConfiguredLoader,
    Range,
    check_lengths,
    ints,
    narrow,
    spec,
)
from provender.nlp.loaders.batching import (
    DecodedBatches,
    reading_whole_batches,
    rebatched,
    rows_of,
    unconverted,
)
from provender.nlp.loaders.buckets import rows_per_bucket, upper_ends
from provender.nlp.loaders.vocabulary import SentencePiece
from provender.nlp.registry import register_data_loader_cls

_CHUNK = 256
"""Records that are tokenized together, before they are put into buckets."""

_SIDES = ("inputs", "targets")
_LENGTH = "_length"


@dataclasses.dataclass
class WMTDataConfig(DataConfig):
    """What `WMTDataLoader` reads, and how it is batched. ``global_batch_size`` must be set.

    In training, and wherever ``static_batch`` is off, ``global_batch_size`` counts tokens; in
    evaluation with ``static_batch`` it counts rows.

    Attributes:
        max_seq_length: most tokens of a side, the end of sentence counted. Longer pairs are left
            out in training and cut in evaluation.
        static_batch: one shape for all batches; otherwise rows of about one length share a batch.
        sentencepiece_model_path: the model.
        src_lang: the feature with the source.
        tgt_lang: the feature with the target.
        transform_and_batch: off hands single examples on as text.
        has_unique_id: hand on unique_id.
    """

    max_seq_length: int = 64
    static_batch: bool = False
    sentencepiece_model_path: str = ""
    src_lang: str = ""
    tgt_lang: str = ""
    transform_and_batch: bool = True
    has_unique_id: bool = False


@register_data_loader_cls(WMTDataConfig)
class WMTDataLoader(ConfiguredLoader):
    """Batches of ``inputs`` and ``targets``, padded with 0.

    Raises:
        SettingsError: no languages or model, or a token budget below one row.
    """

    def check(self) -> None:
        params = self._params
        check_lengths(params, ("max_seq_length",))
        needed = ["src_lang", "tgt_lang"]
        if params.transform_and_batch:
            needed.append("sentencepiece_model_path")
        for name in needed:
            if not getattr(params, name):
                raise SettingsError(
                    f"{name} is not given.",
                    where=name,
                    hint="Name the features src_lang and tgt_lang, and give the SentencePiece model.",
                )

    def features(self) -> dict[str, Any]:
        """Name -> what a record holds."""
        import tensorflow as tf

        params = self._params
        text = tf.io.FixedLenFeature([], tf.string)
        found = {params.src_lang: text, params.tgt_lang: text}
        if params.has_unique_id:
            found["unique_id"] = ints()
        return found

    def load(self, input_context: Any = None) -> Any:
        """Batches, or with ``transform_and_batch`` off single examples; see `DataLoader.load`."""
        params = self._params
        if not params.transform_and_batch:
            whole = reading_whole_batches(
                params, self.features(), lambda decoded, _: decoded(_CHUNK).unbatch()
            )
            return whole.read(input_context)
        model = SentencePiece(
            params.sentencepiece_model_path, add_eos=not self._cuts, needs=(), needs_eos=True
        )

        def batched(decoded: DecodedBatches, context: Any) -> Any:
            return self._batched(self._tokenized(decoded(_CHUNK), model), context)

        return reading_whole_batches(params, self.features(), batched).read(input_context)

    @property
    def _cuts(self) -> bool:
        """Whether long pairs are cut; in training they are left out."""
        return not self._params.is_training

    def _tokenized(self, data: Any, model: SentencePiece) -> Any:
        """Chunks of rows padded to ``max_seq_length``, with the lengths of both sides."""
        import tensorflow as tf

        params = self._params

        def tokenize(decoded: Mapping[str, Any]) -> dict[str, Any]:
            found: dict[str, Any] = {}
            names = dict(zip(_SIDES, (params.src_lang, params.tgt_lang), strict=True))
            ids = {side: model.tokenize(decoded[name]) for side, name in names.items()}
            if self._cuts:
                ids = {
                    side: _cut(each, params.max_seq_length, model.eos_id)
                    for side, each in ids.items()
                }
            for side, each in ids.items():
                found[side] = each.to_tensor(shape=[None, params.max_seq_length])
                found[side + _LENGTH] = tf.cast(each.row_lengths(), tf.int32)
            if params.has_unique_id:
                found["unique_id"] = narrow(decoded["unique_id"])
            if self._cuts:
                return found
            fits = _longest(found) <= params.max_seq_length
            return {name: tf.boolean_mask(value, fits) for name, value in found.items()}

        return data.map(unconverted(tokenize), num_parallel_calls=tf.data.AUTOTUNE)

    def _batched(self, chunks: Any, context: Any) -> Any:
        import tensorflow as tf

        params = self._params
        size = rows_of(params, context)
        if params.static_batch:
            rows = size
            if not self._cuts:
                (rows,) = rows_per_bucket(size, [params.max_seq_length])
            data = rebatched(chunks, rows, params)
            return data.map(self._without_lengths, num_parallel_calls=tf.data.AUTOTUNE)
        ends = upper_ends(params.max_seq_length)
        rows_of_bucket = rows_per_bucket(size, ends)
        # Evaluation has to tell that not one batch is full, so there it sees smaller ones, too.
        checked = self._cuts and params.drop_remainder
        data = chunks.unbatch().bucket_by_sequence_length(
            _longest,
            bucket_boundaries=ends[:-1],
            bucket_batch_sizes=rows_of_bucket,
            no_padding=True,
            drop_remainder=params.drop_remainder and not checked,
        )
        if checked:
            data = _full(data, ends, rows_of_bucket)
        return data.map(self._narrowed, num_parallel_calls=tf.data.AUTOTUNE)

    def _without_lengths(self, batch: Mapping[str, Any]) -> dict[str, Any]:
        return {name: value for name, value in batch.items() if not name.endswith(_LENGTH)}

    def _narrowed(self, batch: Mapping[str, Any]) -> dict[str, Any]:
        """Each side cut to the longest of its rows."""
        import tensorflow as tf

        found = self._without_lengths(batch)
        for side in _SIDES:
            found[side] = batch[side][:, : tf.reduce_max(batch[side + _LENGTH])]
        return found

    def element_spec(self) -> dict[str, Any]:
        import tensorflow as tf

        params = self._params
        if not params.transform_and_batch:
            return {
                name: tf.TensorSpec([], feature.dtype) for name, feature in self.features().items()
            }
        length = params.max_seq_length if params.static_batch else None
        found = {side: spec("int32", length) for side in _SIDES}
        if params.has_unique_id:
            found["unique_id"] = spec("int32")
        return found

    def value_ranges(self) -> dict[str, Range]:
        return dict.fromkeys(_SIDES, (0, None)) if self._params.transform_and_batch else {}


def _cut(ids: Any, most: int, eos: int) -> Any:
    """Ids cut to leave room for the end of sentence, which is appended."""
    import tensorflow as tf

    cut = ids[:, : most - 1]
    ends = tf.fill([cut.nrows(), 1], eos)
    return tf.concat([cut, ends], axis=1)


def _longest(rows: Mapping[str, Any]) -> Any:
    """Tokens of the longer side of a row, or of each of several."""
    import tensorflow as tf

    return tf.maximum(*(rows[side + _LENGTH] for side in _SIDES))


def _full(batches: Any, ends: list[int], rows_of_bucket: list[int]) -> Any:
    """Full batches only; an error, when it is read, where there is none.

    Smaller batches come after all full ones, when the data has ended.
    """
    import tensorflow as tf

    def is_full(number: Any, batch: Mapping[str, Any]) -> Any:
        longest = _longest(batch)
        bucket = tf.searchsorted(tf.constant(ends), longest[:1], side="right")[0]
        full = tf.size(longest) == tf.gather(tf.constant(rows_of_bucket), bucket)
        message = (
            "There are fewer pairs of each length than a batch of that length has: drop_remainder "
            "would leave all of them out. Set drop_remainder: false, or a smaller "
            "global_batch_size."
        )
        with tf.control_dependencies([tf.debugging.Assert((number > 0) | full, [message])]):
            return tf.identity(full)

    return batches.enumerate().filter(unconverted(is_full)).map(lambda _, batch: batch)
