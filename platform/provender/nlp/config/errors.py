"""Errors of configurations; each is also the builtin error that such code has always raised."""

from __future__ import annotations

from provender.errors import SettingsError


class UnknownOption(SettingsError, KeyError):
    """A key that a configuration does not have."""


class LockedConfig(SettingsError):
    """A locked configuration was to be changed."""
