"""``nlp``: text data for language models, from vocabulary to checked loader."""

from __future__ import annotations

from importlib import import_module

import typer

from provender.cli.commands import epilog
from provender.cli.parsing import Group

_MODULES: tuple[str, ...] = (
    "pretraining",
    "xlnet_data",
    "finetuning",
    "vocabulary",
    "inspecting",
    "checking",
)
"""Modules of this package that add commands, in the order their commands are listed."""


def register(app: typer.Typer) -> None:
    """Adds the commands of this group."""
    group = typer.Typer(
        cls=Group,
        no_args_is_help=True,
        rich_markup_mode=None,
        help="Data for language models: vocabularies, pretraining and fine-tuning data, loaders.",
        epilog=epilog("provender nlp --help"),
        # People bring flags of TF-NLP's scripts, which have underscores.
        context_settings={"token_normalize_func": lambda name: name.replace("_", "-")},
    )
    for name in _MODULES:
        import_module(f"{__name__}.{name}").register(group)
    app.add_typer(group, name="nlp")
