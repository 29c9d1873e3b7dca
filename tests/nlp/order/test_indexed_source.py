"""The global order through `tf.data`: hosts, resumes, checkpoints, versions."""

from __future__ import annotations

import json
import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from provender.errors import MissingFiles, SettingsError
from provender.nlp.order import IndexedSource, Input, indexed_source
from provender.settings import Settings

tf = pytest.importorskip("tensorflow")
Make = Callable[..., list[Path]]
BATCH = 24


def steps_of(source: IndexedSource, hosts: int, count: int) -> list[list[bytes]]:
    """The global batches, as so many hosts read them together."""
    per_host = [
        list(source.dataset(at, hosts).batch(BATCH // hosts).take(count).as_numpy_iterator())
        for at in range(hosts)
    ]
    return [[each for part in step for each in part] for step in zip(*per_host, strict=True)]


@pytest.fixture
def mixture(make_files: Make, settings: Settings) -> Callable[..., IndexedSource]:
    inputs = {
        "news": Input(files=make_files("news", 50, 0, 31)),
        "books": Input(files=make_files("books", 40)),
    }

    def make(**options: Any) -> IndexedSource:
        given = {"weights": {"news": 3, "books": 1}, "seed": 9, **options}
        return indexed_source(inputs, global_batch_size=BATCH, settings=settings, **given)

    return make


@pytest.mark.parametrize("seed", [None, 11])
def test_hosts_read_one_order(mixture: Callable[..., IndexedSource], seed: int | None) -> None:
    whole = steps_of(mixture(seed=seed), 1, 18)
    for hosts in (2, 3, 4, 8):
        assert steps_of(mixture(seed=seed), hosts, 18) == whole
    read = [each for step in whole for each in step]
    news = [each for each in read if each.startswith(b"news")]
    assert len(news) == len(read) * 3 // 4
    for epoch in range(4):
        assert len(set(news[epoch * 81 : (epoch + 1) * 81])) == 81
    assert news[:81] != news[81:162]
    assert news[:81] != sorted(news[:81])


@pytest.mark.parametrize(
    ("done", "before", "after"), [(0, 1, 2), (3, 2, 3), (17, 8, 1), (29, 1, 4)]
)
def test_a_resume_is_bit_equal_on_other_hosts(
    mixture: Callable[..., IndexedSource], done: int, before: int, after: int
) -> None:
    whole = steps_of(mixture(), before, done + 4)
    first = mixture()
    state = first.input_state()
    state.advance(done)
    second = mixture()
    second.input_state().load(json.loads(state.to_json()))
    assert steps_of(second, after, 4) == whole[done:]
    assert second.report().sources["news"].examples == done * BATCH * 3 // 4


def test_a_state_loaded_between_dataset_and_iterator(
    mixture: Callable[..., IndexedSource],
) -> None:
    source = mixture()
    whole = steps_of(mixture(), 1, 5)
    dataset = source.dataset().batch(BATCH)
    early = iter(dataset)
    assert next(early).numpy().tolist() == whole[0]
    source.input_state().advance(3)
    assert next(iter(dataset)).numpy().tolist() == whole[3]
    assert next(early).numpy().tolist() == whole[1]


def test_weights_change_at_a_resume(mixture: Callable[..., IndexedSource]) -> None:
    first = mixture()
    state = first.input_state()
    head = steps_of(first, 1, 4)
    state.advance(4)
    second = mixture(weights={"news": 1, "books": 1})
    second.input_state().load(state.as_dict())
    later = steps_of(second, 2, 8)
    assert [sum(each.startswith(b"news") for each in step) for step in later] == [12] * 8
    read = [each for step in head + later for each in step if each.startswith(b"news")]
    assert len(set(read[:81])) == 81


@pytest.mark.parametrize("hosts", [1, 2, 4])
def test_one_pass_in_file_order(mixture: Callable[..., IndexedSource], hosts: int) -> None:
    source = mixture(shuffle=False, repeat=False, stop_on_empty=False, drop_remainder=False)
    shares = [source.dataset(at, hosts) for at in range(hosts)]
    read = [list(each.as_numpy_iterator()) for each in shares]
    assert [int(each.cardinality()) for each in shares] == [len(each) for each in read]
    wanted = [f"news/{at}".encode() for at in range(81)]
    wanted += [f"books/{at}".encode() for at in range(40)]
    assert Counter(each for share in read for each in share) == Counter(wanted)
    if hosts == 1:
        assert [each for each in read[0] if each.startswith(b"news")] == wanted[:81]
        assert list(shares[0].as_numpy_iterator()) == read[0]
    with pytest.raises(SettingsError, match="single pass"):
        source.input_state()


def test_tensorflows_checkpoint_holds_the_state(
    mixture: Callable[..., IndexedSource], tmp_path: Path
) -> None:
    step = tf.Variable(0, dtype=tf.int64)
    source = mixture()
    whole = steps_of(source, 1, 12)
    checkpoint = tf.train.Checkpoint(step=step, input=source.input_state(step))
    step.assign_add(7)
    path = checkpoint.save(str(tmp_path / "ckpt"))
    step.assign_add(2)
    other_step, other = tf.Variable(0, dtype=tf.int64), mixture()
    restored = tf.train.Checkpoint(step=other_step, input=other.input_state(other_step))
    restored.restore(path).assert_consumed()
    assert other.report().step == 7
    assert steps_of(other, 1, 5) == whole[7:]
    # The state saved is that of the step, not of what was read ahead.
    checkpoint.restore(path)
    assert steps_of(source, 4, 5) == whole[7:]


IN_ANOTHER_PROCESS = """
import json, sys
from pathlib import Path
import tensorflow as tf
from provender.nlp.order import Input, indexed_source
from provender.settings import load_settings

folder, checkpoint = sys.argv[1:]
files = sorted(Path(folder).glob("news-*.tfrecord"))
source = indexed_source(Input(files=files), global_batch_size=8, seed=4,
    settings=load_settings(cwd=folder, environ={"PROVENDER_HOME": folder + "/home"}))
step = tf.Variable(0, dtype=tf.int64)
tf.train.Checkpoint(step=step, input=source.input_state(step)).restore(checkpoint).assert_consumed()
read = [[b.tolist() for b in source.dataset(at, 4).batch(2).take(6).as_numpy_iterator()] for at in range(4)]
print(json.dumps([[each.decode() for part in step for each in part] for step in zip(*read)]))
"""


def test_a_new_process_with_more_hosts(
    make_files: Make, settings: Settings, tmp_path: Path
) -> None:
    source = indexed_source(
        Input(files=make_files("news", 50, 31)), global_batch_size=8, seed=4, settings=settings
    )
    step = tf.Variable(0, dtype=tf.int64)
    checkpoint = tf.train.Checkpoint(step=step, input=source.input_state(step))
    whole = list(source.dataset().batch(8).take(19).as_numpy_iterator())
    step.assign(13)
    path = checkpoint.save(str(tmp_path / "ckpt"))
    done = subprocess.run(
        [sys.executable, "-c", IN_ANOTHER_PROCESS, str(tmp_path), path],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout.splitlines()[-1])
    assert found == [[each.decode() for each in step] for step in whole[13:]]


def test_tensorflows_own_iterator_checkpoint(
    mixture: Callable[..., IndexedSource], tmp_path: Path
) -> None:
    """The way of pipelines that do not take as many records a step as the batch has."""
    whole = steps_of(mixture(), 1, 9)
    iterator = iter(mixture().dataset().batch(BATCH).prefetch(2))
    for _ in range(5):
        next(iterator)
    path = tf.train.Checkpoint(iterator=iterator).save(str(tmp_path / "iterator"))
    other = iter(mixture().dataset().batch(BATCH).prefetch(2))
    tf.train.Checkpoint(iterator=other).restore(path)
    assert [next(other).numpy().tolist() for _ in range(4)] == whole[5:]


def test_damage_is_told_through_tensorflow(make_files: Make, settings: Settings) -> None:
    [path] = make_files("a", 40)
    source = indexed_source(Input(files=[path]), global_batch_size=4, settings=settings)
    data = bytearray(path.read_bytes())
    data[14] ^= 1
    path.write_bytes(data)
    with pytest.raises(tf.errors.OpError, match=r"record 0 at byte 0 of a-0.tfrecord"):
        list(source.dataset().take(40))


def test_large_records_come_in_small_blocks(make_files: Make, tmp_path: Path, settings: Settings):
    from provender.records.tfrecord import frame_joined

    path = tmp_path / "large"
    path.write_bytes(frame_joined([b"x" * 300_000] * 20)[0])
    source = indexed_source(
        Input(files=[path]), global_batch_size=5, repeat=False, settings=settings
    )
    assert source._block_size() == 16
    assert len(list(source.dataset(0, 5))) == 4


@pytest.mark.parametrize(
    ("inputs", "options", "words"),
    [
        ({"a": "a"}, {"weights": {"b": 1}}, "Weights are given for 'b', the sources are 'a'"),
        ("a", {"hosts": 5}, "cannot be shared by 5 hosts"),
    ],
)
def test_what_cannot_be_read(
    make_files: Make, settings: Settings, inputs: Any, options: dict[str, Any], words: str
) -> None:
    [path] = make_files("a", 5)

    def made(name: str) -> Input:
        return Input(files=[path if name == "a" else name])

    named = {k: made(v) for k, v in inputs.items()} if isinstance(inputs, dict) else made(inputs)
    hosts = options.pop("hosts", 1)
    with pytest.raises(SettingsError, match=words):
        indexed_source(named, global_batch_size=4, settings=settings, **options).dataset(0, hosts)


def test_remote_files_are_kept_in_the_shard_cache(make_files: Make, settings: Settings) -> None:
    fsspec = pytest.importorskip("fsspec")
    paths = make_files("news", 20, 11)
    memory = fsspec.filesystem("memory")
    for each in paths:
        memory.put(str(each), f"/order-files/{each.name}")
    remote = [f"memory://order-files/{each.name}" for each in paths]
    options = {"global_batch_size": BATCH, "settings": settings}
    far, near = (indexed_source(Input(files=each), **options) for each in (remote, paths))
    assert steps_of(far, 2, 3) == steps_of(near, 1, 3)
    assert far.state.as_dict() == near.state.as_dict()
    kept = sorted(each.read_bytes() for each in (settings.home / "shards").rglob("?" * 64))
    assert kept == sorted(each.read_bytes() for each in paths)
    memory.rm("/order-files", recursive=True)
    assert steps_of(far, 1, 3) == steps_of(near, 1, 3)
    with pytest.raises(MissingFiles, match="no such file"):
        indexed_source(Input(files=remote), **options)


@pytest.mark.parametrize("given", [{}, {"files": ["a"], "version": "b"}])
def test_an_input_is_files_or_a_version(given: dict[str, Any]) -> None:
    with pytest.raises(SettingsError, match="either files or a version"):
        Input(**given)


def test_context_like_values_are_whole_numbers(mixture: Callable[..., IndexedSource]) -> None:
    context = SimpleNamespace(input_pipeline_id=1, num_input_pipelines=2)
    source = mixture()
    own = source.dataset(context.input_pipeline_id, context.num_input_pipelines)
    assert next(iter(own.batch(12))).numpy().tolist() == steps_of(source, 1, 1)[0][12:]
