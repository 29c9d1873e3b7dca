"""The download manager that a builder's ``_split_generators`` is given.

It has the face of ``tfds.download.DownloadManager``, so builders written for TFDS run unchanged,
and keeps what TFDS does not: which URL gave which bytes, and paths that depend on the bytes alone.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from provender.builders.download.acquire import (
    Acquirer,
    FetchMissing,
    Mode,
    Policy,
    Upload,
    by_public_url,
)
from provender.builders.download.archive import (
    NO_EXTRACT,
    ArchiveFiles,
    archive_method,
    normal_method,
)
from provender.builders.download.checksums import ChecksumFile
from provender.builders.download.fetch import Progress
from provender.builders.download.inputs import (
    FileList,
    leaves,
    map_leaves,
    method_of,
    path_of,
    url_of,
)
from provender.builders.download.manual import require_manual
from provender.builders.download.objects import DownloadRecord, Objects
from provender.builders.download.source_http import HttpSession
from provender.builders.download.source_kaggle import kaggle_url
from provender.builders.download.unpack import extract
from provender.builders.download.urls import public_url
from provender.errors import BuilderError, InputError

if TYPE_CHECKING:
    from etils import epath  # type: ignore[import-untyped]


class DownloadManager:
    """Downloads, extracts and finds files for one dataset.

    For each URL these are asked in order: ``manual_dir`` for a file of the URL's registered name;
    the recorded download; an object that has the registered checksum (here, then through
    ``fetch_missing``); the last download into this folder if upstream has not changed since;
    mirrors; the URL itself.

    Args:
        dataset_name: named in messages.
        objects_dir: local folder of downloads, kept by content.
        extract_dir: local folder of unpacked archives, kept by content of the archive.
        manual_dir: folder of files placed by hand.
        manual_instructions: the builder's MANUAL_DOWNLOAD_INSTRUCTIONS; without them a builder
            may not use ``manual_dir``.
        manual_files: names or globs that must be in ``manual_dir``; see `check_manual`.
        checksums: what contents must be; unregistered URLs are taken as they come.
        register: write the checksums of what is downloaded instead of checking them.
        mode: ``offline`` uses only what was recorded or registered and is at hand.
        mirrors: URL prefix to its replacement or replacements, tried before the URL.
        recorded: what URLs gave before, by URL; reused without asking upstream.
        upload: called with path and sha256 of each object that is new to the records.
        fetch_missing: called with sha256, file name and the path to write; returns whether the
            object could be had.
        force: download again, whatever is at hand.
        workers: downloads and extractions at a time.
        progress: called with masked URL, bytes so far, and total or None; by several threads.
        retries: tries in a row without a new byte before a URL is given up.
        timeout: seconds without a byte after which a connection counts as dead.
    """

    def __init__(
        self,
        dataset_name: str,
        *,
        objects_dir: Path,
        extract_dir: Path,
        manual_dir: Path | None = None,
        manual_instructions: str | None = None,
        manual_files: Sequence[str] = (),
        checksums: ChecksumFile | None = None,
        register: bool = False,
        mode: Mode = "online",
        mirrors: Mapping[str, str | Sequence[str]] | None = None,
        recorded: Mapping[str, DownloadRecord] | None = None,
        upload: Upload | None = None,
        fetch_missing: FetchMissing | None = None,
        force: bool = False,
        workers: int = 8,
        progress: Progress | None = None,
        retries: int = 6,
        timeout: float = 60.0,
    ) -> None:
        self._policy = Policy(
            dataset=dataset_name,
            manual_dir=Path(manual_dir).expanduser() if manual_dir is not None else None,
            checksums=ChecksumFile() if checksums is None else checksums,
            register=register,
            mode=mode,
            mirrors=dict(mirrors or {}),
            recorded=by_public_url(recorded or {}),
            upload=upload,
            fetch_missing=fetch_missing,
            force=force,
            progress=progress,
            retries=retries,
            timeout=timeout,
        )
        self._manual_instructions = manual_instructions
        self._manual_files = tuple(manual_files)
        self._extract_dir = Path(extract_dir).expanduser().absolute()
        self._workers = max(1, workers)
        self._objects = Objects(Path(objects_dir).expanduser().absolute())
        self._asked: dict[str, None] = {}
        self._records: dict[str, DownloadRecord] = {}
        self._uses_manual_dir = False
        if register:
            self._policy.checksums.ensure_writable()
        self._start()

    def _start(self) -> None:
        self._stop = threading.Event()
        self._lock = threading.Lock()
        self._session = HttpSession(self._policy.timeout)
        self._acquirer = Acquirer(self._policy, self._objects, self._session, self._stop.is_set)

    # ------------------------------------------------------------------ the face TFDS builders know

    def download(self, url_or_urls: Any) -> Any:
        """Downloads URLs: a ``str``, path or ``tfds.download.Resource``, or nested dicts and lists.

        Returns:
            The same structure of ``epath.Path``.

        Raises:
            DownloadError, ChecksumMismatch, DiskFull, StoreError: see `fetch`.
        """
        self._ask(url_or_urls)
        return self._each(self._download_one, url_or_urls)

    def extract(self, path_or_paths: Any) -> Any:
        """Unpacks archives, each into a folder named after its content; see `unpack.extract`.

        Returns:
            The same structure of ``epath.Path``: a folder, or a file where the archive is a single
            compressed file, or the path itself where it is no archive.

        Raises:
            ArchiveError, DiskFull, StoreError: see `unpack.extract`.
        """
        return self._each(self._extract_one, path_or_paths)

    def download_and_extract(self, url_or_urls: Any) -> Any:
        """`download`, then `extract`."""

        def both(leaf: Any) -> epath.Path:
            return self._extract_path(Path(self._download_one(leaf)), method_of(leaf))

        self._ask(url_or_urls)
        return self._each(both, url_or_urls)

    def iter_archive(self, resource: Any) -> ArchiveFiles:
        """The files in an archive, read without unpacking it; may be iterated any number of times.

        Args:
            resource: a path or ``tfds.download.Resource``.
        """
        path = path_of(resource)
        return ArchiveFiles(path, method_of(resource), sha256=self._objects.sha256_of_object(path))

    def iter_files(self, path_or_paths: Any) -> FileList:
        """All files at or below paths, sorted, hidden ones left out; may be iterated repeatedly."""
        return FileList(tuple(path_of(leaf) for leaf in leaves(path_or_paths)))

    @property
    def manual_dir(self) -> epath.Path:
        """The folder of files placed by hand, checked first.

        Raises:
            BuilderError: the builder gives no MANUAL_DOWNLOAD_INSTRUCTIONS.
            ManualFilesMissing: files are missing; all are named.
        """
        if not self._manual_instructions:
            raise BuilderError(
                f"The builder of {self._policy.dataset} uses dl_manager.manual_dir without telling "
                "people how to fill it.",
                where="MANUAL_DOWNLOAD_INSTRUCTIONS",
                hint="Set MANUAL_DOWNLOAD_INSTRUCTIONS on the builder class.",
            )
        folder = require_manual(
            self._policy.manual_dir,
            self._manual_files,
            dataset=self._policy.dataset,
            instructions=self._manual_instructions,
        )
        self._uses_manual_dir = True
        return _epath(folder)

    @property
    def download_dir(self) -> epath.Path:
        """The folder of downloads; builders that fetch by themselves may keep files below it."""
        return _epath(self._objects.root)

    @property
    def downloaded_size(self) -> int:
        """Bytes of all downloads used so far, each URL once."""
        return sum(record.size for record in self.records)

    @property
    def register_checksums(self) -> bool:
        """Whether checksums are being written instead of checked."""
        return self._policy.register

    def download_checksums(self, checksums_url: str) -> None:
        """Downloads a checksum file and checks later downloads against it as well."""
        path = Path(self.download(checksums_url))
        self._policy.checksums.update(ChecksumFile.load(path).entries())

    def download_kaggle_data(self, competition_or_dataset: str) -> epath.Path:
        """Downloads and unpacks a Kaggle data set (``owner/name``) or competition."""
        path: epath.Path = self.download_and_extract(kaggle_url(competition_or_dataset))
        return path

    # --------------------------------------------------------------------------- what was used

    @property
    def records(self) -> list[DownloadRecord]:
        """What each URL gave, in the order in which the builder first asked for them."""
        with self._lock:
            return [self._records[url] for url in self._asked if url in self._records]

    @property
    def uses_manual_dir(self) -> bool:
        """Whether the builder asked for ``manual_dir``."""
        return self._uses_manual_dir

    def to_json(self) -> list[dict[str, Any]]:
        """`records` as JSON."""
        return [record.to_json() for record in self.records]

    @staticmethod
    def records_from_json(docs: Sequence[dict[str, Any]]) -> dict[str, DownloadRecord]:
        """What `to_json` gave, as the ``recorded`` argument of another manager."""
        return {doc["url"]: DownloadRecord.from_json(doc) for doc in docs}

    def path_of(self, record: DownloadRecord) -> Path:
        """Where a record's object lies on this machine."""
        return self._acquirer.path_of(record)

    def __fingerprint__(self) -> tuple[str, list[tuple[str, str]]]:
        """A manager handed on to ``_generate_examples`` stands for the bytes it downloaded."""
        return ("downloads", sorted((record.url, record.sha256) for record in self.records))

    def close(self) -> None:
        """Closes connections; the manager can still be used and opens new ones."""
        self._session.close()

    def __enter__(self) -> DownloadManager:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def __getstate__(self) -> dict[str, Any]:
        """For other processes: without connections, and without callbacks, which are of this one."""
        state = self.__dict__.copy()
        for name in ("_stop", "_lock", "_session", "_acquirer"):
            del state[name]
        state["_policy"] = replace(self._policy, upload=None, fetch_missing=None, progress=None)
        return state

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._start()

    # ---------------------------------------------------------------------------------- the work

    def _each(self, work: Callable[[Any], epath.Path], tree: Any) -> Any:
        """Applies work to all leaves at once; the first failure stops the rest, parts stay."""
        listed = list(leaves(tree))
        try:
            if len(listed) < 2:
                results = [work(leaf) for leaf in listed]
            else:
                results = self._in_threads(work, listed)
        finally:
            self._register()
        remaining = iter(results)
        return map_leaves(lambda _leaf: next(remaining), tree)

    def _in_threads(self, work: Callable[[Any], epath.Path], listed: list[Any]) -> list[epath.Path]:
        with ThreadPoolExecutor(min(self._workers, len(listed)), "provender-download") as pool:
            futures = [pool.submit(work, leaf) for leaf in listed]
            try:
                done, _ = wait(futures, return_when=FIRST_EXCEPTION)
                for future in done:
                    future.result()
                return [future.result() for future in futures]
            except BaseException:
                self._stop.set()
                pool.shutdown(wait=True, cancel_futures=True)
                self._stop.clear()
                raise

    def _download_one(self, leaf: Any) -> epath.Path:
        url = url_of(leaf)
        key = public_url(url)
        with self._lock:
            known = self._records.get(key)
        record = known or self._acquirer.get(url)
        if known is None:
            with self._lock:
                record = self._records.setdefault(key, record)
        return _epath(self._acquirer.path_of(record))

    def _extract_one(self, leaf: Any) -> epath.Path:
        return self._extract_path(path_of(leaf), method_of(leaf))

    def _extract_path(self, path: Path, method: Any) -> epath.Path:
        name = normal_method(method or archive_method(path.name))
        if name == NO_EXTRACT:
            return _epath(path)
        if not path.is_file():
            raise InputError("There is no archive to unpack here.", where=str(path))
        sha256 = self._objects.sha256_of_object(path) or self._objects.digests.digest(path).sha256
        folder = self._extract_dir / sha256[:2] / sha256
        return _epath(extract(path, folder / name, name, cancelled=self._stop.is_set))

    def _ask(self, tree: Any) -> None:
        """Notes the order of first use, which is not that in which threads finish."""
        with self._lock:
            self._asked |= dict.fromkeys(public_url(url_of(leaf)) for leaf in leaves(tree))

    def _register(self) -> None:
        if self._policy.register and self._records:
            self._policy.checksums.register({r.url: r.checksum for r in self.records})


def _epath(path: Path) -> epath.Path:
    from etils import epath

    return epath.Path(path)
