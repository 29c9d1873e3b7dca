"""One exact order for all hosts: every example once an epoch, from any step on.

The example at a place of the order is a function of seed, epoch and place. So no host buffers
anything to shuffle, any number of hosts share one order, and a training goes on where it was saved.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from provender.nlp.order.mixing import Proportions
    from provender.nlp.order.plan import GlobalOrder
    from provender.nlp.order.report import OrderReport
    from provender.nlp.order.source import IndexedSource, Input, indexed_source
    from provender.nlp.order.state import InputState

__all__ = [
    "GlobalOrder",
    "IndexedSource",
    "Input",
    "InputState",
    "OrderReport",
    "Proportions",
    "indexed_source",
]

_HOMES = {
    "GlobalOrder": "plan",
    "IndexedSource": "source",
    "Input": "source",
    "InputState": "state",
    "OrderReport": "report",
    "Proportions": "mixing",
    "indexed_source": "source",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        message = f"module {__name__!r} has no attribute {name!r}"
        raise AttributeError(message)
    from importlib import import_module

    return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
