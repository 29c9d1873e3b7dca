"""XLNet pretraining records as a published version: the recipe for them, built by one command."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import asdict, fields
from pathlib import Path
from typing import TYPE_CHECKING

from provender.builders.spec import BuilderSpec
from provender.errors import SettingsError
from provender.nlp.pretraining.addresses import text_copies
from provender.nlp.pretraining.publishing import Standing, named, nobody, publish_recipe
from provender.nlp.pretraining.running import Tell
from provender.nlp.xlnet_data.options import OF_FILES, Options

if TYPE_CHECKING:
    from provender.settings import Settings

_RECIPE = "provender.nlp.recipes:XlnetPretraining"
_STEPS = {"tokens": "tokenize", "streams": "lay out"}


def publish(
    inputs: str | Sequence[str],
    reference: str,
    options: Options,
    *,
    shards: int | None = None,
    workers: int = 1,
    settings: Settings | None = None,
    tell: Tell | None = None,
) -> Standing:
    """Publishes XLNet pretraining records of text files as a version that `provender.load` reads.

    Args:
        inputs: as for `provender.nlp.xlnet_data.create`, or addresses of files, which are fetched.
        reference: ``name:x.y.z``.
        options: how records are made; where files go and what they are called does not count.
        shards: files of the version; by default as many as suit its size.
        workers: processes.
        settings: the project's settings.
        tell: is told how far it is.

    Raises:
        ConflictError: the number is published with other records.
        SettingsError: the reference is no name and number, or tasks are to share the work.
        ProvenderError: as `provender.nlp.xlnet_data.create`.
    """
    from provender.settings import load_settings

    name, number = named(reference)
    if options.num_tasks is not None:
        raise SettingsError(
            "A version is not made by several tasks.",
            where="--num_tasks, --publish",
            hint="Leave --num_tasks out; --workers says how many processes share the work.",
        )
    usual = {each.name: each.default for each in fields(Options)}
    flags = {
        key: value
        for key, value in asdict(options).items()
        if key not in OF_FILES and value != usual[key]
    }
    flags["sp_model_file"] = os.path.abspath(options.sp_model_file)
    settings = settings or load_settings()
    files = text_copies(inputs, Path(settings.scratch), tell or nobody)
    spec = BuilderSpec(_RECIPE, version=number, kwargs={"input_file": files, **flags}, name=name)
    return publish_recipe(spec, shards, workers=workers, settings=settings, tell=tell, steps=_STEPS)
