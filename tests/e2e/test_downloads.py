"""Downloads through the engine, from a real server that misbehaves."""

from __future__ import annotations

import hashlib
import io
import shutil
import tarfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from tests.builders.download.flaky_http import FlakyServer, Served, serve
from tests.e2e.conftest import Project, not_hit, reasons

from provender.builders.download.retry import Backoff
from provender.errors import ChecksumMismatch, ConflictError, DownloadError

PLAIN = """
import tensorflow_datasets as tfds

URL = "{url}"

class Far(tfds.core.GeneratorBasedBuilder):
    VERSION = tfds.core.Version("1.0.0")

    def _info(self):
        return tfds.core.DatasetInfo(
            builder=self,
            description="far",
            features=tfds.features.FeaturesDict({{"text": tfds.features.Text()}}),
        )

    def _split_generators(self, dl_manager):
        {plan}

    def _generate_examples(self, source):
        {generate}
"""
DOWNLOAD = 'return {"train": self._generate_examples(dl_manager.download(URL + "/data.txt"))}'
LINES = """with open(source, encoding="utf-8") as file:
            for number, line in enumerate(file):
                yield number, {"text": line.strip()}"""
EXTRACT = """folder = dl_manager.download_and_extract(URL + "/all.tar.gz")
        return {name: self._generate_examples(folder / f"{name}.txt") for name in ("train", "test")}"""
ITERATE = """archive = dl_manager.download(URL + "/all.tar.gz")
        return {"train": self._generate_examples(dl_manager.iter_archive(archive))}"""
MEMBERS = """for name, file in source:
            for number, line in enumerate(file):
                yield f"{name} {number}", {"text": line.decode().strip()}"""
BODY = "".join(f"line {i} {'x' * (i % 90)}\n" for i in range(3000)).encode()
REF = "far.py:Far"


@pytest.fixture
def server() -> Iterator[FlakyServer]:
    with serve() as running:
        running.files["/data.txt"] = Served(BODY)
        running.files["/all.tar.gz"] = Served(archive(BODY), content_type="application/gzip")
        yield running


@pytest.fixture
def far(project: Project, server: FlakyServer, monkeypatch: pytest.MonkeyPatch) -> Project:
    """A project with the builder `Far`, which downloads one text file."""
    # A tenth of the usual waits; how they grow is tested where they are made.
    usual = Backoff.delay
    monkeypatch.setattr(
        Backoff, "delay", lambda *args: None if (s := usual(*args)) is None else s / 10
    )
    write(project, server, DOWNLOAD, LINES)
    return project


def write(project: Project, server: FlakyServer, plan: str, generate: str) -> None:
    project.write("far.py", PLAIN.format(url=server.url, plan=plan, generate=generate))


def archive(train: bytes) -> bytes:
    data = io.BytesIO()
    with tarfile.open(fileobj=data, mode="w:gz") as tar:
        for name, body in (("train.txt", train), ("test.txt", b"one\ntwo\n")):
            member = tarfile.TarInfo(name)
            member.size = len(body)
            tar.addfile(member, io.BytesIO(body))
    return data.getvalue()


def shard(project: Project, path: str) -> bytes:
    return b"".join(
        file.read_bytes()
        for file in sorted((Path(project.settings.store) / path).glob("*tfrecord*"))
    )


def with_settings(project: Project, **changes: object) -> Project:
    return replace(project, settings=replace(project.settings, **changes))


# -- upstream that breaks ----------------------------------------------------------------------------


def test_cut_twice_goes_on_from_what_is_there(far: Project, server: FlakyServer) -> None:
    server.files["/data.txt"].cuts = [40_000, 50_000]
    built = far.build(REF)
    assert built.version.splits[0].examples == 3000
    first, second, third = server.gets("/data.txt")
    assert (first.range, second.range, third.range) == (None, "bytes=40000-", "bytes=90000-")
    assert server.bytes_sent == len(BODY)


def test_three_times_500_is_tried_again(far: Project, server: FlakyServer) -> None:
    server.files["/data.txt"].statuses = [500, 500, 500]
    assert far.build(REF).outcome == "succeeded"
    assert [each.status for each in server.gets()] == [500, 500, 500, 200]


def test_404_fails_at_once_and_says_what(far: Project, server: FlakyServer) -> None:
    del server.files["/data.txt"]
    with pytest.raises(DownloadError) as caught:
        far.build(REF)
    assert "404" in str(caught.value)
    assert f"{server.url}/data.txt" in str(caught.value)
    assert caught.value.facts["transient"] is False
    assert len(server.requests) == 1
    assert reasons(far.plan(REF), "download")[0].startswith("the last try failed")


def test_one_of_many_that_fails_keeps_the_others(far: Project, server: FlakyServer) -> None:
    plan = """a, b = dl_manager.download([URL + "/data.txt", URL + "/other.txt"])
        return {"train": self._generate_examples(a), "test": self._generate_examples(b)}"""
    write(far, server, plan, LINES)
    # Refused three times first, so that the other one is there when this one fails for good.
    server.files["/other.txt"] = Served(b"", statuses=[503, 503, 503, 404])
    with pytest.raises(DownloadError, match="404"):
        far.build(REF)
    server.files["/other.txt"] = Served(b"one\n")
    far.build(REF)
    assert len([each for each in server.gets("/data.txt") if each.sent == len(BODY)]) == 1


def test_a_page_instead_of_an_archive_is_refused(far: Project, server: FlakyServer) -> None:
    write(far, server, EXTRACT, LINES)
    page = b"<!DOCTYPE html><html><body>Please log in</body></html>"
    server.files["/all.tar.gz"] = Served(page, content_type="text/html; charset=utf-8")
    with pytest.raises(DownloadError) as caught:
        far.build(REF)
    assert "HTML" in str(caught.value) or "web page" in str(caught.value)
    assert f"{server.url}/all.tar.gz" in str(caught.value)
    assert not list(Path(far.settings.store).glob("objects/*/*/all.tar.gz"))


# -- checksums ---------------------------------------------------------------------------------------


def test_a_wrong_checksum_shows_both_and_the_command_that_accepts(
    far: Project, server: FlakyServer
) -> None:
    url = f"{server.url}/data.txt"
    old, new = hashlib.sha256(b"old").hexdigest(), hashlib.sha256(BODY).hexdigest()
    file = far.root / "checksums.tsv"
    file.write_text(f"{url}\t3\t{old}\tdata.txt\n")
    with pytest.raises(ChecksumMismatch) as caught:
        far.build(REF)
    text = str(caught.value)
    for part in (old, new, "3 bytes", f"{len(BODY):,} bytes", url, "--register-checksums"):
        assert part in text

    built = far.build(REF, register_checksums=True)
    assert built.outcome == "succeeded"
    assert file.read_text() == f"{url}\t{len(BODY)}\t{new}\tdata.txt\n"
    assert [each.sent for each in server.gets()] == [len(BODY)], "nothing is fetched twice"
    # The registered checksums are part of what the download depends on.
    again = far.build(REF)
    assert again.version.id == built.version.id
    assert far.build(REF).outcome == "cached"


def test_registered_bytes_are_not_asked_for_again(far: Project, server: FlakyServer) -> None:
    far.build(REF, register_checksums=True)
    far.build(REF)
    server.requests.clear()
    assert far.build(REF).outcome == "cached"
    assert server.requests == [], "a pinned URL is not even probed"


# -- offline, mirrors, time passing --------------------------------------------------------------------


def test_offline_without_the_download_names_it(far: Project, server: FlakyServer) -> None:
    with pytest.raises(DownloadError) as caught:
        far.build(REF, offline=True)
    assert f"{server.url}/data.txt" in str(caught.value)
    assert "offline" in str(caught.value)
    assert server.requests == []


def test_offline_with_the_download_builds_what_changed(far: Project, server: FlakyServer) -> None:
    far.build(REF, trial=True)
    server.requests.clear()
    far.edit("far.py", "line.strip()", "line.strip().upper()")
    built = far.build(REF, trial=True, offline=True)
    assert "examples/train" in built.ran
    assert "download" not in built.ran
    assert far.build(REF, trial=True, offline=True).outcome == "cached"
    assert server.requests == []


def test_a_server_that_is_away_does_not_disturb_a_finished_build(far: Project) -> None:
    with serve() as brief:
        brief.files["/data.txt"] = Served(BODY)
        write(far, brief, DOWNLOAD, LINES)
        far.build(REF)
    assert far.build(REF).outcome == "cached"


@pytest.mark.parametrize("tell", ["etag", "last_modified"])
def test_upstream_that_changed_reruns_and_one_that_did_not_does_not(
    far: Project, server: FlakyServer, tell: str
) -> None:
    file = server.files["/data.txt"]
    if tell == "last_modified":
        file.etag = None
        file.last_modified = "Mon, 02 Feb 2026 10:00:00 GMT"
    first = far.build(REF)
    server.requests.clear()
    assert far.build(REF).outcome == "cached"
    assert {each.method for each in server.requests} <= {"HEAD"}
    file.body = BODY + b"one more\n"
    if tell == "last_modified":
        file.last_modified = "Tue, 03 Feb 2026 10:00:00 GMT"
    plan = far.plan(REF)
    assert "changed upstream" in reasons(plan, "download")[0]
    with pytest.raises(ConflictError):
        far.build(REF)
    trial = far.build(REF, trial=True)
    assert trial.version.splits[0].examples == first.version.splits[0].examples + 1


def test_upstream_that_tells_nothing_is_asked_again_by_force(
    far: Project, server: FlakyServer
) -> None:
    """A length alone is no identity: equal lengths may hide other bytes."""
    file = server.files["/data.txt"]
    file.etag = None
    far.build(REF, trial=True)
    file.body = BODY + b"one more\n"
    assert not_hit(far.plan(REF, trial=True)) == set()
    built = far.build(REF, trial=True, force=("download",))
    assert built.version.splits[0].examples == 3001


def test_a_new_etag_for_equal_bytes_stops_at_the_download(
    far: Project, server: FlakyServer
) -> None:
    first = far.build(REF)
    server.files["/data.txt"].etag = '"moved-to-another-machine"'
    built = far.build(REF)
    assert built.ran == ("download",)
    assert built.version.id == first.version.id
    assert far.build(REF).outcome == "cached"


def test_mirrors_are_asked_first_and_passed_over_where_they_fail(
    far: Project, server: FlakyServer
) -> None:
    with serve() as mirror:
        mirror.files["/copy/data.txt"] = Served(BODY)
        mirrors = {f"{server.url}/": (f"{mirror.url}/lost/", f"{mirror.url}/copy/")}
        there = with_settings(far, mirrors=mirrors)
        built = there.build(REF)
        assert built.version.splits[0].examples == 3000
        assert [each.path for each in mirror.gets()] == ["/lost/data.txt", "/copy/data.txt"]
        assert server.gets() == []
        assert there.build(REF).outcome == "cached"
    # Without the mirror the version is the same one: where bytes came from is no part of it.
    del server.files["/data.txt"]
    assert far.build(REF).version.id == built.version.id


# -- archives ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("workers", [1, 2])
@pytest.mark.parametrize("plan", [EXTRACT, ITERATE], ids=["extract", "iter_archive"])
def test_archives(far: Project, server: FlakyServer, plan: str, workers: int) -> None:
    write(far, server, plan, LINES if plan is EXTRACT else MEMBERS)
    built = far.build(REF, workers=workers)
    counts = {each.name: each.examples for each in built.version.splits}
    assert counts == ({"train": 3000, "test": 2} if plan is EXTRACT else {"train": 3002})
    assert far.build(REF, workers=workers).outcome == "cached"
    unpacked = list((Path(far.settings.store) / "building/extracted").glob("*/*/*/train.txt"))
    assert len(unpacked) == (plan is EXTRACT), "a streamed archive is never unpacked"
    data = shard(far, built.version.path)
    assert b"line 2999" in data
    assert b"two" in data


def test_a_split_whose_file_in_a_changed_archive_is_equal_keeps_its_shards(
    far: Project, server: FlakyServer
) -> None:
    """A file in an unpacked folder counts by its archive, its examples by what they are."""
    write(far, server, EXTRACT, LINES)
    far.build(REF, trial=True)
    server.files["/all.tar.gz"] = Served(archive(BODY + b"one more\n"))
    built = far.build(REF, trial=True)
    assert {"download", "splits", "examples/train", "shards/train/00000"} <= set(built.ran)
    assert "shards/test/00000" not in built.ran


@pytest.mark.parametrize("workers", [1, 2])
def test_an_unpacked_archive_that_was_cleared_away_is_unpacked_again(
    far: Project, server: FlakyServer, workers: int
) -> None:
    write(far, server, EXTRACT, LINES)
    far.build(REF, trial=True)
    shutil.rmtree(Path(far.settings.store) / "building/extracted")
    server.requests.clear()
    far.edit("far.py", "line.strip()", "line.strip().upper()")
    built = far.build(REF, trial=True, workers=workers)
    assert {"download", "splits"}.isdisjoint(built.ran)
    assert server.gets() == []
    assert b"LINE 2999" in shard(far, built.version.path)
