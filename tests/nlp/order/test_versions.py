"""Published versions in a global order: the index they carry, parts of splits, remote stores."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

from provender.errors import SettingsError, UnknownReference
from provender.nlp.order import Input, indexed_source
from provender.nlp.order.indexing import FOLDER
from provender.training.wire import parse_example

UPKEEP = Path(__file__).parents[2] / "upkeep" / "conftest.py"


def _upkeep() -> ModuleType:
    key = "provender_upkeep_tests_conftest"
    if key not in sys.modules:
        spec = importlib.util.spec_from_file_location(key, UPKEEP)
        assert spec
        assert spec.loader
        module = importlib.util.module_from_spec(spec)
        sys.modules[key] = module
        spec.loader.exec_module(module)
    return sys.modules[key]


notes = _upkeep().notes


def texts(source: Any, count: int) -> list[str]:
    """The texts of the next examples."""
    start, order = source.state.snapshot()
    records = source.records_at(order, np.arange(start, start + count))
    return [parse_example(each)["text"][0].decode().strip() for each in records]


def wanted(first: int, last: int) -> set[str]:
    return {f"note {at} {'x' * (at % 50)}".strip() for at in range(first, last)}


def test_a_version_needs_no_scan(notes: Any) -> None:
    reference = f"{notes.version.dataset}:{notes.version.version}"
    source = indexed_source(
        Input(version=reference, split="train"), global_batch_size=10, settings=notes.settings
    )
    one = texts(source, 300)
    assert set(one) == wanted(0, 300)
    assert set(texts(source, 600)[300:]) == wanted(0, 300)
    assert not (notes.settings.home / FOLDER).exists()


def test_parts_of_splits_and_a_mixture_with_files(notes: Any, tmp_path: Path) -> None:
    from provender.records.tfrecord import frame_joined

    reference = f"{notes.version.dataset}:{notes.version.version}"
    part = Input(version=reference, split="train[:10%]+test[5:]")
    source = indexed_source(part, global_batch_size=5, settings=notes.settings)
    assert source.state.sources[0].records == 45
    assert len(set(texts(source, 45))) == 45
    path = tmp_path / "own.tfrecord"
    path.write_bytes(frame_joined([b"own"] * 9)[0])
    mixed = indexed_source(
        {"version": part, "files": Input(files=[path])},
        global_batch_size=5,
        weights={"version": 2, "files": 1},
        settings=notes.settings,
    )
    start, order = mixed.state.snapshot()
    records = mixed.records_at(order, np.arange(start, start + 90))
    assert records.count(b"own") == 30


def test_a_remote_store_comes_through_the_shard_cache(notes: Any, tmp_path: Path) -> None:
    import fsspec

    from provender.settings import load_settings

    remote = fsspec.filesystem("memory")
    remote.put(str(notes.settings.store), "/order-store", recursive=True)
    settings = load_settings(
        store="memory://order-store",
        catalog=notes.settings.catalog,
        cwd=tmp_path,
        environ={"PROVENDER_HOME": str(tmp_path / "home")},
    )
    reference = f"{notes.version.dataset}:{notes.version.version}"
    source = indexed_source(
        Input(version=reference, split="test"), global_batch_size=5, settings=settings
    )
    assert set(texts(source, 20)) == wanted(0, 20)
    local = indexed_source(
        Input(version=reference, split="test"), global_batch_size=5, settings=notes.settings
    )
    assert texts(local, 20) == texts(source, 20)
    assert local.state.sources == source.state.sources
    remote.rm("/order-store", recursive=True)


def test_what_is_not_there(notes: Any) -> None:
    reference = f"{notes.version.dataset}:{notes.version.version}"
    with pytest.raises(SettingsError, match="Which split"):
        indexed_source(Input(version=reference), global_batch_size=5, settings=notes.settings)
    with pytest.raises(UnknownReference):
        indexed_source(
            Input(version="nothing:1.0.0", split="train"),
            global_batch_size=5,
            settings=notes.settings,
        )
