"""The manager as builders and as the download stage use it."""

from __future__ import annotations

import collections
import hashlib
import multiprocessing
import os
import pickle
import shutil
import stat
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.builders.download.flaky_http import FlakyServer, Served
from tests.builders.download.test_archives import FILES, make_tar, make_zip, tree

from provender.builders.download import Checksum, ChecksumFile, DownloadManager, DownloadRecord
from provender.errors import (
    BuilderError,
    ChecksumMismatch,
    DownloadError,
    ManualFilesMissing,
    SettingsError,
)

Make = Callable[..., DownloadManager]
BODY = os.urandom(100_000)
OTHER = os.urandom(90_000)


def sha(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def test_nested_structures_keep_their_shape_and_order(
    server: FlakyServer, make_manager: Make
) -> None:
    for i in range(6):
        server.files[f"/{i}.bin"] = Served(bytes([i]) * 1000, delay=0.02 * (6 - i))
    urls = [f"{server.url}/{i}.bin" for i in range(6)]
    pair = collections.namedtuple("pair", "left right")
    manager = make_manager()
    got = manager.download({"a": urls[:2], "b": (urls[2], {"c": pair(urls[3], urls[4])})})
    assert type(got["b"][1]["c"]) is pair
    assert got["b"][1]["c"].right.read_bytes() == b"\4" * 1000
    assert isinstance(got["a"], list)
    assert isinstance(got["b"], tuple)
    assert manager.download(urls[5]).read_bytes() == b"\5" * 1000
    assert [record.url for record in manager.records] == urls
    assert manager.downloaded_size == 6000
    assert manager.download([]) == []
    with pytest.raises(BuilderError, match="neither a URL"):
        manager.download({"a": 7})


def test_equal_bytes_have_equal_paths_and_are_read_only(
    server: FlakyServer, make_manager: Make, tmp_path: Path
) -> None:
    server.files["/data.bin"] = Served(BODY)
    server.files["/copy/other.bin"] = Served(BODY)
    manager = make_manager()
    one, two = manager.download([f"{server.url}/data.bin", f"{server.url}/copy/other.bin"])
    folder = tmp_path / "objects" / sha(BODY)[:2] / sha(BODY)
    assert (Path(one), Path(two)) == (folder / "data.bin", folder / "other.bin")
    assert stat.S_IMODE(Path(one).stat().st_mode) == 0o444
    assert manager.records[0].object == f"{sha(BODY)[:2]}/{sha(BODY)}/data.bin"
    assert manager.path_of(manager.records[0]) == Path(one)


def test_what_was_recorded_needs_no_network(server: FlakyServer, make_manager: Make) -> None:
    server.files["/data.bin"] = Served(BODY)
    url = f"http://u:hunter2@{server.url[7:]}/data.bin?token=abcdef"
    first = make_manager()
    path = first.download(url)
    docs = first.to_json()
    assert "hunter2" not in str(docs)
    assert "abcdef" not in str(docs)
    recorded = DownloadManager.records_from_json(docs)
    count = len(server.requests)
    for mode in ("online", "offline"):
        again = make_manager(recorded=recorded, mode=mode)
        assert again.download(url) == path
        assert again.to_json() == docs
    assert make_manager(recorded={url: first.records[0]}).download(url) == path
    assert len(server.requests) == count
    make_manager(recorded=recorded, force=True).download(url)
    assert len(server.requests) > count


def test_offline_and_unknown_names_the_url(server: FlakyServer, make_manager: Make) -> None:
    with pytest.raises(DownloadError, match="offline") as caught:
        make_manager(mode="offline").download(f"{server.url}/x.zip")
    assert f"{server.url}/x.zip" in str(caught.value)
    assert server.requests == []


def test_objects_come_from_the_store_and_go_there(
    server: FlakyServer, make_manager: Make, tmp_path: Path
) -> None:
    server.files["/data.bin"] = Served(BODY)
    url = f"{server.url}/data.bin"
    remote: dict[str, bytes] = {}

    def upload(path: Path, digest: str) -> None:
        remote[digest] = path.read_bytes()

    def fetch_missing(digest: str, filename: str, dest: Path) -> bool:
        if digest in remote:
            dest.parent.mkdir(parents=True, exist_ok=True)
            dest.write_bytes(remote[digest])
        return digest in remote

    first = make_manager(upload=upload, fetch_missing=fetch_missing)
    first.download(url)
    assert remote == {sha(BODY): BODY}
    recorded = {record.url: record for record in first.records}
    calls: list[str] = []
    second = make_manager(
        objects_dir=tmp_path / "elsewhere",
        recorded=recorded,
        mode="offline",
        fetch_missing=fetch_missing,
        upload=lambda _path, digest: calls.append(digest),
    )
    assert second.download(url).read_bytes() == BODY
    assert calls == []
    # A damaged copy in the store is not taken.
    remote[sha(BODY)] = OTHER
    third = make_manager(
        objects_dir=tmp_path / "third",
        recorded=recorded,
        mode="offline",
        fetch_missing=fetch_missing,
    )
    with pytest.raises(DownloadError, match="neither here nor in the store"):
        third.download(url)
    fourth = make_manager(
        objects_dir=tmp_path / "third", recorded=recorded, fetch_missing=fetch_missing
    )
    assert fourth.download(url).read_bytes() == BODY


def test_a_damaged_object_is_noticed_and_fetched_again(
    server: FlakyServer, make_manager: Make
) -> None:
    server.files["/data.bin"] = Served(BODY)
    url = f"{server.url}/data.bin"
    first = make_manager()
    path = Path(first.download(url))
    path.chmod(0o644)
    path.write_bytes(BODY[:-1] + b"?")
    recorded = {record.url: record for record in first.records}
    with pytest.raises(DownloadError, match="neither here"):
        make_manager(recorded=recorded, mode="offline").download(url)
    assert make_manager(recorded=recorded).download(url).read_bytes() == BODY


def test_registered_checksums_are_checked_and_can_be_accepted(
    server: FlakyServer, make_manager: Make, tmp_path: Path
) -> None:
    server.files["/data.bin"] = Served(BODY)
    url = f"{server.url}/data.bin"
    file = tmp_path / "checksums.tsv"
    make_manager(register=True, checksums=ChecksumFile.load(file)).download(url)
    assert file.read_text() == f"{url}\t{len(BODY)}\t{sha(BODY)}\tdata.bin\n"
    server.files["/data.bin"] = Served(OTHER)
    # What is registered and here needs no network; what is forced comes from upstream.
    ok = make_manager(checksums=ChecksumFile.load(file))
    assert ok.download(url).read_bytes() == BODY
    with pytest.raises(ChecksumMismatch, match=sha(OTHER)):
        make_manager(checksums=ChecksumFile.load(file), force=True).download(url)
    # Accepting it costs no second download, and makes a new path.
    recorded = {record.url: record for record in ok.records}
    sent = server.bytes_sent
    accepted = make_manager(register=True, checksums=ChecksumFile.load(file), recorded=recorded)
    assert accepted.download(url).read_bytes() == OTHER
    assert server.bytes_sent == sent
    assert ChecksumFile.load(file).get(url) == Checksum(sha(OTHER), len(OTHER), "data.bin")
    with pytest.raises(SettingsError):
        make_manager(register=True)


def test_an_older_record_does_not_pass_for_a_newly_registered_checksum(
    server: FlakyServer, make_manager: Make
) -> None:
    server.files["/data.bin"] = Served(BODY)
    url = f"{server.url}/data.bin"
    first = make_manager()
    first.download(url)
    server.files["/data.bin"] = Served(OTHER)
    checksums = ChecksumFile({url: Checksum(sha(OTHER), len(OTHER))})
    recorded = {record.url: record for record in first.records}
    assert make_manager(recorded=recorded, checksums=checksums).download(url).read_bytes() == OTHER


def test_a_run_that_was_not_recorded_is_not_lost(server: FlakyServer, make_manager: Make) -> None:
    server.files["/data.bin"] = Served(BODY)
    url = f"{server.url}/data.bin"
    make_manager().download(url)
    sent = server.bytes_sent
    assert make_manager().download(url).read_bytes() == BODY
    assert server.bytes_sent == sent
    assert server.requests[-1].method == "HEAD"
    server.files["/data.bin"] = Served(OTHER)
    assert make_manager().download(url).read_bytes() == OTHER


def test_manual_files_stand_for_urls_under_their_registered_name(
    server: FlakyServer, make_manager: Make, tmp_path: Path
) -> None:
    url = f"{server.url}/get?id=7"
    manual = tmp_path / "manual"
    manual.mkdir()
    (tmp_path / "real").write_bytes(BODY)
    (manual / "data.bin").symlink_to(tmp_path / "real")
    checksums = ChecksumFile({url: Checksum(sha(BODY), len(BODY), "data.bin")})
    for mode in ("online", "offline"):
        manager = make_manager(checksums=checksums, manual_dir=manual, mode=mode)
        path = Path(manager.download(url))
        assert path.read_bytes() == BODY
        assert path.parent.name == sha(BODY)
        assert manager.records[0].via == "manual:data.bin"
    (tmp_path / "real").write_bytes(OTHER)
    assert path.read_bytes() == BODY
    with pytest.raises(ChecksumMismatch, match=sha(OTHER)):
        make_manager(checksums=checksums, manual_dir=manual).download(url)
    assert server.requests == []


def test_mirrors_are_asked_first_and_passed_over_when_wrong(
    server: FlakyServer, make_manager: Make, tmp_path: Path
) -> None:
    server.files["/data.bin"] = Served(BODY)
    server.files["/bad/data.bin"] = Served(OTHER)
    url = f"{server.url}/data.bin"
    near = tmp_path / "near"
    mirrors = {f"{server.url}/": [f"{server.url}/gone/", f"{server.url}/bad/", f"{near}/"]}
    checksums = ChecksumFile({url: Checksum(sha(BODY), len(BODY), "data.bin")})
    manager = make_manager(mirrors=mirrors, checksums=checksums, objects_dir=tmp_path / "o1")
    assert manager.download(url).read_bytes() == BODY
    assert manager.records[0].via == url
    near.mkdir()
    (near / "data.bin").write_bytes(BODY)
    manager = make_manager(mirrors=mirrors, checksums=checksums, objects_dir=tmp_path / "o2")
    assert manager.download(url).read_bytes() == BODY
    assert manager.records[0].via == str(near / "data.bin")
    assert manager.records[0].url == url


def test_one_failure_ends_the_others_and_keeps_their_parts(
    server: FlakyServer, make_manager: Make, tmp_path: Path
) -> None:
    server.files["/slow"] = Served(os.urandom(3_000_000), delay=0.05)
    # Refused three times first, so that the other one has begun when this one fails for good.
    server.files["/missing"] = Served(b"", statuses=[503, 503, 503, 404])
    began = time.monotonic()
    with pytest.raises(DownloadError, match="404"):
        make_manager(retries=4).download([f"{server.url}/slow", f"{server.url}/missing"])
    assert time.monotonic() - began < 9
    server.files["/slow"].delay = 0
    make_manager().download(f"{server.url}/slow")
    assert server.gets("/slow")[-1].range is not None


def test_archives_are_unpacked_by_content(
    server: FlakyServer, make_manager: Make, tmp_path: Path
) -> None:
    packed = make_tar(tmp_path / "x.tar.gz", "w:gz").read_bytes()
    server.files["/x.tar.gz"] = Served(packed)
    url = f"{server.url}/x.tar.gz"
    manager = make_manager()
    got = manager.download_and_extract({"a": url, "b": [url]})
    assert got["a"] == got["b"][0]
    assert Path(got["a"]) == tmp_path / "extracted" / sha(packed)[:2] / sha(packed) / "TAR"
    assert tree(Path(got["a"])) == FILES
    assert manager.extract(manager.download(url)) == got["a"]
    assert len(server.gets()) == 1
    stream = manager.iter_archive(manager.download(url))
    assert {n: f.read() for n, f in stream} == FILES
    assert stream.__fingerprint__() == ("archive", "TAR", sha(packed))
    found = {Path(p).relative_to(got["a"]).as_posix() for p in manager.iter_files([got["a"]])}
    assert found == set(FILES)
    assert list(manager.iter_files(got["a"])) == list(manager.iter_files([got["a"]]))


def test_a_replaced_manual_archive_is_unpacked_anew(make_manager: Make, tmp_path: Path) -> None:
    manual = tmp_path / "manual"
    manual.mkdir()
    make_zip(manual / "x.zip", {"a": b"1"})
    manager = make_manager(manual_dir=manual, manual_instructions="Get x.zip.")
    one = manager.extract(manager.manual_dir / "x.zip")
    make_zip(manual / "x.zip", {"a": b"2"})
    two = make_manager().extract(manual / "x.zip")
    assert (tree(Path(one)), tree(Path(two))) == ({"a": b"1"}, {"a": b"2"})
    assert manager.uses_manual_dir


def test_manual_dir_is_checked_and_needs_instructions(make_manager: Make, tmp_path: Path) -> None:
    with pytest.raises(BuilderError, match="without telling"):
        make_manager(manual_dir=tmp_path).manual_dir
    manager = make_manager(
        manual_dir=tmp_path / "m", manual_instructions="Get it.", manual_files=["a", "b"]
    )
    with pytest.raises(ManualFilesMissing) as caught:
        manager.manual_dir
    assert caught.value.facts["missing"] == ["a", "b"]
    assert not manager.uses_manual_dir
    with pytest.raises(ManualFilesMissing, match="not configured"):
        make_manager(manual_instructions="Get it.").manual_dir


def test_resources_of_tfds(server: FlakyServer, make_manager: Make, tmp_path: Path) -> None:
    resource = pytest.importorskip("tensorflow_datasets.core.download.resource")
    server.files["/get"] = Served(make_zip(tmp_path / "x.zip").read_bytes())
    manager = make_manager()
    as_zip = resource.Resource(url=f"{server.url}/get", extract_method=resource.ExtractMethod.ZIP)
    left = resource.Resource(
        url=f"{server.url}/get", extract_method=resource.ExtractMethod.NO_EXTRACT
    )
    assert tree(Path(manager.download_and_extract(as_zip))) == FILES
    assert Path(manager.download_and_extract(left)).is_file()
    path = manager.download(as_zip)
    there = resource.Resource(path=path, extract_method=resource.ExtractMethod.ZIP)
    assert {n for n, _ in manager.iter_archive(there)} == set(FILES)


def test_downloaded_checksums_count(server: FlakyServer, make_manager: Make) -> None:
    server.files["/data.bin"] = Served(OTHER)
    line = f"{server.url}/data.bin\t{len(BODY)}\t{sha(BODY)}\tdata.bin\n"
    server.files["/sums.txt"] = Served(line.encode())
    manager = make_manager()
    manager.download_checksums(f"{server.url}/sums.txt")
    with pytest.raises(ChecksumMismatch):
        manager.download(f"{server.url}/data.bin")


def test_kaggle_by_its_command_line(
    make_manager: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(DownloadError, match="not installed") as caught:
        make_manager().download_kaggle_data("owner/name")
    assert "manual_dir" in (caught.value.hint or "")
    packed = make_zip(tmp_path / "name.zip")
    command = tmp_path / "bin" / "kaggle"
    command.parent.mkdir()
    command.write_text(
        '#!/bin/sh\n[ "$5 $6" = "-d owner/name" ] || { echo "403 - Forbidden" >&2; exit 1; }\n'
        f'cp "{packed}" "$4"\n'
    )
    command.chmod(0o755)
    monkeypatch.setenv("PATH", str(command.parent), prepend=os.pathsep)
    manager = make_manager()
    assert tree(Path(manager.download_kaggle_data("owner/name"))) == FILES
    assert manager.records[0].url == "kaggle://datasets/owner/name"
    with pytest.raises(DownloadError, match="403"):
        manager.download_kaggle_data("competition")


def test_a_manager_can_be_sent_to_other_processes(
    server: FlakyServer, make_manager: Make, tmp_path: Path
) -> None:
    server.files["/x.zip"] = Served(make_zip(tmp_path / "x.zip").read_bytes())
    manager = make_manager(progress=lambda *_: None, upload=lambda *_: None)
    path = manager.download(f"{server.url}/x.zip")
    copy: DownloadManager = pickle.loads(pickle.dumps(manager))
    assert copy.records == manager.records
    assert copy.__fingerprint__() == manager.__fingerprint__()
    assert {n for n, _ in copy.iter_archive(path)} == set(FILES)
    assert copy.download(f"{server.url}/x.zip") == path
    assert len(server.gets()) == 1


def test_progress_masks_and_ends_with_the_total(server: FlakyServer, make_manager: Make) -> None:
    server.files["/data.bin"] = Served(BODY)
    seen: list[tuple[str, int, int | None]] = []
    lock = threading.Lock()

    def progress(url: str, done: int, total: int | None) -> None:
        with lock:
            seen.append((url, done, total))

    url = f"{server.url}/data.bin?token=abcdef"
    make_manager(progress=progress).download([url, url])
    assert (f"{server.url}/data.bin?token=***", len(BODY), len(BODY)) in seen
    assert "abcdef" not in str(seen)
    assert len(server.gets()) == 1


def _download(url: str, root: str, queue: Any) -> None:
    manager = DownloadManager("demo", objects_dir=Path(root) / "o", extract_dir=Path(root) / "e")
    path = Path(manager.download_and_extract(url))
    queue.put((str(path), manager.records[0].to_json()))


def test_processes_that_want_one_url_fetch_it_once(server: FlakyServer, tmp_path: Path) -> None:
    packed = make_tar(tmp_path / "x.tar", "w", {f"f{i}": os.urandom(10_000) for i in range(50)})
    server.files["/x.tar"] = Served(packed.read_bytes(), delay=0.01)
    context = multiprocessing.get_context("spawn")
    queue = context.Queue()
    args = (f"{server.url}/x.tar", str(tmp_path), queue)
    workers = [context.Process(target=_download, args=args) for _ in range(2)]
    for worker in workers:
        worker.start()
    results = [queue.get(timeout=60) for _ in workers]
    for worker in workers:
        worker.join()
    assert results[0] == results[1]
    assert len(server.gets()) == 1
    assert len(tree(Path(results[0][0]))) == 50


_KILLED = """
import sys
from pathlib import Path
from provender.builders.download import DownloadManager
DownloadManager("demo", objects_dir=Path(sys.argv[2]), extract_dir=Path(sys.argv[2])).download(sys.argv[1])
"""


def test_a_dead_owner_blocks_nobody(
    server: FlakyServer, make_manager: Make, tmp_path: Path
) -> None:
    body = os.urandom(1_000_000)
    server.files["/f"] = Served(body, delay=0.02)
    url, objects = f"{server.url}/f", tmp_path / "objects"
    child = subprocess.Popen([sys.executable, "-c", _KILLED, url, str(objects)])
    deadline = time.monotonic() + 30
    while time.monotonic() < deadline:
        parts = list(objects.glob(".incoming/*/data.part"))
        if parts and parts[0].stat().st_size > 100_000:
            break
        time.sleep(0.01)
    child.kill()
    child.wait()
    server.files["/f"].delay = 0
    assert make_manager().download(url).read_bytes() == body
    assert server.gets()[-1].sent < len(body)


def test_records_survive_their_json() -> None:
    record = DownloadRecord("u", "a" * 64, 1, "f", None, "aa/b/f", "u")
    assert DownloadRecord.from_json(record.to_json()) == record


def test_a_disk_without_the_objects_is_not_believed(
    server: FlakyServer, make_manager: Make, tmp_path: Path
) -> None:
    server.files["/data.bin"] = Served(BODY)
    url = f"{server.url}/data.bin"
    first = make_manager()
    first.download(url)
    shutil.rmtree(tmp_path / "objects" / sha(BODY)[:2])
    recorded = {record.url: record for record in first.records}
    assert make_manager(recorded=recorded).download(url).read_bytes() == BODY
