"""Fine-tuning data: texts of known tasks, and of any TFDS dataset, as TFRecord files.

    options         the flags of the published script, checked
    tasks           which task reads what: tables
    tables          rows of TSV and JSON files and of folders; tfds_rows  rows of TFDS datasets
    classification  rows -> features of sentences and pairs, with a class or a number
    squad           paragraphs and questions; passages, windows  where tokens and answers lie
    retrieval, tagging
    outputs         features -> files, from any number of processes, with the same bytes
    running         which files a call makes, and what the metadata says of them

`create` makes files as the flags say. `write_squad_eval_records` makes the records that questions
are answered from.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from provender.nlp.finetuning.options import Options as Options
    from provender.nlp.finetuning.running import Made as Made
    from provender.nlp.finetuning.running import create as create
    from provender.nlp.finetuning.squad_eval import eval_windows as eval_windows
    from provender.nlp.finetuning.squad_eval import prepare_eval as prepare_eval
    from provender.nlp.finetuning.squad_eval import (
        write_squad_eval_records as write_squad_eval_records,
    )

_HOME = {
    "Made": "running",
    "Options": "options",
    "create": "running",
    "eval_windows": "squad_eval",
    "prepare_eval": "squad_eval",
    "write_squad_eval_records": "squad_eval",
}

__all__ = sorted(_HOME)


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        message = f"module {__name__!r} has no attribute {name!r}"
        raise AttributeError(message)
    value = getattr(import_module(f"{__name__}.{_HOME[name]}"), name)
    globals()[name] = value
    return value
