"""Which files a call makes, and the metadata that tells training of them."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from provender.errors import SettingsError
from provender.nlp.finetuning import classification, retrieval, tagging
from provender.nlp.finetuning.encoding import Packer
from provender.nlp.finetuning.options import Options
from provender.nlp.finetuning.outputs import Output, Planned, Tell, file_digest, make
from provender.nlp.finetuning.squad import Paragraph, paragraphs, question_count, squad_files
from provender.nlp.finetuning.windows import QuestionEncoder
from provender.records.atomic import told_as_ours, write_json

if TYPE_CHECKING:
    from provender.settings import Settings

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
    plan = plan_of(options, settings)
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
    doc = {**plan.metadata, **_sizes(options, outputs)}
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


def plan_of(options: Options, settings: Settings | None = None) -> Plan:
    """What the options ask for, once everything that is read was found.

    Raises:
        ProvenderError: see `create`.
    """
    kind = options.fine_tuning_task_type
    if kind == "squad":
        return _squad(options)
    if kind == "tagging":
        meta = tagging.metadata(options)
        return Plan(tagging.plan(options), meta, meta["label_list"])
    if kind == "retrieval":
        meta = {"processor_type": options.retrieval_task_name.upper(), "task_type": "retrieval"}
        return Plan(retrieval.plan(options), {**meta, "max_seq_length": options.max_seq_length})
    found = classification.plan(options, settings)
    meta = {
        "processor_type": found.processor,
        "max_seq_length": options.max_seq_length,
        "has_sample_weights": found.weighted,
    }
    if found.labels:
        meta |= {"task_type": "bert_classification", "num_labels": len(found.labels)}
        meta |= {"label_names": list(found.labels)}
    else:
        meta |= {"task_type": "bert_regression", "label_type": "float"}
    return Plan(found.files, meta, found.labels)


def _squad(options: Options) -> Plan:
    for split in ("eval", "test"):
        if classification.output_path(options, split):
            raise SettingsError(
                "SQuAD is made for training here.",
                where=f"--{split}_data_output_path",
                hint="For evaluation the question answering task makes records of the raw JSON: "
                "`provender.nlp.finetuning.write_squad_eval_records`.",
            )
    files = squad_files(options.squad_data_file or "", options.translated_squad_data_folder)
    planned = Planned(
        "train",
        Path(options.train_data_output_path or ""),
        {"files": [file_digest(each) for each in files]},
        partial(_paragraphs, files, options.version_2_with_negative),
        sum(map(question_count, files)) // 5,
        QuestionEncoder(options),
    )
    meta = {
        "task_type": "bert_squad",
        "max_seq_length": options.max_seq_length,
        "max_query_length": options.max_query_length,
        "doc_stride": options.doc_stride,
        "version_2_with_negative": options.version_2_with_negative,
    }
    return Plan([planned], meta)


def _paragraphs(files: Sequence[Path], version_2_with_negative: bool) -> Iterator[Paragraph]:
    for each in files:
        yield from paragraphs(each, answered=True, version_2_with_negative=version_2_with_negative)


def _check_targets(files: Sequence[Planned], options: Options) -> None:
    paths = [os.path.abspath(each.path) for each in files]
    paths.append(os.path.abspath(options.meta_data_file_path or ""))
    for each in paths:
        if paths.count(each) > 1:
            raise SettingsError(f"{each} is to be written twice.", where=each)
        if Path(each).is_dir():
            raise SettingsError(f"{each} is a folder.", where=each, hint="Name a file in it.")


def _sizes(options: Options, outputs: Sequence[Output]) -> dict[str, Any]:
    """Numbers of records, under the names that the task's metadata has for them."""
    kind = options.fine_tuning_task_type
    found: dict[str, Any] = {}
    if kind == "retrieval":
        found = {"number_eval_data": {}, "number_test_data": {}}
    for each in outputs:
        split, _, name = each.key.partition("_")
        if kind == "retrieval":
            found[f"number_{'eval' if split == 'dev' else 'test'}_data"][name] = each.records
        elif kind == "tagging" and split == "test":
            found.setdefault("test_data_size", {})[name] = each.records
        else:
            found[f"{each.key}_data_size"] = each.records
    return found
