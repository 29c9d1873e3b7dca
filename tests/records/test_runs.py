"""Parts that are stopped, damaged, refused or short of space."""

from __future__ import annotations

import json
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from provender.errors import (
    BuilderError,
    DamageError,
    DownloadError,
    DuplicateKeyError,
    ExampleError,
)
from provender.records import (
    KeyHasher,
    Order,
    PartResult,
    RunWriter,
    ShardReader,
    plan_order,
    shard_bounds,
    split_digest,
    write_shard,
)
from provender.records import runs as runs_module

from .part_program import examples

PROGRAM = Path(__file__).with_name("part_program.py")


def writer(directory: Path, part: int = 0, parts: int = 1, **changes: Any) -> RunWriter:
    options: dict[str, Any] = {
        "hasher": KeyHasher("train"),
        "encode": lambda value: value,
        "chunk": 64,
        "flush_bytes": 40_000,
    }
    return RunWriter(directory, part, parts, **(options | changes))


def shards(directory: Path, results: list[PartResult], count: int = 3) -> list[bytes]:
    order = plan_order(directory, results)
    out = directory / "out"
    out.mkdir(exist_ok=True)
    made = []
    for i, (start, end) in enumerate(shard_bounds(order.examples, count)):
        write_shard(order, start, end, out / f"{i}")
        made.append((out / f"{i}").read_bytes())
    return made


@pytest.fixture(scope="module")
def expected(tmp_path_factory: pytest.TempPathFactory) -> tuple[list[bytes], str]:
    """Shards and split digest of an undisturbed build in one part and one run."""
    home = tmp_path_factory.mktemp("expected")
    result = writer(home, chunk=64, flush_bytes=64 << 20).write_part(examples())
    assert len(result.runs) == 1
    return shards(home, [result]), split_digest([result])


@pytest.mark.parametrize(
    ("parts", "flush"), [(1, 1), (1, 10_000), (2, 64 << 20), (5, 40_000), (70, 5000)]
)
def test_content_does_not_depend_on_parts_and_runs(
    parts: int, flush: int, expected: tuple[list[bytes], str], tmp_path: Path
) -> None:
    results = [
        writer(tmp_path, part, parts, flush_bytes=flush).write_part(examples())
        for part in reversed(range(parts))
    ]
    assert split_digest(results) == expected[1]
    assert shards(tmp_path, results) == expected[0]


def test_split_digest_sees_keys_values_and_order() -> None:
    pairs = [(i, b"%d" % i) for i in range(10)]
    changed = [[*pairs[:9], (10, b"9")], [*pairs[:9], (9, b"x")], pairs[::-1], pairs[:9]]
    found = {digest_of(case) for case in [pairs, *changed]}
    assert len(found) == 5


def digest_of(pairs: list[tuple[Any, bytes]]) -> str:
    import tempfile

    with tempfile.TemporaryDirectory() as home:
        return split_digest([writer(Path(home)).write_part(pairs)])


def test_a_killed_part_goes_on(expected: tuple[list[bytes], str], tmp_path: Path) -> None:
    command = [sys.executable, str(PROGRAM), str(tmp_path), "0", "2"]
    process = subprocess.Popen([*command, "0.05"], stdout=subprocess.PIPE)
    deadline = time.monotonic() + 60
    while len(list(tmp_path.glob("*.run-*.json"))) < 3 and time.monotonic() < deadline:
        time.sleep(0.01)
    process.send_signal(signal.SIGKILL)
    process.communicate()
    kept = sum(json.loads(p.read_bytes())["examples"] for p in tmp_path.glob("*.run-*.json"))
    assert 0 < kept < 2000
    (tmp_path / "part-00000-of-00002.run-0099.rec.tmp-1").write_bytes(b"left over")
    again = subprocess.run([*command, "0"], capture_output=True, check=True, text=True)
    mine = sum(1 for i in range(4000) if i // 64 % 2 == 0)
    assert int(again.stdout) == mine - kept
    assert not list(tmp_path.glob("*.tmp-*"))
    results = [writer(tmp_path, part, 2).write_part(examples()) for part in (0, 1)]
    assert split_digest(results) == expected[1]
    assert shards(tmp_path, results) == expected[0]


def test_a_finished_part_does_not_touch_the_generator(tmp_path: Path) -> None:
    first = writer(tmp_path).write_part(examples())

    def never() -> Iterator[Any]:
        raise AssertionError
        yield

    seen: list[tuple[int, int]] = []
    again = writer(tmp_path).write_part(never(), lambda *now: seen.append(now))
    assert again == first == PartResult.from_json(json.loads(json.dumps(first.to_json())))
    assert seen == [(4000, first.payload_bytes)]


@pytest.mark.parametrize(
    "change", [{"hasher": KeyHasher("test")}, {"chunk": 32}, {"max_examples": 9}]
)
def test_runs_of_another_kind_are_not_reused(change: dict[str, Any], tmp_path: Path) -> None:
    writer(tmp_path / "a").write_part(examples())
    changed = writer(tmp_path / "a", **change).write_part(examples())
    assert changed == writer(tmp_path / "b", **change).write_part(examples())


@pytest.mark.parametrize("suffix", [".rec", ".idx", ".keys", ".json"])
@pytest.mark.parametrize("how", ["flip", "cut", "remove"])
def test_damaged_runs_are_noticed_and_replaced(
    suffix: str, how: str, expected: tuple[list[bytes], str], tmp_path: Path
) -> None:
    result = writer(tmp_path).write_part(examples())
    path = tmp_path / (result.runs[1].name + suffix)
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 255
    if how == "remove":
        path.unlink()
    else:
        path.write_bytes(content if how == "flip" else content[:-1])
    if suffix != ".json":
        with pytest.raises(DamageError, match=path.name):
            plan_order(tmp_path, [result])
    encoded: list[bytes] = []

    def encode(value: bytes) -> bytes:
        encoded.append(value)
        return value

    (tmp_path / "part-00000-of-00001.json").unlink()
    again = writer(tmp_path, encode=encode).write_part(examples())
    assert len(encoded) == 4000 - again.runs[0].examples
    assert again.runs[0] == result.runs[0]
    assert shards(tmp_path, [again]) == expected[0]


def test_a_run_cut_off_after_planning(tmp_path: Path) -> None:
    result = writer(tmp_path).write_part(examples())
    order = plan_order(tmp_path, [result])
    path = tmp_path / f"{result.runs[0].name}.rec"
    path.write_bytes(path.read_bytes()[:-9000])
    with pytest.raises(DamageError):
        write_shard(order, 0, order.examples, tmp_path / "shard")
    assert not list(tmp_path.glob("shard*"))


def test_any_range_from_a_loaded_order(expected: tuple[list[bytes], str], tmp_path: Path) -> None:
    result = writer(tmp_path, flush_bytes=3000).write_part(examples())
    plan_order(tmp_path, [result])
    order = Order.load(tmp_path)
    whole = write_shard(order, 0, 4000, tmp_path / "whole")
    assert (tmp_path / "whole").read_bytes() == b"".join(expected[0])
    assert whole.payload_bytes == order.payload_bytes == result.payload_bytes
    with ShardReader(tmp_path / "whole") as reader:
        records = list(reader.iter())
    for start, end in ((0, 0), (0, 1), (3999, 4000), (1234, 2345)):
        part = write_shard(order, start, end, tmp_path / "p", tmp_path / "p.idx")
        with ShardReader(tmp_path / "p", tmp_path / "p.idx") as reader:
            assert list(reader.iter()) == records[start:end]
        assert part.examples == end - start
    with pytest.raises(BuilderError):
        write_shard(order, 5, 4001, tmp_path / "p")


def test_hashes_of_a_shard(tmp_path: Path) -> None:
    import base64
    import hashlib

    import google_crc32c

    order = plan_order(tmp_path, [writer(tmp_path).write_part(examples())])
    shard = write_shard(order, 10, 3000, tmp_path / "s")
    content = (tmp_path / "s").read_bytes()
    assert shard.sha256 == hashlib.sha256(content).hexdigest()
    check = google_crc32c.Checksum(content)
    assert base64.b64encode(bytes.fromhex(shard.crc32c)) == base64.b64encode(check.digest())
    index = (tmp_path / shard.index_name).read_bytes()
    assert (shard.index_size, shard.index_sha256) == (len(index), hashlib.sha256(index).hexdigest())


def test_examples_larger_than_a_run_and_a_window(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from provender.records import merge

    monkeypatch.setattr(merge, "_MAX_WINDOW_BYTES", 50_000)
    pairs = [(i, bytes([i]) * (300_000 if i % 9 == 0 else 10)) for i in range(100)]
    result = writer(tmp_path, chunk=16).write_part(pairs)
    assert sum(not run.complete for run in result.runs) > 0
    order = plan_order(tmp_path, [result])
    write_shard(order, 0, 100, tmp_path / "s")
    hasher = KeyHasher("train")
    with ShardReader(tmp_path / "s") as reader:
        by_key = sorted(pairs, key=lambda pair: hasher.digest(pair[0], 0))
        assert list(reader.iter()) == [value for _, value in by_key]


def test_stopped_inside_a_chunk_that_spans_runs(tmp_path: Path) -> None:
    pairs = [(i, bytes([i]) * 30_000) for i in range(100)]

    def breaks() -> Iterator[Any]:
        yield from pairs[:40]
        raise OSError("gone")

    with pytest.raises(BuilderError):
        writer(tmp_path, chunk=16).write_part(breaks())
    result = writer(tmp_path, chunk=16).write_part(pairs)
    undisturbed = writer(tmp_path / "other", chunk=16).write_part(pairs)
    assert split_digest([result]) == split_digest([undisturbed])
    assert shards(tmp_path, [result]) == shards(tmp_path / "other", [undisturbed])


def test_max_examples_counts_over_all_parts(tmp_path: Path) -> None:
    results = [
        writer(tmp_path, part, 3, max_examples=1000).write_part(examples()) for part in range(3)
    ]
    assert [r.generated for r in results] == [1000] * 3
    assert sum(r.examples for r in results) == 1000
    one = writer(tmp_path / "one", max_examples=1000).write_part(examples())
    assert split_digest(results) == split_digest([one])


def test_an_empty_split(tmp_path: Path) -> None:
    result = writer(tmp_path).write_part([])
    assert (result.examples, result.runs) == (0, ())
    order = plan_order(tmp_path, [result])
    assert (order.examples, order.payload_bytes) == (0, 0)
    assert Order.load(tmp_path).examples == 0


def test_progress_is_told_at_a_bearable_pace(tmp_path: Path) -> None:
    calls: list[tuple[float, int, int]] = []
    writer(tmp_path).write_part(slowly(), lambda n, size: calls.append((time.monotonic(), n, size)))
    assert 3 <= len(calls) <= 12
    assert calls[-1][1] == 50
    assert [n for _, n, _ in calls] == sorted(n for _, n, _ in calls)


def slowly() -> Iterator[tuple[int, bytes]]:
    for i in range(50):
        time.sleep(0.02)
        yield i, b"x"


# --- faults of builders ------------------------------------------------------------------------


def breaks_at(position: int, error: Exception) -> Callable[[], Iterator[Any]]:
    def make() -> Iterator[Any]:
        for i in range(position):
            yield f"k{i}", b"%d" % i
        raise error

    return make


@pytest.mark.parametrize("position", [0, 1, 63, 64, 100, 200])
@pytest.mark.parametrize("part", [0, 1])
def test_a_generator_that_raises(position: int, part: int, tmp_path: Path) -> None:
    make = breaks_at(position, KeyError("colour"))
    with pytest.raises(BuilderError, match="KeyError: 'colour'") as caught:
        writer(tmp_path, part, 2).write_part(make())
    facts = caught.value.facts
    assert facts["position"] == position
    assert facts["last_key"] == (repr(f"k{position - 1}") if position else None)
    assert "test_runs.py" in facts["traceback"]


def test_work_before_a_fault_is_kept(tmp_path: Path) -> None:
    with pytest.raises(BuilderError):
        writer(tmp_path).write_part(breaks_at(200, OSError("network"))())
    encoded: list[bytes] = []

    def encode(value: bytes) -> bytes:
        encoded.append(value)
        return value

    writer(tmp_path, encode=encode).write_part((f"k{i}", b"%d" % i) for i in range(200))
    assert len(encoded) == 200 - 3 * 64


def test_our_own_errors_pass_through(tmp_path: Path) -> None:
    with pytest.raises(DownloadError, match="offline"):
        writer(tmp_path).write_part(breaks_at(3, DownloadError("offline"))())


@pytest.mark.parametrize("item", [5, ("k", 1, 2), None])
def test_items_that_are_no_pairs(item: Any, tmp_path: Path) -> None:
    with pytest.raises(BuilderError, match=r"did not yield a \(key, example\) pair"):
        writer(tmp_path).write_part([("a", b""), item])


def test_an_example_that_cannot_be_encoded(tmp_path: Path) -> None:
    with pytest.raises(ExampleError, match="ZeroDivisionError") as caught:
        writer(tmp_path, encode=lambda value: b"x" * (1 // value)).write_part(
            [("a", 1), ("b", 0), ("c", 1)]
        )
    assert caught.value.facts["key"] == "'b'"
    assert caught.value.facts["position"] == 1


def test_an_example_beyond_protobuf_s_limit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(runs_module, "MAX_EXAMPLE_BYTES", 1000)
    with pytest.raises(ExampleError, match="'big' has 1,001 bytes"):
        writer(tmp_path).write_part([("ok", b"x" * 1000), ("big", b"x" * 1001)])


def test_examples_are_encoded_before_the_generator_goes_on(tmp_path: Path) -> None:
    """Builders yield one buffer again and again, or a file that is closed on the next step."""

    def reuses() -> Iterator[tuple[int, bytearray]]:
        buffer = bytearray(1)
        for i in range(200):
            buffer[0] = i
            yield i, buffer

    order = plan_order(tmp_path, [writer(tmp_path, encode=bytes).write_part(reuses())])
    write_shard(order, 0, 200, tmp_path / "s")
    with ShardReader(tmp_path / "s") as reader:
        assert sorted(reader.iter()) == [bytes([i]) for i in range(200)]


def test_generators_that_differ_between_parts(tmp_path: Path) -> None:
    first = writer(tmp_path, 0, 2).write_part([(i, b"") for i in range(200)])
    second = writer(tmp_path, 1, 2).write_part([(i, b"") for i in range(201)])
    with pytest.raises(BuilderError, match="same examples each time"):
        plan_order(tmp_path, [first, second])
    with pytest.raises(BuilderError, match="not all parts"):
        split_digest([first])


@pytest.mark.parametrize("parts", [1, 2])
@pytest.mark.parametrize(
    ("again", "text"), [("k17", "share the key 'k17'"), ("d\\e", "'d/e' and 'd\\\\\\\\e'")]
)
def test_duplicate_keys_are_found_before_any_shard(
    parts: int, again: str, text: str, tfds: Any, tmp_path: Path
) -> None:
    from provender.records import compile_encoder

    encode = compile_encoder(tfds.features.FeaturesDict({"text": tfds.features.Text()}))
    pairs = [(f"k{i}", {"text": f"value {i}"}) for i in range(300)]
    pairs[3] = ("d/e", {"text": "value 3"})
    pairs[250] = (again, {"text": "the second"})
    results = [
        writer(tmp_path, part, parts, encode=encode, flush_bytes=2000).write_part(pairs)
        for part in range(parts)
    ]
    with pytest.raises(DuplicateKeyError, match=text) as caught:
        plan_order(tmp_path, results)
    first, second = caught.value.facts["first"], caught.value.facts["second"]
    assert (first["position"], second["position"]) == (17 if again == "k17" else 3, 250)
    assert "the second" in second["example"]
    assert f"value {first['position']}" in first["example"]


# --- full disks --------------------------------------------------------------------------------


def test_a_full_disk_is_told_and_gone_on_from(
    expected: tuple[list[bytes], str], tmp_path: Path
) -> None:
    disk, saved = tmp_path / "disk", tmp_path / "saved"
    disk.mkdir()
    script = (
        f"mount -t tmpfs -o size=300k none {disk} || exit 77; "
        f"{sys.executable} {PROGRAM} {disk} 0 1 0; code=$?; cp -r {disk} {saved}; exit $code"
    )
    if shutil.which("unshare") is None:
        pytest.skip("needs unshare to make a small disk")
    done = subprocess.run(
        ["unshare", "--map-root-user", "--user", "--mount", "sh", "-c", script],
        capture_output=True,
        text=True,
    )
    if done.returncode in (1, 77):
        pytest.skip(f"a small disk cannot be made here: {done.stderr}")
    assert done.stdout.startswith("DiskFull No space left to write part-00000-of-00001.run-"), done
    assert str(disk) in done.stdout
    assert not list(saved.glob("*.tmp-*"))
    assert list(saved.glob("*.run-*.json"))
    result = writer(saved).write_part(examples())
    assert shards(saved, [result]) == expected[0]
