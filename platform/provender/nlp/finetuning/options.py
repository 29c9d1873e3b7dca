"""What is to be made: the flags of the published script, under their names, checked."""

from __future__ import annotations

import difflib
import os
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

from provender.errors import SettingsError
from provender.nlp.finetuning.tasks import (
    CLASSIFICATION,
    PAWSX_LANGUAGES,
    RETRIEVAL,
    TAGGING,
    XNLI_LANGUAGES,
)

TASK_TYPES = ("classification", "regression", "squad", "retrieval", "tagging")
MNLI_TYPES = ("matched", "mismatched")
TOKENIZATIONS = ("WordPiece", "SentencePiece")
_WHERE_TO = ("train", "eval", "test")
_FILES = ("vocab_file", "sp_model_file")
OUTPUTS: Mapping[str, str] = {
    "train_data_output_path": "train",
    "eval_data_output_path": "eval",
    "test_data_output_path": "test.{}",
    "meta_data_file_path": "metadata",
}
"""Options that say where files go, and what stands there for records that go into none."""
_SHORTEST = 5
"""[CLS] a [SEP] b [SEP]"""


def one_of(name: str, value: str, known: Sequence[str]) -> str:
    """The known value that is meant, whatever its case.

    Args:
        name: of the flag.
        value: as given.
        known: values there are.

    Raises:
        SettingsError: there is none; names the nearest ones.
    """
    folded = {each.lower(): each for each in known}
    if value.lower() in folded:
        return folded[value.lower()]
    near = [folded[each] for each in difflib.get_close_matches(value.lower(), folded, 3, 0.5)]
    hint = f"Did you mean {' or '.join(near)}? " if near else ""
    raise SettingsError(
        f"--{name} knows no {value!r}.",
        where=f"--{name}",
        hint=f"{hint}There are {', '.join(known)}.",
        facts={"known": list(known), "nearest": near},
    )


@dataclass(frozen=True)
class Options:
    """How records are made, of what, and where they go.

    Attributes:
        fine_tuning_task_type: classification, regression, squad, retrieval or tagging.
        input_data_dir: folder of a task's files.
        classification_task_name: a name of `provender.nlp.finetuning.tasks.CLASSIFICATION`.
        mnli_type: ``matched`` or ``mismatched`` evaluation data of MNLI.
        xnli_language: language of XNLI's training data, or ``all``.
        pawsx_language: language of PAWS-X's training data, or ``all``.
        translated_input_data_dir: XTREME's folder with translate-train and translate-test.
        retrieval_task_name: ``bucc`` or ``tatoeba``.
        tagging_task_name: ``panx`` or ``udpos``.
        tagging_only_use_en_train: train with English alone.
        squad_data_file: SQuAD's JSON.
        translated_squad_data_folder: folder of more such files, in other languages.
        doc_stride: tokens from one window of a passage to the next.
        max_query_length: most tokens of a question.
        version_2_with_negative: there are questions without an answer (SQuAD 2.0).
        xlnet_format: passage, question and [CLS] in XLNet's order.
        only_use_en_dev: evaluate XTREME's tasks and tagging with English alone.
        vocab_file: WordPiece's vocabulary.
        train_data_output_path: file for training.
        eval_data_output_path: file for evaluation; a folder for retrieval.
        test_data_output_path: file for tests; with ``{}`` for the language where a task has
            several; a folder for retrieval.
        meta_data_file_path: JSON that tells training what was made.
        do_lower_case: lower case text and remove its accents.
        max_seq_length: tokens of a record, padding included.
        sp_model_file: SentencePiece's model.
        tokenization: ``WordPiece`` or ``SentencePiece``.
        tfds_params: ``dataset=NAME,text_key=FEATURE,…``: any TFDS dataset; see `tfds_params`.
        tfds_data_dir: where TFDS datasets lie; by default where TFDS keeps them.
        version_ref: a published version to read instead of a TFDS dataset; or
            ``glue/mnli=REF,glue/ax=REF`` for a task that reads several.

    Raises:
        SettingsError: a value makes no sense, by itself or beside another.
    """

    fine_tuning_task_type: str = "classification"
    input_data_dir: str | None = None
    classification_task_name: str = "MNLI"
    mnli_type: str = "matched"
    xnli_language: str = "en"
    pawsx_language: str = "en"
    translated_input_data_dir: str | None = None
    retrieval_task_name: str = "bucc"
    tagging_task_name: str = "panx"
    tagging_only_use_en_train: bool = True
    squad_data_file: str | None = None
    translated_squad_data_folder: str | None = None
    doc_stride: int = 128
    max_query_length: int = 64
    version_2_with_negative: bool = False
    xlnet_format: bool = False
    only_use_en_dev: bool = True
    vocab_file: str | None = None
    train_data_output_path: str | None = None
    eval_data_output_path: str | None = None
    test_data_output_path: str | None = None
    meta_data_file_path: str | None = None
    do_lower_case: bool = True
    max_seq_length: int = 128
    sp_model_file: str = ""
    tokenization: str = "WordPiece"
    tfds_params: str = ""
    tfds_data_dir: str | None = None
    version_ref: str = ""

    def __post_init__(self) -> None:
        for name, known in (
            ("fine_tuning_task_type", TASK_TYPES),
            ("classification_task_name", tuple(CLASSIFICATION)),
            ("mnli_type", MNLI_TYPES),
            ("xnli_language", (*XNLI_LANGUAGES, "all")),
            ("pawsx_language", (*PAWSX_LANGUAGES, "all")),
            ("retrieval_task_name", tuple(RETRIEVAL)),
            ("tagging_task_name", tuple(TAGGING)),
            ("tokenization", TOKENIZATIONS),
        ):
            object.__setattr__(self, name, one_of(name, getattr(self, name), known))
        if not _SHORTEST <= self.max_seq_length < 1 << 15:
            raise _wrong(f"--max_seq_length is {self.max_seq_length}.", "Use 5 to 32,767.")
        for name in ("doc_stride", "max_query_length"):
            if getattr(self, name) < 1:
                raise _wrong(f"--{name} is {getattr(self, name)}.", "Use 1 or more.")
        self._check_files()
        self._check_sources()

    def _check_files(self) -> None:
        name = "vocab_file" if self.tokenization == "WordPiece" else "sp_model_file"
        if not getattr(self, name):
            raise _wrong(f"{self.tokenization} needs --{name}.", f"Give --{name}.")
        if not self.meta_data_file_path:
            raise _wrong("--meta_data_file_path is not given.", "It is a JSON file to write.")
        if self.fine_tuning_task_type == "retrieval":
            if not (self.eval_data_output_path or self.test_data_output_path):
                raise _wrong(
                    "No output is named.",
                    "Give --eval_data_output_path or --test_data_output_path, a folder.",
                )
        elif not self.train_data_output_path and not self._is_for_tests_alone():
            raise _wrong("--train_data_output_path is not given.", "It is a file to write.")
        self._check_targets()

    def _check_targets(self) -> None:
        read = {name: getattr(self, name) for name in (*_FILES, "squad_data_file")}
        places = {os.path.realpath(path): name for name, path in read.items() if path}
        for name in (*(f"{each}_data_output_path" for each in _WHERE_TO), "meta_data_file_path"):
            path = getattr(self, name)
            if path and os.path.realpath(path) in places:
                other = places[os.path.realpath(path)]
                raise _wrong(f"--{name} is the file of --{other}.", "Write to another file.")

    def _is_for_tests_alone(self) -> bool:
        chosen = CLASSIFICATION[self.classification_task_name]
        kind = self.fine_tuning_task_type
        return kind == "classification" and not self.tfds_params and chosen.layout == "axg"

    def _check_sources(self) -> None:
        kind = self.fine_tuning_task_type
        if kind == "squad":
            if not self.squad_data_file:
                raise _wrong("SQuAD needs --squad_data_file.", "Give its JSON file.")
        elif kind in ("retrieval", "tagging"):
            if not self.input_data_dir:
                raise _wrong(f"{kind} needs --input_data_dir.", "Give the folder of its files.")
        elif not self.tfds_params:
            if kind == "regression":
                raise _wrong(
                    "regression needs --tfds_params.",
                    "Give --tfds_params=dataset=…,text_key=…,label_key=…. STS-B is a "
                    "--classification_task_name, whose labels are numbers.",
                )
            task = CLASSIFICATION[self.classification_task_name]
            if task.builders and self.input_data_dir:
                raise _wrong(
                    f"{task.name} is read by TFDS, not from --input_data_dir.",
                    "Leave it out; --tfds_data_dir says where TFDS datasets lie.",
                )
            if not task.builders and not self.input_data_dir:
                raise _wrong(
                    f"{task.name} needs --input_data_dir.", "Give the folder of its files."
                )

    @classmethod
    def of_records(cls, **flags: Any) -> Options:
        """Options of records that go into no files.

        Args:
            flags: as of the class, without outputs; but ``meta_data_file_path`` may be there.

        Raises:
            SettingsError: a value makes no sense, by itself or beside another.
        """
        return cls(**{**flags, **{name: flags.get(name) or path for name, path in OUTPUTS.items()}})

    @property
    def vocabulary(self) -> Path:
        """The file of the vocabulary or model."""
        return Path(
            (self.vocab_file if self.tokenization == "WordPiece" else self.sp_model_file) or ""
        )

    def to_json(self) -> dict[str, Any]:
        """The options as a JSON-ready dict."""
        return asdict(self)

    @classmethod
    def from_json(cls, doc: Mapping[str, Any]) -> Options:
        """Reads what `to_json` gave."""
        known = {each.name for each in fields(cls)}
        return cls(**{name: value for name, value in doc.items() if name in known})

    def meaning(self) -> dict[str, Any]:
        """What of the options decides on the bytes of records, whatever files are called."""
        places = {f"{each}_data_output_path" for each in _WHERE_TO}
        places |= {"meta_data_file_path", "input_data_dir", "translated_input_data_dir"}
        places |= {"squad_data_file", "translated_squad_data_folder", "tfds_data_dir", *_FILES}
        return {name: value for name, value in self.to_json().items() if name not in places}


def _wrong(message: str, hint: str) -> SettingsError:
    where = next((each for each in message.split() if each.startswith("--")), None)
    return SettingsError(message, where=where and where.rstrip(".,"), hint=hint)
