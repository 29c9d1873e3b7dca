"""Files at any address: memory, a web server, Google Cloud Storage."""

from __future__ import annotations

import re
import threading
from collections.abc import Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from provender.errors import SettingsError
from provender.nlp import DataConfig, InputReader
from provender.nlp.reader.files import compressed_records
from provender.nlp.reader.streaming import is_remote, opens_natively


def put(data: Any, url: str, sizes: list[int], folder: Path) -> None:
    import fsspec

    for each in data.write_numbers(folder, sizes):
        with fsspec.open(f"{url}/{Path(each).name}", "wb") as out:
            out.write(Path(each).read_bytes())


def read(data: Any, path: Any, hosts: int = 1, **options: Any) -> list[list[int]]:
    params = DataConfig(input_path=path, global_batch_size=hosts, drop_remainder=False, **options)
    made = InputReader(params, features=data.features())
    return [data.numbers(made.read(data.context(host, hosts))) for host in range(hosts)]


@pytest.mark.parametrize("hosts", [1, 2, 4])
def test_memory(data: SimpleNamespace, tmp_path: Path, hosts: int) -> None:
    put(data, "memory://nlp", [6, 7], tmp_path)
    found = read(data, "memory://nlp/*.tfrecord", hosts)
    assert sorted(sum(found, [])) == list(range(13))  # noqa: RUF017


def test_google_cloud_storage(
    data: SimpleNamespace, tmp_path: Path, gcs_server: Any, gcs_bucket: str
) -> None:
    put(data, f"{gcs_bucket}/nlp", [6, 7], tmp_path)
    found = read(data, f"{gcs_bucket}/nlp/part-*.tfrecord", 3)
    assert sorted(sum(found, [])) == list(range(13))  # noqa: RUF017


class _Ranges(SimpleHTTPRequestHandler):
    """Serves files by ranges, as web servers do."""

    def do_GET(self) -> None:
        content = Path(self.translate_path(self.path)).read_bytes()
        asked = re.fullmatch(r"bytes=(\d+)-(\d*)", self.headers.get("Range", "bytes=0-"))
        assert asked
        low = int(asked[1])
        part = content[low : int(asked[2]) + 1 if asked[2] else None]
        self.send_response(206 if "Range" in self.headers else 200)
        self.send_header("Content-Length", str(len(part)))
        self.send_header("Content-Range", f"bytes {low}-{low + len(part) - 1}/{len(content)}")
        self.send_header("Accept-Ranges", "bytes")
        self.end_headers()
        self.wfile.write(part)

    def log_message(self, *args: Any) -> None:
        pass


@pytest.fixture
def web(tmp_path: Path) -> Iterator[str]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(_Ranges, directory=str(tmp_path)))
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    thread.join()
    server.server_close()


def test_a_web_server(data: SimpleNamespace, tmp_path: Path, web: str) -> None:
    data.write_numbers(tmp_path, [5])
    found = read(data, f"{web}/part-00.tfrecord?version=1")
    assert found == [list(range(5))]


def test_local_and_other_files_together(data: SimpleNamespace, tmp_path: Path) -> None:
    local = data.write_numbers(tmp_path, [3])
    put(data, "memory://both", [3], tmp_path)
    assert read(data, [*local, "memory://both/*"], cycle_length=1) == [[0, 1, 2, 0, 1, 2]]


def test_damage_is_told(data: SimpleNamespace, tmp_path: Path) -> None:
    import fsspec
    import tensorflow as tf

    content = bytearray(Path(data.write_numbers(tmp_path, [3])[0]).read_bytes())
    content[-8] ^= 1
    with fsspec.open("memory://damaged/a.tfrecord", "wb") as out:
        out.write(bytes(content))
    with pytest.raises(tf.errors.OpError, match="record 2"):
        read(data, "memory://damaged/a.tfrecord")


@pytest.mark.parametrize("asked", ["compressed", "service"])
def test_what_only_tensorflow_can_read_must_be_where_it_can(
    data: SimpleNamespace, tmp_path: Path, asked: str
) -> None:
    put(data, "memory://foreign", [3], tmp_path)
    params = DataConfig(
        input_path="memory://foreign/*", enable_tf_data_service=asked == "service",
        tf_data_service_address="grpc://x:1",
    )  # fmt: skip
    with pytest.raises(SettingsError, match="must be local or on gs://") as caught:
        InputReader(params, compressed_records if asked == "compressed" else None)
    assert "foreign/part-00.tfrecord" in (caught.value.where or "")


def test_which_addresses_tensorflow_opens(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("STORAGE_EMULATOR_HOST", raising=False)
    assert opens_natively("/a/b")
    assert opens_natively("gs://bucket/a")
    assert not opens_natively("memory://a")
    assert not opens_natively("zip://a::/b.zip")
    monkeypatch.setenv("STORAGE_EMULATOR_HOST", "http://127.0.0.1:1")
    assert not opens_natively("gs://bucket/a")
    assert is_remote("gs://bucket/a")
    assert is_remote("https://host/a")
    assert not is_remote("/a/b")
    assert not is_remote("memory://a")
