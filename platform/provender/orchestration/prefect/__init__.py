"""Prefect flows over the engine's stages.

`prepare_dataset` builds one dataset, `backfill` one for a span of time, `refresh_all` all that the
project names, and `retention` makes room. Each stage is a task; what is cached ends in a state named ``Cached`` whose message says why.
The catalog alone decides what is cached: Prefect's own cache is off everywhere.

Importing this module costs nothing; the first use of a flow imports Prefect.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

_PLACES = {
    "backfill": "backfilling",
    "prepare_dataset": "preparing",
    "refresh_all": "refreshing",
    "retention": "retaining",
    "runner_of": "runners",
}

__all__ = ["backfill", "prepare_dataset", "refresh_all", "retention", "runner_of"]


def __getattr__(name: str) -> Any:
    if name not in _PLACES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_PLACES[name]}"), name)


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
