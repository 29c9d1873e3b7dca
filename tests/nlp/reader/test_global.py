"""`global_shuffle` through the reader; the order itself is tested beside `provender.nlp.order`."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from provender.errors import SettingsError
from provender.nlp import DataConfig, InputReader


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("PROVENDER_HOME", str(tmp_path / "home"))
    return tmp_path


def reader(data: Any, path: Any, **options: Any) -> InputReader:
    params = DataConfig(input_path=path, global_shuffle=True, **options)
    return InputReader(params, features=data.features())


@pytest.mark.parametrize("hosts", [1, 3])
def test_every_step_is_shared_out_and_every_epoch_complete(
    data: SimpleNamespace, home: Path, hosts: int
) -> None:
    data.write_numbers(home / "files", [5, 13])
    made = reader(data, f"{home}/files/*", global_batch_size=6, is_training=True)
    parts = [data.numbers(made.read(data.context(host, hosts)), 3) for host in range(hosts)]
    epoch = [number for part in parts for number in part]
    assert sorted(epoch) == list(range(18))
    assert epoch != sorted(epoch)


def test_a_mixture_without_weights_keeps_to_the_numbers_of_records(
    data: SimpleNamespace, home: Path
) -> None:
    files = data.write_numbers(home / "files", [5, 10])
    paths = {"a": files[0], "b": files[1]}
    made = reader(data, paths, global_batch_size=15, is_training=True)
    assert sorted(data.numbers(made.read(), 1)) == list(range(15))


def test_there_is_a_position_to_save_only_in_a_global_order(
    data: SimpleNamespace, home: Path
) -> None:
    [path] = data.write_numbers(home / "files", [5])
    made = reader(data, path, global_batch_size=1, is_training=True)
    assert made.indexed.state.step == 0
    plain = InputReader(DataConfig(input_path=path))
    with pytest.raises(SettingsError, match="Only a global order"):
        _ = plain.indexed


@pytest.mark.parametrize("training", [True, False])
def test_a_service_cannot_read_by_number(data: SimpleNamespace, home: Path, training: bool) -> None:
    [path] = data.write_numbers(home / "files", [5])
    with pytest.raises(SettingsError, match="in this process"):
        reader(
            data, path, global_batch_size=1, is_training=training, enable_tf_data_service=True,
            tf_data_service_address="grpc://x:1",
        )  # fmt: skip


def test_hosts_that_do_not_share_are_refused(data: SimpleNamespace, home: Path) -> None:
    [path] = data.write_numbers(home / "files", [5])
    made = reader(data, path, global_batch_size=2, is_training=True, sharding=False)
    with pytest.raises(SettingsError, match="sharding is off"):
        made.read(data.context(0, 2))
