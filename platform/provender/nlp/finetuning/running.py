"""Which files a call makes, and the metadata that tells training of them."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from provender.errors import SettingsError
from provender.nlp.finetuning import classification, retrieval, tagging
from provender.nlp.finetuning.classification import SPLITS, output_path
from provender.nlp.finetuning.encoding import Packer
from provender.nlp.finetuning.options import Options
from provender.nlp.finetuning.outputs import Output, Planned, Tell, file_digest, make
from provender.nlp.finetuning.squad import Paragraph, paragraphs, question_count, squad_files
from provender.nlp.finetuning.tfds_params import parse
from provender.nlp.finetuning.tfds_rows import Datasets, imported
from provender.nlp.finetuning.windows import QuestionEncoder
from provender.nlp.finetuning.windows import metadata as windows_metadata
from provender.records.atomic import told_as_ours, write_json

if TYPE_CHECKING:
    from provender.settings import Settings

QUESTIONS = 5
"""About one paragraph, in SQuAD."""
_MESSAGES_PER_WORKER = 200
"""Some seconds of work."""


@dataclass(frozen=True)
class Plan:
    """What a call makes.

    Attributes:
        files: to be made.
        metadata: what of it is known before.
        labels: names of the classes, by number.
    """

    files: Sequence[Planned]
    metadata: dict[str, Any]
    labels: Sequence[str] = ()


@dataclass(frozen=True)
class Made:
    """What `create` made.

    Attributes:
        outputs: the files.
        metadata: what the metadata file says.
        metadata_path: where it is.
        notes: how often something happened that people should know.
    """

    outputs: tuple[Output, ...]
    metadata: dict[str, Any]
    metadata_path: str
    notes: dict[str, int]


def create(
    options: Options,
    *,
    workers: int | None = None,
    settings: Settings | None = None,
    tell: Tell | None = None,
) -> Made:
    """Makes the files that the options name, and the metadata when all are there.

    Files that stand already, made of the same sources with the same vocabulary and options, are left
    alone. Each other file appears whole or not at all.

    Args:
        options: what.
        workers: processes; by default one a CPU, fewer where there is little to do.
        settings: of the project, for published versions.
        tell: is told how far it is.

    Raises:
        SettingsError: options make no sense for the task.
        MissingFiles: what is to be read is not there; names it.
        InputError: what is read is not what it should be; names the line.
        StoreError: a file cannot be written.
        WorkerDied: a process was killed.
    """
    Packer(options).check()
    wanted = [each for each in SPLITS if output_path(options, each)]
    plan = plan_of(options, wanted, datasets_of(options, settings))
    if not plan.files:
        raise SettingsError(
            "The task has no data for the files that are named.",
            where="--eval_data_output_path, --test_data_output_path",
            hint="Name the file or folder of another split.",
        )
    _check_targets(plan.files, options)
    said = {**options.meaning(), "vocabulary": file_digest(options.vocabulary)}
    outputs = []
    for each in plan.files:
        count = workers or usual_workers(each.total, each.encode.at_once)
        outputs.append(make(each, said, count, tell or _nobody))
    sizes = {each.key: each.records for each in outputs}
    doc = {**plan.metadata, **sizes_of(options, sizes)}
    target = Path(options.meta_data_file_path or "")
    with told_as_ours(target.parent):
        target.parent.mkdir(parents=True, exist_ok=True)
    write_json(target, doc)
    notes: Counter[str] = Counter()
    for output in outputs:
        notes.update(output.notes)
    return Made(tuple(outputs), doc, str(target), dict(notes))


def _nobody(step: str, done: int, total: int, unit: str) -> None:
    """Is told, and says nothing."""


def usual_workers(items: int, at_once: int) -> int:
    """Processes that are worth their start: one a CPU, fewer where there is little to do."""
    worth = items // at_once // _MESSAGES_PER_WORKER
    return max(1, min(len(os.sched_getaffinity(0)), worth))


def datasets_of(options: Options, settings: Settings | None = None) -> Datasets:
    """The TFDS datasets that options name, and the published versions in their place.

    Raises:
        SettingsError: a module that a dataset is said to need cannot be imported.
    """
    data_dir = options.tfds_data_dir
    if options.tfds_params:
        params = parse(options.tfds_params)
        if params.module_import:
            imported(params.module_import)
        data_dir = params.data_dir or data_dir
    return Datasets(data_dir, options.version_ref, settings)


def splits_of(options: Options, datasets: Datasets) -> tuple[str, ...]:
    """The splits that a task has: of train, eval and test.

    Raises:
        InputError, UnknownReference: a dataset that says so is not there.
    """
    kind = options.fine_tuning_task_type
    if kind == "squad":
        return ("train",)
    if kind == "tagging":
        return SPLITS
    if kind == "retrieval":
        return retrieval.splits_of(options)
    return classification.splits_of(options, datasets)


def metadata_of(options: Options, labels: Sequence[str]) -> dict[str, Any]:
    """What training must know of a task, but for numbers of records.

    Args:
        options: which task, and how records are made.
        labels: names of its classes, where they are known; of sentences and pairs.
    """
    kind = options.fine_tuning_task_type
    if kind == "squad":
        return windows_metadata(options)
    if kind == "tagging":
        return tagging.metadata(options)
    if kind == "retrieval":
        return retrieval.metadata(options)
    return classification.metadata(
        options,
        classification.processor_of(options),
        labels,
        weighted=classification.is_weighted(options),
        numeric=classification.is_numeric(options),
    )


def name_of(options: Options) -> str:
    """What to call a task."""
    kind = options.fine_tuning_task_type
    if kind == "squad":
        return "SQuAD"
    if kind in ("tagging", "retrieval"):
        found: str = getattr(options, f"{kind}_task_name")
        return found
    return classification.processor_of(options)


def plan_of(options: Options, wanted: Sequence[str], datasets: Datasets) -> Plan:
    """What the options ask for, once everything that is read was found.

    Args:
        options: which task, and where its files lie and go.
        wanted: splits.
        datasets: TFDS's, and those in their place.

    Raises:
        ProvenderError: see `create`.
    """
    kind = options.fine_tuning_task_type
    if kind == "squad":
        return _squad(options, wanted)
    if kind == "tagging":
        meta = tagging.metadata(options)
        return Plan(tagging.plan(options, wanted), meta, meta["label_list"])
    if kind == "retrieval":
        return Plan(retrieval.plan(options, wanted), retrieval.metadata(options))
    found = classification.plan(options, wanted, datasets)
    return Plan(found.files, found.metadata(options), found.labels)


def _squad(options: Options, wanted: Sequence[str]) -> Plan:
    for split in ("eval", "test"):
        if split in wanted:
            raise SettingsError(
                "SQuAD is made for training here.",
                where=f"--{split}_data_output_path",
                hint="For evaluation the question answering task makes records of the raw JSON: "
                "`provender.nlp.finetuning.write_squad_eval_records`.",
            )
    files = squad_files(options.squad_data_file or "", options.translated_squad_data_folder)
    planned = windows_of(files, options, Path(options.train_data_output_path or ""))
    return Plan([planned], windows_metadata(options))


def windows_of(files: Sequence[Path], options: Options, path: Path) -> Planned:
    """Windows over the passages of SQuAD's files, of which each is in memory while it is read.

    Args:
        files: SQuAD's JSON.
        options: how they are made.
        path: where they go.
    """
    return Planned(
        "train",
        path,
        partial(_digests, files),
        partial(_paragraphs, files, options.version_2_with_negative),
        sum(map(question_count, files)) // QUESTIONS,
        QuestionEncoder(options),
        files,
    )


def _digests(files: Sequence[Path]) -> dict[str, Any]:
    return {"files": [file_digest(each) for each in files]}


def _paragraphs(files: Sequence[Path], version_2_with_negative: bool) -> Iterator[Paragraph]:
    for each in files:
        yield from paragraphs(each, answered=True, version_2_with_negative=version_2_with_negative)


def _check_targets(files: Sequence[Planned], options: Options) -> None:
    paths = [os.path.abspath(each.path) for each in files]
    paths.append(os.path.abspath(options.meta_data_file_path or ""))
    read = {os.path.realpath(path) for each in files for path in each.reads}
    for each in paths:
        if paths.count(each) > 1:
            raise SettingsError(f"{each} is to be written twice.", where=each)
        if os.path.realpath(each) in read:
            raise SettingsError(
                f"{each} is a file that is read.", where=each, hint="Write to another file."
            )
        if Path(each).is_dir():
            raise SettingsError(f"{each} is a folder.", where=each, hint="Name a file in it.")


def sizes_of(options: Options, records: Mapping[str, int]) -> dict[str, Any]:
    """Numbers of records, under the names that the task's metadata has for them.

    Args:
        options: which task.
        records: of each file, by its key.
    """
    kind = options.fine_tuning_task_type
    found: dict[str, Any] = {}
    if kind == "retrieval":
        found = {"number_eval_data": {}, "number_test_data": {}}
    for key, count in records.items():
        split, _, name = key.partition("_")
        if kind == "retrieval":
            found[f"number_{'eval' if split == 'dev' else 'test'}_data"][name] = count
        elif kind == "tagging" and split == "test":
            found.setdefault("test_data_size", {})[name] = count
        else:
            found[f"{key}_data_size"] = count
    return found
