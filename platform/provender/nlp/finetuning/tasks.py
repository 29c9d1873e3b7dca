"""The known tasks, as tables: what each reads, its columns, and the names of its classes.

Class names and their order are TFDS's own, for tasks that are read from files as well: so a model
that learned MNLI's numbers can be tested on XNLI's.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

NLI = ("entailment", "neutral", "contradiction")
RTE = ("entailment", "not_entailment")
BINARY = ("0", "1")

XNLI_LANGUAGES = tuple("ar bg de el en es fr hi ru sw th tr ur vi zh".split())
PAWSX_LANGUAGES = tuple("de en es fr ja ko zh".split())
BUCC_LANGUAGES = tuple("de fr ru zh".split())
TATOEBA_LANGUAGES = tuple(
    "af ar bg bn de el es et eu fa fi fr he hi hu id it ja jv ka kk ko ml mr nl pt ru sw ta te th "
    "tl tr ur vi zh".split()
)
PANX_LANGUAGES = tuple(
    "ar he vi id jv ms tl eu ml ta te af nl en de el bn hi mr ur fa fr it pt es bg ru ja ka ko th "
    "sw yo my zh kk tr et fi hu".split()
)
UDPOS_LANGUAGES = tuple(
    "af ar bg de el en es et eu fa fi fr he hi hu id it ja kk ko mr nl pt ru ta te th tl tr ur vi "
    "yo zh".split()
)


_EVERY = ("train", "eval", "test")
_OF_LAYOUTS: Mapping[str, tuple[str, ...]] = {"imdb": ("train", "eval"), "axg": ("test",)}
"""Layouts of files that do not hold every split."""


@dataclass(frozen=True)
class Part:
    """A split of a TFDS dataset.

    Attributes:
        builder: ``name/config``.
        split: of it; ``{mnli_type}`` stands for the flag's value.
        labelled: whether its labels are known. Where not, they are class 0.
    """

    builder: str
    split: str
    labelled: bool = True


@dataclass(frozen=True)
class Task:
    """A classification or regression task.

    Attributes:
        name: of the flag --classification_task_name.
        processor: what the metadata calls it.
        labels: names of the classes, by number; empty for numbers.
        texts: features that hold its texts, in the order of their segments; for TFDS tasks.
        parts: train, eval and test of TFDS tasks.
        layout: kind of its files, see `provender.nlp.finetuning.layouts`; for the others.
        languages: of its test data, where each has a file of its own.
    """

    name: str
    processor: str
    labels: tuple[str, ...]
    texts: tuple[str, ...] = ()
    parts: Mapping[str, Part] | None = None
    layout: str = ""
    languages: tuple[str, ...] = ()

    @property
    def builders(self) -> list[str]:
        """The TFDS datasets that it reads, each once."""
        return list(dict.fromkeys(each.builder for each in (self.parts or {}).values()))

    @property
    def splits(self) -> tuple[str, ...]:
        """Those that it has: of train, eval and test."""
        return tuple(self.parts) if self.parts else _OF_LAYOUTS.get(self.layout, _EVERY)

    @property
    def is_regression(self) -> bool:
        """Whether labels are numbers."""
        return not self.labels


def _tfds(
    name: str,
    builder: str,
    texts: str,
    labels: tuple[str, ...],
    *,
    processor: str = "",
    dev: str = "validation",
) -> Task:
    parts = {
        "train": Part(builder, "train"),
        "eval": Part(builder, dev),
        "test": Part(builder, dev.replace("validation", "test"), labelled=False),
    }
    return Task(name, processor or name, labels, tuple(texts.split()), parts)


def _ax() -> Task:
    parts = {
        "train": Part("glue/mnli", "train"),
        "eval": Part("glue/mnli", "validation_matched"),
        "test": Part("glue/ax", "test", labelled=False),
    }
    return Task("AX", "AX", NLI, ("hypothesis", "premise"), parts)


def _files(
    name: str,
    layout: str,
    labels: tuple[str, ...],
    languages: tuple[str, ...] = (),
    processor: str = "",
) -> Task:
    return Task(name, processor or name, labels, layout=layout, languages=languages)


_TASKS = (
    _ax(),
    _tfds("COLA", "glue/cola", "sentence", ("unacceptable", "acceptable")),
    _files("IMDB", "imdb", ("neg", "pos")),
    _tfds("MNLI", "glue/mnli", "hypothesis premise", NLI, dev="validation_{mnli_type}"),
    _tfds("MRPC", "glue/mrpc", "sentence1 sentence2", ("not_equivalent", "equivalent")),
    _files("PAWS-X", "pawsx", BINARY, PAWSX_LANGUAGES, "XTREME-PAWS-X"),
    _tfds("QNLI", "glue/qnli", "question sentence", RTE),
    _tfds("QQP", "glue/qqp", "question1 question2", ("not_duplicate", "duplicate")),
    _tfds("RTE", "glue/rte", "sentence1 sentence2", RTE),
    _tfds("SST-2", "glue/sst2", "sentence", ("negative", "positive")),
    _tfds("STS-B", "glue/stsb", "sentence1 sentence2", ()),
    _tfds("WNLI", "glue/wnli", "sentence1 sentence2", RTE[::-1]),
    _files("XNLI", "xnli", NLI, XNLI_LANGUAGES),
    _files("XTREME-XNLI", "xtreme", NLI, XNLI_LANGUAGES),
    _files("XTREME-PAWS-X", "xtreme", BINARY, PAWSX_LANGUAGES),
    _files("AX-g", "axg", RTE, processor="AXg"),
    _tfds("SUPERGLUE-RTE", "super_glue/rte", "premise hypothesis", RTE, processor="RTESuperGLUE"),
    _tfds("CB", "super_glue/cb", "premise hypothesis", ("entailment", "contradiction", "neutral")),
    _tfds("BoolQ", "super_glue/boolq", "question passage", ("False", "True")),
    _tfds("WIC", "super_glue/wic", "sentence1 sentence2 word", ("False", "True")),
)

CLASSIFICATION: Mapping[str, Task] = {each.name: each for each in _TASKS}
"""Tasks of --classification_task_name."""


@dataclass(frozen=True)
class Retrieval:
    """A task of finding sentences that translate each other, from languages to English.

    Attributes:
        languages: without English.
        files: split -> name of a file; ``{pair}`` is as in ``de-en``, ``{lang}`` one of the two.
        numbered: whether each line is an id, whose end is a number, a tab and the text.
    """

    languages: tuple[str, ...]
    files: Mapping[str, str]
    numbered: bool


RETRIEVAL: Mapping[str, Retrieval] = {
    "bucc": Retrieval(
        BUCC_LANGUAGES, {"dev": "{pair}.dev.{lang}", "test": "{pair}.test.{lang}"}, True
    ),
    "tatoeba": Retrieval(TATOEBA_LANGUAGES, {"test": "{pair}.{lang}"}, False),
}
"""Tasks of --retrieval_task_name."""


@dataclass(frozen=True)
class Tagging:
    """A task of labelling words.

    Attributes:
        languages: each has its files.
        labels: by number.
    """

    languages: tuple[str, ...]
    labels: tuple[str, ...]


TAGGING: Mapping[str, Tagging] = {
    "panx": Tagging(PANX_LANGUAGES, tuple("O B-PER I-PER B-LOC I-LOC B-ORG I-ORG".split())),
    "udpos": Tagging(
        UDPOS_LANGUAGES,
        tuple(
            "ADJ ADP ADV AUX CCONJ DET INTJ NOUN NUM PART PRON PROPN PUNCT SCONJ SYM VERB X".split()
        ),
    ),
}
"""Tasks of --tagging_task_name."""
