"""Projects to build in, as the journeys have them."""

from __future__ import annotations

from tests.e2e.conftest import pairs, project

__all__ = ["pairs", "project"]
