"""Records that a model answers questions from, and the way from its answers back to text.

The records of an evaluation come in full batches: after the last window, its record is repeated under
unique_ids that no window has, as many times as the last batch lacks records.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from provender.errors import InputError, SettingsError
from provender.nlp.finetuning.encoding import Features, ints
from provender.nlp.finetuning.options import Options
from provender.nlp.finetuning.outputs import FIRST_UNIQUE
from provender.nlp.finetuning.squad import paragraphs, squad_files
from provender.nlp.finetuning.windows import QuestionEncoder, Window
from provender.records.atomic import AtomicFile, told_as_ours
from provender.records.protobuf import example
from provender.records.tfrecord import frame

EVAL_FILE = "eval.tf_record"


@dataclass(frozen=True)
class EvalRecords:
    """What `write_squad_eval_records` wrote.

    Attributes:
        path: the file.
        windows: records with a window each; their unique_ids are 1,000,000,000 and on.
        padding: records after them that complete the last batch.
        questions: that were asked.
    """

    path: str
    windows: int
    padding: int
    questions: int


def padding_of(windows: int, batch_size: int) -> int:
    """Records that the last batch lacks: 0 where it is full."""
    return -windows % batch_size


def eval_windows(squad_file: str, options: Options) -> Iterator[tuple[int, Window]]:
    """The windows in the order of their records.

    Predictions lead back to text through them: `Window.text` and `Window.has_most_context`.

    Args:
        squad_file: SQuAD's JSON; answers are not read.
        options: as the records were made.

    Yields:
        unique_id and window.

    Raises:
        MissingFiles, InputError: the file is not there, or is no SQuAD JSON.
    """
    encoder = QuestionEncoder(options, answered=False)
    encoder.check()
    unique = FIRST_UNIQUE
    for file in squad_files(squad_file, None):
        for each in paragraphs(file, answered=False):
            for window, _ in encoder.windows(each, Counter()):
                yield unique, window
                unique += 1


def write_squad_eval_records(
    squad_file: str, target: str | Path, options: Options, *, batch_size: int = 1
) -> EvalRecords:
    """Writes the records of all windows of all questions, in full batches.

    Args:
        squad_file: SQuAD's JSON; answers are not read.
        target: the file to write; appears whole or not at all.
        options: vocabulary, lengths and format.
        batch_size: records of a batch over all replicas.

    Raises:
        SettingsError: the batch size makes no sense.
        MissingFiles, InputError: the file is not there, is no SQuAD JSON, or has no questions.
        StoreError: the target cannot be written.
    """
    if batch_size < 1:
        raise SettingsError(f"A batch of {batch_size} records.", where="global_batch_size")
    path = Path(target)
    encoder = QuestionEncoder(options, answered=False)
    questions = windows = 0
    last: Features = {}
    with told_as_ours(path.parent):
        path.parent.mkdir(parents=True, exist_ok=True)
    with AtomicFile(path) as file:
        for unique, window in eval_windows(squad_file, options):
            last = encoder.record(window)
            file.write(_framed(last, unique))
            questions += window.number == 0
            windows += 1
        if not windows:
            raise InputError(f"{Path(squad_file).name} has no questions.", where=squad_file)
        padding = padding_of(windows, batch_size)
        for i in range(padding):
            file.write(_framed(last, FIRST_UNIQUE + windows + i))
    return EvalRecords(str(path), windows, padding, questions)


def _framed(features: Features, unique: int) -> bytes:
    return b"".join(frame([example({**features, "unique_ids": ints([unique])})]))


def prepare_eval(params: Any, logging_dir: str | None = None) -> Any:
    """A QA configuration for evaluation whose raw JSON was made into records.

    Args:
        params: a `QADataConfig`; where its input_path ends in ``.json``, that is SQuAD's file.
        logging_dir: where the records go if ``params.input_preprocessed_data_path`` is not set.

    Returns:
        The configuration with the records as input_path; the same one where there is no JSON.

    Raises:
        SettingsError: neither folder is given.
        ProvenderError: see `write_squad_eval_records`.
    """
    source = str(params.input_path)
    if params.is_training or not source.endswith(".json"):
        return params
    folder = params.input_preprocessed_data_path or logging_dir
    if not folder:
        raise SettingsError(
            "There is no folder for the records of the evaluation.",
            where="input_preprocessed_data_path",
            hint="Set input_preprocessed_data_path, or give logging_dir.",
        )
    target = Path(folder) / EVAL_FILE
    write_squad_eval_records(
        source, target, eval_options(params), batch_size=params.global_batch_size
    )
    return params.replace(input_path=str(target))


def eval_options(params: Any) -> Options:
    """How a `QADataConfig` wants its records made."""
    wordly = params.tokenization == "WordPiece"
    return Options(
        fine_tuning_task_type="squad",
        squad_data_file=str(params.input_path),
        train_data_output_path=EVAL_FILE,
        meta_data_file_path=EVAL_FILE,
        vocab_file=params.vocab_file if wordly else None,
        sp_model_file="" if wordly else params.vocab_file,
        tokenization=params.tokenization,
        do_lower_case=params.do_lower_case,
        max_seq_length=params.seq_length,
        max_query_length=params.query_length,
        doc_stride=params.doc_stride,
        version_2_with_negative=params.version_2_with_negative,
        xlnet_format=params.xlnet_format,
    )
