"""The BERT pretraining loader with batches as long as their bucket."""

from __future__ import annotations

import dataclasses
from typing import Any, Literal

from provender import errors
from provender.nlp.config import DataConfig
from provender.nlp.dynamic.buckets import (
    Bucket,
    plan_buckets,
    scaled_mask_slots,
    window_batches,
)
from provender.nlp.loaders.base import ConfiguredLoader, Range, masked_lm_spec, spec
from provender.nlp.registry import register_data_loader_cls

# Large enough that the work on a chunk outweighs running a function for it, small enough that the
# first batch does not wait for long.
_CHUNK = 512


@dataclasses.dataclass
class BertPretrainDynamicDataConfig(DataConfig):
    """BERT pretraining records, in batches of several lengths.

    Attributes:
        use_next_sentence_label: whether records hold next_sentence_labels.
        use_position_id: whether position_ids are read.
        use_v2_feature_names: records name input_word_ids and input_type_ids; otherwise input_ids
            and segment_ids.
        seq_bucket_lengths: lengths of batches in tokens, ascending.
        seq_bucket_window_scale: how many times wider windows are behind a data service that does
            not serve in rounds.
        seq_bucket_overlong: what happens to an example longer than the last bucket: ``error``, or
            ``truncate``: it is cut, the masks in the part that is cut off are dropped, and its
            last token becomes the last of what is kept.
        seq_bucket_token_budget: tokens of a global batch, padding counted. Each bucket then has as
            many rows as fit, and ``global_batch_size`` is not looked at.
        seq_bucket_mask_slots: mask slots of each bucket; empty keeps those of the records.
        scale_mask_slots: give each bucket as many mask slots as its longest rows can fill, by
            ``masked_lm_prob`` and ``max_predictions_per_seq``.
        masked_lm_prob: share of tokens that was masked when the records were made.
        max_predictions_per_seq: mask slots at most, as when the records were made.
        enable_round_robin_tf_data_service: the service serves replicas in rounds, so that all of
            them get batches of one length in every step.
    """

    global_batch_size: int = 512
    is_training: bool | None = True
    use_next_sentence_label: bool = True
    use_position_id: bool = False
    use_v2_feature_names: bool = False
    seq_bucket_lengths: tuple[int, ...] = (128, 256, 384, 512)
    seq_bucket_window_scale: int = 8
    seq_bucket_overlong: Literal["error", "truncate"] = "error"
    seq_bucket_token_budget: int | None = None
    seq_bucket_mask_slots: tuple[int, ...] = ()
    scale_mask_slots: bool = False
    masked_lm_prob: float = 0.15
    max_predictions_per_seq: int = 76
    deterministic: bool | None = False
    tf_data_service_job_name: str | None = "bert_pretrain"
    enable_round_robin_tf_data_service: bool = False


@register_data_loader_cls(BertPretrainDynamicDataConfig)
class BertPretrainDynamicDataLoader(ConfiguredLoader):
    """Gives batches of the bucket that their examples fit; see `BertPretrainDynamicDataConfig`.

    Args:
        params: the configuration.

    Raises:
        SettingsError: the buckets, budgets or slots contradict each other (a ValueError, too).
    """

    def check(self) -> None:
        params = self._params
        # Whatever does not depend on the number of replicas is refused at once.
        plan_buckets(params.seq_bucket_lengths, rows=1, mask_slots=_mask_slots(params))
        window_batches(1, scale=params.seq_bucket_window_scale, shared=False, round_robin=False)

    def buckets(self, input_context: Any = None) -> tuple[Bucket, ...]:
        """The buckets of one replica.

        Raises:
            SettingsError: the batch size or budget gives a replica no row.
        """
        from provender.nlp.reader.sharing import batch_rows

        params = self._params
        budget = params.seq_bucket_token_budget
        replicas = input_context.num_replicas_in_sync if input_context is not None else 1
        return plan_buckets(
            params.seq_bucket_lengths,
            rows=batch_rows(params.global_batch_size, input_context) if budget is None else 0,
            tokens=None if budget is None else budget // replicas,
            mask_slots=_mask_slots(params),
        )

    def load(self, input_context: Any = None) -> Any:
        """Batches of one replica each; the batches of one step have one length.

        Returns:
            `tf.data.Dataset` of dicts, as `element_spec` says.
        """
        from provender.nlp.reader import InputReader

        params = self._params
        if params.global_shuffle:
            # False is this configuration's default, not a wish: an exact order is one in any case.
            params = params.replace(deterministic=None)
        return InputReader(params, transform_and_batch_fn=self._grouped).read(input_context)

    def element_spec(self) -> dict[str, Any]:
        """Token and mask features [rows, None], next_sentence_labels [rows, 1]."""
        found = masked_lm_spec(None, None)
        if self._params.use_position_id:
            found["position_ids"] = spec("int32", None)
        if self._params.use_next_sentence_label:
            found["next_sentence_labels"] = spec("int32", 1)
        return found

    def value_ranges(self) -> dict[str, Range]:
        """Limits of the values, as for the static loader."""
        return {
            "input_word_ids": (0, None),
            "input_mask": (0, 1),
            "input_type_ids": (0, None),
            "masked_lm_positions": (0, self._params.seq_bucket_lengths[-1] - 1),
            "masked_lm_ids": (0, None),
            "masked_lm_weights": (0, 1),
            "next_sentence_labels": (0, 1),
        }

    def _grouped(self, dataset: Any, input_context: Any) -> Any:
        import tensorflow as tf

        from provender.nlp.dynamic.grouping import Windows, grouped
        from provender.nlp.dynamic.records import PretrainRecords

        params = self._params
        _check_serialized(dataset.element_spec)
        buckets = self.buckets(input_context)
        replicas = input_context.num_replicas_in_sync if input_context is not None else 1
        records = PretrainRecords(
            buckets,
            _token_names(params),
            params.use_next_sentence_label,
            params.seq_bucket_overlong == "truncate",
            str(params.input_path or params.version or params.tfds_name),
            _files(params),
        )
        windows = Windows(
            buckets,
            window_batches(
                replicas,
                scale=params.seq_bucket_window_scale,
                shared=params.enable_tf_data_service,
                round_robin=params.enable_round_robin_tf_data_service,
            ),
            replicas,
            params.drop_remainder,
            needs_some=params.drop_remainder and not params.is_training,
        )
        rows = {each.rows for each in buckets}
        fixed = rows.pop() if len(rows) == 1 and params.drop_remainder else None

        # Nothing in these is for AutoGraph to rewrite, and looking for it takes a second.
        plain = tf.autograph.experimental.do_not_convert

        @plain
        def with_bucket(serialized: Any) -> Any:
            return serialized, records.bucket_of(serialized)

        @plain
        def batch(serialized: Any, bucket: Any) -> Any:
            return records.batch(tf.ensure_shape(serialized, [fixed]), bucket)

        chunks = dataset.batch(_CHUNK).map(with_bucket, num_parallel_calls=tf.data.AUTOTUNE)
        # Always in order, whatever `deterministic` says: neighbours are the batches of one step.
        return grouped(chunks, windows).map(
            batch, num_parallel_calls=tf.data.AUTOTUNE, deterministic=True
        )


def _token_names(params: BertPretrainDynamicDataConfig) -> dict[str, str]:
    """Token features: the name in a record by the name in a batch."""
    v2 = params.use_v2_feature_names
    names = {
        "input_word_ids": "input_word_ids" if v2 else "input_ids",
        "input_mask": "input_mask",
        "input_type_ids": "input_type_ids" if v2 else "segment_ids",
    }
    return names | ({"position_ids": "position_ids"} if params.use_position_id else {})


def _files(params: BertPretrainDynamicDataConfig) -> tuple[str, ...]:
    """The files of an input path that TensorFlow can open."""
    from provender.nlp.paths import match_files
    from provender.nlp.reader.streaming import opens_natively

    if not params.input_path:
        return ()
    found = match_files(params.input_path)
    names = found if isinstance(found, list) else [each for some in found.values() for each in some]
    return tuple(each for each in names if opens_natively(each))


def _mask_slots(params: BertPretrainDynamicDataConfig) -> tuple[int, ...]:
    if not params.scale_mask_slots:
        return params.seq_bucket_mask_slots
    if params.seq_bucket_mask_slots:
        raise errors.SettingsError(
            "Both seq_bucket_mask_slots and scale_mask_slots are set.",
            hint="Give the numbers, or have them computed.",
        )
    return scaled_mask_slots(
        params.seq_bucket_lengths,
        rate=params.masked_lm_prob,
        most=params.max_predictions_per_seq,
    )


def _check_serialized(spec: Any) -> None:
    import tensorflow as tf

    if getattr(spec, "dtype", None) != tf.string:
        raise errors.SettingsError(
            "Dynamic length needs serialized tf.Example records, but the source gives decoded "
            f"examples: {spec}.",
            hint="Read them with input_path or version.",
        )
