"""Translation data to evaluate on: numbered pairs, in full batches.

A metric such as BLEU compares whole texts, in any order, each once. So the pairs of an evaluation
are written once, with a ``unique_id`` each that predictions come back with; behind the last one
empty pairs complete the last batch where batches have one shape.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from provender.errors import InputError, SettingsError
from provender.records.atomic import AtomicFile, told_as_ours
from provender.records.protobuf import bytes_feature, example, int64_feature, varint
from provender.records.tfrecord import frame

EVAL_FILE = "eval.tf_record"


@dataclass(frozen=True)
class TranslationRecords:
    """What `write_translation_eval_records` wrote.

    Attributes:
        path: the file.
        pairs: records with a pair each; their unique_ids are 0 and on, in the order of the source.
        padding: empty records after them that complete the last batch.
    """

    path: str
    pairs: int
    padding: int


def write_translation_eval_records(params: Any, target: str | Path) -> TranslationRecords:
    """Writes all pairs of an evaluation with a unique_id, in full batches.

    Args:
        params: a `WMTDataConfig`; its source is read as it is, without tokens.
        target: the file to write; appears whole or not at all.

    Raises:
        SettingsError: a static batch has no size; or see the loader.
        InputError: there are no pairs.
        StoreError: the target cannot be written.
    """
    rows = params.global_batch_size if params.static_batch else 1
    if rows < 1:
        raise SettingsError(
            f"global_batch_size is {rows}, so batches cannot be filled.",
            where="global_batch_size",
            hint="Set the number of pairs of a step, over all replicas.",
        )
    path = Path(target)
    languages = (params.src_lang, params.tgt_lang)
    with told_as_ours(path.parent):
        path.parent.mkdir(parents=True, exist_ok=True)
    pairs = 0
    with AtomicFile(path) as file:
        for pair in _pairs(params):
            file.write(_framed(dict(zip(languages, pair, strict=True)), pairs))
            pairs += 1
        if not pairs:
            raise InputError("There are no pairs to evaluate on.", where=_source(params))
        padding = -pairs % rows
        for i in range(padding):
            file.write(_framed(dict.fromkeys(languages, b""), pairs + i))
    return TranslationRecords(str(path), pairs, padding)


def prepare_translation_eval(params: Any, logging_dir: str | None = None) -> Any:
    """A translation configuration for evaluation whose pairs were numbered and written.

    Args:
        params: a `WMTDataConfig`.
        logging_dir: where the records go; None leaves the configuration alone.

    Returns:
        The configuration with the records as its only source, which leaves none of them out; the
        same one in training, without a folder, and where records have a unique_id already.

    Raises:
        ProvenderError: see `write_translation_eval_records`.
    """
    if params.is_training or not logging_dir or params.has_unique_id:
        return params
    made = write_translation_eval_records(params, Path(logging_dir) / EVAL_FILE)
    return params.replace(
        input_path=made.path,
        tfds_name="",
        version="",
        tfds_split="",
        weights=None,
        has_unique_id=True,
        drop_remainder=False,
    )


def _pairs(params: Any) -> Iterator[tuple[bytes, bytes]]:
    """All pairs, as text, always in the same order."""
    from provender.nlp.registry import get_data_loader

    text = params.replace(transform_and_batch=False, deterministic=True)
    for each in get_data_loader(text).load().as_numpy_iterator():
        yield each[params.src_lang], each[params.tgt_lang]


def _framed(pair: dict[str, bytes], unique: int) -> bytes:
    features = {name: bytes_feature([text]) for name, text in pair.items()}
    number = int64_feature(varint(unique))
    return b"".join(frame([example({**features, "unique_id": number})]))


def _source(params: Any) -> str:
    return str(params.input_path or params.tfds_name or params.version)
