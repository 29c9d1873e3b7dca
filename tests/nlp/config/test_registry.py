"""Data loaders by the exact class of their configuration."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest

from provender.nlp import DataConfig, DataLoader, get_data_loader, register_data_loader_cls


@dataclasses.dataclass
class OneConfig(DataConfig):
    pass


@dataclasses.dataclass
class ChildConfig(OneConfig):
    pass


@register_data_loader_cls(OneConfig)
class OneLoader(DataLoader):
    def __init__(self, params: OneConfig) -> None:
        self.params = params

    def load(self, input_context: Any = None) -> Any:
        return self.params.global_batch_size


def test_the_loader_of_a_configuration() -> None:
    config = OneConfig(global_batch_size=3)
    loader = get_data_loader(config)
    assert isinstance(loader, OneLoader)
    assert loader.load() == 3


def test_the_exact_class_decides() -> None:
    with pytest.raises(LookupError, match="never registered"):
        get_data_loader(ChildConfig())


def test_a_second_loader_is_refused() -> None:
    with pytest.raises(KeyError, match="registered multiple times"):
        register_data_loader_cls(OneConfig)(OneLoader)
    assert isinstance(get_data_loader(OneConfig()), OneLoader)


def test_a_loader_has_to_load() -> None:
    with pytest.raises(TypeError):
        DataLoader()  # type: ignore[abstract]


def test_a_loader_that_declares_nothing_says_so() -> None:
    with pytest.raises(NotImplementedError, match="OneLoader"):
        OneLoader(OneConfig()).element_spec()
