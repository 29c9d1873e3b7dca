"""XSum: what is an article and what is not, and clear words about archives that are not right."""

from __future__ import annotations

import gzip
import hashlib
import io
import json
import logging
import pickle
import subprocess
import sys
import tarfile
import tracemalloc
from pathlib import Path

import pytest
import tensorflow_datasets as tfds
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.builders.xsum_archive import (
    ARCHIVE,
    DEMO,
    FOLDER,
    Downloads,
    article,
    circulating,
    data,
    generate,
    pack,
)

from provender.builders import _xsum_format as xsum_format
from provender.builders import xsum as xsum_module
from provender.builders.xsum import SPLIT_IDS_URL, Xsum
from provender.errors import ArchiveError, ExampleError, InputError, ManualFilesMissing


@pytest.fixture
def builder(tmp_path: Path) -> Xsum:
    return Xsum(data_dir=tmp_path / "data")


ENDS = st.sampled_from(["\n", "\r\n", "\r"])


# --- articles --------------------------------------------------------------------------------

PLAIN = st.text(
    st.characters(exclude_categories=["Cs", "Cc", "Zl", "Zp"], exclude_characters="[]"),
    min_size=1,
    max_size=20,
).filter(lambda line: line.strip() and f"{line}\n" not in xsum_format.REMOVED_LINES)
NOISE = st.lists(st.sampled_from([*sorted(xsum_format.REMOVED_LINES), "\n", "  \n"]), max_size=3)


@settings(deadline=None)
@given(PLAIN, st.lists(st.tuples(PLAIN, NOISE), min_size=1, max_size=5), NOISE, ENDS)
def test_buttons_blanks_and_line_ends_change_nothing(
    summary: str, body: list[tuple[str, list[str]]], before: list[str], end: str
) -> None:
    clean = article(summary, "".join(f"{line}\n" for line, _ in body)).decode()
    noisy = article(
        "".join(before) + summary,
        "".join(before) + "".join(f"{line}\n{''.join(noise)}" for line, noise in body),
    ).decode()
    expected = ("\n".join(line for line, _ in body).strip(), summary.strip())
    assert xsum_format.parse_article(clean) == expected
    assert xsum_format.parse_article(noisy.replace("\n", end)) == expected


@given(st.text(max_size=200))
def test_text_without_the_fields_is_refused_not_misread(text: str) -> None:
    with pytest.raises(ExampleError, match="INTRODUCTION"):
        xsum_format.parse_article(text)


@pytest.mark.parametrize(
    ("content", "found"),
    [
        (circulating("SN"), "[SN]URL[SN] [SN]TITLE[SN] [SN]FIRST-SENTENCE[SN] [SN]RESTBODY[SN]"),
        (circulating("XSUM"), "[XSUM]TITLE[XSUM]"),
        (b"no marks at all", "no fields"),
    ],
)
def test_another_dialect_is_an_error_that_shows_both(
    builder: Xsum, tmp_path: Path, content: bytes, found: str
) -> None:
    archive = pack(tmp_path / ARCHIVE, {data("1"): content})
    with pytest.raises(ExampleError) as caught:
        generate(builder, archive, ["1"])
    assert found in caught.value.message
    assert "[XSUM]INTRODUCTION[XSUM]" in caught.value.message
    assert caught.value.where == data("1")


def test_bytes_that_are_no_text_name_the_member(builder: Xsum, tmp_path: Path) -> None:
    archive = pack(tmp_path / ARCHIVE, {data("1"): article() + b"\xff\xfe"})
    with pytest.raises(ExampleError, match="UTF-8") as caught:
        generate(builder, archive, ["1"])
    assert caught.value.where == data("1")


# --- the archive -----------------------------------------------------------------------------


def test_only_the_articles_of_the_split_are_read(builder: Xsum, tmp_path: Path) -> None:
    members = {data(key): article(f"S{key}") for key in ("3", "1", "2")}
    # An article of another split may even be broken: it is never looked at.
    members[data("4")] = b"broken"
    found = generate(builder, pack(tmp_path / ARCHIVE, members), ["1", "3"])
    assert {key: value["summary"] for key, value in found.items()} == {"3": "S3", "1": "S1"}


@pytest.mark.parametrize(
    ("member", "key"),
    [
        (f"{FOLDER}/1.data", "1"),
        (f"./{FOLDER}/1.data", "1"),
        (f".//{FOLDER}//1.data", "1"),
        (f"{FOLDER}/sub/1.data", "sub/1"),
        (f"other/{FOLDER}/1.data", None),
        (f"/{FOLDER}/1.data", None),
        (f"../{FOLDER}/1.data", None),
        (f"{FOLDER}/../1.data", None),
        (f"{FOLDER}2/1.data", None),
        (f"{FOLDER}/1.summary", None),
        (FOLDER, None),
    ],
)
def test_id_of_a_member(member: str, key: str | None) -> None:
    assert xsum_format.article_id(member) == key


@pytest.mark.parametrize("shown", [1, 5, 6])
def test_missing_articles_are_counted_and_named(
    builder: Xsum, tmp_path: Path, caplog: pytest.LogCaptureFixture, shown: int
) -> None:
    archive = pack(tmp_path / ARCHIVE, {data("1"): article()})
    gone = [f"9{number}" for number in range(shown)]
    with caplog.at_level(logging.DEBUG, logger="provender.builders.xsum"):
        assert list(generate(builder, archive, [*gone, "1"])) == ["1"]
    summary = caplog.records[-1]
    assert summary.levelno == logging.WARNING
    names = ", ".join(gone[:5]) + (", ..." if shown > 5 else "")
    assert summary.getMessage() == (
        f"xsum/train: {shown} of {shown + 1} articles are not in the archive: {names}"
    )
    assert [record.args[1] for record in caplog.records[:-1]] == gone  # type: ignore[index]


def test_nothing_is_logged_when_all_are_there(
    builder: Xsum, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    archive = pack(tmp_path / ARCHIVE, {data("1"): article()})
    with caplog.at_level(logging.DEBUG, logger="provender.builders.xsum"):
        generate(builder, archive, ["1"])
    assert not caplog.records


def whole(tmp_path: Path) -> bytes:
    # Random-looking bodies, so that the compressed file is long enough to be cut anywhere.
    members = {
        data(str(key)): article(body=hashlib.sha512(b"%d" % key).hexdigest() * 4)
        for key in range(200)
    }
    return pack(tmp_path / "whole" / ARCHIVE, members).read_bytes()


@pytest.mark.parametrize("kept", [0.02, 0.5, 0.9, 0.999, -4, -1])
def test_a_cut_archive_is_an_error_never_a_small_dataset(
    builder: Xsum, tmp_path: Path, kept: float
) -> None:
    content = whole(tmp_path)
    end = int(kept) if kept < 0 else int(len(content) * kept)
    archive = tmp_path / ARCHIVE
    archive.write_bytes(content[:end])
    with pytest.raises(ArchiveError, match="cut or damaged") as caught:
        generate(builder, archive, [str(key) for key in range(200)])
    assert caught.value.where == str(archive)
    (problem,) = Xsum.check_manual(tmp_path)
    assert "cut or damaged" in problem
    assert str(archive) in problem


def test_a_flipped_bit_is_an_error(builder: Xsum, tmp_path: Path) -> None:
    content = bytearray(whole(tmp_path))
    content[-6] ^= 1
    archive = tmp_path / ARCHIVE
    archive.write_bytes(content)
    with pytest.raises(ArchiveError, match="damaged"):
        generate(builder, archive, ["1"])
    assert len(Xsum.check_manual(tmp_path)) == 1


def test_a_link_in_place_of_an_article_is_not_passed_over(builder: Xsum, tmp_path: Path) -> None:
    archive = tmp_path / ARCHIVE
    with tarfile.open(archive, "w:gz") as tar:
        link = tarfile.TarInfo(data("1"))
        link.type = tarfile.LNKTYPE
        link.linkname = data("2")
        tar.addfile(link)
    with pytest.raises(ArchiveError, match=r"1\.data is a link"):
        generate(builder, archive, ["1"])


def test_an_absent_archive_is_a_missing_manual_file(builder: Xsum, tmp_path: Path) -> None:
    with pytest.raises(ManualFilesMissing, match="archive of articles"):
        generate(builder, tmp_path / ARCHIVE, ["1"])


def test_headers_do_not_pile_up_in_memory(tmp_path: Path) -> None:
    archive = pack(tmp_path / ARCHIVE, {data(str(key)): b"" for key in range(4000)})
    tfds.core.Path(archive)  # what it imports is not to be counted
    tracemalloc.start()
    try:
        assert sum(1 for _ in xsum_format.iter_articles(archive, lambda key: True)) == 4000
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 1_500_000


# --- check_manual ----------------------------------------------------------------------------


def test_a_good_archive_has_no_problems(tmp_path: Path) -> None:
    members = {FOLDER + "/._1.data": b"\0\5\26\7", "README": b"hello"}
    pack(tmp_path / ARCHIVE, members | {data(str(key)): article() for key in range(9)})
    assert Xsum.check_manual(tmp_path) == []
    assert Xsum.MANUAL_FILES == (ARCHIVE,)


def test_the_circulating_archive_is_described(tmp_path: Path) -> None:
    members = {f"bbc-summary-data/{key}.summary": circulating() for key in range(100)}
    pack(tmp_path / ARCHIVE, members)
    (problem,) = Xsum.check_manual(tmp_path)
    assert "bbc-summary-data/0.summary" in problem
    assert "[SN]URL[SN] [SN]TITLE[SN] [SN]FIRST-SENTENCE[SN] [SN]RESTBODY[SN]" in problem
    assert "[XSUM]URL[XSUM] [XSUM]INTRODUCTION[XSUM] [XSUM]RESTBODY[XSUM]" in problem


@pytest.mark.parametrize("mark", ["SN", "XSUM"])
def test_the_circulating_articles_under_the_right_names_are_described(
    tmp_path: Path, mark: str
) -> None:
    pack(tmp_path / ARCHIVE, {data(str(key)): circulating(mark) for key in range(9)})
    (problem,) = Xsum.check_manual(tmp_path)
    assert f"[{mark}]TITLE[{mark}]" in problem
    assert "5 of the first 5" in problem


def test_files_that_are_no_archive_are_problems_not_tracebacks(tmp_path: Path) -> None:
    archive = tmp_path / ARCHIVE
    plain_tar = io.BytesIO()
    with tarfile.open(fileobj=plain_tar, mode="w") as tar:
        tar.addfile(tarfile.TarInfo(data("1")))
    cases = {
        b"": "no readable tar",
        b"<html>Sign in</html>": "not gzip-compressed",
        plain_tar.getvalue(): "not gzip-compressed",
        gzip.compress(b"some text, but no tar" * 50): "no readable tar",
        gzip.compress(b""): "no readable tar",
        pack(tmp_path / "empty", {}).read_bytes(): "holds no files",
    }
    for content, expected in cases.items():
        archive.write_bytes(content)
        (problem,) = Xsum.check_manual(tmp_path)
        assert expected in problem, (content[:20], problem)
        assert problem.endswith(".")
    archive.unlink()
    assert "missing" in Xsum.check_manual(tmp_path)[0]
    archive.mkdir()
    assert "cannot be read" in Xsum.check_manual(tmp_path)[0]


# --- split ids and the builder as an object --------------------------------------------------


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("<html>", "not JSON"),
        ("[]", "list where an object"),
        ('{"train": [], "validation": []}', "under 'test'"),
        ('{"train": [1], "validation": [], "test": []}', "under 'train'"),
        ('{"train": ["1", "2", "1"], "validation": [], "test": []}', "'1' twice"),
    ],
)
def test_split_ids_that_cannot_be_used(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "ids.json"
    path.write_text(text)
    with pytest.raises(InputError, match=message) as caught:
        xsum_module.read_split_ids(path, "http://ids.example/x.json")
    assert caught.value.where == "http://ids.example/x.json"


def test_the_published_split_ids_are_the_default(builder: Xsum, tmp_path: Path) -> None:
    ids = tmp_path / "ids.json"
    ids.write_text(json.dumps({"train": [], "validation": [], "test": []}))
    downloads = Downloads(tmp_path, ids)
    assert list(builder._split_generators(downloads)) == ["train", "validation", "test"]
    assert downloads.urls == [SPLIT_IDS_URL]


def test_arguments_survive_pickling(tmp_path: Path) -> None:
    built = pickle.loads(pickle.dumps(Xsum(data_dir=tmp_path, split_ids_url="file:///ids.json")))
    ids = tmp_path / "ids.json"
    ids.write_text(json.dumps({"train": [], "validation": [], "test": []}))
    downloads = Downloads(tmp_path, ids)
    built._split_generators(downloads)
    assert downloads.urls == ["file:///ids.json"]
    assert built.data_dir == str(tmp_path / "xsum" / "1.1.0")


# --- the demonstration -----------------------------------------------------------------------


def make_demo(out_dir: Path) -> Path:
    command = [sys.executable, DEMO / "make_archive.py", out_dir]
    subprocess.run(command, check=True, capture_output=True)
    return out_dir


def test_the_demonstration_is_packed_reproducibly(tmp_path: Path) -> None:
    first, second = make_demo(tmp_path / "a"), make_demo(tmp_path / "b")
    files = ["xsum-demo-split-ids.json", ARCHIVE]
    assert sorted(path.name for path in first.iterdir()) == files
    assert all((first / name).read_bytes() == (second / name).read_bytes() for name in files)


def test_the_demonstration_builds_with_the_download_manager_of_tfds(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    manual = make_demo(tmp_path / "manual")
    assert Xsum.check_manual(manual) == []
    url = (manual / "xsum-demo-split-ids.json").as_uri()
    downloads = tfds.download.DownloadManager(
        download_dir=tmp_path / "downloads",
        manual_dir=manual,
        manual_dir_instructions=Xsum.MANUAL_DOWNLOAD_INSTRUCTIONS,
        dataset_name="xsum",
    )
    generators = Xsum(data_dir=tmp_path, split_ids_url=url)._split_generators(downloads)
    examples = {split: dict(generator) for split, generator in generators.items()}
    assert {split: len(each) for split, each in examples.items()} == {
        "train": 16,
        "validation": 4,
        "test": 4,
    }
    assert "1 of 17 articles are not in the archive: 90000199" in caplog.text
    for each in examples["train"].values():
        assert each["document"]
        assert each["summary"].endswith(".")
        assert "Share this with" not in each["document"]
