"""Builders that make training data of published text, as the scripts of `provender nlp` make files.

    [datasets.xsum_bert]
    builder = "provender.nlp.recipes:BertPretraining"
    version = "1.0.0"
    [datasets.xsum_bert.kwargs]
    source = "xsum:1.1.0"
    text = ["document"]
    vocab_file = "vocab.txt"

They are built like any other dataset: by `provender build`, Airflow and Prefect, with lineage, and not
again while text, vocabulary and options are the same.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from provender.nlp.recipes.bert import BertPretraining as BertPretraining
    from provender.nlp.recipes.sentences import SentencePairs as SentencePairs
    from provender.nlp.recipes.squad import SquadExamples as SquadExamples
    from provender.nlp.recipes.tasks import TaskExamples as TaskExamples
    from provender.nlp.recipes.xlnet import XlnetPretraining as XlnetPretraining

_HOME = {
    "BertPretraining": "bert",
    "SentencePairs": "sentences",
    "SquadExamples": "squad",
    "TaskExamples": "tasks",
    "XlnetPretraining": "xlnet",
}

__all__ = sorted(_HOME)


def __getattr__(name: str) -> Any:
    # A class of TFDS's: without it, importing this package would import TFDS.
    if name not in _HOME:
        message = f"module {__name__!r} has no attribute {name!r}"
        raise AttributeError(message)
    value = getattr(import_module(f"{__name__}.{_HOME[name]}"), name)
    globals()[name] = value
    return value
