"""The transform cache: computed tables kept by the fingerprint of what made them.

TransformCache    a cache folder: `find`, `writing`, and what keeps it in order
Entry             one complete result, memory-mapped
Work, Recipe      one computation in progress, and what it is made from
SegmentWriter     commits pieces of a result, from any process
units             how a range of rows is cut; a function of its length alone

Names are imported on first use, so that ``import provender.data.cache`` costs next to nothing.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from provender.data.cache.entry import Entry as Entry
    from provender.data.cache.folder import TransformCache as TransformCache
    from provender.data.cache.layout import Segment as Segment
    from provender.data.cache.layout import missing as missing
    from provender.data.cache.layout import units as units
    from provender.data.cache.recipe import Recipe as Recipe
    from provender.data.cache.segments import SegmentOutput as SegmentOutput
    from provender.data.cache.segments import SegmentWriter as SegmentWriter
    from provender.data.cache.switch import disable_caching as disable_caching
    from provender.data.cache.switch import enable_caching as enable_caching
    from provender.data.cache.switch import is_caching_enabled as is_caching_enabled
    from provender.data.cache.work import Work as Work

_HOME = {
    "Entry": "entry",
    "Recipe": "recipe",
    "Segment": "layout",
    "SegmentOutput": "segments",
    "SegmentWriter": "segments",
    "TransformCache": "folder",
    "Work": "work",
    "disable_caching": "switch",
    "enable_caching": "switch",
    "is_caching_enabled": "switch",
    "missing": "layout",
    "units": "layout",
}

__all__ = sorted(_HOME)


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        message = f"module {__name__!r} has no attribute {name!r}"
        raise AttributeError(message)
    value = getattr(import_module(f"{__name__}.{_HOME[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return list(__all__)
