"""``nlp inspect``: what pretraining files hold, as text and in figures."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from provender.cli.commands import command
from provender.cli.histograms import levels
from provender.cli.invocation import Invocation
from provender.cli.units import counted as amount

if TYPE_CHECKING:
    from provender.nlp.pretraining.examples import Statistics
    from provender.nlp.text.vocabulary import Vocabulary


def register(group: typer.Typer) -> None:
    """Adds the command to its group."""
    command(
        group,
        "inspect",
        "provender nlp inspect data/train.tfrecord --vocab-file vocab.txt",
        "provender nlp inspect 'data/*.tfrecord' --plot lengths.svg --json",
    )(inspect)


def inspect(
    call: Invocation,
    files: Annotated[
        list[str],
        typer.Argument(metavar="FILE...", help="TFRecord files and globs, compressed or not."),
    ],
    vocab_file: Annotated[
        str, typer.Option("--vocab-file", help="WordPiece vocabulary, to show text.")
    ] = "",
    sp_model_file: Annotated[
        str, typer.Option("--sp-model-file", help="SentencePiece model, to show text.")
    ] = "",
    count: Annotated[int, typer.Option("--examples", "-n", min=0, help="Examples to show.")] = 3,
    limit: Annotated[
        int, typer.Option("--limit", min=0, help="Count so many examples; 0: all.")
    ] = 10_000,
    plot: Annotated[
        str, typer.Option("--plot", metavar="FILE", help="Draw lengths and shares: .svg or .png.")
    ] = "",
) -> None:
    """Show examples as text, masked tokens as [there=original], and what the files hold.

    Whether a masked token was kept or replaced by itself at random cannot be told; it counts as
    kept.
    """
    from provender.nlp.pretraining.drawing import check_name, draw
    from provender.nlp.pretraining.examples import counted, text_of
    from provender.nlp.pretraining.files import matched

    if plot:
        check_name(Path(plot))
    vocabulary = _vocabulary(vocab_file, sp_model_file)
    paths = [Path(each.path) for each in matched(files)]
    mask = vocabulary.special("[MASK]")[0] if vocabulary else None
    found, head = counted(paths, limit or None, mask)
    tokens = vocabulary.tokens if vocabulary else None
    shown = [text_of(each, tokens, pieces=bool(sp_model_file)) for each in head[:count]]
    figures = found.to_json()
    if plot:
        title = paths[0].name if len(paths) == 1 else f"{len(paths)} files"
        draw(f"{title}, {amount(found.records, 'example')}", figures, found.real, Path(plot))
    if call.json:
        lengths = {str(each): found.real[each] for each in sorted(found.real)}
        call.out.document({**figures, "lengths": lengths, "examples": shown})
        return
    for example, text in zip(head, shown, strict=False):
        call.out.line(text)
        if example.next_sentence is not None:
            call.out.remark("random next sentence" if example.next_sentence else "next sentence")
        call.out.line()
    call.out.pairs(_pairs(found, figures))


def _vocabulary(vocab_file: str, sp_model_file: str) -> Vocabulary | None:
    from provender.errors import SettingsError
    from provender.nlp.text import make_tokenizer, read_vocabulary

    if vocab_file and sp_model_file:
        raise SettingsError(
            "Give --vocab-file or --sp-model-file, not both.", where="--vocab-file, --sp-model-file"
        )
    if sp_model_file:
        return make_tokenizer("SentencePiece", sp_model_file=sp_model_file).vocabulary
    return read_vocabulary(vocab_file) if vocab_file else None


def _pairs(found: Statistics, figures: dict[str, Any]) -> list[tuple[str, str]]:
    from provender.nlp.pretraining.drawing import bins

    lengths = ", ".join(f"{each:,}" for each in figures["seq_lengths"])
    spread = levels(bins(found.real, max(figures["seq_lengths"], default=1)))
    return [
        ("examples", f"{found.records:,}"),
        ("length", f"{lengths} tokens, {_percent(figures['padding'])} padding"),
        ("real tokens", f"{_number(figures['mean_length'])} on average  {spread}"),
        ("segments", f"{_number(figures['mean_first'])} and {_number(figures['mean_second'])}"),
        ("full", _percent(figures["full"])),
        (
            "masked",
            f"{_number(figures['mean_predictions'])} tokens, {_percent(figures['masking_rate'])}",
        ),
        (
            "masked by",
            f"[MASK] {_percent(figures['mask_share'])}, kept {_percent(figures['keep_share'])}, "
            f"random {_percent(figures['random_share'])}",
        ),
        ("random next", _percent(figures["random_next"])),
    ]


def _percent(share: float | None) -> str:
    return "-" if share is None else f"{100 * share:.2f} %"


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:.1f}"
