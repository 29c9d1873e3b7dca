"""``nlp train-vocab``: a vocabulary made of text."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from provender.cli.commands import command
from provender.cli.invocation import Invocation
from provender.cli.nlp.declaring import offering


def register(group: typer.Typer) -> None:
    """Adds the command to its group."""
    command(
        group,
        "train-vocab",
        "provender nlp train-vocab --input-file 'text/*.txt' --output-file vocab.txt",
        "provender nlp train-vocab --input-file 'text/*.txt' --output-file text.model "
        "--tokenization SentencePiece --size 32000",
    )(train_vocab)


def train_vocab(
    call: Invocation,
    input_file: Annotated[
        str, typer.Option("--input-file", help="Text files and globs, comma-separated.")
    ],
    output_file: Annotated[
        str, typer.Option("--output-file", help="The vocabulary, or the model, to write.")
    ],
    tokenization: Annotated[
        str,
        typer.Option(
            "--tokenization",
            help="WordPiece or SentencePiece.",
            autocompletion=offering(("WordPiece", "SentencePiece")),
        ),
    ] = "WordPiece",
    size: Annotated[
        int, typer.Option("--size", min=1, help="Tokens, special ones included.")
    ] = 30522,
    do_lower_case: Annotated[
        bool,
        typer.Option(
            "--do-lower-case/--no-do-lower-case", help="Lower case text and remove its accents."
        ),
    ] = True,
    min_frequency: Annotated[
        int, typer.Option("--min-frequency", min=1, help="WordPiece: how often a piece must occur.")
    ] = 2,
    unused: Annotated[
        int, typer.Option("--unused", min=0, help="WordPiece: reserved tokens [unused0] and so on.")
    ] = 0,
    model: Annotated[
        str,
        typer.Option(
            "--model",
            help="SentencePiece: unigram or bpe.",
            autocompletion=offering(("unigram", "bpe")),
        ),
    ] = "unigram",
    max_lines: Annotated[
        int,
        typer.Option(
            "--max-lines", min=1, help="SentencePiece: learn from so many lines, the first ones."
        ),
    ] = 5_000_000,
) -> None:
    """Make a WordPiece vocabulary or a SentencePiece model of text, with BERT's special tokens.

    The same text and options give the same file.
    """
    from provender.errors import SettingsError
    from provender.nlp.pretraining.files import matched, targets_of
    from provender.nlp.text.training import train_sentencepiece, train_wordpiece

    sources = matched(input_file)
    (target, *more) = targets_of(output_file, sources)
    if more:
        raise SettingsError("A vocabulary is one file.", where="--output-file")
    paths = [Path(each.path) for each in sources]
    if tokenization == "WordPiece":
        made = train_wordpiece(
            paths,
            target,
            size=size,
            lower=do_lower_case,
            min_frequency=min_frequency,
            unused=unused,
        )
    elif tokenization == "SentencePiece":
        made = train_sentencepiece(
            paths, target, size=size, lower=do_lower_case, model=model, max_lines=max_lines
        )
    else:
        raise SettingsError(
            f"--tokenization must be WordPiece or SentencePiece, got {tokenization!r}.",
            where="--tokenization",
        )
    if call.json:
        call.out.document(asdict(made))
        return
    for each in made.outputs:
        call.out.line(each)
    call.out.remark(f"{made.size:,} tokens")
