"""Downloaded files by content: ``<root>/<aa>/<sha256>/<file name>``.

The path is a function of the bytes and the name, so equal downloads have equal paths wherever and
whenever they were made. Objects are read-only and never change; an object that does not look as it
did when it was stored is hashed again and dropped if it is damaged.
"""

from __future__ import annotations

import os
import shutil
import uuid
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from provender.builders.download.checksums import Checksum
from provender.builders.download.digests import DigestMemory
from provender.builders.download.disk import disk_errors, ensure_space
from provender.builders.download.urls import safe_filename
from provender.store.files import sha256_of

_INCOMING = ".incoming"
_READ_ONLY = 0o444


@dataclass(frozen=True, slots=True)
class DownloadRecord:
    """What one URL gave.

    Attributes:
        url: the URL without secrets; the key it is found by again.
        sha256: hex digest of the content.
        size: bytes.
        filename: name of the file.
        identity_token: `UpstreamIdentity.token` at that time, or None where upstream named none.
        object: ``<aa>/<sha256>/<filename>``, relative to the folder of objects.
        via: the masked URL the bytes came from (a mirror's, perhaps), ``manual:<file name>``, or
            ``objects`` where a registered checksum was met by an object that was there.
    """

    url: str
    sha256: str
    size: int
    filename: str
    identity_token: str | None
    object: str
    via: str

    @property
    def checksum(self) -> Checksum:
        """Size, digest and name, as a checksum file keeps them."""
        return Checksum(self.sha256, self.size, self.filename)

    def to_json(self) -> dict[str, Any]:
        """The record as a JSON object, the same on every machine."""
        return asdict(self)

    @classmethod
    def from_json(cls, doc: dict[str, Any]) -> DownloadRecord:
        """Rebuilds what `to_json` gave."""
        return cls(**{name: doc[name] for name in cls.__slots__})


def object_name(sha256: str, filename: str) -> str:
    """Where an object lies, relative to the root."""
    return f"{sha256[:2]}/{sha256}/{safe_filename(filename)}"


class Objects:
    """The local folder of downloaded files.

    Args:
        root: made when first written to.
    """

    def __init__(self, root: Path) -> None:
        self.root = root
        self.digests = DigestMemory(root / ".digests")

    def incoming(self, key: str) -> Path:
        """A folder for the partial download of one URL; ``key`` names it the same each time."""
        return self.root / _INCOMING / key

    def find(self, sha256: str, filename: str) -> Path | None:
        """An intact object under this name; one of equal content under another name is linked."""
        wanted = self.root / object_name(sha256, filename)
        if self._intact(wanted, sha256):
            return wanted
        if wanted.parent.is_dir():
            for other in sorted(wanted.parent.iterdir()):
                if not other.name.startswith(".") and self._intact(other, sha256):
                    return self._link(other, wanted, sha256)
        return None

    def put(self, path: Path, checksum: Checksum, filename: str) -> Path:
        """Moves a file on the same disk, whose checksum the caller computed, to its place.

        Raises:
            StoreError, DiskFull: the folder cannot be written.
        """
        target = self.root / object_name(checksum.sha256, filename)
        if self._intact(target, checksum.sha256):
            path.unlink()
            return target
        with disk_errors(target):
            path.chmod(_READ_ONLY)
            target.parent.mkdir(parents=True, exist_ok=True)
            path.replace(target)
        self.digests.remember(target, checksum)
        return target

    def copy_in(self, path: Path, checksum: Checksum, filename: str) -> Checksum:
        """Copies somebody's file in, for a link would let them change the object.

        Returns:
            The checksum of what was copied; not ``checksum`` if the file was just being changed.
        """
        if self.find(checksum.sha256, filename) is not None:
            return checksum
        temporary = self.incoming(uuid.uuid4().hex) / "copy"
        ensure_space(temporary, checksum.size)
        try:
            with disk_errors(temporary, checksum.size):
                temporary.parent.mkdir(parents=True)
                shutil.copyfile(path, temporary)
            # The file may have been changed since it was hashed: what counts is what was copied.
            copied = Checksum(sha256_of(temporary), temporary.stat().st_size)
            self.put(temporary, copied, filename)
        finally:
            shutil.rmtree(temporary.parent, ignore_errors=True)
        return copied

    def sha256_of_object(self, path: Path) -> str | None:
        """The digest in an object's own path; None for a path that is no object."""
        try:
            parts = path.relative_to(self.root).parts
        except ValueError:
            return None
        return parts[1] if len(parts) == 3 and len(parts[1]) == 64 else None

    def _intact(self, path: Path, sha256: str) -> bool:
        if not path.is_file():
            return False
        known = self.digests.recall(path)
        if known is not None:
            return known.sha256 == sha256
        found = Checksum(sha256_of(path), path.stat().st_size)
        if found.sha256 != sha256:
            path.unlink(missing_ok=True)
            return False
        self.digests.remember(path, found)
        return True

    def _link(self, known: Path, wanted: Path, sha256: str) -> Path:
        temporary = wanted.with_name(f".{uuid.uuid4().hex}")
        with disk_errors(wanted):
            try:
                os.link(known, temporary)
            except OSError:
                shutil.copyfile(known, temporary)
                temporary.chmod(_READ_ONLY)
            temporary.replace(wanted)
            # Renaming onto another link of the same file is defined to do nothing at all.
            temporary.unlink(missing_ok=True)
        self.digests.remember(wanted, Checksum(sha256))
        return wanted
