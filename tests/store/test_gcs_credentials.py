"""Where credentials for gs:// come from, and that their lack is told at once."""

from __future__ import annotations

import http.server
import socket
import threading
import time

import fsspec.config
import pytest

from provender.errors import StoreError
from provender.store import Store


@pytest.fixture
def bare(monkeypatch, tmp_path):
    """A machine without any credentials."""
    for name in (
        "STORAGE_EMULATOR_HOST", "GOOGLE_APPLICATION_CREDENTIALS", "CLOUDSDK_CONFIG",
        "GCE_METADATA_HOST", "K_SERVICE", "KUBERNETES_SERVICE_HOST",
    ):  # fmt: skip
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setattr(fsspec.config, "conf", {})
    from provender.store import gcs_filesystem

    monkeypatch.setattr(gcs_filesystem, "_PRODUCT_NAME", str(tmp_path / "product_name"))
    return tmp_path


def test_missing_credentials_are_named_without_waiting(bare):
    before = time.monotonic()
    with pytest.raises(StoreError, match="GOOGLE_APPLICATION_CREDENTIALS is not set") as caught:
        Store.open("gs://bucket/x").stat("f")
    assert time.monotonic() - before < 5
    assert str(bare / ".config/gcloud/application_default_credentials.json") in str(caught.value)
    assert "gcloud auth application-default login" in caught.value.hint


def test_a_key_file_that_is_not_there(bare, monkeypatch):
    monkeypatch.setenv("GOOGLE_APPLICATION_CREDENTIALS", "/no/key.json")
    with pytest.raises(StoreError, match="not there: /no/key"):
        Store.open("gs://bucket/x").stat("f")


def test_a_key_file_that_is_none(bare, monkeypatch):
    (bare / "key.json").write_text("{}")
    monkeypatch.setenv("GOOGLE_APPLICATION_CREDENTIALS", str(bare / "key.json"))
    with pytest.raises(StoreError, match="cannot be used"):
        Store.open("gs://bucket/x").stat("f")


class Metadata(http.server.BaseHTTPRequestHandler):
    """A metadata server, as far as it is asked whether it is one."""

    def do_GET(self):
        self.send_response(200)
        self.send_header("Metadata-Flavor", "Google")
        self.end_headers()

    def log_message(self, *_):
        pass


@pytest.fixture
def metadata():
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Metadata) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"127.0.0.1:{server.server_port}"
        server.shutdown()


@pytest.fixture
def silent():
    """A port that takes connections and says nothing."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield f"127.0.0.1:{server.getsockname()[1]}"


@pytest.mark.parametrize("where", ["silent", "unroutable", "no name"])
def test_a_metadata_server_that_does_not_answer_is_not_waited_for(bare, monkeypatch, silent, where):
    host = {"silent": silent, "unroutable": "10.255.255.1", "no name": "nowhere.invalid"}[where]
    monkeypatch.setenv("GCE_METADATA_HOST", host)
    before = time.monotonic()
    with pytest.raises(StoreError, match=r"the metadata server at .* does not answer") as caught:
        Store.open("gs://bucket/x").stat("f")
    assert time.monotonic() - before < 5
    assert host in str(caught.value)
    assert "GOOGLE_APPLICATION_CREDENTIALS is not set" in str(caught.value)


def test_where_credentials_are_looked_for(bare, monkeypatch, metadata):
    from provender.store import gcs_filesystem
    from provender.store.gcs_filesystem import credentials_source

    (bare / "product_name").write_text("Google Compute Engine\n")
    monkeypatch.setattr(gcs_filesystem, "_METADATA_HOST", metadata)
    assert credentials_source("gs://b") == "google_default"
    monkeypatch.setenv("NO_GCE_CHECK", "true")
    with pytest.raises(StoreError):
        credentials_source("gs://b")
    (bare / "application_default_credentials.json").write_text("{}")
    monkeypatch.setenv("CLOUDSDK_CONFIG", str(bare))
    assert credentials_source("gs://b") == "google_default"
    monkeypatch.setattr(fsspec.config, "conf", {"gs": {"token": "anon"}})
    assert credentials_source("gs://b") is None
    monkeypatch.setenv("STORAGE_EMULATOR_HOST", "http://127.0.0.1:9")
    assert credentials_source("gs://b") == "anon"


def test_urls(bare):
    for url in ("gs://", "gs:///x"):
        with pytest.raises(StoreError, match="no bucket"):
            Store.open(url)
    assert Store.open("gcs://b/p/").url == Store.open("gs://b/p").url == "gs://b/p"
    with pytest.raises(StoreError, match="no file system for nosuch://"):
        Store.open("nosuch://x").stat("f")
