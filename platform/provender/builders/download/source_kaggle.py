"""kaggle://datasets/<owner>/<name> and kaggle://competitions/<name>, by Kaggle's own command line.

Kaggle serves files only to signed-in people who accepted a data set's terms; its command line
holds that sign-in. What it yields is one zip archive.
"""

from __future__ import annotations

import os
import re
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from provender.builders.download.source import (
    Opened,
    PartState,
    Permanent,
    Transient,
    UpstreamIdentity,
)

_NAME = re.compile(r"(datasets)/(\w[\w.-]*/\w[\w.-]*)|(competitions)/(\w[\w.-]*)")
_CHUNK = 1 << 20
_HINT = (
    "Install Kaggle's command line with its API token and accept the terms on the data set's page, "
    "or download the archive by hand and place it in manual_dir under its registered name."
)


def kaggle_url(name: str) -> str:
    """The URL of ``owner/dataset`` or of a competition's name."""
    return f"kaggle://{'datasets' if '/' in name else 'competitions'}/{name}"


class KaggleSource:
    """One data set or competition as one zip file; cannot be continued."""

    def __init__(self, url: str) -> None:
        found = _NAME.fullmatch(url.partition("://")[2])
        if found is None:
            raise Permanent(
                "not a Kaggle address",
                hint="Use owner/dataset or a competition's name.",
            )
        self._kind, self._name = found[1] or found[3], found[2] or found[4]

    @contextmanager
    def open(self, offset: int, state: PartState | None) -> Iterator[Opened]:
        """See `Source.open`; always starts at 0."""
        with tempfile.TemporaryDirectory(prefix="provender-kaggle-") as folder:
            self._run(folder)
            files = list(Path(folder).iterdir())
            if len(files) != 1:
                raise Permanent(f"Kaggle's command line left {len(files)} files instead of one")
            with files[0].open("rb") as file:
                yield Opened(
                    start=0,
                    size=os.fstat(file.fileno()).st_size,
                    identity=None,
                    if_range=None,
                    resumable=False,
                    filename=files[0].name,
                    content_type=None,
                    chunks=iter(lambda: file.read(_CHUNK), b""),
                )

    def identity(self) -> UpstreamIdentity | None:
        """Kaggle's command line names none."""
        return None

    def _run(self, folder: str) -> None:
        place = ["-c", self._name] if self._kind == "competitions" else ["-d", self._name]
        command = ["kaggle", self._kind, "download", "--path", folder, *place]
        try:
            done = subprocess.run(command, capture_output=True, text=True, check=False)
        except FileNotFoundError:
            raise Permanent("the kaggle command is not installed", hint=_HINT) from None
        if done.returncode:
            said = (done.stderr or done.stdout).strip().splitlines()
            reason = said[-1] if said else f"kaggle ended with {done.returncode}"
            if re.search(r"\b(429|5\d\d)\b", reason):
                raise Transient(reason)
            raise Permanent(reason, hint=_HINT)
