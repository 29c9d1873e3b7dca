"""Arguments as JSON: nothing is lost on the way, and only content counts."""

from __future__ import annotations

import io
import json
import tarfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from etils import epath
from hypothesis import given
from hypothesis import strategies as st

from provender.builders.arguments import NotPlainError, content, decode, encode
from provender.builders.download import iter_archive

ROOTS = {"objects": Path("/store/objects"), "manual": Path("/by hand")}
MOVED = {"objects": Path("/other/place"), "manual": Path("/m")}

TEXTS = st.text(max_size=12) | st.sampled_from(
    [
        "/store/objects",
        "/store/objects/aa/bb/f.txt",
        "/store/objectsx",
        "/by hand/a b",
        "/else",
        "/",
    ]
)
PATHS = TEXTS.filter(lambda t: "\0" not in t)
KEYS = st.text(max_size=6) | st.sampled_from(["$root", "$path", "$bytes", "$tuple", "$dict", "$"])
LEAVES = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False)
    | TEXTS
    | st.binary(max_size=8)
    | PATHS.map(Path)
)
VALUES = st.recursive(
    LEAVES,
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.lists(inner, max_size=4).map(tuple)
        | st.dictionaries(KEYS, inner, max_size=4)
        | st.dictionaries(st.integers() | st.tuples(st.text(max_size=3)), inner, max_size=3)
    ),
    max_leaves=12,
)


@given(VALUES)
def test_what_is_encoded_is_decoded(value: Any) -> None:
    doc = json.loads(json.dumps(encode(value, ROOTS)))
    again = decode(doc, ROOTS)
    assert again == value
    assert shape(again) == shape(value)


def shape(value: Any) -> Any:
    """Types all the way down: ``1 == 1.0 == True`` must not pass for equal."""
    if isinstance(value, list | tuple):
        return type(value), [shape(each) for each in value]
    if isinstance(value, dict):
        return dict, [(shape(k), shape(v)) for k, v in value.items()]
    return type(value)


@given(VALUES)
def test_content_is_plain_and_the_same_twice(value: Any) -> None:
    def look(path: str) -> Any:
        return f"content of {path}" if path.startswith("/else") else None

    doc = encode(value, ROOTS)
    found = content(doc, lambda root, path: [root, path], look)
    assert json.dumps(found) == json.dumps(content(doc, lambda root, path: [root, path], look))


@pytest.mark.parametrize("kind", [str, Path, epath.Path])
def test_paths_move_with_their_root(kind: Any) -> None:
    value = {"a": [kind("/store/objects/aa/x y")], "b": kind("/by hand"), "c": kind("/else")}
    moved = decode(encode(value, ROOTS), MOVED)
    assert moved == {"a": [kind("/other/place/aa/x y")], "b": kind("/m"), "c": kind("/else")}
    assert {type(moved["b"]), type(moved["a"][0])} == {type(kind("/m"))}


def test_a_name_that_only_begins_like_a_root_is_none() -> None:
    assert encode("/store/objects-of-mine/x", ROOTS) == "/store/objects-of-mine/x"


def test_long_text_is_no_path() -> None:
    text = "/store/objects/" + "x" * 5000
    assert encode(text, ROOTS) == text


def test_text_types_and_numpy_scalars_become_plain() -> None:
    import tensorflow_datasets as tfds

    found = decode(encode([tfds.Split.TRAIN, np.int64(3), np.float32(0.5), np.bool_(True)], {}), {})
    assert found == ["train", 3, 0.5, True]
    assert [type(each) for each in found] == [str, int, float, bool]


@pytest.mark.parametrize(
    "value",
    [{1, 2}, object(), iter([]), np.zeros(2), io.BytesIO(), 1j, lambda: 0, range(3)],
    ids=lambda v: type(v).__name__,
)
def test_what_cannot_travel_is_said(value: Any) -> None:
    for each in (value, [value], {"a": (value,)}):
        with pytest.raises(NotPlainError, match=type(value).__name__):
            encode(each, ROOTS)


def test_an_archive_travels_as_its_path(tmp_path: Path) -> None:
    path = tmp_path / "a.tar"
    with tarfile.open(path, "w") as tar:
        member = tarfile.TarInfo("one.txt")
        member.size = 3
        tar.addfile(member, io.BytesIO(b"abc"))
    doc = json.loads(json.dumps(encode([iter_archive(path)], {"objects": tmp_path})))
    (again,) = decode(doc, {"objects": tmp_path})
    assert [(name, file.read()) for name, file in again] == [("one.txt", b"abc")]


def test_equal_content_under_another_name_is_equal() -> None:
    same = {"old": "sha", "new": "sha", "other": "sha2"}

    def of(name: str, kind: Any) -> Any:
        doc = encode([kind(f"/store/objects/{name}")], ROOTS)
        return content(doc, lambda root, path: same[path], lambda path: None)

    assert of("old", str) == of("new", str)
    assert of("old", Path) == of("new", Path)
    assert of("old", str) != of("other", str)


def test_a_path_outside_counts_by_content_where_something_is_there(tmp_path: Path) -> None:
    (tmp_path / "x").write_text("1")

    def look(path: str) -> Any:
        return Path(path).read_text() if Path(path).exists() else None

    def of(value: Any) -> Any:
        return content(encode(value, ROOTS), lambda root, path: path, look)

    assert of(str(tmp_path / "x")) == {"$content": "1"}
    assert of(tmp_path / "x") == {"$content": "1"}
    assert of(str(tmp_path / "y")) == str(tmp_path / "y")
    assert of(tmp_path / "y") == {"$path": str(tmp_path / "y")}
    (tmp_path / "x").write_text("2")
    assert of(tmp_path / "x") == {"$content": "2"}
