"""Every task of `provender nlp create-finetuning-data`, as a dataset of a project."""

from __future__ import annotations

import functools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import fields, replace
from typing import Any, ClassVar

import numpy as np
from tensorflow_datasets.core import DatasetInfo, MetadataDict, Version

from provender.errors import InputError, SettingsError
from provender.nlp.finetuning.classification import (
    SPLITS,
    builders_of,
    is_numeric,
    is_weighted,
    labels_of,
    refuse_missing,
)
from provender.nlp.finetuning.encoding import Packer
from provender.nlp.finetuning.features import (
    Feature,
    pair_features,
    tagging_features,
    window_features,
)
from provender.nlp.finetuning.options import OUTPUTS, Options
from provender.nlp.finetuning.outputs import Planned
from provender.nlp.finetuning.publishing import split_name
from provender.nlp.finetuning.rows import Row
from provender.nlp.finetuning.running import QUESTIONS, metadata_of, name_of, plan_of, splits_of
from provender.nlp.finetuning.tasks import CLASSIFICATION
from provender.nlp.finetuning.tfds_params import parse
from provender.nlp.finetuning.tfds_rows import Datasets
from provender.nlp.recipes.arguments import check_flags, check_shards, located
from provender.nlp.recipes.records import FromFiles, RecordsInSteps, Supply, as_features
from provender.nlp.recipes.squad import NUMBERS, PER_QUESTION

_FLAGS = tuple(
    each.name
    for each in fields(Options)
    if each.name not in {*OUTPUTS, "tfds_data_dir", "version_ref"}
)
"""Options of the script that say what records are, not where they go."""


class TaskExamples(RecordsInSteps, skip_registration=True):  # type: ignore[call-arg]
    """Fine-tuning records of a known task, or of any TFDS dataset.

    The records are those of `provender nlp create-finetuning-data`, in the same order. Its splits are
    train, validation and test; tests in several languages are ``test_de`` and so on, and retrieval has
    one for each file. Items are encoded, then shards are written.

    Args:
        versions: the published version that stands for the TFDS dataset; or dataset -> version, for
            a task that reads several.
        tfds: dataset -> folder of TFDS's files, with their ``dataset_info.json``; for those that no
            version stands for.
        splits: which of train, eval and test; by default all that the task has.
        labels: names of the classes by number, of a dataset in a folder; known tasks have theirs, and
            so have published versions.
        shards: number of files of each split; by default as many as suit the size.
        dataset: name of the dataset; by default what the project calls it.
        version: number, by default 1.0.0.
        data_dir: as TFDS gives it.
        config: as TFDS gives it; there are none.
        **flags: as `provender.nlp.finetuning.Options` has them, without paths of outputs.
    """

    ARGUMENTS: ClassVar[dict[str, str]] = {
        "versions": "version",
        "tfds": "folder",
        "input_data_dir": "folder",
        "translated_input_data_dir": "folder",
        "squad_data_file": "file",
        "translated_squad_data_folder": "folder",
        "vocab_file": "file",
        "sp_model_file": "file",
        "dataset": "name",
    }
    STEPS: ClassVar[Mapping[str, Sequence[str]]] = {
        "records": ("versions", "tfds", "splits", "labels", *_FLAGS)
    }

    def __init__(
        self,
        *,
        versions: Any = None,
        tfds: Mapping[str, str] | None = None,
        splits: Sequence[str] | None = None,
        labels: Sequence[str] | None = None,
        shards: int | None = None,
        dataset: str = "task_examples",
        version: Any = None,
        data_dir: Any = None,
        config: Any = None,
        **flags: Any,
    ) -> None:
        check_shards(dataset, shards)
        check_flags(dataset, flags, _FLAGS)
        self.name = dataset
        self.VERSION = Version(version or "1.0.0")
        self._options = Options.of_records(**flags)
        self._length = self._options.max_seq_length
        self._shards = shards
        self._splits = None if splits is None else _checked(dataset, splits)
        self._labels = list(labels or ())
        self._check_sources(versions, tfds or {})
        self._versions = _named(versions, self._reads)
        self._tfds = dict(tfds or {})
        super().__init__(data_dir=data_dir, config=config)

    @property
    def _reads(self) -> list[str]:
        """The TFDS datasets that it reads."""
        of_rows = self._options.fine_tuning_task_type in ("classification", "regression")
        return builders_of(self._options, self._splits) if of_rows else []

    def _check_sources(self, versions: Any, folders: Mapping[str, str]) -> None:
        options, reads = self._options, self._reads
        if options.tfds_params:
            params = parse(options.tfds_params)
            if params.data_dir or params.module_import:
                raise SettingsError(
                    "data_dir and module_import say where a dataset lies, not what it is.",
                    where=f"{self.name}, tfds_params",
                    hint=f'tfds = {{"{params.dataset}" = "FOLDER/{params.dataset}/1.0.0"}} says it.',
                )
        by_name = _by_name(versions)
        unknown = [each for each in (*folders, *(versions if by_name else ())) if each not in reads]
        if unknown or (versions and not by_name and len(reads) != 1):
            raise SettingsError(
                f"{name_of(options)} reads {', '.join(reads) or 'no TFDS dataset'}"
                + (f", not {unknown[0]}." if unknown else ", which one version cannot stand for."),
                where=f"{self.name}, versions, tfds",
                hint='versions = {"glue/mnli" = "mnli:1.0.0"} says which stands for which.',
            )

    def _info(self) -> Any:
        length = self._options.max_seq_length
        labels = self._known_labels()
        told = metadata_of(self._options, labels)
        names = told.get("label_names") or told.get("label_list")
        classes = f" Classes by number: {', '.join(names)}." if names else ""
        return DatasetInfo(
            builder=self,
            description=(
                f"Fine-tuning records of {length} tokens for {name_of(self._options)}.{classes}"
            ),
            features=as_features(self._shapes(length)),
            metadata=MetadataDict(told),
            disable_shuffling=True,
        )

    def _shapes(self, length: int) -> Mapping[str, Feature]:
        options = self._options
        if options.fine_tuning_task_type == "squad":
            return window_features(length)
        if options.fine_tuning_task_type == "tagging":
            return tagging_features(length)
        if options.fine_tuning_task_type == "retrieval":
            return pair_features(length, None)
        label = np.float32 if is_numeric(options) else np.int64
        return pair_features(length, label, weighted=is_weighted(options))

    def _known_labels(self) -> list[str]:
        """Names of classes, as far as they are known before anything is built."""
        if self._labels or is_numeric(self._options):
            return self._labels
        if self._versions and all(isinstance(each, Mapping) for each in self._versions.values()):
            return labels_of(self._options, self._datasets)
        if self._options.tfds_params:
            return []
        return list(CLASSIFICATION[self._options.classification_task_name].labels)

    @functools.cached_property
    def _datasets(self) -> Datasets:
        """The datasets that it reads.

        Raises:
            SettingsError: it is not said where one lies.
        """
        folders = dict(self._tfds)
        for name, place in self._versions.items():
            known = located(place if isinstance(place, Mapping) else None)
            folders[name] = _folder(known)
        for each in self._reads:
            if each not in folders:
                raise SettingsError(
                    f"It is not said where {each} lies.",
                    where=f"{self.name}, versions, tfds",
                    hint=f'versions = "NAME:X.Y.Z", or tfds = {{"{each}" = "FOLDER"}} with its '
                    "dataset_info.json.",
                )
        return Datasets(folders=folders)

    def supplies(self) -> Mapping[str, Supply]:
        """See `RecordsInSteps`."""
        Packer(self._options).check()
        options, datasets = self._options, self._datasets
        have = splits_of(options, datasets)
        wanted = have if self._splits is None else self._splits
        refuse_missing(wanted, name_of(options), have)
        plan = plan_of(options, wanted, datasets)
        if self._labels and list(plan.labels) != self._labels:
            raise InputError(
                f"The classes are {', '.join(plan.labels) or 'numbers'}.",
                where=f"{self.name}, labels",
                hint="Give them in this order, or leave labels out.",
            )
        return {split_name(each.key): self._supply(each) for each in plan.files}

    def _supply(self, planned: Planned) -> Supply:
        if planned.encode.unique:
            return FromFiles(planned, NUMBERS, QUESTIONS * PER_QUESTION)
        if planned.key == "test" and is_weighted(self._options):
            return FromFiles(replace(planned, items=functools.partial(_weighted, planned.items)))
        return FromFiles(planned)


def _weighted(items: Any) -> Iterator[Row]:
    """Rows of tests, which have no weights, beside those that have."""
    rows: Iterable[Row] = items()
    return (replace(each, weight=1.0) for each in rows)


def _named(versions: Any, reads: Sequence[str]) -> dict[str, Any]:
    """Dataset -> what stands for it: a name, or where it lies."""
    if not versions:
        return {}
    if _by_name(versions):
        return dict(versions)
    return {reads[0]: versions}


def _by_name(versions: Any) -> bool:
    """Whether versions are given by dataset; where one lies is a mapping, too."""
    return isinstance(versions, Mapping) and "fingerprint" not in versions


def _checked(dataset: str, splits: Sequence[str]) -> tuple[str, ...]:
    for each in splits:
        if each not in SPLITS:
            raise SettingsError(
                f"There is no split {each!r}.",
                where=f"{dataset}, splits",
                hint=f"There are: {', '.join(SPLITS)}.",
            )
    return tuple(each for each in SPLITS if each in splits)


def _folder(place: Mapping[str, Any]) -> str:
    from provender.store import Store

    return Store.open(place["store"]).path(place["path"])
