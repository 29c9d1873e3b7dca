"""Builders whose configs are pieces of time, one version a day or an hour.

A builder says how it is cut, and is made with a config for any piece that is asked for:

    class News(tfds.core.GeneratorBasedBuilder):
        VERSION = tfds.core.Version("1.0.0")
        PARTITIONED_BY = "day"

        def _split_generators(self, dl_manager):
            day = self.builder_config.start              # 2026-11-29 00:00 UTC
            path = dl_manager.download(f"https://example.org/{day:%Y/%m/%d}.json.gz")
            ...

``provender build news/2026-11-29`` builds one; ``provender backfill news`` builds a span.
"""

from __future__ import annotations

from datetime import datetime
from functools import cache
from typing import Any

from provender.errors import SettingsError, UnknownReference
from provender.partitions import Partition, check_grain, parse_partition


def grain_of(cls: type) -> str | None:
    """How a builder class says that it is cut, or None.

    Raises:
        SettingsError: it names a grain that does not exist.
    """
    grain = getattr(cls, "PARTITIONED_BY", None)
    return check_grain(grain, f"{cls.__name__}.PARTITIONED_BY") if grain is not None else None


def config_for(cls: type, name: str | None, where: str) -> Any:
    """The config of one piece, for a builder that is cut by time.

    Args:
        cls: the builder class; it has a grain.
        name: the piece, e.g. ``2026-11-29``.
        where: named in the error.

    Returns:
        A `tfds.core.BuilderConfig` with ``name``, ``start`` and ``stop``.

    Raises:
        UnknownReference: the name is missing, or is none of such a piece.
    """
    grain = grain_of(cls)
    if grain is None:
        raise AssertionError
    try:
        partition = parse_partition(name or "", grain)
    except SettingsError as error:
        message = error.message if name else f"{cls.__name__} is built {grain} by {grain}."
        hint = f"Name the {grain} after a slash: NAME/{_example(grain)}."
        raise UnknownReference(message, where=where, hint=hint) from error
    return _config_class()(name=partition.name)


def _example(grain: str) -> str:
    return Partition(datetime(2026, 11, 30), grain).name


@cache
def _config_class() -> Any:
    import tensorflow_datasets as tfds

    class PartitionConfig(tfds.core.BuilderConfig):  # type: ignore[misc]
        """A piece of time; what it covers follows from its name, so the name is all that counts."""

        @property
        def start(self) -> datetime:
            """Its first moment, UTC."""
            return parse_partition(self.name).start

        @property
        def stop(self) -> datetime:
            """The first moment after it, UTC."""
            return parse_partition(self.name).stop

    return PartitionConfig
