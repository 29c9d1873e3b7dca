"""Batches as long as their examples need: buckets, windows across replicas, token budgets.

`provender.nlp.dynamic.loader` is the BERT pretraining loader made of them.
"""

from __future__ import annotations

from provender.nlp.dynamic.loader import (
    BertPretrainDynamicDataConfig,
    BertPretrainDynamicDataLoader,
)

__all__ = ["BertPretrainDynamicDataConfig", "BertPretrainDynamicDataLoader"]
