"""Fine-tuning records as a published version: the recipe for them, built by one command."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

from provender.builders.spec import BuilderSpec
from provender.errors import SettingsError
from provender.nlp.finetuning.classification import builders_of, is_numeric, labels_of
from provender.nlp.finetuning.encoding import Packer
from provender.nlp.finetuning.options import OUTPUTS, Options
from provender.nlp.finetuning.outputs import Tell
from provender.nlp.finetuning.running import datasets_of, plan_of, sizes_of, splits_of
from provender.nlp.finetuning.tfds_params import parse
from provender.nlp.finetuning.tfds_rows import Datasets, references
from provender.nlp.pretraining.publishing import Standing, named, publish_recipe
from provender.records.atomic import told_as_ours, write_json

if TYPE_CHECKING:
    from provender.settings import Settings

_RECIPE = "provender.nlp.recipes:TaskExamples"
_STEPS = {"records": "encode"}
_PLACES = (
    *("input_data_dir", "translated_input_data_dir", "squad_data_file"),
    *("translated_squad_data_folder", "vocab_file", "sp_model_file"),
)
_VALIDATION = {"eval": "validation"}
"""TFDS's name of a split, where it differs from the flag's."""


def split_name(key: str) -> str:
    """The split that a file of the script is in a version: what TFDS allows in names.

    Args:
        key: of a file, see `provender.nlp.finetuning.outputs.Planned`.
    """
    return _VALIDATION.get(key, key.replace("-", "_").replace(".", "_"))


def publish(
    options: Options,
    reference: str,
    *,
    splits: Sequence[str] | None = None,
    shards: int | None = None,
    workers: int = 1,
    settings: Settings | None = None,
    tell: Tell | None = None,
) -> Standing:
    """Publishes a task's records as a version that `provender.load` and loaders read.

    Its splits are train, validation and test; or for tests in several languages ``test_de`` and so
    on. Interrupted, it goes on where it was when it is called again in the same way.

    Args:
        options: which task, and how records are made; of `Options.of_records`. Its
            ``meta_data_file_path``, where given, is written as `create` does.
        reference: ``name:x.y.z``.
        splits: which of train, eval and test; by default all that the task has.
        shards: files of each split; by default as many as suit its size.
        workers: processes.
        settings: the project's settings.
        tell: is told how far it is.

    Raises:
        ConflictError: the number is published with other records.
        SettingsError: the reference is no name and number, or options make no sense for the task.
        ProvenderError: as `provender.nlp.finetuning.create`.
    """
    name, number = named(reference, "mnli_tokens:1.0.0")
    Packer(options).check()
    datasets = datasets_of(options, settings)
    kwargs = _arguments(options, splits, datasets)
    if splits is not None:
        kwargs["splits"] = list(splits)
    spec = BuilderSpec(_RECIPE, version=number, kwargs=kwargs, name=name)
    standing = publish_recipe(
        spec, shards, workers=workers, settings=settings, tell=tell, steps=_STEPS
    )
    if options.meta_data_file_path not in (None, OUTPUTS["meta_data_file_path"]):
        wanted = splits or splits_of(options, datasets)
        _write_metadata(options, wanted, datasets, standing)
    return standing


def _arguments(
    options: Options, splits: Sequence[str] | None, datasets: Datasets
) -> dict[str, Any]:
    """What the recipe is given, but for splits and shards."""
    usual = {each.name: each.default for each in fields(Options)}
    left_out = {*OUTPUTS, "tfds_data_dir", "version_ref"}
    found = {
        name: value
        for name, value in options.to_json().items()
        if name not in left_out and value != usual[name]
    }
    found |= {name: os.path.abspath(found[name]) for name in _PLACES if name in found}
    if options.fine_tuning_task_type not in ("classification", "regression"):
        return found
    if options.tfds_params:
        found["tfds_params"] = parse(options.tfds_params).without_places().text()
    known = references(options.version_ref)
    reads = builders_of(options, splits)
    datasets.check(reads)
    versions = {each: known.get(each, known.get("")) for each in reads}
    given = {name: reference for name, reference in versions.items() if reference}
    folders = {each: os.path.abspath(datasets[each].folder) for each in reads if each not in given}
    if given:
        found["versions"] = given
    if folders:
        found["tfds"] = folders
        if options.tfds_params and not is_numeric(options):
            found["labels"] = labels_of(options, datasets)
    return found


def _write_metadata(
    options: Options, wanted: Sequence[str], datasets: Datasets, standing: Standing
) -> None:
    """Tells training of the version what `create` tells it of files."""
    folder = standing.version.uri
    import fsspec

    with fsspec.open(f"{folder}/metadata.json", "rb") as file:
        told: Mapping[str, Any] = json.loads(file.read())
    counts = {each.name: each.examples for each in standing.version.splits}
    keys = [each.key for each in plan_of(options, wanted, datasets).files]
    sizes = sizes_of(options, {key: counts[split_name(key)] for key in keys})
    target = Path(options.meta_data_file_path or "")
    with told_as_ours(target.parent):
        target.parent.mkdir(parents=True, exist_ok=True)
    write_json(target, {**told, **sizes})


def check_outputs(options: Mapping[str, Any]) -> None:
    """Refuses names of files, where records go into a version.

    Raises:
        SettingsError: one is given.
    """
    for name in OUTPUTS:
        if name != "meta_data_file_path" and options.get(name):
            raise SettingsError(
                "The records go either into files or into a version.",
                where=f"--{name}, --publish",
                hint="Leave one of them out; --splits says which splits a version has.",
            )
