"""What NLP record files hold: their kind, their examples as text, and figures.

Kinds are told by the features of the first record: BERT and XLNet pretraining, sentences (classes,
numbers or none), tags, questions about passages.
"""

from __future__ import annotations

from provender.nlp.inspecting.reading import Found, look
from provender.nlp.inspecting.sources import sources_of

__all__ = ["Found", "look", "sources_of"]
