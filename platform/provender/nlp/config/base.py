"""A dataclass that documents override, that can be locked, copied and written out again."""

from __future__ import annotations

import copy
import dataclasses
import difflib
import inspect
from collections.abc import Mapping
from typing import Any, Self, get_type_hints

from provender.errors import SettingsError
from provender.nlp.config.errors import LockedConfig, UnknownOption
from provender.nlp.config.typed import fitted

_OWN = ("_locked", "_extra")


@dataclasses.dataclass
class Config:
    """The base of configurations: subclass it as a dataclass in which every field has a default.

    Values are checked against the annotations whenever they are set. A field that is itself a
    `Config` takes a dict and overrides only what the dict names. Where a key is no field, which
    only ``override(..., strict=False)`` allows, a dict becomes a free `Config` with the dict's
    keys as attributes, and so do the dicts in a list, one level deep.

    Raises:
        UnknownOption: an argument that is no field; the nearest field is named.
        SettingsError: a value does not fit its field.
    """

    def __new__(cls, *args: Any, **values: Any) -> Self:
        del args
        taken = {each.name for each in dataclasses.fields(cls) if each.init}
        if not values.keys() <= taken:
            # A subclass may have an __init__ of its own, which takes what it likes.
            parameters = inspect.signature(cls.__init__).parameters
            kinds = {each.kind for each in parameters.values()}
            unknown = [name for name in values if name not in parameters]
            if unknown and inspect.Parameter.VAR_KEYWORD not in kinds:
                raise _unknown(cls, unknown[0], list(parameters)[1:])
        return super().__new__(cls)

    def __setattr__(self, name: str, value: Any) -> None:
        if name in _OWN:
            object.__setattr__(self, name, value)
            return
        if self.is_locked:
            raise LockedConfig(
                f"{type(self).__name__} is locked, so {name} cannot be set.",
                where=type(self).__name__,
                hint=f"Use replace({name}=...), which gives an unlocked copy.",
            )
        hints = _hints(type(self))
        if name in hints:
            value = fitted(hints[name], value, name, type(self).__name__)
        elif name not in self._extras:
            raise self._unknown(name)
        object.__setattr__(self, name, value)

    @property
    def is_locked(self) -> bool:
        """Whether setting a field is refused."""
        return bool(self.__dict__.get("_locked", False))

    @property
    def _extras(self) -> tuple[str, ...]:
        extra: tuple[str, ...] = self.__dict__.get("_extra", ())
        return extra

    def lock(self) -> Self:
        """Makes this configuration, and those in it, read-only; gives it back."""
        for value in self._values().values():
            for each in value if isinstance(value, (list, tuple)) else (value,):
                if isinstance(each, Config):
                    each.lock()
        self._locked = True
        return self

    def override(self, source: Mapping[str, Any] | Config | str, strict: bool = True) -> Self:
        """Sets the fields that a document names, and gives the configuration back.

        Nothing is set where anything is refused.

        Args:
            source: a mapping, a configuration, or the address of a YAML or JSON file.
            strict: refuse keys that are no fields; otherwise they become attributes.

        Returns:
            This configuration.

        Raises:
            UnknownOption: a key that is no field (a KeyError, too); the nearest field is named.
            LockedConfig: this configuration is locked (a ValueError, too).
            SettingsError: a value does not fit its field.
        """
        if self.is_locked:
            raise LockedConfig(
                f"{type(self).__name__} is locked, so it cannot be overridden.",
                where=type(self).__name__,
                hint="Use replace(), which gives an unlocked copy.",
            )
        trial = self.replace()
        trial._take(_document(source), strict)
        self.__dict__.update(trial.__dict__)
        return self

    def _take(self, document: Mapping[str, Any], strict: bool) -> None:
        hints = _hints(type(self))
        for name, value in document.items():
            if name not in hints and name not in self._extras:
                if strict:
                    raise self._unknown(name)
                self._extra = (*self._extras, name)
            current = self.__dict__.get(name)
            if isinstance(current, Config) and isinstance(value, Mapping):
                current._take(value, strict)
            else:
                setattr(self, name, value if name in hints else _freed(value, name))

    def replace(self, **values: Any) -> Self:
        """An unlocked deep copy with some fields set.

        Raises:
            UnknownOption, SettingsError: see `override`.
        """
        made = copy.deepcopy(self)
        made._unlock()
        made._take(values, strict=True)
        return made

    def _unlock(self) -> None:
        self._locked = False
        for value in self._values().values():
            for each in value if isinstance(value, (list, tuple)) else (value,):
                if isinstance(each, Config):
                    each._unlock()

    def as_dict(self) -> dict[str, Any]:
        """Every field by name, deep copies; configurations in it as dicts. `override` reads it."""
        return {name: _plain(value) for name, value in self._values().items()}

    def get(self, name: str, default: Any = None) -> Any:
        """A field by name, or the default where there is none."""
        return self._values().get(name, default)

    def _values(self) -> dict[str, Any]:
        names = (*(each.name for each in dataclasses.fields(self)), *self._extras)
        return {name: self.__dict__[name] for name in names if name in self.__dict__}

    @classmethod
    def from_yaml(cls, path: str) -> Self:
        """A configuration from a YAML file at any address; JSON is YAML, too.

        Raises:
            MissingFiles: there is no such file.
            SettingsError: it is no YAML, holds no mapping, or a value does not fit its field.
            UnknownOption: it names a key that is no field.
        """
        return cls().override(path)

    from_json = from_yaml

    def _unknown(self, name: str) -> UnknownOption:
        return _unknown(type(self), name, list(self._values()) or sorted(_hints(type(self))))

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Config) or type(self) is not type(other):
            return NotImplemented
        return self._values() == other._values()

    __hash__ = None  # type: ignore[assignment]


def _unknown(kind: type, name: str, known: list[str]) -> UnknownOption:
    near = difflib.get_close_matches(str(name), known, 1)
    return UnknownOption(
        f"{kind.__name__} has no key {name!r}.",
        where=kind.__name__,
        hint=f"Did you mean {near[0]!r}?" if near else f"The keys are {', '.join(known)}.",
        facts={"key": name, "nearest": near[0] if near else None},
    )


_resolved: dict[type, dict[str, Any]] = {}


def _hints(kind: type) -> dict[str, Any]:
    """The annotations of a configuration's fields."""
    if kind not in _resolved:
        names = {each.name for each in dataclasses.fields(kind)}
        hints = get_type_hints(kind)
        found = {name: hints[name] for name in names}
        if "__dataclass_params__" not in vars(kind):
            return found  # its own fields are not known before the decorator has run
        _resolved[kind] = found
    return _resolved[kind]


def _document(source: Mapping[str, Any] | Config | str) -> Mapping[str, Any]:
    from provender.nlp.config.documents import read_document

    if isinstance(source, Config):
        return source.as_dict()
    return source if isinstance(source, Mapping) else read_document(source)


def _freed(value: Any, name: str) -> Any:
    """A value of a key that is no field: dicts become free configurations, one level of lists."""
    if isinstance(value, Mapping):
        made = Config()
        made._take(value, strict=False)
        return made
    if isinstance(value, (list, tuple)):
        dicts = [isinstance(each, Mapping) for each in value]
        nested = any(isinstance(each, (list, tuple)) for each in value)
        if nested or (any(dicts) and not all(dicts)):
            raise SettingsError(
                f"{name} mixes values, dicts or lists in one list.",
                where=name,
                hint="A list holds plain values, or dicts only.",
            )
        return type(value)(_freed(each, name) for each in value)
    return value


def _plain(value: Any) -> Any:
    if isinstance(value, Config):
        return value.as_dict()
    if isinstance(value, Mapping):
        return {key: _plain(each) for key, each in value.items()}
    if isinstance(value, (list, tuple)):
        return type(value)(_plain(each) for each in value)
    return copy.deepcopy(value)
