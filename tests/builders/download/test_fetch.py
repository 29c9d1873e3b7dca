"""fetch against real servers that cut, refuse, change and lie."""

from __future__ import annotations

import base64
import gzip
import hashlib
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path
from urllib.parse import quote

import pytest
import trustme
from tests.builders.download.flaky_http import ODD_NAME, FlakyServer, Served, serve

from provender.builders.download import Checksum, fetch, probe
from provender.builders.download.drive import confirmed_url
from provender.builders.download.source import Permanent
from provender.errors import ChecksumMismatch, DiskFull, DownloadError

BODY = os.urandom(300_000)
SHA = hashlib.sha256(BODY).hexdigest()
OTHER = os.urandom(200_000)


def test_the_bytes_their_digest_and_their_identity(server: FlakyServer, tmp_path: Path) -> None:
    server.files["/d/data.bin"] = Served(BODY)
    seen: list[tuple[str, int, int | None]] = []
    got = fetch(
        f"{server.url}/d/data.bin", tmp_path / "x", progress=lambda *args: seen.append(args)
    )
    assert (tmp_path / "x").read_bytes() == BODY
    assert (got.sha256, got.size, got.filename) == (SHA, len(BODY), "data.bin")
    assert seen[-1] == (f"{server.url}/d/data.bin", len(BODY), len(BODY))
    identity = probe(f"{server.url}/d/data.bin")
    assert identity is not None
    assert identity.token == got.identity
    assert identity.size == len(BODY)
    assert list(tmp_path.iterdir()) == [tmp_path / "x"]


def test_a_connection_cut_twice_goes_on_and_sends_no_byte_twice(
    server: FlakyServer, tmp_path: Path
) -> None:
    server.files["/f"] = Served(BODY, cuts=[100_000, 50_000])
    got = fetch(f"{server.url}/f", tmp_path / "x", backoff=0.01)
    assert got.sha256 == SHA
    assert server.bytes_sent == len(BODY)
    assert [r.range for r in server.gets()] == [None, "bytes=100000-", "bytes=150000-"]


def test_server_errors_are_tried_again_and_retry_after_is_kept(
    server: FlakyServer, tmp_path: Path
) -> None:
    server.files["/f"] = Served(BODY, statuses=[500, 503, 429], retry_after="1")
    began = time.monotonic()
    assert fetch(f"{server.url}/f", tmp_path / "x", backoff=0.01).sha256 == SHA
    assert time.monotonic() - began >= 3
    assert len(server.gets()) == 4


@pytest.mark.parametrize(("status", "word"), [(404, "address"), (403, "login"), (410, "mirror")])
def test_final_answers_are_not_tried_again(
    server: FlakyServer, tmp_path: Path, status: int, word: str
) -> None:
    server.files["/f"] = Served(BODY, statuses=[status] * 5)
    with pytest.raises(DownloadError, match=str(status)) as caught:
        fetch(f"{server.url}/f", tmp_path / "x")
    assert len(server.gets()) == 1
    assert caught.value.facts["transient"] is False
    assert word in (caught.value.hint or "")


def test_giving_up_says_that_later_may_help(server: FlakyServer, tmp_path: Path) -> None:
    server.files["/f"] = Served(BODY, statuses=[503] * 9)
    with pytest.raises(DownloadError, match="503") as caught:
        fetch(f"{server.url}/f", tmp_path / "x", retries=2, backoff=0.01)
    assert caught.value.facts["transient"] is True
    assert len(server.gets()) == 3


def test_a_wait_of_a_day_is_reported_instead(server: FlakyServer, tmp_path: Path) -> None:
    server.files["/f"] = Served(BODY, statuses=[429] * 9, retry_after="86400")
    with pytest.raises(DownloadError, match="asked to wait 86400 s"):
        fetch(f"{server.url}/f", tmp_path / "x")
    assert len(server.gets()) == 1


def test_silence_ends_a_try(server: FlakyServer, tmp_path: Path) -> None:
    server.files["/f"] = Served(BODY, delay=3)
    began = time.monotonic()
    with pytest.raises(DownloadError, match="ReadTimeout") as caught:
        fetch(f"{server.url}/f", tmp_path / "x", retries=0, timeout=0.3)
    assert caught.value.facts["transient"] is True
    assert time.monotonic() - began < 3


def test_an_untrusted_certificate_is_final_and_says_what_to_set(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    authority = trustme.CA()
    with serve(authority.issue_cert("127.0.0.1")) as server:
        server.files["/f"] = Served(BODY)
        with pytest.raises(DownloadError, match=r"(?i)certificate") as caught:
            fetch(f"{server.url}/f", tmp_path / "x")
        assert caught.value.facts["transient"] is False
        assert "SSL_CERT_FILE" in (caught.value.hint or "")
        authority.cert_pem.write_to_path(tmp_path / "ca.pem")
        monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "ca.pem"))
        assert fetch(f"{server.url}/f", tmp_path / "x").sha256 == SHA


@pytest.mark.parametrize("seed", range(12))
def test_whatever_happens_the_bytes_are_those_of_one_state(
    server: FlakyServer, tmp_path: Path, seed: int
) -> None:
    chance = random.Random(seed)
    server.files["/f"] = Served(
        BODY,
        cuts=[chance.randrange(len(BODY)) for _ in range(chance.randrange(5))],
        statuses=[chance.choice([500, 503, 429]) for _ in range(chance.randrange(3))],
        ranges=chance.random() < 0.7,
        if_range=chance.random() < 0.5,
        etag=chance.choice(["auto", 'W/"weak"', None]),
        then=chance.choice([None, OTHER]),
    )
    got = fetch(f"{server.url}/f", tmp_path / "x", backoff=0.001, retries=12)
    assert (tmp_path / "x").read_bytes() == server.files["/f"].body
    assert got.size == len(server.files["/f"].body)
    assert list(tmp_path.iterdir()) == [tmp_path / "x"]


def test_a_final_failure_leaves_no_litter(server: FlakyServer, tmp_path: Path) -> None:
    server.files["/a.zip"] = Served(b"<html>", content_type="text/html")
    for path in ("/missing", "/a.zip"):
        with pytest.raises(DownloadError):
            fetch(server.url + path, tmp_path / "x")
    assert list(tmp_path.iterdir()) == []


def test_nobody_there(tmp_path: Path) -> None:
    with pytest.raises(DownloadError, match="ConnectError") as caught:
        fetch("http://127.0.0.1:9/f", tmp_path / "x", retries=1, backoff=0.01)
    assert caught.value.facts["transient"] is True
    with pytest.raises(DownloadError) as caught:
        fetch("http://", tmp_path / "x")
    assert caught.value.facts["transient"] is False


def test_the_page_before_a_large_drive_file() -> None:
    page = """<form id="download-form" action="https://drive.usercontent.google.com/download">
    <input type="submit" name="go" value="Go"><input type="hidden" name="id" value="a b">
    <input type="hidden" name="confirm" value="t"></form><input name="other" value="x">"""
    url = confirmed_url("https://drive.google.com/uc?id=1", page)
    assert url == "https://drive.usercontent.google.com/download?id=a+b&confirm=t"
    with pytest.raises(Permanent, match="page instead"):
        confirmed_url("https://drive.google.com/uc?id=1", "<p>Quota exceeded</p>")


def test_a_server_without_ranges_is_read_from_the_start(
    server: FlakyServer, tmp_path: Path
) -> None:
    server.files["/f"] = Served(BODY, cuts=[100_000], ranges=False)
    assert fetch(f"{server.url}/f", tmp_path / "x", backoff=0.01).sha256 == SHA


@pytest.mark.parametrize("if_range", [True, False])
def test_content_that_changes_midway_is_never_mixed(
    server: FlakyServer, tmp_path: Path, if_range: bool
) -> None:
    server.files["/f"] = Served(BODY, cuts=[100_000], then=OTHER, if_range=if_range)
    got = fetch(f"{server.url}/f", tmp_path / "x", backoff=0.01)
    assert (tmp_path / "x").read_bytes() == OTHER
    assert got.sha256 == hashlib.sha256(OTHER).hexdigest()


def test_without_any_validator_a_part_is_dropped_unless_a_checksum_will_tell(
    server: FlakyServer, tmp_path: Path
) -> None:
    server.files["/f"] = Served(BODY, cuts=[100_000], etag=None)
    fetch(f"{server.url}/f", tmp_path / "x", backoff=0.01)
    assert [r.range for r in server.gets()] == [None, None]
    server.files["/g"] = Served(BODY, cuts=[100_000], etag=None)
    fetch(f"{server.url}/g", tmp_path / "y", expected=Checksum(SHA), backoff=0.01)
    assert [r.range for r in server.gets("/g")] == [None, "bytes=100000-"]


def test_a_continued_part_that_comes_out_wrong_is_fetched_anew(
    server: FlakyServer, tmp_path: Path
) -> None:
    changed = bytes(len(BODY))
    server.files["/f"] = Served(changed, cuts=[100_000], etag=None, then=BODY)
    assert fetch(f"{server.url}/f", tmp_path / "x", expected=Checksum(SHA), backoff=0.01)
    assert (tmp_path / "x").read_bytes() == BODY


def test_a_changed_file_shows_old_and_new_and_the_way_to_accept_it(
    server: FlakyServer, tmp_path: Path
) -> None:
    server.files["/f.bin"] = Served(OTHER)
    with pytest.raises(ChecksumMismatch) as caught:
        fetch(
            f"{server.url}/f.bin", tmp_path / "x", expected=Checksum(SHA, len(BODY)), dataset="demo"
        )
    text = str(caught.value)
    assert SHA in text
    assert hashlib.sha256(OTHER).hexdigest() in text
    assert "300,000" in text
    assert "200,000" in text
    assert "provender build demo --register-checksums" in text
    assert list(tmp_path.iterdir()) == []


def test_a_web_page_is_not_an_archive(server: FlakyServer, tmp_path: Path) -> None:
    page = b"\n<!DOCTYPE html><html><body>Quota exceeded</body></html>"
    server.files["/a.zip"] = Served(page, content_type="text/html; charset=utf-8")
    server.files["/download"] = Served(page, content_type="text/html")
    with pytest.raises(DownloadError, match="web page") as caught:
        fetch(f"{server.url}/a.zip", tmp_path / "x")
    assert "browser" in (caught.value.hint or "")
    with pytest.raises(DownloadError, match="web page"):
        fetch(f"{server.url}/download", tmp_path / "x", expected=Checksum(SHA, len(BODY)))
    # Where a page is what one asks for, it is a file like any other.
    assert fetch(f"{server.url}/download", tmp_path / "x").size == len(page)


def test_a_coded_transfer_yields_the_decoded_file(server: FlakyServer, tmp_path: Path) -> None:
    server.files["/f.txt"] = Served(
        gzip.compress(BODY), cuts=[1000], headers={"content-encoding": "gzip"}
    )
    assert fetch(f"{server.url}/f.txt", tmp_path / "x", backoff=0.01).sha256 == SHA


def test_names_that_servers_give(server: FlakyServer, tmp_path: Path) -> None:
    def name(path: str, **served: object) -> str:
        server.files[path] = Served(b"x", **served)  # type: ignore[arg-type]
        return fetch(server.url + path, tmp_path / "x").filename

    def disposed(text: str) -> dict[str, str]:
        return {"content-disposition": text}

    assert name("/get", headers=disposed('attachment; filename="a b;c.zip"')) == "a b;c.zip"
    assert name("/get", headers=disposed("attachment; filename*=UTF-8''%C3%A9.zip")) == "é.zip"
    assert name("/get", headers=disposed('attachment; filename="../../etc/x"')) == "_.._etc_x"
    assert name("/plain.tar.gz") == "plain.tar.gz"
    server.files["/real.csv"] = Served(b"x")
    assert name("/dl", redirect=f"{server.url}/real.csv") == "real.csv"
    assert name("/mine.csv", redirect=f"{server.url}/real.csv") == "mine.csv"
    assert name("/") == "download"


def test_odd_names(server: FlakyServer, tmp_path: Path) -> None:
    server.files[f"/{ODD_NAME}"] = Served(BODY)
    got = fetch(f"{server.url}/{quote(ODD_NAME)}", tmp_path / ODD_NAME)
    assert got.filename == ODD_NAME
    assert (tmp_path / ODD_NAME).read_bytes() == BODY
    for url in (str(tmp_path / ODD_NAME), f"file://{tmp_path}/{ODD_NAME}"):
        assert fetch(url, tmp_path / "copy").filename == ODD_NAME
    assert fetch(f"file://{quote(str(tmp_path / ODD_NAME))}", tmp_path / "copy").sha256 == SHA


def test_logins_reach_their_host_and_nothing_else(
    server: FlakyServer, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    login = base64.b64encode("me:pa:ss wörd".encode()).decode()
    server.files["/f"] = Served(BODY, login=login, cuts=[10])
    host = server.url.removeprefix("http://")
    url = f"http://me:{quote('pa:ss wörd')}@{host}/f?token=T0PSECRET&v=2"
    shown: list[str] = []
    with caplog.at_level("DEBUG"):
        got = fetch(url, tmp_path / "x", progress=lambda u, *_: shown.append(u), backoff=0.01)
        server.files["/f"].statuses = [404]
        with pytest.raises(DownloadError) as caught:
            fetch(url, tmp_path / "y")
    told = f"{caught.value} {caught.value.facts} {got} {shown} {caplog.text}"
    for secret in ("pa:ss", quote("pa:ss wörd"), "T0PSECRET"):
        assert secret not in told
    assert "v=2" in got.url


def test_a_part_and_its_state_hold_no_secret(server: FlakyServer, tmp_path: Path) -> None:
    server.files["/f"] = Served(BODY, cuts=[1000] * 9)
    host = server.url.removeprefix("http://")
    with pytest.raises(DownloadError):
        fetch(f"http://u:hunter2@{host}/f?api_key=abcdef", tmp_path / "x", retries=0)
    state = (tmp_path / "x.part.json").read_text()
    assert "hunter2" not in state
    assert "abcdef" not in state
    assert (tmp_path / "x.part").stat().st_size == 1000


def test_ftp_is_continued(ftp_root: tuple[Path, str], tmp_path: Path) -> None:
    root, url = ftp_root
    (root / ODD_NAME).write_bytes(BODY)
    address = f"{url}/{quote(ODD_NAME)}"
    got = fetch(address, tmp_path / "x")
    identity = probe(address)
    assert identity is not None
    assert (got.sha256, got.identity) == (SHA, identity.token)
    assert "secret" not in f"{got}"
    # A part of the same content goes on; of other content it does not.
    for state_identity, resumed in ((got.identity, 1000), ("modified:1;size:2", 0)):
        _leave_part(tmp_path / "y", got.url, state_identity, BODY[:1000])
        again = fetch(address, tmp_path / "y")
        assert (again.sha256, again.resumed_bytes) == (SHA, resumed)
    with pytest.raises(DownloadError, match="530"):
        fetch(address.replace("secret", "wrong"), tmp_path / "z")
    with pytest.raises(DownloadError, match="550") as caught:
        fetch(f"{url}/missing", tmp_path / "z")
    assert caught.value.facts["transient"] is False


def test_files_and_fsspec_schemes_are_continued(tmp_path: Path) -> None:
    import fsspec

    source = tmp_path / "source"
    source.write_bytes(BODY)
    memory = fsspec.filesystem("memory")
    memory.pipe("/bucket/f.bin", BODY)
    for url in (f"file://{source}", "memory://bucket/f.bin"):
        identity = probe(url)
        assert identity is not None
        _leave_part(tmp_path / "y", url, identity.token, BODY[:1000])
        got = fetch(url, tmp_path / "y")
        assert (got.sha256, got.resumed_bytes) == (SHA, 1000), url
    with pytest.raises(DownloadError, match="no such file"):
        fetch("memory://bucket/missing", tmp_path / "z")
    with pytest.raises(DownloadError, match="no such file"):
        fetch("/no/such/file", tmp_path / "z")
    with pytest.raises(DownloadError):
        fetch("nosuchscheme://x/y", tmp_path / "z")


def test_probe_of_a_server_without_head_or_identity(server: FlakyServer) -> None:
    server.files["/a"] = Served(BODY, head=False)
    server.files["/b"] = Served(BODY, etag=None)
    server.files["/c"] = Served(BODY, etag=None, last_modified="Sun, 06 Nov 1994 08:49:37 GMT")
    a, c = probe(f"{server.url}/a"), probe(f"{server.url}/c")
    assert a is not None
    assert a.size == len(BODY)
    assert probe(f"{server.url}/b") is None
    assert c is not None
    assert "1994" in c.token
    with pytest.raises(DownloadError):
        probe(f"{server.url}/missing")


_CHILD = """
import sys
from pathlib import Path
from provender.builders.download import fetch
fetch(sys.argv[1], Path(sys.argv[2]))
"""


def test_a_killed_process_leaves_what_the_next_goes_on_from(
    server: FlakyServer, tmp_path: Path
) -> None:
    body = os.urandom(1_000_000)
    server.files["/f"] = Served(body, delay=0.02)
    child = subprocess.Popen([sys.executable, "-c", _CHILD, f"{server.url}/f", str(tmp_path / "x")])
    part = tmp_path / "x.part"
    deadline = time.monotonic() + 30
    while not (part.exists() and part.stat().st_size > 200_000) and time.monotonic() < deadline:
        time.sleep(0.01)
    child.send_signal(signal.SIGKILL)
    child.wait()
    left = part.stat().st_size
    assert 0 < left < len(body)
    assert not (tmp_path / "x").exists()
    server.files["/f"].delay = 0
    got = fetch(f"{server.url}/f", tmp_path / "x")
    assert (got.resumed_bytes, got.size) == (left, len(body))
    assert (tmp_path / "x").read_bytes() == body
    assert server.gets()[-1].sent == len(body) - left


def test_a_part_that_is_complete_already_is_proven_without_its_bytes(
    server: FlakyServer, tmp_path: Path
) -> None:
    server.files["/f"] = Served(BODY)
    first = fetch(f"{server.url}/f", tmp_path / "x")
    etag = server.files["/f"].tag()
    _leave_part(tmp_path / "y", first.url, first.identity, BODY, if_range=etag)
    sent = server.bytes_sent
    assert fetch(f"{server.url}/f", tmp_path / "y").sha256 == SHA
    assert server.bytes_sent == sent
    # And one longer than what upstream has now is dropped.
    server.files["/f"] = Served(OTHER, etag=etag)
    _leave_part(tmp_path / "z", first.url, first.identity, BODY, if_range=etag)
    got = fetch(f"{server.url}/f", tmp_path / "z", backoff=0.01)
    assert got.sha256 == hashlib.sha256(OTHER).hexdigest()


_LIMITED = """
import resource, sys
from pathlib import Path
from provender.builders.download import fetch
from provender.errors import DiskFull
resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000))
try:
    fetch(sys.argv[1], Path(sys.argv[2]))
except DiskFull as err:
    print(err)
"""


def test_a_full_disk_is_named_with_the_bytes_needed(server: FlakyServer, tmp_path: Path) -> None:
    server.files["/f"] = Served(BODY)
    done = subprocess.run(
        [sys.executable, "-c", _LIMITED, f"{server.url}/f", str(tmp_path / "x")],
        capture_output=True,
        text=True,
        check=True,
    )
    assert "No space is left for 300,000 bytes" in done.stdout
    assert "x.part" in done.stdout
    assert fetch(f"{server.url}/f", tmp_path / "x").sha256 == SHA


def test_a_small_disk_is_refused_before_and_reported_during(
    server: FlakyServer, tmp_path: Path
) -> None:
    disk = tmp_path / "disk"
    disk.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=128k", "tmpfs", str(disk)], capture_output=True
    )
    if mounted.returncode:
        pytest.skip("mounting needs root")
    try:
        server.files["/f"] = Served(BODY)
        with pytest.raises(DiskFull, match="300,000 bytes"):
            fetch(f"{server.url}/f", disk / "x")
        assert server.bytes_sent < len(BODY) + 1
        # Without a length nothing can be said before; the disk fills up.
        server.files["/g"] = Served(gzip.compress(BODY), headers={"content-encoding": "gzip"})
        with pytest.raises(DiskFull):
            fetch(f"{server.url}/g", disk / "y")
        assert not (disk / "y").exists()
    finally:
        subprocess.run(["umount", str(disk)], check=True)


def _leave_part(
    dest: Path, url: str, identity: str | None, data: bytes, if_range: str | None = None
) -> None:
    import json

    dest.with_name(dest.name + ".part").write_bytes(data)
    state = {
        "url": url,
        "identity": identity,
        "if_range": if_range,
        "size": len(BODY),
        "resumable": True,
    }
    dest.with_name(dest.name + ".part.json").write_text(json.dumps(state))
