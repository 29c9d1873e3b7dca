"""Refusals, cuts and lost answers between a store and a real server."""

from __future__ import annotations

import json
import os
import signal
import time

import pytest

from provender.errors import DamageError, StoreError
from provender.store.gcs_filesystem import Retry

UPLOAD = "^POST /upload"
PIECE = "^POST /upload.*upload_id="
MEDIA = "alt=media"


CHUNK = 256 << 10
BLOCK = 128 << 10


@pytest.fixture(autouse=True)
def small_pieces(monkeypatch):
    """Long uploads and downloads at a hundredth of their real length."""
    from provender.store import gcs_upload, ranges

    monkeypatch.setattr(gcs_upload, "PIECE", CHUNK)
    monkeypatch.setattr(ranges, "BLOCK", BLOCK)


@pytest.mark.parametrize("status", [408, 429, 500, 502, 503, 504])
def test_transient_refusals_are_retried(proxied, fault, status):
    proxy, store = proxied
    for act in (
        lambda: store.write("f", b"1"),
        lambda: store.create("g", b"2"),
        lambda: store.read("f"),
        lambda: store.stat("f"),
        lambda: store.list(""),
        lambda: store.copy("f", "h"),
        lambda: store.remove("h"),
    ):
        proxy.faults = [fault("status", times=2, status=status)]
        assert act()
        assert proxy.faults[0].times == 0
    assert {entry.rel for entry in store.list()} == {"f", "g"}


def test_retry_after_is_heeded(proxied, fault):
    proxy, store = proxied
    proxy.faults = [fault("status", status=429, headers={"Retry-After": "1"})]
    before = time.monotonic()
    store.write("f", b"1")
    assert time.monotonic() - before >= 1


@pytest.mark.parametrize("status", [429, 502, 503])
def test_lasting_refusal_is_an_error_with_a_hint(proxied, fault, status):
    proxy, store = proxied
    store.write("f", b"")
    proxy.log.clear()
    proxy.faults = [fault("status", times=1000, status=status)]
    with pytest.raises(StoreError, match="cannot read") as caught:
        store.read("f")
    assert caught.value.where == store.path("f")
    assert "later" in caught.value.hint
    assert len(proxy.log) == 5


@pytest.mark.parametrize("status", [400, 401, 403])
def test_lasting_faults_are_not_retried(proxied, fault, status):
    proxy, store = proxied
    proxy.faults = [fault("status", times=1000, status=status)]
    with pytest.raises(StoreError) as caught:
        store.write("f", b"")
    assert len(proxy.log) == 1
    if status != 400:
        assert {401: "credentials", 403: "permission"}[status] in caught.value.hint


def test_no_bucket(gcs_env):
    from provender.store import Store

    store = Store.open("gs://no-such-bucket/x")
    for act in (lambda: store.write("f", b""), lambda: store.create("f", b""), store.list):
        with pytest.raises(StoreError, match="no bucket no-such-bucket"):
            act()
    assert store.stat("f") is None


def test_no_server(monkeypatch, proxied):
    from provender.store import Store

    monkeypatch.setenv("STORAGE_EMULATOR_HOST", "http://127.0.0.1:9")
    with pytest.raises(StoreError, match="cannot look at an object"):
        Store.open("gs://b/x").stat("f")


@pytest.mark.parametrize("kind", ["lost answer", "cut request", "truncated request", "cut answer"])
def test_cut_uploads_are_sent_again(proxied, fault, kind):
    proxy, store = proxied
    data = os.urandom(CHUNK)
    proxy.faults = [fault(kind, UPLOAD, times=2)]
    assert store.write("f", data) == store.stat("f")
    assert store.read("f") == data


@pytest.mark.parametrize("kind", ["lost answer", "cut answer"])
def test_create_that_had_succeeded_is_recognised(proxied, fault, kind):
    proxy, store = proxied
    proxy.faults = [fault(kind, UPLOAD, times=2)]
    assert store.create("f", b"mine") == store.stat("f")
    with pytest.raises(FileExistsError):
        store.create("f", b"mine")


def test_create_whose_answer_is_lost_does_not_claim_anothers_file(proxied, fault):
    proxy, store = proxied
    store.create("f", b"same")
    proxy.faults = [fault("lost answer", UPLOAD)]
    with pytest.raises(FileExistsError):
        store.create("f", b"same")


@pytest.mark.parametrize(
    "kind", ["lost answer", "cut request", "truncated request", "partial request", "status"]
)
@pytest.mark.parametrize("piece", [0, 1, 2])
def test_long_uploads_go_on_after_a_cut(proxied, fault, tmp_path, kind, piece):
    proxy, store = proxied
    data = os.urandom(2 * CHUNK + 1000)
    (tmp_path / "f").write_bytes(data)
    start = f"bytes {piece * CHUNK}-"
    proxy.faults = [fault(kind, f"{PIECE}.*{start}", times=1)]
    seen = []
    identity = store.put(tmp_path / "f", "big", lambda done, total: seen.append(done))
    assert proxy.faults[0].times == 0
    assert identity == store.stat("big")
    assert store.digest("big").size == len(data)
    assert store.read("big") == data
    assert seen[-1] == len(data)
    pieces = [line for line in proxy.log if "upload_id=" in line]
    assert 4 <= len(pieces) <= 5, "three pieces, a question, at most one repetition"
    if kind == "partial request" and piece == 0:
        assert any(f"bytes {CHUNK // 2}-{CHUNK // 2 + CHUNK - 1}/" in line for line in pieces)


def test_unfinished_long_upload_is_invisible(proxied, fault, tmp_path):
    proxy, store = proxied
    (tmp_path / "f").write_bytes(bytes(3 * CHUNK))
    proxy.faults = [fault("status", f"{PIECE}.*bytes {2 * CHUNK}-", times=1000, status=502)]
    with pytest.raises(StoreError, match="takes no more than 524,288 of 786,432"):
        store.put(tmp_path / "f", "big")
    assert store.stat("big") is None
    assert store.list() == []


def test_corrupt_uploads_are_noticed(proxied, fault, tmp_path):
    proxy, store = proxied
    proxy.faults = [fault("corrupt request", UPLOAD)]
    with pytest.raises(StoreError):
        store.write("f", b"x" * CHUNK)
    (tmp_path / "f").write_bytes(bytes(CHUNK + 1))
    proxy.faults = [fault("corrupt request", f"{PIECE}.*bytes 0-", times=1)]
    store.put(tmp_path / "f", "big")
    assert store.read("big") == bytes(CHUNK + 1)


@pytest.mark.parametrize("kind", ["lost answer", "cut answer", "status"])
def test_cut_downloads_are_retried(proxied, fault, tmp_path, kind):
    proxy, store = proxied
    data = os.urandom(3 * BLOCK)
    (tmp_path / "in").write_bytes(data)
    store.put(tmp_path / "in", "f")
    proxy.faults = [fault(kind, MEDIA, times=3)]
    store.fetch("f", tmp_path / "out")
    assert (tmp_path / "out").read_bytes() == data
    proxy.faults = [fault(kind, MEDIA, times=2)]
    assert store.read("f") == data
    proxy.faults = [fault(kind, MEDIA, times=2)]
    with store.open_file("f") as file:
        file.seek(-10, os.SEEK_END)
        assert file.read() == data[-10:]


def test_corrupt_downloads_are_noticed(proxied, fault, tmp_path):
    proxy, store = proxied
    store.write("f", b"x" * 100_000)
    proxy.faults = [fault("corrupt answer", MEDIA)]
    with pytest.raises(DamageError):
        store.fetch("f", tmp_path / "out")
    assert os.listdir(tmp_path) == []
    proxy.faults = [fault("corrupt answer", MEDIA)]
    with pytest.raises(StoreError):
        store.read("f")


def test_a_kept_connection_that_was_closed_is_no_failure(proxied, tmp_path, monkeypatch):
    import http.client
    import socket

    from provender.store import gcs_download

    _, store = proxied
    store.write("f", b"x" * 1000)
    store.fetch("f", tmp_path / "out")
    (kept,) = store._kept._idle
    kept.sock.shutdown(socket.SHUT_RDWR)
    monkeypatch.setattr(gcs_download.time, "sleep", lambda seconds: pytest.fail("it waited"))
    store.fetch("f", tmp_path / "out")
    (fresh,) = store._kept._idle
    assert fresh is not kept
    store.fetch("f", tmp_path / "out")
    assert store._kept._idle == [fresh]
    assert isinstance(fresh, http.client.HTTPConnection)


def test_sessions_that_the_user_set_up_are_used(proxied, tmp_path):
    _, store = proxied
    store.write("f", b"x" * 1000)
    store.fs.session_kwargs = {"trust_env": True}
    assert store._pin("f").stream is None
    store.fetch("f", tmp_path / "out")
    assert (tmp_path / "out").read_bytes() == b"x" * 1000


def test_a_range_refused_for_good_is_an_error_with_its_address(proxied, fault, tmp_path):
    proxy, store = proxied
    store.write("f", b"x" * 1000)
    proxy.faults = [fault("status", MEDIA, times=99, status=503)]
    with pytest.raises(StoreError, match="refused on purpose") as caught:
        store.fetch("f", tmp_path / "out")
    assert caught.value.where == store.path("f")
    proxy.faults = [fault("status", MEDIA, times=99, status=403)]
    with pytest.raises(StoreError):
        store.fetch("f", tmp_path / "out")
    assert proxy.faults[0].times == 98, "nothing that will not pass is repeated"


def test_killed_fetch_is_resumed(proxied, processes, tmp_path):
    proxy, store = proxied
    data = os.urandom(10 * BLOCK)
    (tmp_path / "in").write_bytes(data)
    store.put(tmp_path / "in", "f")
    target = tmp_path / "out" / "f"

    def stop_late(done: int, total: int) -> None:
        if done >= 6 * BLOCK:
            os.kill(os.getpid(), signal.SIGKILL)

    code = processes.wait(processes.fork(lambda: store.fetch("f", target, stop_late)))
    assert code == -signal.SIGKILL
    assert not target.exists()
    have = (target.parent / "f.part").stat().st_size
    assert have >= 4 * BLOCK
    proxy.log.clear()
    store.fetch("f", target)
    assert target.read_bytes() == data
    assert os.listdir(target.parent) == ["f"]
    assert len([line for line in proxy.log if MEDIA in line]) <= 6, "ten pieces in all"


def test_resume_begins_anew_when_the_file_has_changed(gcs_store, tmp_path):
    gcs_store.write("f", b"new content")
    (tmp_path / "out.part").write_bytes(b"old")
    (tmp_path / "out.part.json").write_text(
        json.dumps({"source": gcs_store.path("f"), "size": 11, "token": "1"})
    )
    gcs_store.fetch("f", tmp_path / "out")
    assert (tmp_path / "out").read_bytes() == b"new content"


def test_two_fetches_of_one_target(gcs_store, tmp_path):
    from concurrent.futures import ThreadPoolExecutor

    data = os.urandom(20 * BLOCK)
    (tmp_path / "in").write_bytes(data)
    gcs_store.put(tmp_path / "in", "f")
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda _: gcs_store.fetch("f", tmp_path / "d" / "out"), range(4)))
    assert (tmp_path / "d" / "out").read_bytes() == data
    assert os.listdir(tmp_path / "d") == ["out"]


def test_open_files_stay_with_their_generation(gcs_store):
    gcs_store.write("f", b"a" * 1000)
    with gcs_store.open_file("f", buffer_bytes=100) as file:
        assert file.read(10) == b"a" * 10
        gcs_store.write("f", b"b" * 1000)
        file.seek(500)
        with pytest.raises(FileNotFoundError):
            file.read(10)


def test_waits_grow_and_vary_and_end():
    retry = Retry(attempts=9, first=0.5, ceiling=8)
    for attempt in range(9):
        longest = min(8, 0.5 * 2**attempt)
        waits = [retry.wait(attempt) for _ in range(50)]
        assert longest / 2 <= min(waits) < max(waits) <= longest
    assert retry.wait(0, "3") == 3
    assert retry.wait(0, "100000") == 60
    assert retry.wait(0, "Fri, 31 Dec 1999 23:59:59 GMT") <= 0.5
