"""From a configuration to batches: sources, sharing among hosts, mixtures, parsing, batching."""

from __future__ import annotations

from provender.nlp.reader.reader import InputReader

__all__ = ["InputReader"]
