"""Data loaders by the class of their configuration."""

from __future__ import annotations

import abc
from collections.abc import Callable
from typing import Any, TypeVar

from provender.errors import SettingsError
from provender.nlp.config import Config


class RegistryError(SettingsError, KeyError):
    """A configuration that has no data loader, or would have two."""


class DataLoader(abc.ABC):
    """Makes the batches that a model is trained on.

    Args:
        params: the configuration.
    """

    @abc.abstractmethod
    def load(self, input_context: Any = None) -> Any:
        """The batches of one input pipeline.

        Args:
            input_context: a `tf.distribute.InputContext`: which pipeline this is, of how many;
                None for the only one.

        Returns:
            A `tf.data.Dataset` of one host, not distributed: each element is one replica's batch.
        """

    def element_spec(self) -> Any:
        """What `load` gives, told from the configuration alone.

        Returns:
            Nested `tf.TensorSpec`, None standing for the number of rows.

        Raises:
            NotImplementedError: the loader does not declare it.
        """
        raise NotImplementedError(f"{type(self).__name__} declares no element_spec.")


_loaders: dict[type, type[DataLoader]] = {}

_Loader = TypeVar("_Loader", bound=type[DataLoader])


def register_data_loader_cls(config_cls: type) -> Callable[[_Loader], _Loader]:
    """Registers a data loader for a configuration class; a class decorator.

    Args:
        config_cls: the class of the configurations that the loader is made with.

    Raises:
        RegistryError: the class has a data loader already (a KeyError, too).
    """

    def register(loader: _Loader) -> _Loader:
        if config_cls in _loaders:
            raise RegistryError(
                f"{_name(config_cls)} registered multiple times.",
                where=_name(loader),
                hint=f"Its data loader is {_name(_loaders[config_cls])}; subclass the "
                "configuration for another one.",
            )
        _loaders[config_cls] = loader
        return loader

    return register


def get_data_loader(config: Config) -> DataLoader:
    """The data loader of a configuration.

    Args:
        config: a configuration; its exact class decides, that of a parent does not count.

    Raises:
        RegistryError: no data loader is registered for the class (a LookupError, too).
    """
    kind = type(config)
    if kind not in _loaders:
        _import_own()
    if kind not in _loaders:
        known = ", ".join(sorted(each.__name__ for each in _loaders)) or "none"
        raise RegistryError(
            f"The registration key {_name(kind)} is never registered.",
            where=_name(kind),
            hint=f"Decorate its loader with register_data_loader_cls. Registered are: {known}.",
        )
    loader: Callable[[Config], DataLoader] = _loaders[kind]
    return loader(config)


def registered() -> dict[type, type[DataLoader]]:
    """Configuration classes and their data loaders, those of this package included."""
    _import_own()
    return dict(_loaders)


def _import_own() -> None:
    """Imports the data loaders of this package, which register themselves."""
    from importlib import import_module, util

    for name in ("provender.nlp.loaders", "provender.nlp.dynamic"):
        if util.find_spec(name):
            import_module(name)


def _name(kind: type) -> str:
    return f"{kind.__module__}.{kind.__qualname__}"
