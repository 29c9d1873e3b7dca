"""Reading versions: copying one where it is needed, and looking at its first examples."""

from __future__ import annotations

from provender.training.heading import head
from provender.training.pulling import PullReport, pull

__all__ = ["PullReport", "head", "pull"]
