"""Which files the tasks that TFDS does not read are made of, as their publishers lay them out."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from provender.errors import MissingFiles
from provender.nlp.finetuning.options import Options
from provender.nlp.finetuning.tables import Folders, JsonLines, Table, existing
from provender.nlp.finetuning.tasks import BINARY, Task

FileSource = Table | JsonLines | Folders
_TRANSLATED_TEXTS = (2, 3)
_TRANSLATED_LABEL = 4


@dataclass(frozen=True)
class Layout:
    """The files of a task.

    Attributes:
        train: read for training, in order.
        eval: read for evaluation.
        test: read for tests: language -> files; "" where there is one language.
    """

    train: Sequence[FileSource]
    eval: Sequence[FileSource]
    test: Mapping[str, Sequence[FileSource]]


def layout_of(task: Task, options: Options) -> Layout:
    """The files that a task reads under some options.

    Raises:
        MissingFiles: one of those that are wanted is not there.
    """
    folder = Path(options.input_data_dir or "")
    if not folder.is_dir():
        raise MissingFiles(
            f"There is no folder {folder}.", where=str(folder), hint="See --input_data_dir."
        )
    return LAYOUTS[task.layout](task, folder, options)


def _imdb(task: Task, folder: Path, options: Options) -> Layout:
    train, dev = (Folders(folder / name, task.labels) for name in ("train", "test"))
    return Layout([train], [dev], {})


def _axg(task: Task, folder: Path, options: Options) -> Layout:
    return Layout(
        [], [], {"": [JsonLines(folder / "AX-g.jsonl", ("premise", "hypothesis"), "label")]}
    )


def _pawsx(task: Task, folder: Path, options: Options) -> Layout:
    def table(language: str, name: str) -> Table:
        return Table(folder / language / name, (1, 2), 3, header=True)

    chosen = options.pawsx_language
    train = [
        table(each, "train.tsv" if each == "en" else "translated_train.tsv")
        for each in (task.languages if chosen == "all" else (chosen,))
    ]
    return Layout(
        train,
        [table(each, "dev_2k.tsv") for each in task.languages],
        {each: [table(each, "test_2k.tsv")] for each in task.languages},
    )


def _xnli(task: Task, folder: Path, options: Options) -> Layout:
    chosen = options.xnli_language
    train = [
        Table(folder / "multinli" / f"multinli.train.{each}.tsv", (0, 1), 2, header=True)
        for each in (task.languages if chosen == "all" else (chosen,))
    ]
    dev, test = (
        Table(folder / f"xnli.{name}.tsv", (6, 7), 1, header=True) for name in ("dev", "test")
    )
    by_language = {each: [replace(test, only=(0, each))] for each in task.languages}
    return Layout(train, [dev], by_language)


def _xtreme(task: Task, folder: Path, options: Options) -> Layout:
    """XTREME's files, as its ``utils_preprocess.py`` writes them, and its translations.

    A row of a translation is the two texts, what they were translated to, and the label. Names and
    columns are those that TFDS's ``xtreme_xnli`` and ``xtreme_pawsx`` read.
    """

    def table(name: str) -> Table:
        return Table(folder / name, (0, 1), 2)

    train = [table("train-en.tsv")]
    test = {each: [replace(table(f"test-{each}.tsv"), label=None)] for each in task.languages}
    if options.translated_input_data_dir:
        translated = Path(options.translated_input_data_dir)
        others = [each for each in task.languages if each != "en"]
        train += [
            Table(
                translated / "translate-train" / f"en-{each}-translated.tsv",
                _TRANSLATED_TEXTS,
                _TRANSLATED_LABEL,
                # Some rows of PAWS-X's translations have no label; TFDS leaves them out as well.
                flawed=task.labels == BINARY,
            )
            for each in others
        ]
        for each in others:
            path = translated / "translate-test" / f"test-{each}-en-translated.tsv"
            test[f"{each}-en"] = [Table(path, _TRANSLATED_TEXTS)]
    dev = ("en",) if options.only_use_en_dev else task.languages
    return Layout(train, [table(f"dev-{each}.tsv") for each in dev], test)


LAYOUTS: Mapping[str, Callable[[Task, Path, Options], Layout]] = {
    "imdb": _imdb,
    "axg": _axg,
    "pawsx": _pawsx,
    "xnli": _xnli,
    "xtreme": _xtreme,
}
"""Kind of layout -> the files."""


def checked(sources: Sequence[FileSource]) -> list[Path]:
    """The files of sources.

    Raises:
        MissingFiles: one is not there.
    """
    return [existing(path, "--input_data_dir") for each in sources for path in each.paths]
