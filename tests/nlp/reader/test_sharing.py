"""Hosts read disjoint data that together is all of it, with and without a seed."""

from __future__ import annotations

from itertools import chain
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from provender.errors import SettingsError
from provender.nlp import DataConfig, InputReader
from provender.nlp.reader.epochs import Epochs
from provender.nlp.reader.files import compressed_records
from provender.nlp.reader.sharing import Share, agreed_seed, batch_rows

SIZES = {1: [40], 3: [10, 1, 29], 8: [5] * 8, 11: [4] * 10 + [0]}


@pytest.fixture(scope="module")
def folders(data: SimpleNamespace, tmp_path_factory: pytest.TempPathFactory) -> dict[int, Path]:
    made = {}
    for count, sizes in SIZES.items():
        made[count] = tmp_path_factory.mktemp(f"files{count}")
        data.write_numbers(made[count], sizes)
    return made


def records_of(data: Any, folder: Path, host: int, hosts: int, **options: Any) -> list[bytes]:
    """What one host reads; every host has a reader of its own, as in life."""
    config = DataConfig(input_path=f"{folder}/part-*.tfrecord", **options)
    source = InputReader(config)._sources[""]
    return [each.numpy() for each in source.read(data.context(host, hosts))]


def check_all_once(data: Any, folder: Path, hosts: int, total: int, **options: Any) -> None:
    parts = [records_of(data, folder, host, hosts, **options) for host in range(hosts)]
    records = [*chain.from_iterable(parts)]
    assert len(records) == len(set(records)) == total


@pytest.mark.parametrize("hosts", [1, 2, 5, 8])
@pytest.mark.parametrize("files", [1, 3, 11])
def test_evaluation_reads_every_record_once(
    data: SimpleNamespace, folders: dict[int, Path], files: int, hosts: int
) -> None:
    check_all_once(data, folders[files], hosts, sum(SIZES[files]), drop_remainder=False)


@pytest.mark.parametrize(
    ("files", "hosts", "seed"),
    [(1, 2, 42), (1, 8, None), (3, 2, None), (3, 8, 42), (11, 2, 42), (11, 8, None), (11, 8, 42)],
)
def test_an_epoch_of_training_reads_every_record_once(
    data: SimpleNamespace, folders: dict[int, Path], files: int, hosts: int, seed: int | None
) -> None:
    """One that is to be cached, which ends."""
    options = {"is_training": True, "cache": True, "seed": seed}
    check_all_once(data, folders[files], hosts, sum(SIZES[files]), **options)


@given(
    units=st.integers(1, 30),
    hosts=st.integers(1, 8),
    seed=st.none() | st.integers(-(2**40), 2**40),
    epochs=st.just(3),
)
@settings(max_examples=25, deadline=None)
def test_in_every_epoch_each_unit_has_one_host(
    units: int, hosts: int, seed: int | None, epochs: int
) -> None:
    import tensorflow as tf

    config = DataConfig(is_training=True)
    # What `drawn` gives is below 2**32.
    order_seed = tf.constant(agreed_seed(seed, ["file"]) % (1 << 32), tf.int64)
    orders = []
    for epoch in range(epochs):
        shares = [
            Epochs(config, Share(host, hosts), 0)
            .mine(units, order_seed, tf.constant(epoch, tf.int64))
            .numpy()
            .tolist()
            for host in range(hosts)
        ]
        assert sorted(chain.from_iterable(shares)) == list(range(units))
        orders.append(shares)
    if units > 9:
        assert orders[0] != orders[1]


@pytest.mark.parametrize("seed", [None, 7])
def test_each_epoch_of_an_endless_source_is_complete(
    data: SimpleNamespace, folders: dict[int, Path], seed: int | None
) -> None:
    """Files of one size, so that an epoch ends for both hosts with the same record."""
    config = DataConfig(
        input_path=f"{folders[8]}/*", is_training=True, seed=seed, shuffle_buffer_size=3
    )
    streams = []
    for host in range(2):
        source = InputReader(config)._sources[""].read(data.context(host, 2)).take(60)
        streams.append([each.numpy() for each in source])
    for epoch in range(3):
        records = [*chain.from_iterable(each[20 * epoch : 20 * epoch + 20] for each in streams)]
        assert len(records) == len(set(records)) == 40
    assert streams[0][:20] != streams[0][20:40]


def test_each_iterator_has_orders_of_its_own_and_hosts_still_agree(
    data: SimpleNamespace, folders: dict[int, Path]
) -> None:
    """Training loops that make an iterator for each of their epochs must not begin anew."""
    config = DataConfig(input_path=f"{folders[8]}/*", is_training=True, seed=5)
    sources = [
        InputReader(config)._sources[""].read(data.context(host, 2)).take(20) for host in range(2)
    ]
    first, second = ([[each.numpy() for each in source] for source in sources] for _ in range(2))
    assert first[0] != second[0]
    for records in (first, second):
        assert len({*records[0], *records[1]}) == 40
    again = InputReader(config)._sources[""].read(data.context(0, 2)).take(20)
    assert [each.numpy() for each in again] == first[0]


def test_hosts_agree_without_a_seed_whatever_tensorflows_own_seed_is(
    data: SimpleNamespace, folders: dict[int, Path]
) -> None:
    import tensorflow as tf

    parts = []
    for host in range(2):
        tf.random.set_seed(1000 + host)
        config = DataConfig(
            input_path=f"{folders[8]}/part-*.tfrecord", is_training=True, cache=True,
        )  # fmt: skip
        source = InputReader(config)._sources[""].read(data.context(host, 2))
        parts.append({each.numpy() for each in source})
    assert parts[0].isdisjoint(parts[1])
    assert len(parts[0] | parts[1]) == 40


@settings(max_examples=6, deadline=None, suppress_health_check=list(HealthCheck))
@given(
    sizes=st.lists(st.integers(0, 12), min_size=1, max_size=6).filter(any),
    hosts=st.integers(1, 8),
    training=st.booleans(),
)
def test_any_files_and_any_number_of_hosts(
    data: SimpleNamespace,
    tmp_path_factory: pytest.TempPathFactory,
    sizes: list[int],
    hosts: int,
    training: bool,
) -> None:
    folder = tmp_path_factory.mktemp("any")
    data.write_numbers(folder, sizes)
    options = {"is_training": training, "cache": training, "drop_remainder": False}
    try:
        check_all_once(data, folder, hosts, sum(sizes), **options)
    except SettingsError as error:
        assert training and sum(sizes) < hosts, error


def test_few_files_are_not_read_whole_by_every_host(data: SimpleNamespace, tmp_path: Path) -> None:
    from provender.data.sources.access import place_of
    from provender.nlp.reader.pieces import cut

    [path] = data.write_numbers(tmp_path, [1000])
    file = place_of(path).stat(path)
    pieces = cut([file], 4)
    assert pieces[0].start == 0
    assert pieces[-1].stop == file.size
    share = [each.stop - each.start for each in pieces]
    assert max(share) - min(share) < 3 * file.size // 1000


def test_files_are_shuffled_in_training_also_where_they_are_few(
    data: SimpleNamespace, folders: dict[int, Path]
) -> None:
    options = {"is_training": True, "cache": True, "cycle_length": 1}
    found = records_of(data, folders[1], 0, 2, **options)
    in_file = [data.example(number) for number in range(40)]
    assert [in_file.index(each) for each in found] != sorted(map(in_file.index, found))


@pytest.mark.parametrize("training", [False, True])
def test_files_of_a_function_are_shared_by_turns(
    data: SimpleNamespace, tmp_path: Path, training: bool, caplog: pytest.LogCaptureFixture
) -> None:
    import tensorflow as tf

    for number in range(2):
        path = str(tmp_path / f"{number}.gz")
        with tf.io.TFRecordWriter(path, "GZIP") as writer:
            for each in range(number * 10, number * 10 + 10):
                writer.write(data.example(each))
    config = DataConfig(input_path=f"{tmp_path}/*.gz", is_training=training, cache=training)
    parts = []
    for host in range(3):
        source = InputReader(config, compressed_records)._sources[""]
        parts.append([each.numpy() for each in source.read(data.context(host, 3))])
    records = [*chain.from_iterable(parts)]
    assert len(records) == len(set(records)) == 20
    assert "2 files for 3 hosts" in caplog.text


def test_naming_the_default_function_changes_nothing(
    data: SimpleNamespace, folders: dict[int, Path], caplog: pytest.LogCaptureFixture
) -> None:
    import tensorflow as tf

    params = DataConfig(input_path=f"{folders[1]}/*")
    source = InputReader(params, tf.data.TFRecordDataset)._sources[""]
    found = [each.numpy() for each in source.read(data.context(0, 2))]
    assert found == records_of(data, folders[1], 0, 2)
    assert not caplog.records


def test_sharding_off_gives_every_host_everything(
    data: SimpleNamespace, folders: dict[int, Path]
) -> None:
    found = [records_of(data, folders[3], host, 2, sharding=False) for host in range(2)]
    assert found[0] == found[1]
    assert len(found[0]) == 40


def test_more_hosts_than_records_is_an_error_in_training(
    data: SimpleNamespace, tmp_path: Path
) -> None:
    data.write_numbers(tmp_path, [3])
    with pytest.raises(SettingsError, match="8 hosts cannot share 3 records"):
        records_of(data, tmp_path, 0, 8, is_training=True)


def test_the_rows_of_a_batch(data: SimpleNamespace) -> None:
    assert batch_rows(12, None) == 12
    assert batch_rows(12, data.context(0, 2, 4)) == 3
    with pytest.raises(ValueError, match="13 cannot be divided by 4 replicas") as caught:
        batch_rows(13, data.context(0, 2, 4))
    assert "16" in str(caught.value)
    with pytest.raises(SettingsError, match="global_batch_size is 0"):
        batch_rows(0, None)


def test_the_seed_that_hosts_agree_on() -> None:
    assert agreed_seed(5, ["a"]) == 5
    assert agreed_seed(None, ["/mnt/a/x", "/mnt/a/y"]) == agreed_seed(None, ["/data/x", "/data/y"])
    assert agreed_seed(None, ["x"]) != agreed_seed(None, ["y"])


def test_a_share_is_all_of_it_unless_there_are_several(data: SimpleNamespace) -> None:
    assert Share.of(None, True) == Share.of(data.context(1, 2), False) == Share(0, 1)
    assert Share.of(data.context(1, 2), True) == Share(1, 2)
