"""Downloads from a real Google Cloud Storage server."""

from __future__ import annotations

import hashlib
import json
import os
from pathlib import Path

import pytest
from tests.builders.download.flaky_http import ODD_NAME
from tests.store.gcs_server import start

from provender.builders.download import fetch, probe
from provender.errors import DownloadError

BODY = os.urandom(300_000)


def test_gs_is_fetched_continued_and_probed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import fsspec

    with start() as server:
        for name, value in server.env().items():
            monkeypatch.setenv(name, value)
        bucket = server.bucket()
        url = f"{bucket}/folder/{ODD_NAME}"
        fs = fsspec.filesystem("gs", token="anon", project="test")
        fs.pipe_file(url, BODY)
        got = fetch(url, tmp_path / "x")
        assert got.sha256 == hashlib.sha256(BODY).hexdigest()
        assert got.filename == ODD_NAME
        identity = probe(url)
        assert identity is not None
        assert identity.token == got.identity
        (tmp_path / "y.part").write_bytes(BODY[:1000])
        state = {"url": url, "identity": got.identity, "if_range": None, "size": len(BODY)}
        (tmp_path / "y.part.json").write_text(json.dumps(state | {"resumable": True}))
        assert fetch(url, tmp_path / "y").resumed_bytes == 1000
        assert (tmp_path / "y").read_bytes() == BODY
        fs.pipe_file(url, BODY[::-1])
        changed = probe(url)
        assert changed is not None
        assert changed.token != got.identity
        with pytest.raises(DownloadError, match="no such file") as caught:
            fetch(f"{bucket}/missing", tmp_path / "z")
        assert caught.value.facts["transient"] is False
