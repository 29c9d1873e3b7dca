"""Files cut at the beginnings of records."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from provender.data.sources.access import DataFile, place_of
from provender.nlp.reader.pieces import cut, read_piece
from provender.nlp.reader.streaming import stream_piece
from provender.records.tfrecord import iter_records


def file_of(path: str) -> DataFile:
    found = place_of(path).stat(path)
    assert found is not None
    return found


@settings(max_examples=40, deadline=None, suppress_health_check=list(HealthCheck))
@given(
    files=st.lists(st.lists(st.binary(max_size=60), max_size=12), min_size=1, max_size=4),
    parts=st.integers(1, 12),
)
def test_pieces_are_all_records_in_order(
    data: SimpleNamespace, tmp_path: Path, files: list[list[bytes]], parts: int
) -> None:
    paths = [data.write(tmp_path / str(at), records) for at, records in enumerate(files)]
    pieces = cut([file_of(each) for each in paths], parts)
    assert len(pieces) <= parts + len(files) - 1
    found = []
    for each in pieces:
        content = Path(each.address).read_bytes()[each.start : each.stop]
        (tmp_path / "piece").write_bytes(content)
        records = [payload for _, payload in iter_records(tmp_path / "piece")]
        assert records
        found += records
    assert found == [each for records in files for each in records]


@pytest.mark.parametrize("read", [read_piece, stream_piece])
def test_both_readers_give_the_records_of_a_piece(
    data: SimpleNamespace, tmp_path: Path, read: object
) -> None:
    import tensorflow as tf

    records = [bytes([at % 250]) * (at % 7 + 1) for at in range(700)]
    path = data.write(tmp_path / "file", records)
    found = []
    for each in cut([file_of(path)], 3):
        places = (
            tf.constant([each.address]),
            tf.constant([each.start], tf.int64),
            tf.constant([each.stop], tf.int64),
        )
        made = tf.data.Dataset.from_tensor_slices(places).flat_map(read)
        found += [record.numpy() for record in made]
    assert found == records


def test_an_iterator_over_pieces_goes_on_from_a_checkpoint(
    data: SimpleNamespace, tmp_path: Path
) -> None:
    import tensorflow as tf

    from provender.nlp import DataConfig, InputReader

    [path] = data.write_numbers(tmp_path, [60])
    params = DataConfig(input_path=path, global_batch_size=4, is_training=True, seed=3)
    made = InputReader(params, features=data.features()).read(data.context(0, 2))
    iterator = iter(made)
    for _ in range(5):
        next(iterator)
    saved = tf.train.Checkpoint(iterator=iterator).write(str(tmp_path / "checkpoint"))
    rest = [next(iterator)["number"].numpy().tolist() for _ in range(20)]
    again = iter(InputReader(params, features=data.features()).read(data.context(0, 2)))
    tf.train.Checkpoint(iterator=again).read(saved).assert_consumed()
    assert [next(again)["number"].numpy().tolist() for _ in range(20)] == rest


def test_pieces_are_distributed_by_a_strategy(data: SimpleNamespace, tmp_path: Path) -> None:
    import tensorflow as tf

    from provender.nlp import DataConfig, InputReader

    [path] = data.write_numbers(tmp_path, [30])
    params = DataConfig(input_path=path, global_batch_size=6, drop_remainder=False)
    reader = InputReader(params, features=data.features())
    strategy = tf.distribute.MirroredStrategy(["CPU:0"])
    distributed = strategy.distribute_datasets_from_function(
        lambda _: reader.read(data.context(1, 2))
    )
    found = [number for batch in distributed for number in batch["number"].numpy().tolist()]
    assert found == list(range(30))[-len(found) :]
    assert 10 <= len(found) <= 20
