"""BERT pretraining data from plain text: masked tokens and next-sentence pairs as TFRecord files.

The work is made of pieces that depend on nothing but their arguments, so that they can run in any
process, in any order and again:

    tokenize_part   lines of a byte range           -> a token file
    join_parts      all token files, in order       -> a token store, memory-mapped
    plan_task       one pass over some documents    -> instances, sorted into buckets
    write_bucket    one bucket, shuffled and masked -> TFRecord segments, one an output file

Every random number is a function of the seed, the pass, the document and the instance
(`provender.nlp.pretraining.counter`). So neither the number of processes nor an interruption
changes a byte. `create` runs the pieces and joins segments to output files.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from provender.nlp.pretraining.options import Options as Options
    from provender.nlp.pretraining.planning import plan_task as plan_task
    from provender.nlp.pretraining.running import Made as Made
    from provender.nlp.pretraining.running import create as create
    from provender.nlp.pretraining.tokens import TokenStore as TokenStore
    from provender.nlp.pretraining.tokens import join_parts as join_parts
    from provender.nlp.pretraining.tokens import tokenize_part as tokenize_part
    from provender.nlp.pretraining.writing import write_bucket as write_bucket

_HOME = {
    "Made": "running",
    "Options": "options",
    "TokenStore": "tokens",
    "create": "running",
    "join_parts": "tokens",
    "plan_task": "planning",
    "tokenize_part": "tokens",
    "write_bucket": "writing",
}

__all__ = sorted(_HOME)


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        message = f"module {__name__!r} has no attribute {name!r}"
        raise AttributeError(message)
    value = getattr(import_module(f"{__name__}.{_HOME[name]}"), name)
    globals()[name] = value
    return value
