"""``nlp create-finetuning-data``: records of known tasks, and of any TFDS dataset."""

from __future__ import annotations

import time
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Any

import typer

from provender.cli.commands import command
from provender.cli.invocation import Invocation
from provender.cli.nlp.declaring import declared
from provender.cli.nlp.published import show_version
from provender.cli.units import bytes_text, counted, seconds_text
from provender.errors import SettingsError
from provender.nlp.finetuning.options import MNLI_TYPES, TASK_TYPES, TOKENIZATIONS, Options
from provender.nlp.finetuning.tasks import (
    CLASSIFICATION,
    PAWSX_LANGUAGES,
    RETRIEVAL,
    TAGGING,
    XNLI_LANGUAGES,
)

if TYPE_CHECKING:
    from provender.nlp.finetuning.running import Made

_HELP = {
    "fine_tuning_task_type": f"{', '.join(TASK_TYPES)}.",
    "input_data_dir": "Folder of the task's files; not for tasks that TFDS reads.",
    "classification_task_name": f"{', '.join(CLASSIFICATION)}.",
    "mnli_type": f"Evaluation data of MNLI: {' or '.join(MNLI_TYPES)}.",
    "xnli_language": "Language of XNLI's training data, or all.",
    "pawsx_language": "Language of PAWS-X's training data, or all.",
    "translated_input_data_dir": "XTREME's folder with translate-train and translate-test.",
    "retrieval_task_name": f"{' or '.join(RETRIEVAL)}.",
    "tagging_task_name": f"{' or '.join(TAGGING)}.",
    "tagging_only_use_en_train": "Tagging: train with English alone.",
    "squad_data_file": "SQuAD's JSON.",
    "translated_squad_data_folder": "Folder of more such files.",
    "doc_stride": "SQuAD: tokens from one window of a passage to the next.",
    "max_query_length": "SQuAD: most tokens of a question.",
    "version_2_with_negative": "SQuAD: there are questions without an answer.",
    "xlnet_format": "SQuAD: passage, question, [CLS] in XLNet's order.",
    "only_use_en_dev": "XTREME and tagging: evaluate with English alone.",
    "vocab_file": "WordPiece vocabulary, one token a line.",
    "train_data_output_path": "File for training.",
    "eval_data_output_path": "File for evaluation; a folder for retrieval.",
    "test_data_output_path": "File for tests, with {} for the language; a folder for retrieval.",
    "meta_data_file_path": "JSON that tells training what was made.",
    "do_lower_case": "Lower case text and remove its accents.",
    "max_seq_length": "Tokens of a record, padding included.",
    "sp_model_file": "SentencePiece model.",
    "tokenization": "WordPiece or SentencePiece.",
    "tfds_params": "Any TFDS dataset: dataset=NAME,text_key=FEATURE,label_key=FEATURE and so on.",
    "tfds_data_dir": "Where TFDS datasets lie; by default where TFDS keeps them.",
    "version_ref": "Read a published version, NAME:X.Y.Z, in place of the TFDS dataset.",
}
_KNOWN = {
    "fine_tuning_task_type": TASK_TYPES,
    "classification_task_name": tuple(CLASSIFICATION),
    "mnli_type": MNLI_TYPES,
    "xnli_language": (*XNLI_LANGUAGES, "all"),
    "pawsx_language": (*PAWSX_LANGUAGES, "all"),
    "retrieval_task_name": tuple(RETRIEVAL),
    "tagging_task_name": tuple(TAGGING),
    "tokenization": TOKENIZATIONS,
}


def register(group: typer.Typer) -> None:
    """Adds the command to its group."""
    command(
        group,
        "create-finetuning-data",
        "provender nlp create-finetuning-data --classification-task-name MNLI --vocab-file vocab.txt "
        "--train-data-output-path train.tfrecord --meta-data-file-path meta.json",
        "provender nlp create-finetuning-data --fine-tuning-task-type squad --squad-data-file "
        "train-v1.1.json --vocab-file vocab.txt --max-seq-length 384 --publish squad_tokens:1.0.0",
        options=declared(Options, _HELP, _KNOWN),
    )(create_finetuning_data)


def create_finetuning_data(
    call: Invocation,
    publish: Annotated[
        str,
        typer.Option(
            "--publish", metavar="NAME:X.Y.Z", help="Publish the records as this version."
        ),
    ] = "",
    splits: Annotated[
        str,
        typer.Option(
            "--splits",
            metavar="NAME,…",
            help="Splits of the published version: of train, eval and test; by default all there are.",
        ),
    ] = "",
    shards: Annotated[
        int | None,
        typer.Option(
            "--shards", min=1, help="Files of each published split; by default by its size."
        ),
    ] = None,
    workers: Annotated[
        int | None,
        typer.Option(
            "--workers",
            metavar="N",
            min=1,
            help="Processes; by default one a CPU, fewer for few examples.",
        ),
    ] = None,
    **options: Any,
) -> None:
    """Make fine-tuning data: classification, regression, SQuAD, retrieval, tagging.

    Files that stand already, made of the same sources with the same vocabulary and options, are left
    alone. Each file appears when it is finished, and is the same to the byte for any --workers. With
    --publish the records go into a version instead, stage by stage as any other.
    """
    from provender.cli.nlp.steps import steps

    call.resumes = True
    began = time.monotonic()
    if publish:
        from provender.nlp.finetuning.publishing import check_outputs
        from provender.nlp.finetuning.publishing import publish as run_publish

        check_outputs(options)
        asked = Options.of_records(**options)
        with steps(call) as tell:
            standing = run_publish(
                asked,
                publish,
                splits=_listed(splits),
                shards=shards,
                workers=workers or 1,
                settings=call.settings,
                tell=tell,
            )
        show_version(call, standing, time.monotonic() - began)
        return
    if splits or shards is not None:
        raise SettingsError(
            "--splits and --shards are of a published version.",
            where="--splits, --shards",
            hint="Give --publish NAME:X.Y.Z; files are named by --train-data-output-path and so on.",
        )
    from provender.nlp.finetuning.running import create

    with steps(call) as tell:
        made = create(Options(**options), workers=workers, settings=call.settings, tell=tell)
    _show(call, made, time.monotonic() - began)


def _listed(text: str) -> list[str] | None:
    """The names of a comma-separated list, or None for none."""
    return [each.strip() for each in text.split(",") if each.strip()] or None


def _show(call: Invocation, made: Made, seconds: float) -> None:
    if call.json:
        call.out.document({**asdict(made), "seconds": seconds})
        return
    for note, times in made.notes.items():
        call.out.aside(f"Left out: {times:,} ({note}).")
    for each in made.outputs:
        if call.quiet:
            call.out.line(each.path)
            continue
        stands = ", unchanged" if each.outcome == "unchanged" else ""
        call.out.line(
            f"{each.path}  {counted(each.records, 'example')}, {bytes_text(each.bytes)}{stands}"
        )
    call.out.line(made.metadata_path)
    if not call.quiet:
        total = sum(each.records for each in made.outputs)
        call.out.line(f"{counted(total, 'example')} in {seconds_text(seconds)}")
