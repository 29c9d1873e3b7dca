"""Content digests of files, remembered as long as the file looks the same."""

from __future__ import annotations

import hashlib
import os
import time
from pathlib import Path

from provender.builders.download.checksums import Checksum
from provender.builders.download.disk import read_json, write_json
from provender.errors import InputError
from provender.store.files import sha256_of

# A file changed twice within one tick of its file system's clock looks the same both times, so the
# digest of a file that is this young is not remembered.
_RACY_NS = 2_000_000_000


class DigestMemory:
    """SHA-256 of file contents, remembered by path, size, times and inode.

    Symbolic links are followed: the content is what counts, and the remembered path is the
    target's.

    Args:
        folder: where the memory is kept, one small file a path.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def digest(self, path: Path) -> Checksum:
        """The content's digest and size; reads the file only if it looks different from before.

        Raises:
            InputError: the file cannot be read.
        """
        try:
            real = path.resolve(strict=True)
            known = self._recall(real, strict=True)
            if known is not None:
                return known
            before = real.stat()
            digest = sha256_of(real)
            after = real.stat()
        except OSError as err:
            raise InputError(
                f"The file cannot be read: {err.strerror or err}.", where=str(path)
            ) from err
        result = Checksum(digest, after.st_size, path.name)
        if _looks(before) == _looks(after) and time.time_ns() - after.st_mtime_ns > _RACY_NS:
            self._write(real, after, digest)
        return result

    def remember(self, path: Path, checksum: Checksum) -> None:
        """Notes the digest of a file just written by the caller, who keeps others from writing it."""
        real = path.resolve()
        self._write(real, real.stat(), checksum.sha256)

    def recall(self, path: Path) -> Checksum | None:
        """The digest of a file that `remember` was told of, if it still has its size, inode and time.

        Unlike `digest` this ignores the inode's change time, which a further hard link moves.
        """
        try:
            return self._recall(path.resolve(strict=True), strict=False)
        except OSError:
            return None

    def _recall(self, real: Path, *, strict: bool) -> Checksum | None:
        doc = read_json(self._entry(real))
        if doc is None or doc.get("path") != os.fsdecode(real):
            return None
        looks = _looks(real.stat())
        count = len(looks) if strict else len(looks) - 1
        if doc.get("looks", [])[:count] != looks[:count]:
            return None
        return Checksum(doc["sha256"], looks[0], real.name)

    def _write(self, real: Path, info: os.stat_result, digest: str) -> None:
        doc = {"path": os.fsdecode(real), "looks": _looks(info), "sha256": digest}
        write_json(self._entry(real), doc)

    def _entry(self, real: Path) -> Path:
        key = hashlib.sha256(os.fsencode(real)).hexdigest()[:40]
        return self._folder / key[:2] / f"{key}.json"


def _looks(info: os.stat_result) -> list[int]:
    """Size, modification time, device, inode and, last, change time."""
    return [info.st_size, info.st_mtime_ns, info.st_dev, info.st_ino, info.st_ctime_ns]
