"""A global shuffle in blocks: no trace of the file order, whatever the size of the blocks."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from provender.data.stream import IterableDataset
from provender.data.stream.draws import key_of
from provender.data.stream.global_order import GlobalShuffle
from provender.data.stream.layout import WINDOW, window_rows_of
from provender.data.stream.permutation import BlockOrder

pytestmark = pytest.mark.timeout(120)


def rank_correlation(order: np.ndarray) -> float:
    return abs(float(np.corrcoef(np.arange(len(order)), order)[0, 1]))


def written(folder: Path, rows: int, files: int, group: int) -> IterableDataset:
    each = rows // files
    paths = []
    for at in range(files):
        table = pa.table({"i": np.arange(at * each, (at + 1) * each)})
        paths.append(str(folder / f"part-{at:03}.parquet"))
        pq.write_table(table, paths[-1], row_group_size=group)
    made: IterableDataset = IterableDataset.from_parquet(paths)
    return made


@pytest.mark.parametrize("group", [1000, 10_000])
@pytest.mark.parametrize("files", [1, 10])
def test_parquet_with_few_row_groups(files: int, group: int, tmp_path: Path) -> None:
    ds = written(tmp_path, 100_000, files, group)
    for seed in range(4):
        shuffled = ds.shuffle(seed=seed, buffer_size="global").with_format("arrow")
        order = np.concatenate([table["i"].to_numpy() for table in shuffled.iter(8192)])
        assert np.array_equal(np.sort(order), np.arange(100_000))
        assert rank_correlation(order) < 0.02


@pytest.mark.parametrize(
    "rows,block",
    [
        (100_000, 1024),
        (100_001, 256),
        (100_000, 7777),
        (270_000, 32_768),
        (300_000, 2048),
        (300_000, 4096),
        (500_000, 10_000),
        (1_000_000, 32_768),
    ],
)
def test_blocks_that_do_not_fill_the_windows_leave_no_trace(rows: int, block: int) -> None:
    places = np.arange(rows)
    for seed in range(4):
        order = BlockOrder(rows, block, window_rows_of(rows, block), key_of("global", seed, 0))
        assert rank_correlation(order.at(places)) < 0.02


def test_a_split_of_a_few_windows_is_one_and_small_blocks_make_small_windows() -> None:
    assert window_rows_of(100_000, 10_000) == 100_000
    assert window_rows_of(5_000_000, 10_000) == WINDOW
    assert window_rows_of(100_000, 256) == 12_500
    assert window_rows_of(5_000_000, 256) == WINDOW
    assert window_rows_of(0, 10_000) == 2


def test_a_window_that_was_asked_for_is_kept() -> None:
    ds = IterableDataset.from_dict({"i": np.arange(1000)})
    node = ds.shuffle(seed=1, buffer_size="global", block_rows=20, window_rows=100)._node
    assert isinstance(node, GlobalShuffle)
    assert (node.block, node.window) == (20, 100)


@settings(max_examples=100, deadline=None, derandomize=True)
@given(st.integers(0, 30_000), st.integers(1, 5000), st.integers(0, 3))
def test_the_chosen_window_gives_every_row_once(rows: int, block: int, key: int) -> None:
    order = BlockOrder(rows, block, window_rows_of(rows, block), key)
    made = order.at(np.arange(rows))
    assert np.array_equal(np.sort(made), np.arange(rows))
    assert np.array_equal(order.at(np.arange(0, rows, 7)), made[::7])
