"""Map-style datasets: Arrow tables with features, a format and a fingerprint.

Names are imported on first use, so that ``import provender.data.dataset`` costs next to nothing.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from provender.data.dataset.columnview import Column as Column
    from provender.data.dataset.core import Dataset as Dataset
    from provender.data.dataset.dictionary import DatasetDict as DatasetDict
    from provender.data.dataset.info import DatasetInfo as DatasetInfo
    from provender.data.dataset.saving import load_from_disk as load_from_disk

_HOME = {
    "Column": "columnview",
    "Dataset": "core",
    "DatasetDict": "dictionary",
    "DatasetInfo": "info",
    "disable_progress_bar": "progress",
    "disable_progress_bars": "progress",
    "enable_progress_bar": "progress",
    "enable_progress_bars": "progress",
    "load_from_disk": "saving",
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
