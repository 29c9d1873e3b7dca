"""Data loaders for training language models; `provender.nlp.registry.get_data_loader` makes them.

`get_data_loader` registers all of them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from provender.nlp.dynamic.loader import (
        BertPretrainDynamicDataConfig as BertPretrainDynamicDataConfig,
    )
    from provender.nlp.dynamic.loader import (
        BertPretrainDynamicDataLoader as BertPretrainDynamicDataLoader,
    )

from provender.nlp.loaders.bert_pretrain import BertPretrainDataConfig, BertPretrainDataLoader
from provender.nlp.loaders.bert_pretrain_text import (
    BertPretrainTextDataConfig,
    BertPretrainTextDataLoader,
)
from provender.nlp.loaders.dual_encoder import DualEncoderDataConfig, DualEncoderDataLoader
from provender.nlp.loaders.question_answering import QADataConfig, QuestionAnsweringDataLoader
from provender.nlp.loaders.sentence_prediction import (
    SentencePredictionDataConfig,
    SentencePredictionDataLoader,
)
from provender.nlp.loaders.sentence_prediction_text import (
    SentencePredictionTextDataConfig,
    SentencePredictionTextDataLoader,
)
from provender.nlp.loaders.tagging import TaggingDataConfig, TaggingDataLoader
from provender.nlp.loaders.wmt import WMTDataConfig, WMTDataLoader
from provender.nlp.loaders.xlnet_pretrain import XLNetPretrainDataConfig, XLNetPretrainDataLoader

__all__ = [
    "BertPretrainDataConfig",
    "BertPretrainDataLoader",
    "BertPretrainDynamicDataConfig",
    "BertPretrainDynamicDataLoader",
    "BertPretrainTextDataConfig",
    "BertPretrainTextDataLoader",
    "DualEncoderDataConfig",
    "DualEncoderDataLoader",
    "QADataConfig",
    "QuestionAnsweringDataLoader",
    "SentencePredictionDataConfig",
    "SentencePredictionDataLoader",
    "SentencePredictionTextDataConfig",
    "SentencePredictionTextDataLoader",
    "TaggingDataConfig",
    "TaggingDataLoader",
    "WMTDataConfig",
    "WMTDataLoader",
    "XLNetPretrainDataConfig",
    "XLNetPretrainDataLoader",
]

# They import the base classes of this package, so they cannot be imported while it is.
_DYNAMIC = ("BertPretrainDynamicDataConfig", "BertPretrainDynamicDataLoader")


def __getattr__(name: str) -> Any:
    if name not in _DYNAMIC:
        message = f"module {__name__!r} has no attribute {name!r}"
        raise AttributeError(message)
    from provender.nlp.dynamic import loader

    return getattr(loader, name)
