"""XLNet pretraining data from plain text: contiguous rows, with two segments in each record.

    pieces    text -> SentencePiece ids, as XLNet prepares text
    stream    token files -> one stream of tokens on disk, each knowing its sentence
    rows      the stream cut into the rows of a batch, half of them backwards
    segments  where the segments A and B of a record lie
    running   the files of a call

Row k of a batch goes on where row k of the batch before it left off; that is what lets a model reuse
its memory. Every random number is a function of the seed, the task, the pass, the row and the step.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from provender.nlp.xlnet_data.options import Options as Options
    from provender.nlp.xlnet_data.running import Made as Made
    from provender.nlp.xlnet_data.running import create as create

_HOME = {"Made": "running", "Options": "options", "create": "running"}

__all__ = sorted(_HOME)


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        message = f"module {__name__!r} has no attribute {name!r}"
        raise AttributeError(message)
    value = getattr(import_module(f"{__name__}.{_HOME[name]}"), name)
    globals()[name] = value
    return value
