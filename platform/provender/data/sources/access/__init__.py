"""Bytes of files by address: found, pinned to one version, and read by ranges that survive faults."""

from __future__ import annotations

from provender.data.sources.access.ahead import ByteStream
from provender.data.sources.access.content import content_of
from provender.data.sources.access.files import DataFile, RangeReader, is_missing, open_reader
from provender.data.sources.access.places import place_of

__all__ = [
    "ByteStream",
    "DataFile",
    "RangeReader",
    "content_of",
    "is_missing",
    "open_reader",
    "place_of",
]
