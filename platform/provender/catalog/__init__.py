"""The catalog: what was built, from what, by whom, and who reads it, in one SQL database.

`Catalog` is the one door. The value objects (`StageRecord`, `VersionRecord`, ...) and the
claims helpers can be imported without SQLAlchemy being loaded; `Catalog` and ``db`` load
SQLAlchemy Core on first use, and nothing here ever loads its ORM.

The package can be called: ``provender.catalog()`` opens the project's catalog for questions, see
`provender.questions`.
"""

from __future__ import annotations

import sys
from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from provender.catalog import db as db
    from provender.catalog.answers import AsOf as AsOf
    from provender.catalog.answers import Consumer as Consumer
    from provender.catalog.answers import DatasetSummary as DatasetSummary
    from provender.catalog.answers import Match as Match
    from provender.catalog.answers import Reading as Reading
    from provender.catalog.answers import SearchHit as SearchHit
    from provender.catalog.answers import SplitSummary as SplitSummary
    from provender.catalog.answers import TagRecord as TagRecord
    from provender.catalog.answers import VersionSummary as VersionSummary
    from provender.catalog.catalog import Catalog as Catalog
    from provender.catalog.claiming import Claim as Claim
    from provender.catalog.claiming import claimed as claimed
    from provender.catalog.processes import Owner as Owner
    from provender.catalog.processes import is_dead as is_dead
    from provender.catalog.processes import this_process as this_process
    from provender.catalog.records import AliasChange as AliasChange
    from provender.catalog.records import AliasRecord as AliasRecord
    from provender.catalog.records import ArtifactRecord as ArtifactRecord
    from provender.catalog.records import CheckRecord as CheckRecord
    from provender.catalog.records import ClaimRecord as ClaimRecord
    from provender.catalog.records import ConsumptionRecord as ConsumptionRecord
    from provender.catalog.records import DatasetRecord as DatasetRecord
    from provender.catalog.records import DownloadRecord as DownloadRecord
    from provender.catalog.records import LeaseRecord as LeaseRecord
    from provender.catalog.records import Lineage as Lineage
    from provender.catalog.records import LineageEdge as LineageEdge
    from provender.catalog.records import LineageNode as LineageNode
    from provender.catalog.records import RunRecord as RunRecord
    from provender.catalog.records import ShardRecord as ShardRecord
    from provender.catalog.records import SplitRecord as SplitRecord
    from provender.catalog.records import SqlResult as SqlResult
    from provender.catalog.records import StageRecord as StageRecord
    from provender.catalog.records import VersionRecord as VersionRecord
    from provender.catalog.views import VIEWS as VIEWS

_HOME = {
    "AsOf": "answers",
    "Consumer": "answers",
    "DatasetSummary": "answers",
    "Match": "answers",
    "Reading": "answers",
    "SearchHit": "answers",
    "SplitSummary": "answers",
    "TagRecord": "answers",
    "VersionSummary": "answers",
    "Catalog": "catalog",
    "Claim": "claiming",
    "claimed": "claiming",
    "Owner": "processes",
    "is_dead": "processes",
    "this_process": "processes",
    "AliasChange": "records",
    "AliasRecord": "records",
    "ArtifactRecord": "records",
    "CheckRecord": "records",
    "LeaseRecord": "records",
    "ClaimRecord": "records",
    "ConsumptionRecord": "records",
    "DatasetRecord": "records",
    "DownloadRecord": "records",
    "Lineage": "records",
    "LineageEdge": "records",
    "LineageNode": "records",
    "RunRecord": "records",
    "ShardRecord": "records",
    "SplitRecord": "records",
    "SqlResult": "records",
    "StageRecord": "records",
    "VersionRecord": "records",
    "VIEWS": "views",
}

__all__ = sorted([*_HOME, "db"])


def __getattr__(name: str) -> Any:
    if name == "db":
        return import_module("provender.catalog.db")
    if name not in _HOME:
        message = f"module {__name__!r} has no attribute {name!r}"
        raise AttributeError(message)
    value = getattr(import_module(f"provender.catalog.{_HOME[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return list(__all__)


class _Callable(ModuleType):
    """A package that opens the project's catalog when it is called."""

    def __call__(self, *args: Any, **options: Any) -> Any:
        # By name: this package stands below the one that asks the questions, and does not know it.
        return import_module("provender.questions").catalog(*args, **options)


sys.modules[__name__].__class__ = _Callable
