"""Versions as `tf.data`: planned, routed and parsed in whole batches."""

from __future__ import annotations
