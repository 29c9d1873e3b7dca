"""Published versions as a source: records, shares, routes, leases, consumption."""

from __future__ import annotations

import time
from datetime import UTC, datetime
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from provender.errors import SettingsError, UnknownReference
from provender.nlp import DataConfig, InputReader
from provender.nlp.reader.version_source import divided
from provender.training.feed.plan import Piece


def declared() -> dict[str, Any]:
    import tensorflow as tf

    return {
        "text": tf.io.FixedLenFeature([], tf.string),
        "label": tf.io.FixedLenFeature([], tf.int64),
    }


def reader(place: Any, **options: Any) -> InputReader:
    settled = {
        "version": "notes:1.0.0", "tfds_split": "train", "global_batch_size": 16,
        "drop_remainder": False, **options,
    }  # fmt: skip
    return InputReader(DataConfig(**settled), features=declared(), settings=place.settings)


def texts(dataset: Any, steps: int | None = None) -> list[str]:
    data = dataset if steps is None else dataset.take(steps)
    return [text.decode() for batch in data for text in batch["text"].numpy()]


def expected(place: Any, split: str) -> list[str]:
    from provender.training.feed.loading import feed
    from provender.training.feed.options import FeedOptions

    data = feed(place.store, place.version, split, FeedOptions())
    return [each["text"].numpy().decode() for each in data]


@pytest.mark.parametrize("split", ["test", "train[10:250]+test"])
def test_the_records_of_a_split_in_file_order(notes: Any, split: str) -> None:
    made = reader(notes, tfds_split=split, cycle_length=1).read()
    assert texts(made) == expected(notes, split)


def test_records_are_serialized_so_that_any_decoder_works(notes: Any) -> None:
    import tensorflow as tf

    params = DataConfig(
        version="notes", tfds_split="test", global_batch_size=5, drop_remainder=False
    )
    made = InputReader(
        params, decoder_fn=lambda each: tf.io.parse_single_example(each, declared()),
        parser_fn=lambda each: {"text": each["text"]}, settings=notes.settings,
    ).read()  # fmt: skip
    assert sorted(texts(made)) == sorted(expected(notes, "test"))


@pytest.mark.parametrize("route", ["auto", "cache", "stream", "native"])
def test_hosts_read_disjoint_records_by_every_route(
    notes: Any, data: SimpleNamespace, route: str
) -> None:
    """The version has 3 shards; 5 hosts need pieces of them."""
    made = reader(notes, version_route=route, global_batch_size=5)
    parts = [texts(made.read(data.context(host, 5))) for host in range(5)]
    assert sorted(sum(parts, [])) == sorted(expected(notes, "train"))  # noqa: RUF017


@pytest.mark.parametrize("hosts", [2, 7])
def test_training_reads_every_record_in_each_epoch(
    notes: Any, data: SimpleNamespace, hosts: int
) -> None:
    found: list[bytes] = []
    for host in range(hosts):
        params = DataConfig(
            version="notes", tfds_split="train", is_training=True, cache=True, version_route="auto"
        )
        source = InputReader(params, settings=notes.settings)._sources[""]
        found += [each.numpy() for each in source.read(data.context(host, hosts))]
    assert len(found) == len(set(found)) == 300


def test_full_batches_come_in_equal_numbers_on_every_host(
    notes: Any, data: SimpleNamespace
) -> None:
    made = reader(notes, global_batch_size=56, drop_remainder=True)
    datasets = [made.read(data.context(host, 7)) for host in range(7)]
    assert [sum(1 for _ in each) for each in datasets] == [5] * 7
    assert [int(each.cardinality()) for each in datasets] == [5] * 7
    # 300 records for 7 hosts: 42 each, of which 40 are full batches of 8.
    found = [text for each in datasets for text in texts(each)]
    assert len(found) == len(set(found)) == 280


def test_a_mixture_of_versions(notes: Any) -> None:
    made = reader(
        notes, version={"one": "notes:1.0.0", "two": "notes"}, weights={"one": 1, "two": 1},
        tfds_split="test", cycle_length=1,
    ).read()  # fmt: skip
    found = texts(made)
    assert found[0::2] == found[1::2]
    assert sorted(found) == sorted(expected(notes, "test") * 2)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"version": "notse"}, "notse"),
        ({"version": "notes:9.9.9"}, "9.9.9"),
        ({"tfds_split": "dev"}, "dev"),
    ],
)
def test_what_is_not_there_is_told_at_construction(
    notes: Any, options: dict[str, Any], message: str
) -> None:
    with pytest.raises(UnknownReference, match=message):
        reader(notes, **options)


def test_more_hosts_than_records(notes: Any, data: SimpleNamespace) -> None:
    made = reader(notes, tfds_split="test[:3]", is_training=True)
    with pytest.raises(SettingsError, match="8 hosts cannot share 3 records"):
        made.read(data.context(0, 8))
    kept = reader(notes, tfds_split="test[:3]", global_batch_size=8)
    parts = [texts(kept.read(data.context(host, 8))) for host in range(8)]
    assert sum(map(len, parts)) == 3


def test_the_workers_of_a_service_cannot_stream(notes: Any) -> None:
    with pytest.raises(SettingsError, match="cannot reach") as caught:
        reader(
            notes, version_route="stream", enable_tf_data_service=True,
            tf_data_service_address="grpc://x:1",
        )  # fmt: skip
    assert "native" in caught.value.hint


@given(lengths=st.lists(st.integers(1, 30), min_size=1, max_size=6), parts=st.integers(1, 60))
def test_records_are_divided_evenly_and_kept_in_order(lengths: list[int], parts: int) -> None:
    parts = min(parts, sum(lengths))
    pieces = [Piece(str(at), 0, length, length) for at, length in enumerate(lengths)]
    found = divided(pieces, parts)
    whole = [(each.name, record) for each in pieces for record in range(len(each))]
    assert [(each.name, at) for each in found for at in range(each.start, each.stop)] == whole
    assert parts <= len(found) < parts + len(pieces)
    assert max(map(len, found)) <= -(-sum(lengths) // parts)
    assert min(map(len, found)) > 0


@pytest.mark.parametrize("route", ["auto", "cache", "stream"])
def test_a_mismatch_names_the_shard(notes: Any, route: str) -> None:
    import tensorflow as tf

    features = declared() | {"label": tf.io.FixedLenFeature([2], tf.int64)}
    params = DataConfig(
        version="notes", tfds_split="test", global_batch_size=4, version_route=route
    )
    made = InputReader(params, features=features, settings=notes.settings).read()
    with pytest.raises(tf.errors.InvalidArgumentError, match="label holds 1 values") as caught:
        list(made)
    assert "notes-test.tfrecord" in str(caught.value)


@pytest.mark.parametrize("whole_order", [False, True])
def test_a_job_leaves_a_lease_and_a_note(
    copied: Any, data: SimpleNamespace, monkeypatch: pytest.MonkeyPatch, whole_order: bool
) -> None:
    from provender.training.diary import diary

    began = datetime.now(UTC)
    monkeypatch.setenv("PROVENDER_JOB", f"bert-{whole_order}")
    made = reader(copied, is_training=True, global_shuffle=whole_order, version="notes:1.0.0")
    made.read(data.context(1, 2))
    assert diary(copied.settings.home, copied.settings.catalog).flush(60)
    [note] = copied.catalog.consumptions(job=f"bert-{whole_order}")
    assert tuple(note.splits) == ("train",)
    assert (note.facts["pipeline"], note.facts["pipelines"]) == (1, 2)

    def mine() -> set[str]:
        found = copied.catalog.leases(copied.version.id)
        # The copied catalog knows the leases of the version that it is a copy of.
        return {each.purpose for each in found if each.acquired > began}

    deadline = time.monotonic() + 60
    while time.monotonic() < deadline and not mine():
        time.sleep(0.05)
    assert mine() & {"nlp", "global order"}


def test_without_a_job_nothing_is_noted(copied: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("PROVENDER_JOB", raising=False)
    before = copied.catalog.consumptions()
    reader(copied).read()
    assert copied.catalog.consumptions() == before


def test_remote_versions_by_cache_and_stream(
    copied: Any, gcs_server: Any, gcs_bucket: str, data: SimpleNamespace, tmp_path: Any
) -> None:
    from dataclasses import replace

    from provender.store import Store
    from provender.training import pull

    pull(copied.store, copied.version, f"{gcs_bucket}/datasets")
    store = Store.open(gcs_bucket)
    tokens = {
        (each.split, each.index): store.stat(f"{copied.version.path}/{each.name}").token
        for each in copied.catalog.shards(copied.version.id)
    }
    copied.catalog.set_shard_tokens(copied.version.id, tokens)
    settings = replace(copied.settings, store=gcs_bucket, home=tmp_path / "remote")
    place = SimpleNamespace(settings=settings)
    for route in ("auto", "stream"):
        made = reader(place, version_route=route, tfds_split="test")
        parts = [texts(made.read(data.context(host, 2))) for host in range(2)]
        assert sorted(parts[0] + parts[1]) == sorted(expected(copied, "test"))
