"""BERT pretraining records in whole batches: how long each is, and its part in a batch.

Records may be padded or not: an example ends after its last input_mask that is not 0.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from provender.nlp.dynamic.buckets import Bucket

POSITIONS, IDS, WEIGHTS = "masked_lm_positions", "masked_lm_ids", "masked_lm_weights"
LABELS = "next_sentence_labels"
MASK = "input_mask"


@dataclass(frozen=True)
class PretrainRecords:
    """What is read of a record, and how it is fitted into buckets.

    Args:
        buckets: the buckets of one replica.
        tokens: features with a value for each token: name in the record by name in the batch.
        next_sentence: whether records hold next_sentence_labels.
        truncate: cut examples that are longer than the last bucket, which otherwise are an error.
        source: where the records come from, for messages.
        files: the files they come from, as far as TensorFlow can read them: in case of an error
            they are searched for the one with the record.
    """

    buckets: tuple[Bucket, ...]
    tokens: Mapping[str, str]
    next_sentence: bool
    truncate: bool
    source: str
    files: tuple[str, ...] = ()

    @property
    def scales_masks(self) -> bool:
        """Whether buckets have numbers of mask slots of their own."""
        return self.buckets[0].mask_slots is not None

    def bucket_of(self, records: Any) -> Any:
        """The first bucket with room for each record's tokens and masks.

        Args:
            records: serialized examples, string [n].

        Returns:
            Indices of buckets, int32 [n].

        Raises:
            tf.errors.InvalidArgumentError: when the graph runs, a record without tokens, or one
                with more tokens (unless they are cut) or masks than the last bucket has.
        """
        import tensorflow as tf

        names: dict[str, Any] = {MASK: tf.int64}
        if self.scales_masks:
            names |= {POSITIONS: tf.int64, WEIGHTS: tf.float32}
        parsed = _parse(records, names)
        length = _length(parsed[MASK])
        longest = tf.constant([each.length for each in self.buckets], tf.int64)
        self._check(
            tf.reduce_min(length) > 0,
            f"A record has no {MASK} that is not 0, so it has no tokens. Read from {self.source}",
        )
        if not self.truncate:
            self._refuse(
                tf.reduce_max(length) <= longest[-1],
                f"A record is longer than the last bucket. Expected: at most "
                f"{self.buckets[-1].length} tokens (seq_bucket_lengths). Found: ",
                tf.reduce_max(length),
                lambda each: (
                    tf.reduce_max(_length(_parse(each, {MASK: tf.int64})[MASK])) > longest[-1]
                ),
                "Add a longer bucket, or set seq_bucket_overlong to truncate.",
            )
        bucket = tf.searchsorted(longest, tf.minimum(length, longest[-1]))
        if self.scales_masks:
            slots = tf.constant([each.mask_slots for each in self.buckets], tf.int64)
            count = self._masks_of(parsed)
            self._refuse(
                tf.reduce_max(count) <= slots[-1],
                "A record has more masked positions than the last bucket has slots. Expected: at "
                f"most {self.buckets[-1].mask_slots}. Found: ",
                tf.reduce_max(count),
                lambda each: tf.reduce_max(self._masks_of(_parse(each, names))) > slots[-1],
                "Raise the last bucket's mask slots.",
            )
            bucket = tf.maximum(bucket, tf.searchsorted(slots, count))
        return bucket

    def batch(self, records: Any, bucket: Any) -> dict[str, Any]:
        """A batch of one bucket.

        Args:
            records: serialized examples, string [rows].
            bucket: index of their bucket, or of a longer one; int32 scalar.

        Returns:
            Token features int32 [rows, length of the bucket]; masked_lm_positions and
            masked_lm_ids int32, masked_lm_weights float32 [rows, slots]; next_sentence_labels
            int32 [rows, 1].

        Raises:
            tf.errors.InvalidArgumentError: when the graph runs, a record lacks a feature.
        """
        import tensorflow as tf

        names: dict[str, Any] = dict.fromkeys(self.tokens.values(), tf.int64)
        names |= {POSITIONS: tf.int64, IDS: tf.int64, WEIGHTS: tf.float32}
        parsed = _parse(records, names, labels=self.next_sentence)
        self._check_widths(parsed)
        width = tf.gather([each.length for each in self.buckets], bucket)
        if self.scales_masks or self.truncate:
            masks = self._masks_left(parsed)
        else:
            masks = {name: parsed[name] for name in (POSITIONS, IDS, WEIGHTS)}
        if self.scales_masks:
            slots = tf.gather([each.mask_slots for each in self.buckets], bucket)
            masks = {name: _fitted(value, slots) for name, value in masks.items()}
        made = {}
        for name, stored in self.tokens.items():
            made[name] = _fitted(parsed[stored], width)
        if self.truncate:
            ids = self.tokens["input_word_ids"]
            made["input_word_ids"] = _ending_as(made["input_word_ids"], parsed[ids], parsed[MASK])
        made |= masks
        if self.next_sentence:
            made[LABELS] = parsed[LABELS]
        return {
            name: value if name == WEIGHTS else tf.cast(value, tf.int32)
            for name, value in made.items()
        }

    def _masks_of(self, parsed: Mapping[str, Any]) -> Any:
        """Number of masked positions that each record keeps, int64 [n]."""
        import tensorflow as tf

        used = _used(parsed, _length(parsed[MASK]), self.buckets[-1].length)
        return tf.reduce_sum(tf.cast(used, tf.int64), axis=1)

    def _masks_left(self, parsed: Mapping[str, Any]) -> dict[str, Any]:
        """The mask features with the used slots first."""
        import tensorflow as tf

        used = _used(parsed, _length(parsed[MASK]), self.buckets[-1].length)
        slots = tf.shape(used)[1]
        masks = {name: parsed[name] for name in (POSITIONS, IDS, WEIGHTS)}

        def moved() -> dict[str, Any]:
            return {
                name: _fitted(tf.ragged.boolean_mask(value, used).to_tensor(), slots)
                for name, value in masks.items()
            }

        # As create_pretraining_data writes them, nothing need be moved, which saves a third of the
        # time for a batch. Slots behind the used ones are empty unless a mask was cut off.
        first = tf.sequence_mask(tf.reduce_sum(tf.cast(used, tf.int32), axis=1), slots)
        in_place = tf.reduce_all(used == first) & tf.reduce_all(used == (parsed[WEIGHTS] > 0))
        left: dict[str, Any] = tf.cond(in_place, lambda: masks, moved)
        return left

    def _check_widths(self, parsed: Mapping[str, Any]) -> None:
        import tensorflow as tf

        groups = ((MASK, tuple(self.tokens.values())), (WEIGHTS, (POSITIONS, IDS)))
        for first, others in groups:
            for name in others:
                self._check(
                    tf.shape(parsed[name])[1] == tf.shape(parsed[first])[1],
                    f"Records do not have as many values of {name} as of {first}. Expected: ",
                    tf.shape(parsed[first])[1],
                    " Found: ",
                    tf.shape(parsed[name])[1],
                    ". 0 means that there is no such feature: see use_v2_feature_names. Read from "
                    f"{self.source}",
                )

    def _refuse(
        self, holds: Any, message: str, found: Any, is_wrong: Callable[[Any], Any], hint: str
    ) -> None:
        """Fails where `holds` is not true, with the first file whose records are wrong."""
        import tensorflow as tf

        def search() -> Any:
            def has_wrong(file: Any) -> Any:
                records = tf.data.TFRecordDataset(file).batch(512)
                return records.map(is_wrong).reduce(False, tf.logical_or)

            files = tf.data.Dataset.from_tensor_slices(tf.constant(self.files, tf.string, [count]))
            return files.filter(has_wrong).take(1).reduce(self.source, lambda _, file: file)

        count = len(self.files)
        file = tf.cond(holds, lambda: tf.constant(""), search)
        self._check(holds, message, found, " in ", file, f". {hint}")

    def _check(self, holds: Any, *message: Any) -> None:
        import tensorflow as tf

        text = [
            each if isinstance(each, str) or each.dtype == tf.string else tf.strings.as_string(each)
            for each in message
        ]
        tf.debugging.Assert(holds, [tf.strings.join(text)])


def _parse(records: Any, names: Mapping[str, Any], labels: bool = False) -> dict[str, Any]:
    """Features [n, values of the longest], shorter ones filled up with 0."""
    import tensorflow as tf

    features: dict[str, Any] = {
        name: tf.io.FixedLenSequenceFeature([], dtype, allow_missing=True)
        for name, dtype in names.items()
    }
    if labels:
        features[LABELS] = tf.io.FixedLenFeature([1], tf.int64)
    parsed: dict[str, Any] = tf.io.parse_example(records, features)
    return parsed


def _length(mask: Any) -> Any:
    """Number of values up to the last that is not 0, int64 [n]."""
    import tensorflow as tf

    ends = tf.range(1, tf.shape(mask, tf.int64)[1] + 1)
    # The column of zeros stands for what has no column at all, the maximum of which is no length.
    there = tf.where(mask != 0, ends, 0)
    return tf.reduce_max(tf.pad(there, [[0, 0], [0, 1]]), axis=1)


def _used(parsed: Mapping[str, Any], length: Any, longest: Any) -> Any:
    """Mask slots that are used and whose token is kept; an overlong example's last is replaced."""
    import tensorflow as tf

    longest = tf.cast(longest, tf.int64)
    end = tf.where(length > longest, longest - 1, longest)
    return (parsed[WEIGHTS] > 0) & (parsed[POSITIONS] < end[:, None])


def _fitted(values: Any, width: Any) -> Any:
    """Cut, or filled up with 0, to so many columns."""
    import tensorflow as tf

    values = values[:, :width]
    return tf.pad(values, [[0, 0], [0, width - tf.shape(values)[1]]])


def _ending_as(cut: Any, whole: Any, mask: Any) -> Any:
    """Rows that lost their end get its last token, the separator, as theirs."""
    import tensorflow as tf

    length = _length(mask)
    lost = length > tf.shape(cut, tf.int64)[1]
    last = tf.gather(whole, length - 1, batch_dims=1)
    ends = tf.where(lost, last, cut[:, -1])
    return tf.concat([cut[:, :-1], ends[:, None]], axis=1)
