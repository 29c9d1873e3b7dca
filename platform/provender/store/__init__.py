"""Where the bytes of datasets live: one interface over local folders and object stores."""

from __future__ import annotations

from provender.store.base import Store
from provender.store.publish import (
    Published,
    publish_directory,
    remove_directory,
    replace_file,
)
from provender.store.values import Digest, Entry, Identity, Progress

__all__ = [
    "Digest",
    "Entry",
    "Identity",
    "Progress",
    "Published",
    "Store",
    "publish_directory",
    "remove_directory",
    "replace_file",
]
