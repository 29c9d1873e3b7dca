"""The same calls on TFDS's own download manager give the same files."""

from __future__ import annotations

import io
import tarfile
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.builders.download.flaky_http import FlakyServer, Served
from tests.builders.download.test_archives import make_zip, tree

from provender.builders.download import Checksum, ChecksumFile, DownloadManager


def _tar(path: Path) -> bytes:
    with tarfile.open(path, "w:gz") as tar:
        for name, link in (
            *(("./a.txt", ""), ("d/b", ""), ("d/.hidden", ""), ("d/c~", ""), (".git/x", "")),
            *(("d/soft", "b"), ("broken", "nowhere")),
        ):
            info = tarfile.TarInfo(name)
            info.type, info.linkname = (tarfile.SYMTYPE, link) if link else (tarfile.REGTYPE, "")
            info.size = 0 if link else len(name)
            tar.addfile(info, None if link else io.BytesIO(name.encode()))
    return path.read_bytes()


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_files_members_and_registered_checksums(
    server: FlakyServer, make_manager: Callable[..., DownloadManager], tmp_path: Path
) -> None:
    import tensorflow_datasets as tfds

    server.files["/x.tar.gz"] = Served(_tar(tmp_path / "x.tar.gz"))
    server.files["/y.zip"] = Served(make_zip(tmp_path / "y.zip").read_bytes())
    urls = {"x": f"{server.url}/x.tar.gz", "y": [f"{server.url}/y.zip"]}
    theirs_file, our_file = tmp_path / "theirs.tsv", tmp_path / "ours.tsv"
    theirs = tfds.download.DownloadManager(
        download_dir=tmp_path / "tfds",
        dataset_name="demo",
        register_checksums=True,
        register_checksums_path=theirs_file,
    )
    ours = make_manager(register=True, checksums=ChecksumFile.load(our_file))
    expected, got = theirs.download_and_extract(urls), ours.download_and_extract(urls)
    assert tree(Path(got["x"])) == tree(Path(expected["x"]))
    assert tree(Path(got["y"][0])) == tree(Path(expected["y"][0]))
    assert type(got["x"]) is type(expected["x"])
    assert our_file.read_text() == theirs_file.read_text()
    assert ours.downloaded_size == theirs.downloaded_size
    resource = tfds.download.Resource
    for method in (
        None,
        tfds.download.ExtractMethod.TAR,
        tfds.download.ExtractMethod.TAR_GZ_STREAM,
    ):
        archive = resource(path=tmp_path / "x.tar.gz", extract_method=method)
        assert [(n, f.read()) for n, f in ours.iter_archive(archive)] == [
            (n, f.read()) for n, f in theirs.iter_archive(archive)
        ]


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_the_catalogs_checksums_are_those_tfds_knows() -> None:
    from tensorflow_datasets.datasets.pet_finder import pet_finder_dataset_builder as pet_finder
    from tensorflow_datasets.summarization import xsum

    for cls in (xsum.Xsum, pet_finder.Builder):
        file = ChecksumFile.for_builder(cls)
        assert file.write_to is None
        assert file.entries() == {
            url: Checksum(info.checksum, int(info.size), info.filename)
            for url, info in cls.url_infos.items()
        }
