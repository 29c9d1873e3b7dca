"""Configurations: dataclasses that YAML and JSON override, that can be locked and copied."""

from __future__ import annotations

from provender.nlp.config.base import Config
from provender.nlp.config.data import DataConfig
from provender.nlp.config.errors import LockedConfig, UnknownOption
from provender.nlp.config.packing import PackingConfig

__all__ = ["Config", "DataConfig", "LockedConfig", "PackingConfig", "UnknownOption"]
