"""Datasets as people use them in training code: map-style (`Dataset`) and streamed (`IterableDataset`).

Names are imported on first use, so that ``import provender.data`` costs next to nothing.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

_HOME = {
    "Array2D": "features",
    "Array3D": "features",
    "Array4D": "features",
    "Array5D": "features",
    "Audio": "features",
    "ClassLabel": "features",
    "Column": "dataset",
    "Dataset": "dataset",
    "DatasetDict": "dataset",
    "DatasetInfo": "dataset",
    "Features": "features",
    "Image": "features",
    "IterableDataset": "stream",
    "IterableDatasetDict": "stream",
    "LargeList": "features",
    "List": "features",
    "NamedSplit": "named_split",
    "Sequence": "features",
    "Split": "named_split",
    "Translation": "features",
    "TranslationVariableLanguages": "features",
    "Value": "features",
    "Video": "features",
    "concatenate_datasets": "combine",
    "disable_caching": "cache",
    "disable_progress_bar": "dataset",
    "disable_progress_bars": "dataset",
    "enable_caching": "cache",
    "enable_progress_bar": "dataset",
    "enable_progress_bars": "dataset",
    "interleave_datasets": "combine",
    "is_caching_enabled": "cache",
    "load_dataset": "loading",
    "load_from_disk": "dataset",
    "split_dataset_by_node": "stream",
}

__all__ = sorted(_HOME)


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        message = f"module {__name__!r} has no attribute {name!r}"
        raise AttributeError(message)
    value = getattr(import_module(f"provender.data.{_HOME[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return list(__all__)
