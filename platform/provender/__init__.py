"""Provender builds, publishes and feeds versioned datasets to training.

    import provender

    builder = provender.builder("digits")     # the TFDS builder interface, run in cached stages
    builder.download_and_prepare()
    train = builder.as_dataset(split="train")

Every public name is imported on first use, so `import provender` costs next to nothing.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from provender import catalog as catalog
    from provender.api import build as build
    from provender.api import builder as builder
    from provender.api import data_source as data_source
    from provender.api import load as load
    from provender.api import plan as plan
    from provender.catalog import Catalog as Catalog
    from provender.data.cache import disable_caching as disable_caching
    from provender.data.cache import enable_caching as enable_caching
    from provender.data.cache import is_caching_enabled as is_caching_enabled
    from provender.data.combine import concatenate_datasets as concatenate_datasets
    from provender.data.combine import interleave_datasets as interleave_datasets
    from provender.data.dataset import Dataset as Dataset
    from provender.data.dataset import DatasetDict as DatasetDict
    from provender.data.dataset import load_from_disk as load_from_disk
    from provender.data.features import ClassLabel as ClassLabel
    from provender.data.features import Features as Features
    from provender.data.features import Value as Value
    from provender.data.loading import load_dataset as load_dataset
    from provender.data.stream import IterableDataset as IterableDataset
    from provender.errors import ProvenderError as ProvenderError
    from provender.fingerprint import Hasher as Hasher
    from provender.refs import DatasetRef as DatasetRef
    from provender.settings import Settings as Settings
    from provender.settings import load_settings as load_settings
    from provender.store import Store as Store
    from provender.training.diary import record_position as record_position
    from provender.training.splits import even_splits as even_splits

__version__ = "0.1.0"

_HOME = {
    "Catalog": "provender.catalog",
    "ClassLabel": "provender.data",
    "Dataset": "provender.data",
    "DatasetDict": "provender.data",
    "DatasetRef": "provender.refs",
    "Features": "provender.data",
    "Hasher": "provender.fingerprint",
    "IterableDataset": "provender.data",
    "ProvenderError": "provender.errors",
    "Settings": "provender.settings",
    "Store": "provender.store",
    "Value": "provender.data",
    "build": "provender.api",
    "builder": "provender.api",
    "concatenate_datasets": "provender.data",
    "data_source": "provender.api",
    "disable_caching": "provender.data",
    "enable_caching": "provender.data",
    "even_splits": "provender.training.splits",
    "interleave_datasets": "provender.data",
    "is_caching_enabled": "provender.data",
    "load": "provender.api",
    "load_dataset": "provender.data.loading",
    "load_from_disk": "provender.data",
    "load_settings": "provender.settings",
    "plan": "provender.api",
    "record_position": "provender.training.diary",
}

__all__ = sorted([*_HOME, "__version__", "catalog"])


def __getattr__(name: str) -> Any:
    if name == "catalog":
        # A package, and a function: `provender.catalog()` opens the catalog for questions.
        return import_module("provender.catalog")
    if name not in _HOME:
        message = f"module {__name__!r} has no attribute {name!r}"
        raise AttributeError(message)
    value = getattr(import_module(_HOME[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return list(__all__)
