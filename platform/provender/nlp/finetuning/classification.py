"""Classification and regression of sentences and pairs: which rows, and records of them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any

from provender.errors import InputError, SettingsError
from provender.nlp.finetuning.encoding import Features, Packer, number, single
from provender.nlp.finetuning.layouts import FileSource, checked, layout_of
from provender.nlp.finetuning.options import Options
from provender.nlp.finetuning.outputs import Encoded, Planned, file_digest, line_count
from provender.nlp.finetuning.rows import Row
from provender.nlp.finetuning.tasks import CLASSIFICATION, Task
from provender.nlp.finetuning.tfds_params import TfdsParams, parse
from provender.nlp.finetuning.tfds_rows import Columns, Dataset, Datasets

SPLITS = ("train", "eval", "test")


class RowEncoder(Packer):
    """Makes records of rows.

    Args:
        options: tokenization and length.
        numeric: whether labels are numbers, not classes.
    """

    at_once = 512
    unique = False

    def __init__(self, options: Options, numeric: bool = False) -> None:
        super().__init__(options)
        self.numeric = numeric

    def __reduce__(self) -> Any:
        return type(self), (self.options, self.numeric)

    def __call__(self, first: int, items: Sequence[Row]) -> Encoded:
        """The records of rows; see `Encoder`."""
        return Encoded([self._record(first + i, each) for i, each in enumerate(items)])

    def _record(self, place: int, row: Row) -> Features:
        found = self.packed([self.ids(each) for each in row.texts])
        if row.label is not None:
            found["label_ids"] = number(row.label) if self.numeric else single(int(row.label))
        if row.weight is not None:
            found["weight"] = number(row.weight)
        found["is_real_example"] = single(1)
        found["example_id"] = single(place if row.example_id is None else row.example_id)
        return found


@dataclass(frozen=True)
class Classification:
    """What a call makes of a task.

    Attributes:
        processor: what the metadata calls the task.
        labels: names of its classes; empty for numbers.
        weighted: whether examples have weights.
        files: to be made.
    """

    processor: str
    labels: Sequence[str]
    weighted: bool
    files: Sequence[Planned]

    def metadata(self, options: Options) -> dict[str, Any]:
        """What training must know of them."""
        return metadata(
            options, self.processor, self.labels, self.weighted, numeric=not self.labels
        )


def metadata(
    options: Options,
    processor: str | None,
    labels: Sequence[str],
    weighted: bool = False,
    numeric: bool = False,
) -> dict[str, Any]:
    """What training must know of sentences and pairs.

    Args:
        options: how records are made.
        processor: what TF-NLP calls the task, where it knows it.
        labels: names of its classes, where they are known.
        weighted: whether examples have weights.
        numeric: whether labels are numbers, not classes.
    """
    found: dict[str, Any] = {"processor_type": processor} if processor else {}
    found |= {"max_seq_length": options.max_seq_length, "has_sample_weights": weighted}
    if numeric:
        return {**found, "task_type": "bert_regression", "label_type": "float"}
    found["task_type"] = "bert_classification"
    names = {"num_labels": len(labels), "label_names": list(labels)}
    return {**found, **names} if labels else found


def processor_of(options: Options) -> str:
    """What the metadata calls a task."""
    if options.tfds_params:
        return f"TFDS_{parse(options.tfds_params).dataset}"
    return CLASSIFICATION[options.classification_task_name].processor


def splits_of(options: Options, datasets: Datasets) -> tuple[str, ...]:
    """The splits that a task has: of train, eval and test.

    Raises:
        InputError, UnknownReference: a dataset that says so is not there.
    """
    if options.tfds_params:
        params = parse(options.tfds_params)
        dataset = datasets[params.dataset]
        names = (params.train_split, params.dev_split, params.test_split)
        return tuple(split for split, name in zip(SPLITS, names, strict=True) if dataset.has(name))
    return CLASSIFICATION[options.classification_task_name].splits


def plan(options: Options, wanted: Sequence[str], datasets: Datasets) -> Classification:
    """What is to be made, once everything that is read was found.

    Args:
        options: which task, and where its files lie and go.
        wanted: splits.
        datasets: TFDS's, and those in their place.

    Raises:
        SettingsError: a split is asked for that the task has no data for.
        MissingFiles, InputError, UnknownReference: a source is not there.
    """
    if options.tfds_params:
        return _plan_params(options, wanted, parse(options.tfds_params), datasets)
    task = CLASSIFICATION[options.classification_task_name]
    refuse_missing(wanted, task.name, task.splits)
    if task.parts:
        return _plan_tfds(task, options, wanted, datasets)
    return _plan_files(task, options, wanted)


def labels_of(options: Options, datasets: Datasets) -> list[str]:
    """Names of the classes by number; none where labels are numbers.

    Raises:
        InputError, UnknownReference: a dataset that says so is not there.
    """
    if options.tfds_params:
        params = parse(options.tfds_params)
        if is_numeric(options):
            return []
        return datasets[params.dataset].labels(params.label_key)
    task = CLASSIFICATION[options.classification_task_name]
    if task.is_regression or not task.parts:
        return list(task.labels)
    labelled = [each.builder for each in task.parts.values() if each.labelled]
    return datasets[labelled[0]].labels("label")


def is_numeric(options: Options) -> bool:
    """Whether labels are numbers, not classes; of sentences and pairs."""
    if options.tfds_params:
        has_numbers = parse(options.tfds_params).has_numbers
        return has_numbers or options.fine_tuning_task_type == "regression"
    return CLASSIFICATION[options.classification_task_name].is_regression


def is_weighted(options: Options) -> bool:
    """Whether examples have weights."""
    return bool(options.tfds_params and parse(options.tfds_params).weight_key)


def builders_of(options: Options, splits: Sequence[str] | None = None) -> list[str]:
    """The TFDS datasets that a task reads, each once.

    Args:
        options: which task.
        splits: for which of its splits; by default for all.
    """
    if options.tfds_params:
        return [parse(options.tfds_params).dataset]
    parts = CLASSIFICATION[options.classification_task_name].parts or {}
    wanted = [part.builder for name, part in parts.items() if splits is None or name in splits]
    return list(dict.fromkeys(wanted))


def output_path(options: Options, split: str) -> str | None:
    """Where the examples of a split go, as the flag says."""
    found: str | None = getattr(options, f"{split}_data_output_path")
    return found


def refuse_missing(wanted: Sequence[str], name: str, splits: Sequence[str]) -> None:
    """Refuses splits that a task has no data for.

    Args:
        wanted: which are asked for.
        name: of the task.
        splits: that it has.

    Raises:
        SettingsError: one is asked for.
    """
    for split in wanted:
        if split not in splits:
            raise SettingsError(
                f"{name} has no {split} data.",
                where=f"--{split}_data_output_path",
                hint=f"It has {', '.join(splits)}. Leave this one out.",
            )


def language_path(pattern: str, language: str) -> Path:
    """Where the test examples of a language go.

    Raises:
        SettingsError: the flag has no ``{}`` for the language.
    """
    if "{}" not in pattern:
        raise SettingsError(
            "This task has test data in several languages, one file each.",
            where="--test_data_output_path",
            hint=f"Put {{}} where the language goes: {Path(pattern).stem}.{{}}.tfrecord.",
        )
    return Path(pattern.replace("{}", language))


def _plan_tfds(
    task: Task, options: Options, wanted: Sequence[str], datasets: Datasets
) -> Classification:
    assert task.parts is not None
    asked = {name: part for name, part in task.parts.items() if name in wanted}
    datasets.check(list(dict.fromkeys(each.builder for each in asked.values())))
    labels = list(task.labels)
    files = []
    for name, part in asked.items():
        dataset = datasets[part.builder]
        split = part.split.format(mnli_type=options.mnli_type)
        if not task.is_regression and part.labelled:
            labels = dataset.labels("label")
        fixed: int | float = 0.0 if task.is_regression else 0
        label = "label" if part.labelled else None
        columns = Columns(task.texts, label, task.is_regression, None, fixed)
        files.append(_of_dataset(options, name, dataset, split, columns, task.is_regression))
    return Classification(task.processor, labels, False, files)


def _of_dataset(
    options: Options,
    name: str,
    dataset: Dataset,
    split: str,
    columns: Columns,
    numeric: bool,
    skipped: int | None = None,
) -> Planned:
    path = output_path(options, name)
    assert path
    size = dataset.size(split)

    def items() -> Iterator[Row]:
        rows = dataset.rows(split, columns)
        return rows if skipped is None else (row for row in rows if row.label != skipped)

    def source() -> dict[str, Any]:
        about = {"split": split, "columns": repr(columns), "skip": skipped}
        return {"facts": dataset.facts, **about}

    return Planned(name, Path(path), source, items, size, RowEncoder(options, numeric))


def _plan_params(
    options: Options, wanted: Sequence[str], params: TfdsParams, datasets: Datasets
) -> Classification:
    datasets.check([params.dataset])
    dataset = datasets[params.dataset]
    numeric = is_numeric(options)
    labels = labels_of(options, datasets)
    skipped = None
    if params.skip_label and not numeric:
        skipped = _class("skip_label", params.skip_label, labels)
    texts = [params.text_key, params.text_b_key]
    test_texts = [params.test_text_key or texts[0], params.test_text_b_key or texts[1]]
    fixed: int | float = 0.0 if numeric else 0
    if params.test_label != TfdsParams.test_label:
        fixed = (
            _number(params.test_label)
            if numeric
            else _class("test_label", params.test_label, labels)
        )
    weight = params.weight_key or None
    columns = Columns(tuple(filter(None, texts)), params.label_key, numeric, weight)
    of_test = Columns(tuple(filter(None, test_texts)), None, numeric, None, fixed)
    splits = {
        "train": (params.train_split, columns, skipped),
        "eval": (params.dev_split, columns, skipped),
        "test": (params.test_split, of_test, None),
    }
    files = [
        _of_dataset(options, name, dataset, split, which, numeric, skip)
        for name, (split, which, skip) in splits.items()
        if name in wanted
    ]
    return Classification(f"TFDS_{params.dataset}", labels, bool(weight), files)


def _class(key: str, value: str, labels: Sequence[str]) -> int:
    if value in labels:
        return list(labels).index(value)
    if value.isdigit() and int(value) < len(labels):
        return int(value)
    raise SettingsError(
        f"{key} is {value!r}, which is no class.",
        where="--tfds_params",
        hint=f"Classes are {', '.join(labels)}.",
    )


def _number(value: str) -> float:
    try:
        return float(value)
    except ValueError as error:
        raise SettingsError(
            f"test_label is {value!r}, and labels are numbers.", where="--tfds_params"
        ) from error


def _plan_files(task: Task, options: Options, wanted: Sequence[str]) -> Classification:
    layout = layout_of(task, options)
    files = []
    for name, sources in (("train", layout.train), ("eval", layout.eval)):
        path = output_path(options, name)
        if path and name in wanted:
            files.append(_of_files(options, task, name, Path(path), sources))
    test = output_path(options, "test")
    if test and "test" in wanted:
        for language, sources in layout.test.items():
            path_of = language_path(test, language) if language else Path(test)
            key = f"test_{language}" if language else "test"
            files.append(_of_files(options, task, key, path_of, sources))
    return Classification(task.processor, task.labels, False, files)


def _of_files(
    options: Options, task: Task, key: str, path: Path, sources: Sequence[FileSource]
) -> Planned:
    paths = checked(sources)
    numbers = {name: i for i, name in enumerate(task.labels)}
    if not paths:
        raise InputError(f"{task.name} has no files for {key}.", where=options.input_data_dir)

    def source() -> dict[str, Any]:
        said = ("texts", "label", "only")
        return {
            "files": [file_digest(each) for each in paths],
            "read": [[getattr(each, name, None) for name in said] for each in sources],
            "labels": list(task.labels),
        }

    notes: Counter[str] = Counter()
    return Planned(
        key,
        path,
        source,
        partial(_rows, sources, numbers, notes),
        len(paths) if task.layout == "imdb" else line_count(paths),
        RowEncoder(options),
        paths,
        notes,
    )


def _rows(
    sources: Sequence[FileSource], numbers: dict[str, int], notes: Counter[str]
) -> Iterator[Row]:
    notes.clear()
    return chain.from_iterable(each.rows(numbers, notes) for each in sources)
