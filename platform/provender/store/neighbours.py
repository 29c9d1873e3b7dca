"""Which catalogs build in a store.

Work in progress is named after fingerprints, which do not tell whose it is. So a catalog leaves its
name before it builds in a store for the first time, and whoever clears up asks for the names of
others: what they need, only they know.

    .catalogs/<id>      JSON: the catalog's masked URL, and when it first built here
"""

from __future__ import annotations

import json
from datetime import UTC, datetime

from provender.store.base import Store

FOLDER = ".catalogs"


def announce(store: Store, identity: str, url: str) -> None:
    """Leaves a catalog's name, unless it is there.

    Args:
        store: where it is going to build.
        identity: the catalog's, the same from wherever it is opened; hex digits.
        url: how people know it, without passwords.
    """
    rel = f"{FOLDER}/{identity}"
    if store.stat(rel) is None:
        about = {"catalog": url, "since": datetime.now(UTC).isoformat(timespec="seconds")}
        store.write(rel, json.dumps(about).encode())


def is_announced(store: Store, identity: str) -> bool:
    """Whether a catalog's name is there: if not, the store is away, or is another one.

    Args:
        store: where it builds.
        identity: as it was told to `announce`.
    """
    return store.stat(f"{FOLDER}/{identity}") is not None


def others(store: Store, identity: str | None) -> dict[str, str]:
    """The other catalogs that have built in a store.

    Args:
        store: the store.
        identity: the own one; None where it has never built anything.

    Returns:
        Path of the file that names it -> its URL, or '' where the file cannot be read.
    """
    return {
        each.rel: _url(store, each.rel)
        for each in store.list(FOLDER)
        if each.rel.rpartition("/")[2] != identity
    }


def _url(store: Store, rel: str) -> str:
    try:
        return str(json.loads(store.read(rel))["catalog"])
    except (FileNotFoundError, ValueError, KeyError, TypeError):
        return ""
