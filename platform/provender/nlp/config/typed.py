"""Values that fit a field's annotation: checked, and made of what YAML and JSON can say."""

from __future__ import annotations

import collections.abc
import numbers
import types
from collections.abc import Mapping
from typing import Any, Literal, Union, get_args, get_origin

from provender.errors import SettingsError

_SEQUENCES = (list, tuple, collections.abc.Sequence)


class Misfit(Exception):
    """A value is not what an annotation asks for."""


def fitted(hint: Any, value: Any, name: str, where: str) -> Any:
    """The value as a field of this annotation holds it.

    Lists become tuples where the field is a tuple, whole numbers become floats where it is a
    float, and dicts become the configuration that it is annotated with.

    Args:
        hint: the annotation, resolved.
        value: what was given.
        name: the field.
        where: the configuration's class.

    Raises:
        SettingsError: the value does not fit; the message says what does.
    """
    try:
        return _fit(hint, value)
    except Misfit:
        raise SettingsError(
            f"{name} must be {worded(hint)}, got {value!r}.",
            where=where,
            hint=f"Give {name} such a value.",
        ) from None


def worded(hint: Any) -> str:
    """An annotation in words."""
    origin, inner = get_origin(hint), get_args(hint)
    if hint is type(None):
        return "None"
    if origin in (Union, types.UnionType):
        return " or ".join(worded(each) for each in inner)
    if origin is Literal:
        return "one of " + ", ".join(repr(each) for each in inner)
    if origin in _SEQUENCES and inner:
        return f"a list of {worded(inner[0])}"
    if origin in (dict, collections.abc.Mapping) and inner:
        return f"a dict of {worded(inner[1])} by name"
    return {bool: "true or false", int: "a whole number", float: "a number", str: "a text"}.get(
        hint, getattr(hint, "__name__", str(hint))
    )


def _fit(hint: Any, value: Any) -> Any:
    origin = get_origin(hint)
    if hint is Any:
        return value
    if origin in (Union, types.UnionType):
        return _any_of(get_args(hint), value)
    if origin is Literal:
        if value not in get_args(hint):
            raise Misfit
        return value
    if origin in _SEQUENCES or hint in (list, tuple):
        return _sequence(hint, value)
    if origin in (dict, collections.abc.Mapping):
        return _mapping(get_args(hint), value)
    if isinstance(hint, type):
        return _instance(hint, value)
    return value


def _any_of(hints: tuple[Any, ...], value: Any) -> Any:
    # An exact type first, or `int | float` would hang on the order of the two.
    for each in sorted(hints, key=lambda one: type(value) is not one):
        try:
            return _fit(each, value)
        except Misfit:
            continue
    raise Misfit


def _sequence(hint: Any, value: Any) -> Any:
    if not isinstance(value, (list, tuple)):
        raise Misfit
    inner = get_args(hint)
    if get_origin(hint) is tuple and inner and inner[-1] is not Ellipsis:
        if len(inner) != len(value):
            raise Misfit
        return tuple(_fit(kind, each) for kind, each in zip(inner, value, strict=True))
    values = [_fit(inner[0], each) for each in value] if inner else list(value)
    wants_tuple = (get_origin(hint) or hint) is tuple
    keeps_tuple = get_origin(hint) is collections.abc.Sequence and isinstance(value, tuple)
    return tuple(values) if wants_tuple or keeps_tuple else values


def _mapping(inner: tuple[Any, ...], value: Any) -> Any:
    if not isinstance(value, Mapping):
        raise Misfit
    if not inner:
        return dict(value)
    return {_fit(inner[0], key): _fit(inner[1], each) for key, each in value.items()}


def _instance(hint: type, value: Any) -> Any:
    from provender.nlp.config.base import Config

    if hint in (int, float):
        if isinstance(value, bool):
            raise Misfit
        if hint is int and isinstance(value, numbers.Integral):
            return int(value)
        if hint is float and isinstance(value, numbers.Real):
            return float(value)
        raise Misfit
    if issubclass(hint, Config) and isinstance(value, Mapping):
        return hint().override(value)
    if not isinstance(value, hint):
        raise Misfit
    return value
