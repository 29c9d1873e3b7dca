"""Telling the catalog what was computed. What it cannot take now is kept and sent later."""

# ruff: noqa: PTH208

from __future__ import annotations

import logging
import os
import secrets
import time
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from provender.data.cache.files import disk_errors, read_json, remove, write_json
from provender.data.cache.locking import EntryLock
from provender.data.cache.recipe import UNNAMED, Recipe
from provender.errors import CatalogError, ProvenderError

if TYPE_CHECKING:
    from provender.catalog import Catalog

_log = logging.getLogger("provender.data")
_AGAIN_SECONDS = 60.0
_PATIENCE_SECONDS = 2.0
_away: dict[str, float] = {}


class Outbox:
    """Records on their way to the catalog. Each lies in a file before it is sent.

    A record of a computed transform is a stage execution: its key is
    ``transform/<transform>/<name>``, its dataset that of its source, and its inputs are the
    stages, or the published versions, that made what it was made from.

    Args:
        folder: where records wait.
        catalog: URL of the catalog; None records nothing.
    """

    def __init__(self, folder: str, catalog: str | None) -> None:
        self._folder = folder
        self._url = catalog

    def put(self, record: Mapping[str, Any]) -> str | None:
        """Lays a record down to be sent.

        Returns:
            The file it waits in; None where nothing is recorded.

        Raises:
            DiskFull: no space was left.
            StoreError: the folder cannot be written.
        """
        if self._url is None:
            return None
        from provender.catalog.processes import this_process

        me = this_process()
        with disk_errors(self._folder):
            os.makedirs(self._folder, exist_ok=True)
        name = f"{time.time_ns():020d}-{secrets.token_hex(4)}.json"
        path = os.path.join(self._folder, name)
        write_json(path, {**record, "host": me.host, "pid": me.pid})
        return path

    def waiting(self) -> list[str]:
        """The files that wait, oldest first."""
        try:
            names = os.listdir(self._folder)
        except OSError:
            return []
        return sorted(os.path.join(self._folder, each) for each in names if each.endswith(".json"))

    def send(self) -> int:
        """Sends all that waits, oldest first.

        A catalog that cannot be reached is told of once and not asked again for a minute.

        Returns:
            How many records are left.
        """
        url = self._url
        todo = self.waiting()
        if url is None or not todo or time.monotonic() < _away.get(url, 0.0):
            return len(todo)
        lock = EntryLock(os.path.join(os.path.dirname(self._folder), "locks", "lineage"))
        try:
            if not _taken(lock):
                return len(todo)
            try:
                self._send_all(url)
            finally:
                lock.release()
        except Exception as err:  # noqa: BLE001 - the result is there; only its record waits
            if url not in _away:
                about = err.message if isinstance(err, ProvenderError) else repr(err)
                _log.warning(
                    "Lineage could not be recorded and is kept to be sent later: %s", about
                )
            _away[url] = time.monotonic() + _AGAIN_SECONDS
        return len(self.waiting())

    def _send_all(self, url: str) -> None:
        from provender.catalog import Catalog

        with Catalog.open(url) as catalog:
            while todo := self.waiting():
                for path in todo:
                    doc = read_json(path) or {}
                    try:
                        _record(catalog, doc)
                    except (KeyError, TypeError, ValueError) as err:
                        # It would be in the way of all others for ever.
                        _log.warning("A record of lineage is unreadable and dropped: %r", err)
                    if not remove(path):
                        # Sent again and again otherwise.
                        message = "A record that was sent cannot be removed."
                        raise CatalogError(message, where=path)


def _taken(lock: EntryLock) -> bool:
    give_up = time.monotonic() + _PATIENCE_SECONDS
    while not lock.try_acquire():
        if time.monotonic() > give_up:
            return False
        time.sleep(0.02)
    return True


def _record(catalog: Catalog, doc: Mapping[str, Any]) -> None:
    from provender.catalog import ArtifactRecord

    recipe = Recipe.from_json(doc["recipe"])
    inputs: list[str] = []
    sources: list[tuple[str, str]] = []
    for parent in recipe.parents:
        # A version has the fingerprint of the stage that registered it, and is what people know.
        version = catalog.version_by_fingerprint(parent)
        found = version or catalog.find_stage(parent)
        inputs.append(found.id if found else parent)
        if found:
            sources.append((found.dataset, found.config))
    dataset, config = recipe.dataset, recipe.config
    if not dataset:
        dataset, config = sources[0] if sources else (UNNAMED, "")
    output = doc.get("output")
    made = (
        [ArtifactRecord(output["digest"], output["size"], output["uri"], kind="cache", name="rows")]
        if output
        else []
    )
    catalog.record_stage(
        None,
        dataset,
        config,
        recipe.key,
        doc["fingerprint"],
        state=doc["state"],
        reason=doc["reasons"],
        tree=doc["tree"],
        result={
            "parameters": dict(recipe.parameters),
            "parents": list(recipe.parents),
            "compared": doc.get("compared"),
            **doc.get("result", {}),
        },
        outputs=made,
        inputs=inputs,
        started=datetime.fromtimestamp(doc["started"], UTC),
        finished=datetime.fromtimestamp(doc["finished"], UTC),
        host=doc["host"],
        pid=doc["pid"],
        error=doc.get("error"),
    )
