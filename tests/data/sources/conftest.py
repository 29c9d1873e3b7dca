"""Checks that every source has to pass, servers, and small versions made by hand."""

from __future__ import annotations

import gc
import hashlib
import importlib.util
import json
import re
import socketserver
import struct
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import google_crc32c
import numpy as np
import pytest

from provender.data.sources.access import DataFile, place_of
from provender.data.sources.base import Source
from provender.data.sources.version import Shard, VersionData
from provender.records.offsets import write_offsets
from provender.records.tfrecord import frame_joined


def _rows_of(chunk: Any) -> list[Any]:
    return chunk.table.to_pylist() if chunk.table is not None else list(chunk.rows)


def rows(source: Source, shard: int | None = None, **start: Any) -> list[Any]:
    """The rows of a shard, or of all, chunks checked for what they say of themselves."""
    if shard is None:
        return [row for each in range(source.num_shards) for row in rows(source, each)]
    found: list[Any] = []
    following: int | None = None
    for chunk in source.read(shard, **start):
        assert (chunk.table is None) != (chunk.rows is None)
        these = _rows_of(chunk)
        assert len(these) == chunk.count
        assert following is None or chunk.row == following
        following = chunk.row + chunk.count
        found += these
    return found


def check(source: Source, every: int = 1) -> list[Any]:
    """All rows, after proving that each shard can be gone on with at every place it tells.

    Args:
        source: what to read.
        every: try only each n-th row as a start by its number.
    """
    whole = []
    for shard in range(source.num_shards):
        mine = rows(source, shard)
        known = source.shard_rows(shard)
        assert known in (None, len(mine))
        assert source.count_rows(shard) == len(mine)
        for chunk in source.read(shard):
            place = json.loads(json.dumps(chunk.next))
            assert rows(source, shard, position=place) == mine[chunk.row + chunk.count :]
        for row in range(0, len(mine) + 2, every):
            assert rows(source, shard, row=row) == mine[row:]
        whole += mine
    return whole


@pytest.fixture
def read() -> SimpleNamespace:
    """``rows`` and ``check``."""
    return SimpleNamespace(rows=rows, check=check)


@pytest.fixture
def files(tmp_path: Path) -> Callable[..., list[DataFile]]:
    """Writes contents to files and gives their addresses."""

    def write(*contents: str | bytes, name: str = "part-{}.dat") -> list[DataFile]:
        found = []
        for number, content in enumerate(contents):
            path = tmp_path / name.format(number)
            path.write_bytes(content if isinstance(content, bytes) else content.encode())
            found += place_of(str(path)).find(str(path))
        return found

    return write


def helper(folder: str, name: str) -> ModuleType:
    key = f"provender_{folder}_tests_{name}"
    if key not in sys.modules:
        path = Path(__file__).parents[2] / folder / f"{name}.py"
        spec = importlib.util.spec_from_file_location(key, path)
        assert spec and spec.loader
        module = importlib.util.module_from_spec(spec)
        sys.modules[key] = module
        spec.loader.exec_module(module)
    return sys.modules[key]


@pytest.fixture(scope="session")
def gcs_server() -> Iterator[Any]:
    with helper("store", "gcs_server").start() as server:
        yield server


@pytest.fixture
def gcs(gcs_server: Any, monkeypatch: pytest.MonkeyPatch) -> Iterator[SimpleNamespace]:
    """A bucket behind a proxy that can be told to fail; ``url``, ``proxy``, ``put``, ``Fault``."""
    module = helper("store", "fault_proxy")
    with module.start(gcs_server.endpoint) as proxy:
        monkeypatch.setenv("STORAGE_EMULATOR_HOST", proxy.endpoint)
        from provender.store import Store
        from provender.store.gcs_filesystem import Filesystem, Retry

        monkeypatch.setattr(Filesystem, "retry", Retry(first=0.01, ceiling=0.05))
        url = gcs_server.bucket()
        store = Store.open(url)
        yield SimpleNamespace(
            url=url, proxy=proxy, store=store, Fault=module.Fault, put=store.write
        )
        # Connections of the loop that fsspec keeps are closed while it can still be done.
        gc.collect()


def _varint(number: int) -> bytes:
    out = b""
    number &= (1 << 64) - 1
    while number > 127:
        out += bytes([number & 127 | 128])
        number >>= 7
    return out + bytes([number])


def _field(number: int, body: bytes) -> bytes:
    return bytes([number << 3 | 2]) + _varint(len(body)) + body


def example(**values: Any) -> bytes:
    """A serialized ``tf.train.Example``, features in order of their names."""
    entries = b""
    for name in sorted(values):
        value = values[name]
        value = value if isinstance(value, list) else [value]
        if value and isinstance(value[0], float):
            feature = _field(2, _field(1, struct.pack(f"<{len(value)}f", *value)))
        elif value and isinstance(value[0], int):
            feature = _field(3, _field(1, b"".join(map(_varint, value))))
        else:
            texts = [each.encode() if isinstance(each, str) else each for each in value]
            feature = _field(1, b"".join(_field(1, each) for each in texts))
        entries += _field(1, _field(1, name.encode()) + _field(2, feature))
    return _field(1, entries)


FEATURES = {
    "pythonClassName": "tensorflow_datasets.core.features.features_dict.FeaturesDict",
    "featuresDict": {
        "features": {
            "i": {
                "pythonClassName": "tensorflow_datasets.core.features.scalar.Scalar",
                "tensor": {"shape": {}, "dtype": "int64", "encoding": "none"},
            },
            "t": {
                "pythonClassName": "tensorflow_datasets.core.features.text_feature.Text",
                "text": {},
            },
        }
    },
}


def version_rows(start: int, stop: int, pad: int = 0) -> list[dict[str, Any]]:
    return [{"i": i, "t": f"text {i} " + "x" * pad} for i in range(start, stop)]


@pytest.fixture
def records() -> SimpleNamespace:
    """``example`` makes a record, ``framed`` a file of them."""
    return SimpleNamespace(
        example=example, framed=lambda payloads: frame_joined(payloads)[0], features=FEATURES
    )


@pytest.fixture
def make_version(tmp_path: Path) -> Callable[..., VersionData]:
    """Writes shards with indexes into a folder and tells what was published."""

    def make(
        count: int, shards: int, *, pad: int = 0, folder: Path | None = None, at: str | None = None
    ) -> VersionData:
        home = folder or tmp_path / "version"
        index = home / ".provender" / "index"
        index.mkdir(parents=True, exist_ok=True)
        base = at or str(home)
        found = []
        for number in range(shards):
            low, high = count * number // shards, count * (number + 1) // shards
            name = f"v-train.tfrecord-{number:05d}-of-{shards:05d}"
            payloads = [example(**row) for row in version_rows(low, high, pad)]
            data, sizes = frame_joined(payloads) if payloads else (b"", [])
            (home / name).write_bytes(data)
            ends = np.cumsum(np.array(sizes, np.int64) + 16)
            write_offsets(index / f"{name}.offsets", np.concatenate([[0], ends]))
            found.append(
                Shard(
                    name,
                    f"{base}/{name}",
                    f"{base}/.provender/index/{name}.offsets",
                    len(data),
                    high - low,
                    f"{google_crc32c.value(data):08x}",
                    hashlib.sha256(data).hexdigest(),
                )
            )
        return VersionData("v:1.0.0", "ab" * 20, "train", FEATURES, {}, tuple(found))

    return make


@pytest.fixture
def no_threads_left() -> Iterator[None]:
    """Fails a test that leaves a thread of a source behind."""
    before = set(threading.enumerate())
    yield
    deadline = time.monotonic() + 5
    left: Sequence[threading.Thread] = []
    while time.monotonic() < deadline:
        left = [
            each
            for each in threading.enumerate()
            if each not in before and each.name.startswith("provender")
        ]
        if not left:
            return
        time.sleep(0.01)
    raise AssertionError(f"threads left: {left}")


class _Slow(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *args: object) -> None:
        pass

    def do_GET(self) -> None:
        server: Any = self.server
        server.asked.append((self.path, self.headers.get("Range")))
        body, tag = server.files.get(self.path, server.body), server.tag
        span = re.fullmatch(r"bytes=(\d+)-(\d*)", self.headers.get("Range") or "")
        if server.delay and span and int(span[1]) >= server.delay_from:
            server.stopping.wait(server.delay)
        if span is None or not server.ranges:
            self.send_response(200)
            self._send(body, tag)
            return
        start, stop = int(span[1]), min(int(span[2] or len(body)) + 1, len(body))
        self.send_response(206)
        self.send_header("Content-Range", f"bytes {start}-{stop - 1}/{len(body)}")
        cut = server.cuts and stop - start > 100
        if cut:
            server.cuts -= 1
        self._send(body[start:stop], tag, cut=bool(cut))

    def _send(self, body: bytes, tag: str, cut: bool = False) -> None:
        self.send_header("Content-Length", str(len(body)))
        self.send_header("ETag", tag)
        self.end_headers()
        try:
            self.wfile.write(body[: len(body) // 3] if cut else body)
        except (BrokenPipeError, ConnectionResetError):
            cut = True
        if cut:
            self.close_connection = True


class _Server(ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, request: object, client_address: object) -> None:
        """Cut connections are what it is for."""


@pytest.fixture
def web(monkeypatch) -> Iterator[Any]:
    """A web server: ``files``, ``body`` (of others), ``tag``, ``ranges``, ``cuts``, ``delay`` may be set."""
    from provender.data.sources.access import transfer

    monkeypatch.setattr(transfer, "RETRY", transfer.Retry(first=0.01, ceiling=0.02))
    server = _Server(("127.0.0.1", 0), _Slow)
    state: Any = server
    state.body, state.tag, state.ranges, state.cuts = b"", '"1"', True, 0
    state.delay, state.delay_from, state.asked, state.stopping = 0.0, 0, [], threading.Event()
    state.files = {}
    state.base = f"http://127.0.0.1:{server.server_port}"
    state.url = f"http://127.0.0.1:{server.server_port}/data.jsonl"
    thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
    thread.start()
    yield state
    state.stopping.set()
    server.shutdown()
    socketserver.TCPServer.server_close(server)
    thread.join()
