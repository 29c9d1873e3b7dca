"""From a URL to an object: which of the places that may have the bytes is asked, and in what order."""

from __future__ import annotations

import hashlib
import logging
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

from provender.builders.download.checksums import Checksum, ChecksumFile, mismatch
from provender.builders.download.disk import read_json, write_json
from provender.builders.download.fetch import Fetched, Progress, probe, transfer
from provender.builders.download.locks import file_lock
from provender.builders.download.objects import DownloadRecord, Objects, object_name
from provender.builders.download.retry import Backoff
from provender.builders.download.source_http import HttpSession
from provender.builders.download.urls import (
    UNNAMED,
    mask_url,
    mirror_candidates,
    public_url,
    safe_filename,
    url_filename,
)
from provender.errors import DownloadError, InputError
from provender.store.files import sha256_of

Mode = Literal["online", "offline"]
Upload = Callable[[Path, str], None]
FetchMissing = Callable[[str, str, Path], bool]

_log = logging.getLogger(__name__)
# Where another place is still to be asked, persistence is worth less.
_MIRROR_RETRIES = 2


@dataclass(frozen=True)
class Policy:
    """What may be used in place of a fresh download.

    Attributes:
        dataset: named in messages.
        manual_dir: a file here under a URL's registered name stands for the URL.
        checksums: what contents must be.
        register: take what comes instead of checking it.
        mode: offline never asks upstream.
        mirrors: URL prefix to replacement or replacements.
        recorded: earlier records by public URL.
        upload: told of every object that is new to the records.
        fetch_missing: brings an object from elsewhere into a file; False where it has none.
        force: do not use earlier downloads.
        progress: see `Progress`.
        retries: tries in a row without a new byte.
        timeout: seconds without a byte after which a connection counts as dead.
    """

    dataset: str
    manual_dir: Path | None
    checksums: ChecksumFile
    register: bool
    mode: Mode
    mirrors: Mapping[str, str | Sequence[str]]
    recorded: Mapping[str, DownloadRecord]
    upload: Upload | None
    fetch_missing: FetchMissing | None
    force: bool
    progress: Progress | None
    retries: int
    timeout: float


class Acquirer:
    """Gets URLs into `Objects`; its methods may be called by several threads and processes.

    Args:
        policy: what may be used.
        objects: where the bytes go.
        session: connections for http.
        cancelled: asked now and then; True makes a call end with `Cancelled`.
    """

    def __init__(
        self,
        policy: Policy,
        objects: Objects,
        session: HttpSession,
        cancelled: Callable[[], bool],
    ) -> None:
        self._policy = policy
        self._objects = objects
        self._session = session
        self._cancelled = cancelled

    def get(self, url: str) -> DownloadRecord:
        """The record of a URL whose object is in place.

        Raises:
            DownloadError, ChecksumMismatch, DiskFull, StoreError: see `fetch`.
        """
        policy = self._policy
        expected = None if policy.register else policy.checksums.get(url)
        if (record := self._manual(url, expected)) is not None:
            self._upload(record)
            return record
        recorded = policy.recorded.get(public_url(url))
        if recorded is not None and self._may_reuse(recorded, expected) and self._present(recorded):
            self._report_present(url, recorded.size)
            return recorded
        if (record := self._registered(url, expected)) is not None:
            self._report_present(url, record.size)
            self._upload(record)
            return record
        if policy.mode == "offline":
            raise self._offline_error(url, recorded)
        record = self._online(url, expected, recorded)
        self._upload(record)
        return record

    def path_of(self, record: DownloadRecord) -> Path:
        """Where a record's object lies."""
        return self._objects.root / record.object

    def _may_reuse(self, recorded: DownloadRecord, expected: Checksum | None) -> bool:
        # Registering is for what upstream serves now, so it must not be what it served once.
        if self._policy.mode == "online" and (self._policy.force or self._policy.register):
            return False
        return expected is None or expected.matches(recorded.checksum)

    def _manual(self, url: str, expected: Checksum | None) -> DownloadRecord | None:
        registered = self._policy.checksums.get(url)
        if self._policy.manual_dir is None or registered is None or not registered.filename:
            return None
        path = self._policy.manual_dir / registered.filename
        if not path.is_file():
            return None
        found = self._objects.digests.digest(path)
        if expected is None or expected.matches(found):
            found = self._objects.copy_in(path, found, registered.filename)
        if expected is not None and not expected.matches(found):
            raise mismatch(url, expected, found, self._policy.dataset)
        self._report_present(url, found.size)
        via = f"manual:{registered.filename}"
        return _record(url, found, registered.filename, identity=None, via=via)

    def _registered(self, url: str, expected: Checksum | None) -> DownloadRecord | None:
        if expected is None or (self._policy.force and self._policy.mode == "online"):
            return None
        filename = expected.filename or safe_filename(url_filename(url))
        path = self._locate(expected.sha256, filename)
        if path is None:
            return None
        found = Checksum(expected.sha256, path.stat().st_size)
        if not expected.matches(found):
            return None
        return _record(url, found, filename, identity=None, via="objects")

    def _present(self, record: DownloadRecord) -> bool:
        return self._locate(record.sha256, record.filename) is not None

    def _locate(self, sha256: str, filename: str) -> Path | None:
        """An object that is here, or that the remote store brings; its content is proven."""
        found = self._objects.find(sha256, filename)
        if found is not None or self._policy.fetch_missing is None:
            return found
        folder = self._objects.incoming(f"object-{sha256}")
        with file_lock(folder / "lock", cancelled=self._cancelled):
            if (found := self._objects.find(sha256, filename)) is not None:
                return found
            arrived = folder / "data"
            if not self._policy.fetch_missing(sha256, filename, arrived):
                return None
            got = Checksum(sha256_of(arrived), arrived.stat().st_size)
            if got.sha256 != sha256:
                arrived.unlink(missing_ok=True)
                _log.warning("The store's copy of %s (%s) is damaged.", filename, sha256)
                return None
            return self._objects.put(arrived, got, filename)

    def _online(
        self, url: str, expected: Checksum | None, recorded: DownloadRecord | None
    ) -> DownloadRecord:
        asked_at = time.time()
        public = public_url(url)
        folder = self._objects.incoming(hashlib.sha256(public.encode()).hexdigest()[:40])
        with file_lock(folder / "lock", cancelled=self._cancelled):
            ledger = folder / "last.json"
            record = self._from_ledger(ledger, url, asked_at)
            if record is None:
                record = self._fetch(url, folder / "data", expected, recorded)
                # The content is kept even where it is not what was registered: accepting it, or
                # asking again while upstream has not changed, then costs no second download.
                write_json(ledger, {"record": record.to_json(), "at": time.time()})
        if expected is not None and not expected.matches(record.checksum):
            raise mismatch(url, expected, record.checksum, self._policy.dataset)
        return record

    def _from_ledger(self, ledger: Path, url: str, asked_at: float) -> DownloadRecord | None:
        """The last download of this URL into this folder, if upstream still is what it was."""
        doc = read_json(ledger)
        if doc is None:
            return None
        try:
            record, fetched_at = DownloadRecord.from_json(doc["record"]), float(doc["at"])
        except (KeyError, TypeError, ValueError):
            return None
        if self._objects.find(record.sha256, record.filename) is None:
            return None
        # Somebody fetched it while this call waited for the lock.
        if fetched_at >= asked_at:
            return record
        if self._policy.force or record.identity_token is None:
            return None
        if record.via != mask_url(mirror_candidates(url, self._policy.mirrors)[0]):
            return None
        try:
            now = probe(mirror_candidates(url, self._policy.mirrors)[0], session=self._session)
        except DownloadError:
            return None
        return record if now is not None and now.token == record.identity_token else None

    def _fetch(
        self, url: str, dest: Path, expected: Checksum | None, recorded: DownloadRecord | None
    ) -> DownloadRecord:
        candidates = mirror_candidates(url, self._policy.mirrors)
        for candidate in candidates[:-1]:
            try:
                fetched = self._transfer(candidate, dest, expected, _MIRROR_RETRIES)
            except DownloadError as err:
                _log.warning("Mirror passed over: %s", err.message)
                continue
            if expected is None or expected.matches(fetched.checksum):
                return self._store(url, fetched, recorded)
            _log.warning("Mirror passed over: %s serves other content.", fetched.via)
        fetched = self._transfer(candidates[-1], dest, expected, self._policy.retries)
        return self._store(url, fetched, recorded)

    def _transfer(
        self, candidate: str, dest: Path, expected: Checksum | None, retries: int
    ) -> Fetched:
        return transfer(
            candidate,
            dest,
            expected=expected,
            progress=self._policy.progress,
            backoff=Backoff(retries=min(retries, self._policy.retries)),
            timeout=self._policy.timeout,
            session=self._session,
            cancelled=self._cancelled,
        )

    def _store(self, url: str, fetched: Fetched, recorded: DownloadRecord | None) -> DownloadRecord:
        registered = self._policy.checksums.get(url)
        # The name is part of the path that a builder sees, so it stays what it was if it can.
        filename = (
            (registered.filename if registered else None)
            or (recorded.filename if recorded else None)
            or fetched.filename
        )
        if filename == UNNAMED:
            filename = safe_filename(url_filename(url))
        self._objects.put(fetched.path, fetched.checksum, filename)
        return _record(url, fetched.checksum, filename, identity=fetched.identity, via=fetched.via)

    def _upload(self, record: DownloadRecord) -> None:
        if self._policy.upload is not None:
            self._policy.upload(self.path_of(record), record.sha256)

    def _report_present(self, url: str, size: int | None) -> None:
        if self._policy.progress is not None:
            self._policy.progress(mask_url(url), size or 0, size)

    def _offline_error(self, url: str, recorded: DownloadRecord | None) -> InputError:
        shown = mask_url(url)
        if recorded is None:
            reason = "it was not downloaded before"
        else:
            reason = (
                f"its recorded content (sha256 {recorded.sha256}) is neither here nor in the store"
            )
        return DownloadError(
            f"{shown} is needed offline, and {reason}.",
            where=shown,
            hint=f"Run the download stage of {self._policy.dataset} with the network, or place the "
            "file in manual_dir under its registered name.",
            facts={"url": public_url(url), "transient": False, "status": None},
        )


def _record(
    url: str, checksum: Checksum, filename: str, *, identity: str | None, via: str
) -> DownloadRecord:
    name = safe_filename(filename)
    return DownloadRecord(
        url=public_url(url),
        sha256=checksum.sha256,
        size=checksum.size or 0,
        filename=name,
        identity_token=identity,
        object=object_name(checksum.sha256, name),
        via=via,
    )


def by_public_url(recorded: Mapping[str, DownloadRecord]) -> dict[str, DownloadRecord]:
    """Records keyed as they are looked up, whichever form of the URL they were keyed by."""
    return {
        public_url(url): replace(record, url=public_url(url)) for url, record in recorded.items()
    }
