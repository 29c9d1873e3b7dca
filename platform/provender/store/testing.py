"""What every store must do: a suite that each backend's tests inherit, and a model to compare with.

    class TestMine(StoreConformance):
        @pytest.fixture
        def store(self, tmp_path):
            return Store.open(...)

    TestMineLikeADict = model_machine(make_empty_store).TestCase

Needs pytest and hypothesis; nothing else imports this module.
"""

from __future__ import annotations

import hashlib
import io
import os
import pickle
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import google_crc32c
import hypothesis.strategies as st
import pytest
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from provender.errors import ConflictError, DamageError, StoreError
from provender.store.base import Store
from provender.store.publish import publish_directory, remove_directory, replace_file

ODD_NAMES = (
    "a b",
    "#1",
    "a#1?generation=3&x=y",
    "%41",
    "100%",
    "x=1",
    "[ab]",
    "*",
    "**",
    "{a,b}",
    "a:b::c",
    "~",
    "$HOME",
    "+",
    "back\\slash",
    "quote\"'",
    "größe-数据-🐎",
    ".hidden",
    "-rf",
)
"""File and folder names that globs, shells, URLs or object stores may trip over."""


class StoreConformance:
    """The promises of `Store`; a subclass provides the fixture ``store``, an empty store."""

    @pytest.mark.parametrize("name", ODD_NAMES)
    def test_names_are_literal(self, store: Store, name: str, tmp_path: Path) -> None:
        decoys = {"A", "a", "b", "ab", "1", "x"}
        for decoy in decoys:
            store.write(f"top/{decoy}", b"decoy")
        rel = f"top/{name}/{name}"
        data = name.encode()
        identity = store.write(rel, data)
        assert store.read(rel) == data
        assert store.stat(rel) == identity
        assert store.exists(f"top/{name}")
        assert [entry.rel for entry in store.list(f"top/{name}")] == [rel]
        listed = {entry.rel for entry in store.list("top", recursive=True)}
        assert listed == {f"top/{decoy}" for decoy in decoys} | {rel}
        assert (f"top/{name}", True) in {(entry.rel, entry.is_dir) for entry in store.list("top")}
        store.copy(rel, f"other/{name}")
        store.move(f"other/{name}", f"third/{name}")
        with store.open_file(f"third/{name}") as file:
            assert file.read() == data
        store.fetch(f"third/{name}", tmp_path / "back")
        assert (tmp_path / "back").read_bytes() == data
        store.put(tmp_path / "back", f"fourth/{name}")
        with pytest.raises(FileExistsError):
            store.create(f"fourth/{name}", b"")
        assert store.remove(f"fourth/{name}")
        assert store.remove_tree(f"top/{name}") == 1
        assert {entry.name for entry in store.list("top")} == decoys

    def test_a_path_is_usable_by_others(self, store: Store) -> None:
        store.write("d/a#b c", b"1")
        assert store.path("d", "a#b c") == store.path("d/a#b c") == f"{store.path()}/d/a#b c"
        assert store.fs.cat_file(store.path("d/a#b c")) == b"1"

    @pytest.mark.parametrize("rel", ["/a", "a//b", "../a", "a/..", "./a", "", "a/", "a\0", "a\nb"])
    def test_paths_that_leave_the_store_are_refused(self, store: Store, rel: str) -> None:
        with pytest.raises(StoreError):
            store.write(rel, b"")
        with pytest.raises(StoreError):
            store.read(rel)

    def test_missing_files(self, store: Store, tmp_path: Path) -> None:
        store.write("dir/file", b"x")
        for rel in ("no", "no/such", "dir/no", "dir", "dir/file/below"):
            assert store.stat(rel) is None
            assert not store.remove(rel)
            for act in (
                store.read,
                store.open_file,
                store.digest,
                lambda rel: store.read_range(rel, 0, 1),
                lambda rel: store.copy(rel, "dst"),
                lambda rel: store.move(rel, "dst"),
                lambda rel: store.fetch(rel, tmp_path / "f"),
            ):
                with pytest.raises(FileNotFoundError):
                    act(rel)
        assert store.list("no") == []
        assert store.list("dir/file") == []
        assert store.remove_tree("no") == 0
        assert not store.exists("no")
        assert store.exists("dir")
        with pytest.raises(FileNotFoundError):
            store.put(tmp_path / "absent", "dst")
        assert store.read("dir/file") == b"x"
        assert not store.exists("dst")
        assert not (tmp_path / "f").exists()

    def test_identity_follows_the_content(self, store: Store) -> None:
        first = store.write("f", b"one")
        assert store.stat("f") == first
        second = store.write("f", b"two")
        assert second != first
        assert store.stat("f") == second
        assert store.stat_many(["f", "g"]) == {"f": second, "g": None}
        many = {f"d/{i}": store.write(f"d/{i}", b"%d" % i) for i in range(6)}
        assert store.stat_many([*many, "d/none", "f"]) == {**many, "d/none": None, "f": second}

    def test_create_happens_once(self, store: Store) -> None:
        identity = store.create("d/f", b"first")
        with pytest.raises(FileExistsError):
            store.create("d/f", b"second")
        with pytest.raises(FileExistsError):
            store.create("d/f", b"first")
        assert store.read("d/f") == b"first"
        assert store.stat("d/f") == identity

    def test_of_racing_creators_one_wins(self, store: Store) -> None:
        def attempt(i: int) -> bool:
            try:
                store.create("race/f", b"%d" % (i % 2))
            except FileExistsError:
                return False
            return True

        with ThreadPoolExecutor(16) as pool:
            for _ in range(5):
                outcomes = list(pool.map(attempt, range(16)))
                assert outcomes.count(True) == 1
                assert store.read("race/f") == b"%d" % (outcomes.index(True) % 2)
                store.remove("race/f")

    def test_writers_and_removers_do_not_trip_each_other(self, store: Store) -> None:
        def work(i: int) -> None:
            for turn in range(6):
                rel = f"shared/deep/{i}"
                store.write(rel, b"x" * 1000)
                assert store.read(rel) == b"x" * 1000
                if turn % 2:
                    store.move(rel, f"elsewhere/{i}")
                    store.remove(f"elsewhere/{i}")
                else:
                    store.remove(rel)

        with ThreadPoolExecutor(8) as pool:
            list(pool.map(work, range(8)))
        assert store.list("shared") == []

    def test_readers_see_whole_files(self, store: Store) -> None:
        store.write("f", b"a" * 100_000)

        def write(i: int) -> None:
            store.write("f", (b"a", b"b")[i % 2] * 100_000)

        with ThreadPoolExecutor(4) as pool:
            writes = [pool.submit(write, i) for i in range(20)]
            for _ in range(20):
                data = store.read("f")
                assert data in (b"a" * 100_000, b"b" * 100_000)
            for done in writes:
                done.result()

    def test_files_go_in_and_out_with_progress(self, store: Store, tmp_path: Path) -> None:
        seen: list[tuple[int, int]] = []

        def note(done: int, total: int) -> None:
            seen.append((done, total))

        for size in (0, 1, 3_000_000):
            data = os.urandom(size)
            (tmp_path / "in").write_bytes(data)
            seen.clear()
            put = store.put(tmp_path / "in", "d/f", note)
            assert seen[-1] == (size, size)
            assert seen == sorted(seen)
            assert put == store.stat("d/f")
            seen.clear()
            target = tmp_path / "new" / "out"
            assert store.fetch("d/f", target, note) == put
            assert seen[-1] == (size, size)
            assert target.read_bytes() == data
            assert [path.name for path in target.parent.iterdir()] == ["out"]
            digest = store.digest("d/f")
            assert digest.size == size
            assert digest.sha256 == hashlib.sha256(data).hexdigest()
            assert digest.crc32c == f"{google_crc32c.value(data):08x}"

    def test_a_digest_is_compared_on_the_way_out(self, store: Store, tmp_path: Path) -> None:
        data = os.urandom(3_000_000)
        store.write("f", data)
        target, right = tmp_path / "new" / "out", hashlib.sha256(data).hexdigest()
        with pytest.raises(DamageError):
            store.fetch("f", target, sha256="0" * 64)
        assert list(target.parent.iterdir()) == []
        store.fetch("f", target, sha256=right)
        assert target.read_bytes() == data

    def test_opened_files_seek(self, store: Store) -> None:
        data = bytes(range(256)) * 40
        store.write("f", data)
        with store.open_file("f", buffer_bytes=64) as file, store.open_file("f") as other:
            model = io.BytesIO(data)
            for offset, whence, length in [
                (0, 0, 5), (100, 0, 300), (-7, 1, 3), (-10, 2, 20), (50_000, 0, 4), (3, 0, 0),
            ]:  # fmt: skip
                assert file.seek(offset, whence) == model.seek(offset, whence)
                assert file.read(length) == model.read(length)
                assert file.tell() == model.tell()
            assert other.read() == data
        assert store.read_range("f", 10, 5) == data[10:15]
        assert store.read_range("f", len(data) - 2, 10) == data[-2:]
        assert store.read_range("f", len(data) + 5, 10) == b""

    def test_copy_and_move(self, store: Store) -> None:
        store.write("a", b"1")
        store.write("b", b"22")
        assert store.copy("a", "b") == store.stat("b")
        assert store.copy("a", "b") == store.stat("b")
        assert store.read("a") == store.read("b") == b"1"
        store.write("b", b"333")
        assert store.read("a") == b"1"
        assert store.copy("a", "a") == store.stat("a")
        assert store.copy("a", "c/d") == store.stat("c/d")
        # After a copy both names may be one file: moving one onto the other must leave one.
        assert store.move("c/d", "a") == store.stat("a")
        assert not store.exists("c")
        assert store.move("a", "b") == store.stat("b")
        assert store.move("b", "b") == store.stat("b")
        assert store.read("b") == b"1"
        assert [entry.rel for entry in store.list()] == ["b"]

    def test_same_content(self, store: Store) -> None:
        for rel, data in {"a": b"11", "b": b"11", "c": b"12", "d": b"1"}.items():
            store.write(rel, data)
        store.copy("a", "e")
        assert [store.same_content("a", rel) for rel in "bcde"] == [True, False, False, True]
        with pytest.raises(FileNotFoundError):
            store.same_content("a", "none")

    def test_listings(self, store: Store) -> None:
        for rel in ("b/2", "b/1", "a", "b/c/3", "bb/4"):
            store.write(rel, rel.encode())
        top = [(entry.name, entry.rel, entry.is_dir) for entry in store.list()]
        assert top == [("a", "a", False), ("b", "b", True), ("bb", "bb", True)]
        below = store.list("b", recursive=True)
        assert [entry.rel for entry in below] == ["b/1", "b/2", "b/c/3"]
        assert all(entry.identity == store.stat(entry.rel) for entry in below)
        assert store.remove_tree("b") == 3
        assert [entry.rel for entry in store.list(recursive=True)] == ["a", "bb/4"]

    def test_another_instance_sees_changes_at_once(self, store: Store) -> None:
        other = pickle.loads(pickle.dumps(store))  # noqa: S301 - our own object
        assert other.url == store.url
        assert other.list("d") == []
        assert other.stat("d/f") is None
        store.write("d/e", b"1")
        assert len(other.fs.ls(other.path("d"))) == 1
        store.write("d/f", b"1")
        assert len(other.fs.ls(other.path("d"))) == 2
        store.remove("d/e")
        assert [entry.rel for entry in other.list("d")] == ["d/f"]
        assert other.read("d/f") == b"1"
        store.write("d/f", b"22")
        assert other.list("d")[0].identity == store.stat("d/f") == other.stat("d/f")
        store.remove("d/f")
        assert other.list("d") == []
        assert not other.exists("d/f")

    def test_scratch_is_a_local_folder(self, store: Store) -> None:
        (store.scratch / "probe").write_bytes(b"")
        (store.scratch / "probe").unlink()

    def test_publishing(self, store: Store) -> None:
        files = _sources(store)
        published = publish_directory(store, files, "datasets/x/1.0.0")
        assert published.created
        assert published.identities == {
            name: store.stat(f"datasets/x/1.0.0/{name}") for name in files
        }
        assert store.read("datasets/x/1.0.0/sub/a b#1") == b"shard one"
        again = publish_directory(store, files, "datasets/x/1.0.0")
        assert not again.created
        assert again.identities == published.identities
        assert store.list("building/publish") == []

    @pytest.mark.parametrize("name", ["shard-0", "sub/a b#1", "dataset_info.json"])
    def test_publishing_other_content_is_a_conflict(self, store: Store, name: str) -> None:
        files = _sources(store)
        publish_directory(store, files, "v")
        before = store.list("v", recursive=True)
        with pytest.raises(ConflictError) as caught:
            publish_directory(store, {**files, name: b"other content"}, "v")
        assert caught.value.facts == {"changed": [name], "missing": [], "extra": []}
        with pytest.raises(ConflictError) as caught:
            publish_directory(store, {**files, "new": b""}, "v")
        assert caught.value.facts["missing"] == ["new"]
        if name != "dataset_info.json":
            with pytest.raises(ConflictError) as caught:
                publish_directory(store, {k: v for k, v in files.items() if k != name}, "v")
            assert caught.value.facts["extra"] == [name]
        assert store.list("v", recursive=True) == before

    def test_publishing_needs_its_sources(self, store: Store) -> None:
        files = _sources(store)
        with pytest.raises(StoreError, match="are missing") as caught:
            publish_directory(store, {**files, "s": "building/none"}, "v")
        assert caught.value.facts["missing"] == ["building/none"]
        with pytest.raises(StoreError, match="not among"):
            publish_directory(store, {"shard-0": b""}, "v")
        assert store.list("v") == []

    def test_of_racing_publishers_one_creates(self, store: Store) -> None:
        files = _sources(store)

        def publish(_: int) -> bool:
            return publish_directory(store, files, "v").created

        with ThreadPoolExecutor(4) as pool:
            outcomes = []
            for future in [pool.submit(publish, i) for i in range(4)]:
                try:
                    outcomes.append(future.result())
                except ConflictError as exc:  # object stores may notice the other one
                    assert "another process" in str(exc)
        assert outcomes.count(True) <= 1
        assert not publish_directory(store, files, "v").created or not any(outcomes)
        assert {entry.rel for entry in store.list("v", recursive=True)} == {
            f"v/{name}" for name in files
        }

    def test_repair_and_removal(self, store: Store) -> None:
        files = _sources(store)
        publish_directory(store, files, "v")
        store.write("building/rebuilt", b"better")
        assert replace_file(store, "building/rebuilt", "v/shard-0") == store.stat("v/shard-0")
        assert store.read("v/shard-0") == b"better"
        with pytest.raises(FileNotFoundError):
            replace_file(store, "building/rebuilt", "v/none")
        assert remove_directory(store, "v") == len(files)
        assert not store.exists("v")


def _sources(store: Store) -> dict[str, str | bytes]:
    store.write("building/f1/s0", b"shard zero")
    store.write("building/f1/s 1", b"shard one")
    return {
        "shard-0": "building/f1/s0",
        "sub/a b#1": "building/f1/s 1",
        ".provender/manifest.json": b"{}",
        "dataset_info.json": b'{"name": "x"}',
    }


def model_machine(make: Callable[[], Store]) -> type[RuleBasedStateMachine]:
    """A hypothesis machine that runs random operations on a store and on a dict.

    Args:
        make: returns an empty store of its own, at every call.
    """
    folders = st.sampled_from(["", "d", "d/e", "[ab]", "a b#"])
    names = st.sampled_from(["f1", "%41", "A", "*", "ä=", "g"])
    rels = st.builds(lambda folder, name: f"{folder}/{name}".lstrip("/"), folders, names)
    contents = st.binary(max_size=40)

    class Machine(RuleBasedStateMachine):
        store: Store
        model: dict[str, bytes]

        @initialize()
        def begin(self) -> None:
            self.store, self.model = make(), {}

        def _expect(self, rel: str, act: Callable[[], Any]) -> Any:
            if rel in self.model:
                return act()
            with pytest.raises(FileNotFoundError):
                act()
            return None

        @rule(rel=rels, data=contents)
        def write(self, rel: str, data: bytes) -> None:
            assert self.store.write(rel, data).size == len(data)
            self.model[rel] = data

        @rule(rel=rels, data=contents)
        def create(self, rel: str, data: bytes) -> None:
            if rel in self.model:
                with pytest.raises(FileExistsError):
                    self.store.create(rel, data)
            else:
                self.store.create(rel, data)
                self.model[rel] = data

        @rule(src=rels, dst=rels)
        def copy(self, src: str, dst: str) -> None:
            if self._expect(src, lambda: self.store.copy(src, dst)):
                self.model[dst] = self.model[src]

        @rule(src=rels, dst=rels)
        def move(self, src: str, dst: str) -> None:
            if self._expect(src, lambda: self.store.move(src, dst)):
                self.model[dst] = self.model.pop(src)

        @rule(rel=rels)
        def remove(self, rel: str) -> None:
            assert self.store.remove(rel) == (self.model.pop(rel, None) is not None)

        @rule(folder=folders.filter(bool))
        def remove_tree(self, folder: str) -> None:
            gone = [rel for rel in self.model if rel.startswith(f"{folder}/")]
            assert self.store.remove_tree(folder) == len(gone)
            for rel in gone:
                del self.model[rel]

        @rule(rel=rels, start=st.integers(0, 50), length=st.integers(0, 50))
        def read_range(self, rel: str, start: int, length: int) -> None:
            got = self._expect(rel, lambda: self.store.read_range(rel, start, length))
            assert got is None or got == self.model[rel][start : start + length]

        @rule(folder=folders)
        def list_one_folder(self, folder: str) -> None:
            prefix = f"{folder}/" if folder else ""
            inside = [rel[len(prefix) :] for rel in self.model if rel.startswith(prefix)]
            expected = {(name.partition("/")[0], "/" in name) for name in inside}
            found = {(entry.name, entry.is_dir) for entry in self.store.list(folder)}
            assert found == expected

        @invariant()
        def holds_what_the_model_holds(self) -> None:
            if not hasattr(self, "store"):
                return
            found = {entry.rel: entry.identity for entry in self.store.list(recursive=True)}
            assert sorted(found) == sorted(self.model)
            for rel, identity in found.items():
                assert identity is not None
                assert identity.size == len(self.model[rel])
                assert self.store.read(rel) == self.model[rel]

    return Machine
