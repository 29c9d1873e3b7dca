"""What is in a dataset, in figures that add up: collected piece by piece, merged exactly.

`Collection` is made of records (serialized ``tf.train.Example``) and merges with others of its
kind; its `Collection.summary` is the document that versions carry. `drift` compares two such
documents. Names are imported on first use: reading a document needs no numpy.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from provender.statistics.collecting import Collection as Collection
    from provender.statistics.collecting import merged as merged
    from provender.statistics.collecting import record_ids as record_ids
    from provender.statistics.drifting import Drift as Drift
    from provender.statistics.drifting import drift as drift
    from provender.statistics.schema import Schema as Schema

_HOME = {
    "Collection": "collecting",
    "Drift": "drifting",
    "Schema": "schema",
    "drift": "drifting",
    "merged": "collecting",
    "record_ids": "collecting",
}

__all__ = sorted(_HOME)


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        message = f"module {__name__!r} has no attribute {name!r}"
        raise AttributeError(message)
    value = getattr(import_module(f"provender.statistics.{_HOME[name]}"), name)
    globals()[name] = value
    return value
