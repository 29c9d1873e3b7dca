"""Archives: what is in them comes out, inside; what wants out does not."""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import os
import pickle
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest
from tests.builders.download.flaky_http import ODD_NAME

from provender.builders.download import ArchiveFiles, archive_method, extract, iter_archive
from provender.errors import ArchiveError, DiskFull

FILES = {"a.txt": b"alpha", "dir/b.bin": os.urandom(50_000), f"dir/{ODD_NAME}": b"odd"}


def make_tar(path: Path, mode: str, files: dict[str, bytes] = FILES) -> Path:
    with tarfile.open(path, mode) as tar:
        for name, data in files.items():
            info = tarfile.TarInfo(name)
            info.size = len(data)
            tar.addfile(info, io.BytesIO(data))
    return path


def make_zip(path: Path, files: dict[str, bytes] = FILES) -> Path:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in files.items():
            archive.writestr(name, data)
    return path


def tree(folder: Path) -> dict[str, bytes]:
    return {
        path.relative_to(folder).as_posix(): path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file()
    }


ARCHIVES = [
    ("x.tar", "w"),
    ("x.tar.gz", "w:gz"),
    ("x.tgz", "w:gz"),
    ("x.tar.bz2", "w:bz2"),
    ("x.tar.xz", "w:xz"),
    ("x.zip", ""),
]


@pytest.mark.parametrize(("name", "mode"), ARCHIVES)
def test_every_kind_comes_out_whole(tmp_path: Path, name: str, mode: str) -> None:
    path = make_tar(tmp_path / name, mode) if mode else make_zip(tmp_path / name)
    target = extract(path, tmp_path / "out" / "TAR")
    assert tree(target) == FILES
    # There already: nothing is done again, not even looking at the archive.
    path.unlink()
    assert extract(path, tmp_path / "out" / "TAR") == target
    assert sorted(p.name for p in target.parent.iterdir()) == ["TAR"]


@pytest.mark.parametrize(("name", "mode"), ARCHIVES)
def test_streams_may_be_read_again_and_out_of_order(tmp_path: Path, name: str, mode: str) -> None:
    path = make_tar(tmp_path / name, mode) if mode else make_zip(tmp_path / name)
    archive = iter_archive(path)
    assert {n: f.read() for n, f in archive} == FILES
    assert {n: f.read() for n, f in archive} == FILES
    late = iter(archive)
    pairs = [next(late) for _ in FILES]
    assert {n: f.read() for n, f in reversed(pairs)} == FILES
    assert next(archive)[0] == "a.txt"
    assert next(archive)[0] == "dir/b.bin"
    again: ArchiveFiles = pickle.loads(pickle.dumps(archive))
    assert again.__fingerprint__() == archive.__fingerprint__()
    assert archive.__fingerprint__()[2] == archive.sha256


def test_single_compressed_files(tmp_path: Path) -> None:
    data = os.urandom(1_500_000)
    packed = {"GZIP": gzip.compress(data), "BZIP2": bz2.compress(data), "XZ": lzma.compress(data)}
    for method, raw in packed.items():
        suffix = {"GZIP": ".gz", "BZIP2": ".bz2", "XZ": ".xz"}[method]
        path = tmp_path / f"data.csv{suffix}"
        path.write_bytes(raw)
        assert archive_method(path.name) == method
        assert extract(path, tmp_path / method).read_bytes() == data
        [(name, file)] = [(n, f.read()) for n, f in iter_archive(path)]
        assert (name, file) == ("", data)


def test_what_is_no_archive_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "x.npz").write_bytes(make_zip(tmp_path / "x.zip").read_bytes())
    assert extract(tmp_path / "x.npz", tmp_path / "out") == tmp_path / "x.npz"
    with pytest.raises(ArchiveError, match="no kind of archive"):
        iter_archive(tmp_path / "x.npz")
    assert {n for n, _ in iter_archive(tmp_path / "x.npz", "ZIP")} == set(FILES)


def test_hidden_members_are_passed_over(tmp_path: Path) -> None:
    files = {
        "./a": b"1",
        "._a": b"2",
        "d/.DS_Store": b"3",
        "d/b~": b"4",
        ".git/x": b"5",
        "d/c": b"6",
    }
    for path in (make_tar(tmp_path / "x.tar", "w", files), make_zip(tmp_path / "x.zip", files)):
        assert tree(extract(path, tmp_path / f"{path.name}.out")) == {"a": b"1", "d/c": b"6"}
        assert [n for n, _ in iter_archive(path)] == ["a", "d/c"]


def _hostile(path: Path, kind: str) -> Path:
    def member(name: str, type_: bytes = tarfile.REGTYPE, link: str = "") -> tarfile.TarInfo:
        info = tarfile.TarInfo(name)
        info.type, info.linkname = type_, link
        info.size = 4 if type_ == tarfile.REGTYPE else 0
        return info

    outside = str(path.parent / "outside")
    listed = {
        "dotdot": [member("../evil")],
        "deep dotdot": [member("a/b/../../../evil")],
        "absolute": [member("/tmp/evil-provender")],
        "symlink out": [member("l", tarfile.SYMTYPE, outside), member("l/evil")],
        "symlink up": [member("d/l", tarfile.SYMTYPE, "../../outside"), member("d/l/evil")],
        "hard link": [member("l", tarfile.LNKTYPE, "../outside/target")],
        "hard absolute": [member("l", tarfile.LNKTYPE, "/etc/passwd")],
        "device": [member("dev", tarfile.CHRTYPE)],
        "pipe": [member("pipe", tarfile.FIFOTYPE)],
        "circle": [member("a", tarfile.SYMTYPE, "b"), member("b", tarfile.SYMTYPE, "a")],
        "file as folder": [member("a"), member("a/b")],
        "folder as file": [member("a/b"), member("a")],
        "long": [member("x" * 300)],
    }[kind]
    with tarfile.open(path, "w:gz") as tar:
        tar.addfile(member("first"), io.BytesIO(b"fine"))
        for info in listed:
            tar.addfile(info, io.BytesIO(b"evil") if info.isreg() else None)
    return path


KINDS = (
    "dotdot,deep dotdot,absolute,symlink out,symlink up,hard link,hard absolute,device,pipe,circle,"
    "file as folder,folder as file,long"
).split(",")


@pytest.mark.parametrize("kind", KINDS)
def test_nothing_gets_out(tmp_path: Path, kind: str) -> None:
    inside = tmp_path / "work"
    inside.mkdir()
    (inside / "outside").mkdir()
    (inside / "outside" / "target").write_bytes(b"mine")
    path = _hostile(inside / "x.tar.gz", kind)
    before = tree(tmp_path)
    with pytest.raises(ArchiveError) as caught:
        extract(path, inside / "out" / "TAR")
    assert str(path) in str(caught.value)
    assert tree(tmp_path) == before
    assert not Path("/tmp/evil-provender").exists()


def test_hostile_zips(tmp_path: Path) -> None:
    for number, name in enumerate(("../evil", "/evil", "a/../../evil")):
        path = make_zip(tmp_path / f"{number}.zip", {"ok": b"1", name: b"evil"})
        with pytest.raises(ArchiveError, match="outside"):
            extract(path, tmp_path / "out")
        with pytest.raises(ArchiveError, match="outside"):
            list(iter_archive(path))
    link = zipfile.ZipInfo("l")
    link.create_system, link.external_attr = 3, 0o120777 << 16
    with zipfile.ZipFile(tmp_path / "l.zip", "w") as archive:
        archive.writestr(link, "/etc/passwd")
    with pytest.raises(ArchiveError, match="leads outside"):
        extract(tmp_path / "l.zip", tmp_path / "out")
    assert not (tmp_path / "out").exists()
    assert not (tmp_path / "evil").exists()


def test_links_inside_become_copies(tmp_path: Path) -> None:
    path = tmp_path / "x.tar.gz"
    with tarfile.open(path, "w:gz") as tar:
        for name, type_, link in (
            ("d/real", tarfile.REGTYPE, ""),
            ("d/soft", tarfile.SYMTYPE, "real"),
            ("up", tarfile.SYMTYPE, "./d/../d/soft"),
            ("hard", tarfile.LNKTYPE, "d/real"),
            ("broken", tarfile.SYMTYPE, "nowhere"),
            ("folder", tarfile.SYMTYPE, "d"),
        ):
            info = tarfile.TarInfo(name)
            info.type, info.linkname = type_, link
            info.size = 4 if type_ == tarfile.REGTYPE else 0
            tar.addfile(info, io.BytesIO(b"data") if info.isreg() else None)
    expected = dict.fromkeys(["d/real", "d/soft", "up", "hard"], b"data")
    target = extract(path, tmp_path / "out")
    assert tree(target) == expected
    assert not any(p.is_symlink() for p in target.rglob("*"))
    assert {n: f.read() for n, f in iter_archive(path)} == expected
    assert [n for n, _ in iter_archive(path, "TAR_STREAM")] == ["d/real"]


@pytest.mark.parametrize(("name", "mode"), ARCHIVES)
def test_damage_is_an_error_and_leaves_nothing(tmp_path: Path, name: str, mode: str) -> None:
    path = make_tar(tmp_path / name, mode) if mode else make_zip(tmp_path / name)
    whole = path.read_bytes()
    middle = len(whole) // 2
    for damaged in (whole[:middle], b"", b"not an archive at all", b"\0" * 100):
        path.write_bytes(damaged)
        if damaged[:1] == b"\0" and name == "x.tar":
            continue  # zeros are a tar's end: an empty archive
        with pytest.raises(ArchiveError, match="damaged"):
            extract(path, tmp_path / "out" / "TAR")
        assert not list((tmp_path / "out").glob("*"))


def test_a_broken_header_in_the_middle_is_not_taken_for_the_end(tmp_path: Path) -> None:
    path = make_tar(tmp_path / "x.tar", "w", {"a": b"x" * 512, "b": b"y" * 512})
    raw = bytearray(path.read_bytes())
    raw[1024 + 150] ^= 0xFF
    path.write_bytes(raw)
    with pytest.raises(ArchiveError, match="damaged"):
        list(iter_archive(path))


def test_an_encrypted_zip_says_so(tmp_path: Path) -> None:
    path = make_zip(tmp_path / "x.zip", {"a": b"data"})
    raw = bytearray(path.read_bytes())
    raw[6] |= 1
    raw[raw.index(b"PK\x01\x02") + 8] |= 1
    path.write_bytes(raw)
    with pytest.raises(ArchiveError, match="encrypted"):
        extract(path, tmp_path / "out")


_MEMORY = """
import resource, sys
from pathlib import Path
from provender.builders.download import extract, iter_archive
def peak(): return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
before = peak()
count = sum(1 for _ in iter_archive(Path(sys.argv[1])))
print(count, (peak() - before) // 1024)
extract(Path(sys.argv[2]), Path(sys.argv[3]))
print((peak() - before) // 1024)
"""


def test_memory_grows_neither_with_members_nor_with_their_size(tmp_path: Path) -> None:
    many = tmp_path / "many.tar"
    with tarfile.open(many, "w") as tar:
        for i in range(20_000):
            tar.addfile(tarfile.TarInfo(f"folder/with/a/name/of/some/length/{i:08}.txt"))
            tar.members = []
    big = tmp_path / "big.tar.gz"
    with tarfile.open(big, "w:gz", compresslevel=1) as tar:
        info = tarfile.TarInfo("big")
        info.size = 60_000_000
        with Path("/dev/zero").open("rb") as zeros:
            tar.addfile(info, zeros)
    done = subprocess.run(
        [sys.executable, "-c", _MEMORY, str(many), str(big), str(tmp_path / "out")],
        capture_output=True,
        text=True,
        check=True,
    )
    first, second = done.stdout.splitlines()
    count, grown = map(int, first.split())
    assert count == 20_000
    assert grown < 10
    assert int(second) < 25
    assert (tmp_path / "out" / "big").stat().st_size == 60_000_000


def test_a_full_disk_leaves_no_half_archive(tmp_path: Path) -> None:
    disk = tmp_path / "disk"
    disk.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=256k", "tmpfs", str(disk)]
    if subprocess.run(mount, capture_output=True).returncode:
        pytest.skip("mounting needs root")
    try:
        files = {f"f{i}": os.urandom(100_000) for i in range(5)}
        path = make_tar(tmp_path / "x.tar", "w", files)
        with pytest.raises(DiskFull):
            extract(path, disk / "out")
        assert list(disk.iterdir()) == []
    finally:
        subprocess.run(["umount", str(disk)], check=True)
