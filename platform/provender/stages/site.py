"""Where a build works on this machine, and the live things that its work needs."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from provender.builders.spec import BuilderSpec
from provender.store import Store

if TYPE_CHECKING:
    from provender.builders.download import ChecksumFile, DownloadManager, DownloadRecord
    from provender.builders.load import Loaded

Progress = Callable[[Mapping[str, Any]], None]
"""Called with JSON-ready facts of a running stage: ``done``, ``total``, ``unit``, ``what``."""


def silent(_: Mapping[str, Any]) -> None:
    """A progress callback that says nothing."""


@dataclass(frozen=True)
class Site:
    """Places and the builder, as data: what a worker process is told when it starts.

    Attributes:
        store: store URL.
        scratch: local folder used for work in progress when the store is remote.
        manual_dir: folder of manual files, or None.
        spec: the builder.
        dataset: dataset name.
        checksums: the project's folder of checksum files.
        mirrors: URL prefix -> replacements.
        offline: never touch the network.
        beam: ``runner`` and ``options`` of Apache Beam, or None for a build without Beam.
    """

    store: str
    scratch: str
    manual_dir: str | None
    spec: BuilderSpec
    dataset: str
    checksums: str
    mirrors: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    offline: bool = False
    beam: Mapping[str, Any] | None = None

    def to_json(self) -> dict[str, Any]:
        """A JSON-ready dict that `from_json` reads."""
        return {
            "store": self.store,
            "scratch": self.scratch,
            "manual_dir": self.manual_dir,
            "spec": self.spec.to_json(),
            "dataset": self.dataset,
            "checksums": self.checksums,
            "mirrors": {prefix: list(each) for prefix, each in self.mirrors.items()},
            "offline": self.offline,
            "beam": None if self.beam is None else dict(self.beam),
        }

    @classmethod
    def from_json(cls, doc: Mapping[str, Any]) -> Site:
        """Reads what `to_json` wrote."""
        mirrors = {prefix: tuple(each) for prefix, each in doc["mirrors"].items()}
        return cls(**{**doc, "spec": BuilderSpec.from_json(doc["spec"]), "mirrors": mirrors})


class Workplace:
    """A `Site` with its store opened and its builder loaded, once, on first use.

    Args:
        site: where and what.
        store: an open store, where the caller has one.
    """

    def __init__(self, site: Site, store: Store | None = None) -> None:
        self.site = site
        self.store = store or Store.open(site.store, scratch=site.scratch)

    @cached_property
    def building(self) -> Path:
        """Local folder for runs, shards under construction and extracted archives."""
        return self.store.local("building") or Path(self.site.scratch) / "building"

    @cached_property
    def objects_dir(self) -> Path:
        """Local folder of content-addressed downloads; the store's own when it is local."""
        return self.store.local("objects") or Path(self.site.scratch) / "objects"

    @cached_property
    def roots(self) -> dict[str, Path]:
        """Root name -> folder, for paths inside a split's arguments."""
        found = {"objects": self.objects_dir, "extracted": self.building / "extracted"}
        if self.site.manual_dir:
            found["manual"] = Path(self.site.manual_dir)
        return found

    @cached_property
    def loaded(self) -> Loaded:
        """The builder; loading it imports user code and tensorflow_datasets."""
        from provender.builders.load import load

        return load(self.site.spec)

    @property
    def checksums(self) -> ChecksumFile:
        """The registered checksums, read anew each time."""
        from provender.builders.facts import checksums_of

        cls = type(self.loaded.builder)
        return checksums_of(cls, self.site.dataset, Path(self.site.checksums))

    def afresh(self) -> Loaded:
        """The builder as its constructor leaves it, from here on also `loaded`.

        What planning or generating left on an instance must not reach the next piece of work:
        which pieces one process does is chance.
        """
        self.__dict__.pop("loaded", None)
        return self.loaded

    def planning_pipeline(self) -> Any:
        """A Beam pipeline that is never run, for planning; None in a build without Beam.

        Raises:
            SettingsError: this Python has no Apache Beam.
        """
        if self.site.beam is None:
            return None
        from provender.stages.beam import planning_pipeline

        return planning_pipeline()

    def download_manager(
        self,
        *,
        recorded: Mapping[str, DownloadRecord],
        online: bool,
        register: bool = False,
        force: bool = False,
        progress: Callable[[str, int, int | None], None] | None = None,
    ) -> DownloadManager:
        """The download manager that the builder's planning method is given.

        Args:
            recorded: URL -> earlier record, used without asking the network.
            online: whether anything else may be fetched.
            register: record checksums into the project's checksum file.
            force: fetch even what is recorded.
            progress: called with URL, bytes done and bytes in all (or None).
        """
        from provender.builders.download import DownloadManager
        from provender.builders.facts import manual_of

        cls = type(self.loaded.builder)
        manual = manual_of(cls)
        return DownloadManager(
            self.site.dataset,
            objects_dir=self.objects_dir,
            extract_dir=self.roots["extracted"],
            manual_dir=self.roots.get("manual"),
            manual_instructions=manual["instructions"] if manual else None,
            manual_files=tuple(manual["files"]) if manual else (),
            checksums=self.checksums,
            register=register,
            mode="online" if online and not self.site.offline else "offline",
            mirrors=self.site.mirrors,
            recorded=recorded,
            upload=None if self.store.is_local else self._upload,
            fetch_missing=None if self.store.is_local else self._fetch,
            force=force,
            progress=progress,
        )

    def _upload(self, path: Path, sha256: str) -> None:
        rel = f"objects/{sha256[:2]}/{sha256}/{path.name}"
        if self.store.stat(rel) is None:
            self.store.put(str(path), rel)

    def _fetch(self, sha256: str, filename: str, dest: Path) -> bool:
        rel = f"objects/{sha256[:2]}/{sha256}/{filename}"
        if self.store.stat(rel) is None:
            return False
        dest.parent.mkdir(parents=True, exist_ok=True)
        self.store.fetch(rel, str(dest))
        return True
