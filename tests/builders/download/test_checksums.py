"""Checksum files in TFDS's formats."""

from __future__ import annotations

import importlib.util
import multiprocessing
import sys
from pathlib import Path

import pytest

from provender.builders.download import Checksum, ChecksumFile
from provender.errors import InputError, SettingsError

A, B, C = "a" * 64, "b" * 64, "C" * 64


def test_both_formats_are_read() -> None:
    text = f"# comment\nhttp://h/a\t1\t{A}\ta.zip\r\nhttp://h/b\t2\t{B}\t\nhttp://h/c d 3 {C}\n\n"
    file = ChecksumFile.parse(text)
    assert file.get("http://h/a") == Checksum(A, 1, "a.zip")
    assert file.get("http://h/b") == Checksum(B, 2, None)
    assert file.get("http://h/c d") == Checksum(C.lower(), 3, None)
    assert file.get("http://h/x") is None


def test_a_bad_line_is_named() -> None:
    with pytest.raises(InputError, match="no checksum") as caught:
        ChecksumFile.parse(f"http://h/a\t1\t{A}\t\nnonsense\n", "f.tsv")
    assert caught.value.where == "f.tsv:2"


def test_written_as_tfds_writes_it(tmp_path: Path) -> None:
    path = tmp_path / "checksums.tsv"
    file = ChecksumFile.load(path)
    file.register({"http://h/b": Checksum(B, 2, "b.zip")})
    file.register({"http://h/a": Checksum(A, 1)})
    assert path.read_text() == f"http://h/a\t1\t{A}\t\nhttp://h/b\t2\t{B}\tb.zip\n"
    assert ChecksumFile.load(path).entries() == file.entries()
    before = path.stat()
    file.register({"http://h/a": Checksum(A, 1)})
    assert path.stat().st_mtime_ns == before.st_mtime_ns
    assert list(tmp_path.iterdir()) == [path]


def test_secrets_are_not_written_and_still_found(tmp_path: Path) -> None:
    path = tmp_path / "checksums.tsv"
    url = "https://u:hunter2@h/x?token=abcdef"
    ChecksumFile.load(path).register({url: Checksum(A, 1)})
    assert "hunter2" not in path.read_text()
    assert "abcdef" not in path.read_text()
    assert ChecksumFile.load(path).get(url) == Checksum(A, 1)


def _register_many(path: Path, which: int) -> None:
    for i in range(20):
        ChecksumFile.load(path).register({f"http://h/{which}/{i}": Checksum(A, i)})


def test_processes_that_register_at_once_lose_nothing(tmp_path: Path) -> None:
    path = tmp_path / "checksums.tsv"
    context = multiprocessing.get_context("spawn")
    workers = [context.Process(target=_register_many, args=(path, n)) for n in range(3)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert len(ChecksumFile.load(path)) == 60


def _load_class(path: Path, name: str, module: str) -> type:
    spec = importlib.util.spec_from_file_location(module, path)
    assert spec is not None
    assert spec.loader is not None
    loaded = importlib.util.module_from_spec(spec)
    sys.modules[module] = loaded
    spec.loader.exec_module(loaded)
    found: type = getattr(loaded, name)
    return found


def test_a_users_builder_has_its_file_beside_it(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text("class Mine:\n    def f(self): ...\n")
    (tmp_path / "checksums.tsv").write_text(f"http://h/a\t1\t{A}\ta.zip\n")
    cls = _load_class(tmp_path / "mine.py", "Mine", "mine_checksums_test")
    for known in (True, False):
        if not known:
            del sys.modules["mine_checksums_test"]
        file = ChecksumFile.for_builder(cls)
        assert file.get("http://h/a") == Checksum(A, 1, "a.zip")
        assert file.write_to == tmp_path / "checksums.tsv"


def test_a_packages_file_is_read_and_the_projects_written(tmp_path: Path) -> None:
    package = tmp_path / "site-packages" / "tensorflow_datasets"
    (package / "text").mkdir(parents=True)
    (package / "url_checksums").mkdir()
    (package / "text" / "x_sum.py").write_text(
        "class XSum:\n    name = 'x_sum'\n    def f(self): ...\n"
    )
    (package / "url_checksums" / "x_sum.txt").write_text(f"http://h/a 1 {A}\n")
    cls = _load_class(package / "text" / "x_sum.py", "XSum", "x_sum_checksums_test")
    file = ChecksumFile.for_builder(cls)
    assert file.get("http://h/a") == Checksum(A, 1)
    with pytest.raises(SettingsError, match="installed package"):
        file.register({"http://h/b": Checksum(B, 2)})
    project = tmp_path / "project" / "x_sum.tsv"
    file = ChecksumFile.for_builder(cls, project_file=project)
    file.register({"http://h/a": Checksum(B, 2)})
    assert ChecksumFile.for_builder(cls, project_file=project).get("http://h/a") == Checksum(B, 2)
    assert (package / "url_checksums" / "x_sum.txt").read_text() == f"http://h/a 1 {A}\n"


def test_the_catalogs_own_files_are_found() -> None:
    # By file, not by import: the catalog module would bring TensorFlow with it.
    found = importlib.util.find_spec("tensorflow_datasets")
    assert found is not None
    assert found.origin is not None
    folder = Path(found.origin).parent / "url_checksums"
    assert len(ChecksumFile.load(folder / "xsum.txt")) == 1
    assert ChecksumFile.load(folder / "xsum.txt").write_to is None
    assert all(len(ChecksumFile.load(path)) for path in folder.glob("*.txt") if path.stat().st_size)
