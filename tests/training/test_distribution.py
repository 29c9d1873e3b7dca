"""Training on several replicas and hosts, each job in a process of its own as it would be.

One job is a `tf.distribute.MirroredStrategy` over two devices; the other is one of eight hosts,
which are told apart by nothing but the `input_context` that they are given.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from itertools import chain
from pathlib import Path
from typing import Any

import pytest

from provender.errors import SettingsError
from provender.training.feed.loading import feed
from provender.training.feed.options import FeedOptions

REPLICAS = """
import json, sys
import tensorflow as tf

cpu, = tf.config.list_physical_devices("CPU")
tf.config.set_logical_device_configuration(cpu, [tf.config.LogicalDeviceConfiguration()] * 2)
import provender

store, catalog, style, *jobs = sys.argv[1:]
settings = provender.load_settings(store=store, catalog=catalog)
strategy = tf.distribute.MirroredStrategy(["CPU:0", "CPU:1"])
options = dict(split="train", columns=["text"], shuffle=64, seed=3, repeat=2, settings=settings)


def data_from(start):
    def dataset_fn(context):
        return provender.load(
            "notes:1.0.0", batch_size=context.get_per_replica_batch_size(12), start=start,
            drop_remainder=True, input_context=context, **options
        )

    if style == "function":
        return strategy.distribute_datasets_from_function(dataset_fn)
    data = provender.load("notes:1.0.0", batch_size=12, drop_remainder=True, start=start, **options)
    return strategy.experimental_distribute_dataset(data)


@tf.function
def step(texts):
    context = tf.distribute.get_replica_context()
    count = context.all_reduce(tf.distribute.ReduceOp.SUM, tf.size(texts))
    return texts, count


def trained(start, steps):
    found = []
    for batch in data_from(start):
        texts, count = strategy.run(step, [batch["text"]])
        each = [t.numpy().tolist() for t in strategy.experimental_local_results(texts)]
        counts = {int(c) for c in strategy.experimental_local_results(count)}
        assert counts == {12} and [len(t) for t in each] == [6, 6], (counts, each)
        found.append([[text.decode() for text in texts] for texts in each])
        if len(found) == steps:
            break
    return found


print(json.dumps([trained(*map(int, job.split(":"))) for job in jobs]))
"""

HOSTS = """
import json, sys
import tensorflow as tf
import provender

store, catalog, ref, *jobs = sys.argv[1:]
settings = provender.load_settings(store=store, catalog=catalog)


def trained(host, folder, steps):
    context = tf.distribute.InputContext(
        num_input_pipelines=8, input_pipeline_id=host, num_replicas_in_sync=16
    )
    data = provender.load(
        ref, split="train", columns=["text"], batch_size=context.get_per_replica_batch_size(64),
        shuffle=20, seed=9, repeat=2, input_context=context, settings=settings,
    )
    iterator = iter(data)
    checkpoint = tf.train.Checkpoint(iterator=iterator)
    if saved := tf.train.latest_checkpoint(f"{folder}/{host}"):
        checkpoint.restore(saved).assert_consumed()
    found = []
    for batch in iterator:
        found.append([text.decode() for text in batch["text"].numpy()])
        if len(found) == steps:
            checkpoint.save(f"{folder}/{host}/at")
            break
    return found


for folder, steps, every in (job.split(":") for job in jobs):
    print(json.dumps([trained(host, folder, int(steps)) for host in range(0, 8, int(every))]))
"""


def run(program: str, place: Any, home: Path, *args: Any) -> Any:
    settings = place.settings
    command = [sys.executable, "-c", program, settings.store, settings.catalog, *map(str, args)]
    environment = {**os.environ, "PROVENDER_HOME": str(home), "HOME": str(home)}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=250)
    assert done.returncode == 0, done.stderr[-3000:]
    return [json.loads(line) for line in done.stdout.splitlines()]


def texts(place: Any) -> list[str]:
    data = feed(place.store, place.version, "train", FeedOptions(columns=["text"]))
    return [each["text"].numpy().decode() for each in data]


def flat(steps: Sequence[Sequence[Sequence[str]]]) -> list[str]:
    return list(chain.from_iterable(chain.from_iterable(steps)))


@pytest.mark.parametrize("style", ["function", "dataset"])
def test_two_replicas_read_every_example_once_a_pass(
    notes: Any, tmp_path: Path, style: str
) -> None:
    # Jobs of 50 steps, one that was stopped after 7 of them, and one in its second pass.
    ((steps, *again),) = run(REPLICAS, notes, tmp_path, style, "0:0", f"{12 * 7}:4", f"{12 * 31}:4")
    assert len(steps) == 2 * 300 // 12
    seen = flat(steps)
    # 300 examples are 25 steps, so passes end with a step.
    assert sorted(seen[:300]) == sorted(seen[300:]) == sorted(texts(notes))
    assert seen[:300] != seen[300:]
    assert again == [steps[7:11], steps[31:35]]


@pytest.fixture(scope="module")
def many(tmp_path_factory: Any) -> Any:
    """Versions whose files divide among eight hosts, and whose files do not."""
    from tests.upkeep.conftest import BUILDER, Place, make, settings_for

    from provender.catalog import Catalog
    from provender.store import Store

    home = tmp_path_factory.mktemp("many")
    file = home / "notes_builder.py"
    settings = settings_for(home)
    found = {}
    for name, shards in (("files", 16), ("ranges", 3)):
        count = 320 if name == "files" else 300
        text = BUILDER.replace("Notes", name.title()).replace("(300)", f"({count})")
        file = home / f"{name}_builder.py"
        file.write_text(text)
        found[name] = make(file, settings, name.title(), num_shards=shards)
    catalog, store = Catalog.open(settings.catalog), Store.open(settings.store)
    return {name: Place(settings, catalog, store, file, each) for name, each in found.items()}


@pytest.mark.parametrize("name", ["files", pytest.param("ranges", marks=pytest.mark.slow)])
def test_eight_hosts_and_a_restart(many: Any, tmp_path: Path, name: str) -> None:
    place, ref = many[name], f"{name}:1.0.0"
    saved = tmp_path / "saved"
    # All of them, whole; some stopped after 11 steps, in the second pass; then in another process.
    whole, begun = run(HOSTS, place, tmp_path, ref, f"{tmp_path / 'none'}:0:1", f"{saved}:11:3")
    (rest,) = run(HOSTS, place, tmp_path, ref, f"{saved}:0:3")
    assert [one + other for one, other in zip(begun, rest, strict=True)] == whole[::3]
    per_host = len(texts(place)) // 8
    assert {len(steps) for steps in whole} == {-(-2 * per_host // 4)}
    seen = [list(chain(*steps)) for steps in whole]
    first = [text for each in seen for text in each[:per_host]]
    assert len(first) == len(set(first)) == 8 * per_host
    assert set(first) <= set(texts(place))
    for each in seen:
        assert sorted(each[:per_host]) == sorted(each[per_host:])


@pytest.mark.parametrize("start", [0, 1, 6, 7, 8, 20, 21, 30])
@pytest.mark.parametrize(
    "options",
    [{}, {"shuffle": 4}, {"shuffle_files": True, "shuffle": 3}, {"cycle_length": 2}],
    ids=str,
)
def test_reading_goes_on_behind_what_was_consumed(
    odd: Any, options: dict[str, Any], start: int
) -> None:
    def numbers(**more: Any) -> list[int]:
        asked = FeedOptions(columns=["number"], seed=5, repeat=3, batch_size=2, **options, **more)
        data = feed(odd.store, odd.version, "train", asked)
        found = [each["number"].numpy().tolist() for each in data]
        assert len(found) == len(data)
        return list(chain(*found))

    assert numbers(start=start) == numbers()[start:]


def test_a_start_in_an_order_that_nobody_knows() -> None:
    with pytest.raises(SettingsError, match="drawn anew"):
        FeedOptions(shuffle=10, start=4)
    with pytest.raises(SettingsError, match="start is -1"):
        FeedOptions(start=-1)
