"""The text pipeline of TF-NLP style model code, on published versions and on files.

    config = DataConfig(input_path="train-*.tfrecord", global_batch_size=512, is_training=True)
    dataset = InputReader(config, features=FEATURES).read(input_context)

Every public name is imported on first use; TensorFlow only when a pipeline is made.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from provender.nlp.config import Config as Config
    from provender.nlp.config import DataConfig as DataConfig
    from provender.nlp.reader import InputReader as InputReader
    from provender.nlp.registry import DataLoader as DataLoader
    from provender.nlp.registry import get_data_loader as get_data_loader
    from provender.nlp.registry import register_data_loader_cls as register_data_loader_cls

_HOME = {
    "Config": "provender.nlp.config",
    "DataConfig": "provender.nlp.config",
    "DataLoader": "provender.nlp.registry",
    "InputReader": "provender.nlp.reader",
    "get_data_loader": "provender.nlp.registry",
    "register_data_loader_cls": "provender.nlp.registry",
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
