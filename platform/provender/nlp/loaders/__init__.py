"""Data loaders for training language models; `provender.nlp.registry.get_data_loader` makes them.

Importing this package registers all of them.
"""

from __future__ import annotations

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
