"""Builders that were never prepared, run as streams."""

from __future__ import annotations

import bz2
import gzip
import io
import pickle
import tarfile
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from provender.data.sources.builder import BuilderProgram, BuilderSource
from provender.data.sources.builder_downloads import StreamedPath, StreamingDownloads
from provender.engine.session import Options, open_session
from provender.errors import BuilderError, ProvenderError, SplitError
from provender.refs import DatasetRef
from provender.settings import load_settings

HEAD = """
import tensorflow_datasets as tfds

F = tfds.features


class Small(tfds.core.{base}, skip_registration=True):
    VERSION = tfds.core.Version("1.0.0")

    def _info(self):
        return tfds.core.DatasetInfo(builder=self, features=F.FeaturesDict({{
            "text": F.Text(), "label": F.ClassLabel(names=["calm", "loud"]),
        }}))
"""

LISTS = """
    def _split_generators(self, dl):
        paths = dl.download([f"{base}/{name}" for name in ("a.txt", "b.txt", "c.txt")])
        return {{"train": self._generate_examples(paths, ["calm", "loud"])}}

    def _generate_examples(self, paths, names):
        for path in paths:
            with path.open() as file:
                for i, line in enumerate(file):
                    yield f"{path.name}-{i}", {{"text": line.strip(), "label": names[i % 2]}}
"""


@pytest.fixture
def program(tmp_path: Path, web: Any) -> Callable[..., BuilderProgram]:
    def make(body: str, base: str = "GeneratorBasedBuilder") -> BuilderProgram:
        file = tmp_path / "small_builder.py"
        file.write_text(
            HEAD.format(base=base)
            + body.replace("{base}", web.base).replace("{{", "{").replace("}}", "}")
        )
        settings = load_settings(
            store=str(tmp_path / "store"),
            catalog=f"sqlite:///{tmp_path / 'catalog.db'}",
            cwd=tmp_path,
            environ={"HOME": str(tmp_path), "PROVENDER_HOME": str(tmp_path / "home")},
        )
        session = open_session(DatasetRef.parse(f"{file}:Small"), settings, Options())
        return BuilderProgram(session.work.site)

    return make


def test_lists_of_files_are_shards_and_nothing_is_fetched_ahead(program, web, read) -> None:
    for name in "abc":
        web.files[f"/{name}.txt"] = b"".join(b"%s%d\n" % (name.encode(), i) for i in range(20))
    source = BuilderSource(program(LISTS), "train")
    assert source.num_shards == 3
    assert list(source.features) == ["label", "text"]
    web.asked.clear()
    chunks = source.read(1)
    assert next(chunks).table.to_pylist() == [{"label": 0, "text": "b0"}]
    chunks.close()
    assert {path for path, _ in web.asked} == {"/b.txt"}
    found = read.check(source, every=7)
    assert [row["text"] for row in found] == [f"{name}{i}" for name in "abc" for i in range(20)]
    assert [row["label"] for row in found] == [i % 2 for _ in "abc" for i in range(20)]


def test_it_can_be_pickled_and_has_an_identity(program, web, read) -> None:
    for name in "abc":
        web.files[f"/{name}.txt"] = b"x\ny\n"
    source = BuilderSource(program(LISTS), "train")
    again = pickle.loads(pickle.dumps(source.select_shards([2, 0])))
    assert read.rows(again) == read.rows(source)[:4]
    assert BuilderSource(program(LISTS), "train").identity == source.identity
    other = BuilderSource(program(LISTS.replace("i % 2", "i % 1")), "train")
    assert other.identity != source.identity
    web.files["/a.txt"] = b"z\n"
    web.tag = '"other"'
    assert BuilderSource(program(LISTS), "train").identity != source.identity


def _tar(members: dict[str, bytes]) -> bytes:
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as tar:
        for name, data in members.items():
            info = tarfile.TarInfo(name)
            info.size = len(data)
            tar.addfile(info, io.BytesIO(data))
    return out.getvalue()


ARCHIVE = """
    def _split_generators(self, dl):
        archive = dl.iter_archive(dl.download("{base}/data.tar"))
        return {{"train": self._generate_examples(archive)}}

    def _generate_examples(self, archive):
        for name, file in archive:
            yield name, {{"text": file.read().decode(), "label": 0}}
"""


def test_archives_are_read_as_streams(program, web, read) -> None:
    filler = {f"f{i:03d}.txt": b"x" * 30_000 for i in range(100)}
    web.files["/data.tar"] = _tar({"a.txt": b"first", ".hidden": b"no", **filler})
    source = BuilderSource(program(ARCHIVE), "train")
    chunks = source.read(0)
    assert next(chunks).table["text"].to_pylist() == ["first"]
    chunks.close()
    spans = [span for path, span in web.asked if path == "/data.tar" and span]
    assert sum(_length(span) for span in spans) < 500_000 < len(web.files["/data.tar"])
    assert len(read.rows(source)) == 101
    web.cuts = 3
    assert len(read.rows(source)) == 101


def _length(span: str) -> int:
    start, stop = span.removeprefix("bytes=").split("-")
    return int(stop) - int(start) + 1


def test_a_zip_is_entered_through_its_directory(program, web, read) -> None:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive:
        for i in range(5):
            archive.writestr(f"{i}.txt", f"text {i}")
    web.files["/data.tar"] = out.getvalue()
    body = ARCHIVE.replace(
        'dl.download("{base}/data.tar")',
        'tfds.download.Resource(path=dl.download("{base}/data.tar"), '
        "extract_method=tfds.download.ExtractMethod.ZIP)",
    )
    found = read.rows(BuilderSource(program(body), "train"))
    assert [row["text"] for row in found] == [f"text {i}" for i in range(5)]


EXTRACT = """
    def _split_generators(self, dl):
        made = dl.download_and_extract({{"z": "{base}/d.zip", "g": "{base}/l.txt.gz"}})
        return {{"train": self._generate_examples(made["z"], made["g"])}}

    def _generate_examples(self, folder, lines):
        yield "z", {{"text": (folder / "in" / "x.txt").read_text(), "label": 0}}
        with lines.open() as file:
            for i, line in enumerate(file):
                yield i, {{"text": line.strip(), "label": 1}}
        import os
        with open(os.fspath(lines)) as file:
            yield "p", {{"text": file.read().strip(), "label": 1}}
"""


def test_what_needs_files_gets_files(program, web, read) -> None:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as archive:
        archive.writestr("in/x.txt", "inside")
    web.files["/d.zip"] = out.getvalue()
    web.files["/l.txt.gz"] = gzip.compress(b"one\ntwo\n")
    found = read.rows(BuilderSource(program(EXTRACT), "train"))
    assert [row["text"] for row in found] == ["inside", "one", "two", "one\ntwo"]


SHARDS = """
    def _shard_iterators_per_split(self, dl):
        import functools
        return {{"train": [functools.partial(self._one, k) for k in range(4)]}}

    def _one(self, k):
        for i in range(10):
            yield f"{{k}}-{{i}}", {{"text": f"{{k}}-{{i}}", "label": k % 2}}
""".replace("{{k}}", "{k}").replace("{{i}}", "{i}")


def test_builders_of_shards(program, read) -> None:
    source = BuilderSource(program(SHARDS, "ShardBasedBuilder"), "train")
    assert source.num_shards == 4
    assert [row["text"] for row in read.check(source, every=3)] == [
        f"{k}-{i}" for k in range(4) for i in range(10)
    ]


BREAKS = """
    def _split_generators(self, dl):
        return {{"train": self._generate_examples(0)}}

    def _generate_examples(self, start):
        for i in range(start, 10):
            if i == 7:
                raise RuntimeError("no more")
            yield i, {{"text": str(i), "label": 5 if i == 99 else 0}}
"""


def test_a_builder_that_breaks_gives_what_came_before(program) -> None:
    found = []
    with pytest.raises(BuilderError, match="broke at example 7: RuntimeError: no more"):
        for chunk in BuilderSource(program(BREAKS), "train").read(0):
            found += chunk.table["text"].to_pylist()
    assert found == [str(i) for i in range(7)]
    wrong = BREAKS.replace("i == 99", "i == 3")
    with pytest.raises(ProvenderError, match=r"label|5"):
        list(BuilderSource(program(wrong), "train").read(0))
    with pytest.raises(SplitError, match="no split 'test'"):
        BuilderSource(program(BREAKS), "test")


def test_streamed_paths_behave_like_paths(web) -> None:
    web.files["/x/data.txt.bz2"] = bz2.compress(b"hello\n")
    fetched = []
    path = StreamedPath(
        f"{web.base}/x/data.txt.bz2", lambda: fetched.append(1) or "/nowhere", "BZIP2"
    )
    assert (path.name, path.suffix, path.stem) == ("data.txt.bz2", ".bz2", "data.txt")
    assert path.read_text() == "hello\n"
    assert path.read_bytes() == b"hello\n"
    assert path.exists() and path.is_file() and not path.is_dir()
    with path.open("rb") as file:
        assert file.read(2) == b"he"
    assert not fetched
    assert str(path) == "/nowhere"
    assert str(path) == "/nowhere" and fetched == [1]
    assert path.as_posix() == "/nowhere"
    assert str(path / "x") == "/nowhere/x"
    with pytest.raises(AttributeError):
        _ = path.no_such_thing
    with pytest.raises(ProvenderError, match="only be read"):
        path.open("w")


def test_everything_else_is_the_real_managers() -> None:
    class Real:
        manual_dir = "/manual"

        def iter_files(self, paths: Any) -> Any:
            return paths

    assert StreamingDownloads(Real()).manual_dir == "/manual"
    assert StreamingDownloads(Real()).iter_files([1]) == [1]
