"""``nlp inspect``: what pretraining and fine-tuning files hold, as text and in figures."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from provender.cli.commands import command
from provender.cli.histograms import figure, levels
from provender.cli.invocation import Invocation
from provender.cli.units import counted as amount

if TYPE_CHECKING:
    from provender.nlp.inspecting import Found
    from provender.nlp.text.vocabulary import Vocabulary


def register(group: typer.Typer) -> None:
    """Adds the command to its group."""
    command(
        group,
        "inspect",
        "provender nlp inspect data/train.tfrecord --vocab-file vocab.txt",
        "provender nlp inspect 'data/*.tfrecord' --plot lengths.svg --json",
        "provender nlp inspect books:1.0.0 --split train --vocab-file vocab.txt",
    )(inspect)


def inspect(
    call: Invocation,
    files: Annotated[
        list[str],
        typer.Argument(
            metavar="FILE|REF...",
            help="TFRecord files and globs, compressed or not; or versions: NAME:X.Y.Z.",
        ),
    ],
    vocab_file: Annotated[
        str, typer.Option("--vocab-file", help="WordPiece vocabulary, to show text.")
    ] = "",
    sp_model_file: Annotated[
        str, typer.Option("--sp-model-file", help="SentencePiece model, to show text.")
    ] = "",
    split: Annotated[
        str | None, typer.Option("--split", metavar="NAME", help="Of versions; by default all.")
    ] = None,
    count: Annotated[int, typer.Option("--examples", "-n", min=0, help="Examples to show.")] = 3,
    limit: Annotated[
        int, typer.Option("--limit", min=0, help="Count so many examples; 0: all.")
    ] = 10_000,
    plot: Annotated[
        str, typer.Option("--plot", metavar="FILE", help="Draw lengths and shares: .svg or .png.")
    ] = "",
) -> None:
    """Show what pretraining and fine-tuning files hold: examples as text, and figures.

    Masked tokens are shown as [there=original], words with their label as word/label, answers as
    [answer=...]. Whether a masked token was kept or replaced by itself at random cannot be told; it
    counts as kept.
    """
    from provender.nlp.inspecting import look, sources_of
    from provender.nlp.pretraining.drawing import check_name, draw

    if plot:
        check_name(Path(plot))
    vocabulary = _vocabulary(vocab_file, sp_model_file)
    sources = list(sources_of(files, split=split, settings=call.settings))
    found = look(iter(sources), vocabulary, count=count, limit=limit or None)
    if plot:
        title = Path(sources[0].where).name if len(sources) == 1 else ", ".join(files)
        draw(
            f"{title}, {amount(found.records, 'example')}", found.figures, found.lengths, Path(plot)
        )
    if call.json:
        lengths = {str(each): found.lengths[each] for each in sorted(found.lengths)}
        texts = [each.text for each in found.shown]
        doc = {"kind": found.kind, **found.figures, "lengths": lengths, "examples": texts}
        call.out.document({**doc, "remarks": [each.remark for each in found.shown]})
        return
    for each in found.shown:
        call.out.line(each.text)
        if each.remark:
            call.out.remark(each.remark)
        call.out.line()
    call.out.pairs(_pairs(found))


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


def _pairs(found: Found) -> list[tuple[str, str]]:
    from provender.nlp.pretraining.drawing import bins

    figures = found.figures
    lengths = ", ".join(f"{each:,}" for each in figures["seq_lengths"])
    spread = levels(bins(found.lengths, max(figures["seq_lengths"], default=1)))
    rows = [
        ("kind", found.kind),
        ("examples", f"{found.records:,}"),
        ("length", f"{lengths} tokens, {_percent(figures['padding'])} padding"),
        ("real tokens", f"{_number(figures['mean_length'])} on average  {spread}"),
    ]
    if "mean_first" in figures:
        return rows + _masking(figures)
    means = " and ".join(map(_number, figures["segments"].values()))
    rows += [("segments", means), ("full", _percent(figures["full"]))]
    for name, label, say in _OTHERS:
        if figures.get(name) is not None:
            rows.append((label, say(figures[name])))
    return rows


def _masking(figures: dict[str, Any]) -> list[tuple[str, str]]:
    return [
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


def _shares(classes: dict[str, float]) -> str:
    return ", ".join(f"{name}: {_percent(value)}" for name, value in classes.items())


def _range(labels: dict[str, float]) -> str:
    return f"{figure(labels['least'])} to {figure(labels['most'])}, {figure(labels['mean'])} on average"


_OTHERS: tuple[tuple[str, str, Callable[[Any], str]], ...] = (
    ("mean_words", "words", _number),
    ("follows", "B follows A", _percent),
    ("classes", "classes", _shares),
    ("labels", "labels", _range),
    ("mean_weight", "weight", figure),
    ("continued", "goes on", _percent),
    ("impossible", "no answer", _percent),
    ("mean_answer", "answer", _number),
)
"""Figures that only some kinds have: what they are called, and how they are said."""
