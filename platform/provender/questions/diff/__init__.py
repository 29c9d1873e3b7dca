"""What differs between two versions: features, splits, figures, causes, and examples.

    ask = provender.catalog()
    found = ask.diff("xsum:1.0.0", "xsum:1.1.0", examples=True, key="id")
    found.examples.splits[0].changed

Names are imported on first use.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from provender.questions.diff.comparing import diff as diff
    from provender.questions.diff.comparing import diff_versions as diff_versions
    from provender.questions.diff.values import Cause as Cause
    from provender.questions.diff.values import ExampleDiff as ExampleDiff
    from provender.questions.diff.values import FeatureChange as FeatureChange
    from provender.questions.diff.values import MetadataChange as MetadataChange
    from provender.questions.diff.values import SplitChange as SplitChange
    from provender.questions.diff.values import SplitExamples as SplitExamples
    from provender.questions.diff.values import VersionDiff as VersionDiff

_HOME = {
    "Cause": "values",
    "ExampleDiff": "values",
    "FeatureChange": "values",
    "MetadataChange": "values",
    "SplitChange": "values",
    "SplitExamples": "values",
    "VersionDiff": "values",
    "diff": "comparing",
    "diff_versions": "comparing",
}

__all__ = sorted(_HOME)


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        message = f"module {__name__!r} has no attribute {name!r}"
        raise AttributeError(message)
    value = getattr(import_module(f"provender.questions.diff.{_HOME[name]}"), name)
    globals()[name] = value
    return value
