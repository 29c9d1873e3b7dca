"""Questions to the catalog: what exists, what it came from, what changed, who reads it.

    import provender

    ask = provender.catalog()                 # the project's catalog
    ask.versions("xsum").to_frame()           # which versions exist, as a pandas frame
    ask.lineage("xsum@latest", "up", depth=2) # what was it made from
    ask.consumed_by("train-7")                # what was this model trained on
    ask.consumers("xsum:1.0.0")               # who would break without it
    ask.as_of("xsum@golden", "2026-03-01")    # what did that mean then

Every answer is a frozen value, or `Rows` of them. Names are imported on first use.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from provender.catalog.answers import AsOf as AsOf
    from provender.catalog.answers import Consumer as Consumer
    from provender.catalog.answers import DatasetSummary as DatasetSummary
    from provender.catalog.answers import Match as Match
    from provender.catalog.answers import Reading as Reading
    from provender.catalog.answers import SearchHit as SearchHit
    from provender.catalog.answers import SplitSummary as SplitSummary
    from provender.catalog.answers import TagRecord as TagRecord
    from provender.catalog.answers import VersionSummary as VersionSummary
    from provender.questions.answers import Input as Input
    from provender.questions.answers import LineageGraph as LineageGraph
    from provender.questions.answers import RunDetails as RunDetails
    from provender.questions.answers import StageRun as StageRun
    from provender.questions.answers import VersionDetails as VersionDetails
    from provender.questions.arguments import moment as moment
    from provender.questions.asking import Questions as Questions
    from provender.questions.asking import catalog as catalog
    from provender.questions.rows import Rows as Rows
    from provender.questions.statistics import FeatureStats as FeatureStats

_HOME = {
    "AsOf": "provender.catalog.answers",
    "Consumer": "provender.catalog.answers",
    "DatasetSummary": "provender.catalog.answers",
    "FeatureStats": "provender.questions.statistics",
    "Input": "provender.questions.answers",
    "LineageGraph": "provender.questions.answers",
    "Match": "provender.catalog.answers",
    "Questions": "provender.questions.asking",
    "Reading": "provender.catalog.answers",
    "Rows": "provender.questions.rows",
    "RunDetails": "provender.questions.answers",
    "SearchHit": "provender.catalog.answers",
    "SplitSummary": "provender.catalog.answers",
    "StageRun": "provender.questions.answers",
    "TagRecord": "provender.catalog.answers",
    "VersionDetails": "provender.questions.answers",
    "VersionSummary": "provender.catalog.answers",
    "catalog": "provender.questions.asking",
    "moment": "provender.questions.arguments",
}

__all__ = sorted(_HOME)


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        message = f"module {__name__!r} has no attribute {name!r}"
        raise AttributeError(message)
    value = getattr(import_module(_HOME[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return list(__all__)
