"""Checks a data loader where it has nothing but its configuration; see `provender nlp check-loader`."""

from __future__ import annotations

from provender.nlp.checking.findings import Finding, Output, Report
from provender.nlp.checking.launch import Asked, check_loader

__all__ = ["Asked", "Finding", "Output", "Report", "check_loader"]
