"""``nlp create-xlnet-pretraining-data``: rows and segments for XLNet from plain text."""

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
from provender.nlp.xlnet_data.options import Options

if TYPE_CHECKING:
    from provender.nlp.xlnet_data.running import Made

_HELP = {
    "seq_length": "Tokens of a record.",
    "reuse_length": "Tokens that are seen again in memory; 0 for none.",
    "save_dir": "Folder of the files.",
    "sp_model_file": "SentencePiece model with <cls>, <sep> and <eod>.",
    "use_eod_token": "Put <eod> after each document.",
    "bi_data": "Half of the rows of a batch run backwards.",
    "do_lower_case": "Lower case text. Accents vanish in any case.",
    "per_host_batch_size": "Rows of a batch.",
    "num_cores_per_host": "Cores that share a batch.",
    "prefix": "Begins the files' names.",
    "suffix": "Ends the files' names.",
    "task_id": "Number of this task, of --num-tasks that share the input files.",
    "num_tasks": "Tasks.",
    "num_passes": "Passes over the text, a file each.",
    "random_seed": "Seed of all choices.",
}


def register(group: typer.Typer) -> None:
    """Adds the command to its group."""
    command(
        group,
        "create-xlnet-pretraining-data",
        "provender nlp create-xlnet-pretraining-data --input-file 'text/*.txt' --save-dir data "
        "--sp-model-file spiece.model",
        "provender nlp create-xlnet-pretraining-data --input-file 'text/*.txt' "
        "--publish books_xlnet:1.0.0 --sp-model-file spiece.model",
        options=declared(Options, _HELP),
    )(create_xlnet_pretraining_data)


def create_xlnet_pretraining_data(
    call: Invocation,
    input_file: Annotated[
        str, typer.Option("--input-file", help="Text files and globs, comma-separated.")
    ],
    publish: Annotated[
        str,
        typer.Option(
            "--publish", metavar="NAME:X.Y.Z", help="Publish the records as this version."
        ),
    ] = "",
    shards: Annotated[
        int | None,
        typer.Option(
            "--shards", min=1, help="Files of the published version; by default by its size."
        ),
    ] = None,
    workers: Annotated[
        int | None,
        typer.Option(
            "--workers",
            metavar="N",
            min=1,
            help="Processes that tokenize; by default one a CPU, fewer for little text.",
        ),
    ] = None,
    **options: Any,
) -> None:
    """Make XLNet pretraining data of text: a sentence a line, a blank line between documents.

    The same text, model and options give the same bytes. Files that stand already are left alone.
    """
    from provender.cli.nlp.steps import steps
    from provender.errors import SettingsError
    from provender.nlp.xlnet_data.running import create, usual_workers

    call.resumes = True
    began = time.monotonic()
    if publish:
        from provender.nlp.xlnet_data.publishing import publish as run_publish

        if options["save_dir"]:
            raise SettingsError(
                "Say where the records go: --save-dir or --publish.",
                where="--save-dir, --publish",
            )
        asked = Options(**{**options, "save_dir": "."})
        with steps(call) as tell:
            standing = run_publish(
                input_file,
                publish,
                asked,
                shards=shards,
                workers=workers or usual_workers(input_file),
                settings=call.settings,
                tell=tell,
            )
        show_version(call, standing, time.monotonic() - began)
        return
    if shards is not None:
        raise SettingsError("--shards is of a published version.", where="--shards")
    asked = Options(**options)
    with steps(call) as tell:
        made = create(input_file, asked, workers=workers, tell=tell)
    _show(call, made, time.monotonic() - began)


def _show(call: Invocation, made: Made, seconds: float) -> None:
    if call.json:
        call.out.document({**asdict(made), "seconds": seconds})
        return
    for each in made.outputs:
        if call.quiet:
            call.out.line(each.path)
            continue
        stands = ", unchanged" if each.outcome == "unchanged" else ""
        call.out.line(
            f"{each.path}  {counted(each.records, 'example')}, {bytes_text(each.bytes)}{stands}"
        )
    if made.info_path:
        call.out.line(made.info_path)
    if not call.quiet:
        total = sum(each.records for each in made.outputs)
        text = counted(len(made.sources), "file")
        call.out.line(f"{counted(total, 'example')} from {text} in {seconds_text(seconds)}")
