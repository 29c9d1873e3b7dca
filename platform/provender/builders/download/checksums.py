"""Registered checksums, in the formats of TensorFlow Datasets.

``checksums.tsv`` beside a builder's module, one line a URL: ``url<TAB>size<TAB>sha256<TAB>filename``;
the older ``url_checksums/<dataset>.txt`` has the same lines or ``url size sha256`` between spaces.
Files that belong to an installed package are read and never written.
"""

from __future__ import annotations

import hashlib
import re
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from provender.builders.download.disk import write_atomic
from provender.builders.download.locks import file_lock
from provender.builders.download.urls import mask_url, public_url, safe_filename
from provender.errors import ChecksumMismatch, InputError, SettingsError

CHECKSUMS_NAME = "checksums.tsv"
_INSTALLED = frozenset({"site-packages", "dist-packages"})


@dataclass(frozen=True, slots=True)
class Checksum:
    """What a URL's content must be.

    Attributes:
        sha256: hex digest of the content, lower case.
        size: bytes, where known.
        filename: the name the content is stored under, where known; not part of the check.
    """

    sha256: str
    size: int | None = None
    filename: str | None = None

    def matches(self, other: Checksum) -> bool:
        """Whether both stand for the same bytes."""
        return self.sha256 == other.sha256 and (
            self.size is None or other.size is None or self.size == other.size
        )


class ChecksumFile:
    """The registered checksums of one builder.

    Args:
        entries: URL to checksum.
        write_to: the file that `register` merges into, or None where none may be written.
        sources: the files that ``entries`` were read from.
    """

    def __init__(
        self,
        entries: Mapping[str, Checksum] | None = None,
        *,
        write_to: Path | None = None,
        sources: tuple[Path, ...] = (),
    ) -> None:
        self._entries = dict(entries or {})
        self.write_to = write_to
        self.sources = sources

    @classmethod
    def load(cls, path: Path) -> ChecksumFile:
        """Reads one file, which is also the one to write to unless it belongs to a package.

        Raises:
            InputError: a line has none of the formats, or the file cannot be read.
        """
        writable = None if is_installed(path) else path
        if not path.exists():
            return cls(write_to=writable)
        return cls(_read(path), write_to=writable, sources=(path,))

    @classmethod
    def parse(cls, text: str, where: str = "checksums") -> ChecksumFile:
        """Reads the text of a file; ``where`` names it in errors."""
        return cls(_parse(text, where))

    @classmethod
    def for_builder(cls, builder_cls: type, *, project_file: Path | None = None) -> ChecksumFile:
        """The checksums that belong to a builder class.

        Read, later ones overriding: the files beside the modules of its base classes, those beside
        its own, ``project_file``. Written: ``project_file``, else ``checksums.tsv`` beside its own
        module unless that lies in an installed package.

        Args:
            builder_cls: the class; an attribute ``name`` is the dataset's name.
            project_file: a file of the user's project for builders that come from packages.
        """
        entries: dict[str, Checksum] = {}
        sources: list[Path] = []
        for base in reversed(builder_cls.__mro__):
            for path in _files_of(base):
                if path.is_file() and path not in sources:
                    entries |= _read(path)
                    sources.append(path)
        if project_file is not None and project_file.is_file() and project_file not in sources:
            entries |= _read(project_file)
            sources.append(project_file)
        write_to = project_file
        if write_to is None and (module := _module_file(builder_cls)):
            beside = module.parent / CHECKSUMS_NAME
            write_to = None if is_installed(beside) else beside
        return cls(entries, write_to=write_to, sources=tuple(sources))

    def __len__(self) -> int:
        return len(self._entries)

    def entries(self) -> dict[str, Checksum]:
        """A copy of all entries, by URL."""
        return dict(self._entries)

    def get(self, url: str) -> Checksum | None:
        """The checksum of a URL, as written or without its secrets; None where not registered."""
        return self._entries.get(url) or self._entries.get(public_url(url))

    def update(self, entries: Mapping[str, Checksum]) -> None:
        """Adds entries in memory only."""
        self._entries.update(entries)

    def digest(self) -> str:
        """SHA-256 over all entries in URL order: equal digests mean equal checks."""
        return hashlib.sha256(_render(self._entries).encode()).hexdigest()

    def ensure_writable(self) -> Path:
        """The file that `register` writes to.

        Raises:
            SettingsError: there is none.
        """
        if self.write_to is None:
            raise SettingsError(
                "Checksums of a builder from an installed package cannot be registered beside it.",
                where=", ".join(map(str, self.sources)) or None,
                hint="Name a file of your project to write them to, such as checksums/<dataset>.tsv.",
            )
        return self.write_to

    def register(self, entries: Mapping[str, Checksum]) -> None:
        """Merges entries into the file and this object; safe against other processes doing so.

        Raises:
            SettingsError: there is no file that may be written.
            StoreError: the file cannot be written; DiskFull where that is the reason.
        """
        write_to = self.ensure_writable()
        public = {public_url(url): checksum for url, checksum in entries.items()}
        with file_lock(write_to.with_name(f".{write_to.name}.lock")):
            before = _read(write_to) if write_to.is_file() else {}
            if before | public != before:
                write_atomic(write_to, _render(before | public).encode())
        self._entries.update(public)
        self._entries.update({url: c for url, c in entries.items() if url in self._entries})


def is_installed(path: Path) -> bool:
    """Whether a path lies in an installed package, which is nobody's to edit."""
    return bool(_INSTALLED.intersection(path.absolute().parts))


def mismatch(url: str, expected: Checksum, got: Checksum, dataset: str) -> ChecksumMismatch:
    """The error for content that is not what was registered, with old, new and the way on."""
    old_size = "unknown size" if expected.size is None else f"{expected.size:,} bytes"
    return ChecksumMismatch(
        f"The content of {mask_url(url)} is not what was registered.\n"
        f"  registered: {old_size}, sha256 {expected.sha256}\n"
        f"  got:        {got.size or 0:,} bytes, sha256 {got.sha256}",
        where=mask_url(url),
        hint=f"If the new content is right, accept it: provender build {dataset} "
        "--register-checksums (and give the dataset a new version). Otherwise place the registered "
        "file in manual_dir under its registered name, or add a mirror.",
        facts={
            "url": public_url(url),
            "transient": False,
            "registered": {"size": expected.size, "sha256": expected.sha256},
            "got": {"size": got.size, "sha256": got.sha256},
        },
    )


def _read(path: Path) -> dict[str, Checksum]:
    try:
        return _parse(path.read_text(encoding="utf-8"), str(path))
    except (OSError, UnicodeDecodeError) as err:
        raise InputError(f"The checksum file cannot be read: {err}.", where=str(path)) from err


def _parse(text: str, where: str) -> dict[str, Checksum]:
    found: dict[str, Checksum] = {}
    # Not splitlines(): it also breaks at characters that a URL may hold.
    for number, raw in enumerate(text.split("\n"), start=1):
        line = raw.strip("\r ")
        if not line or line.startswith("#"):
            continue
        fields = line.split("\t")
        if len(fields) == 1:
            fields = line.rsplit(" ", 2)
        if len(fields) not in (3, 4) or not fields[1].isdigit() or not _is_sha256(fields[2]):
            raise InputError(
                "This line is no checksum.",
                where=f"{where}:{number}",
                hint="Write url, size, sha256 and file name, separated by tabs.",
            )
        name = fields[3] if len(fields) == 4 and fields[3] else None
        found[fields[0]] = Checksum(fields[2].lower(), int(fields[1]), name and safe_filename(name))
    return found


def _render(entries: Mapping[str, Checksum]) -> str:
    return "".join(
        f"{url}\t{'' if c.size is None else c.size}\t{c.sha256}\t{c.filename or ''}\n"
        for url, c in sorted(entries.items())
    )


def _is_sha256(text: str) -> bool:
    return re.fullmatch(r"[0-9a-fA-F]{64}", text) is not None


def _module_file(cls: type) -> Path | None:
    file = getattr(sys.modules.get(cls.__module__), "__file__", None)
    if file is None:
        # A class loaded from a file may have no entry in sys.modules; its methods know the file.
        codes = [getattr(member, "__code__", None) for member in vars(cls).values()]
        file = next((code.co_filename for code in codes if code), None)
    path = Path(file).absolute() if file else None
    return path if path and path.is_file() else None


def _files_of(cls: type) -> list[Path]:
    """Where a class's checksums may be, the older place first."""
    module = _module_file(cls)
    if module is None:
        return []
    files: list[Path] = []
    name = vars(cls).get("name")
    name = name if isinstance(name, str) else _snake_case(cls.__name__)
    if "tensorflow_datasets" in module.parts:
        last = len(module.parts) - 1 - module.parts[::-1].index("tensorflow_datasets")
        files.append(Path(*module.parts[: last + 1]) / "url_checksums" / f"{name}.txt")
    files.append(module.parent / "url_checksums" / f"{name}.txt")
    files.append(module.parent / CHECKSUMS_NAME)
    return files


def _snake_case(name: str) -> str:
    """A class name as TFDS names its dataset: ``MyData2D`` is ``my_data2_d``."""
    spaced = re.sub(r"(.)([A-Z][a-z]+)", r"\1_\2", name)
    return re.sub(r"([a-z0-9])([A-Z])", r"\1_\2", spaced).lower()
