"""Evaluation on several hosts: every record once, and as many steps on each host."""

from __future__ import annotations

from itertools import chain
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from provender.errors import SettingsError
from provender.nlp import DataConfig, InputReader
from provender.nlp.reader.even import Counts, as_many_batches, even_ranges
from provender.nlp.reader.sharing import Share

CASES = {
    "as many each": ([10, 1, 29], 8, 5),
    "one host has one more, in its last batch": ([10, 1, 7], 4, 3),
    "one host has one more, and a step for it": ([10, 1, 6], 4, 2),
    "batches of one row": ([5] * 6 + [3], 8, 1),
    "fewer records than hosts": ([3], 5, 2),
}


def batches(data: SimpleNamespace, config: DataConfig, host: int, hosts: int) -> list[list[bytes]]:
    """Of records as they are, which no parser has to be traced for."""
    return [each.numpy().tolist() for each in InputReader(config).read(data.context(host, hosts))]


def check(found: list[list[list[bytes]]], records: list[bytes], rows: int) -> None:
    assert len({len(each) for each in found}) == 1, found
    sizes = [len(batch) for each in found for batch in each]
    assert max(sizes) <= rows
    assert sorted(chain.from_iterable(chain.from_iterable(found))) == sorted(records)


@pytest.mark.parametrize("source", ["files", "order"])
@pytest.mark.parametrize("case", CASES)
def test_hosts_have_as_many_steps_and_read_every_record_once(
    data: SimpleNamespace, tmp_path: Path, case: str, source: str
) -> None:
    sizes, hosts, rows = CASES[case]
    data.write_numbers(tmp_path, sizes)
    config = DataConfig(
        input_path=f"{tmp_path}/part-*",
        global_batch_size=hosts * rows,
        drop_remainder=False,
        global_shuffle=source == "order",
    )
    records = [data.example(number) for number in range(sum(sizes))]
    check([batches(data, config, host, hosts) for host in range(hosts)], records, rows)


@pytest.mark.parametrize("kind", ["version", "tfds_name"])
def test_versions_and_builders_too(data: SimpleNamespace, notes: Any, kind: str) -> None:
    """20 examples on 3 hosts in batches of 6: two hosts have one more."""
    import tensorflow as tf

    options = {
        "tfds_split": "test", "global_batch_size": 18, "drop_remainder": False,
        **({"version": "notes:1.0.0"} if kind == "version" else
           {"tfds_name": "notes", "tfds_data_dir": str(notes.store.path("datasets"))}),
    }  # fmt: skip
    features = {"text": tf.io.FixedLenFeature([], tf.string)}
    found = []
    for host in range(3):
        reader = InputReader(DataConfig(**options), features=features, settings=notes.settings)
        found.append([each["text"].numpy().tolist() for each in reader.read(data.context(host, 3))])
    assert [len(each) for each in found] == [2, 2, 2]
    texts = [*chain.from_iterable(chain.from_iterable(found))]
    assert len(texts) == len(set(texts)) == 20


def test_full_batches_only_are_as_many_on_each_host(data: SimpleNamespace, tmp_path: Path) -> None:
    data.write_numbers(tmp_path, [7, 1, 9])
    config = DataConfig(input_path=f"{tmp_path}/*", global_batch_size=4)
    found = [batches(data, config, host, 2) for host in range(2)]
    assert [list(map(len, each)) for each in found] == [[2] * 4, [2] * 4]
    assert len({*chain.from_iterable(chain.from_iterable(found))}) == 16


def test_what_was_counted_is_remembered_in_the_home(
    data: SimpleNamespace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from provender.nlp.order import indexing

    monkeypatch.setenv("PROVENDER_HOME", str(tmp_path / "home"))
    data.write_numbers(tmp_path / "files", [9])
    config = DataConfig(input_path=f"{tmp_path}/files/*", global_batch_size=2, drop_remainder=False)
    first = batches(data, config, 1, 2)
    assert [*(tmp_path / "home" / "offsets").iterdir()]
    monkeypatch.setattr(indexing, "scan", lambda path: pytest.fail(f"{path} was read again"))
    assert batches(data, config, 1, 2) == first


def test_too_few_records_for_full_batches_are_an_error(
    data: SimpleNamespace, tmp_path: Path
) -> None:
    [path] = data.write_numbers(tmp_path, [3])
    config = DataConfig(input_path=path, global_batch_size=4)
    with pytest.raises(SettingsError, match="4 hosts cannot share 3 records evenly") as caught:
        batches(data, config, 0, 4)
    assert "drop_remainder: false" in str(caught.value)


@given(
    lengths=st.lists(st.integers(0, 9), max_size=6),
    hosts=st.integers(1, 8),
    drop=st.booleans(),
)
def test_ranges_are_even_and_cover_all(lengths: list[int], hosts: int, drop: bool) -> None:
    total = sum(lengths)
    if drop and total < hosts:
        with pytest.raises(SettingsError):
            even_ranges(lengths, Share(0, hosts), drop, "files")
        return
    shares = [even_ranges(lengths, Share(host, hosts), drop, "files") for host in range(hosts)]
    places = [[(at, i) for at, low, high in each for i in range(low, high)] for each in shares]
    sizes = [len(each) for each in places]
    every = [(at, i) for at, length in enumerate(lengths) for i in range(length)]
    if drop:
        assert sizes == [total // hosts] * hosts
        assert [*chain.from_iterable(places)] == every[: total // hosts * hosts]
    else:
        counts = [Counts.of(total, Share(host, hosts)) for host in range(hosts)]
        assert [each.mine for each in counts] == sizes
        assert {each.most for each in counts} == {max(sizes)}
        assert [*chain.from_iterable(places)] == every


@pytest.mark.parametrize(
    ("mine", "most", "rows", "expected"),
    [
        (6, 6, 3, [3, 3]),
        (7, 8, 3, [3, 3, 1]),
        (6, 7, 3, [3, 1, 2]),
        (4, 5, 2, [2, 1, 1]),
        (2, 3, 1, [1, 1, 0]),
        (1, 2, 1, [1, 0]),
        (0, 1, 3, [0]),
    ],
)
def test_the_last_batch_is_cut_in_two(mine: int, most: int, rows: int, expected: list[int]) -> None:
    import tensorflow as tf

    data = tf.data.Dataset.range(mine).map(lambda each: {"x": tf.stack([each, each]), "y": each})
    found = list(as_many_batches(data, rows, Counts(mine, most)))
    assert [len(each["y"]) for each in found] == expected
    assert [n for each in found for n in each["y"].numpy().tolist()] == list(range(mine))
    assert all(each["x"].shape == [size, 2] for each, size in zip(found, expected, strict=True))
