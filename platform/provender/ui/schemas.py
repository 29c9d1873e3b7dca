"""Records as JSON documents, and the schema of those documents, both from the dataclass itself."""

from __future__ import annotations

import dataclasses
import typing
from collections.abc import Mapping
from datetime import datetime
from typing import Any

from pydantic import BaseModel, ConfigDict, create_model

_DERIVED = ("name", "examples", "bytes", "seconds", "stage")
_models: dict[type[Any], type[BaseModel]] = {}


def document(record: Any) -> dict[str, Any]:
    """A record as a JSON-ready document: its fields, and the properties that people look for."""
    kind = type(record)
    return {name: _plain(getattr(record, name)) for name in _names(kind)}


def model_of(kind: type[Any]) -> type[BaseModel]:
    """The schema of what `document` makes of a dataclass.

    Args:
        kind: the dataclass; those that its fields hold become schemas of their own.
    """
    if kind not in _models:
        hints = typing.get_type_hints(kind)
        fields: dict[str, Any] = {}
        for name in _names(kind):
            hint = hints.get(name) or typing.get_type_hints(getattr(kind, name).fget)["return"]
            fields[name] = (_schema(hint), ...)
        config = ConfigDict(title=kind.__name__)
        doc = (kind.__doc__ or "").partition("\n")[0]
        made = create_model(kind.__name__, __config__=config, __doc__=doc, **fields)
        _models[kind] = made
    return _models[kind]


def _names(kind: type[Any]) -> list[str]:
    names = [each.name for each in dataclasses.fields(kind)]
    derived = [each for each in _DERIVED if isinstance(getattr(kind, each, None), property)]
    return [*names, *(each for each in derived if each not in names)]


def _schema(hint: Any) -> Any:
    """A type as JSON knows it: dataclasses as models, tuples as lists, mappings as objects."""
    if dataclasses.is_dataclass(hint) and isinstance(hint, type):
        return model_of(hint)
    origin, inner = typing.get_origin(hint), typing.get_args(hint)
    if origin is tuple:
        return list[_schema(inner[0])]  # type: ignore[misc]
    if isinstance(origin, type) and issubclass(origin, Mapping):
        return dict[str, Any]
    if origin is typing.Literal or not inner:
        return hint
    if type(None) in inner:
        (only,) = (each for each in inner if each is not type(None))
        return _schema(only) | None
    return hint


def _plain(value: Any) -> Any:
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return document(value)
    if isinstance(value, Mapping):
        return {str(key): _plain(each) for key, each in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(each) for each in value]
    assert value is None or isinstance(value, (str, int, float, bool, datetime))
    return value
