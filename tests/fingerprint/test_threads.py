"""Threads that hash at the same time in a fresh process agree, however slow its imports are."""

from __future__ import annotations

import subprocess
import sys

import pytest

PROGRAM = """
import importlib, sys, threading, time
sys.setswitchinterval(1e-5)
from importlib.machinery import SourceFileLoader

run = SourceFileLoader.exec_module
def slow(self, module):
    # As on a busy disk: before a module of reducers runs, and while it is half made.
    if module.__name__.startswith("provender.fingerprint"):
        time.sleep(0.05)
    run(self, module)
    if ".reducers." in module.__name__:
        time.sleep(0.05)

{imports}
from provender.fingerprint import Hasher
{thing}
SourceFileLoader.exec_module = slow
ready, found, broken = threading.Barrier(4), [], []
def go(late):
    ready.wait()
    time.sleep(late)
    try:
        found.append(Hasher.hash(thing))
    except BaseException as error:
        broken.append(repr(error))
threads = [threading.Thread(target=go, args=(n * 0.02,)) for n in range(4)]
[each.start() for each in threads]
[each.join() for each in threads]
print(len({{*found, Hasher.hash(thing)}}), broken)
"""


@pytest.mark.parametrize(
    ("imports", "thing"),
    [
        ("import numpy as np", "thing = np.arange(10)"),
        ("import pyarrow as pa", "thing = pa.table({'a': [1, 2]})"),
        ("import pyarrow as pa", "t = pa.table({'a': [1]})\nthing = lambda row: (row, t.schema)"),
    ],
    ids=["array", "table", "function"],
)
def test_threads_agree(imports: str, thing: str) -> None:
    code = PROGRAM.format(imports=imports, thing=thing)
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout.split() == ["1", "[]"]


def test_a_reducer_registered_during_a_look_up_is_not_overtaken(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    from provender.fingerprint import Hasher, register_reducer, shapes

    class Thing:
        pass

    find = shapes._find
    began: list[type] = []

    def overtaken(kind: type) -> object:
        maker = find(kind)
        if kind is Thing and not began:
            began.append(kind)
            register_reducer(Thing, lambda thing: thing.content)
        return maker

    monkeypatch.setattr(shapes, "_find", overtaken)
    one, other = Thing(), Thing()
    one.content, other.content = 1, 2  # type: ignore[attr-defined]
    one.noise, other.noise = "a", "b"  # type: ignore[attr-defined]
    Hasher.hash(one)
    other.content = 1  # type: ignore[attr-defined]
    assert Hasher.hash(one) == Hasher.hash(other)
