"""Errors, hooks, reducers, and the cost of an import."""

from __future__ import annotations

import csv
import hashlib
import io
import queue
import random
import socket
import sqlite3
import ssl
import subprocess
import sys
import warnings
import zlib
from pathlib import Path
from typing import Any

import pytest

import provender.fingerprint.hasher as hasher_module
from provender.fingerprint import (
    Hasher,
    UnhashableError,
    combine,
    hash_or_random,
    ordered,
    register_reducer,
    user_files,
)


class Client:
    def __init__(self, sock: Any) -> None:
        self._sock = sock


def test_the_path_to_the_culprit_is_named() -> None:
    with socket.socket() as sock:
        client = Client(sock)

        def transform(x: Any) -> Any:
            return client, x

        with pytest.raises(UnhashableError) as caught:
            Hasher.tree(transform, "transform")
    assert caught.value.path == ("transform", "closure client", "attribute _sock: socket")
    assert "transform -> closure client -> attribute _sock: socket" in str(caught.value)


@pytest.mark.parametrize(
    ("make", "kind"),
    [
        (lambda: (i for i in range(3)), "generator"),
        (lambda: open(__file__), "TextIOWrapper"),  # noqa: SIM115
        (lambda: sys._getframe(), "frame"),
        (lambda: hashlib.sha256(b"a"), "HASH"),
        (lambda: ssl.create_default_context(), "SSLContext"),
        (lambda: queue.Queue(), "Queue"),
        (lambda: sqlite3.connect(":memory:"), "Connection"),
        (lambda: csv.writer(io.StringIO()), "writer"),
        (lambda: zlib.compressobj(), "Compress"),
    ],
)
def test_things_without_content(make: Any, kind: str) -> None:
    thing = make()
    try:
        with pytest.raises(UnhashableError, match=rf"key 'a' -> \[1\]: {kind}"):
            Hasher.hash({"a": [0, thing]})
    finally:
        getattr(thing, "close", lambda: None)()
        del thing


def test_errors_survive_json_and_pickle() -> None:
    import pickle

    from provender.errors import ProvenderError

    error = UnhashableError(path=("a", "b: socket"))
    assert pickle.loads(pickle.dumps(error)).path == ("a", "b: socket")
    again = ProvenderError.from_json(error.to_json())
    assert isinstance(again, UnhashableError)
    assert again.path == error.path


def test_unhashable_is_random_with_one_warning(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hasher_module, "_warned", set())
    state = random.getstate()
    thing = iter(()).__class__, (i for i in ())
    with pytest.warns(UserWarning, match="generator"):
        first, said = hash_or_random(thing)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        second, again = hash_or_random(thing)
    assert first != second
    assert said is not None
    assert said == again
    assert random.getstate() == state
    assert hash_or_random(1) == (Hasher.hash(1), None)


def test_each_culprit_is_told_of_once_at_the_users_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hasher_module, "_warned", set())
    one = (i for i in ())
    with socket.socket() as other, warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for thing in (one, other, one, other):
            hash_or_random({"k": thing})
        hash_or_random({"k": one}, "fn_kwargs")
    said = [str(each.message) for each in caught]
    assert len(said) == 3
    assert "generator" in said[0]
    assert "socket" in said[1]
    assert "fn_kwargs -> key 'k'" in said[2]
    assert {each.filename for each in caught} == {__file__}


def test_registered_reducer_by_type_and_by_name() -> None:
    class Handle:
        def __init__(self, url: str) -> None:
            self.url = url
            self.sock = (i for i in ())

    with pytest.raises(UnhashableError):
        Hasher.hash(Handle("a"))
    register_reducer(Handle, lambda handle: handle.url)
    assert Hasher.hash(Handle("a")) == Hasher.hash(Handle("a"))
    assert Hasher.hash(Handle("a")) != Hasher.hash(Handle("b"))

    class Child(Handle):
        pass

    assert Hasher.hash(Child("a")) == Hasher.hash(Child("a"))
    register_reducer(f"{__name__}.Named", lambda named: named.key)
    assert Hasher.hash(Named(1)) == Hasher.hash(Named(1))


class Named:
    def __init__(self, key: int) -> None:
        self.key = key
        self.junk = (i for i in ())


def test_ordered_keeps_its_order() -> None:
    assert Hasher.hash(ordered(a=1, b=2)) == Hasher.hash(ordered(a=1, b=2))
    assert Hasher.hash(ordered(a=1, b=2)) != Hasher.hash(ordered(b=2, a=1))
    assert ordered(a=1) == {"a": 1}


def test_user_files_and_distributions() -> None:
    import numpy as np

    def uses(x: Any) -> Any:
        return np.asarray(x)

    walk = Hasher.walk(uses)
    assert walk.files == {__file__}
    assert walk.distributions == {"numpy": np.__version__}
    assert user_files(uses, 1) == {__file__}


def test_an_edit_within_one_process(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import importlib

    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    path = tmp_path / "edited_module.py"
    path.write_text("def f(x): return x + 1\n")
    module = importlib.import_module("edited_module")
    first = Hasher.hash(module.f)
    path.write_text("def f(x): return x + 2\n")
    assert Hasher.hash(module.f) == first  # the code in memory has not changed
    sys.modules.pop("edited_module")
    importlib.invalidate_caches()
    assert Hasher.hash(importlib.import_module("edited_module").f) != first
    path.write_text("# comment\ndef f(x): return x + 1\n")
    sys.modules.pop("edited_module")
    importlib.invalidate_caches()
    assert Hasher.hash(importlib.import_module("edited_module").f) == first
    sys.modules.pop("edited_module")


def test_the_package_costs_next_to_nothing_to_import() -> None:
    program = (
        "import sys, time; import provender; t = time.process_time();"
        "import provender.fingerprint; took = time.process_time() - t;"
        "assert took < 0.04, took;"
        "from provender.fingerprint import Hasher; Hasher.hash(len);"
        "heavy = {'numpy', 'pandas', 'tensorflow', 'pydantic', 'httpx'} & set(sys.modules);"
        "assert not heavy, heavy"
    )
    subprocess.run([sys.executable, "-c", program], check=True)


def test_lazily_imported_library_is_not_imported() -> None:
    program = (
        "import sys\n"
        "from provender.fingerprint import Hasher\n"
        "def f(x):\n"
        "    import tensorflow as tf\n"
        "    from pandas import DataFrame\n"
        "    return tf, DataFrame\n"
        "walk = Hasher.walk(f)\n"
        "assert set(walk.distributions) == {'tensorflow', 'pandas'}, walk.distributions\n"
        "assert not {'tensorflow', 'pandas'} & set(sys.modules)\n"
    )
    subprocess.run([sys.executable, "-c", program], check=True)


def test_combine_names_the_part_that_cannot_be_hashed() -> None:
    with pytest.raises(UnhashableError) as caught:
        combine("stage", {"config": {"x": (i for i in ())}})
    assert caught.value.path[0] == "config"
