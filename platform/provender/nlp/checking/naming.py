"""Loaders by name: those of this package, and those of other code by where they are."""

from __future__ import annotations

import importlib
import importlib.util
import sys
from pathlib import Path
from typing import Any

from provender.errors import SettingsError, UnknownReference
from provender.nlp import registry
from provender.nlp.config import Config

_LOADERS = "provender.nlp.loaders"
REGISTERED = {
    "bert_pretrain": f"{_LOADERS}:BertPretrainDataConfig",
    "bert_pretrain_dynamic": "provender.nlp.dynamic.loader:BertPretrainDynamicDataConfig",
    "bert_pretrain_text": f"{_LOADERS}:BertPretrainTextDataConfig",
    "dual_encoder": f"{_LOADERS}:DualEncoderDataConfig",
    "question_answering": f"{_LOADERS}:QADataConfig",
    "sentence_prediction": f"{_LOADERS}:SentencePredictionDataConfig",
    "sentence_prediction_text": f"{_LOADERS}:SentencePredictionTextDataConfig",
    "tagging": f"{_LOADERS}:TaggingDataConfig",
    "wmt": f"{_LOADERS}:WMTDataConfig",
    "xlnet_pretrain": f"{_LOADERS}:XLNetPretrainDataConfig",
}
"""Name of a loader of this package -> its configuration."""


def split_name(name: str) -> tuple[str, str]:
    """Module or file, and class, of a loader's name.

    Args:
        name: a name in `REGISTERED`, ``package.module:Class`` or ``file.py:Class``.

    Raises:
        SettingsError: it is none of these.
    """
    module, _, kind = REGISTERED.get(name, name).rpartition(":")
    if not module or not kind:
        raise SettingsError(
            f"There is no loader {name!r}.",
            where="--loader",
            hint=f"Use module:Class, file.py:Class, or one of {', '.join(REGISTERED)}.",
        )
    return module, kind


def config_class(name: str) -> type[Config]:
    """The configuration class that a loader's name means; imports the code.

    A configuration class is named itself, or by the data loader registered for it.

    Raises:
        SettingsError: it names neither a configuration nor a registered data loader.
        UnknownReference: there is no such module, file or class.
    """
    where, kind_name = split_name(name)
    module = _imported(where)
    kind = getattr(module, kind_name, None)
    if kind is None:
        raise UnknownReference(
            f"{where} has no class {kind_name}.", where=where, hint="Check the name."
        )
    if isinstance(kind, type) and issubclass(kind, Config):
        return kind
    if isinstance(kind, type) and issubclass(kind, registry.DataLoader):
        for config, loader in registry.registered().items():
            if loader is kind:
                return config
    raise SettingsError(
        f"{kind_name} is neither a configuration nor a data loader with one.",
        where=where,
        hint="Decorate the data loader with register_data_loader_cls(ItsConfiguration).",
    )


def _imported(where: str) -> Any:
    if not where.endswith(".py"):
        try:
            return importlib.import_module(where)
        except ModuleNotFoundError as error:
            if error.name and where.startswith(error.name):
                raise UnknownReference(
                    f"There is no module {where}.",
                    where=where,
                    hint="Install its package, give file.py:Class, or name its folder by --code.",
                ) from error
            raise
    path = Path(where)
    if not path.exists():
        raise UnknownReference("There is no such file.", where=where, hint="Check the path.")
    sys.path.insert(0, str(path.parent))
    return importlib.import_module(path.stem)
