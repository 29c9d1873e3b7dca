"""Masked language model pretraining straight from text: tokenized and masked while it is read."""

from __future__ import annotations

import dataclasses
from typing import Any

from provender.errors import SettingsError
from provender.nlp.config import DataConfig
from provender.nlp.loaders.base import (
    ConfiguredLoader,
    Range,
    check_file_type,
    check_lengths,
    masked_lm_spec,
    spec,
)
from provender.nlp.loaders.batching import (
    DecodedBatches,
    reading_whole_batches,
    rebatched,
    rows_of,
    with_seeds,
)
from provender.nlp.loaders.masking import Masking, mask_tokens
from provender.nlp.loaders.segments import WATERFALL, check_room, pack
from provender.nlp.loaders.sentence_pairs import next_sentences, sentences
from provender.nlp.loaders.vocabulary import CLS, MASK, SEP, WordPiece
from provender.nlp.registry import register_data_loader_cls

IS_NEXT, OFFLINE = "is_next", "offline"

_CHUNK = 256
"""Rows that are tokenized and masked together: of fewer, starting the many operations takes longer
than the work in them."""


@dataclasses.dataclass
class BertPretrainTextDataConfig(DataConfig):
    """What `BertPretrainTextDataLoader` reads, and how it is tokenized and masked.

    Attributes:
        doc_batch_size: documents, over all replicas, that random next sentences are drawn from.
        seq_length: tokens of a row.
        max_predictions_per_seq: mask slots of a row.
        use_next_sentence_label: pair sentences; otherwise a row is a whole document, or one
            segment for each text field.
        next_sentence_labels_format: ``is_next`` gives bool [B], True where the second sentence
            follows the first; ``offline`` gives what `create_pretraining_data` writes, int32
            [B, 1], 1 where it is a random one.
        text_field_names: features with the text. With next sentences: one, a sentence a line.
        vocab_file_path: WordPiece vocabulary, one piece a line.
        lower_case: lower-case and strip accents; True for uncased vocabularies.
        masking_rate: share of the tokens (or words) that are predicted.
        use_whole_word_masking: predict all pieces of a word or none.
        file_type: ``tfrecord`` or ``tfrecord_compressed`` (gzip).
    """

    input_path: str | list[str] | dict[str, str | list[str]] = ""
    doc_batch_size: int = 8
    global_batch_size: int = 512
    is_training: bool | None = True
    seq_length: int = 512
    max_predictions_per_seq: int = 76
    use_next_sentence_label: bool = True
    next_sentence_labels_format: str = IS_NEXT
    text_field_names: list[str] = dataclasses.field(default_factory=lambda: ["text"])
    vocab_file_path: str = ""
    lower_case: bool = False
    masking_rate: float = 0.15
    use_whole_word_masking: bool = False
    file_type: str = "tfrecord"


@register_data_loader_cls(BertPretrainTextDataConfig)
class BertPretrainTextDataLoader(ConfiguredLoader):
    """Batches with the outputs of the static loader, made of text.

    Raises:
        SettingsError: several text fields, or fewer than two documents a batch, with next
            sentences; no vocabulary; a length, rate or format that makes no sense.
    """

    def check(self) -> None:
        params = self._params
        check_file_type(params.file_type)
        check_lengths(params, ("seq_length", "max_predictions_per_seq", "doc_batch_size"))
        if not params.text_field_names:
            raise SettingsError(
                "There are no text_field_names.",
                where="text_field_names",
                hint="Name the features with the text.",
            )
        if params.next_sentence_labels_format not in (IS_NEXT, OFFLINE):
            raise SettingsError(
                f"next_sentence_labels_format is {params.next_sentence_labels_format!r}.",
                where="next_sentence_labels_format",
                hint=f"Use {IS_NEXT} or {OFFLINE}.",
            )
        if not params.vocab_file_path:
            raise SettingsError(
                "There is no vocab_file_path.",
                where="vocab_file_path",
                hint="Give the model's WordPiece vocabulary.",
            )
        if not 0 < params.masking_rate < 1:
            raise SettingsError(
                f"masking_rate is {params.masking_rate}.",
                where="masking_rate",
                hint="Use a share between 0 and 1, such as 0.15.",
            )
        if params.use_next_sentence_label:
            self._check_pairs(params.doc_batch_size)
            if len(params.text_field_names) > 1:
                raise SettingsError(
                    "Next sentences need one text field, and there are "
                    f"{', '.join(params.text_field_names)}.",
                    where="text_field_names",
                    hint="Set use_next_sentence_label: false, or name one field.",
                )
        check_room(params.seq_length, self._segments)

    def _check_pairs(self, documents: int) -> None:
        if documents < 2:
            raise SettingsError(
                f"A batch has {documents} document, so there is no other one to draw a random "
                "next sentence from.",
                where="doc_batch_size",
                hint="Use at least 2 documents a replica, or use_next_sentence_label: false.",
            )

    @property
    def _segments(self) -> int:
        params = self._params
        return 2 if params.use_next_sentence_label else len(params.text_field_names)

    def features(self) -> dict[str, Any]:
        """Name -> what a record holds."""
        import tensorflow as tf

        return {
            name: tf.io.FixedLenFeature([], tf.string) for name in self._params.text_field_names
        }

    def load(self, input_context: Any = None) -> Any:
        """Batches; see `DataLoader.load`."""
        params = self._params
        tokenizer = WordPiece(params.vocab_file_path, params.lower_case, (CLS, SEP, MASK))

        def batched(decoded: DecodedBatches, context: Any) -> Any:
            rows = rows_of(params, context)
            chunk = max(rows, _CHUNK)
            if params.use_next_sentence_label:
                data = self._paired(decoded, context).rebatch(chunk)
            else:
                data = decoded(chunk)
            masked = with_seeds(data, params.seed, context, self._masking(tokenizer))
            return rebatched(masked, rows, params)

        return reading_whole_batches(params, self.features(), batched).read(input_context)

    def _paired(self, decoded: DecodedBatches, context: Any) -> Any:
        """Pairs of sentences of one batch of documents after the other."""
        params = self._params
        replicas = context.num_replicas_in_sync if context is not None else 1
        documents = params.doc_batch_size // replicas
        self._check_pairs(documents)
        (name,) = params.text_field_names

        def pair(seed: Any, texts: Any) -> dict[str, Any]:
            made = next_sentences(sentences(texts[name]), seed)
            return {"first": made.first, "second": made.second, "is_next": made.is_next}

        return with_seeds(decoded(documents), params.seed, context, pair, stream=1)

    def _masking(self, tokenizer: WordPiece) -> Any:
        params = self._params
        masking = Masking(
            rate=params.masking_rate,
            max_predictions=params.max_predictions_per_seq,
            mask_id=tokenizer.id_of(MASK),
            never=tokenizer.specials,
            vocabulary_size=len(tokenizer.pieces),
            continuations=tokenizer.continuations if params.use_whole_word_masking else None,
        )
        names = ["first", "second"] if params.use_next_sentence_label else params.text_field_names

        def masked(seed: Any, texts: Any) -> dict[str, Any]:
            segments = [tokenizer.tokenize(texts[name]) for name in names]
            ids, mask, types = pack(segments, tokenizer, params.seq_length, WATERFALL)
            made = mask_tokens(ids, masking, seed)
            found = {
                "input_word_ids": made.ids,
                "input_mask": mask,
                "input_type_ids": types,
                "masked_lm_positions": made.positions,
                "masked_lm_ids": made.labels,
                "masked_lm_weights": made.weights,
            }
            if params.use_next_sentence_label:
                found["next_sentence_labels"] = self._labels(texts["is_next"])
            return found

        return masked

    def _labels(self, is_next: Any) -> Any:
        import tensorflow as tf

        if self._params.next_sentence_labels_format == IS_NEXT:
            return is_next
        return tf.cast(tf.logical_not(is_next), tf.int32)[:, tf.newaxis]

    def element_spec(self) -> dict[str, Any]:
        params = self._params
        found = masked_lm_spec(params.seq_length, params.max_predictions_per_seq)
        if params.use_next_sentence_label:
            plain = params.next_sentence_labels_format == IS_NEXT
            found["next_sentence_labels"] = spec("bool") if plain else spec("int32", 1)
        return found

    def value_ranges(self) -> dict[str, Range]:
        params = self._params
        return {
            "input_word_ids": (0, None),
            "input_mask": (0, 1),
            "input_type_ids": (0, self._segments - 1),
            "masked_lm_positions": (0, params.seq_length - 1),
            "masked_lm_ids": (0, None),
            "masked_lm_weights": (0, 1),
            "next_sentence_labels": (0, 1),
        }
