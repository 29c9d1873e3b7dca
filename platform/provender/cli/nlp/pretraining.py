"""``nlp create-pretraining-data``: masked tokens and next-sentence pairs from plain text."""

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
from provender.nlp.pretraining.options import (
    FORMATS,
    INVALID_UTF8,
    RANDOM_TOKENS,
    SINGLE_DOCUMENT,
    TOKENIZATIONS,
    Options,
)

if TYPE_CHECKING:
    from provender.nlp.pretraining.running import Made

_HELP = {
    "tokenization": "WordPiece or SentencePiece.",
    "vocab_file": "WordPiece vocabulary, one token a line.",
    "sp_model_file": "SentencePiece model.",
    "do_lower_case": "Lower case text and remove its accents.",
    "do_whole_word_mask": "Mask all tokens of a word or none.",
    "max_ngram_size": "Mask up to so many words in a row; needs --do-whole-word-mask.",
    "gzip_compress": "Compress the files.",
    "use_v2_feature_names": "input_word_ids and input_type_ids for input_ids and segment_ids.",
    "max_seq_length": "Tokens of an example, padding included.",
    "max_predictions_per_seq": "Masked tokens of an example, padding included.",
    "random_seed": "Seed of all choices.",
    "dupe_factor": "Passes over the text, each with other choices.",
    "masked_lm_prob": "Share of tokens to predict.",
    "short_seq_prob": "Probability that a document gets shorter examples in a pass.",
    "random_tokens": "What may replace a masked token at random: ordinary tokens, or all.",
    "invalid_utf8": "Bytes that are no UTF-8: error, or drop them.",
    "single_document": "One document has no random next sentences: continue without, or stop.",
    "format": f"Format of the files: {', '.join(FORMATS)}.",
}
_KNOWN = {
    "tokenization": TOKENIZATIONS,
    "random_tokens": RANDOM_TOKENS,
    "invalid_utf8": INVALID_UTF8,
    "single_document": SINGLE_DOCUMENT,
    "format": FORMATS,
}


def register(group: typer.Typer) -> None:
    """Adds the command to its group."""
    command(
        group,
        "create-pretraining-data",
        "provender nlp create-pretraining-data --input-file 'text/*.txt' "
        "--output-file data/train.tfrecord --vocab-file vocab.txt",
        "provender nlp create-pretraining-data --input-file 'text/*.txt' "
        "--publish books:1.0.0 --vocab-file vocab.txt",
        options=declared(Options, _HELP, _KNOWN),
    )(create_pretraining_data)


def create_pretraining_data(
    call: Invocation,
    input_file: Annotated[
        str, typer.Option("--input-file", help="Text files and globs, comma-separated.")
    ],
    output_file: Annotated[
        str,
        typer.Option(
            "--output-file", help="Files to write, comma-separated; examples are dealt in turn."
        ),
    ] = "",
    publish: Annotated[
        str,
        typer.Option(
            "--publish", metavar="NAME:X.Y.Z", help="Publish the examples as this version."
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
            help="Processes; by default one a CPU, fewer for little text.",
        ),
    ] = None,
    **options: Any,
) -> None:
    """Make BERT pretraining data of text: a sentence a line, a blank line between documents.

    Interrupted or killed at any moment, the same command goes on from the finished pieces, and the
    files are the same to the byte. They appear when all are finished.
    """
    from provender.cli.nlp.steps import steps
    from provender.errors import SettingsError
    from provender.nlp.pretraining.running import create, usual_workers

    call.resumes = True
    asked = Options(**options)
    if bool(output_file) == bool(publish):
        raise SettingsError(
            "Say where the examples go: --output-file or --publish.",
            where="--output-file, --publish",
        )
    count = workers or usual_workers(input_file, asked)
    began = time.monotonic()
    if publish:
        from provender.nlp.pretraining.publishing import publish as run_publish

        with steps(call) as tell:
            standing = run_publish(
                input_file,
                publish,
                asked,
                shards=shards,
                workers=count,
                settings=call.settings,
                tell=tell,
            )
        show_version(call, standing, time.monotonic() - began)
        return
    if shards is not None:
        raise SettingsError(
            "--shards is of a published version.",
            where="--shards",
            hint="Name several files: --output-file a.tfrecord,b.tfrecord.",
        )
    with steps(call) as tell:
        made = create(input_file, output_file, asked, workers=count, tell=tell)
    _show_files(call, made, time.monotonic() - began)


def _show_files(call: Invocation, made: Made, seconds: float) -> None:
    if call.json:
        doc = {**asdict(made), "has_next_sentences": made.has_next_sentences, "seconds": seconds}
        call.out.document(doc)
        return
    _warn(call, made.has_next_sentences)
    if call.quiet:
        for each in made.outputs:
            call.out.line(each)
        return
    for output, records, size in zip(made.outputs, made.records, made.bytes, strict=True):
        call.out.line(f"{output}  {counted(records, 'example')}, {bytes_text(size)}")
    call.out.line(
        f"{counted(sum(made.records), 'example')} from {counted(made.documents, 'document')}, "
        f"{counted(made.sentences, 'sentence')}, {counted(made.tokens, 'token')} "
        f"in {seconds_text(seconds)}"
    )


def _warn(call: Invocation, has_next_sentences: bool) -> None:
    if not has_next_sentences:
        call.out.aside(
            "The text is one document: no next sentence is random, and all "
            "next_sentence_labels are 0. Blank lines part documents."
        )
